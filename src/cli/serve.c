/*
 * serve.c - `bailey serve`: decides where the daemon lives and what it gets, then starts it.
 *
 * Everything that reads the caller's configuration, environment or host files happens here; what
 * supervisor_run() gets is a constant specification. The command that started the daemon on demand
 * waits on --ready-fd: it gets "ready", or the error's text, and then the end of the file.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/log.h"
#include "base/str.h"
#include "cli/activation.h"
#include "cli/engine.h"
#include "cli/listed.h"
#include "cli/message.h"
#include "cli/option_setters.h"
#include "cli/options.h"
#include "cli/paths.h"
#include "cli/pip_settings.h"
#include "cli/request.h"
#include "cli/tls_files.h"
#include "config/config.h"
#include "config/settings.h"
#include "interpreter/language.h"
#include "launcher/launcher.h"
#include "model/text.h"
#include "oneshot/built.h"
#include "runtime/host/hosted.h"
#include "runtime/provider.h"
#include "supervisor/supervisor.h"
#include "sys/cgroup.h"
#include "sys/notify.h"
#include "sys/owner.h"
#include "upstream/upstream.h"

#define LANGUAGES_MAX 8
#define BINDS_MAX (LANGUAGES_MAX * INTERPRETER_BINDS_MAX)

struct serve_request {
    const char *socket, *state, *config_file;
    char **listen; /* strv */
    bool is_on_demand;
    int ready_fd;
};

OPTION_SETS_TEXT(take_socket, struct serve_request, socket)
OPTION_SETS_TEXT(take_state, struct serve_request, state)
OPTION_SETS_SWITCH(take_on_demand, struct serve_request, is_on_demand)
OPTION_SETS_TEXT(take_config, struct serve_request, config_file)

static int take_listen(void *target, const char *value, struct error *err)
{
    struct serve_request *request = target;

    if (strv_length(request->listen) > BROKER_TCP_MAX || strv_push(&request->listen, value) < 0)
        return error_set(err, -E2BIG, ERROR_BAD_INPUT, "--listen: more than %d addresses",
                         BROKER_TCP_MAX);
    return 0;
}

static int take_ready_fd(void *target, const char *value, struct error *err)
{
    uint64_t number;

    if (str_to_u64(value, &number) < 0 || number < 3 || number > INT_MAX ||
        fcntl((int)number, F_SETFD, FD_CLOEXEC) < 0)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "--ready-fd '%.40s': the number of an open descriptor, 3 or more", value);
    ((struct serve_request *)target)->ready_fd = (int)number;
    return 0;
}

/* Everything that supervisor_run() borrows. */
struct preparation {
    struct serve_request request;
    struct config config;
    struct paths paths;
    struct interpreter interpreters[LANGUAGES_MAX];
    size_t interpreter_count;
    const char *python; /* path of its interpreter; NULL: none was found */
    struct launch_bind binds[BINDS_MAX];
    size_t bind_count;
    struct listed listed; /* interpreters that callers may name */
    char **env;           /* strv */
    struct {
        const struct provider_row *row; /* NULL: `upstream` */
        char **env;                     /* strv */
        bool is_lazy;
    } hosts[LAUNCHER_HOSTS_MAX]; /* provider hosts; that of SANDBOX_TYPE comes first */
    size_t host_count;
    const struct provider_row
        *wanted;               /* of SANDBOX_TYPE; on demand: of the command that starts it */
    const char *const *listen; /* addresses; empty: none */
    struct buf settings;
    struct pip_settings pip;
    struct activation activation;
    const char *notify; /* NOTIFY_SOCKET; NULL: none */
    uint64_t watchdog_ms;
    char engine[PATH_MAX];
    char layer[65]; /* of the configured template; empty: none, or it is not built */
    int lock_fds[2];
    int log_fd;
    struct daemon_record record; /* takes_over: of the daemon that runs */
    bool takes_over;             /* it was started on demand, and becomes this server */
    bool was_taken;
    int daemon_fd; /* was_taken: the process that has to end before its groups are removed */
};

static void preparation_free(struct preparation *made)
{
    strv_free(made->request.listen);
    config_free(&made->config);
    paths_free(&made->paths);
    for (size_t i = 0; i < made->interpreter_count; i++)
        interpreter_free(&made->interpreters[i]);
    listed_free(&made->listed);
    strv_free(made->env);
    for (size_t i = 0; i < made->host_count; i++)
        strv_free(made->hosts[i].env);
    buf_free(&made->settings);
    pip_settings_free(&made->pip);
    activation_free(&made->activation);
    fd_closep(&made->lock_fds[0]);
    fd_closep(&made->lock_fds[1]);
    fd_closep(&made->log_fd);
    fd_closep(&made->daemon_fd);
}

