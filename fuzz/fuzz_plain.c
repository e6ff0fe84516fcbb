/* fuzz_plain.c - the head of a reply from whoever sits on the socket: any piece of it says less. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "http/plain.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plain_head head = {0}, piece = {0};
    ssize_t end = plain_head_read((const char *)data, size, &head);

    if (end > (ssize_t)size || (end == 0 && size > LIMIT_HTTP_HEAD))
        abort();
    if (end <= 0)
        return 0;
    if (head.status == 0 || head.status > 999 ||
        strnlen(head.execution, sizeof(head.execution)) == sizeof(head.execution))
        abort();
    /* What stands behind it changes nothing, and without its last byte it is none. */
    if (plain_head_read((const char *)data, (size_t)end, &piece) != end ||
        memcmp(&head, &piece, sizeof(head)) != 0)
        abort();
    if (plain_head_read((const char *)data, (size_t)end - 1, &piece) > 0)
        abort();
    return 0;
}
