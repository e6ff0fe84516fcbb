/* outcome.c - writes a box's facts and a program's ending into the result; see outcome.h. */
#include "runtime/outcome.h"

#include <sys/wait.h>

#include "base/cleanup.h"

#define EXIT_CODE_NOT_FOUND 127 /* as in the shells */

void outcome_isolation(struct result *result, const struct box_facts *facts)
{
    result->layers = facts->layers;
    result->missing = facts->missing;
    result->memory_by = facts->memory_by;
    result->pids_by = facts->pids_by;
    result->cpu_by = facts->cpu_by;
    result->disk_by = facts->disk_by;
}

void outcome_usage(struct result *result, const struct box_facts *facts)
{
    result->usage = facts->usage;
    result->oom_killed |= facts->oom_kills > 0;
}

void outcome_told(struct result *result, const struct usage *told)
{
    struct usage *usage = &result->usage;

    if (told->by == USAGE_BY_NONE)
        return;
    usage->cpu_us = MAX(usage->cpu_us, told->cpu_us); /* not every control group counts CPU time */
    if (usage->by != USAGE_BY_ENGINE) {
        usage->max_rss_bytes = MAX(usage->max_rss_bytes, told->max_rss_bytes);
        usage->by = told->by;
    }
}

int outcome_exit_code(const struct exec_end *end)
{
    if (end->timed_out)
        return -1;
    return end->signal ? 128 + end->signal : end->exit_code;
}

void outcome_end(struct result *result, const struct exec_end *end)
{
    result->duration_ns = end->duration_ns;
    result->disk_full = end->disk_full;
    result->oom_killed = end->memory_watchdog;
    result->timed_out = end->timed_out;
    result->signal = end->timed_out ? 0 : end->signal;
    result->exit_code = outcome_exit_code(end);
    if (end->timed_out)
        result_note(result, "timed out after %g s", (double)result->limits.timeout_ms / 1000);
}

void outcome_status(struct result *result, const int *status)
{
    if (result->timed_out)
        return;
    result->signal = status && WIFSIGNALED(*status) ? WTERMSIG(*status) : 0;
    if (!status) {
        result->exit_code = 1;
        result_note(result, "the program ended, and its status is unknown");
    } else {
        result->exit_code = result->signal ? 128 + result->signal : WEXITSTATUS(*status);
    }
}

void outcome_failed(struct result *result)
{
    if (result->error.code && result->error.code != ERROR_CANCELLED && result->duration_ns == 0)
        result->exit_code = outcome_error_code(&result->error);
}

int outcome_error_code(const struct error *err)
{
    return err->code == ERROR_COMMAND_NOT_FOUND ? EXIT_CODE_NOT_FOUND : 1;
}
