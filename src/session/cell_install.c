/*
 * cell_install.c - a cell that lacks a module: the package is installed into the session, and the
 * cell runs a second time in the same kernel (SANDBOX_AUTO_INSTALL).
 *
 * The event that reports the missing module is held back until it is known whether the cell runs
 * again; if it does, the event is dropped. Clients that follow the output have seen what the first
 * run printed, but the result does not contain it: cell->base has the offset at which the second
 * run begins in each stream. The event's content is only a hint (missing.h). While the installer
 * works, the execution counts as running, its context is busy, and a signal cancels the
 * installation; the result of the first run is the cell's result then.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "session/run_private.h"

#define BEGINNING "{\"type\":\"error\",\"name\":\"ModuleNotFoundError\","
#define HELD_MAX (256 * KIB) /* a longer event is not held back */

struct cell_install {
    struct buf held;  /* the held event, or a line that may become one */
    bool is_passing;  /* the current line is another event */
    bool is_off;      /* no event is held back any more */
    bool is_fetching; /* followers were told that a package is being fetched */
    char module[LIMIT_MODULE + 1], package[LIMIT_REQUIREMENT + 1];
    struct local_module *look;         /* whether the module is the session's own file; under way */
    struct installation *installation; /* under way */
};

int cell_install_new(struct execution *execution)
{
    struct cell *cell = execution->cell;

    if (!execution_config(execution)->auto_install ||
        !config_can(execution_config(execution), PROVIDER_CAN_INSTALL) ||
        !str_equal(cell->language, "python"))
        return 0;
    cell->install = calloc(1, sizeof(*cell->install));
    if (!cell->install)
        return -ENOMEM;
    cell->install->held = BUF_INIT(HELD_MAX);
    return 0;
}

void cell_install_free(struct execution *execution)
{
    struct cell_install *install = ptr_take(&execution->cell->install);

    if (!install)
        return;
    local_module_leave(install->look);
    if (install->installation)
        installer_cancel(install->installation);
    buf_free(&install->held);
    free(install);
}

/* ---- the event ---- */

/* Does not wait for slow watchers: the held bytes are few. */
static void put_held(struct execution *execution)
{
    struct buf *held = &execution->cell->install->held;
    struct error err = {0};

    if (held->length > 0 &&
        output_append(execution, BOX_EVENTS - 1, held->data, held->length, &err) < 0) {
        execution->flags |= EXECUTION_UNKEPT;
        log_error("events of %s.%u: %s, continuing without them", execution->session->id,
                  execution->number, err.text);
    }
    buf_clear(held);
}

void cell_install_flush(struct execution *execution)
{
    if (!execution->cell->install)
        return;
    put_held(execution);
    execution->cell->install->is_off = true;
}

/* Whether the line matches the start of an error event so far, byte for byte. */
static bool may_become_one(const struct cell_install *install, char next)
{
    return next == BEGINNING[install->held.length];
}

static size_t pass_line(struct execution *execution, const char *data, size_t length)
{
    struct cell_install *install = execution->cell->install;
    const char *end = memchr(data, '\n', length);
    size_t line = end ? (size_t)(end - data) + 1 : length;
    size_t taken = cell_keep(execution, BOX_EVENTS, data, line);

    if (taken == line && end)
        install->is_passing = false;
    return taken;
}

size_t cell_install_hold(struct execution *execution, const char *data, size_t length)
{
    struct cell_install *install = execution->cell->install;
    size_t at = 0;

    while (at < length && !install->is_off) {
        if (install->is_passing) {
            size_t taken = pass_line(execution, data + at, length - at);

            if (taken == 0)
                return at;
            at += taken;
        } else if (install->held.length >= sizeof(BEGINNING) - 1) {
            if (buf_append(&install->held, data + at, length - at) == 0)
                return length;
            cell_install_flush(execution); /* too long, or no memory */
        } else if (may_become_one(install, data[at]) &&
                   buf_append(&install->held, data + at, 1) == 0) {
            at++;
        } else {
            if (install->held.length > 0 && cell_keep(execution, BOX_EVENTS, install->held.data,
                                                      install->held.length) != install->held.length)
                cell_install_flush(execution); /* few bytes, so slow watchers are not waited for */
            buf_clear(&install->held);
            install->is_passing = true;
        }
    }
    return at < length ? at + cell_keep(execution, BOX_EVENTS, data + at, length - at) : at;
}

/* ---- the cell does not run again ---- */

static void fail(struct execution *execution, const struct error *err)
{
    struct cell *cell = execution->cell;

    cell->install_meta = missing_failed(cell->install->module, err);
    cell_install_flush(execution);
    cell_install_free(execution);
    execution_end(execution, EXECUTION_EXITED);
}

bool cell_install_cancel(struct execution *execution)
{
    struct cell_install *install = execution->cell ? execution->cell->install : NULL;
    struct error err = {0};

    if (!install || (!install->look && !install->installation))
        return false;
    error_set(&err, -ECANCELED, ERROR_CANCELLED, "the installation of '%s' was given up",
              install->package);
    fail(execution, &err);
    return true;
}