/* A folder of an interpreter, once, however many interpreters lie in it. */
static void add_bind(struct preparation *made, const char *folder)
{
    for (size_t i = 0; i < made->bind_count; i++)
        if (str_equal(made->binds[i].host, folder))
            return;
    made->binds[made->bind_count++] = (struct launch_bind){.host = folder, .box = folder};
}

static json_t *text_json(const char *text)
{
    return text_to_json(text, strlen(text));
}

/*
 * The daemon of a command that named an interpreter keeps that one warm. Other callers, who name
 * none, get what they would get without that command: the first one on its PATH. NULL: it is the
 * same, or there is none.
 */
static const char *find_normal(struct preparation *made, const struct language_row *language,
                               const struct interpreter *named)
{
    struct config without = made->config; /* its strings stay made->config's */
    struct interpreter found = {0};
    struct error ignored = {0};

    without.python = without.node = NULL;
    if (!made->request.is_on_demand || !(made->config.python || made->config.node) ||
        interpreter_find(language, &without, &found, &ignored) < 0)
        return NULL;
    if (str_equal(found.path, named->path)) {
        interpreter_free(&found);
        return NULL;
    }
    return listed_add(&made->listed, found.path, &found)
               ? made->listed.found[made->listed.count - 1].path
               : NULL;
}

/* {"program": PATH}, or {"missing": what to do}: a daemon without Python can still run Bash. */
static json_t *find_language(struct preparation *made, const struct language_row *language)
{
    struct interpreter *found = &made->interpreters[made->interpreter_count];
    char fingerprint[INTERPRETER_FINGERPRINT];
    struct error missing = {0};
    const char *normal;
    bool is_boxes_own = config_can(&made->config, PROVIDER_OWN_FILESYSTEM);

    if (interpreter_find(language, &made->config, found, &missing) < 0)
        return is_boxes_own ? json_pack("{s:s}", "program", language->program)
                            : json_pack("{s:o*}", "missing", text_json(missing.text));
    made->interpreter_count++;
    for (size_t i = 0; i < found->bind_count; i++)
        add_bind(made, found->binds[i]);
    if (str_equal(language->name, "python"))
        made->python = found->path;
    normal = find_normal(made, language, found);
    if (is_boxes_own)
        return json_pack("{s:s, s:o*, s:o*}", "program", language->program, "here",
                         text_json(found->path), "normal", normal ? text_json(normal) : NULL);
    interpreter_fingerprint(found, &made->config, fingerprint);
    return json_pack("{s:o*, s:o*, s:o*}", "program", text_json(found->path), "fingerprint",
                     text_json(fingerprint), "normal", normal ? text_json(normal) : NULL);
}

static json_t *find_languages(struct preparation *made)
{
    json_t *languages = json_object();

    for (char **name = made->config.languages; name && *name; name++) {
        const struct language_row *language = language_find(*name);

        if (!language)
            json_object_set_new(
                languages, *name,
                json_pack("{s:o*}", "missing", json_sprintf("%s is not in this version", *name)));
        else if (made->interpreter_count < LANGUAGES_MAX)
            json_object_set_new(languages, *name, find_language(made, language));
    }
    return languages;
}

/* Keys that a flag or the environment decided: a reload of the file does not change them. */
static json_t *keys_json(const struct config *config, enum config_source source)
{
    json_t *names = json_array();

    for (size_t i = 0; names && i < _KEY_MAX; i++) {
        if (config_table[i].env && config->values[i].source == source)
            json_array_append_new(names, json_string(config_table[i].env));
    }
    return names;
}

