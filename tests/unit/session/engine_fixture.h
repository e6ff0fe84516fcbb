/*
 * engine_fixture.h - an engine with everything around it, in the test's own process: a loop over
 * poll(2), a real index, bus and spools in a scratch folder, and a provider whose boxes are real
 * wardens in processes of their own, without namespaces.
 *
 * The provider answers in a turn of the loop, as the launcher does, or is told to hold its answers
 * back. It keeps a descriptor of every box, so that an engine can be freed and another one built
 * over the same boxes. `/workspace`, `/tmp` and `/tmp/data` of a box are folders of the scratch;
 * commands begin in the first one and reach the others as ../tmp.
 */
#ifndef BAILEY_TESTS_ENGINE_FIXTURE_H
#define BAILEY_TESTS_ENGINE_FIXTURE_H

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
#include "session/session_private.h"
#include "warden/warden.h"

#define PATIENCE_MS 60000
#define FIXTURE_BOXES 16

struct fixture_box {
    uint32_t number;
    char key[ID_MAX];
    pid_t pid;   /* 0: none */
    int channel; /* the host's end, kept over engines */
};

/* What the provider was asked and has not answered. */
struct fixture_ask {
    struct fixture_ask *next;
    enum { ASK_MAKE, ASK_END, ASK_USAGE } kind;
    uint32_t number; /* of the box, or the serial of a make */
    char key[ID_MAX];
    struct limits limits;
    const struct make_events *events; /* NULL: cancelled */
    void (*done)(void *ctx, const struct box_facts *facts);
    void *ctx;
};

struct engine_fixture {
    struct provider provider; /* first */
    struct poll_reactor loop;
    struct scratch scratch;
    struct config config;
    struct index *index;
    struct bus *bus;
    struct session_manager *manager;
    struct session_language languages[4];
    const char *dataset_folders[2];
    int dataset_fd, folder_fd[8];
    uint32_t generation;
    bool is_ready;

    struct fixture_box boxes[FIXTURE_BOXES];
    struct fixture_ask *asks, **asks_end;
    struct reactor_timer *timer;
    uint32_t next_serial, next_number;
    bool holds[3];          /* answers of that kind are held back */
    bool refuses;           /* boxes */
    bool refuses_now;       /* make() itself fails */
    bool has_provider_host; /* boxes are containers, with a /tmp/data of their own */
    uint64_t oom_kills;     /* what it says of every box */
    unsigned made, cancelled;
    /* What a box brings along; NULL: nothing. */
    void (*fill_made)(struct engine_fixture *fixture, struct fixture_box *box, struct made *made);
};

