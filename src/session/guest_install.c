/*
 * guest_install.c - `pip install` typed in the box of a session or a one-shot run, carried to the
 * installer (SANDBOX_AUTO_INSTALL); see docs/design (pip in a box).
 *
 * Theory of operation. The box has a folder, /tmp/.bailey-install, which the broker watches. The
 * pip of the box puts a request there (NAME.ask: one requirement in each line) and waits for
 * NAME.done. The folder is the queue: the broker lists it, takes one request at a time, removes it,
 * installs, writes the answer, and looks again, never sooner than PACE_MS after the time before. So
 * a flood of requests costs the guest's disk and one short list at a time. All of it is the
 * guest's: what is read is bounded, names are checked, and each line goes through the same parser,
 * lists, quotas and audit as a request of a client. The worst that a forged request can do is
 * install packages that the operator's lists allow, which the code could get by importing them.
 *
 * The setting belongs to the call. The folder is made for the first call of a session that has it,
 * and a request counts while such a call is under way. Processes that a command left behind have
 * what the session was made with. Other requests are answered with status 2: their pip says what is
 * possible, as where there is no folder.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "model/text.h"
#include "runtime/box/files.h"
#include "session/run_private.h"
#include "wire/file_message.h"

#define PLACE "/tmp/.bailey-install"
#define ASK ".ask"
#define STEM_MAX 32
#define REQUEST_MAX (16 * KIB)
#define ANSWER_MAX (16 * KIB)
#define PACE_MS 100
#define SLOW_PACE_MS 5000 /* after a list with more than MANY entries, or a failure */
#define MANY 64

enum progress {
    WAITING, /* for a change of the folder, or for the timer */
    LISTING,
    READING,
    REMOVING,
    INSTALLING,
    ANSWERING,
};

struct guest_install {
    struct session_manager *manager;
    struct session *session;        /* NULL: a run's */
    struct run *run;                /* NULL: a session's */
    void (*ready)(struct run *run); /* of a run: the folder is there, or will not be; once */
    struct reactor_timer *turn;
    enum progress progress;
    uint32_t watch, op; /* 0: none */
    bool is_dirty;      /* a request came since the last list began */
    unsigned listed;
    char stem[STEM_MAX + 1]; /* of the request under way; empty: none was found */
    struct buf text;         /* the request, then its answer */
    size_t sent;
    struct installation *installation;
};

/* ---- life ---- */

static struct box *box_of(const struct guest_install *guest)
{
    return guest->run ? guest->run->box : guest->session->box;
}

static const char *id_of(const struct guest_install *guest)
{
    return guest->run ? guest->run->result.execution_id : guest->session->id;
}

void guest_install_free(struct guest_install *guest)
{
    if (!guest)
        return;
    if (box_of(guest) && guest->watch)
        box_cancel(box_of(guest), guest->watch);
    if (box_of(guest) && guest->op)
        box_cancel(box_of(guest), guest->op);
    if (guest->installation)
        installer_cancel(guest->installation);
    if (guest->turn)
        guest->manager->spec.reactor->ops->timer_remove(guest->turn);
    buf_free(&guest->text);
    free(guest);
}

/* Looks at the folder again, after a while. */
static void rest(struct guest_install *guest, uint64_t ms)
{
    guest->progress = WAITING;
    guest->manager->spec.reactor->ops->timer_set(guest->turn, ms);
}

static void path_of(const struct guest_install *guest, const char *ending, char path[96])
{
    str_format(path, 96, PLACE "/%s%s", guest->stem, ending);
}

/* ---- the answer ---- */

static void on_answered(void *ctx, const struct error *err)
{
    struct guest_install *guest = ctx;

    guest->op = 0;
    rest(guest, err->num < 0 ? SLOW_PACE_MS : PACE_MS);
}

