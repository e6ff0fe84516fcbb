/*
 * workshop.h - an engine with everything around it, in the test's own process: a loop over poll(2),
 * a real index, bus and spools in a scratch folder, and a maker whose boxes are real wardens in
 * processes of their own, without namespaces.
 *
 * The maker answers in a turn of the loop, as the launcher does, or is told to hold its answers
 * back. It keeps a descriptor of every box, so that an engine can be freed and another one built
 * over the same boxes. `/workspace`, `/tmp` and `/tmp/data` of a box are folders of the scratch;
 * commands begin in the first one and reach the others as ../tmp.
 */
#ifndef BAILEY_TESTS_WORKSHOP_H
#define BAILEY_TESTS_WORKSHOP_H

#include "reactor.h"
#include "scratch.h"

#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/str.h"
#include "observe/audit.h"
#include "observe/metrics.h"
#include "sandbox/sandbox.h"
#include "session/inside.h"
#include "warden/warden.h"

#define PATIENCE_MS 60000
#define SHOP_BOXES 16

struct shop_box {
    uint32_t number;
    char key[ID_MAX];
    pid_t pid;   /* 0: none */
    int channel; /* the host's end, kept over engines */
};

/* What the maker was asked and has not answered. */
struct shop_ask {
    struct shop_ask *next;
    enum { ASK_MAKE, ASK_END, ASK_USAGE } kind;
    uint32_t number; /* of the box, or the serial of a make */
    char key[ID_MAX];
    struct limits limits;
    const struct make_events *events; /* NULL: cancelled */
    void (*done)(void *ctx, const struct box_facts *facts);
    void *ctx;
};

struct shop {
    struct maker maker; /* first */
    struct poll_reactor loop;
    struct scratch scratch;
    struct config config;
    struct index *index;
    struct bus *bus;
    struct engine *engine;
    struct engine_language languages[4];
    const char *dataset_folders[2];
    int dataset_fd, folder_fd[8];
    uint32_t generation;
    bool is_ready;

    struct shop_box boxes[SHOP_BOXES];
    struct shop_ask *asks, **asks_end;
    struct reactor_timer *timer;
    uint32_t next_serial, next_number;
    bool holds[3];      /* answers of that kind are held back */
    bool refuses;       /* boxes */
    bool refuses_now;   /* make() itself fails */
    bool is_wall;       /* boxes are containers, with a /tmp/data of their own */
    uint64_t oom_kills; /* what it says of every box */
    unsigned made, cancelled;
    /* What a box brings along; NULL: nothing. */
    void (*furnish)(struct shop *shop, struct shop_box *box, struct made *made);
};

