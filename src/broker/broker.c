/* broker.c - the life of the broker: open, adopt, serve, stop; see broker.h. */
#include "broker/broker.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "api/doors.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "broker/listen.h"
#include "broker/reload.h"
#include "broker/uv_reactor.h"
#include "config/config.h"
#include "interpreter/language.h"
#include "launcher/launcher.h"
#include "launcher/protocol.h"
#include "model/text.h"
#include "observe/audit.h"
#include "observe/bus.h"
#include "observe/metrics.h"
#include "runtime/mux.h"
#include "runtime/provider_ops.h"
#include "session/session_manager.h"
#include "store/index.h"
#include "sys/slice.h"
#include "upstream/link.h"

#define MMAP_BYTES (256 * 1024)
#define LANGUAGES_MAX 8
#define FOLDERS_MAX 64
#define IDLE_LOOK_MS 10000 /* at most between two looks whether anybody needs us */

/* In the order of STATE_FOLDERS. */
enum {
    FOLDER_INDEX,
    FOLDER_OUTPUT,
    FOLDER_ARTIFACTS,
    FOLDER_DATA,
    FOLDER_LOGS,
    FOLDER_LAYERS,
    FOLDER_TEMPLATES,
    FOLDER_PACKAGES,
    _FOLDER_MAX
};

struct broker {
    json_t *settings;
    struct config config;
    struct reactor *reactor;
    struct index *index;
    struct bus *bus;
    struct audit *audit;
    struct metrics *metrics;
    struct session_manager *manager;
    struct provider *provider;
    struct upstream_link *upstream;
    struct front *front;
    struct http_server *server; /* its own */
    struct front_info info;
    struct listeners listeners;
    struct session_language languages[LANGUAGES_MAX];
    size_t language_count;
    const char *dataset_folders[FOLDERS_MAX + 1];
    int dataset_fds[FOLDERS_MAX];
    size_t dataset_count;
    struct buf output, artifacts; /* their names as the user sees them */
    struct reactor_timer *idle;
    uint64_t idle_since_ms; /* 0: not idle */
    uint64_t clients_seen;  /* at the last look */
    int status;
};

/* The process that started the daemon gets the first error; later ones are logged. */
static int fail(const struct error *err)
{
    struct launcher_message message = {.type = LAUNCHER_FAILED, .failed = *err};

    if (message.failed.num == 0)
        message.failed.num = -EIO;
    if (!message.failed.code)
        message.failed.code = ERROR_ENGINE;
    for (char *at = message.failed.text; *at; at++) {
        if ((unsigned char)*at < ' ' || *at == 0x7f)
            *at = ' ';
    }
    if (launcher_send(LAUNCHER_CONTROL_FD, &message, -1) <= 0)
        log_error("%s", err->text);
    return 1;
}

/* ---- what the launcher gave ---- */

static int read_settings(struct broker *broker, struct error *err)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(SETTINGS_BYTES_MAX);
    json_error_t where;
    int r;

    lseek(BROKER_SETTINGS_FD, 0, SEEK_SET); /* a broker before us has read it */
    r = buf_read_fd(&text, BROKER_SETTINGS_FD);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "reading the settings: %s", strerror(-r));
    broker->settings = json_loadb(text.data, text.length, 0, &where);
    if (!json_is_object(broker->settings))
        return error_set(err, -EINVAL, ERROR_ENGINE, "the settings are not JSON: %s", where.text);
    return 0;
}

static void read_languages(struct broker *broker)
{
    const char *name;
    json_t *value;

    json_object_foreach(json_object_get(broker->settings, "languages"), name, value)
    {
        const struct language_row *row = language_find(name);

        if (broker->language_count == LANGUAGES_MAX)
            break;
        broker->languages[broker->language_count++] = (struct session_language){
            .name = name,
            .script = row ? row->script : "main",
            .driver = row ? row->driver : NULL,
            .program = json_string_value(json_object_get(value, "program")),
            .missing = json_string_value(json_object_get(value, "missing")),
            .here = json_string_value(json_object_get(value, "here")),
            .normal = json_string_value(json_object_get(value, "normal")),
            .fingerprint = json_string_value(json_object_get(value, "fingerprint")),
            .own = row ? row->program : NULL,
        };
    }
}

