/* code_run.c - runs the source of one tool call in a session; see code_run.h. */
#include "agent/code_run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/place.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "config/config.h"
#include "model/caller.h"
#include "model/text.h"
#include "session/await.h"
#include "session/container.h"
#include "session/installer.h"
#include "session/output_save.h"
#include "session/session_manager.h"

#define IMAGES_MAX 32
#define FILES_MAX 64 /* that are told of one call */

struct code_run {
    struct code_run_spec spec;
    struct caller caller;
    void (*done)(void *ctx, const struct code_outcome *outcome);
    void *ctx;
    struct reactor_timer *timer; /* while a box is waited for */
    struct installation *installation;
    struct container_job *job; /* files into the container, or a look at it */
    struct execution_await await;
    struct code_outcome outcome; /* while the files are looked at */
    uint64_t began_ms;
    bool waits_for_box, is_over;
};

static const struct config *config_of(const struct code_run *run)
{
    return session_manager_config(run->spec.manager);
}

static struct session *session_of(struct code_run *run, struct error *err)
{
    struct session *session = NULL;

    session_manager_find_of(run->spec.manager, run->caller.who.tenant, run->spec.place->session,
                            false, &session, err);
    return session;
}

/* ---- the outcome ---- */

static void tell(struct code_run *run)
{
    struct code_outcome outcome = run->outcome;

    run->outcome = (struct code_outcome){0};
    run->is_over = true;
    run->spec.reactor->ops->timer_remove(ptr_take(&run->timer));
    run->done(run->ctx, &outcome); /* `run` may be gone afterwards */
    buf_free(&outcome.logs);
    buf_free(&outcome.told);
    json_decref(outcome.images);
    json_decref(outcome.files);
    json_decref(outcome.error);
}

static void begin_outcome(struct code_run *run, bool is_failed)
{
    run->outcome = (struct code_outcome){.is_failed = is_failed,
                                         .logs = BUF_INIT(LIMIT_OUTPUT_MAX * 2),
                                         .told = BUF_INIT(8 * LIMIT_AGENT_TOLD),
                                         .images = json_array(),
                                         .files = json_array()};
}

static void tell_failure(struct code_run *run, const char *what, const struct error *err)
{
    begin_outcome(run, true);
    buf_printf(&run->outcome.told, "%s%s%s", what, err ? ": " : "", err ? err->text : "");
    tell(run);
}

/* Text that may be long: its beginning and its end. */
static void add_cut(struct buf *to, const char *title, const char *text, size_t length)
{
    size_t half = LIMIT_AGENT_TOLD / 2;

    if (length == 0)
        return;
    if (title)
        buf_printf(to, "%s%s\n", to->length > 0 ? "\n" : "", title);
    if (length <= LIMIT_AGENT_TOLD) {
        buf_append(to, text, length);
    } else {
        size_t first = utf8_floor(text, half), last = length - half;

        while (last < length && ((unsigned char)text[last] & 0xc0) == 0x80)
            last++;
        buf_append(to, text, first);
        buf_printf(to, "\n... (%zu bytes left out)\n", last - first);
        buf_append(to, text + last, length - last);
    }
    if (to->length > 0 && to->data[to->length - 1] != '\n')
        buf_append_text(to, "\n");
}

static void add_image(struct code_outcome *outcome, const char *id, const char *name,
                      const char *mime)
{
    if (id && json_array_size(outcome->images) < IMAGES_MAX)
        json_array_append_new(outcome->images,
                              json_pack("{s:s, s:o*, s:s}", "id", id, "name",
                                        text_to_json(name, strlen(name)), "mime", mime));
}