/* What the broker is told; the launcher's pid is not known before it is started. */
static int make_settings(struct preparation *made, struct error *err)
{
    json_t *folders = json_array();
    json_t *settings, *tls = NULL, *languages;
    size_t tcp_count = made->activation.tcp_count ? made->activation.tcp_count
                                                  : strv_length((char *const *)made->listen);
    int result = listed_find(&made->config, &made->listed, err);

    if (result == 0 && tcp_count)
        result = tls_files_json(&made->config, &tls, err);
    if (result < 0) {
        json_decref(folders);
        return result;
    }
    languages = find_languages(made); /* may add to `listed` */

    for (char **folder = made->config.dataset_folders; folder && *folder; folder++)
        json_array_append_new(folders, text_json(*folder));
    settings =
        json_pack("{s:s, s:o, s:o, s:b, s:o, s:o, s:i, s:o, s:o, s:o*, s:o*, s:o*, s:b}", "version",
                  BAILEY_VERSION, "socket", text_json(made->paths.socket), "state",
                  text_json(made->paths.state), "on_demand", made->request.is_on_demand,
                  "languages", languages, "dataset_folders", folders, "tcp", (int)tcp_count,
                  "flags", keys_json(&made->config, FROM_FLAG), "environment",
                  keys_json(&made->config, FROM_ENVIRONMENT), "file",
                  made->config.file ? text_json(made->config.file) : NULL, "tls", tls,
                  "interpreters", listed_json(&made->listed), "one_box", made->config.has_one_box);
    result = settings ? text_of_json(settings, JSON_COMPACT, &made->settings) : -ENOMEM;
    json_decref(settings);
    if (result < 0)
        return error_set(err, result, ERROR_ENGINE, "writing the broker's settings: %s",
                         strerror(-result));
    return 0;
}

static int push_env(char ***list, const char *name, const char *value, struct error *err)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);

    if (!value)
        return 0;
    if (buf_printf(&text, "%s=%s", name, value) < 0 || strv_push(list, buf_text(&text)) < 0)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory writing the broker's settings");
    return 0;
}

/* The effective configuration as variables: the broker sees neither our file nor our environment.
 */
static int push_config(char ***list, const struct config *config, const char *state,
                       bool is_on_demand, char *const *env, struct error *err)
{
    /* The last is for tests of MCP: docs/mcp.md. */
    static const char *const kept[] = {"PATH", "LANG", "HOME", "BAILEY_MCP_CONFORMANCE_FIXTURES"};
    int result = 0;

    for (size_t i = 0; i < _KEY_MAX && result == 0; i++) {
        const char *value = i == KEY_STATE_DIR ? state : config->values[i].text;

        /* That a command named an interpreter is not for the callers after it. */
        if (is_on_demand && (i == KEY_PYTHON || i == KEY_NODE))
            continue;
        if (config_table[i].env)
            result = push_env(list, config_table[i].env, value, err);
    }
    for (; result == 0 && *env; env++)
        for (size_t i = 0; i < ARRAY_SIZE(kept) && result == 0; i++)
            if (str_starts(*env, kept[i]) && (*env)[strlen(kept[i])] == '=')
                result = push_env(list, kept[i], *env + strlen(kept[i]) + 1, err);
    return result;
}

/* What a box of this machine shows, for the host that makes it in the launcher's place. */
static int push_own(const struct preparation *made, char ***list, struct error *err)
{
    CLEANUP(buf_free) struct buf folders = BUF_INIT(64 * KIB);
    int failed = 0;

    for (size_t i = 0; i < made->bind_count; i++)
        failed |= buf_printf(&folders, "%s%s", i > 0 ? ":" : "", made->binds[i].host);
    failed |= push_env(list, HOST_ENV_PYTHON, made->python, err);
    return failed | push_env(list, HOST_ENV_BINDS, buf_text(&folders), err);
}

/*
 * The provider host has the same; HOME, where certificates may be; the state folder, that an
 * earlier daemon's containers are known by; and an id that stays while this daemon lives.
 */
static int make_host_env(struct preparation *made, const struct provider_row *row,
                         const struct config *config, char *const *env, struct error *err)
{
    char id[ID_MAX + 32], name[ID_MAX], state[PATH_MAX + 32], identity[ID_MAX + 32];
    char ***list = &made->hosts[made->host_count].env;
    int failed = paths_identity(&made->paths, name, err);

    if (failed < 0)
        return failed;
    made->hosts[made->host_count++].row = row;
    str_format(identity, sizeof(identity), HOST_ENV_IDENTITY "=%s", name);
    id_make(name, "e");
    str_format(id, sizeof(id), HOST_ENV_ENGINE "=%s", name);
    failed = str_format(state, sizeof(state), HOST_ENV_STATE "=%s", made->paths.state);
    if (push_config(list, config, made->paths.state, made->request.is_on_demand, env, err) < 0)
        return err->num;
    if (row->secret && env_text(env, row->secret) &&
        push_env(list, row->secret, env_text(env, row->secret), err) < 0)
        return err->num;
    failed |= strv_push(list, id);
    failed |= strv_push(list, state);
    failed |= strv_push(list, identity);
    if (made->request.is_on_demand)
        failed |= strv_push(list, HOST_ENV_NO_CEILING "=1");
    if (provider_can(row, PROVIDER_STANDS_IN))
        failed |= push_own(made, list, err);
    if (failed < 0)
        return error_set(err, -ENOMEM, ERROR_ENGINE,
                         "out of memory writing the provider host's settings");
    return 0;
}