static void read_dataset_folders(struct broker *broker)
{
    json_t *list = json_object_get(broker->settings, "dataset_folders"), *value;
    size_t i;

    json_array_foreach(list, i, value)
    {
        if (i == FOLDERS_MAX)
            break;
        broker->dataset_folders[i] = json_string_value(value);
        broker->dataset_fds[i] = BROKER_DATASET_FD + (int)i;
        broker->dataset_count++;
    }
}

static void on_turned(void *ctx, uint64_t cpu_ns)
{
    struct broker *broker = ctx;

    metrics_observe(broker->metrics, METRIC_TURN, NULL, (double)cpu_ns / 1e9);
}

static int open_all(struct broker *broker, struct error *err)
{
    const char *state;
    json_t *env;
    int r = read_settings(broker, err);

    if (r < 0)
        return r;
    env = json_object_get(broker->settings, "env"); /* of a reload */
    r = env ? reload_read(env, &broker->config, err)
            : config_load_text(&broker->config, "", 0, "settings", environ, err);
    if (r < 0)
        return r;
    broker->config.has_one_box = json_is_true(json_object_get(broker->settings, "one_box"));
    log_set_level(broker->config.log_level);
    log_set_json(broker->config.log_is_json);
    state = json_string_value(json_object_get(broker->settings, "state"));
    broker->output = BUF_INIT(LIMIT_PATH_BYTES * 2);
    broker->artifacts = BUF_INIT(LIMIT_PATH_BYTES * 2);
    if (buf_printf(&broker->output, "%s/output", state ? state : "") < 0 ||
        buf_printf(&broker->artifacts, "%s/artifacts", state ? state : "") < 0)
        return error_memory(err);
    read_languages(broker);
    read_dataset_folders(broker);
    r = listeners_open(&broker->listeners, broker->settings, err);
    if (r == 0)
        r = listeners_configure(&broker->listeners, &broker->config, err);
    if (r < 0)
        return r;
    r = index_open(BROKER_FOLDER_FD + FOLDER_INDEX, &broker->index, err);
    if (r == 0)
        r = uv_reactor_new(&broker->reactor, err);
    if (r < 0)
        return r;
    broker->bus = bus_new();
    broker->metrics = metrics_new();
    broker->audit = audit_open(BROKER_FOLDER_FD + FOLDER_LOGS);
    audit_configure(broker->audit, broker->config.audit_bytes, broker->config.audit_keep);
    return broker->bus ? 0 : error_memory(err);
}

static int confine_files(struct broker *broker, struct error *err)
{
    int write_fds[_FOLDER_MAX];
    struct confine_spec spec = {
        .write_fds = write_fds,
        .write_count = _FOLDER_MAX,
        .read_fds = broker->dataset_fds,
        .read_count = broker->dataset_count,
    };

    for (int i = 0; i < _FOLDER_MAX; i++)
        write_fds[i] = BROKER_FOLDER_FD + i;
    return broker_confine_files(&spec, err);
}

/* ---- exit when idle ---- */

static uint64_t idle_look_ms(const struct broker *broker)
{
    return MIN(broker->config.daemon_idle_ms / 8 + 1, (uint64_t)IDLE_LOOK_MS);
}

static void quit(struct broker *broker)
{
    mux_quit(broker->provider);
}

static void on_idle(void *ctx)
{
    struct broker *broker = ctx;
    uint64_t now = clock_now_ms();
    struct http_server *server = broker->server; /* NULL: the broker is stopping */
    uint64_t clients = server ? http_server_clients_ever(server) : 0;
    bool is_idle = server && session_manager_is_idle(broker->manager) &&
                   http_server_clients(server) == 0 && clients == broker->clients_seen;

    broker->clients_seen = clients;

    if (!is_idle)
        broker->idle_since_ms = 0;
    else if (broker->idle_since_ms == 0)
        broker->idle_since_ms = now;
    if (is_idle && now - broker->idle_since_ms >= broker->config.daemon_idle_ms) {
        log_info("no session and no client: leaving");
        quit(broker);
        return;
    }
    broker->reactor->ops->timer_set(broker->idle, idle_look_ms(broker));
}