/* Reports an installation that could not begin. */
static void tell_refusal(const struct execution *execution, const char *word,
                         const struct error *err)
{
    const struct session *session = execution->session;
    const struct account *account = execution->account;

    install_audit(session->manager,
                  &(struct asked_install){.caller = account ? &account->caller : NULL,
                                          .tenant = session->tenant,
                                          .session = session->id,
                                          .wanted = (const char *const[]){word, NULL}},
                  NULL, err);
}

/* ---- the cell runs again ---- */

static void run_again(struct execution *execution)
{
    struct cell *cell = execution->cell;
    struct context *context = cell->context;
    struct kernel *kernel = ptr_take(&cell->kernel);

    cell_install_free(execution);
    box_forget(execution->session->box, execution->call);
    for (int i = 0; i < BOX_STREAMS; i++)
        cell->base[i] = execution->out[i].length;
    execution->flags &= ~(EXECUTION_DISK_FULL | EXECUTION_STARTED | EXECUTION_EVENTS_CUT);
    execution->state = EXECUTION_WAITING;
    execution->call = 0;
    execution->end = (struct exec_end){0};
    cell->is_settled = cell->was_sent_again = false;
    cell->is_again = true;
    cell->next = context->waiting;
    context->waiting = execution;
    context->running = NULL;
    if (kernel) {
        kernel->cell = NULL;
        kernel_release(kernel);
    }
    execution_tell(execution, false);
    context_advance(context);
}

static void on_installed(void *ctx, const struct install_end *end, const struct error *err)
{
    struct execution *execution = ctx;
    struct cell *cell = execution->cell;
    struct cell_install *install = cell->install;
    struct error failure = *err;

    install->installation = NULL;
    if (failure.num == 0 && json_array_size(end->added) == 0)
        error_set(&failure, -ENOENT, ERROR_INSTALL_FAILED,
                  "the package '%s' is installed, but has no module '%s'", install->package,
                  install->module);
    else if (failure.num == 0 && !cell->context)
        error_set(&failure, -ECANCELED, ERROR_CANCELLED, "the context was restarted meanwhile");
    if (failure.num < 0) {
        fail(execution, &failure);
        return;
    }
    cell->install_meta = missing_installed(install->package, end->added);
    run_again(execution);
}

/* The account's caller is used, because no request is being handled at this point. */
static int start_install(struct execution *execution, struct error *err)
{
    static const struct install_events events = {.done = on_installed};
    struct cell_install *install = execution->cell->install;
    const char *const packages[] = {install->package, NULL};
    const struct caller *caller = execution->account ? &execution->account->caller : NULL;
    int r = session_install(execution->session, caller, packages, &events, execution,
                            &install->installation, err);

    if (r < 0)
        tell_refusal(execution, install->package, err);
    return r;
}

static void on_looked(void *ctx, bool is_there)
{
    struct execution *execution = ctx;
    struct cell_install *install = execution->cell->install;
    struct error err = {0};

    install->look = NULL;
    if (is_there)
        local_module_error(install->module, &err);
    else
        start_install(execution, &err);
    if (err.num < 0) {
        install->installation = NULL;
        fail(execution, &err);
        return;
    }
    install->is_fetching = true;
    execution_tell(execution, false);
}

/* The module that the held event names; false: the cell ended for another reason. */
static bool find_module(const struct execution *execution)
{
    struct cell_install *install = execution->cell->install;
    const struct exec_end *end = &execution->end;
    const char *line = install->held.data;
    const char *line_end = line ? memchr(line, '\n', install->held.length) : NULL;
    CLEANUP(json_decrefpp) json_t *event = NULL;
    json_t *value;

    if (!line_end || install->is_off || end->exit_code != 1 || end->signal || end->timed_out ||
        !execution->cell->code || !execution->cell->context || execution->was_killed ||
        execution->is_abandoned || execution->session->state >= SESSION_ENDING ||
        execution->session->manager->is_stopping)
        return false;
    event = cell_event_parse(line, (size_t)(line_end - line));
    value = json_object_get(event, "value");
    return str_equal(json_string_value(json_object_get(event, "name")), "ModuleNotFoundError") &&
           json_is_string(value) &&
           missing_from_value(json_string_value(value), json_string_length(value), install->module);
}

bool cell_install_begin(struct execution *execution)
{
    const struct config *config = execution->session->manager->spec.config;
    struct cell_install *install = execution->cell->install;
    struct error err = {0};

    if (!install || !find_module(execution))
        return false;
    if (missing_package(install->module, config->install_allow, config->install_deny,
                        install->package, &err) < 0) {
        if (err.code == ERROR_INSTALL_DENIED)
            tell_refusal(execution, install->module, &err);
        execution->cell->install_meta = missing_failed(install->module, &err);
        return false;
    }
    return local_module_look(execution->session->box, install->module, on_looked, execution,
                             &install->look, &err) == 0;
}

/* ---- JSON for followers and for the result ---- */

json_t *execution_install_json(const struct execution *execution)
{
    const struct cell *cell = execution->cell;
    json_t *told;

    if (cell && cell->install && cell->install->is_fetching)
        return json_pack("{s:s, s:s}", "state", "installing", "package", cell->install->package);
    if (!cell || !cell->install_meta)
        return NULL;
    told = json_pack("{s:s}", "state", cell->is_again ? "installed" : "failed");
    if (told)
        json_object_update(told, cell->install_meta);
    return told;
}
