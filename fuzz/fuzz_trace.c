/* fuzz_trace.c - hostile X-Request-Id and traceparent: what is taken has exactly its form. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    struct trace trace;

    memcpy(text, data, size);
    text[size] = '\0';
    if (trace_parse(text, &trace) == 0) {
        if (strlen(trace.id) != 32 || strlen(trace.parent) != 16 ||
            strspn(trace.id, "0123456789abcdef") != 32 || strspn(trace.id, "0") == 32 ||
            strspn(trace.parent, "0123456789abcdef") != 16 || strspn(trace.parent, "0") == 16)
            abort();
    } else if (trace.id[0] || trace.parent[0]) {
        abort();
    }
    if (request_id_is_valid(text) && (strlen(text) >= REQUEST_ID_MAX || strpbrk(text, "\r\n \"<")))
        abort();
    free(text);
    return 0;
}