/* ---- the launcher ---- */

static void on_found(void *ctx, const struct made *made)
{
    struct broker *broker = ctx;

    session_manager_found(broker->manager, made);
}

/* For the broker that takes over from this one some day. */
static void hand_settings_on(const struct broker *broker)
{
    static const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    struct launcher_message message = {.type = LAUNCHER_SETTINGS};
    CLEANUP(buf_free) struct buf text = BUF_INIT(SETTINGS_BYTES_MAX);
    CLEANUP(fd_closep) int fd = memfd_create("settings", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0 || text_of_json(broker->settings, JSON_COMPACT, &text) < 0 ||
        fd_write_all(fd, buf_text(&text), text.length) < 0 || fcntl(fd, F_ADD_SEALS, seals) < 0 ||
        launcher_send(LAUNCHER_CONTROL_FD, &message, fd) <= 0)
        log_warning(
            "the new settings cannot be passed on, continuing without them in the next broker");
    if (text.data)
        explicit_bzero(text.data, text.length);
}

static int on_reload(void *ctx, json_t *body, json_t **ret, struct error *err)
{
    struct broker *broker = ctx;
    struct reload reload = {
        .config = &broker->config,
        .settings = broker->settings,
        .listeners = &broker->listeners,
        .manager = broker->manager,
        .front = broker->front,
    };

    int r = reload_apply(&reload, body, ret, err);

    if (r < 0)
        return r;
    hand_settings_on(broker);
    audit_write(broker->audit, "reload", json_incref(*ret));
    return 0;
}

/* A first key that is made without a request goes into the audit log, too. */
static void tell_first_key(struct broker *broker, const char *id)
{
    audit_write(broker->audit, "key",
                json_pack("{s:s, s:s, s:s, s:s, s:b}", "change", "new", "key_id", id, "key_tenant",
                          "default", "tenant", "local", "local", 1));
}

/* "bly_ID.SECRET" */
static void key_id(const char *key, char id[KEY_ID_MAX])
{
    const char *begin = str_starts(key, KEY_PREFIX) ? key + strlen(KEY_PREFIX) : key;

    str_format(id, KEY_ID_MAX, "%.*s", (int)strcspn(begin, "."), begin);
}

/* The last step of a start: what fails before it must not use up the key's only showing. */
static int say_open(struct broker *broker, struct error *err)
{
    CLEANUP(buf_free) struct buf folder = BUF_INIT(LIMIT_PATH_BYTES * 2);
    struct listeners_place place = {.folder_fd = BROKER_FOLDER_FD + FOLDER_INDEX};
    char key[KEY_TEXT_MAX] = "", id[KEY_ID_MAX];
    int r = listeners_first_key(&broker->listeners, broker->index, key, err);

    if (r == 0 && buf_printf(&folder, "%s/index", broker->info.state ? broker->info.state : "") < 0)
        r = error_memory(err);
    place.folder = buf_text(&folder);
    if (r == 0)
        r = listeners_say(&broker->listeners, key, broker->config.log_is_json ? &place : NULL, err);
    key_id(key, id);
    if (r == 0 && key[0])
        tell_first_key(broker, id);
    else if (key[0])
        keys_remove(broker->index, id, NULL); /* it was not shown: the next start makes another */
    explicit_bzero(key, sizeof(key));
    return r;
}

/*
 * The socket, and every address. Only the first broker of a daemon, or of a server that took it
 * over, looks whether there are keys.
 */
static int open_doors(struct broker *broker, struct error *err)
{
    bool is_first = broker->info.generation <= 1 || getenv(BROKER_IS_FIRST);
    struct door_list doors;
    int r = is_first ? listeners_admit(&broker->listeners, &broker->config, broker->index, err) : 0;

    doors_list(&doors);
    if (r == 0)
        r = front_serve(broker->reactor, broker->manager, BROKER_LISTEN_FD, &broker->info, &doors,
                        &broker->front, err);
    if (r == 0)
        r = listeners_start(&broker->listeners, broker->settings, broker->front, err);
    return r == 0 && is_first ? say_open(broker, err) : r;
}

