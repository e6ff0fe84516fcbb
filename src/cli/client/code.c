/*
 * code.c - `bailey code -s NAME`: a cell in a session's interpreter, as if it were typed there.
 *
 * Output is shown as it is written, then values: the text of each on standard output, pictures into
 * a folder if one is named, an exception on standard error.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/cell_prompt.h"
#include "cli/client/client.h"
#include "cli/client/commands.h"
#include "cli/client/follow.h"
#include "cli/client/report.h"
#include "cli/client_request.h"
#include "cli/message.h"
#include "cli/notebook.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "cli/source.h"

static const struct picture {
    const char *mime, *ending;
    bool is_base64;
} pictures[] = {
    {"image/png", "png", true},
    {"image/jpeg", "jpg", true},
    {"image/svg+xml", "svg", false},
};

struct job {
    const struct invocation *invocation;
    struct client_request request;
    struct client client;
    struct source source;
    char **cells; /* of a notebook; NULL: the source is one cell */
    struct follow follow;
    struct output output;
    int cancel_fd, out_fd;
    bool is_prompt;      /* cells are typed on the terminal */
    int signal;          /* the first signal received */
    unsigned interrupts; /* number of interrupts */
    unsigned seen, saved;
    bool ends_line; /* whether standard output ends with a newline so far */
    bool is_amid;   /* the last output of the cell, of either stream, has no newline at its end */
    struct error save_err;
};

static void job_free(struct job *job)
{
    follow_free(&job->follow);
    source_free(&job->source);
    strv_freep(&job->cells);
    client_close(&job->client);
    client_request_free(&job->request);
    fd_closep(&job->cancel_fd);
    fd_closep(&job->out_fd);
}

/* ---- events ---- */

static int on_output(void *ctx, int stream, const void *data, size_t length)
{
    struct job *job = ctx;

    if (length > 0)
        job->is_amid = ((const char *)data)[length - 1] != '\n';
    if (stream == 1 && length > 0)
        job->ends_line = ((const char *)data)[length - 1] == '\n';
    return job->request.is_json ? 0 : output_write(&job->output, stream, data, length);
}

/* Prints text on its own lines. */
static void print_words(struct job *job, int stream, json_t *text)
{
    size_t length = json_string_length(text);

    if (length == 0 || job->request.is_json)
        return;
    if (stream == 1 && !job->ends_line)
        output_write(&job->output, 1, "\n", 1);
    output_write(&job->output, stream, json_string_value(text), length);
    if (json_string_value(text)[length - 1] != '\n')
        output_write(&job->output, stream, "\n", 1);
    job->is_amid = false;
    if (stream == 1)
        job->ends_line = true;
}

/* "cell-3-1.png" */
static int save(struct job *job, const struct picture *picture, json_t *value)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(LIMIT_CELL_EVENTS);
    const char *number = strrchr(buf_text(&job->follow.path), '/');
    CLEANUP(fd_closep) int fd = -1;
    char name[96];
    int r;

    if (picture->is_base64)
        r = base64_decode(json_string_value(value), json_string_length(value), &bytes);
    else
        r = buf_append(&bytes, json_string_value(value), json_string_length(value));
    if (r < 0)
        return error_set(&job->save_err, r, ERROR_ENGINE, "a picture of the cell is damaged");
    str_format(name, sizeof(name), "cell-%.32s-%u.%s", number ? number + 1 : "0", job->saved + 1,
               picture->ending);
    fd = openat(job->out_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    r = fd < 0 ? -errno : fd_write_all(fd, buf_text(&bytes), bytes.length);
    if (r < 0)
        return error_set(&job->save_err, r, ERROR_BAD_INPUT, "writing %s/%s: %s", job->request.out,
                         name, strerror(-r));
    job->saved++;
    if (!job->request.is_quiet && !job->request.is_json)
        message_print("saved %s/%s", job->request.out, name);
    return 0;
}

/* Reports a missing module. */
static void tell_install(const struct job *job, json_t *install)
{
    if (job->request.is_json || job->request.is_quiet)
        return;
    if (str_equal(member_text(install, "state"), "installing"))
        message_print("installing %s", member_text(install, "package"));
    else
        message_print("%s", member_text(install, "install_note"));
}

static void on_value(void *ctx, const char *type, json_t *value)
{
    struct job *job = ctx;
    json_t *data = json_object_get(value, "data");

    if (str_equal(type, "install")) {
        tell_install(job, value);
        return;
    }
    if (str_equal(type, "error")) {
        json_t *traceback = json_object_get(value, "traceback");

        print_words(job, 2, traceback);
        if (json_string_length(traceback) == 0 && !job->request.is_json)
            message_print("%s: %s", member_text(value, "name"), member_text(value, "value"));
        return;
    }
    print_words(job, 1, json_object_get(data, "text/plain"));
    for (size_t i = 0; i < ARRAY_SIZE(pictures); i++) {
        json_t *picture = json_object_get(data, pictures[i].mime);

        if (!json_is_string(picture))
            continue;
        job->seen++;
        if (job->out_fd >= 0 && !job->save_err.code)
            save(job, &pictures[i], picture);
        break; /* one file for a value in several formats */
    }
}

