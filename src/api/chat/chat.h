/*
 * chat.h - what the files of this door share: one message that is being answered.
 *
 * Theory of operation. A message is answered in steps: its session is found or made (a container,
 * session/container.h), its files are put there one by one, the container is looked at, the agent
 * (agent/agent.h) runs with what was said before, the container is looked at again for what the
 * code changed, and the reply is sent. The client sees text, code and outputs as they come, if it
 * reads events. What was said is stored when the answer is complete. A client that leaves ends all
 * of it: the code is interrupted, and the message was never said.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_CHAT_CHAT_H
#define BAILEY_API_CHAT_CHAT_H

#include <jansson.h>

#include "agent/agent.h"
#include "api/chat/clean.h"
#include "api/front/door.h"
#include "api/front/reply.h"
#include "session/container.h"
#include "session/upload.h"

struct chats { /* the door */
    struct front *front;
    struct chat *active;
};

struct chat {
    struct chat *next;
    struct chats *door;
    struct front *front;
    struct http_request *http; /* until its reply has begun as a stream, or was sent */
    struct caller caller;
    struct container_row row;
    struct container_job *job; /* NULL: none is under way */
    struct agent *agent;

    json_t *body;
    size_t held;      /* bytes of it that count (base/held.h) */
    size_t log_bytes; /* of what the code showed */
    bool is_paused;   /* its client reads slowly: the model waits */
    json_t *files;    /* of the body: still to be put */
    size_t file_at;
    json_t *paths; /* of files that were put */

    json_t *messages; /* all that the agent is given, and what it adds */
    size_t first;     /* index of this message in them */
    uint64_t started_ms;
    struct clean clean;
    struct buf content; /* the answer so far, without what cannot be opened */
    bool has_gap;       /* code ran since the last text */
    json_t *log;        /* code_log */
    const char *note;   /* static; NULL: none */
    struct agent_ending ending;

    bool is_verbose, is_streaming, has_stream;
    bool is_gone;                /* its client left, or has all of it: freed in a turn of its own */
    struct reactor_timer *timer; /* for that */
    struct front_stream stream;
};

/* ---- chat.c ---- */
int chat_hold(struct chat *chat, size_t bytes, struct error *err); /* in place of what it held */
void chat_answer(struct door_call *call);                          /* the handler */
void chat_start(struct chat *chat);                                /* its files are there */
void chat_fail(struct chat *chat, const struct error *err);        /* answers and leaves */
void chat_free(struct chat *chat);
/* Nothing goes on; it is freed soon. Callers may still look at is_gone. */
void chat_leave(struct chat *chat);

/* ---- prepare.c ---- */
/* The session, and what is to be put there; false: the request was answered. */
bool chat_prepare(struct chat *chat, struct door_call *call);
void chat_put_next(struct chat *chat); /* calls chat_start() when all files are there */

/* ---- answer.c: events of the agent, and the reply ---- */
extern const struct agent_events chat_agent_events;
void chat_event(struct chat *chat, const char *name, json_t *data); /* takes it over */

/* ---- history.c ---- */
/* System prompt, what was said before, this message; NULL: no memory. */
json_t *chat_messages(struct chat *chat);
/* Stores what was said, without the system prompt and within LIMIT_CHAT_HISTORY. */
void chat_remember(struct chat *chat);

#endif