static void on_manager_ready(void *ctx)
{
    struct broker *broker = ctx;
    struct error err = {0};
    json_t *on_demand = json_object_get(broker->settings, "on_demand");

    if (open_doors(broker, &err) < 0) {
        broker->status = fail(&err);
        uv_reactor_stop(broker->reactor);
        return;
    }
    broker->server = front_server(broker->front);
    if (json_is_true(on_demand)) {
        broker->idle = reactor_timer(broker->reactor, on_idle, broker);
        if (broker->idle)
            broker->reactor->ops->timer_set(broker->idle, idle_look_ms(broker));
    }
    mux_say_ready(broker->provider);
}

static void on_ready(void *ctx, uint32_t generation)
{
    struct broker *broker = ctx;

    broker->info.generation = generation;
    if (generation > 1)
        metrics_add(broker->metrics, METRIC_RETRIES, &(const char *){"broker"}, generation - 1);
    session_manager_start(broker->manager, generation, on_manager_ready, broker);
}

static void on_box_ended(void *ctx, uint32_t number, const struct box_facts *facts)
{
    struct broker *broker = ctx;

    session_manager_box_ended(broker->manager, number, facts->why);
}

static void on_kernel_ended(void *ctx, const struct kernel_end *end)
{
    struct broker *broker = ctx;

    session_manager_kernel_ended(broker->manager, end);
}

static void on_spent(void *ctx, const char *tenant, uint64_t cpu_us)
{
    struct broker *broker = ctx;

    session_manager_spent(broker->manager, tenant, cpu_us);
}

/* What the proxy let through and what not: the only trace that a box's network leaves. */
static void on_verdict(void *ctx, uint32_t number, bool is_allowed, const char *host, unsigned port,
                       const char *reason)
{
    struct broker *broker = ctx;

    audit_write(broker->audit, "egress",
                json_pack("{s:s*, s:i, s:b, s:o*, s:i, s:o*}", "tenant",
                          session_manager_box_tenant(broker->manager, number), "box", (int)number,
                          "allowed", is_allowed, "host", text_to_json(host, strlen(host)), "port",
                          (int)port, "reason", text_to_json(reason, strlen(reason))));
}

/* Not a provider's: the process that speaks to the model server. */
static void on_upstream(void *ctx, const char *name, int fd)
{
    struct broker *broker = ctx;

    (void)name;
    upstream_link_set(broker->upstream, fd);
}

static void on_stopped(void *ctx)
{
    struct broker *broker = ctx;

    front_stop(broker->front);
    broker->front = NULL;
    broker->server = NULL;
    quit(broker);
}

static void on_stopping(void *ctx, uint32_t grace_ms)
{
    struct broker *broker = ctx;

    front_quiesce(broker->front);
    session_manager_stop(broker->manager, grace_ms, on_stopped, broker);
}

static void on_launcher_gone(void *ctx)
{
    struct broker *broker = ctx;

    uv_reactor_stop(broker->reactor);
}

static const struct launched_events launched_events = {
    .found = on_found,
    .ready = on_ready,
    .ended = on_box_ended,
    .stopping = on_stopping,
    .gone = on_launcher_gone,
    .kernel_ended = on_kernel_ended,
    .verdict = on_verdict,
    .spent = on_spent,
    .provider_host = on_upstream,
};

/* ---- life ---- */

static int number_of(const char *variable)
{
    const char *text = getenv(variable);
    uint64_t number = 0;

    return text && str_to_u64(text, &number) == 0 ? (int)number : 0;
}

