/*
 * fuzz_mcp_headers.c - the headers of MCP over HTTP: lines of the input are Accept, Content-Type,
 * the version, Mcp-Method, Mcp-Name and Last-Event-ID, the rest is the body.
 *
 * Besides not crashing: what is found in order repeats the body, and an id that is taken reads back
 * as the same numbers.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/mcp/mcp_http_private.h"
#include "base/str.h"

#define LINES 6

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_body(json_t *message, char *const lines[LINES])
{
    const struct mcp_headers headers = {
        .version = lines[2][0] ? lines[2] : NULL,
        .method = lines[3][0] ? lines[3] : NULL,
        .name = lines[4][0] ? lines[4] : NULL,
    };
    char why[256];

    mcp_is_modern_post(message, headers.version);
    if (mcp_check_headers(message, &headers, why, sizeof(why)) == 0) {
        assert(str_equal(headers.version, MCP_MODERN));
        assert(headers.method && json_is_string(json_object_get(message, "method")));
    } else {
        assert(why[0] && strlen(why) < sizeof(why));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *lines[LINES], *at = text;
    char value[8];
    uint64_t stream, event;
    json_t *message;

    assert(text);
    memcpy(text, data, size);
    text[size] = '\0';
    for (size_t i = 0; i < LINES; i++) {
        size_t length = strcspn(at, "\n");

        lines[i] = at;
        at += length;
        if (*at)
            *at++ = '\0';
    }
    mcp_accepts(lines[0], "application/json");
    assert(mcp_accepts("*/*", "text/event-stream") && mcp_accepts(NULL, "text/event-stream"));
    mcp_is_json_type(lines[1]);
    assert(!mcp_header_value(NULL, value, sizeof(value)));
    mcp_header_value(lines[2], value, sizeof(value));
    assert(strlen(value) < sizeof(value) && value[0] != ' ' && value[0] != '\t');
    if (mcp_event_id(lines[5], &stream, &event)) {
        char again[64];
        uint64_t same_stream, same_event;

        snprintf(again, sizeof(again), "%llu-%llu", (unsigned long long)stream,
                 (unsigned long long)event);
        assert(mcp_event_id(again, &same_stream, &same_event));
        assert(same_stream == stream && same_event == event);
    }
    message = json_loads(at, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    if (message)
        check_body(message, lines);
    json_decref(message);
    free(text);
    return 0;
}