/* The host of SANDBOX_TYPE. A daemon that was started on demand has another type of its own. */
static int make_wanted_host(struct preparation *made, char *const *env, struct error *err)
{
    CLEANUP(config_free) struct config config = {0};
    int result = settings_for_type(&made->config, provider_runtime(made->wanted), &config, err);

    return result < 0 ? result : make_host_env(made, made->wanted, &config, env, err);
}

/*
 * Whether sessions of another type than the daemon's are served, also if what they need appears
 * later. Not for a root start: what keeps a provider host has root's id, so it has to be meant.
 */
static bool has_host(const struct preparation *made, const struct provider_row *row)
{
    bool has_to_be_meant = geteuid() == 0 || provider_can(row, PROVIDER_ONLY_MEANT);

    if (provider_can(row, PROVIDER_STANDS_IN))
        return made->config.has_one_box && row != made->wanted;
    return row != made->wanted && row->ops && provider_can(row, PROVIDER_HOSTED) &&
           (!has_to_be_meant || (row->is_meant && row->is_meant(&made->config)));
}

/* Sets the pool size of a provider, where it has one (its section of bailey.yaml), to 0. */
static int set_no_pool(struct config *config, const char *provider, struct error *err)
{
    char name[128];

    str_format(name, sizeof(name), "%s.pool_size", provider);
    for (size_t i = 0; i < _KEY_MAX; i++) {
        if (str_equal(config_table[i].yaml, name))
            return config_set(config, (enum config_key)i, "0", "SANDBOX_TYPE", err);
    }
    return 0;
}

/*
 * The provider host of SANDBOX_TYPE, and those of other types, which prewarm nothing and start when
 * the broker needs one.
 */
static int make_hosts(struct preparation *made, char *const *env, struct error *err)
{
    const struct provider_row *row;
    int result = 0;

    if (provider_can(made->wanted, PROVIDER_HOSTED))
        result = make_wanted_host(made, env, err);
    for (size_t i = 0; result == 0 && (row = provider_at(i)); i++) {
        CLEANUP(config_free) struct config config = {0};
        struct error why = {0};

        if (!has_host(made, row) || made->host_count >= LAUNCHER_HOSTS_MAX - 1)
            continue;
        if (settings_for_type(&made->config, provider_runtime(row), &config, &why) < 0 ||
            set_no_pool(&config, row->name, &why) < 0) {
            log_warning("%s: %s, continuing without sessions of that type", row->title, why.text);
            continue;
        }
        result = make_host_env(made, row, &config, env, err);
        if (result == 0)
            made->hosts[made->host_count - 1].is_lazy = true;
    }
    return result;
}

/* The key of the model server: the environment's, else that of the file. */
static int read_upstream_key(struct preparation *made, char *const *env, struct buf *key,
                             struct error *err)
{
    const char *said = env_text(env, UPSTREAM_ENV_KEY), *path = made->config.upstream.key_file;
    CLEANUP(fd_closep) int fd = -1;
    int r;

    if (said)
        return buf_append_text(key, said) < 0 ? error_memory(err) : 0;
    if (!path)
        return 0;
    fd = open(path, O_RDONLY | O_CLOEXEC);
    r = fd < 0 ? -errno : buf_read_fd(key, fd);
    if (r < 0)
        return error_set(err, r, ERROR_BAD_CONFIG, "%s: the file '%s' cannot be read: %s",
                         made->config.values[KEY_UPSTREAM_KEY_FILE].where, path, strerror(-r));
    while (key->length > 0 && strchr("\r\n \t", key->data[key->length - 1]))
        key->data[--key->length] = 0;
    return 0;
}

/*
 * The process that speaks to the model server gets the key, and nothing else does: neither the
 * broker nor a provider host.
 */
