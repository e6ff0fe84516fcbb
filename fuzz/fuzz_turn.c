/* fuzz_turn.c - a hostile model server: its stream of events, from bytes to an answer. */
#include <stdint.h>
#include <stdlib.h>

#include "agent/turn.h"
#include "base/limits.h"
#include "http/sse.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_event(void *ctx, const char *id, const char *event, const char *data, size_t length)
{
    struct turn *turn = ctx;
    struct error err = {0};

    (void)id;
    (void)event;
    if (turn_event(turn, data, length, &err) < 0 && (err.num >= 0 || !err.text[0]))
        abort();
    if (turn->count > LIMIT_AGENT_CALLS || turn->text.length > LIMIT_AGENT_TEXT)
        abort();
    for (size_t i = 0; i < turn->count; i++)
        if (!turn->calls[i].id[0])
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sse_reader reader = SSE_READER_INIT(1 << 16);
    struct turn turn;

    turn_init(&turn);
    sse_read(&reader, data, size, on_event, &turn);
    sse_reader_free(&reader);
    turn_free(&turn);
    return 0;
}