/* ---- the request ---- */

static int read_input(json_t *body, struct error *err)
{
    CLEANUP(buf_free) struct buf input = BUF_INIT(LIMIT_CODE_BYTES);
    json_t *text;
    int r = buf_read_fd(&input, STDIN_FILENO);

    if (r < 0)
        return error_set(err, r, r == -EFBIG ? ERROR_TOO_LARGE : ERROR_BAD_INPUT,
                         "reading standard input: %s", strerror(-r));
    text = json_stringn(buf_text(&input), input.length);
    if (!text)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "standard input is not UTF-8");
    json_object_set_new(body, "stdin", text);
    return 0;
}

/* The interpreter of a session knows lines of IPython: each cell is sent as it is. */
static int read_cells(struct job *job, const char *file, struct error *err)
{
    if (job->request.has_stdin)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "--stdin is for one cell, and '%.200s' is a notebook", file);
    return notebook_cells(&job->source.code, file, &job->cells, err);
}

static int check_prompt(struct job *job, struct error *err)
{
    const struct client_request *request = &job->request;

    if (request->has_stdin)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "--stdin is for one cell; the terminal is read for code here");
    if (request->session && !request->session[0])
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "-s needs a session; 'bailey session ls' lists them");
    return 0;
}

static int read_code(struct job *job, const struct parsed *parsed, struct error *err)
{
    const char *file = parsed->operand_count ? parsed->operands[0] : NULL;
    const struct client_request *request = &job->request;
    int r;

    job->is_prompt =
        !file && !request->code && !job->invocation->stdin_is_closed && isatty(STDIN_FILENO);
    if (job->is_prompt)
        return check_prompt(job, err);
    if (!request->session || !request->session[0])
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "which session? -s NAME ('bailey session ls' lists them); 'bailey run' "
                         "runs code without one");
    if (!file == !request->code)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "what to run? usage: bailey code %s",
                         code_command.usage);
    if (request->has_stdin && str_equal(file, "-"))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "--stdin and '-': standard input cannot be both code and input");
    if (!file)
        return source_from_text(&job->source, request->code, err);
    r = source_check_kind(request->language, file, err);
    if (r == 0)
        r = source_read(&job->source, file, err);
    return r == 0 && notebook_is(file) ? read_cells(job, file, err) : r;
}

static int find_language(struct job *job, const char *file, json_t *body, struct error *err)
{
    const struct language_row *language;
    int r;

    /* A context has a language already. */
    if (job->request.context && !job->request.language)
        return 0;
    r = source_language(job->request.language, file, &job->client.config, &language, err);
    if (r == 0)
        json_object_set_new(body, "language", json_string(language->name));
    return r;
}

static int make_body(struct job *job, const char *text, size_t length, json_t **ret,
                     struct error *err)
{
    const struct parsed *parsed = &job->invocation->parsed;
    const struct client_request *request = &job->request;
    CLEANUP(json_freep) json_t *body = json_object();
    CLEANUP(json_freep) json_t *env = NULL;
    json_t *code = json_stringn(text, length);
    uint64_t ms;
    int r = report_env(request->env, &env, err);

    if (r == 0 && !code)
        r = error_set(err, -EINVAL, ERROR_BAD_INPUT, "the code is not UTF-8");
    json_object_set_new(body, "code", code);
    if (r == 0)
        r = find_language(job, parsed->operand_count ? parsed->operands[0] : NULL, body, err);
    if (r == 0 && request->timeout && str_to_millis(request->timeout, &ms) < 0)
        r = error_set(err, -EINVAL, ERROR_BAD_INPUT,
                      "--timeout '%.40s': seconds, or a time such as 250ms, 5m; 0: until the "
                      "session ends",
                      request->timeout);
    if (r == 0 && request->has_stdin)
        r = read_input(body, err);
    if (r < 0)
        return r;
    if (request->timeout)
        json_object_set_new(body, "timeout", json_real((double)ms / 1000));
    if (request->context)
        json_object_set_new(body, "context", json_string(request->context));
    if (json_object_size(env) > 0)
        json_object_set(body, "env", env);
    *ret = ptr_take(&body);
    return 0;
}

