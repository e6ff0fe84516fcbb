/*
 * e2b.h - what E2B's clients use: their control plane (/sandboxes), what they expect of the daemon
 * in a sandbox (process.Process, filesystem.Filesystem, /files) and of the code interpreter
 * (/execute, /contexts); docs/e2b.md. The doors whose clients speak so (api/e2b, api/scalebox) are
 * rows with these handlers; where their protocols differ is a table of each (struct e2b_wire).
 *
 * A sandbox is a session, and its id is the session's without "s_". What the session does not know
 * (metadata, the key that made it) is in its notes. One thread, never blocks.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_SANDBOXES_E2B_H
#define BAILEY_API_SANDBOXES_E2B_H

#include <jansson.h>

#include "api/front/door.h"
#include "api/front/reply.h"
#include "api/protobuf.h"
#include "base/sha256.h"

#define E2B_ENVD_VERSION "0.6.13" /* what clients decide on: as E2B's own of this number does */
#define E2B_ENVD_PORT 49983
#define E2B_INTERPRETER_PORT 49999
#define E2B_USER "user"
#define E2B_HOME "/home/user"
#define E2B_ID_LENGTH 32
#define E2B_TOKEN_MAX 96
#define E2B_KEEPALIVE_MS 90000    /* of a stream whose client names no interval */
#define E2B_PIECE (32 * KIB)      /* of output in one event */
#define E2B_PENDING_MAX (2 * MIB) /* of a stream that its client has not read */
#define E2B_TAG_MAX 1024          /* bytes of the name that a client gives a command */
#define E2B_RECENT_MS 30000       /* how long a process that has ended can be connected to */
#define E2B_DEFAULT_TIMEOUT_S 300 /* of a sandbox, where the request has none */
#define E2B_DEFAULT_TIMEOUT_V1_S 15
#define E2B_LIST_MAX 100            /* sandboxes of one page */
#define E2B_WATCHERS_MAX 1024       /* made by CreateWatcher, of all sandboxes, */
#define E2B_WATCHERS_EACH 64        /* and of those of one tenant */
#define E2B_CHANGES_MAX (512 * KIB) /* bytes of what one of them has to tell */

struct e2b_process;
struct e2b_watcher;

/* Where the protocol of a door differs from E2B's. */
struct e2b_wire {
    /* The body of a control plane's request as E2B's; takes it over. NULL: `err` says why. */
    json_t *(*body)(const struct door_call *call, json_t *body, struct error *err);
    /* Methods that also take and give binary messages, the last one without a path; NULL: all have
     * JSON only. */
    const struct e2b_method *methods;
    /* What a line of /execute is as a message of a stream (e2b_execute_stream); `count` is that of
     * the execution. NULL: nothing. */
    json_t *(*event)(json_t *line, json_int_t count);
    bool has_details;   /* create and connect answer with all that is known of the sandbox */
    bool keeps_timeout; /* a connection without a timeout leaves the sandbox's as it is */
    /* Every request names `root` (Authorization: Bearer root), which is the sandbox's user here;
     * paths in addresses have no leading slash. */
    bool says_root;
    const char *state_query; /* of a list: the query argument with states; NULL: "state" */
};
/* A method's path, and its messages. */
struct e2b_method {
    const char *path;
    const struct protobuf_message *request, *reply;
};

/* State between calls, of each door. */
struct e2b {
    struct front *front;
    const struct e2b_wire *wire;
    uint8_t secret[SHA256_BYTES];  /* tokens are made with it */
    struct e2b_process *processes; /* what running commands were started with */
    struct e2b_watcher *watchers;
    unsigned watcher_count;
    uint64_t next_watcher;
};

/*
 * open.c: what a door keeps, for its open() and close(). Tokens of one door are those of the other:
 * a sandbox is the same, whichever made it.
 */
int e2b_open(struct front *front, const struct e2b_wire *wire, void **ret, struct error *err);
void e2b_close(void *door);

/* ---- whose request it is (target.c); pure ---- */

/* Which sandbox and port a request means. */
struct e2b_target {
    char id[E2B_ID_LENGTH + 1]; /* empty: it does not say */
    unsigned port;              /* 0: it does not say */
    bool is_debug;              /* the one sandbox of clients with E2B_DEBUG (debug.c) */
};
/* "49983-0123...": the first label of a host. False: it names no port of a sandbox. */
bool e2b_host_read(const char *host, struct e2b_target *ret);
#define E2B_DEBUG_ID "debug_sandbox_id"
/* By headers, then host, then token. False: the request has none of the three. */
bool e2b_target_of(const struct http_request *http, struct e2b_target *ret);

