/* protocol_key.c - finds the key of a browser's WebSocket among the protocols that it offers. */
#include <string.h>

#include "api/front/auth.h"
#include "base/str.h"
#include "http/ws_handshake.h"

#define PROTOCOL_KEY "bailey.key."

struct wanted_key {
    char *key;
    size_t size;
};

static bool take_key(void *ctx, const char *word, size_t length)
{
    struct wanted_key *wanted = ctx;
    size_t before = strlen(PROTOCOL_KEY);

    if (length <= before || strncmp(word, PROTOCOL_KEY, before) != 0 ||
        length - before >= wanted->size)
        return false;
    str_format(wanted->key, wanted->size, "%.*s", (int)(length - before), word + before);
    return true;
}

bool auth_protocol_key(const char *protocols, char *key, size_t size)
{
    struct wanted_key wanted = {key, size};

    return ws_list_each(protocols, take_key, &wanted);
}