static int make_upstream(struct preparation *made, char *const *env, struct error *err)
{
    static const enum config_key keys[] = {KEY_UPSTREAM_URL, KEY_UPSTREAM_TIMEOUT, KEY_LOG,
                                           KEY_LOG_FORMAT};
    CLEANUP(buf_free) struct buf key = BUF_INIT(4 * KIB);
    char ***list = &made->hosts[made->host_count].env;
    int result;

    if (!made->config.upstream.url)
        return 0;
    result = read_upstream_key(made, env, &key, err);
    for (size_t i = 0; i < ARRAY_SIZE(keys) && result == 0; i++)
        result = push_env(list, config_table[keys[i]].env, made->config.values[keys[i]].text, err);
    if (result == 0 && key.length > 0)
        result = push_env(list, UPSTREAM_ENV_KEY, buf_text(&key), err);
    if (key.data)
        explicit_bzero(key.data, key.length);
    made->hosts[made->host_count++].is_lazy = true;
    return result;
}

/* The folder above the interpreter's own, in which pip looks for a pip.conf, too; "": none. */
static void find_python_prefix(const struct preparation *made, char prefix[PATH_MAX])
{
    prefix[0] = 0;
    for (size_t i = 0; i < made->interpreter_count; i++) {
        const char *path = made->interpreters[i].path;
        const char *slash = strrchr(path, '/');

        if (!slash || !str_starts(slash + 1, "python") || !str_copy(prefix, PATH_MAX, path))
            continue;
        prefix[slash - path] = 0;
        slash = strrchr(prefix, '/');
        prefix[slash ? slash - prefix : 0] = 0;
        return;
    }
}

/* Must: come after the interpreters were found. */
static int read_pip_settings(struct preparation *made, char *const *env, struct error *err)
{
    char prefix[PATH_MAX];
    struct pip_sources sources = {.root = "", .env = env, .prefix = prefix};
    int result;

    find_python_prefix(made, prefix);
    if (!prefix[0])
        sources.prefix = NULL;
    result = pip_settings_read(&sources, made->config.index_hosts, &made->pip, err);
    for (char **text = made->pip.warnings; result == 0 && text && *text; text++)
        log_warning("%s", *text);
    return result;
}

/* daemon.log, begun anew once it is large; one older is kept. */
static int open_log(struct preparation *made, struct error *err)
{
    char path[PATH_MAX], older[PATH_MAX];
    struct stat status;
    int result = paths_path(&made->paths, "daemon.log", path, sizeof(path), err);

    if (result == 0)
        result = paths_path(&made->paths, "daemon.log.1", older, sizeof(older), err);
    if (result < 0)
        return result;
    if (lstat(path, &status) == 0 && (uint64_t)status.st_size > LIMIT_LOG_BYTES &&
        rename(path, older) < 0)
        return error_errno(err, "beginning a new '%.300s'", path);
    made->log_fd =
        open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY, 0600);
    return made->log_fd < 0 ? error_errno(err, "opening the log '%.300s'", path) : 0;
}

/* The layer that the launcher prewarms first. If it is not built, the first box reports that. */
static void find_layer(struct preparation *made)
{
    CLEANUP(built_free) struct built_template built = {0};
    struct error missing = {0};

    if (!config_can(&made->config, PROVIDER_CAN_LAYERS))
        return;
    if (built_find(&made->config, made->paths.state, &built, &missing) < 0)
        log_warning("%s, continuing without it", missing.text);
    else if (built.layer)
        str_copy(made->layer, sizeof(made->layer), strrchr(built.layer, '/') + 1);
}

static const char *const no_addresses[] = {NULL};

/* A service manager's part: sockets that are open already, and where it wants to hear from us. */
static int find_manager(struct preparation *made, char *const *env, struct error *err)
{
    int result;

    if (made->request.is_on_demand)
        return 0; /* sockets of a service manager are for the process that it started */
    result = activation_take(env, &made->activation, err);
    if (result < 0)
        return result;
    made->notify = env_value(env, "NOTIFY_SOCKET");
    made->watchdog_ms =
        notify_watchdog_ms(env_value(env, "WATCHDOG_USEC"), env_value(env, "WATCHDOG_PID"));
    if (made->activation.unix_fd >= 0)
        made->request.socket = made->activation.socket;
    if (made->activation.tcp_count > 0)
        made->listen = no_addresses; /* the manager has chosen them */
    return 0;
}