/* The token of a sandbox; contains its id. */
void e2b_token_make(const uint8_t secret[SHA256_BYTES], const char *id, char text[E2B_TOKEN_MAX]);
/* The id in a token, whose digest is not checked; false: the text is not a token of a sandbox. */
bool e2b_token_id(const char *text, char id[E2B_ID_LENGTH + 1]);
bool e2b_token_check(const uint8_t secret[SHA256_BYTES], const char *id, const char *text);

/* A signed address of /files. */
struct e2b_signature {
    const char *path, *user, *operation; /* as in the query; "" where it has none */
    const char *signature;               /* NULL: none */
    const char *expiration;              /* NULL: none */
    bool may_lack_slash; /* of `path`: it came in an address, which may have lost its first one */
};
enum e2b_verdict { E2B_SIGNED, E2B_UNSIGNED, E2B_WRONG, E2B_EXPIRED };
enum e2b_verdict e2b_signature_check(const struct e2b_signature *signature, const char *token,
                                     uint64_t now_s);

/* ---- requests (admit.c) ---- */

bool e2b_claims(const struct http_request *http);
int e2b_admit(struct door_call *call, struct error *err);
/* The caller of a request that has no key: the key that made the sandbox. */
int e2b_stand_in(struct e2b *e2b, const struct session *session, struct principal *who,
                 struct error *err);
/* Whether a caller's key may do what the sandbox's token opens. */
bool e2b_may_have_token(struct e2b *e2b, const struct principal *who,
                        const struct session *session);
/* The sandbox of a request that was admitted; NULL: it ended meanwhile, and it was answered. */
struct session *e2b_session(struct door_call *call);
/* The sandbox {id} of the control plane; NULL: it was answered (404). */
struct session *e2b_sandbox(struct door_call *call);
/* By an id as E2B's clients have it ("ID" or "ID-CLIENT"); NULL: no sandbox with this id lives. */
struct session *e2b_find(struct e2b *e2b, const char *tenant, const char *id);
/* False: no user of that name can be had here; `code` is one of Connect's. */
bool e2b_user(const char *user, const char **ret_code, struct error *err);
bool e2b_user_of(const struct http_request *http, const char **ret_code, struct error *err);
/* The same of the query argument `username`. */
bool e2b_user_in_query(const struct http_request *http, const char **ret_code, struct error *err);
bool e2b_is_files(const struct http_request *http); /* bytes of files, which may be signed */

/* debug.c: the sandbox of clients with E2B_DEBUG, made if there is none. */
int e2b_debug_session(struct e2b *e2b, const struct http_request *http, struct session **ret,
                      struct error *err);

/* ---- replies (reply.c) ---- */

/* {"code":STATUS,"message":TEXT} */
void e2b_fail_text(struct http_request *http, unsigned status, const char *text);
void e2b_fail_error(struct door_call *call, const struct error *err);
void e2b_not_found(struct http_request *http, const char *id); /* 502: no such sandbox runs */
void e2b_refuse(struct http_request *http, const struct door_refusal *refusal);
json_t *e2b_time(uint64_t ms);
uint64_t e2b_time_read(const char *text);          /* RFC 3339, or milliseconds; 0: neither */
const char *e2b_id(const struct session *session); /* without "s_" */

/* ---- Connect (connect.c) ---- */

#define E2B_TYPE_CONNECT "application/connect+json"
#define E2B_TYPE_CONNECT_BINARY "application/connect+proto"
#define E2B_TYPE_BINARY "application/proto"

/* The method of a request whose messages are binary; NULL: they are JSON. */
const struct e2b_method *e2b_binary(const struct http_request *http);
const char *e2b_stream_type(const struct http_request *http); /* of its reply */
/* A message of a stream of requests; `room` as in json_parse_within(). NULL: the bytes are not a
 * message of this method. */
json_t *e2b_stream_message(const struct http_request *http, const char *text, size_t length,
                           size_t *room);
/* door_ops.reply of a method that is not a stream; takes the message over. */
void e2b_unary_reply(struct http_request *http, unsigned status, const char *const *headers,
                     json_t *message);

