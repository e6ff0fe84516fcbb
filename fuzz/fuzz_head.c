/* fuzz_head.c - hostile headers, one a line: whatever passes has one meaning only. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "http/head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const hosts[] = {"localhost", "[::1]", "a.example:8080", NULL};
static const char *const origins[] = {"https://app.example", NULL};

static void must(bool is_so)
{
    if (!is_so)
        abort();
}

/* What the checks promise to whoever reads the request behind them. */
static void check(const struct head *head, bool is_old)
{
    if (head_check(head, is_old))
        return;
    must(!head->is_malformed && head->host_count <= 1 && head->length_count <= 1);
    must(head->coding_count == 0 || (head->length_count == 0 && head->coding_count == 1));
    must(head->coding_count == 0 || strcasecmp(head->coding, "chunked") == 0);
    must(is_old || head->host);
    if (head->host) {
        must(!strpbrk(head->host, "/@,; \t\\"));
        if (head_host_fits(head->host, hosts))
            must(strncasecmp(head->host, "localhost", 9) == 0 || head->host[0] == '[' ||
                 strspn(head->host, "0123456789.:") == strlen(head->host) ||
                 strcasecmp(head->host, "a.example:8080") == 0);
    }
    if (head->origin && head_origin(head->origin, head->host, origins) == ORIGIN_OWN)
        must(head->host && strlen(head->origin) > strlen(head->host));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct head head = {0};
    char *next, *end = text + size;

    if (!text)
        return 0;
    memcpy(text, data, size);
    *end = '\0';
    for (char *line = text; line < end; line = next) {
        char *stop = memchr(line, '\n', (size_t)(end - line));
        char *colon;

        stop = stop ? stop : end;
        next = stop + 1;
        *stop = '\0';
        colon = memchr(line, ':', (size_t)(stop - line));
        if (colon)
            head_add(&head, line, (size_t)(colon - line), colon + 1, (size_t)(stop - colon - 1));
    }
    check(&head, false);
    check(&head, true);
    free(text);
    return 0;
}