/* A picture that the cell showed becomes an output with an id. */
static void save_shown(struct code_run *run, struct code_outcome *outcome, const char *mime,
                       json_t *value, size_t number)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(LIMIT_OUTPUT_MAX);
    struct output_row row;
    struct error err = {0};
    struct session *session = session_of(run, &err);
    char name[ID_MAX + 32];

    str_format(name, sizeof(name), "shown-%u-%zu.%s",
               (unsigned)execution_number(run->await.execution), number,
               str_equal(mime, "image/png") ? "png" : "jpg");
    if (session &&
        base64_decode(json_string_value(value), json_string_length(value), &bytes) == 0 &&
        session_output_save(session, name, buf_text(&bytes), bytes.length, &row, &err) == 0)
        add_image(outcome, row.id, name, mime);
}

/* Values: the text of the last one, and pictures. */
static void add_values(struct code_run *run, struct code_outcome *outcome, json_t *results)
{
    static const char *const pictures[] = {"image/png", "image/jpeg"};
    json_t *one;
    size_t i;

    json_array_foreach(results, i, one)
    {
        json_t *data = json_object_get(one, "data"), *text = json_object_get(data, "text/plain");
        bool is_shown = false;

        for (size_t k = 0; k < ARRAY_SIZE(pictures) && !is_shown; k++) {
            json_t *value = json_object_get(data, pictures[k]);

            is_shown = json_is_string(value);
            if (is_shown)
                save_shown(run, outcome, pictures[k], value, i + 1);
        }
        if (is_shown || !json_is_string(text))
            continue;
        if (outcome->logs.length > 0 && outcome->logs.data[outcome->logs.length - 1] != '\n')
            buf_append_text(&outcome->logs, "\n");
        buf_append(&outcome->logs, json_string_value(text), json_string_length(text));
    }
}

/* Pictures of /tmp/output are shown; other files are found by the look at the container. */
static void add_pictures(struct code_outcome *outcome, const struct execution_outcome *ended)
{
    for (size_t i = 0; i < ended->changed_count; i++)
        if (str_equal(ended->changed[i].kind, "image") && ended->changed[i].id)
            add_image(outcome, ended->changed[i].id, ended->changed[i].name,
                      ended->changed[i].type);
}

static void add_facts(struct code_outcome *outcome, const struct result *result, json_t *meta)
{
    const char *note = json_string_value(json_object_get(meta, "kernel_note"));
    const char *install = json_string_value(json_object_get(result->install, "install_note"));

    if (result->timed_out)
        buf_printf(&outcome->told, "[timed out after %llu s: the code was interrupted]\n",
                   (unsigned long long)(result->limits.timeout_ms / 1000));
    if (result->oom_killed)
        buf_append_text(&outcome->told, "[out of memory: the program was ended]\n");
    if (result->disk_full)
        buf_append_text(&outcome->told, "[the disk of the sandbox is full]\n");
    if (json_is_true(json_object_get(meta, "kernel_lost")))
        buf_append_text(&outcome->told,
                        "[the interpreter ended: variables are gone, files are kept]\n");
    if (note)
        buf_printf(&outcome->told, "[%.300s]\n", note);
    if (install)
        buf_printf(&outcome->told, "[%.300s]\n", install);
    if (result->error.code)
        buf_printf(&outcome->told, "[%.600s]\n", result->error.text);
}

/* The files that the code left in its container have ids now. */
static void on_looked(void *ctx, const struct container_file *files, size_t count,
                      const struct error *err)
{
    struct code_run *run = ctx;

    run->job = NULL;
    for (size_t i = 0; i < count && i < FILES_MAX; i++) {
        const char *path = files[i].path, *name = container_file_name(path);

        buf_printf(&run->outcome.told, "[file %.1000s, %llu bytes]\n", path,
                   (unsigned long long)files[i].bytes);
        json_array_append_new(run->outcome.files,
                              json_pack("{s:s, s:o, s:o}", "id", files[i].id, "path",
                                        text_to_json(path, strlen(path)), "name",
                                        text_to_json(name, strlen(name))));
    }
    if (err && err->num < 0 && !str_equal(err->code, ERROR_CONTAINER_EXPIRED))
        buf_printf(&run->outcome.told, "[the files could not be listed: %.300s]\n", err->text);
    if (run->outcome.told.length == 0)
        buf_append_text(&run->outcome.told, "[no output]");
    tell(run);
}

