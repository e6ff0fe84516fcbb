/*
 * mcp_http_private.h - the structs of MCP's HTTP transport, for its files only.
 *
 * Theory of operation. Each POST of a request is a stream with its own peer (mcp.h): the peer's
 * messages belong to that POST only. The stream is answered with plain JSON if the answer is its
 * first message, and becomes server-sent events if another message comes first or the answer takes
 * long. A legacy stream belongs to a dialog (an Mcp-Session-Id); its events are numbered and
 * stored, and its client may leave and request the rest with Last-Event-ID. A modern stream belongs
 * to no dialog: a client that leaves has cancelled it.
 *
 * A peer must not be freed inside its own callback (send), and the reader of a stream may vanish
 * inside it: so both only set a mark, and the door's timer (sweep) does the rest.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_API_MCP_MCP_HTTP_PRIVATE_H
#define BAILEY_API_MCP_MCP_HTTP_PRIVATE_H

#include "api/mcp/mcp_http.h"
#include "api/mcp/mcp_private.h"
#include "base/id.h"
#include "model/caller.h"

/* One event as it is sent. */
struct mcp_event {
    struct mcp_event *next;
    uint64_t number;
    size_t length;
    char text[];
};

/* A reply that shows a stream; it may outlive the stream. */
struct mcp_reader {
    struct mcp_stream *stream; /* NULL: nothing more follows */
    struct http_request *http;
};

struct mcp_stream {
    struct mcp_stream *next;
    struct mcp_stream *
        *home; /* the list that contains it: the door's, or the stored ones of its dialog */
    struct mcp_http *door;
    struct mcp_dialog *dialog; /* NULL: modern */
    struct mcp_asker asker;
    char pinned[LIMIT_NAME + 1]; /* the session that the request's address or header names */
    struct mcp_peer *peer;       /* NULL: of a GET, or no longer needed */
    struct http_request
        *http; /* waits for its first message; NULL: it was answered, or the client left */
    struct mcp_reader *reader; /* NULL: no reader */
    uint64_t number;           /* number in its dialog */
    struct mcp_event *events, *last;
    struct mcp_event *at; /* the next event to send, from `offset` on */
    size_t offset;
    uint64_t event_count;
    size_t bytes;       /* size of its events */
    uint64_t opened_ms; /* start time */
    uint64_t beat_ms;   /* when a keep-alive comment is due */
    bool takes_json, takes_events;
    bool opens_dialog; /* initialize: the answer carries the dialog's id */
    bool is_over;      /* no message follows */
    bool has_failed;   /* the last message is an error */
    bool was_shown;    /* as events: its client knows ids to resume with */
    bool is_left;      /* its client left before the end */
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
    uint64_t stream_count;   /* number of streams ever created */
    size_t live_count;       /* its streams in the door's list */
    struct mcp_stream *kept; /* finished streams that may be requested again, newest first */
    size_t kept_count;
    size_t bytes; /* of events, live and stored */
};

struct mcp_http {
    struct mcp_http_spec spec;
    struct mcp_dialog *dialogs;
    size_t dialog_count;
    struct mcp_pipe *pipes;
    struct mcp_stream *streams; /* streams that a client waits for or reads */
    size_t bytes;
    uint64_t expire_ms; /* when conversations are checked again */
    struct reactor_timer *timer;
    bool is_due;     /* the sweep has work to do */
    bool is_closing; /* requests must not be touched any more */
};

/* ---- http_check.c: headers, pure ---- */

struct mcp_headers {
    const char *version, *method, *name; /* NULL: not given */
};
#define MCP_HEADER_MAX 128 /* limit of short values (a version, an id), with the NUL */
/* Without surrounding blanks, which HTTP ignores, and cut to `size`; NULL: not given. */
const char *mcp_header_value(const char *value, char *to, size_t size);
/* Whether a reply of this type is accepted; NULL: every type is. */
bool mcp_accepts(const char *accept, const char *type);
bool mcp_is_json_type(const char *type);
/* Whether the message belongs to 2026-07-28. */
bool mcp_is_modern_post(json_t *message, const char *version);
/* Checks the headers of a modern request: an error code with `why`, or 0. */
int mcp_check_headers(json_t *message, const struct mcp_headers *headers, char *why, size_t size);
/* "7-12" of this dialog's streams; false: not such an id. */
bool mcp_event_id(const char *text, uint64_t *ret_stream, uint64_t *ret_event);

/* ---- http_stream.c ---- */

/* NULL: no memory. Takes over the request: no other code may answer it. */
struct mcp_stream *mcp_stream_new(struct mcp_http *door, struct mcp_dialog *dialog,
                                  const struct caller *caller, struct http_request *http);
void mcp_stream_free(struct mcp_stream *stream);
/* One message of its peer; `kind` as in mcp_ops. */
void mcp_stream_send(void *ctx, const char *message, size_t length, int kind);
/* Replies with the events after number `after`; -1: all of them. */
void mcp_stream_show(struct mcp_stream *stream, struct http_request *http, int64_t after);
/* Whether all events after this one are still stored. */
bool mcp_stream_has(const struct mcp_stream *stream, uint64_t after);
/* Moves it to another list. */
void mcp_stream_move(struct mcp_stream *stream, struct mcp_stream **home);
/* Does what is due at this time; false: it was freed, or is over. */
bool mcp_stream_tick(struct mcp_stream *stream, uint64_t now_ms);
extern const struct mcp_ops mcp_stream_ops;

/* ---- http_dialog.c ---- */

/* With a new id; errors have a status for HTTP. */
int mcp_dialog_new(struct mcp_http *door, const struct caller *caller, struct mcp_dialog **ret,
                   unsigned *ret_status, struct error *err);
/* caller NULL: not requested by a client. */
void mcp_dialog_end(struct mcp_http *door, struct mcp_dialog *dialog, const struct caller *caller);
/* NULL: unknown, or of another key. */
struct mcp_dialog *mcp_dialog_find(struct mcp_http *door, const struct principal *who,
                                   const char *id);
struct mcp_stream *mcp_dialog_stream(struct mcp_http *door, const struct mcp_dialog *dialog,
                                     uint64_t number); /* NULL: not stored */
/* Makes room: the oldest stored answers are dropped. */
void mcp_dialog_trim(struct mcp_http *door, struct mcp_dialog *dialog);
void mcp_dialogs_expire(struct mcp_http *door, uint64_t now_ms);

/* ---- pipe.c ---- */

/* Turns the request into a connection of `bailey mcp`, or refuses it. */
void mcp_pipe_open(struct mcp_http *door, struct http_request *http, const struct caller *caller);
void mcp_pipes_free(struct mcp_http *door); /* running commands are not ended */

/* ---- http.c ---- */

void mcp_door_wake(struct mcp_http *door); /* runs the sweep at once */
/* A JSON-RPC error as a whole reply; `id` may be NULL; headers: the same with these. */
void mcp_refuse(struct http_request *http, unsigned status, json_t *id, int code,
                const char *header, const char *format, ...) __attribute__((format(printf, 6, 7)));

#endif
