/*
 * fuzz_launcher.c - any bytes as a message between broker and launcher: refused, or one that packs
 * to the same bytes again, with keys and words that can be used as they are.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/isolation.h"
#include "launcher/protocol.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
    if (!is_true)
        abort();
}

static void check_key(const char *key)
{
    size_t length = strnlen(key, ID_MAX);

    check(length > 0 && length < ID_MAX);
    check(strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_") == length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t packed[LAUNCHER_MESSAGE_MAX];
    struct launcher_message message;
    long length;

    if (launcher_message_unpack(data, size, &message) < 0)
        return 0;
    if (message.type == LAUNCHER_MAKE)
        check_key(message.make.key);
    if (message.type == LAUNCHER_BOX || message.type == LAUNCHER_MADE)
        check_key(message.box.key);
    if (message.type == LAUNCHER_REFUSED) {
        check(message.refused.error.num < 0 && message.refused.error.code != NULL);
        check(strlen(message.refused.error.text) < ERROR_TEXT_MAX);
    }
    length = launcher_message_pack(&message, packed, sizeof(packed));
    check(length == (long)size && memcmp(packed, data, size) == 0);
    return 0;
}