/* --listen over SANDBOX_LISTEN; a daemon that was started on demand opens no TCP address. */
static int choose_addresses(struct preparation *made, struct error *err)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);
    char **given = made->request.listen, **listen;
    int result = 0;

    for (size_t i = 0; result == 0 && i < strv_length(given); i++)
        result = buf_printf(&text, "%s%s", i > 0 ? "," : "", given[i]);
    if (result < 0)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory keeping the options");
    if (text.length > 0)
        result = config_set(&made->config, KEY_LISTEN, buf_text(&text), "--listen", err);
    if (result < 0)
        return result;
    listen = made->config.listen;
    made->listen = (const char *const *)listen;
    if (made->request.is_on_demand || !listen || !listen[0] ||
        (str_equal(listen[0], "none") && !listen[1]))
        made->listen = no_addresses;
    return 0;
}

/*
 * A daemon that a command started on demand becomes this server, with its sessions. Other ones, and
 * what only a process that is started anew can do, stay the error that `err` is.
 */
static int find_on_demand(struct preparation *made, struct error *err)
{
    struct error ignored = {0};

    if (made->request.is_on_demand || made->request.socket || made->watchdog_ms ||
        made->activation.unix_fd >= 0 || paths_adopt(&made->paths, &ignored) < 0 ||
        paths_read_record(&made->paths, &made->record, &ignored) < 0 || !made->record.has_log ||
        (made->record.pid_namespace && made->record.pid_namespace != owner_pid_namespace()))
        return err->num;
    made->takes_over = true;
    *err = (struct error){0};
    return 0;
}

/* A place that is asked for and does not exist is an error: nothing is run elsewhere instead. */
static int check_doors(const struct config *config, struct error *err)
{
    static const enum config_key keys[] = {KEY_PROVIDER_URL, KEY_PROVIDER_TEMPLATE};

    for (size_t i = 0; i < ARRAY_SIZE(keys) && config->code_interpreter.is_enabled; i++) {
        if (config->values[keys[i]].text)
            return error_set(err, -ENOTSUP, ERROR_BAD_CONFIG,
                             "%s (%s): this version runs the code of responses only in its own "
                             "sessions; remove it",
                             config_table[keys[i]].yaml, config->values[keys[i]].where);
    }
    return 0;
}

/*
 * Keys of calls and sessions come with each call (settings.h), also with those of the command that
 * starts a daemon on demand: what it set is not for the callers after it.
 */
static int keep_own(struct preparation *made, struct error *err)
{
    const struct supervisor_spec trial = {.box = {.id_base = made->config.id_base}};
    struct error refused = {0};

    /*
     * Where this machine refuses namespaces, and the level allows a box without, the machine itself
     * is the one box. With a stricter level the daemon's start says what is refused.
     */
    made->config.has_one_box = made->config.isolation <= ISOLATION_STANDARD &&
                               supervisor_try_namespaces(&trial, &refused) < 0;
    if (made->config.has_one_box && made->config.root)
        return error_set(
            err, -EINVAL, ERROR_BAD_CONFIG,
            "%s: a root folder needs namespaces, and they are refused here: remove it, "
            "or see 'bailey doctor'",
            made->config.values[KEY_ROOT].where);
    made->wanted = config_provider(&made->config);
    return made->request.is_on_demand ? settings_keep_daemon(&made->config, err) : 0;
}

static int prepare(struct preparation *made, const struct invocation *invocation, struct error *err)
{
    const struct serve_request *request = &made->request;
    int result = request_config(&made->config, request->config_file, invocation->env, err);

    if (result == 0)
        result = options_configure(&invocation->parsed, &made->config, err);
    if (result == 0)
        result = check_doors(&made->config, err);
    if (result == 0)
        result = keep_own(made, err);
    if (result == 0)
        result = choose_addresses(made, err);
    if (result == 0)
        result = find_manager(made, invocation->env, err);
    if (result == 0)
        result = paths_choose(&made->paths, &made->config, invocation->env, request->state,
                              request->socket, err);
    if (result == 0)
        result = engine_program(made->engine, err);
    if (result == 0)
        result = paths_make(&made->paths, err);
    if (result == 0)
        result = paths_lock(&made->paths, made->lock_fds, err);
    if (result == -EALREADY)
        result = find_on_demand(made, err);
    if (result == 0 && request->is_on_demand)
        result = open_log(made, err);
    if (result == 0)
        result = make_settings(made, err);
    if (result == 0)
        result = push_config(&made->env, &made->config, made->paths.state, request->is_on_demand,
                             invocation->env, err);
    if (result == 0)
        result = make_hosts(made, invocation->env, err);
    if (result == 0)
        result = make_upstream(made, invocation->env, err);
    if (result == 0)
        result = read_pip_settings(made, invocation->env, err);
    if (result == 0)
        find_layer(made);
    if (result == 0 && !made->takes_over)
        result = paths_write_record(&made->paths, getpid(), request->is_on_demand, err);
    return result;
}

