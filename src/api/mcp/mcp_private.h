/*
 * mcp_private.h - the structs behind mcp.h and the shapes of answers, for the files of api/mcp
 * only.
 *
 * Functions that take a json_t to send steal the reference and accept NULL (no memory): the client
 * then gets an internal error instead.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_API_MCP_MCP_PRIVATE_H
#define BAILEY_API_MCP_MCP_PRIVATE_H

#include <jansson.h>

#include "api/mcp/mcp.h"
#include "base/buf.h"
#include "base/limits.h"

#define MCP_SCHEME "sandbox://"
#define MCP_OUTPUT_FOLDER "/tmp/output/"
#define MCP_TEMPLATE MCP_SCHEME "{session}/{+path}"
#define MCP_MODERN "2026-07-28"
#define MCP_LEGACY_NEWEST "2025-11-25"
/* The first version with resource_link and structuredContent */
#define MCP_LEGACY_LINKS "2025-06-18"
#define MCP_META_VERSION "io.modelcontextprotocol/protocolVersion"
#define MCP_META_CAPABILITIES "io.modelcontextprotocol/clientCapabilities"
#define MCP_META_SERVER "io.modelcontextprotocol/serverInfo"
#define MCP_SESSION_SIZE (LIMIT_NAME + 1)
#define MCP_URI_MAX (3 * LIMIT_PATH_BYTES + LIMIT_NAME + 32) /* every byte escaped as %XX */

enum mcp_code {
    MCP_PARSE_ERROR = -32700,
    MCP_INVALID_REQUEST = -32600,
    MCP_NO_METHOD = -32601,
    MCP_INVALID_PARAMS = -32602,
    MCP_INTERNAL = -32603,
    MCP_HEADER_MISMATCH = -32020,
    MCP_NO_CAPABILITY = -32021,
    MCP_UNSUPPORTED_VERSION = -32022,
    MCP_NO_RESOURCE = -32002, /* legacy only */
};

struct mcp_server {
    const struct tool_row *tools;
    size_t tool_count;
    bool can_install;
    bool is_structured, is_http, has_fixtures;
    char *prompt;
    json_t *stateless_list; /* the same for clients of 2026-07-28 over HTTP; NULL: there are none */
    json_t *tool_list;      /* as tools/list shows it */
};

struct mcp_peer {
    const struct mcp_server *server;
    const struct mcp_ops *ops;
    void *ctx;
    char version[16]; /* agreed on by initialize; the newest legacy version before */
    char session[MCP_SESSION_SIZE];
    struct mcp_work *works;
    size_t work_count;
    uint64_t sequence;  /* the transport's number of the message that is being handled; 0: none */
    uint64_t lost_ms;   /* its answer was lost, and it was first sent at this time; 0: it is new */
    uint64_t answering; /* inside send(): the number of the message that is being answered */
};

/* The request to be answered, and the shape of the answer. */
struct mcp_origin {
    json_t *id;
    bool is_modern;
    uint64_t sequence, lost_ms; /* the peer's values when the message arrived */
};

/* A request while it is dispatched; all members are borrowed. */
struct mcp_request {
    struct mcp_peer *peer;
    struct mcp_origin origin;
    const char *method;
    json_t *params; /* an object, or NULL */
    uint64_t now_ms;
};

enum mcp_work_kind { WORK_CALL, WORK_LIST, WORK_READ };

#define MCP_TAIL_SIZE 201 /* of the last printed line, with its NUL */

struct mcp_work {
    struct mcp_work *next;
    struct mcp_peer *peer;
    enum mcp_work_kind kind;
    struct mcp_origin origin; /* owns its id */
    void *attached;
    json_t *progress_token; /* NULL: the client wants no progress */
    uint64_t began_ms, due_ms;
    int64_t progress; /* last value sent */
    char tail[MCP_TAIL_SIZE];
    char *uri; /* WORK_READ: as requested */
    /* WORK_CALL after its reply: pictures are fetched one by one */
    struct mcp_content *content;
    char session[MCP_SESSION_SIZE];
    bool has_session; /* WORK_CALL: the call named a session itself */
};

/* peer.c */
void mcp_send_result(struct mcp_peer *peer, const struct mcp_origin *origin, json_t *result);
/* With ttlMs and cacheScope, if the era has them; ttl 0: private. */
void mcp_send_cached(struct mcp_peer *peer, const struct mcp_origin *origin, json_t *result,
                     long ttl_ms);
