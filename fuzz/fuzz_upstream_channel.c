/* fuzz_upstream_channel.c - a hostile packet between the broker and the process `upstream`. */
#include <stdint.h>
#include <stdlib.h>

#include "upstream/channel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (int is_broker = 0; is_broker < 2; is_broker++) {
        struct upstream_message message;

        if (upstream_channel_unpack(data, size, is_broker, &message) < 0)
            continue;
        if ((const uint8_t *)message.data + message.length != data + size ||
            (message.type >= CHANNEL_BEGUN) != is_broker)
            abort();
    }
    return 0;
}