/* It serves with our settings. */
static void on_taken(void *ctx)
{
    struct preparation *made = ctx;
    struct error err = {0};

    made->was_taken = true;
    made->daemon_fd = (int)syscall(SYS_pidfd_open, made->record.pid, 0);
    /* Written first: a reader of this line may start another server, which must find the record. */
    if (paths_write_record(&made->paths, made->record.pid, false, &err) < 0)
        log_warning("%s, continuing without it", err.text);
    message_print("took over the daemon that was running (pid %d), with its sessions",
                  (int)made->record.pid);
    if (made->request.ready_fd >= 0)
        fd_write_all(made->request.ready_fd, "ready\n", strlen("ready\n"));
    fd_closep(&made->request.ready_fd);
    if (made->notify) {
        struct notify notify = NOTIFY_INIT;

        notify_open(&notify, made->notify, &err);
        notify_say(&notify, "READY=1\nSTATUS=serving, version " BAILEY_VERSION);
        notify_close(&notify);
    }
}

/*
 * That daemon dropped its rights and could not remove its own control groups; this process has the
 * caller's. The locks on them are released before the end of the process can be seen.
 */
static void sweep_groups(struct preparation *made)
{
    struct pollfd ended = {.fd = made->daemon_fd, .events = POLLIN};
    struct cgroup_site site;

    if (made->daemon_fd >= 0)
        poll(&ended, 1, DAEMON_PATIENCE_MS);
    cgroup_find(&site);
    cgroup_sweep(&site);
}

static int serve(struct preparation *made, struct error *err)
{
    const struct config *config = &made->config;
    bool has_log = made->log_fd >= 0;
    struct supervisor_spec spec;
    int result;

    /* The caller's working folder must stay removable. */
    if (made->request.is_on_demand && chdir("/") < 0)
        return error_errno(err, "leaving the working folder");
    if (has_log && dup2(made->log_fd, STDERR_FILENO) < 0)
        return error_errno(err, "opening the log");
    spec = (struct supervisor_spec){
        .state = made->paths.state,
        .socket = made->paths.socket,
        .engine = made->engine,
        .settings = buf_text(&made->settings),
        .settings_length = made->settings.length,
        .broker_env = (const char *const *)made->env,
        .host_count = made->host_count,
        .dataset_folders = (const char *const *)config->dataset_folders,
        .listen = made->listen,
        .listen_fds = made->activation.tcp_fd,
        .listen_fd_count = made->activation.tcp_count,
        .interpreters = made->listed.spec,
        .interpreter_count = made->listed.count,
        .takes_listed_only = config->interpreters && config->interpreters[0],
        .python = made->python,
        .layer = made->layer[0] ? made->layer : NULL,
        .has_zygotes = config->is_warm && config_can(config, PROVIDER_CAN_ZYGOTE),
        .log_level = config->log_level,
        .log_is_json = config->log_is_json,
        .egress = buf_text(&made->pip.egress),
        .installer_files = made->pip.files,
        .installer_file_count = made->pip.file_count,
        .wheels = made->pip.wheels,
        .wheel_count = made->pip.wheel_count,
        .box = {.memory_bytes = config->limits.memory_bytes,
                .disk_bytes = config->limits.disk_bytes,
                .pids = config->limits.pids,
                .cpu_millis = config->limits.cpu_millis,
                .minimum = config->isolation,
                .root = config->root,
                .binds = made->binds,
                .bind_count = made->bind_count,
                .id_base = config->id_base},
        .has_no_ceiling = made->request.is_on_demand,
        .pool_size = config_can(config, PROVIDER_HOSTED) ? 0 : config->pool_size,
        .pool_memory_bytes = config->pool_memory_bytes,
        .stop_grace_ms = (unsigned)config->stop_grace_ms,
        .socket_fd = MAX(made->activation.unix_fd, 0),
        .notify = made->notify,
        .watchdog_ms = made->watchdog_ms,
        .has_no_namespaces = config->has_one_box,
        .ready_fd = made->request.ready_fd,
        .stderr_fd = has_log ? made->log_fd : STDERR_FILENO,
    };
    for (size_t i = 0; i < made->host_count; i++)
        spec.hosts[i] = (struct supervisor_host){
            .name = made->hosts[i].row ? made->hosts[i].row->name : HOST_UPSTREAM,
            .has_own_id = !made->hosts[i].row,
            .env = (const char *const *)made->hosts[i].env,
            .keeps_rights = provider_can(made->hosts[i].row, PROVIDER_STANDS_IN),
            .is_lazy = made->hosts[i].is_lazy};
    result = made->takes_over ? supervisor_take_over(&spec, on_taken, made, err)
                              : supervisor_run(&spec, err);
    if (made->was_taken)
        sweep_groups(made);
    if (!made->takes_over || made->was_taken) /* else that daemon goes on, and has its record */
        paths_remove_record(&made->paths);
    return result;
}

