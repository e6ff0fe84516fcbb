/*
 * run_python_code.c - the tool run_python_code {code, timeout}: runs code in a new box and replies
 * with a compact text.
 *
 * The reply is for a model: on success only the program's output; otherwise one line with the
 * error, one line with advice, then the output before the error and the whole traceback.
 */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "oneshot/built.h"
#include "oneshot/oneshot.h"
#include "session/missing.h"
#include "tool/tool.h"

#define HEADLINE_MAX 300

/* Advice for an agent about an error of the engine. */
static const char *advice(const char *code)
{
    static const struct {
        const char *code;
        const char *text;
    } rows[] = {
        {ERROR_BLOCKED_IMPORT, "Nothing was run. Write it without that module and call again."},
        {ERROR_REFUSED,
         "Nothing was run. This machine cannot give the isolation that is asked for; "
         "tell the user to run 'bailey doctor'."},
        {ERROR_NO_INTERPRETER,
         "Nothing was run. Tell the user to install Python or to set SANDBOX_PYTHON."},
        {ERROR_BAD_CONFIG, "Nothing was run. Tell the user: the configuration is wrong; calling "
                           "again does not help."},
        {ERROR_BOX_FAILED, "Nothing was run. Tell the user to run 'bailey doctor'."},
        {ERROR_TOO_LARGE, "Make it smaller and call again."},
        {ERROR_CANCELLED, "The run was cancelled."},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (str_equal(code, rows[i].code))
            return rows[i].text;
    return "Call again; if it stays, tell the user to run 'bailey doctor'.";
}

/* The end of the line at `at`. */
static const char *line_end(const char *at)
{
    return at + strcspn(at, "\n");
}

/*
 * The line that names the exception: the first line without indentation after the last "Traceback"
 * or, for a syntax error, which has none, after the first "  File". NULL: there is no exception.
 */
static const char *exception_line(const char *text)
{
    const char *start = NULL, *file = NULL;

    for (const char *at = text; *at; at = *line_end(at) ? line_end(at) + 1 : line_end(at)) {
        if (str_starts(at, "Traceback (most recent call last):"))
            start = at;
        else if (!file && str_starts(at, "  File \""))
            file = at;
    }
    start = start ? start : file;
    while (start && *(start = line_end(start))) {
        start++;
        if (*start && *start != ' ' && *start != '\n')
            return start;
    }
    return NULL;
}

static int failure_headline(const struct result *result, const char *stderr_text, struct buf *reply)
{
    const char *line = exception_line(stderr_text);
    size_t length;

    if (result->signal > 0)
        return buf_printf(reply, "Error: killed by signal %d, %s (exit code %d)\n", result->signal,
                          strsignal(result->signal), result->exit_code);
    if (!line)
        return buf_printf(reply, "Error: the program ended with exit code %d\n", result->exit_code);
    length = utf8_floor(line, MIN((size_t)(line_end(line) - line), (size_t)HEADLINE_MAX));
    return buf_printf(reply, "Error: %.*s (exit code %d)\n", (int)length, line, result->exit_code);
}

int run_python_code_failed(const struct error *err, struct buf *reply)
{
    return buf_printf(reply, "Error: %s\n%s\n", err->text, advice(err->code));
}

/* The lines with the error and the advice; nothing on success. */
static int headline(const struct result *result, const char *stderr_text, struct buf *reply)
{
    char limit[32];
    int failed = 0;

    if (result->error.code)
        return run_python_code_failed(&result->error, reply);
    if (result->timed_out)
        return buf_printf(reply,
                          "Error: timed out after %g s\nThe code was stopped. Make it faster, "
                          "do less in one call, or ask for a larger timeout (at most %llu).\n",
                          (double)result->limits.timeout_ms / 1000.0, LIMIT_TIMEOUT_MS / 1000);
    if (result->oom_killed) {
        str_from_bytes(result->limits.memory_bytes, limit, sizeof(limit));
        return buf_printf(reply,
                          "Error: out of memory (limit %s)\nThe code was killed. Hold less at "
                          "once: read in pieces, fewer columns, smaller types.\n",
                          limit);
    }
    if (result->exit_code != 0)
        failed |= failure_headline(result, stderr_text, reply);
    if (result->disk_full) {
        str_from_bytes(result->limits.disk_bytes, limit, sizeof(limit));
        failed |= buf_printf(reply,
                             "The disk was full (limit %s). Write less, or delete files that "
                             "are no longer needed.\n",
                             limit);
    }
    return failed;
}

static int section(const char *title, const struct buf *text, struct buf *reply)
{
    int failed = 0;

    if (text->length == 0)
        return 0;
    if (reply->length > 0 && reply->data[reply->length - 1] != '\n')
        failed |= buf_append_text(reply, "\n");
    failed |= buf_printf(reply, "[%s]\n", title);
    failed |= buf_append(reply, text->data, text->length);
    return failed;
}

static int truncation(const struct result *result, struct buf *reply)
{
    int failed = 0;

    if (!result->out.is_truncated && !result->err.is_truncated)
        return 0;
    if (reply->length > 0 && reply->data[reply->length - 1] != '\n')
        failed |= buf_append_text(reply, "\n");
    return failed |
           buf_printf(reply,
                      "[%llu bytes were printed, %llu are kept of each stream. Print "
                      "less: a summary, or the first rows.]\n",
                      (unsigned long long)(result->out.total_bytes + result->err.total_bytes),
                      (unsigned long long)result->limits.output_bytes);
}

/* The note about a missing module. */
static int install_note(const struct result *result, struct buf *reply)
{
    const char *note = json_string_value(json_object_get(result->install, "install_note"));
    int failed = 0;

    if (!note)
        return 0;
    if (reply->length > 0 && reply->data[reply->length - 1] != '\n')
        failed |= buf_append_text(reply, "\n");
    return failed | buf_printf(reply, "[%s]\n", note);
}

static int no_output(const struct result *result, struct buf *reply)
{
    unsigned long long files = result->total_output_files;

    if (files == 0)
        return buf_append_text(reply, "(no output; print() what you want to see)\n");
    return buf_printf(reply,
                      "(no output; %llu file%s written to /tmp/output and %s gone with the box. "
                      "print() what you want to see)\n",
                      files, files == 1 ? " was" : "s were", files == 1 ? "is" : "are");
}

int run_python_code_reply(const struct result *result, struct buf *reply)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(TOOL_REPLY_MAX);
    CLEANUP(buf_free) struct buf err = BUF_INIT(TOOL_REPLY_MAX);
    uint64_t invalid;
    int failed = 0;

    if (capture_text(&result->out, &out, &invalid) < 0 ||
        capture_text(&result->err, &err, &invalid) < 0)
        return -ENOMEM;
    failed |= headline(result, buf_text(&err), reply);
    if (reply->length > 0)
        failed |= section("stdout", &out, reply);
    else
        failed |= buf_append(reply, buf_text(&out), out.length);
    failed |= section("stderr", &err, reply);
    failed |= truncation(result, reply);
    if (failed == 0 && reply->length == 0)
        failed |= no_output(result, reply);
    failed |= install_note(result, reply);
    return failed < 0 ? -ENOMEM : 0;
}

