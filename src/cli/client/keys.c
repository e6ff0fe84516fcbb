/* keys.c - see keys.h. */
#include "cli/client/keys.h"

enum keys_wish keys_feed(struct keys *keys, const char *data, size_t length, struct buf *to)
{
    static const char escape = KEY_ESCAPE;

    for (size_t i = 0; i < length; i++) {
        if (!keys->is_escaped) {
            keys->is_escaped = data[i] == KEY_ESCAPE;
            if (!keys->is_escaped)
                buf_append(to, &data[i], 1);
            continue;
        }
        keys->is_escaped = false;
        if (data[i] == 'd')
            return KEYS_DETACH;
        if (data[i] == 'k')
            return KEYS_KILL;
        buf_append(to, &escape, 1);
        if (data[i] != KEY_ESCAPE)
            buf_append(to, &data[i], 1);
    }
    return KEYS_NONE;
}