/* The waiting command gets the reason, not just the end of the file. */
static void tell_waiting(int ready_fd, const struct error *err)
{
    if (ready_fd >= 0)
        fd_write_all(ready_fd, err->text, strlen(err->text));
}

static int run_serve(const struct invocation *invocation)
{
    CLEANUP(preparation_free)
    struct preparation made = {.request = {.ready_fd = -1},
                               .settings = {.maximum = MIB},
                               .activation = ACTIVATION_INIT,
                               .lock_fds = {-1, -1},
                               .log_fd = -1,
                               .daemon_fd = -1};
    struct error err = {0};

    if (options_take(&invocation->parsed, &made.request, &err) < 0 ||
        prepare(&made, invocation, &err) < 0) {
        tell_waiting(made.request.ready_fd, &err);
        return message_bad_input(&err);
    }
    if (serve(&made, &err) < 0) {
        if (str_ends(err.text, LOG_SAYS_WHY)) /* that log is this standard error */
            str_copy(err.text + strlen(err.text) - strlen(LOG_SAYS_WHY), sizeof(LOG_SAYS_WHY),
                     ": see above");
        message_error(&err);
        return str_equal(err.code, ERROR_REFUSED) ? STATUS_REFUSED : STATUS_BAD_INPUT;
    }
    return 0;
}

static const struct option_row options[] = {
    {"socket", 0, "PATH", WORDS_FILE, "listen here instead of $XDG_RUNTIME_DIR/bailey/engine.sock",
     .take = take_socket},
    {"state", 0, "DIR", WORDS_FOLDER,
     "keep index, outputs, artifacts and logs here instead of ~/.local/state/bailey",
     .take = take_state},
    {"listen", 'l', "ADDRESS:PORT", WORDS_ANY,
     "listen here for HTTP instead of on SANDBOX_LISTEN; may be repeated; none: only the socket",
     .take = take_listen},
    {"on-demand", 0, NULL, WORDS_ANY,
     "log to daemon.log in the state folder, and exit after 10 minutes without a session and a "
     "client",
     .take = take_on_demand},
    {"ready-fd", 0, "N", WORDS_ANY, "write 'ready' or an error to this descriptor",
     .take = take_ready_fd},
    {"config", 0, "FILE", WORDS_FILE, "read this bailey.yaml", .take = take_config},
};

const struct command serve_command = {
    .name = "serve",
    .group = GROUP_SERVER,
    .summary = "run the server: sessions over HTTP, WebSocket and MCP",
    .usage = "[options]",
    .description =
        "Runs the server, which holds sessions, in the foreground. Commands of the same user reach "
        "it over a unix socket; other clients over HTTP (SANDBOX_LISTEN, default 127.0.0.1:7070) "
        "with an API key. If it listens on loopback only, the first start creates a key and prints "
        "it once; an address that other machines can reach is refused until a key exists ('bailey "
        "key new'). With SANDBOX_TLS_CERTIFICATE and SANDBOX_TLS_KEY it is HTTPS.\n\nOther "
        "commands start a daemon when none is running; it listens on its "
        "unix socket only. If such a daemon is running, 'serve' turns it into "
        "this server, with its sessions.\n\nSIGTERM ends it: running "
        "commands get SANDBOX_STOP_GRACE to end, then are "
        "killed. 'bailey reload' applies new settings and certificates without "
        "interruption.\n\nExample:\n  bailey serve --listen 127.0.0.1:8080 --listen [::1]:8080",
    .options = options,
    .option_count = ARRAY_SIZE(options),
    .run = run_serve,
    .reach = REACH_HERE,
};
