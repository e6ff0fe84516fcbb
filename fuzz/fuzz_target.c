/* fuzz_target.c - a hostile request target: taken apart, matched, and put together again. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "http/client.h"
#include "http/route.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct http_route routes[] = {
    {.method = "GET", .pattern = "/"},        {.method = "GET", .pattern = "/a/{x}"},
    {.method = "POST", .pattern = "/a/{x}"},  {.method = "GET", .pattern = "/{x}/{y}/{rest*}"},
    {.method = "PUT", .pattern = "/{rest*}"},
};

/* Encoded again and parsed again it has the same segments. */
static void encode_again(const struct http_target *target)
{
    struct buf text = BUF_INIT(4 * LIMIT_HTTP_TARGET);
    struct http_target again;

    for (size_t i = 0; i < target->segment_count; i++) {
        if (buf_append(&text, "/", 1) < 0 || http_encode(&text, target->segments[i]) < 0)
            abort();
    }
    if (text.length <= LIMIT_HTTP_TARGET) {
        if (target_parse(&again, buf_text(&text)) < 0 ||
            again.segment_count != target->segment_count)
            abort();
        for (size_t i = 0; i < again.segment_count; i++) {
            if (strcmp(again.segments[i], target->segments[i]) != 0)
                abort();
        }
        target_free(&again);
    }
    buf_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "DELETE"};
    char *text = malloc(size + 1);
    struct route_table *table = NULL;
    struct http_target target;

    if (!text || route_compile(routes, ARRAY_SIZE(routes), &table) < 0)
        return 0;
    memcpy(text, data, size);
    text[size] = 0;
    for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
        struct route_match match;

        if (target_parse(&target, text) == 0) {
            for (size_t k = 0; k < target.argument_count; k++) {
                if (strlen(target.arguments[k].name) + strlen(target.arguments[k].value) > size)
                    abort();
            }
            encode_again(&target);
            route_find(table, methods[i], &target, &match);
            if (match.route && match.allow[0])
                abort();
            for (size_t k = 0; k < match.param_count; k++) {
                if (match.params[k].value[0] == '\0' ||
                    strlen(match.params[k].value) > strlen(target.path))
                    abort();
            }
        }
        target_free(&target);
    }
    route_table_free(table);
    free(text);
    return 0;
}
