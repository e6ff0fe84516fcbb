/*
 * fuzz_range.c - any bytes as headers of a download: a range lies within the file, a name in a
 * header has no letter that ends it. The first byte says how large the file is.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "http/range.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
    if (!is_true)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char header[HTTP_ATTACHMENT_MAX];
    uint64_t first, count, length = size > 0 ? data[0] : 0;
    char *text = malloc(size + 1);

    check(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    for (const char *at = text; *at; at++)
        if (http_range_read(at, NULL, "\"x\"", length, &first, &count) == RANGE_PART)
            check(count > 0 && first < length && count <= length - first);
    http_etag_is_in(text, "\"x\"");
    http_attachment(text, header, sizeof(header));
    check(strlen(header) < sizeof(header) && !strpbrk(header, "\r\n"));
    check(strncmp(header, "Content-Disposition: attachment; filename=\"", 43) == 0);
    free(text);
    return 0;
}