/* One envelope of several: 1, 0 at the end, or -EPROTO; moves *at on. Pure. */
int e2b_envelope_next(const char **at, size_t *left, const char **ret, size_t *ret_length);
/* The message of a body with one envelope. 0, or -EPROTO. Pure. */
int e2b_envelope_read(const void *data, size_t length, const char **ret, size_t *ret_length);
/* Two spellings of a member; NULL also for null. */
json_t *e2b_member(json_t *object, const char *camel, const char *snake);
/* Whether a body asks for what this member is about: it is there, not false and not empty. */
bool e2b_is_asked(json_t *body, const char *name);
bool e2b_flag(json_t *object, const char *camel, const char *snake, bool fallback);
const char *e2b_text(json_t *object, const char *camel, const char *snake); /* NULL: none */
/* A number, also as a string; -1: none. */
int64_t e2b_number(json_t *object, const char *camel, const char *snake);
int e2b_bytes(json_t *value, struct buf *bytes); /* base64 of either alphabet; -EINVAL */
/* The request of a call; NULL: it was answered. */
json_t *e2b_unary_request(struct door_call *call);
json_t *e2b_stream_request(struct door_call *call);
const char *e2b_code_of(const struct error *err); /* "not_found" */
void e2b_unary_fail(struct http_request *http, const char *code, const char *text);
void e2b_unary_error(struct door_call *call, const struct error *err);
/* Takes over `message`. A failure breaks the stream. */
void e2b_stream_send(struct front_stream *stream, json_t *message);
void e2b_stream_end(struct front_stream *stream, const char *code, const char *text); /* NULL: ok */
/* The reply of a call whose request is a stream: one message, then the end. Takes it over. */
void e2b_stream_reply(struct http_request *http, json_t *message);
/* The whole reply of a stream that could not begin. */
void e2b_stream_fail(struct http_request *http, const char *code, const char *text);
uint64_t e2b_ping_ms(const struct http_request *http);
uint64_t e2b_timeout_ms(const struct http_request *http); /* 0: none */

/* ---- paths of files (path.c); pure ---- */

/* Absolute, or below the home folder. Errors: path_invalid. */
int e2b_path(const char *path, char ret[LIMIT_PATH_BYTES + 1], struct error *err);
/* ... and below a folder that files may be named in. */
int e2b_file_path(const char *path, char ret[LIMIT_PATH_BYTES + 1], struct error *err);
/* A path of an address, which has lost its slash: below the root if it can be, else the home. */
int e2b_bare_path(const char *path, char ret[LIMIT_PATH_BYTES + 1], struct error *err);
/* "Linux says": -rw-r--r-- of a st_mode. */
void e2b_permissions(uint32_t mode, char text[11]);

/* ---- handlers ---- */

unsigned e2b_cpus(const struct session *session); /* that it may use, at least 1 */

void e2b_create(struct door_call *call);
void e2b_create_v2(struct door_call *call);
void e2b_connect(struct door_call *call);
void e2b_resume(struct door_call *call);
void e2b_pause(struct door_call *call);
/* sandbox.c: what create, connect and resume answer; and a body that is an object, NULL: answered
 */
json_t *e2b_sandbox_json(const struct e2b *e2b, const struct http_request *http,
                         const struct session *session);
json_t *e2b_body(struct door_call *call);
/* pause.c: resumes it with this timeout, and answers */
void e2b_resume_for(struct door_call *call, struct session *session, uint64_t timeout_ms);
int e2b_check_pause_wishes(json_t *body, struct error *err);
void e2b_get(struct door_call *call);
void e2b_delete(struct door_call *call);
void e2b_list(struct door_call *call);
void e2b_list_v2(struct door_call *call);
void e2b_set_timeout(struct door_call *call);
void e2b_refresh(struct door_call *call);
void e2b_metrics_of(struct door_call *call);
void e2b_metrics_several(struct door_call *call);
void e2b_logs(struct door_call *call);
void e2b_logs_v2(struct door_call *call);
void e2b_not_here(struct door_call *call);

void e2b_health(struct door_call *call);
void e2b_envs(struct door_call *call);
void e2b_metrics(struct door_call *call);
void e2b_process_call(struct door_call *call);
void e2b_filesystem_call(struct door_call *call);
void e2b_file_get(struct door_call *call);
void e2b_file_post(struct door_call *call);