bool tool_missing_hint(const struct result *result, const struct config *config, const char *state,
                       struct buf *text)
{
    CLEANUP(buf_free) struct buf err = BUF_INIT(TOOL_REPLY_MAX);
    char module[LIMIT_MODULE + 1], package[LIMIT_REQUIREMENT + 1], template[LIMIT_NAME + 1];
    struct missing_hint hint = {.module = module, .config = config, .place = MISSING_ALONE};
    struct error ignored = {0};
    uint64_t invalid;

    if (result->exit_code == 0 || result->error.code || result->install ||
        capture_text(&result->err, &err, &invalid) < 0 ||
        !missing_from_output(buf_text(&err), err.length, module))
        return false;
    if (missing_package(module, NULL, NULL, package, &ignored) == 0 &&
        built_with(config, state, package, template))
        hint.template = template;
    return missing_hint(&hint, text);
}

static int add_hint(const struct result *result, const struct tool_context *context,
                    struct buf *reply)
{
    CLEANUP(buf_free) struct buf hint = BUF_INIT(4 * KIB);
    int failed = 0;

    if (!tool_missing_hint(result, context->config, context->state, &hint))
        return 0;
    if (reply->length > 0 && reply->data[reply->length - 1] != '\n')
        failed |= buf_append_text(reply, "\n");
    return (failed | buf_printf(reply, "[hint] %s\n", buf_text(&hint))) < 0 ? -ENOMEM : 0;
}

