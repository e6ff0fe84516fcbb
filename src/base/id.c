/* id.c - random identifiers and names; see id.h. */
#include "base/id.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/limits.h"

#define ID_RANDOM_BYTES 16

int id_make(char text[ID_MAX], const char *prefix)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char bytes[ID_RANDOM_BYTES];
    size_t length = strlen(prefix);
    ssize_t count;
    char *to;

    if (length > ID_MAX - 2 * ID_RANDOM_BYTES - 2)
        return -ENAMETOOLONG;
    do {
        count = getrandom(bytes, sizeof(bytes), 0);
    } while (count < 0 && errno == EINTR);
    if (count < 0)
        return -errno;
    if (count != sizeof(bytes))
        return -EIO;

    memcpy(text, prefix, length);
    to = text + length;
    *to++ = '_';
    for (size_t i = 0; i < sizeof(bytes); i++) {
        *to++ = digits[bytes[i] >> 4];
        *to++ = digits[bytes[i] & 15];
    }
    *to = '\0';
    return 0;
}

bool id_is_name(const char *text)
{
    size_t length = strlen(text);

    return length > 0 && length <= LIMIT_NAME &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") ==
               length;
}
