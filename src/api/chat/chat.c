/* chat.c - POST /v1/chat: the life of a message, from its request to its end; see chat.h. */
#include "api/chat/chat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/str.h"
#include "config/config.h"

#define STREAM_MAX (64 * MIB)

void chat_free(struct chat *chat)
{
    LIST_UNLINK(chat->door->active, chat);
    session_manager_release(chat->front->manager, chat->caller.who.tenant, chat->held);
    container_job_cancel(chat->job);
    agent_end(chat->agent);
    chat->front->reactor->ops->timer_remove(chat->timer);
    json_decref(chat->body);
    json_decref(chat->files);
    json_decref(chat->paths);
    json_decref(chat->messages);
    json_decref(chat->log);
    clean_free(&chat->clean);
    buf_free(&chat->content);
    free(chat);
}

void chat_leave(struct chat *chat)
{
    chat->is_gone = true;
    container_job_cancel(ptr_take(&chat->job));
    agent_end(ptr_take(&chat->agent));
    chat->front->reactor->ops->timer_set(chat->timer, 0);
}

/* The client left; of a stream, it may also have read all of it. */
static void on_gone(void *ctx)
{
    chat_leave(ctx);
}

static void on_time(void *ctx)
{
    chat_free(ctx);
}

/* Events are appended when they come; the client has read all that there were. */
static void on_fill(void *ctx)
{
    struct chat *chat = ctx;

    if (!chat->is_paused)
        return;
    chat->is_paused = false;
    if (chat->agent)
        agent_pause(chat->agent, false);
}

int chat_hold(struct chat *chat, size_t bytes, struct error *err)
{
    struct session_manager *manager = chat->front->manager;
    int r = bytes > chat->held
                ? session_manager_hold(manager, chat->caller.who.tenant, bytes - chat->held, err)
                : 0;

    if (r < 0)
        return r;
    if (bytes < chat->held)
        session_manager_release(manager, chat->caller.who.tenant, chat->held - bytes);
    chat->held = bytes;
    return 0;
}

void chat_fail(struct chat *chat, const struct error *err)
{
    struct error told = *err;

    if (chat->has_stream) {
        chat_event(chat, "error",
                   json_pack("{s:s, s:s}", "code", told.code ? told.code : ERROR_ENGINE, "message",
                             told.text));
        if (!chat->is_gone) {
            chat->stream.is_over = true;
            http_reply_more(chat->stream.http);
        }
        return; /* on_gone() follows */
    }
    http_on_gone(chat->http, NULL, NULL);
    front_fail(chat->front, chat->http, &told, NULL);
    chat_leave(chat);
}

/* ---- the agent ---- */

static json_t *options_of(const struct chat *chat)
{
    const struct config *config = session_manager_config(chat->front->manager);
    const char *model = json_string_value(json_object_get(chat->body, "model"));

    if (!model)
        model = config->upstream.model ? config->upstream.model : "default";
    return json_pack("{s:s}", "model", model);
}

static void start_agent(struct chat *chat)
{
    struct agent_spec spec = {
        .manager = chat->front->manager,
        .reactor = chat->front->reactor,
        .link = chat->front->info.upstream,
        .caller = &chat->caller,
        .has_code = true,
    };
    struct error err = {0};

    chat->messages = chat_messages(chat);
    spec.messages = json_incref(chat->messages);
    spec.options = options_of(chat);
    if (!spec.messages || !spec.options) {
        json_decref(spec.messages);
        json_decref(spec.options);
        error_memory(&err);
        chat_fail(chat, &err);
        return;
    }
    str_copy(spec.place.container, sizeof(spec.place.container), chat->row.id);
    str_copy(spec.place.session, sizeof(spec.place.session), chat->row.session);
    chat->started_ms = clock_wall_ms();
    if (agent_start(&spec, &chat_agent_events, chat, &chat->agent, &err) < 0)
        chat_fail(chat, &err);
}

/* Files that others changed meanwhile are not this answer's. */
static void on_looked(void *ctx, const struct container_file *files, size_t count,
                      const struct error *err)
{
    struct chat *chat = ctx;

    (void)files;
    (void)count;
    chat->job = NULL;
    if (err->num < 0)
        chat_fail(chat, err);
    else
        start_agent(chat);
}

void chat_start(struct chat *chat)
{
    struct error err = {0};

    if (container_look(chat->front->manager, &chat->row, UINT64_MAX, on_looked, chat, &chat->job,
                       &err) < 0)
        chat_fail(chat, &err);
}

/* ---- the request ---- */

static struct chat *chat_new(struct door_call *call)
{
    struct chats *door = call->door;
    struct chat *chat = calloc(1, sizeof(*chat));
    const char *accept = http_header(call->http, "Accept");

    if (!chat)
        return NULL;
    *chat = (struct chat){
        .door = door,
        .front = call->front,
        .http = call->http,
        .caller = call->caller,
        .body = json_incref(call->body),
        .files = json_incref(json_object_get(call->body, "files")),
        .paths = json_array(),
        .log = json_array(),
        .clean = CLEAN_INIT,
        .content = BUF_INIT(LIMIT_AGENT_TEXT),
        .is_verbose = json_is_true(json_object_get(call->body, "verbose")),
        .is_streaming = (accept && strstr(accept, TYPE_EVENTS)) ||
                        json_is_true(json_object_get(call->body, "stream")),
        .stream = {.http = call->http,
                   .text = BUF_INIT(STREAM_MAX),
                   .fill = on_fill,
                   .freed = on_gone,
                   .ctx = chat},
    };
    chat->timer = reactor_timer(call->front->reactor, on_time, chat);
    chat->next = door->active;
    door->active = chat;
    return chat;
}

void chat_answer(struct door_call *call)
{
    struct chat *chat = chat_new(call);
    struct error err = {0};

    if (!chat || !chat->timer || !chat->paths || !chat->log) {
        front_fail_memory(call->http);
        if (chat)
            chat_free(chat);
        return;
    }
    /* The stream's head would end the count of the body, which is kept. */
    if (chat_hold(chat, MIN(http_body_take(call->http), (size_t)(LIMIT_HELD_TENANT - MIB)), &err) <
        0) {
        chat_fail(chat, &err);
        return;
    }
    if (!chat_prepare(chat, call))
        return;
    http_on_gone(call->http, on_gone, chat);
    chat_put_next(chat);
}