static void push(void *ctx)
{
    struct guest_install *guest = ctx;
    struct box *box = box_of(guest);

    while (guest->sent < guest->text.length) {
        long taken = box_put_data(box, guest->op, guest->text.data + guest->sent,
                                  guest->text.length - guest->sent);

        if (taken <= 0)
            return;
        guest->sent += (size_t)taken;
    }
    box_put_end(box, guest->op);
}

/* Writes guest->text as the answer. */
static void answer(struct guest_install *guest)
{
    static const struct put_events events = {.done = on_answered, .more = push};
    struct put_spec spec = {.mode = 0644};
    struct error err = {0};
    char path[96];

    path_of(guest, ".done", path);
    spec.path = path;
    guest->sent = 0;
    guest->progress = ANSWERING;
    if (box_put(box_of(guest), &spec, &events, guest, &guest->op, &err) < 0) {
        guest->op = 0;
        rest(guest, SLOW_PACE_MS);
        return;
    }
    push(guest);
}

static void answer_error(struct guest_install *guest, const struct error *err)
{
    uint64_t invalid = 0;

    buf_clear(&guest->text);
    buf_append_text(&guest->text, "1\nERROR: "); /* as pip marks it */
    text_clean(&guest->text, err->text, strlen(err->text), false, &invalid);
    buf_append_text(&guest->text, "\n");
    answer(guest);
}

/* ---- the installation ---- */

/* Whether a call with the setting is under way; while none is, the session's own setting counts. */
static bool may_install(const struct guest_install *guest)
{
    const struct execution *at = guest->session ? guest->session->executions : NULL;
    bool is_working = false;

    for (; at; at = at->next) {
        if (execution_has_ended(at))
            continue;
        if (execution_config(at)->auto_install)
            return true;
        is_working = true;
    }
    return !guest->session || (!is_working && session_config(guest->session)->auto_install);
}

static void on_installed(void *ctx, const struct install_end *end, const struct error *err)
{
    struct guest_install *guest = ctx;
    json_t *package;
    size_t i;

    guest->installation = NULL;
    if (err->num < 0) {
        answer_error(guest, err);
        return;
    }
    buf_clear(&guest->text);
    if (json_array_size(end->added) == 0)
        buf_append_text(&guest->text, "0\nRequirement already satisfied");
    else
        buf_append_text(&guest->text, "0\nSuccessfully installed");
    json_array_foreach(end->added, i, package)
    {
        buf_printf(&guest->text, " %s-%s", json_string_value(json_object_get(package, "name")),
                   json_string_value(json_object_get(package, "version")));
    }
    buf_append_text(&guest->text, "\n");
    answer(guest);
}

/* One requirement in each line; NULL: no memory, or too many. */
static char **read_lines(const struct buf *text)
{
    CLEANUP(strv_freep) char **lines = strv_new();
    const char *at = buf_text(text), *end = at + text->length;

    while (lines && at < end) {
        size_t length = (size_t)((const char *)memchr(at, '\n', (size_t)(end - at)) - at);
        CLEANUP(freep) char *line = strndup(at, length);

        if (!line || strv_length(lines) > LIMIT_PACKAGES || strv_push(&lines, line) < 0)
            return NULL;
        at += length + 1;
    }
    return ptr_take(&lines);
}

static int start(struct guest_install *guest, const char *const *lines,
                 const struct install_events *events, struct error *err)
{
    return guest->run
               ? run_packages_install(guest->run, lines, events, guest, &guest->installation, err)
               : session_install(guest->session, NULL, lines, events, guest, &guest->installation,
                                 err);
}

static void refuse(const struct guest_install *guest, const char *const *lines,
                   const struct error *err)
{
    if (guest->run)
        run_install_audit(guest->run, lines, NULL, err);
    else
        install_audit(guest->manager,
                      &(struct asked_install){.tenant = guest->session->tenant,
                                              .session = guest->session->id,
                                              .wanted = lines},
                      NULL, err);
}

