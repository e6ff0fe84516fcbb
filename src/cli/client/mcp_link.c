/*
 * mcp_link.c - a WebSocket client; see mcp_link.h and RFC 6455.
 *
 * Frames are masked with a key of zeros: masking protects proxies from pages that choose what a
 * browser sends, and here no page does. Both sides send whole messages in one frame; fragments are
 * refused.
 */
#include "cli/client/mcp_link.h"

#include <errno.h>
#include <jansson.h>
#include <poll.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"

#define HANDSHAKE_MS 30000
#define HEAD_MAX (16 * KIB)
#define READ_STEP (64 * KIB)
#define MESSAGE_MAX (LIMIT_MCP_ANSWER + MIB)
#define FIN 0x80
#define MASKED 0x80

enum opcode { WS_BINARY = 2, WS_CLOSE = 8, WS_PING = 9, WS_PONG = 10 };

void mcp_link_close(struct mcp_link *link)
{
    http_dial_close(link->dial);
    link->dial = NULL;
    link->fd = -1;
    buf_free(&link->in);
    buf_free(&link->out);
    link->done = 0;
}

/* ---- sending ---- */

bool mcp_link_wants_write(const struct mcp_link *link)
{
    return link->out.length > 0;
}

int mcp_link_flush(struct mcp_link *link)
{
    size_t at = 0;
    int r = 0;

    while (at < link->out.length && r == 0) {
        ssize_t count = http_dial_write(link->dial, link->out.data + at, link->out.length - at);

        if (count == -EAGAIN)
            break;
        if (count < 0)
            r = (int)count;
        else
            at += (size_t)count;
    }
    buf_consume(&link->out, at);
    return r;
}

static int append_frame_head(struct buf *out, enum opcode opcode, size_t length)
{
    uint8_t head[14] = {FIN | (uint8_t)opcode};
    size_t size = 2;

    if (length < 126) {
        head[1] = MASKED | (uint8_t)length;
    } else if (length <= UINT16_MAX) {
        head[1] = MASKED | 126;
        head[2] = (uint8_t)(length >> 8);
        head[3] = (uint8_t)length;
        size = 4;
    } else {
        head[1] = MASKED | 127;
        for (int i = 0; i < 8; i++)
            head[2 + i] = (uint8_t)((uint64_t)length >> (56 - 8 * i));
        size = 10;
    }
    return buf_append(out, head, size + 4); /* and the key of zeros */
}

int mcp_link_send(struct mcp_link *link, const char *head, const char *text, size_t length)
{
    size_t before = strlen(head) + 1;
    int r = append_frame_head(&link->out, WS_BINARY, before + length);

    if (r == 0)
        r = buf_append(&link->out, head, before - 1);
    if (r == 0)
        r = buf_append(&link->out, "\n", 1);
    if (r == 0 && length > 0)
        r = buf_append(&link->out, text, length);
    return r < 0 ? r : mcp_link_flush(link);
}

/* ---- receiving ---- */

int mcp_link_receive(struct mcp_link *link)
{
    for (;;) {
        char piece[READ_STEP];
        ssize_t count = http_dial_read(link->dial, piece, sizeof(piece));
        int r;

        if (count == -EAGAIN)
            return 0;
        if (count <= 0)
            return count < 0 ? (int)count : -ECONNRESET;
        r = buf_append(&link->in, piece, (size_t)count);
        if (r < 0)
            return r;
    }
}

/* A frame at the beginning of `in`: the size of its header, or 0: incomplete. */
static size_t frame_head(const struct mcp_link *link, enum opcode *ret_opcode, uint64_t *ret_length)
{
    const uint8_t *data = (const uint8_t *)link->in.data;
    size_t size = 2;

    if (link->in.length < 2)
        return 0;
    *ret_opcode = (enum opcode)(data[0] & 0x0f);
    *ret_length = data[1] & 0x7f;
    if (*ret_length >= 126) {
        size_t bytes = *ret_length == 126 ? 2 : 8;

        if (link->in.length < 2 + bytes)
            return 0;
        *ret_length = 0;
        for (size_t i = 0; i < bytes; i++)
            *ret_length = *ret_length << 8 | data[2 + i];
        size += bytes;
    }
    return size;
}

static int answer_ping(struct mcp_link *link, const char *data, size_t length)
{
    int r = append_frame_head(&link->out, WS_PONG, length);

    if (r == 0)
        r = buf_append(&link->out, data, length);
    return r < 0 ? r : mcp_link_flush(link);
}