#define UNTIL(shop, condition)                                  \
    do {                                                        \
        uint64_t patience_ = clock_now_ms() + PATIENCE_MS;      \
        while (!(condition)) {                                  \
            if (clock_now_ms() >= patience_)                    \
                fail_msg("waited in vain for: %s", #condition); \
            poll_reactor_turn(&(shop)->loop, 50);               \
        }                                                       \
    } while (0)

/* ---- boxes ---- */

static inline _Noreturn void shop_warden(struct shop *shop, struct shop_box *box, int fd)
{
    static const char *const names[_SHARE_MAX] = {"work", "tmp", "home", "tmp/data"};
    static const char *const env[] = {"PATH=/usr/bin:/bin", "K=box", NULL};
    struct sandbox_plan plan = {.env = env, .watch_disk_bytes = 1 * GIB};
    static char paths[_SHARE_MAX][160];
    struct sandbox sandbox;

    sandbox_init(&sandbox, &plan);
    for (int i = 0; i < _SHARE_MAX; i++) {
        snprintf(paths[i], sizeof(paths[i]), "box/%u/%s", box->number, names[i]);
        snprintf(paths[i], sizeof(paths[i]), "%s", scratch_folder(&shop->scratch, paths[i]));
        plan.share_path[i] = paths[i];
        sandbox.share_fd[i] = open(paths[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    warden_run(&sandbox, fd);
}

/* The name of something in a box's folders: "tmp/output/a.csv". */
static inline const char *shop_path(struct shop *shop, const char *key, const char *name)
{
    char text[512];

    for (int i = 0; i < SHOP_BOXES; i++) {
        if (!str_equal(shop->boxes[i].key, key))
            continue;
        snprintf(text, sizeof(text), "box/%u/%s", shop->boxes[i].number, name);
        return scratch_path(&shop->scratch, text);
    }
    fail_msg("no box was made for %s", key);
    return NULL;
}

static inline struct shop_box *shop_find(struct shop *shop, uint32_t number)
{
    for (int i = 0; i < SHOP_BOXES; i++) {
        if (shop->boxes[i].number == number && shop->boxes[i].pid)
            return &shop->boxes[i];
    }
    return NULL;
}

static inline void shop_box_end(struct shop_box *box)
{
    close(box->channel); /* the last: it hears that, and ends whom it started */
    waitpid(box->pid, NULL, 0);
    box->pid = 0;
}

static inline struct shop_box *shop_box_new(struct shop *shop, const char *key)
{
    uint8_t ready[1024];
    int pair[2];

    for (int i = 0; i < SHOP_BOXES; i++) {
        struct shop_box *box = &shop->boxes[i];

        if (box->number)
            continue;
        box->number = ++shop->next_number;
        str_copy(box->key, sizeof(box->key), key);
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        box->pid = fork();
        assert_true(box->pid >= 0);
        if (box->pid == 0) {
            close_range(3, (unsigned)pair[1] - 1, 0); /* channels of others among them */
            close_range((unsigned)pair[1] + 1, UINT_MAX, 0);
            shop_warden(shop, box, pair[1]);
        }
        close(pair[1]);
        box->channel = pair[0];
        assert_true(recv(pair[0], ready, sizeof(ready), 0) > 0);
        shop->made++;
        return box;
    }
    fail_msg("too many boxes");
    return NULL;
}

static inline struct made shop_made(const struct shop *shop, const struct shop_box *box)
{
    struct made made = {.number = box->number,
                        .limits = shop->config.limits,
                        .facts = {.layers = 1},
                        .is_wall = shop->is_wall};
    struct error err = {0};

    str_copy(made.key, sizeof(made.key), box->key);
    assert_int_equal(box_new(fcntl(box->channel, F_DUPFD_CLOEXEC, 3), NULL, &made.box, &err), 0);
    return made;
}

/* ---- the maker ---- */

static inline struct shop_ask *shop_ask(struct shop *shop, int kind, uint32_t number, void *ctx)
{
    struct shop_ask *ask = calloc(1, sizeof(*ask));

    assert_non_null(ask);
    ask->kind = kind;
    ask->number = number;
    ask->ctx = ctx;
    *shop->asks_end = ask;
    shop->asks_end = &ask->next;
    poll_timer_set(shop->timer, 0);
    return ask;
}

static inline int shop_make(struct maker *maker, const struct make_request *request,
                            const struct make_events *events, void *ctx, uint32_t *ret_serial,
                            struct error *err)
{
    struct shop *shop = (struct shop *)maker;
    struct shop_ask *ask;

    if (shop->refuses_now)
        return error_set(err, -EIO, ERROR_ENGINE, "no boxes today");
    ask = shop_ask(shop, ASK_MAKE, ++shop->next_serial, ctx);
    ask->events = events;
    ask->limits = request->limits;
    str_copy(ask->key, sizeof(ask->key), request->key);
    *ret_serial = ask->number;
    return 0;
}

static inline void shop_make_cancel(struct maker *maker, uint32_t serial)
{
    struct shop *shop = (struct shop *)maker;

    for (struct shop_ask *ask = shop->asks; ask; ask = ask->next) {
        if (ask->kind == ASK_MAKE && ask->number == serial)
            ask->events = NULL;
    }
    shop->cancelled++;
}

static inline void shop_end(struct maker *maker, uint32_t number, struct box *box,
                            void (*done)(void *ctx, const struct box_facts *facts), void *ctx)
{
    box_free(box);
    shop_ask((struct shop *)maker, ASK_END, number, ctx)->done = done;
}

static inline void shop_usage(struct maker *maker, uint32_t number,
                              void (*done)(void *ctx, const struct box_facts *facts), void *ctx)
{
    shop_ask((struct shop *)maker, ASK_USAGE, number, ctx)->done = done;
}

static const struct maker_ops shop_ops = {
    .name = "workshop",
    .make = shop_make,
    .make_cancel = shop_make_cancel,
    .end = shop_end,
    .usage = shop_usage,
};

static inline void shop_answer_make(struct shop *shop, const struct shop_ask *ask)
{
    struct box_facts facts = {.missing = 1};
    struct error err = {0};
    struct shop_box *box;
    struct made made;

    if (!ask->events)
        return;
    if (shop->refuses) {
        error_set(&err, -EPERM, ERROR_REFUSED, "too weak here");
        ask->events->refused(ask->ctx, &err, &facts);
        return;
    }
    box = shop_box_new(shop, ask->key);
    made = shop_made(shop, box);
    if (shop->furnish)
        shop->furnish(shop, box, &made);
    ask->events->made(ask->ctx, &made);
}

static inline void shop_answer(struct shop *shop, struct shop_ask *ask)
{
    struct box_facts facts = {.oom_kills = shop->oom_kills};
    struct shop_box *box;

    if (ask->kind == ASK_MAKE) {
        shop_answer_make(shop, ask);
        return;
    }
    box = shop_find(shop, ask->number);
    if (ask->kind == ASK_END && box)
        shop_box_end(box);
    if (ask->done)
        ask->done(ask->ctx, &facts);
}

static inline void shop_work(void *ctx)
{
    struct shop *shop = ctx;
    struct shop_ask **at = &shop->asks;

    while (*at) {
        struct shop_ask *ask = *at;

        if (shop->holds[ask->kind]) {
            at = &ask->next;
            continue;
        }
        *at = ask->next;
        if (!*at)
            shop->asks_end = at;
        shop_answer(shop, ask);
        free(ask);
        at = &shop->asks; /* whatever was asked meanwhile */
    }
}

static inline void shop_let_go(struct shop *shop, int kind)
{
    shop->holds[kind] = false;
    poll_timer_set(shop->timer, 0);
}

static inline unsigned shop_asked(const struct shop *shop, int kind)
{
    unsigned count = 0;

    for (const struct shop_ask *ask = shop->asks; ask; ask = ask->next)
        count += (int)ask->kind == kind;
    return count;
}

/* ---- the engine ---- */

static inline void shop_ready(void *ctx)
{
    ((struct shop *)ctx)->is_ready = true;
}

/* The next broker: what the last one left is found, and taken over. */
static inline void shop_begin(struct shop *shop)
{
    struct engine_spec spec = {
        .reactor = &shop->loop.reactor,
        .config = &shop->config,
        .folders = {.index_fd = shop->folder_fd[0],
                    .output_fd = shop->folder_fd[1],
                    .artifacts_fd = shop->folder_fd[2],
                    .data_fd = shop->folder_fd[3],
                    .logs_fd = shop->folder_fd[4],
                    .layers_fd = shop->folder_fd[5],
                    .templates_fd = shop->folder_fd[6],
                    .packages_fd = shop->folder_fd[7],
                    .output = "/state/output",
                    .artifacts = "/state/artifacts",
                    .dataset_fds = &shop->dataset_fd,
                    .dataset_folders = shop->dataset_folders},
        .languages = shop->languages,
        .language_count = 4,
        .index = shop->index,
        .bus = shop->bus,
    };
    struct error err = {0};

    assert_int_equal(engine_new(&spec, &shop->engine, &err), 0);
    engine_set_maker(shop->engine, &shop->maker);
    for (int i = 0; i < SHOP_BOXES; i++) {
        struct made made;

        if (!shop->boxes[i].pid)
            continue;
        made = shop_made(shop, &shop->boxes[i]);
        engine_found(shop->engine, &made);
    }
    shop->is_ready = false;
    engine_start(shop->engine, ++shop->generation, shop_ready, shop);
    UNTIL(shop, shop->is_ready);
}

/* As kill -9 of the broker: nothing is said to anybody. */
static inline void shop_crash(struct shop *shop)
{
    engine_free(shop->engine);
    shop->engine = NULL;
    while (shop->asks) {
        struct shop_ask *ask = shop->asks;

        shop->asks = ask->next;
        free(ask);
    }
    shop->asks_end = &shop->asks;
}

static inline int shop_open(void **state)
{
    static const char *const folders[] = {"index", "output", "artifacts", "data",
                                          "logs",  "layers", "templates", "packages"};
    static char *env[] = {NULL};
    struct shop *shop = calloc(1, sizeof(*shop));
    struct error err = {0};

    assert_non_null(shop);
    shop->maker.ops = &shop_ops;
    shop->asks_end = &shop->asks;
    poll_reactor_init(&shop->loop);
    scratch_make(&shop->scratch);
    for (int i = 0; i < 8; i++)
        shop->folder_fd[i] =
            open(scratch_folder(&shop->scratch, folders[i]), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    shop->dataset_fd =
        open(scratch_folder(&shop->scratch, "given"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    shop->dataset_folders[0] = "/given";
    shop->languages[0] =
        (struct engine_language){.name = "bash", .script = "main.sh", .program = "/bin/sh"};
    shop->languages[1] = (struct engine_language){
        .name = "python", .script = "main.py", .program = "/usr/bin/python3"};
    shop->languages[2] = (struct engine_language){.name = "ada", .missing = "no Ada here"};
    shop->languages[3] =
        (struct engine_language){.name = "none", .script = "main", .program = "/no/such/program"};
    assert_int_equal(config_load_text(&shop->config, "", 0, "test", env, &err), 0);
    assert_int_equal(index_open(shop->folder_fd[0], &shop->index, &err), 0);
    shop->bus = bus_new();
    assert_non_null(shop->bus);
    shop->timer = reactor_timer(&shop->loop.reactor, shop_work, shop);
    shop_begin(shop);
    *state = shop;
    return 0;
}

static inline int shop_close(void **state)
{
    struct shop *shop = *state;

    shop_crash(shop);
    for (int i = 0; i < SHOP_BOXES; i++) {
        if (shop->boxes[i].pid)
            shop_box_end(&shop->boxes[i]);
    }
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    bus_free(shop->bus);
    index_close(shop->index);
    config_free(&shop->config);
    poll_timer_remove(shop->timer);
    poll_reactor_free(&shop->loop);
    for (int i = 0; i < 8; i++)
        close(shop->folder_fd[i]);
    close(shop->dataset_fd);
    scratch_remove(&shop->scratch);
    free(shop);
    return 0;
}

static inline int shop_reaper(void **state)
{
    (void)state;
    return prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* With metrics and an audit, of which logs/audit.jsonl is left. */
static inline int shop_open_observed(void **state)
{
    struct shop *shop;

    shop_open(state);
    shop = *state;
    shop->engine->spec.metrics = metrics_new();
    shop->engine->spec.audit = audit_open(shop->folder_fd[4]);
    assert_non_null(shop->engine->spec.metrics);
    assert_non_null(shop->engine->spec.audit);
    return 0;
}

static inline int shop_close_observed(void **state)
{
    struct shop *shop = *state;

    metrics_free(shop->engine->spec.metrics);
    audit_close(shop->engine->spec.audit);
    shop->engine->spec.metrics = NULL;
    shop->engine->spec.audit = NULL;
    return shop_close(state);
}

#define IN_A_WORKSHOP(test) cmocka_unit_test_setup_teardown(test, shop_open, shop_close)

/* ---- what tests do ---- */

static inline struct session *shop_session(struct shop *shop, const char *name)
{
    struct session *session;
    struct error err = {0};

    assert_int_equal(
        engine_create(shop->engine, &(struct session_spec){.name = name}, &session, &err), 0);
    return session;
}

/* sh -c SCRIPT */
static inline struct execution *shop_exec(struct session *session, const char *script,
                                          const struct execution_spec *more)
{
    const char *argv[] = {"sh", "-c", script, NULL};
    struct execution_spec spec = more ? *more : (struct execution_spec){0};
    struct execution *execution = NULL;
    struct error err = {0};

    spec.argv = argv;
    if (session_exec(session, &spec, &execution, &err) < 0)
        fail_msg("%s", err.text);
    return execution;
}

static inline struct execution *shop_ran(struct shop *shop, struct session *session,
                                         const char *script, const struct execution_spec *more)
{
    struct execution *execution = shop_exec(session, script, more);

    UNTIL(shop, execution_has_ended(execution));
    return execution;
}

static inline void check_output(const struct execution *execution, int stream, const char *text)
{
    char data[4096];
    ssize_t length = execution_read(execution, stream, 0, data, sizeof(data) - 1);

    assert_true(length >= 0);
    data[length] = 0;
    assert_string_equal(data, text);
}

/* Somebody who counts what he is told. */
struct looker {
    struct execution_watcher *watcher;
    struct execution *execution;
    unsigned started, more;
};

static inline void looker_started(void *ctx)
{
    ((struct looker *)ctx)->started++;
}

static inline void looker_more(void *ctx)
{
    ((struct looker *)ctx)->more++;
}

static const struct execution_watch_events looker_events = {.started = looker_started,
                                                            .more = looker_more};

static inline void look(struct looker *looker, struct execution *execution, bool paces)
{
    *looker = (struct looker){.execution = execution};
    looker->watcher = execution_watch(execution, paces, &looker_events, looker);
    assert_non_null(looker->watcher);
}

static inline void counted(void *ctx)
{
    (*(unsigned *)ctx)++;
}

static inline bool has_file(struct shop *shop, const char *name)
{
    return access(scratch_path(&shop->scratch, name), F_OK) == 0;
}

#endif
