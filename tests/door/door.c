/*
 * door.c - a door that only tests have: a folder and a row. It comes in by -Dtest_rows=true, which
 * links it into bailey-engine; tests/scenario/test_door.py tries it.
 *
 * What is its own here: a shape of errors, a request that a header claims, and something that it
 * remembers between calls. Keys, scopes, checks, counts, log and OpenAPI are the front hall's.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/doors.h"
#include "api/front/door.h"
#include "api/front/reply.h"
#include "api/front/row_text.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"

struct echo {
    unsigned count; /* calls so far */
};

static int open_door(struct front *front, void **ret, struct error *err)
{
    (void)front;
    *ret = calloc(1, sizeof(struct echo));
    return *ret ? 0 : error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
}

static bool claims(const struct http_request *http)
{
    return http_header(http, "X-Echo") != NULL;
}

/* {"echo": false, "why": TEXT} */
static void answer_no(struct http_request *http, unsigned status, const char *header,
                      const char *text)
{
    const char *const headers[] = {header, NULL};

    front_reply_with(http, status, headers,
                     json_pack("{s:b, s:o}", "echo", 0, "why", text_to_json(text, strlen(text))));
}

static void fail(struct door_call *call, const struct error *err)
{
    answer_no(call->http, front_error_status(err->code), NULL, err->text);
}

static void refuse(struct http_request *http, const struct door_refusal *refusal)
{
    answer_no(http, refusal->status, refusal->header, refusal->text);
}

static void say(struct door_call *call)
{
    struct echo *echo = call->door;
    const char *word = http_param(call->http, "word");

    front_reply(call->http, 200,
                json_pack("{s:b, s:o, s:s, s:i}", "echo", 1, "word",
                          text_to_json(word, strlen(word)), "tenant", call->caller.who.tenant,
                          "count", (int)++echo->count));
}

static void repeat(struct door_call *call)
{
    front_reply(call->http, 201,
                json_pack("{s:b, s:O, s:b}", "echo", 1, "word", json_object_get(call->body, "word"),
                          "loud", front_query_bool(call, "loud")));
}

#define E_REPEAT JSON({"word" : "hello"})

static const struct door_field repeat_fields[] = {
    {"word", "The word."},
    {NULL, NULL},
};

static const struct door_field echo_fields[] = {
    {"Echo", "What came back."},
    {"Echo.echo", "Whether it worked."},
    {"Echo.word", "The word."},
    {NULL, NULL},
};

static const struct door_tag tags[] = {
    {"Echo", "Words that come back."},
    {NULL, NULL},
};

static const struct door_route routes[] = {
    {
        .method = "GET",
        .path = "/echo/{word}",
        .name = "sayEcho",
        .summary = "Says a word again",
        .tag = "Echo",
        .description = "The count tells that the door remembers its calls.",
        .params = {IN_THE_PATH("word", "what is said")},
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("Echo"),
        .scope = SCOPE_RUN,
        .handle = say,
    },
    {
        .method = "POST",
        .path = "/echo",
        .name = "repeatEcho",
        .summary = "Says the word of the body again",
        .tag = "Echo",
        .description = "The word may not be empty.",
        .params = {QUERY("loud", S_BOOLEAN, "whether it is loud")},
        .body = BODY_JSON,
        .request = OBJECT(MEMBER("word", S_NAME), "word"),
        .fields = repeat_fields,
        .example = E_REPEAT,
        .status = 201,
        .type = TYPE_JSON,
        .reply = REF("Echo"),
        .scope = SCOPE_FILES,
        .handle = repeat,
    },
};

static const struct door_ops echo_door = {
    .name = "echo",
    .tags = tags,
    .routes = routes,
    .route_count = ARRAY_SIZE(routes),
    .schemas = "\"Echo\":" OPEN_OBJECT(MEMBER("echo", S_BOOLEAN) ALSO("word", S_STRING), "echo"),
    .schema_fields = echo_fields,
    .claims = claims,
    .open = open_door,
    .close = free,
    .fail = fail,
    .refuse = refuse,
};

const struct door_ops *const extra_doors[] = {&echo_door, NULL};
