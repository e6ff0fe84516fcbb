/* decode.c - see decode.h. */
#include "cli/client/decode.h"

#include <errno.h>
#include <stdbool.h>

static int digit(char letter)
{
    if (letter >= 'A' && letter <= 'Z')
        return letter - 'A';
    if (letter >= 'a' && letter <= 'z')
        return letter - 'a' + 26;
    if (letter >= '0' && letter <= '9')
        return letter - '0' + 52;
    if (letter == '+')
        return 62;
    return letter == '/' ? 63 : -1;
}

int decode_base64(const char *text, size_t length, struct buf *to)
{
    if (length % 4 != 0)
        return -EINVAL;
    for (size_t i = 0; i < length; i += 4) {
        bool is_last = i + 4 == length;
        unsigned padding = is_last ? (text[i + 3] == '=') + (text[i + 2] == '=') : 0;
        unsigned bits = 0;
        char bytes[3];
        int result;

        if (text[i + 2] == '=' && text[i + 3] != '=')
            return -EINVAL;
        for (unsigned j = 0; j < 4; j++) {
            int value = j >= 4 - padding ? 0 : digit(text[i + j]);

            if (value < 0)
                return -EINVAL;
            bits = bits << 6 | (unsigned)value;
        }
        bytes[0] = (char)(bits >> 16);
        bytes[1] = (char)(bits >> 8);
        bytes[2] = (char)bits;
        result = buf_append(to, bytes, 3 - padding);
        if (result < 0)
            return result;
    }
    return 0;
}