#define UNTIL(fixture, condition)                               \
    do {                                                        \
        uint64_t patience_ = clock_now_ms() + PATIENCE_MS;      \
        while (!(condition)) {                                  \
            if (clock_now_ms() >= patience_)                    \
                fail_msg("waited in vain for: %s", #condition); \
            poll_reactor_turn(&(fixture)->loop, 50);            \
        }                                                       \
    } while (0)

/* ---- boxes ---- */

static inline _Noreturn void fixture_warden(struct engine_fixture *fixture, struct fixture_box *box,
                                            int fd)
{
    static const char *const names[_SHARE_MAX] = {"work", "tmp", "home", "tmp/data"};
    static const char *const env[] = {"PATH=/usr/bin:/bin", "K=box", NULL};
    struct sandbox_plan plan = {.env = env, .watch_disk_bytes = 1 * GIB};
    static char paths[_SHARE_MAX][160];
    struct sandbox sandbox;

    sandbox_init(&sandbox, &plan);
    for (int i = 0; i < _SHARE_MAX; i++) {
        snprintf(paths[i], sizeof(paths[i]), "box/%u/%s", box->number, names[i]);
        snprintf(paths[i], sizeof(paths[i]), "%s", scratch_folder(&fixture->scratch, paths[i]));
        plan.share_path[i] = paths[i];
        sandbox.share_fd[i] = open(paths[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    warden_run(&sandbox, fd);
}

/* The name of something in a box's folders: "tmp/output/a.csv". */
static inline const char *fixture_path(struct engine_fixture *fixture, const char *key,
                                       const char *name)
{
    char text[512];

    for (int i = 0; i < FIXTURE_BOXES; i++) {
        if (!str_equal(fixture->boxes[i].key, key))
            continue;
        snprintf(text, sizeof(text), "box/%u/%s", fixture->boxes[i].number, name);
        return scratch_path(&fixture->scratch, text);
    }
    fail_msg("no box was made for %s", key);
    return NULL;
}

static inline struct fixture_box *fixture_find(struct engine_fixture *fixture, uint32_t number)
{
    for (int i = 0; i < FIXTURE_BOXES; i++) {
        if (fixture->boxes[i].number == number && fixture->boxes[i].pid)
            return &fixture->boxes[i];
    }
    return NULL;
}

static inline void fixture_box_end(struct fixture_box *box)
{
    close(box->channel); /* the last: it hears that, and ends whom it started */
    waitpid(box->pid, NULL, 0);
    box->pid = 0;
}

static inline struct fixture_box *fixture_box_new(struct engine_fixture *fixture, const char *key)
{
    uint8_t ready[1024];
    int pair[2];

    for (int i = 0; i < FIXTURE_BOXES; i++) {
        struct fixture_box *box = &fixture->boxes[i];

        if (box->number)
            continue;
        box->number = ++fixture->next_number;
        str_copy(box->key, sizeof(box->key), key);
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        box->pid = fork();
        assert_true(box->pid >= 0);
        if (box->pid == 0) {
            close_range(3, (unsigned)pair[1] - 1, 0); /* channels of others among them */
            close_range((unsigned)pair[1] + 1, UINT_MAX, 0);
            fixture_warden(fixture, box, pair[1]);
        }
        close(pair[1]);
        box->channel = pair[0];
        assert_true(recv(pair[0], ready, sizeof(ready), 0) > 0);
        fixture->made++;
        return box;
    }
    fail_msg("too many boxes");
    return NULL;
}

static inline struct made fixture_made(const struct engine_fixture *fixture,
                                       const struct fixture_box *box)
{
    struct made made = {.number = box->number,
                        .limits = fixture->config.limits,
                        .facts = {.layers = 1},
                        .provider =
                            provider_known(fixture->has_provider_host ? "docker" : "local")};
    struct error err = {0};

    str_copy(made.key, sizeof(made.key), box->key);
    assert_int_equal(box_new(fcntl(box->channel, F_DUPFD_CLOEXEC, 3), NULL, &made.box, &err), 0);
    return made;
}

/* ---- the provider ---- */

static inline struct fixture_ask *fixture_ask(struct engine_fixture *fixture, int kind,
                                              uint32_t number, void *ctx)
{
    struct fixture_ask *ask = calloc(1, sizeof(*ask));

    assert_non_null(ask);
    ask->kind = kind;
    ask->number = number;
    ask->ctx = ctx;
    *fixture->asks_end = ask;
    fixture->asks_end = &ask->next;
    poll_timer_set(fixture->timer, 0);
    return ask;
}

static inline int fixture_make(struct provider *provider, const struct make_request *request,
                               const struct make_events *events, void *ctx, uint32_t *ret_serial,
                               struct error *err)
{
    struct engine_fixture *fixture = (struct engine_fixture *)provider;
    struct fixture_ask *ask;

    if (fixture->refuses_now)
        return error_set(err, -EIO, ERROR_ENGINE, "no boxes today");
    ask = fixture_ask(fixture, ASK_MAKE, ++fixture->next_serial, ctx);
    ask->events = events;
    ask->limits = request->limits;
    str_copy(ask->key, sizeof(ask->key), request->key);
    *ret_serial = ask->number;
    return 0;
}

static inline void fixture_make_cancel(struct provider *provider, uint32_t serial)
{
    struct engine_fixture *fixture = (struct engine_fixture *)provider;

    for (struct fixture_ask *ask = fixture->asks; ask; ask = ask->next) {
        if (ask->kind == ASK_MAKE && ask->number == serial)
            ask->events = NULL;
    }
    fixture->cancelled++;
}

static inline void fixture_end(struct provider *provider, uint32_t number, struct box *box,
                               void (*done)(void *ctx, const struct box_facts *facts), void *ctx)
{
    box_free(box);
    fixture_ask((struct engine_fixture *)provider, ASK_END, number, ctx)->done = done;
}

static inline void fixture_usage(struct provider *provider, uint32_t number,
                                 void (*done)(void *ctx, const struct box_facts *facts), void *ctx)
{
    fixture_ask((struct engine_fixture *)provider, ASK_USAGE, number, ctx)->done = done;
}

static const struct provider_ops fixture_ops = {
    .name = "workshop",
    .make = fixture_make,
    .make_cancel = fixture_make_cancel,
    .end = fixture_end,
    .usage = fixture_usage,
};

static inline void fixture_answer_make(struct engine_fixture *fixture,
                                       const struct fixture_ask *ask)
{
    struct box_facts facts = {.missing = 1};
    struct error err = {0};
    struct fixture_box *box;
    struct made made;

    if (!ask->events)
        return;
    if (fixture->refuses) {
        error_set(&err, -EPERM, ERROR_REFUSED, "too weak here");
        ask->events->refused(ask->ctx, &err, &facts);
        return;
    }
    box = fixture_box_new(fixture, ask->key);
    made = fixture_made(fixture, box);
    if (fixture->fill_made)
        fixture->fill_made(fixture, box, &made);
    ask->events->made(ask->ctx, &made);
}

static inline void fixture_answer(struct engine_fixture *fixture, struct fixture_ask *ask)
{
    struct box_facts facts = {.oom_kills = fixture->oom_kills};
    struct fixture_box *box;

    if (ask->kind == ASK_MAKE) {
        fixture_answer_make(fixture, ask);
        return;
    }
    box = fixture_find(fixture, ask->number);
    if (ask->kind == ASK_END && box)
        fixture_box_end(box);
    if (ask->done)
        ask->done(ask->ctx, &facts);
}

static inline void fixture_work(void *ctx)
{
    struct engine_fixture *fixture = ctx;
    struct fixture_ask **at = &fixture->asks;

    while (*at) {
        struct fixture_ask *ask = *at;

        if (fixture->holds[ask->kind]) {
            at = &ask->next;
            continue;
        }
        *at = ask->next;
        if (!*at)
            fixture->asks_end = at;
        fixture_answer(fixture, ask);
        free(ask);
        at = &fixture->asks; /* whatever was asked meanwhile */
    }
}

static inline void fixture_let_go(struct engine_fixture *fixture, int kind)
{
    fixture->holds[kind] = false;
    poll_timer_set(fixture->timer, 0);
}

static inline unsigned fixture_asked(const struct engine_fixture *fixture, int kind)
{
    unsigned count = 0;

    for (const struct fixture_ask *ask = fixture->asks; ask; ask = ask->next)
        count += (int)ask->kind == kind;
    return count;
}

/* ---- the engine ---- */

static inline void fixture_ready(void *ctx)
{
    ((struct engine_fixture *)ctx)->is_ready = true;
}

/* The next broker: what the last one left is found, and taken over. */
static inline void fixture_begin(struct engine_fixture *fixture)
{
    struct session_manager_spec spec = {
        .reactor = &fixture->loop.reactor,
        .config = &fixture->config,
        .folders = {.index_fd = fixture->folder_fd[0],
                    .output_fd = fixture->folder_fd[1],
                    .artifacts_fd = fixture->folder_fd[2],
                    .data_fd = fixture->folder_fd[3],
                    .logs_fd = fixture->folder_fd[4],
                    .layers_fd = fixture->folder_fd[5],
                    .templates_fd = fixture->folder_fd[6],
                    .packages_fd = fixture->folder_fd[7],
                    .output = "/state/output",
                    .artifacts = "/state/artifacts",
                    .dataset_fds = &fixture->dataset_fd,
                    .dataset_folders = fixture->dataset_folders},
        .languages = fixture->languages,
        .language_count = 4,
        .index = fixture->index,
        .bus = fixture->bus,
    };
    struct error err = {0};

    assert_int_equal(session_manager_new(&spec, &fixture->manager, &err), 0);
    session_manager_set_provider(fixture->manager, &fixture->provider);
    for (int i = 0; i < FIXTURE_BOXES; i++) {
        struct made made;

        if (!fixture->boxes[i].pid)
            continue;
        made = fixture_made(fixture, &fixture->boxes[i]);
        session_manager_found(fixture->manager, &made);
    }
    fixture->is_ready = false;
    session_manager_start(fixture->manager, ++fixture->generation, fixture_ready, fixture);
    UNTIL(fixture, fixture->is_ready);
}

/* As kill -9 of the broker: nothing is said to anybody. */
static inline void fixture_crash(struct engine_fixture *fixture)
{
    session_manager_free(fixture->manager);
    fixture->manager = NULL;
    while (fixture->asks) {
        struct fixture_ask *ask = fixture->asks;

        fixture->asks = ask->next;
        free(ask);
    }
    fixture->asks_end = &fixture->asks;
}

static inline int fixture_open(void **state)
{
    static const char *const folders[] = {"index", "output", "artifacts", "data",
                                          "logs",  "layers", "templates", "packages"};
    static char *env[] = {NULL};
    struct engine_fixture *fixture = calloc(1, sizeof(*fixture));
    struct error err = {0};

    assert_non_null(fixture);
    fixture->provider.ops = &fixture_ops;
    fixture->asks_end = &fixture->asks;
    poll_reactor_init(&fixture->loop);
    scratch_make(&fixture->scratch);
    for (int i = 0; i < 8; i++)
        fixture->folder_fd[i] =
            open(scratch_folder(&fixture->scratch, folders[i]), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fixture->dataset_fd =
        open(scratch_folder(&fixture->scratch, "given"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fixture->dataset_folders[0] = "/given";
    fixture->languages[0] =
        (struct session_language){.name = "bash", .script = "main.sh", .program = "/bin/sh"};
    fixture->languages[1] = (struct session_language){
        .name = "python", .script = "main.py", .program = "/usr/bin/python3"};
    fixture->languages[2] = (struct session_language){.name = "ada", .missing = "no Ada here"};
    fixture->languages[3] =
        (struct session_language){.name = "none", .script = "main", .program = "/no/such/program"};
    assert_int_equal(config_load_text(&fixture->config, "", 0, "test", env, &err), 0);
    assert_int_equal(index_open(fixture->folder_fd[0], &fixture->index, &err), 0);
    fixture->bus = bus_new();
    assert_non_null(fixture->bus);
    fixture->timer = reactor_timer(&fixture->loop.reactor, fixture_work, fixture);
    fixture_begin(fixture);
    *state = fixture;
    return 0;
}

static inline int fixture_close(void **state)
{
    struct engine_fixture *fixture = *state;

    fixture_crash(fixture);
    for (int i = 0; i < FIXTURE_BOXES; i++) {
        if (fixture->boxes[i].pid)
            fixture_box_end(&fixture->boxes[i]);
    }
    while (waitpid(-1, NULL, WNOHANG) > 0)
        ;
    bus_free(fixture->bus);
    index_close(fixture->index);
    config_free(&fixture->config);
    poll_timer_remove(fixture->timer);
    poll_reactor_free(&fixture->loop);
    for (int i = 0; i < 8; i++)
        close(fixture->folder_fd[i]);
    close(fixture->dataset_fd);
    scratch_remove(&fixture->scratch);
    free(fixture);
    return 0;
}

static inline int fixture_reaper(void **state)
{
    (void)state;
    return prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* With metrics and an audit, of which logs/audit.jsonl is left. */
static inline int fixture_open_observed(void **state)
{
    struct engine_fixture *fixture;

    fixture_open(state);
    fixture = *state;
    fixture->manager->spec.metrics = metrics_new();
    fixture->manager->spec.audit = audit_open(fixture->folder_fd[4]);
    assert_non_null(fixture->manager->spec.metrics);
    assert_non_null(fixture->manager->spec.audit);
    return 0;
}

static inline int fixture_close_observed(void **state)
{
    struct engine_fixture *fixture = *state;

    metrics_free(fixture->manager->spec.metrics);
    audit_close(fixture->manager->spec.audit);
    fixture->manager->spec.metrics = NULL;
    fixture->manager->spec.audit = NULL;
    return fixture_close(state);
}

#define WITH_ENGINE(test) cmocka_unit_test_setup_teardown(test, fixture_open, fixture_close)

/* ---- what tests do ---- */

static inline struct session *fixture_session(struct engine_fixture *fixture, const char *name)
{
    struct session *session;
    struct error err = {0};

    assert_int_equal(session_manager_create(fixture->manager, &(struct session_spec){.name = name},
                                            &session, &err),
                     0);
    return session;
}

/* sh -c SCRIPT */
static inline struct execution *fixture_exec(struct session *session, const char *script,
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

static inline struct execution *fixture_ran(struct engine_fixture *fixture, struct session *session,
                                            const char *script, const struct execution_spec *more)
{
    struct execution *execution = fixture_exec(session, script, more);

    UNTIL(fixture, execution_has_ended(execution));
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

static inline bool has_file(struct engine_fixture *fixture, const char *name)
{
    return access(scratch_path(&fixture->scratch, name), F_OK) == 0;
}

#endif