int mcp_link_next(struct mcp_link *link, const char **ret_data, size_t *ret_length)
{
    for (;;) {
        enum opcode opcode;
        uint64_t length;
        size_t head;
        int r = 0;

        buf_consume(&link->in, link->done);
        link->done = 0;
        head = frame_head(link, &opcode, &length);
        if (head > 0 && (length > MESSAGE_MAX || !(link->in.data[0] & FIN)))
            return -EPROTO;
        if (head == 0 || link->in.length - head < length)
            return 0;
        link->done = head + (size_t)length;
        *ret_data = link->in.data + head;
        *ret_length = (size_t)length;
        if (opcode == WS_BINARY)
            return 1;
        if (opcode == WS_CLOSE)
            return -ECONNRESET;
        if (opcode == WS_PING)
            r = answer_ping(link, *ret_data, *ret_length);
        if (r < 0 || (opcode != WS_PING && opcode != WS_PONG))
            return r < 0 ? r : -EPROTO;
    }
}

/* ---- opening ---- */

/* The text of a refusal, if its whole body has come. New reference, or NULL. */
static json_t *refusal_text(const struct mcp_link *link, const char *body)
{
    size_t length = link->in.length - (size_t)(body - link->in.data);
    json_t *json = json_loadb(body, length, 0, NULL);
    json_t *text = json_incref(json_object_get(json_object_get(json, "error"), "message"));

    json_decref(json);
    return text;
}

/* The daemon answered with a refusal; 0: its body has not come yet. */
static int take_refusal(struct mcp_link *link, const char *body, bool is_over, struct error *err)
{
    json_t *text = refusal_text(link, body);
    int r = -EPROTO;

    if (json_is_string(text))
        error_set(err, r, ERROR_BAD_INPUT, "%s", json_string_value(text));
    else if (is_over || link->in.length > HEAD_MAX)
        error_set(err, r, ERROR_ENGINE,
                  "the daemon does not take 'bailey mcp' (%.*s): it may be of another version; "
                  "restart it with 'bailey daemon stop'",
                  (int)MIN(link->in.length, (size_t)12), link->in.data);
    else
        r = 0;
    json_decref(text);
    return r;
}

/* Reads up to the blank line after the reply's headers; what follows stays in `in`. */
static int read_answer(struct mcp_link *link, struct error *err)
{
    for (;;) {
        struct pollfd fd = {.fd = link->fd, .events = POLLIN};
        const char *end =
            link->in.length ? memmem(link->in.data, link->in.length, "\r\n\r\n", 4) : NULL;
        int r;

        if (end && link->in.length > 12 && memcmp(link->in.data + 8, " 101", 4) == 0) {
            buf_consume(&link->in, (size_t)(end + 4 - link->in.data));
            return 0;
        }
        if (end || link->in.length > HEAD_MAX) {
            r = take_refusal(link, end ? end + 4 : link->in.data + link->in.length, !end, err);
            if (r < 0)
                return r;
        }
        if (poll(&fd, 1, HANDSHAKE_MS) == 0)
            return error_set(err, -ETIMEDOUT, ERROR_ENGINE, "the daemon does not answer");
        r = mcp_link_receive(link);
        if (r < 0 && end)
            return take_refusal(link, end + 4, true, err);
        if (r < 0)
            return error_set(err, -ECONNRESET, ERROR_ENGINE, "the daemon's broker went away");
    }
}

int mcp_link_open(struct mcp_link *link, struct http_client *client, const char *target,
                  const char *header, struct error *err)
{
    int r;

    *link = (struct mcp_link){
        .fd = -1, .in = BUF_INIT(MESSAGE_MAX + READ_STEP), .out = BUF_INIT(SIZE_MAX / 2)};
    r = http_dial_open(client, &link->dial, err);
    if (r == 0) {
        link->fd = http_dial_fd(link->dial);
        r = buf_printf(&link->out, "GET %s HTTP/1.1\r\n", target);
    }
    if (r == 0)
        r = http_dial_headers(link->dial, &link->out);
    if (r == 0)
        r = buf_printf(&link->out,
                       "Upgrade: websocket\r\nConnection: "
                       "Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "
                       "YmFpbGV5IG1jcCBwaXBlIQ==\r\n%s%s\r\n",
                       header, header[0] ? "\r\n" : "");
    if (r == 0)
        r = mcp_link_flush(link);
    if (r < 0 && err->num == 0)
        error_set(err, r, ERROR_ENGINE, "talking to the daemon: %s", strerror(-r));
    if (r == 0)
        r = read_answer(link, err);
    if (r < 0)
        mcp_link_close(link);
    return r;
}