static void look(struct code_run *run)
{
    struct container_row row;
    struct error err = {0};
    int r = agent_place_row(run->spec.place, run->spec.manager, &run->caller, &row, &err);

    if (r == 0)
        r = container_look(run->spec.manager, &row, run->began_ms, on_looked, run, &run->job, &err);
    if (r < 0)
        on_looked(run, NULL, 0, &err);
}

static void on_ran(void *ctx, struct execution_outcome *ended)
{
    struct code_run *run = ctx;
    struct code_outcome *outcome = &run->outcome;
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_OUTPUT_MAX * 2);
    json_t *cell = execution_cell_json(run->await.execution);
    json_t *meta = execution_cell_meta(run->await.execution);
    const char *traceback;
    struct result whole;

    begin_outcome(run, false);
    execution_result(run->await.execution, config_of(run)->execute_output_bytes, &whole);
    outcome->error = json_incref(json_object_get(cell, "error"));
    outcome->has_raised = json_is_object(outcome->error) || whole.exit_code != 0;
    traceback = json_string_value(json_object_get(outcome->error, "traceback"));
    if (result_stdout(&whole, &text) == 0)
        buf_append(&outcome->logs, buf_text(&text), text.length);
    add_values(run, outcome, json_object_get(cell, "results"));
    add_cut(&outcome->told, NULL, buf_text(&outcome->logs), outcome->logs.length);
    if (result_stderr(&whole, &text) == 0 && !(whole.timed_out && whole.err.total_bytes == 0))
        add_cut(&outcome->told, "stderr:", buf_text(&text), text.length);
    if (traceback)
        add_cut(&outcome->told, NULL, traceback, strlen(traceback));
    add_pictures(outcome, ended);
    for (size_t i = 0; i < json_array_size(outcome->images); i++)
        buf_printf(&outcome->told, "[image %s: the user sees it]\n",
                   json_string_value(json_object_get(json_array_get(outcome->images, i), "name")));
    add_facts(outcome, &whole, meta);
    result_free(&whole);
    json_decref(cell);
    json_decref(meta);
    look(run);
}

/* ---- the steps ---- */

static void run_cell(struct code_run *run)
{
    struct error err = {0};
    struct session *session = session_of(run, &err);
    struct cell_request request = {.caller = &run->caller,
                                   .keeper = run->spec.keeper,
                                   .code = json_string_value(run->spec.keeper),
                                   .code_length = json_string_length(run->spec.keeper),
                                   .timeout_ms = config_of(run)->code_interpreter.time_ms};
    struct execution_await_spec await = {
        .collects = true, .timeout_ms = UINT64_MAX, .done = on_ran, .ctx = run};
    struct execution *execution;
    int r = session ? 0 : -ENOENT;

    run->began_ms = clock_wall_ms();
    if (r == 0)
        r = session_find_context(session, NULL, "python", &request.context, &err);
    if (r == 0)
        r = session_cell(session, &request, &execution, &err);
    if (r == 0)
        r = execution_await(&run->await, execution, &await, &err);
    if (r < 0)
        tell_failure(run, "The code could not be run", &err);
}

static void on_installed(void *ctx, const struct install_end *end, const struct error *err)
{
    struct code_run *run = ctx;

    (void)end;
    run->installation = NULL;
    if (err->num < 0)
        tell_failure(run, "The requirements could not be installed, so the code was not run", err);
    else
        run_cell(run);
}