static void install(struct guest_install *guest)
{
    static const struct install_events events = {.done = on_installed};
    const struct buf *text = &guest->text;
    CLEANUP(strv_freep) char **lines = NULL;
    struct error err = {0};

    if (!may_install(guest)) {
        buf_clear(&guest->text);
        buf_append_text(&guest->text, "2\n");
        answer(guest);
        return;
    }
    if (text->length == 0 || text->length > REQUEST_MAX || text->data[text->length - 1] != '\n' ||
        memchr(text->data, '\0', text->length)) {
        error_set(&err, -EINVAL, ERROR_BAD_INPUT, "the request is not a list of packages");
        answer_error(guest, &err);
        return;
    }
    lines = read_lines(text);
    if (!lines)
        error_set(&err, -E2BIG, ERROR_TOO_LARGE, "at most %d packages can be installed at once",
                  LIMIT_PACKAGES);
    guest->progress = INSTALLING;
    if (lines && start(guest, (const char *const *)lines, &events, &err) == 0)
        return;
    guest->installation = NULL;
    refuse(guest, (const char *const *)lines, &err);
    answer_error(guest, &err);
}

/* ---- the request ---- */

static void on_removed(void *ctx, const struct error *err)
{
    struct guest_install *guest = ctx;

    guest->op = 0;
    if (err->num < 0) /* its pip took it back, or the guest does not let it go */
        rest(guest, SLOW_PACE_MS);
    else
        install(guest);
}

static void on_read(void *ctx, const struct error *err)
{
    static const struct done_events events = {.done = on_removed};
    struct guest_install *guest = ctx;
    struct error failure = {0};
    char path[96];

    if (err->num < 0)
        buf_clear(&guest->text); /* answered as a bad request */
    path_of(guest, ASK, path);
    guest->progress = REMOVING;
    if (box_remove(box_of(guest), path, false, &events, guest, &guest->op, &failure) < 0) {
        guest->op = 0;
        rest(guest, SLOW_PACE_MS);
    }
}

static size_t on_data(void *ctx, const void *data, size_t length)
{
    struct guest_install *guest = ctx;

    buf_append(&guest->text, data, length); /* box_get() asked for no more than it holds */
    return length;
}

static bool is_request(const struct box_entry *entry)
{
    size_t length = strlen(entry->name), stem = length - (sizeof(ASK) - 1);

    return S_ISREG(entry->mode) && str_ends(entry->name, ASK) && stem > 0 && stem <= STEM_MAX &&
           strspn(entry->name, "0123456789abcdef") == stem;
}

static void on_entry(void *ctx, const struct box_entry *entry)
{
    struct guest_install *guest = ctx;

    guest->listed++;
    if (!guest->stem[0] && is_request(entry))
        str_format(guest->stem, sizeof(guest->stem), "%.*s",
                   (int)(strlen(entry->name) - (sizeof(ASK) - 1)), entry->name);
}

static void on_listed(void *ctx, const struct error *err)
{
    static const struct get_events events = {.data = on_data, .done = on_read};
    struct guest_install *guest = ctx;
    uint64_t pace_ms = guest->listed > MANY || err->num < 0 ? SLOW_PACE_MS : PACE_MS;
    struct error failure = {0};
    char path[96];

    guest->op = 0;
    guest->progress = WAITING;
    if (!guest->stem[0]) {
        if (guest->is_dirty)
            rest(guest, pace_ms);
        return;
    }
    path_of(guest, ASK, path);
    buf_clear(&guest->text);
    guest->progress = READING;
    if (box_get(box_of(guest), path, 0, REQUEST_MAX + 1, &events, guest, &guest->op, &failure) <
        0) {
        guest->op = 0;
        rest(guest, SLOW_PACE_MS);
    }
}

static void on_turn(void *ctx)
{
    static const struct list_events events = {.entry = on_entry, .done = on_listed};
    struct guest_install *guest = ctx;
    struct error err = {0};

    if (guest->progress != WAITING || !box_of(guest) ||
        (guest->session && guest->session->state != SESSION_READY))
        return;
    guest->progress = LISTING;
    guest->is_dirty = false;
    guest->listed = 0;
    guest->stem[0] = '\0';
    if (box_list(box_of(guest), PLACE, 1, &events, guest, &guest->op, &err) < 0) {
        guest->op = 0;
        guest->progress = WAITING;
    }
}

