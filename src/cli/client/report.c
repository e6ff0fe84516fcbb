/* report.c - prints how a command in a session ended; see report.h. */
#include "cli/client/report.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/format.h"
#include "cli/command.h"
#include "cli/explain.h"
#include "cli/message.h"
#include "cli/sanitize.h"
#include "model/result.h"

int report_words(const char *const *words, json_t **ret, struct error *err)
{
    CLEANUP(json_freep) json_t *array = json_array();

    for (; *words; words++)
        if (json_array_append_new(array, json_string(*words)) < 0)
            return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                             "the argument '%.100s' is not UTF-8 text; put it in a file and copy "
                             "that with 'bailey cp'",
                             *words);
    *ret = ptr_take(&array);
    return 0;
}

int report_env(char *const *env, json_t **ret, struct error *err)
{
    CLEANUP(json_freep) json_t *object = json_object();

    for (; env && *env; env++) {
        const char *equals = strchr(*env, '=');
        char name[256];

        if (!equals || str_format(name, sizeof(name), "%.*s", (int)(equals - *env), *env) < 0 ||
            json_object_set_new(object, name, json_string(equals + 1)) < 0)
            return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                             "--env '%.100s': the value is not UTF-8 text, or the name is too long",
                             *env);
    }
    *ret = ptr_take(&object);
    return 0;
}

static void say_why_it_ended(const struct result *result, bool is_cell)
{
    char limit[64];

    if (result->error.code) {
        message_bad_input(&result->error); /* the daemon's message says what to do next */
        return;
    }
    if (result->timed_out) {
        explain_seconds(result->limits.timeout_ms, limit, sizeof(limit));
        message_print("timed out after %s; --timeout TIME gives it longer%s", limit,
                      is_cell ? "" : ", -d leaves it running");
    }
    if (result->signal > 0 && !result->timed_out && !result->oom_killed)
        message_print("killed by signal %d (%s)", result->signal, strsignal(result->signal));
    if (result->oom_killed) {
        str_from_bytes(result->limits.memory_bytes, limit, sizeof(limit));
        message_print("out of memory (limit %s): use less memory, or make a session with more: "
                      "bailey session new --memory SIZE",
                      limit);
    }
    if (result->disk_full) {
        str_from_bytes(result->limits.disk_bytes, limit, sizeof(limit));
        message_print("disk full (limit %s): remove files, or make a session with more: "
                      "bailey session new --disk SIZE",
                      limit);
    }
}

static void say_files(const struct result *result)
{
    for (size_t i = 0; i < result->file_count; i++) {
        const struct output_file *file = &result->files[i];
        CLEANUP(buf_free) struct buf name = BUF_INIT(SANITIZE_GROWTH * (LIMIT_PATH_BYTES + 1));
        char size[FORMAT_SIZE];
        bool is_there;

        /* The guest chose the name: a newline in it must not look like a message of this
         * program. */
        is_there = file->path && str_starts(file->path, "/v1/"); /* over TCP: an address of REST */
        sanitize_line(file->path && !file->skipped && !is_there ? file->path : file->name, &name);
        format_bytes(file->bytes, size);
        if (is_there && !file->skipped)
            message_print("saved on the server: /tmp/output/%s (%s)", buf_text(&name), size);
        else if (file->path && !file->skipped)
            message_print("saved %s (%s)", buf_text(&name), size);
        else
            message_print("not saved: /tmp/output/%s (%s, %s)", buf_text(&name), size,
                          file->skipped ? file->skipped : "it stays in the box");
    }
}

static int read_result(json_t *json, struct result *result, struct error *err)
{
    result_init(result, &(struct limits){.output_bytes = LIMIT_OUTPUT_MAX});
    return result_from_json(json, result, err);
}

int report_result(json_t *json, bool is_quiet)
{
    struct result result;
    struct error err = {0};
    int status;

    if (read_result(json, &result, &err) < 0) {
        result_free(&result);
        error_prefix(&err, "the daemon's result");
        return message_bad_input(&err);
    }
    say_why_it_ended(&result, json_object_get(json, "results"));
    if (!is_quiet)
        say_files(&result);
    status = result_exit_status(&result);
    result_free(&result);
    return status;
}

int report_status(json_t *json, int signal)
{
    struct result result;
    struct error err = {0};
    int status;

    if (signal)
        return 128 + signal;
    status = read_result(json, &result, &err) < 0 ? STATUS_BAD_INPUT : result_exit_status(&result);
    result_free(&result);
    return status;
}

void report_missed(const struct follow *follow)
{
    static const char *const names[] = {"output", "error"};

    for (int i = 0; i < 2; i++)
        if (follow->missed[i] > 0)
            message_print("%llu bytes of standard %s are no longer stored",
                          (unsigned long long)follow->missed[i], names[i]);
}

void report_command(json_t *argv, struct buf *to)
{
    json_t *word;
    size_t i;

    json_array_foreach(argv, i, word)
    {
        const char *text = json_string_value(word);
        bool is_plain = text && text[0] && !strpbrk(text, " \t\n'\"\\$`;&|<>*?");

        buf_printf(to, "%s%s%s%s", i > 0 ? " " : "", is_plain ? "" : "'", text ? text : "",
                   is_plain ? "" : "'");
    }
}

bool report_is_alive(json_t *process)
{
    const char *state = member_text(process, "state");

    return str_equal(state, "running") || str_equal(state, "waiting");
}

void report_process_state(json_t *process, char text[FORMAT_SIZE])
{
    if (json_is_true(json_object_get(process, "timed_out")))
        str_copy(text, FORMAT_SIZE, "timed out");
    else if (json_is_integer(json_object_get(process, "exit_code")) && !report_is_alive(process))
        str_format(text, FORMAT_SIZE, "exit %lld",
                   (long long)json_integer_value(json_object_get(process, "exit_code")));
    else
        str_format(text, FORMAT_SIZE, "%.40s", member_text(process, "state"));
}