void e2b_execute(struct door_call *call);
void e2b_execute_stream(struct door_call *call); /* the same as a stream of Connect */
/* A context as create answers; `language` as clients write it, `cwd` NULL or empty: the home. */
int e2b_context_make(struct session *session, const char *language, const char *cwd,
                     struct context **ret, struct error *err);
json_t *e2b_context_json(const struct context *context);
void e2b_contexts_list(struct door_call *call);
void e2b_contexts_new(struct door_call *call);
void e2b_context_restart(struct door_call *call);
void e2b_context_remove(struct door_call *call);

/* process.c */
void e2b_process_start(struct door_call *call);
void e2b_process_connect(struct door_call *call);
/* process_list.c: what a running command was started with */
void e2b_process_note(struct e2b *e2b, struct execution *execution, json_t *request);
json_t *e2b_process_noted(const struct e2b *e2b, const struct execution *execution);
void e2b_processes_free(struct e2b *e2b);
/* Of {"process":{"pid"|"tag"}}; NULL: not found. */
struct execution *e2b_process_find(struct e2b *e2b, struct session *session, json_t *request,
                                   bool with_ended);

/* file_call.c: a request that waits for an operation on a sandbox's files */
struct e2b_file {
    struct e2b *e2b;
    struct http_request *http;
    struct session *session;
    struct box *box;
    uint32_t op;
    bool waits_for_box;
    int (*begin)(struct e2b_file *file, struct error *err);
    void (*free)(struct e2b_file *file); /* frees `own`; may be NULL */
    void *own;
    json_t *request; /* NULL: none */
    struct caller caller;
    struct e2b_probe *probe; /* links.c */
    json_t *entries;         /* whose links are asked for */
    void (*resolved)(struct e2b_file *file);
    char path[LIMIT_PATH_BYTES + 1];
    char to[LIMIT_PATH_BYTES + 1];
};
struct e2b_file *e2b_file_new(struct door_call *call, struct session *session); /* NULL: answered */
void e2b_file_start(struct e2b_file *file, int (*begin)(struct e2b_file *, struct error *));
void e2b_file_next(struct e2b_file *file, int (*begin)(struct e2b_file *, struct error *));
void e2b_file_free(struct e2b_file *file);
void e2b_file_done(struct e2b_file *file, json_t *reply);                /* 200; frees it */
void e2b_file_fail(struct e2b_file *file, const struct error *err);      /* Connect; frees it */
void e2b_file_fail_http(struct e2b_file *file, const struct error *err); /* plain; frees it */
/* EntryInfo; `path` is the entry's whole path. */
json_t *e2b_entry(struct session *session, const struct box_entry *entry, const char *path);

/* probe.c: a short command in the sandbox; done() has its output, and may free the probe */
struct e2b_probe;
struct e2b_probe *e2b_probe_new(struct session *session, const struct caller *caller,
                                const char *const *argv,
                                void (*done)(void *ctx, const char *text, size_t length), void *ctx,
                                struct error *err);
void e2b_probe_free(struct e2b_probe *probe); /* NULL is fine */
/* links.c: what links among entries lead to; resolved() is called once, or the file is freed */
void e2b_links_resolve(struct e2b_file *file, json_t *entries,
                       void (*resolved)(struct e2b_file *file));

/* watch.c */
void e2b_watch_dir(struct door_call *call, struct session *session, json_t *request);
void e2b_watcher_new(struct door_call *call, struct session *session, json_t *request);
void e2b_watcher_events(struct door_call *call, struct session *session, json_t *request);
void e2b_watcher_remove(struct door_call *call, struct session *session, json_t *request);
void e2b_watchers_free(struct e2b *e2b);

/* metadata.c: X-Metadata-... of files, kept in the sandbox's notes */
json_t *e2b_metadata_of(struct session *session, const char *path); /* borrowed; NULL: none */
/* From the headers of a request. *ret may be NULL: none. Errors: bad_input. */
int e2b_metadata_read(const struct http_request *http, json_t **ret, struct error *err);
int e2b_metadata_set(struct session *session, const char *path, json_t *metadata,
                     struct error *err); /* takes it over; NULL: none any more */
void e2b_metadata_moved(struct session *session, const char *from, const char *to);

#endif
