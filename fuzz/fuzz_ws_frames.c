/*
 * fuzz_ws_frames.c - a hostile WebSocket client: any pieces give the same messages and the same
 * answer, and memory stays bounded. The first byte says when the owner sends, holds and closes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "http/ws_frames.h"

#define MESSAGE_MAX 4096
#define HEARD_MAX (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct owner {
    struct ws_frames *frames;
    struct buf heard, said;
    uint8_t habit;
    unsigned messages;
};

static void on_message(void *ctx, bool is_text, const void *data, size_t length)
{
    struct owner *owner = ctx;

    if (length > MESSAGE_MAX)
        abort();
    owner->messages++;
    buf_append(&owner->heard, is_text ? "t" : "b", 1);
    buf_append(&owner->heard, data, length);
    if (owner->habit & 1)
        ws_frames_send(owner->frames, is_text, data, length);
    if (owner->habit & 2 && owner->messages == 3)
        ws_frames_close(owner->frames, 1000, "enough");
}

/* The answers go out in pieces of their own. */
static void give(struct owner *owner)
{
    char block[61];
    ssize_t count;

    while ((count = ws_frames_give(owner->frames, block, sizeof(block))) > 0)
        buf_append(&owner->said, block, (size_t)count);
    if (count < 0 || ws_frames_wants_give(owner->frames))
        abort();
    /* Behind a close frame wslay keeps answers to pings that it will not send. */
    if (ws_frames_waiting(owner->frames) > 0 && !ws_frames_has_closed(owner->frames))
        abort();
}

static void read_in_steps(struct owner *owner, const uint8_t *data, size_t size, size_t step)
{
    static const struct ws_frames_events events = {.message = on_message};

    owner->frames = ws_frames_new(MESSAGE_MAX, &events, owner);
    if (!owner->frames)
        abort();
    for (size_t at = 0; at < size;) {
        ssize_t count =
            ws_frames_take(owner->frames, data + at, size - at < step ? size - at : step);

        if (count < 0 || (count == 0 && !ws_frames_is_full(owner->frames)))
            abort();
        at += (size_t)count;
        give(owner);
    }
    give(owner);
    ws_frames_free(owner->frames);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct owner whole = {.heard = BUF_INIT(HEARD_MAX), .said = BUF_INIT(HEARD_MAX)};
    struct owner pieces = whole;

    if (size == 0 || size > HEARD_MAX / 16)
        return 0;
    whole.habit = pieces.habit = data[0];
    read_in_steps(&whole, data + 1, size - 1, size);
    read_in_steps(&pieces, data + 1, size - 1, 1);
    if (whole.messages != pieces.messages || whole.heard.length != pieces.heard.length ||
        (whole.heard.length > 0 &&
         memcmp(whole.heard.data, pieces.heard.data, whole.heard.length) != 0))
        abort();
    buf_free(&whole.heard);
    buf_free(&whole.said);
    buf_free(&pieces.heard);
    buf_free(&pieces.said);
    return 0;
}