/* Created if it is missing, as `bailey run` does. */
static int open_folder(struct job *job, struct error *err)
{
    if (!job->request.out)
        return 0;
    if (mkdir(job->request.out, 0777) < 0 && errno != EEXIST)
        return error_set(err, -errno, ERROR_BAD_INPUT, "--out '%.200s': %s", job->request.out,
                         strerror(errno));
    job->out_fd = open(job->request.out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (job->out_fd < 0)
        return error_set(err, -errno, ERROR_BAD_INPUT, "--out '%.200s': %s", job->request.out,
                         strerror(errno));
    return 0;
}

/* ---- running ---- */

/*
 * The first signal interrupts the cell, the next ends its kernel. False: there is nothing to wait
 * for.
 */
static bool on_signal(struct job *job, int number)
{
    const char *name = number != SIGINT || job->interrupts > 0 ? "KILL" : "INT";
    struct error err = {0};

    if (!job->signal)
        job->signal = number;
    job->interrupts++;
    if (job->follow.path.length == 0)
        return false; /* it has not begun: closing the connection ends it */
    if (!job->request.is_json && !job->request.is_quiet)
        message_print(str_equal(name, "INT")
                          ? "interrupting the cell; Ctrl-C again ends its interpreter"
                          : "ending the interpreter");
    if (follow_signal(&job->follow, name, &err) < 0 && err.code != ERROR_EXECUTION_ENDED)
        message_error(&err);
    return job->interrupts < 3;
}

/* 1: it has ended; 0: stop waiting before that; negative: follow.err says why. */
static int watch(struct job *job)
{
    for (;;) {
        struct pollfd poller = {.fd = job->cancel_fd, .events = POLLIN};
        int result = follow_turn(&job->follow, &poller, 1, -1);
        int number = result == 0 && poller.revents ? signals_taken(job->cancel_fd) : 0;

        if (result != 0)
            return result;
        if (number && !on_signal(job, number))
            return 0;
    }
}

/* Prints further notes of the result. */
static void tell_notes(const struct job *job)
{
    json_t *meta = json_object_get(job->follow.result, "meta");

    if (job->request.is_quiet)
        return;
    if (member_text(meta, "kernel_note")[0])
        message_print("a new interpreter: %s", member_text(meta, "kernel_note"));
    if (json_is_true(json_object_get(meta, "kernel_lost")))
        message_print("the interpreter has ended and its variables are lost");
    if (job->seen > 0 && job->out_fd < 0)
        message_print("%u picture%s; --out DIR saves them", job->seen, job->seen == 1 ? "" : "s");
}

static int finish(struct job *job, int ended)
{
    output_finish(&job->output);
    if (job->output.failure == -EPIPE)
        return 128 + SIGPIPE;
    if (ended == 0) {
        message_print("interrupted: the cell was ended");
        return 128 + job->signal;
    }
    if (ended < 0)
        return client_fail(job->request.is_json, &job->follow.err);
    if (job->request.is_json) {
        int printed = print_json(json_incref(job->follow.result));

        return printed ? printed : report_status(job->follow.result, 0);
    }
    report_missed(&job->follow);
    tell_notes(job);
    if (job->save_err.code)
        return client_fail(false, &job->save_err);
    return report_result(job->follow.result, job->request.is_quiet);
}

/* Returns the exit status of the cell. */
static int run_cell(struct job *job, const char *text, size_t length)
{
    static const struct follow_events events = {.output = on_output, .value = on_value};
    json_t *body = NULL;
    struct error err = {0};
    int status;

    if (make_body(job, text, length, &body, &err) < 0)
        return client_fail(job->request.is_json, &err);
    job->signal = 0;
    job->interrupts = job->seen = job->saved = 0;
    job->ends_line = true;
    job->is_amid = false;
    follow_init(&job->follow, &job->client, &events, job);
    if (follow_code(&job->follow, job->request.session, body, &err) < 0) {
        follow_free(&job->follow);
        return client_fail(job->request.is_json, &err);
    }
    output_init(&job->output, job->request.is_raw, job->cancel_fd);
    status = finish(job, watch(job));
    follow_free(&job->follow);
    return status;
}

/* Cell after cell, until one fails. */
static int run_notebook(struct job *job)
{
    size_t count = strv_length(job->cells);

    for (size_t i = 0; i < count; i++) {
        const char *cell = job->cells[i];
        int status = cell[strspn(cell, " \t\r\n")] ? run_cell(job, cell, strlen(cell)) : 0;

        if (status == 0)
            continue;
        if (!job->request.is_json && !job->request.is_quiet)
            message_print("stopped at code cell %zu of %zu", i + 1, count);
        return status;
    }
    return 0;
}

/* ---- typed cells ---- */

#define DEFAULT_SESSION "default" /* that of `bailey tool` */

/* The session of a prompt has to be there before something is typed; the default one is made. */
static int find_session(struct job *job, struct error *err)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    CLEANUP(json_freep) json_t *session = NULL;
    bool is_default = !job->request.session;
    int r;

    if (is_default)
        job->request.session = DEFAULT_SESSION;
    r = client_session_path(&path, job->request.session, "", err);
    if (r == 0)
        r = client_call(&job->client, "GET", buf_text(&path), NULL, &session, err);
    if (r == 0 && json_is_null(json_object_get(session, "ended_at")))
        return 0;
    if (!is_default)
        return r < 0 ? r
                     : error_set(err, -ENOENT, ERROR_NOT_FOUND, "the session '%.100s' has ended",
                                 job->request.session);
    *err = (struct error){0};
    json_decref(session);
    session = NULL;
    r = client_call(&job->client, "POST", "/v1/sessions",
                    json_pack("{s:s}", "name", DEFAULT_SESSION), &session, err);
    if (r == 0 && !job->request.is_quiet)
        message_print("made the session '" DEFAULT_SESSION
                      "' (%s); 'bailey session rm -s " DEFAULT_SESSION "' ends it",
                      member_text(session, "id"));
    return r;
}