static int start(struct broker *broker, struct error *err)
{
    struct session_manager_spec spec = {
        .config = &broker->config,
        .folders =
            {
                .index_fd = BROKER_FOLDER_FD + FOLDER_INDEX,
                .output_fd = BROKER_FOLDER_FD + FOLDER_OUTPUT,
                .artifacts_fd = BROKER_FOLDER_FD + FOLDER_ARTIFACTS,
                .data_fd = BROKER_FOLDER_FD + FOLDER_DATA,
                .logs_fd = BROKER_FOLDER_FD + FOLDER_LOGS,
                .layers_fd = BROKER_FOLDER_FD + FOLDER_LAYERS,
                .templates_fd = BROKER_FOLDER_FD + FOLDER_TEMPLATES,
                .packages_fd = BROKER_FOLDER_FD + FOLDER_PACKAGES,
                .output = buf_text(&broker->output),
                .artifacts = buf_text(&broker->artifacts),
                .dataset_fds = broker->dataset_fds,
                .dataset_folders = broker->dataset_folders,
            },
        .languages = broker->languages,
        .language_count = broker->language_count,
        .interpreters = json_object_get(broker->settings, "interpreters"),
        .reactor = broker->reactor,
        .index = broker->index,
        .bus = broker->bus,
        .audit = broker->audit,
        .metrics = broker->metrics,
        .has_no_ceiling = json_is_true(json_object_get(broker->settings, "on_demand")),
        .state = json_string_value(json_object_get(broker->settings, "state")),
    };
    struct mux_spec mux = {0};
    int r = confine_files(broker, err);

    broker->upstream = upstream_link_new(broker->reactor);
    if (!broker->upstream)
        r = error_memory(err);

    broker->info = (struct front_info){
        .socket = json_string_value(json_object_get(broker->settings, "socket")),
        .file = json_string_value(json_object_get(broker->settings, "file")),
        .state = json_string_value(json_object_get(broker->settings, "state")),
        .launcher_pid = number_of("BAILEY_LAUNCHER_PID"),
        .broker_pid = number_of("BAILEY_BROKER_PID"),
        .upstream = broker->upstream,
        .reload = on_reload,
        .reload_ctx = broker,
        .has_fixtures = number_of("BAILEY_MCP_CONFORMANCE_FIXTURES") == 1,
    };
    if (r == 0)
        r = session_manager_new(&spec, &broker->manager, err);
    if (r ==
        0) /* a broker is given checked settings; what it makes boxes with it looks up itself */
        r = provider_find(broker->config.type, &mux.provider, err);
    if (r == 0) {
        mux.provider = config_provider(&broker->config);
        mux.fallback = config_fallback(&broker->config);
    }
    if (r == 0)
        r = mux_open(broker->reactor, LAUNCHER_CONTROL_FD, &mux, &launched_events, broker,
                     &broker->provider, err);
    if (r == 0)
        session_manager_set_provider(broker->manager, broker->provider);
    return r;
}

static void broker_free(struct broker *broker)
{
    front_stop(broker->front);
    session_manager_free(broker->manager);
    mux_close(broker->provider);
    upstream_link_free(broker->upstream);
    if (broker->reactor) {
        broker->reactor->ops->timer_remove(broker->idle);
        uv_reactor_free(broker->reactor);
    }
    audit_close(broker->audit);
    metrics_free(broker->metrics);
    bus_free(broker->bus);
    index_close(broker->index);
    listeners_free(&broker->listeners);
    config_free(&broker->config);
    json_decref(broker->settings);
    buf_free(&broker->output);
    buf_free(&broker->artifacts);
}

int broker_main(void)
{
    CLEANUP(broker_free) struct broker broker = {0};
    struct error err = {0};

    /* Large buffers go back to the kernel when they are freed: glibc would raise this threshold
     * with each of them, and their holes would stay. */
    mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGINT, SIG_IGN); /* the launcher says when to stop */
    signal(SIGTERM, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    prctl(PR_SET_DUMPABLE, 0);
    slice_be_short();
    if (broker_confine_calls(&err) < 0 || open_all(&broker, &err) < 0 || start(&broker, &err) < 0)
        return fail(&err);
    uv_reactor_measure(broker.reactor, on_turned, &broker);
    uv_reactor_run(broker.reactor);
    return broker.status;
}
