/*
 * mcp_http_private.h - what the files of MCP's HTTP transport share.
 *
 * Theory of operation. Each POST of a request is a stream with a peer of its own (mcp.h): what the
 * peer says belongs to that POST and nowhere else. The stream is answered with plain JSON when the
 * answer is the first thing that comes, and becomes server-sent events when something else does or
 * when it takes long. A legacy stream belongs to a dialog (an Mcp-Session-Id); its events are
 * numbered and kept, its client may leave and ask for the rest with Last-Event-ID. A modern one
 * belongs to nobody: a client that leaves has cancelled it.
 *
 * A peer must not be freed from inside what it calls (send), and who reads a stream may vanish from
 * inside of that: so both only leave a mark, and the door's timer (sweep) does the rest.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_API_MCP_MCP_HTTP_PRIVATE_H
#define BAILEY_API_MCP_MCP_HTTP_PRIVATE_H

#include "api/mcp/mcp_http.h"
#include "api/mcp/mcp_private.h"
#include "base/id.h"
#include "model/caller.h"

/* One event as it goes over the wire. */
struct mcp_event {
    struct mcp_event *next;
    uint64_t number;
    size_t length;
    char text[];
};

/* A reply that shows a stream; it outlives the stream when that goes first. */
struct mcp_reader {
    struct mcp_stream *stream; /* NULL: nothing more comes */
    struct http_request *http;
};

struct mcp_stream {
    struct mcp_stream *next;
    struct mcp_stream **home; /* the list it is in: the door's, or those its dialog keeps */
    struct mcp_http *door;
    struct mcp_dialog *dialog; /* NULL: modern */
    struct mcp_asker asker;
    struct mcp_peer *peer;     /* NULL: of a GET, or not needed any more */
    struct http_request *http; /* waits for its first word; NULL: it has it, or left */
    struct mcp_reader *reader; /* NULL: nobody reads */
    uint64_t number;           /* in its dialog */
    struct mcp_event *events, *last;
    struct mcp_event *at; /* the next to be sent, from `offset` on */
    size_t offset;
    uint64_t event_count;
    size_t bytes;       /* of its events */
    uint64_t opened_ms; /* when it began */
    uint64_t beat_ms;   /* when a sign of life is due */
    bool takes_json, takes_events;
    bool opens_dialog; /* initialize: the answer carries the dialog's id */
    bool is_over;      /* nothing more is said */
    bool has_failed;   /* what was said last is an error */
    bool was_shown;    /* as events: its client knows ids to ask for */
    bool is_left;      /* its client went away before the end */
    bool wants_beat;
};

/* A legacy conversation. */
struct mcp_dialog {
    struct mcp_dialog *next;
    char id[ID_MAX];
    struct principal who;
    char version[16];
    char own[LIMIT_NAME + 1];
    uint64_t used_ms;
    uint64_t stream_count;   /* that there ever were */
    size_t live_count;       /* of its streams that are in the door's list */
    struct mcp_stream *kept; /* that are over and may be asked for again, newest first */
    size_t kept_count;
    size_t bytes; /* of events, live and kept */
};

struct mcp_http {
    struct mcp_http_spec spec;
    struct mcp_dialog *dialogs;
    size_t dialog_count;
    struct mcp_pipe *pipes;
    struct mcp_stream *streams; /* those that somebody waits for or reads */
    size_t bytes;
    uint64_t expire_ms; /* when conversations are looked at again */
    struct reactor_timer *timer;
    bool is_due;     /* something was left for the sweep */
    bool is_closing; /* no request may be touched any more */
};

/* ---- http_check.c: headers, pure ---- */

struct mcp_headers {
    const char *version, *method, *name; /* NULL: not given */
};
#define MCP_HEADER_MAX 128 /* of those that are short: a version, an id, with its NUL */
/* Without the blanks around it, which HTTP does not count, and cut to `size`; NULL: not given. */
const char *mcp_header_value(const char *value, char *to, size_t size);
/* Whether a reply of this type may be sent; NULL: anything may. */
bool mcp_accepts(const char *accept, const char *type);
bool mcp_is_json_type(const char *type);
/* Whether the message belongs to 2026-07-28. */
bool mcp_is_modern_post(json_t *message, const char *version);
/* What is wrong with the headers of a modern request: a code with `why`, or 0. */
int mcp_check_headers(json_t *message, const struct mcp_headers *headers, char *why, size_t size);
/* "7-12" of this dialog's streams; false: it is no such id. */
bool mcp_event_id(const char *text, uint64_t *ret_stream, uint64_t *ret_event);

/* ---- http_stream.c ---- */

/* NULL: no memory. It takes the request over: nobody else may answer it. */
struct mcp_stream *mcp_stream_new(struct mcp_http *door, struct mcp_dialog *dialog,
                                  const struct caller *caller, struct http_request *http);
void mcp_stream_free(struct mcp_stream *stream);
/* One message of its peer; `kind` as in mcp_ops. */
void mcp_stream_send(void *ctx, const char *message, size_t length, int kind);
/* Answers with the events behind number `after`; -1: all of them. */
void mcp_stream_show(struct mcp_stream *stream, struct http_request *http, int64_t after);
/* Whether everything after this event is still there. */
bool mcp_stream_has(const struct mcp_stream *stream, uint64_t after);
/* Puts it into another list. */
void mcp_stream_move(struct mcp_stream *stream, struct mcp_stream **home);
/* What is due at this time; false: it is gone, or over. */
bool mcp_stream_tick(struct mcp_stream *stream, uint64_t now_ms);
extern const struct mcp_ops mcp_stream_ops;

/* ---- http_dialog.c ---- */

/* With a new id; errors are told with a status for HTTP. */
int mcp_dialog_new(struct mcp_http *door, const struct caller *caller, struct mcp_dialog **ret,
                   unsigned *ret_status, struct error *err);
/* caller NULL: nobody asked for it. */
void mcp_dialog_end(struct mcp_http *door, struct mcp_dialog *dialog, const struct caller *caller);
/* Another key's is as unknown as one that never was: NULL. */
struct mcp_dialog *mcp_dialog_find(struct mcp_http *door, const struct principal *who,
                                   const char *id);
struct mcp_stream *mcp_dialog_stream(struct mcp_http *door, const struct mcp_dialog *dialog,
                                     uint64_t number); /* NULL: not kept */
/* Makes room for what is kept: the oldest answers go. */
void mcp_dialog_trim(struct mcp_http *door, struct mcp_dialog *dialog);
void mcp_dialogs_expire(struct mcp_http *door, uint64_t now_ms);

/* ---- pipe.c ---- */

/* The request becomes a connection of `bailey mcp`, or is refused. */
void mcp_pipe_open(struct mcp_http *door, struct http_request *http, const struct caller *caller);
void mcp_pipes_free(struct mcp_http *door); /* nothing that runs is ended */

/* ---- http.c ---- */

void mcp_door_wake(struct mcp_http *door); /* the sweep comes at once */
/* An error of JSON-RPC as a whole reply; `id` may be NULL; headers: the same plus these. */
void mcp_refuse(struct http_request *http, unsigned status, json_t *id, int code,
                const char *header, const char *format, ...) __attribute__((format(printf, 6, 7)));

#endif