/* 0 with *ret_ms set; a positive number when a reply was written instead. */
static int read_timeout(json_t *value, const struct config *config, uint64_t *ret_ms,
                        struct buf *reply)
{
    double seconds = json_is_number(value) ? json_number_value(value) : -1;

    *ret_ms = config->limits.timeout_ms;
    if (!value)
        return 0;
    /* Written so that NaN is refused, too. */
    if (!(seconds * 1000.0 >= 1.0 && seconds * 1000.0 <= (double)LIMIT_TIMEOUT_MS)) {
        int failed =
            buf_printf(reply,
                       "Error: timeout has to be a number of seconds, more than 0 "
                       "and at most %llu. Leave it out for %g.\n",
                       LIMIT_TIMEOUT_MS / 1000, (double)config->limits.timeout_ms / 1000.0);

        return failed < 0 ? failed : 1;
    }
    *ret_ms = (uint64_t)(seconds * 1000.0 + 0.5);
    return 0;
}

/* 0 when the code may run; a positive number when a reply was written instead. */
static int check_code(json_t *code, const struct config *config, struct buf *reply)
{
    const char *text = json_string_value(code);
    int failed = 0;
    bool is_enabled = false;

    for (size_t i = 0; i < strv_length(config->languages); i++)
        is_enabled |= str_equal(config->languages[i], "python");
    if (!text)
        failed = buf_append_text(reply, "Error: code has to be a string of Python source.\n");
    else if (text[strspn(text, " \t\r\n\f\v")] == 0)
        failed =
            buf_append_text(reply, "Error: code is empty: there is nothing to run. Send Python "
                                   "source, such as print('Hello').\n");
    else if (json_string_length(code) > LIMIT_CODE_BYTES)
        failed = buf_printf(reply,
                            "Error: code is larger than %llu MB. Send less source; data does "
                            "not belong in it.\n",
                            LIMIT_CODE_BYTES / MIB);
    else if (!is_enabled)
        failed = buf_append_text(reply, "Error: Python is switched off here: it is not among "
                                        "SANDBOX_SUPPORTED_LANGUAGES. Tell the user.\n");
    else
        return 0;
    return failed < 0 ? failed : 1;
}

int run_python_code(json_t *parameters, const struct tool_context *context, struct buf *reply)
{
    static const char *const no_arguments[] = {NULL};
    json_t *code = json_object_get(parameters, "code");
    struct config config =
        *context->config; /* borrowed, except for the one number that may change */
    struct oneshot_extra extra = {0};
    struct result result;
    int answer = check_code(code, &config, reply);

    if (answer == 0)
        answer = read_timeout(json_object_get(parameters, "timeout"), &config,
                              &config.limits.timeout_ms, reply);
    if (answer != 0)
        return answer < 0 ? answer : 0;

    result_init(&result, &config.limits);
    oneshot_run(
        &(struct oneshot){
            .config = &config,
            .language = "python",
            .code = json_string_value(code),
            .code_length = json_string_length(code),
            .argv = no_arguments,
            .stdin_fd = -1,
            .cancel_fd = context->cancel_fd,
            .keep_artifact = true,
            .elsewhere = config.auto_install ? context->elsewhere : NULL,
            .state = context->state,
            .engine = context->engine,
            .warden = context->warden,
        },
        &result, &extra);
    answer = run_python_code_reply(&result, reply);
    if (answer == 0)
        answer = add_hint(&result, context, reply);
    if (result.error.code == ERROR_BLOCKED_IMPORT)
        log_warning("run_python_code: %s", result.error.text);
    oneshot_extra_free(&extra);
    result_free(&result);
    return answer;
}