/* What leaves Python's own prompt leaves this one too, and keeps the interpreter. */
static bool is_leave(const struct buf *cell)
{
    static const char *const words[] = {"exit\n", "quit\n", "exit()\n", "quit()\n"};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (str_equal(buf_text(cell), words[i]))
            return true;
    return false;
}

/* BAILEY_HISTORY names the file; empty, as with --no-history: none. NULL: none. */
static const char *history_path(struct job *job, char *path, size_t size, struct error *err)
{
    const char *named = getenv("BAILEY_HISTORY");
    struct paths *paths = &job->client.paths;

    if (job->request.has_no_history || (named && !named[0]))
        return NULL;
    if (named)
        return named;
    if (!paths->state && /* --url: nothing else is stored on this machine */
        (paths_choose(paths, &job->client.config, job->invocation->env, NULL, NULL, err) < 0 ||
         paths_make(paths, err) < 0))
        return NULL;
    return paths_path(paths, "code_history", path, size, err) < 0 ? NULL : path;
}

static void begin_prompt(struct job *job, struct cell_prompt *prompt, const char *language)
{
    char path[PATH_MAX];
    struct error err = {0};
    const char *file = history_path(job, path, sizeof(path), &err);

    if (err.num == 0)
        cell_prompt_init(prompt, job->cancel_fd, str_starts(language, "py"), file, &err);
    else
        cell_prompt_init(prompt, job->cancel_fd, str_starts(language, "py"), NULL,
                         &(struct error){0});
    if (err.num < 0)
        message_print("%s, continuing without it", err.text);
}

static int run_prompt(struct job *job)
{
    CLEANUP(cell_prompt_free) struct cell_prompt prompt = {.history.fd = -1};
    CLEANUP(buf_free) struct buf cell = BUF_INIT(LIMIT_CODE_BYTES);
    const char *language = job->request.language ? job->request.language : "python";
    struct error err = {0};
    int r;

    if (find_session(job, &err) < 0)
        return client_fail(job->request.is_json, &err);
    if (!job->request.is_quiet)
        message_print("%s in the session '%s'; an empty line ends a block, Ctrl-C interrupts, "
                      "Ctrl-D leaves",
                      language, job->request.session);
    begin_prompt(job, &prompt, language);
    while ((r = cell_prompt_read(&prompt, &cell, &err)) > 0 && !is_leave(&cell)) {
        run_cell(job, buf_text(&cell), cell.length);
        if (job->is_amid && prompt.edits) /* the prompt begins a line */
            (void)fd_write_all(STDERR_FILENO, "\n", 1);
        if (job->signal && job->signal != SIGINT)
            return 128 + job->signal;
        if (job->output.failure < 0)
            return 128 + SIGPIPE; /* the reader has gone */
    }
    if (r < 0)
        return client_fail(job->request.is_json, &err);
    return prompt.signal ? 128 + prompt.signal : 0;
}

int code_run(const struct invocation *invocation)
{
    CLEANUP(job_free)
    struct job job = {.invocation = invocation, .cancel_fd = -1, .out_fd = -1, .ends_line = true};
    struct error err = {0};

    if (client_request_load(invocation, &job.request, &err) < 0 ||
        read_code(&job, &invocation->parsed, &err) < 0 || open_folder(&job, &err) < 0 ||
        client_open(&job.client, job.request.config_file, invocation->env, CLIENT_STARTS, &err) <
            0 ||
        client_bring_settings(&job.client, invocation, &err) < 0 ||
        signals_open(&job.cancel_fd, &err) < 0)
        return client_fail(job.request.is_json, &err);
    if (job.is_prompt)
        return run_prompt(&job);
    return job.cells ? run_notebook(&job)
                     : run_cell(&job, buf_text(&job.source.code), job.source.code.length);
}
