/* base64.c - bytes as base64 (RFC 4648, with padding) for pictures and binary resources. */
#include "api/mcp/inside.h"

int mcp_base64(struct buf *to, const void *data, size_t length)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *bytes = data;
    char piece[4 * 256];
    size_t have = 0;
    int failed;

    for (size_t at = 0; at < length; at += 3) {
        size_t left = length - at;
        unsigned word = (unsigned)bytes[at] << 16;

        if (left > 1)
            word |= (unsigned)bytes[at + 1] << 8;
        if (left > 2)
            word |= bytes[at + 2];
        piece[have++] = digits[word >> 18];
        piece[have++] = digits[word >> 12 & 63];
        piece[have++] = left > 1 ? digits[word >> 6 & 63] : '=';
        piece[have++] = left > 2 ? digits[word & 63] : '=';
        if (have == sizeof(piece)) {
            failed = buf_append(to, piece, have);
            if (failed < 0)
                return failed;
            have = 0;
        }
    }
    return buf_append(to, piece, have);
}