/* ---- the folder ---- */

static void on_changed(void *ctx, const struct box_change *change)
{
    struct guest_install *guest = ctx;

    if (change->kind != CHANGE_OVERFLOW &&
        (change->kind != CHANGE_RENAMED_TO || !change->name || !str_ends(change->name, ASK)))
        return;
    if (!guest->is_dirty && guest->progress == WAITING)
        rest(guest, PACE_MS);
    guest->is_dirty = true;
}

static void on_watching(void *ctx)
{
    rest(ctx, 0); /* a request may be older than this broker */
}

static void on_unwatched(void *ctx, const struct error *err)
{
    struct guest_install *guest = ctx;

    guest->watch = 0;
    log_debug("%s: pip of its box is not heard any more: %s", id_of(guest), err->text);
}

static const struct watch_events watch_events = {
    .ready = on_watching, .changed = on_changed, .done = on_unwatched};

static void on_folder(void *ctx, const struct error *err)
{
    struct guest_install *guest = ctx;
    struct error failure = *err;

    guest->op = 0;
    if (failure.num == -EEXIST) /* an earlier broker's */
        failure = (struct error){0};
    if (failure.num == 0)
        box_watch(box_of(guest), PLACE, false, &watch_events, guest, &guest->watch, &failure);
    if (failure.num < 0)
        log_warning("%s: %s, continuing without pip install in its box", id_of(guest),
                    failure.text);
    if (guest->ready)
        guest->ready(guest->run);
}

/*
 * NULL: no memory, or the box takes no request. is_there: the folder is that of an earlier broker,
 * and is not made if it had none.
 */
static struct guest_install *guest_install_new(const struct guest_install *whose, bool is_there)
{
    static const struct done_events events = {.done = on_folder};
    struct guest_install *guest = calloc(1, sizeof(*guest));
    struct error err = {0};

    if (!guest)
        return NULL;
    *guest = *whose;
    guest->text = BUF_INIT(MAX(REQUEST_MAX, ANSWER_MAX) + 1);
    guest->turn = reactor_timer(guest->manager->spec.reactor, on_turn, guest);
    if (guest->turn && is_there)
        box_watch(box_of(guest), PLACE, false, &watch_events, guest, &guest->watch, &err);
    else if (guest->turn)
        box_mkdir(box_of(guest), PLACE, 0777, &events, guest, &guest->op, &err);
    if (guest->turn && err.num == 0)
        return guest;
    guest->watch = guest->op = 0;
    guest_install_free(guest);
    return NULL;
}

static void listen_to(struct session *session, bool is_there)
{
    if (session->guest_install || !session->box ||
        !provider_can(session->provider, PROVIDER_CAN_INSTALL))
        return;
    session->guest_install = guest_install_new(
        &(struct guest_install){.manager = session->manager, .session = session}, is_there);
}

void guest_install_start(struct session *session)
{
    if (session_config(session)->auto_install || session->hears_pip)
        listen_to(session, false);
}

void guest_install_adopt(struct session *session)
{
    listen_to(session, !session_config(session)->auto_install);
}

void guest_install_call(struct session *session, const struct config *config)
{
    const struct guest_install *guest = session->guest_install;

    if (!config->auto_install)
        return;
    session->hears_pip = true;
    if (guest && !guest->watch && !guest->op) /* an earlier broker had no folder */
        guest_install_free(ptr_take(&session->guest_install));
    listen_to(session, false);
}

bool guest_install_of_run(struct run *run, void (*ready)(struct run *run))
{
    if (!run->hears_pip || !provider_can(run->provider, PROVIDER_CAN_INSTALL))
        return false;
    run->guest_install = guest_install_new(
        &(struct guest_install){.manager = run->manager, .run = run, .ready = ready}, false);
    return run->guest_install;
}
