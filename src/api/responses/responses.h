/*
 * responses.h - the door POST /v1/responses and what belongs to it: OpenAI's Responses API over a
 * model server of Chat Completions. Shared by its files only.
 *
 * Theory of operation. request.c checks a body and makes of it a `struct order`: the response
 * object that is echoed, the messages for the model, the tools. create.c starts an agent
 * (agent/agent.h) for it and a `struct response`, which events.c fills with items while the agent's
 * events come; the same events are a stream's, if the client reads one. store.c keeps responses in
 * the index, with what GET, DELETE and previous_response_id need. Items are kept with members of
 * our own that begin with "_" (what the model read, ids of pictures); render.c makes of them what
 * this client asked for, with links that work for a time.
 *
 * A response lives until it is over and no client reads it. One thread, never blocks except for the
 * index.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_RESPONSES_RESPONSES_H
#define BAILEY_API_RESPONSES_RESPONSES_H

#include "agent/agent.h"
#include "api/front/door.h"
#include "api/front/reply.h"
#include "api/openai_error.h"
#include "base/buf.h"

struct responses { /* the door */
    struct front *front;
    struct response *active; /* under way, or being read */
    unsigned count;
};

struct order {
    json_t *base;      /* the response object, without output and usage */
    json_t *input;     /* items of this request, with ids */
    json_t *messages;  /* for the model */
    json_t *functions; /* in the shape of Chat Completions */
    json_t *choice, *options;
    bool has_code, has_outputs; /* has_outputs: `include` asks for them */
    bool is_stream, is_background, is_stored;
    json_int_t max_tokens, max_calls;
    struct agent_place place;
    json_t *names; /* of place.file_ids: id to name in the container */
    json_t *taken; /* those names, for container_fill_name() */
    char previous[ID_MAX];
    size_t earlier;    /* bytes of the responses before */
    const char *param; /* of an error: the member that is wrong; static or in `param_text` */
    char param_text[128];
};
void order_free(struct order *order);
/* Errors: bad_input and the like, with order->param; `body` is borrowed. */
int order_read(struct door_call *call, json_t *body, struct order *order, struct error *err);
/* An uploaded file goes into the container, once; order->param is set before. */
int order_add_file(struct door_call *call, struct order *order, const char *id, struct error *err);
/*
 * files.c: the files that new items have: into the container, where code can be run, else into the
 * message itself. Replaces the parts.
 */
int input_files(struct door_call *call, struct order *order, json_t *items, struct error *err);
/* input.c: items into messages, appended; order->param on errors. */
int input_add(struct order *order, json_t *messages, json_t *items, struct error *err);
/* The `input` of a request as an array of items with ids. */
int input_items(struct order *order, json_t *input, json_t **ret, struct error *err);

/* An event of a stream that is to be sent. */
struct response_event {
    struct response_event *next;
    struct buf text;
};

struct response {
    struct response *next;
    struct responses *door;
    struct caller caller;
    struct agent *agent;       /* NULL: it is over */
    struct http_request *http; /* that waits for its reply; NULL: none, or it is a stream */
    bool is_streaming, is_background, is_stored, has_outputs;
    bool is_over;
    bool has_begun; /* the reply's head may be sent */
    char base[320]; /* of links: "https://host:port" */
    char id[ID_MAX];
    uint64_t created_ms;
    json_t *object; /* the response object; its `output` is `items` */
    json_t *items;
    json_t *input;
    json_t *files;   /* what code wrote and no message has named yet */
    json_t *open;    /* the item that is under way; borrowed from items; NULL: none */
    struct buf text; /* of an open message, or function call */
    json_int_t sequence;
    char container[ID_MAX];
    size_t logs;           /* bytes of its code's output */
    size_t held;           /* bytes that it counts for in memory (base/held.h) */
    uint64_t stored_bytes; /* counted in the tenant's quota */
    bool was_stored;

    /* a stream */
    struct front_stream stream;
    struct response_event *events, *last;
    size_t unread;
    bool is_paused, has_reader;
};

/* ---- events.c ---- */
extern const struct agent_events response_agent_events; /* ctx: struct response */
void response_emit(struct response *response, const char *type, json_t *event); /* takes it over */
/* It ends with this status: closes what is open, stores and sends the last event. */
void response_finish(struct response *response, const char *status, const struct agent_ending *why);

/* ---- create.c ---- */
void responses_create(struct door_call *call);
void response_free(struct response *response); /* when nothing needs it any more */
/* It failed before the model server had begun: an error of HTTP. */
void response_refused(struct response *response, const struct agent_ending *why);
/* Ends its agent; not to be called in a callback of that. It may be freed afterwards. */
void response_cancel(struct response *response);
struct response *response_find(struct responses *door, const char *tenant, const char *id);

/* ---- render.c ---- */
/* The response object, or an item, as this client sees it; new reference or NULL. */
json_t *render_response(struct front *front, json_t *object, bool has_outputs, const char *base);
json_t *render_item(struct front *front, json_t *item, bool has_outputs, const char *base);
void render_base(const struct door_call *call, char *ret, size_t size);

/* ---- store.c ---- */
int responses_store_open(struct responses *door, struct error *err);
int response_store(struct response *response, struct error *err);
/*
 * New references. *room: bytes that it may have at most, less by them afterwards. -ENOENT:
 * response_not_found; -EFBIG: no room.
 */
int response_load(struct responses *door, const char *tenant, const char *id, size_t *room,
                  json_t **ret_object, json_t **ret_input, struct error *err);
/* The items that `items` only name ({"type":"item_reference","id"}) take the place of the names.
 * order->param on errors. */
int response_resolve(struct door_call *call, struct order *order, json_t *items, struct error *err);
int response_drop(struct front *front, const char *tenant, const char *id, struct error *err);

/* ---- stored.c: routes of one response ---- */
void responses_get(struct door_call *call);
void responses_delete(struct door_call *call);
void responses_cancel(struct door_call *call);
void responses_input_items(struct door_call *call);

#endif
