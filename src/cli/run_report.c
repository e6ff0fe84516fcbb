/* run_report.c - the report after a run: the JSON document, or a few lines on standard error. */
#include "cli/run_report.h"

#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/command.h"
#include "cli/explain.h"
#include "cli/message.h"
#include "cli/sanitize.h"

static void say_why_it_ended(const struct run_report *report, const struct result *result)
{
    char limit[64];

    if (report->signal) {
        message_print("interrupted");
        return;
    }
    if (report->output.failure == -EPIPE)
        return; /* the reader has gone: as quiet as SIGPIPE */
    if (report->output.failure < 0) {
        message_print("writing standard %s: %s; the run was ended",
                      report->output.failed_stream == 2 ? "error" : "output",
                      strerror(-report->output.failure));
        return;
    }
    if (result->error.code) {
        message_error(&result->error);
        return;
    }
    if (result->timed_out) {
        explain_seconds(result->limits.timeout_ms, limit, sizeof(limit));
        message_print("timed out after %s; --timeout TIME gives it longer", limit);
    }
    if (result->signal > 0 && !result->timed_out && !result->oom_killed)
        message_print("killed by signal %d (%s)", result->signal, strsignal(result->signal));
    if (result->oom_killed) {
        str_from_bytes(result->limits.memory_bytes, limit, sizeof(limit));
        message_print("out of memory (limit %s): raise it with --memory SIZE, or use less memory",
                      limit);
    }
    if (result->disk_full) {
        str_from_bytes(result->limits.disk_bytes, limit, sizeof(limit));
        message_print(
            "disk full (limit %s): raise it with --disk SIZE and a larger --memory, or write less",
            limit);
    }
}

/* "58 bytes", "2 KB", "1.5 MB": for people, not for parsing. */
static void size_text(uint64_t bytes, char *text, size_t size)
{
    static const char *const units[] = {"KB", "MB", "GB", "TB"};
    double value = (double)bytes / 1024;
    size_t unit = 0;

    if (bytes < KIB) {
        str_format(text, size, "%llu byte%s", (unsigned long long)bytes, bytes == 1 ? "" : "s");
        return;
    }
    for (; value >= 1024 && unit + 1 < ARRAY_SIZE(units); unit++)
        value /= 1024;
    str_format(text, size, "%.10g %s", (double)(uint64_t)(value * 10 + 0.5) / 10, units[unit]);
}

static void say_file(const struct output_file *file)
{
    CLEANUP(buf_free) struct buf name = BUF_INIT(SANITIZE_GROWTH * (LIMIT_PATH_BYTES + 1));
    char size[32];

    /* The guest chose the name: a newline in it must not look like a message of ours. */
    sanitize_line(file->path && !file->skipped ? file->path : file->name, &name);
    if (file->skipped || !file->path) {
        message_print("not fetched: %s (%s)", buf_text(&name),
                      file->skipped ? file->skipped : "not fetched");
        return;
    }
    size_text(file->bytes, size, sizeof(size));
    message_print("fetched %s (%s)", buf_text(&name), size);
}

static void say_files(const struct result *result, const struct request *request)
{
    unsigned long long total = result->total_output_files;

    if (!request->out) {
        if (total > 0)
            message_print("%llu file%s in /tmp/output %s not fetched; use --out DIR", total,
                          total == 1 ? "" : "s", total == 1 ? "was" : "were");
        return;
    }
    for (size_t i = 0; i < result->file_count; i++)
        say_file(&result->files[i]);
    if (total > result->file_count)
        message_print("%llu more files in /tmp/output were not fetched; pack them into one file",
                      total - result->file_count);
}

static void print_tables(const struct request *request, const struct result *result,
                         const struct oneshot_extra *extra)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);

    if (request->has_explain)
        explain_result(result, &text);
    if (request->has_timing)
        explain_timing(extra, &text);
    stream_write(STDERR_FILENO, buf_text(&text), text.length, -1);
}

static int status_of(const struct run_report *report, const struct result *result)
{
    if (report->signal)
        return 128 + report->signal;
    if (report->output.failure == -EPIPE)
        return 128 + SIGPIPE;
    if (report->output.failure < 0)
        return STATUS_BAD_INPUT;
    return result_exit_status(result);
}

int run_report_print(const struct run_report *report, const struct result *result,
                     const struct oneshot_extra *extra)
{
    const struct request *request = report->request;
    int status = status_of(report, result);

    if (request->is_json) {
        int printed = print_json(result_to_json(result));

        if (result->error.code == ERROR_BLOCKED_IMPORT)
            log_warning("%s",
                        result->error
                            .text); /* a refusal is logged, even if the result is printed as JSON */
        if (printed != 0)
            status = printed;
    } else {
        const char *installed = json_string_value(json_object_get(result->install, "install_note"));

        /* The error of the first time was shown already. */
        if (installed && !request->is_quiet)
            message_print("%s", installed);
        say_why_it_ended(report, result);
        if (!request->is_quiet && !result->error.code)
            say_files(result, request);
    }
    if (extra->artifact_error.code && !request->is_quiet)
        message_print("%s, continuing without a stored execution", extra->artifact_error.text);
    if (request->has_explain || request->has_timing)
        print_tables(request, result, extra);
    return status;
}
