/*
 * config.h - environment, bailey.yaml and flags into one checked struct.
 *
 * config_load() reads the file and the environment, config_set() overrides a key by a flag; after
 * that the struct is constant. Each value records its source. Owned by the caller, who frees it
 * with config_free(). Blocks only for reading the file. Called by cli/.
 *
 * Runs in: broker, hosts, supervisor, commands, callers
 */
#ifndef BAILEY_CONFIG_CONFIG_H
#define BAILEY_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/isolation.h"
#include "base/log.h"
#include "model/spec.h"

enum store_code { STORE_ON_ERROR, STORE_ALWAYS, STORE_NEVER };

/* One row for each key, in the order of the table in table.c. */
enum config_key {
    KEY_SANDBOX_TYPE,
    KEY_TIMEOUT,
    KEY_MAX_OUTPUT,
    KEY_BLOCK_IMPORTS,
    KEY_BLOCKED_IMPORTS,
    KEY_STORE_CODE,
    KEY_FALLBACK,
    KEY_LANGUAGES,
    KEY_AUTO_INSTALL,
    KEY_ISOLATION,
    KEY_MEMORY,
    KEY_CPUS,
    KEY_PIDS,
    KEY_DISK,
    KEY_ID_BASE,
    KEY_ROOT,
    KEY_PYTHON,
    KEY_INTERPRETERS,
    KEY_STATE_DIR,
    KEY_DAEMON_IDLE,
    KEY_LOG,
    KEY_SESSION_IDLE,
    KEY_SESSION_AGE,
    KEY_MAX_SESSIONS,
    KEY_MAX_PAUSED,
    KEY_PAUSED_TIME,
    KEY_SESSION_QUOTA,
    KEY_DATASET_FOLDERS,
    KEY_STOP_GRACE,
    KEY_TEMPLATE,
    KEY_NODE,
    KEY_WARM,
    KEY_POOL_SIZE,
    KEY_POOL_MEMORY,
    KEY_INDEX_HOSTS,
    KEY_INSTALL_ALLOW,
    KEY_INSTALL_DENY,
    KEY_INSTALL_TIMEOUT,
    KEY_INSTALL_SIZE,
    KEY_LISTEN,
    KEY_TLS_CERTIFICATE,
    KEY_TLS_KEY,
    KEY_TLS_OPTIONAL,
    KEY_HOSTS,
    KEY_CORS_ORIGINS,
    KEY_EXECUTE_OPEN,
    KEY_E2B_TEMPLATES,
    KEY_E2B_DEBUG,
    KEY_QUEUE,
    KEY_HEAD_TIME,
    KEY_BODY_TIME,
    KEY_LINK_TIME,
    KEY_ARTIFACT_TIME,
    KEY_LOG_TIME,
    KEY_CODE_TIME,
    KEY_MAX_CONCURRENT,
    KEY_LOG_FORMAT,
    KEY_AUDIT_SIZE,
    KEY_AUDIT_KEEP,
    KEY_QUOTA_SESSIONS,
    KEY_QUOTA_RUNS,
    KEY_QUOTA_CPU,
    KEY_QUOTA_MEMORY,
    KEY_QUOTA_DISK,
    KEY_QUOTA_REQUESTS,
    KEY_QUOTA_BYTES,
    KEY_DOCKER_IMAGE,
    KEY_DOCKER_NETWORK,
    KEY_DOCKER_CPU,
    KEY_DOCKER_MEMORY,
    KEY_DOCKER_RUNTIME,
    KEY_DOCKER_POOL_SIZE,
    KEY_DOCKER_PULL_WAIT,
    KEY_DOCKER_HOST,
    KEY_DOCKER_CERT_PATH,
    KEY_DOCKER_TLS_VERIFY,
    KEY_URL,
    KEY_URL_KEY_FILE,
    KEY_URL_CA_FILE,
    KEY_URL_PROXY,
    KEY_PROVIDER_URL,
    KEY_PROVIDER_TEMPLATE,
    KEY_PROVIDER_NAMESPACE,
    KEY_PROVIDER_CLAIM_TIMEOUT,
    KEY_PROVIDER_EXECUTION_TIMEOUT,
    KEY_PROVIDER_MAX_OUTPUT,
    KEY_PROVIDER_PER,
    KEY_PROVIDER_ITEM_SHAPE,
    KEY_PROVIDER_ENABLED,
    KEY_UPSTREAM_URL,
    KEY_UPSTREAM_KEY_FILE,
    KEY_UPSTREAM_MODEL,
    KEY_UPSTREAM_TIMEOUT,
    _KEY_MAX,
};

enum config_source { FROM_DEFAULT, FROM_FILE, FROM_ENVIRONMENT, FROM_FLAG };

struct config_value {
    char *text; /* as written, or the default's text; owned; NULL: unset */
    enum config_source source;
    char
        *where; /* "SANDBOX_TIMEOUT_SEC", "/etc/bailey.yaml:7", "--timeout"; owned; NULL: default */
};

struct config {
    struct config_value values[_KEY_MAX];
    char *file; /* the bailey.yaml that was read; NULL: none */