static void install(struct code_run *run)
{
    static const struct install_events events = {.done = on_installed};
    CLEANUP(freep) const char **packages = text_list_of_json(run->spec.requirements);
    struct error err = {0};
    struct session *session = session_of(run, &err);
    const char *why = config_no_install(config_of(run));
    int r = session && packages ? 0 : -ENOMEM;

    if (r == 0 && why)
        r = error_set(&err, -ENOTSUP, ERROR_INSTALL_FAILED, "%s", why);
    if (r == 0)
        r = session_install(session, &run->caller, packages, &events, run, &run->installation,
                            &err);
    if (r < 0) {
        run->installation = NULL;
        on_installed(run, NULL, &err);
    }
}

static void prepare(struct code_run *run)
{
    if (json_array_size(run->spec.requirements) > 0)
        install(run);
    else
        run_cell(run);
}

static void on_filled(void *ctx, const struct container_file *files, size_t count,
                      const struct error *err)
{
    struct code_run *run = ctx;

    (void)files;
    (void)count;
    run->job = NULL;
    if (err && err->num < 0) {
        tell_failure(run, "The input files could not be copied, so the code was not run", err);
        return;
    }
    run->spec.place->needs_files = run->spec.place->is_fresh; /* the next one is empty again */
    prepare(run);
}

static void fill(struct code_run *run)
{
    struct container_row row;
    struct error err = {0};
    int r = agent_place_row(run->spec.place, run->spec.manager, &run->caller, &row, &err);

    if (r == 0)
        r = container_fill(run->spec.manager, &row, run->spec.place->file_ids, on_filled, run,
                           &run->job, &err);
    if (r < 0)
        on_filled(run, NULL, 0, &err);
}

static void on_box(void *ctx, struct box *box, const struct error *err)
{
    struct code_run *run = ctx;

    run->waits_for_box = false;
    run->spec.reactor->ops->timer_remove(ptr_take(&run->timer));
    if (!box)
        tell_failure(run,
                     "No sandbox could be had, so the code was not run. Try again, or answer "
                     "without running code",
                     err);
    else if (run->spec.place->needs_files)
        fill(run);
    else
        prepare(run);
}

static void on_time(void *ctx)
{
    struct code_run *run = ctx;
    struct error err = {0};
    struct session *session = session_of(run, &err);

    run->waits_for_box = false;
    if (session)
        session_box_cancel(session, run);
    tell_failure(run,
                 "No sandbox could be had in time (claim_timeout), so the code was not run. Try "
                 "again, or answer without running code",
                 NULL);
}

int code_run_start(const struct code_run_spec *spec,
                   void (*done)(void *ctx, const struct code_outcome *outcome), void *ctx,
                   struct code_run **ret, struct error *err)
{
    struct code_run *run = calloc(1, sizeof(*run));
    struct session *session;

    if (!run)
        return error_memory(err);
    *run = (struct code_run){.spec = *spec, .caller = *spec->caller, .done = done, .ctx = ctx};
    json_incref(spec->keeper);
    json_incref(spec->requirements);
    *ret = run;
    session = session_of(run, err);
    run->timer = reactor_timer(spec->reactor, on_time, run);
    if (!session || !run->timer) {
        code_run_end(run);
        *ret = NULL;
        return session ? error_memory(err) : err->num;
    }
    spec->reactor->ops->timer_set(run->timer, config_of(run)->code_interpreter.claim_ms);
    run->waits_for_box = true;
    session_box(session, on_box, run);
    return 0;
}

void code_run_end(struct code_run *run)
{
    struct error ignored = {0};
    struct session *session;

    if (!run)
        return;
    session = run->waits_for_box ? session_of(run, &ignored) : NULL;
    if (session)
        session_box_cancel(session, run);
    if (run->installation)
        installer_cancel(run->installation);
    container_job_cancel(run->job);
    execution_await_end(&run->await);
    buf_free(&run->outcome.logs);
    buf_free(&run->outcome.told);
    json_decref(run->outcome.images);
    json_decref(run->outcome.files);
    json_decref(run->outcome.error);
    run->spec.reactor->ops->timer_remove(run->timer);
    json_decref(run->spec.keeper);
    json_decref(run->spec.requirements);
    free(run);
}