void mcp_send_error(struct mcp_peer *peer, const struct mcp_origin *origin, enum mcp_code code,
                    json_t *data, const char *format, ...) __attribute__((format(printf, 5, 6)));
void mcp_send_notice(struct mcp_peer *peer, const char *method, json_t *params);
/* A parsed message of any shape; the second half of mcp_peer_message(). */
void mcp_peer_take(struct mcp_peer *peer, json_t *message, uint64_t now_ms);
json_t *mcp_error_json(json_t *id, enum mcp_code code, json_t *data, const char *text);
/* The string value of a member; NULL: missing, not a string, or with a NUL. */
const char *mcp_text(json_t *object, const char *name);

/* raw_id.c: the id of a message that cannot be parsed, as a new reference; NULL: unreadable. */
json_t *mcp_raw_id(const char *text, size_t length);

/* work.c */
struct mcp_work *mcp_work_new(const struct mcp_request *request, enum mcp_work_kind kind);
void mcp_work_free(struct mcp_work *work); /* removes it from its peer's list */
void mcp_work_cancel(struct mcp_peer *peer, json_t *id);

/*
 * tools.c: the list with `session` in every schema; is_stateless: no conversation is kept. NULL
 * with err on bad schemas or no memory.
 */
json_t *mcp_tools_build(const struct mcp_settings *settings, bool is_stateless, struct error *err);
void mcp_tools_list(struct mcp_request *request);
void mcp_tools_call(struct mcp_request *request);
void mcp_call_read(struct mcp_work *work, enum mcp_read_kind kind, const void *data, size_t length);

/* methods.c */
extern const char *const mcp_legacy_versions[]; /* NULL-terminated */
bool mcp_is_legacy(const char *version);
void mcp_discover(struct mcp_request *request);
void mcp_initialize(struct mcp_request *request);
void mcp_ping(struct mcp_request *request);
void mcp_set_level(struct mcp_request *request);
void mcp_prompts_list(struct mcp_request *request);
void mcp_prompts_get(struct mcp_request *request);
void mcp_complete(struct mcp_request *request);

/* resources.c */
void mcp_resources_list(struct mcp_request *request);
void mcp_templates_list(struct mcp_request *request);
void mcp_resources_read(struct mcp_request *request);
void mcp_resource_done(struct mcp_work *work, enum mcp_read_kind kind, const void *data,
                       size_t length);

/* uri.c */
int mcp_uri_parse(const char *uri, char session[MCP_SESSION_SIZE], char path[LIMIT_PATH_BYTES + 1]);
int mcp_uri_write(struct buf *uri, const char *session, const char *path);
const char *mcp_mime(const char *name); /* by its extension; never NULL */

/* values.c: the values of a cell, from execution_cell_json(); NULL: none */
int mcp_values_text(json_t *cell, struct buf *text);
/* Appends pictures as far as they fit; returns how many did not. */
size_t mcp_values_pictures(json_t *cell, json_t *blocks, size_t *count, size_t *length);
json_t *mcp_values_within(json_t *results); /* new reference: without pictures, and bounded */

/* reply_text.c */
int mcp_append_clean(struct buf *text, json_t *value); /* without NULs, which clients do not show */
int mcp_end_line(struct buf *text);

/* What a reply has to say about its session, and nothing else. */
struct mcp_view {
    const char *session; /* that the call was in; NULL: none */
    bool names_session;  /* no conversation is kept, so later calls need the id */
    bool is_own;         /* calls that name no session are in it: "3" is enough for s_1.3 */
};

/* content.c: a tool's reply as content blocks. */
struct mcp_content;
int mcp_content_new(const struct mcp_view *view, const struct tool_reply *reply, bool is_structured,
                    struct mcp_content **ret);
void mcp_content_freep(struct mcp_content **content);
/* The path of the next picture to fetch, and its maximum size; NULL: none. */
const char *mcp_content_wants(struct mcp_content *content, size_t *ret_maximum);
void mcp_content_picture(struct mcp_content *content, const void *data, size_t length);
/* The whole result; has_links: the era knows resource_link. NULL: no memory. */
json_t *mcp_content_result(struct mcp_content *content, bool has_links);
/* An error result with one text. */
json_t *mcp_content_refusal(const char *text);

/* reply_text.c: the text of block 1. */
int mcp_reply_text(const struct tool_reply *reply, const struct mcp_view *view, struct buf *text);
bool mcp_reply_is_error(const struct tool_reply *reply);

#endif