    /* the same, checked and typed */
    struct limits limits;
    enum isolation isolation;
    enum store_code store_code;
    bool block_imports;
    bool auto_install;
    char **blocked_imports; /* strv */
    char **languages;       /* strv */
    uint64_t id_base;
    const char *type;          /* "local"; borrowed from values[] */
    bool falls_back;           /* makes local boxes if the provider is unavailable */
    const char *root;          /* NULL: the host's /usr */
    const char *python;        /* NULL: search for one */
    const char *node;          /* the same for JavaScript */
    char **interpreters;       /* strv of absolute paths that callers may name; empty: see table */
    const char *template_name; /* "python": the host's own; "auto": data, or that */
    bool is_warm;              /* zygotes */
    uint32_t pool_size;        /* prewarmed boxes, at most; 0: no pool */
    uint64_t pool_memory_bytes;
    char **index_hosts; /* strv of names an installer may reach besides those pip's settings name */
    char **install_allow, **install_deny; /* strv of distribution names, normalised before they are
                                             compared; empty allow: all */
    uint64_t install_timeout_ms, install_bytes;

    struct { /* with SANDBOX_TYPE=docker */
        const char *image;
        const char *runtime;   /* Docker's runtime: runsc, kata, crun; NULL: its default */
        const char *host;      /* unix:///path, tcp://host:port, http:// or https:// */
        const char *cert_path; /* folder of ca.pem, cert.pem and key.pem; NULL: none */
        bool verifies_tls;
        bool has_network;
        uint32_t pool_size;    /* prewarmed containers */
        uint64_t pull_wait_ms; /* how long a box waits for an image that the daemon pulls */
    } docker;

    struct {                  /* with SANDBOX_TYPE=url */
        const char *address;  /* of the server that has the boxes; NULL: none */
        const char *key_file; /* read by the provider host only; NULL: none */
        const char *ca_file;  /* authorities instead of the system's; NULL: those */
        const char *proxy;    /* http:// address of a proxy; NULL: none */
    } url;

    struct {                  /* the model server of the Responses door */
        const char *url;      /* the base of its Chat Completions API; NULL: none */
        const char *key_file; /* read by `bailey serve` only; NULL: none */
        const char *model;    /* for requests that name none; NULL: "default" */
        uint64_t timeout_ms;  /* for one answer of the model */
    } upstream;
    struct { /* what models get to run code with */
        bool is_enabled;
        bool is_per_execution;      /* a new box for each call */
        bool is_nested;             /* the shape of its items */
        uint64_t claim_ms, time_ms; /* until there is a box; for one execution */
    } code_interpreter;

    /* the daemon */
    const char *state; /* NULL: the XDG state folder */
    enum log_level log_level;
    uint64_t session_idle_ms, session_age_ms, stop_grace_ms, daemon_idle_ms;
    uint64_t session_quota_bytes; /* of saved outputs */
    uint32_t max_sessions, max_paused;
    uint64_t paused_ms;     /* a paused session ends after this time */
    char **dataset_folders; /* strv of absolute paths; empty: none */

    /* the server */
    char **listen;                         /* strv of ADDRESS:PORT; "none" alone: no TCP */
    const char *tls_certificate, *tls_key; /* NULL: plain */
    bool tls_is_optional;                  /* HTTP too, on the same addresses */
    char **hosts, **cors_origins;          /* strv */
    bool execute_is_open;                  /* POST /execute without a key */
    bool e2b_debug;                        /* a sandbox for E2B's clients that have no key */
    char **e2b_templates;                  /* "NAME=TEMPLATE", "NAME": the configured one */
    uint32_t queue;                        /* boxes that may wait for the launcher */
    uint64_t head_ms, body_ms;             /* time limits for a client to send either */
    uint64_t link_ms;                      /* lifetime of a signed link */
    uint64_t artifact_ms;                  /* lifetime of an output that is not kept */
    uint64_t log_ms;                       /* of the output of a command that has ended */
    uint64_t code_ms;                      /* of stored code */
    uint32_t max_concurrent;               /* calls of POST /execute at once */
    uint64_t execute_output_bytes;         /* limit of each stream, and of its files */
    bool log_is_json;
    uint64_t audit_bytes; /* limit of one file */
    uint32_t audit_keep;  /* number of files, including the current one */
    struct {
        uint64_t sessions, runs, cpu_seconds, memory_bytes, disk_bytes, requests, bytes;
    } quota; /* of one tenant; 0: no limit */

    /*
     * Not a key: the machine gives no namespaces, and the row that stands in for `local` makes its
     * boxes (provider_stand_in()). Of a daemon; config_clone() keeps it.
     */
    bool has_one_box;
};

/* Whether SANDBOX_STORE_CODE stores the code of a run with this ending. */
struct result;
bool config_stores(const struct config *config, const struct result *result);
struct provider_row;
/*
 * The row of SANDBOX_TYPE (runtime/provider.h), and whether it has all of these bits. Never NULL
 * for a checked configuration.
 */
