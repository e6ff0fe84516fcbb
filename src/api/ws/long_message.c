/*
 * long_message.c - a long message is read by a thread, as long bodies are (http/prepare.c): 15 MiB
 * of JSON would keep the loop for 50 ms. Its connection is not read meanwhile, so that messages
 * keep their order; those that wslay had read together with its last bytes wait here.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/ws/ws_private.h"
#include "base/cleanup.h"
#include "base/worker.h"
#include "model/text.h"

#define READ_AT_ONCE (256 * KIB)

#define BEHIND_MAX (64 * KIB) /* wslay reads 4 KiB at a time */

struct ws_long_message {
    struct ws_peer *peer; /* NULL: it is gone */
    struct buf text;
    json_t *body;
    struct schema_problem problem;
    struct buf behind; /* messages, each with its length in front */
};

static void go_on(struct ws_peer *peer, const struct ws_long_message *message)
{
    const char *at = buf_text(&message->behind), *end = at + message->behind.length;
    uint32_t length;

    while (at < end) {
        memcpy(&length, at, sizeof(length));
        at += sizeof(length);
        ws_message(peer, at, length);
        at += length;
    }
}

static void read_it(void *ctx)
{
    struct ws_long_message *message = ctx;

    message->body = json_read(buf_text(&message->text), message->text.length, &message->problem);
    buf_free(&message->text);
}

static void on_read(void *ctx)
{
    struct ws_long_message *message = ctx;
    struct ws_peer *peer = message->peer;

    if (peer) {
        peer->long_message = NULL;
        peer->long_bytes = 0;
        auth_speak(&peer->caller, peer->session);
        ws_dispatch(peer, message->body, &message->problem);
        go_on(peer, message);
        auth_leave();
        ws_listen(peer);
    }
    json_decref(message->body);
    buf_free(&message->text);
    buf_free(&message->behind);
    free(message);
}

static void keep_behind(struct ws_peer *peer, const char *text, size_t length)
{
    struct buf *behind = &peer->long_message->behind;
    uint32_t size = (uint32_t)length;

    if (buf_append(behind, &size, sizeof(size)) < 0 || buf_append(behind, text, length) < 0)
        websocket_close(peer->socket, 1011, "out of memory");
}

bool ws_read_long(struct ws_peer *peer, const char *text, size_t length)
{
    struct ws_long_message *message;

    if (peer->long_message) {
        keep_behind(peer, text, length);
        return true;
    }
    message = length > READ_AT_ONCE ? calloc(1, sizeof(*message)) : NULL;
    if (!message)
        return false;
    message->peer = peer;
    message->behind = BUF_INIT(BEHIND_MAX);
    websocket_message_take(peer->socket, &message->text);
    if (!worker_do(peer->schemas->worker, read_it, on_read, message)) {
        buf_free(&message->text);
        free(message);
        websocket_close(peer->socket, 1011, "out of memory");
        return true;
    }
    peer->long_message = message;
    peer->long_bytes = length;
    ws_listen(peer);
    return true;
}

void ws_long_leave(struct ws_peer *peer)
{
    if (peer->long_message)
        peer->long_message->peer = NULL;
    peer->long_message = NULL;
}