const struct provider_row *config_provider(const struct config *config);
bool config_can(const struct config *config, uint32_t bits);
/* The row of SANDBOX_FALLBACK; NULL: none. */
const struct provider_row *config_fallback(const struct config *config);
/* Why the runtime cannot install packages into sessions; NULL: it can. */
const char *config_no_install(const struct config *config);

/*
 * Where a key belongs: who decides its value if a daemon does the work. The first two are resolved
 * by the caller and sent with its call (settings.h); a daemon key of the caller that differs from
 * the daemon's is an error.
 */
enum config_place {
    PLACE_NONE,    /* no row has it */
    PLACE_CALL,    /* each run, command and cell has its own */
    PLACE_SESSION, /* each session has its own, fixed when it is made */
    PLACE_DAEMON,  /* one for all sessions, read when the daemon starts */
    PLACE_PROGRAM, /* each program has its own; it is not sent */
    _PLACE_MAX,
};
const char *config_place_name(enum config_place place); /* "call", "session", ... */

/* Describes a key; config, help, man pages and docs are printed from this table. */
struct config_row {
    const char *env;      /* SANDBOX_TIMEOUT_SEC; NULL: only in the file */
    const char *yaml;     /* sandbox.timeout_sec */
    const char *fallback; /* the default's text; NULL: none */
    const char
        *allowed; /* "1 to 86400 seconds"; NULL for SANDBOX_TYPE: config_allowed() computes it */
    const char *help;
    enum config_place place;
};
extern const struct config_row config_table[_KEY_MAX];

/* The allowed values as errors, help and man pages show them: `text`, or the table's own. */
#define CONFIG_ALLOWED_MAX 256
const char *config_allowed(enum config_key key, char text[CONFIG_ALLOWED_MAX]);

/*
 * Reads defaults, then the file, then the environment `env` (environ-like). `file` NULL: the first
 * that exists of $BAILEY_CONFIG, ./bailey.yaml, $XDG_CONFIG_HOME/bailey/bailey.yaml
 * (~/.config/...), /etc/bailey/bailey.yaml; $BAILEY_CONFIG must exist if it is set, and a file that
 * was found, not named, must be owned by the caller or root and not writable by other users. An
 * empty variable counts as unset. Errors have code ERROR_BAD_CONFIG and name the key, the value and
 * what is allowed; an unknown key names the nearest known one. After an error the struct is empty.
 */
int config_load(struct config *config, const char *file, char *const *env, struct error *err);

/* The same with the file's text in memory; `name` is the file's name in errors. */
int config_load_text(struct config *config, const char *text, size_t length, const char *name,
                     char *const *env, struct error *err);

/*
 * Sets a key to a flag's value; `flag` ("--timeout") is named in errors (code ERROR_BAD_INPUT) and
 * in `where`. After an error the old value is kept.
 */
int config_set(struct config *config, enum config_key key, const char *text, const char *flag,
               struct error *err);

/* The name of a key in errors and in JSON: its variable, else its name in the file. */
const char *config_key_name(enum config_key key);
/* -ENOENT: no key has this name. */
int config_key_find(const char *name, enum config_key *ret);

/* Whether two configurations have the same value for a key, however it is written. */
bool config_is_same(const struct config *a, const struct config *b, enum config_key key);

/*
 * A copy, which belongs to the caller. 0 or -ENOMEM.
 */
int config_clone(const struct config *config, struct config *ret, struct error *err);

/*
 * Checks that need several keys at once (disk < memory, both sandbox_url and sandbox_template).
 * Call it after the last config_set(). A disk limit that was not set becomes half of a memory limit
 * that was set, and still counts as a default.
 *
 * Settings of a provider are checked by its row (runtime/provider.h), and a SANDBOX_TYPE that is
 * not in this build is refused: code that makes boxes, or calls a daemon that does, uses
 * config_check(). config_check_values() is for commands that only show the configuration.
 */
int config_check(struct config *config, struct error *err);
int config_check_values(struct config *config, struct error *err);

/*
 * For the checks of a provider's row: key `to` takes value and source of key `from`; and the error
 * for a value that cannot be used.
 */
int config_copy(struct config *config, enum config_key from, enum config_key to, struct error *err);
int config_unusable(const struct config *config, enum config_key key, struct error *err);

void config_free(struct config *config);

const char *config_source_name(enum config_source source); /* "default", "file", ... */

/* YAML text into a jansson tree: aliases, anchors, tags and duplicate keys refused, depth 64. */
typedef struct json_t json_t;
int config_yaml_parse(const char *text, size_t length, const char *name, json_t **ret,
                      struct error *err);

/* The same, with the line number of each entry of each mapping, for errors of further checks. */
struct yaml_entries;
int config_yaml_parse_lines(const char *text, size_t length, const char *name, json_t **ret,
                            struct yaml_entries **ret_lines, struct error *err);
/* 1 for an unknown entry. */
unsigned long config_yaml_line(const struct yaml_entries *lines, const json_t *mapping,
                               const char *key);
void config_yaml_lines_free(struct yaml_entries *lines); /* NULL is fine */

#endif
