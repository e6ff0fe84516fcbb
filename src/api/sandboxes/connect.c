/*
 * connect.c - the Connect protocol with JSON: envelopes of streams, requests, errors; see e2b.h.
 *
 * An envelope is a byte of flags, the length as four bytes with the highest first, and the message.
 * An error of a stream is its last envelope, with HTTP status 200: clients take another status for
 * a fault of the network.
 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "api/sandboxes/e2b.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/json.h"
#include "model/text.h"
#include "tool/schema.h"

#define HEADER 5
#define FLAG_COMPRESSED 1u
#define FLAG_END 2u
#define BLOCK 8192 /* that Scalebox's Python package asks urllib3 for */
#define PAD_HEAD 4 /* bytes before the zeros: field and length, two each */
#define PAD_FIELD (1000u << 3 | 2u)
#define BINARY_MAX (32 * MIB) /* of one reply */

int e2b_envelope_next(const char **at, size_t *left, const char **ret, size_t *ret_length)
{
    const uint8_t *bytes = (const uint8_t *)*at;
    size_t length;

    if (*left == 0)
        return 0;
    if (*left < HEADER || bytes[0] != 0)
        return -EPROTO; /* compressed, or an end where a message is expected */
    length = (size_t)bytes[1] << 24 | (size_t)bytes[2] << 16 | (size_t)bytes[3] << 8 | bytes[4];
    if (length > *left - HEADER)
        return -EPROTO;
    *ret = *at + HEADER;
    *ret_length = length;
    *at += HEADER + length;
    *left -= HEADER + length;
    return 1;
}

int e2b_envelope_read(const void *data, size_t length, const char **ret, size_t *ret_length)
{
    const char *at = data;

    return e2b_envelope_next(&at, &length, ret, ret_length) == 1 && length == 0 ? 0 : -EPROTO;
}

/* ---- members of requests ---- */

json_t *e2b_member(json_t *object, const char *camel, const char *snake)
{
    json_t *value = json_object_get(object, camel);

    if (!value && snake)
        value = json_object_get(object, snake);
    return json_is_null(value) ? NULL : value;
}

bool e2b_flag(json_t *object, const char *camel, const char *snake, bool fallback)
{
    json_t *value = e2b_member(object, camel, snake);

    return value ? json_is_true(value) : fallback;
}

const char *e2b_text(json_t *object, const char *camel, const char *snake)
{
    json_t *value = e2b_member(object, camel, snake);
    const char *text = json_string_value(value);

    return text && strlen(text) == json_string_length(value) ? text : NULL;
}

int64_t e2b_number(json_t *object, const char *camel, const char *snake)
{
    json_t *value = e2b_member(object, camel, snake);
    const char *text = json_string_value(value);
    int64_t number = -1;

    if (json_is_integer(value))
        return json_integer_value(value);
    return text && str_to_i64(text, &number) == 0 ? number : -1;
}

int e2b_bytes(json_t *value, struct buf *bytes)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_REQUEST_JSON + 4);
    size_t length = json_string_length(value);

    if (!value)
        return 0;
    if (!json_is_string(value) || buf_append(&text, json_string_value(value), length) < 0)
        return -EINVAL;
    for (size_t i = 0; i < text.length; i++) {
        if (text.data[i] == '-')
            text.data[i] = '+';
        else if (text.data[i] == '_')
            text.data[i] = '/';
    }
    while (text.length % 4 != 0)
        if (buf_append(&text, "=", 1) < 0)
            return -EINVAL;
    return base64_decode(buf_text(&text), text.length, bytes);
}

/* ---- requests ---- */

static bool has_type(const struct http_request *http, const char *type)
{
    const char *own = http_header(http, "Content-Type");
    size_t length = own ? strcspn(own, "; \t") : 0;

    return length == strlen(type) && strncasecmp(own, type, length) == 0;
}

const struct e2b_method *e2b_binary(const struct http_request *http)
{
    const struct e2b *e2b = front_door_state(http);

    if (!e2b || !e2b->wire->methods ||
        !(has_type(http, E2B_TYPE_BINARY) || has_type(http, E2B_TYPE_CONNECT_BINARY)))
        return NULL;
    for (const struct e2b_method *method = e2b->wire->methods; method->path; method++)
        if (str_equal(method->path, http_path(http)))
            return method;
    return NULL;
}

const char *e2b_stream_type(const struct http_request *http)
{
    return e2b_binary(http) ? E2B_TYPE_CONNECT_BINARY : E2B_TYPE_CONNECT;
}

json_t *e2b_stream_message(const struct http_request *http, const char *text, size_t length,
                           size_t *room)
{
    const struct e2b_method *method = e2b_binary(http);
    struct error ignored;

    return method ? protobuf_read(method->request, text, length, &ignored)
                  : json_parse_within(text, length, 0, room, NULL);
}

static json_t *binary_request(struct door_call *call, const struct e2b_method *method)
{
    struct error err = {0};
    size_t length;
    const void *body = http_body(call->http, &length);
    json_t *request = protobuf_read(method->request, body, length, &err);

    if (!request)
        e2b_unary_fail(call->http, "invalid_argument", err.text);
    return request;
}

json_t *e2b_unary_request(struct door_call *call)
{
    struct schema_problem problem = {0};
    const struct e2b_method *method = e2b_binary(call->http);
    json_t *request;
    size_t length;

    if (method)
        return binary_request(call, method);
    http_body(call->http, &length);
    if (length == 0 && !http_prepared(call->http))
        return json_object();
    request = front_body_json(call->http, &problem);
    if (json_is_object(request))
        return request;
    json_decref(request);
    e2b_unary_fail(call->http, "invalid_argument",
                   problem.err.code ? problem.err.text : "the message has to be an object");
    return NULL;
}

json_t *e2b_stream_request(struct door_call *call)
{
    const struct e2b_method *method = e2b_binary(call->http);
    struct schema_problem problem = {0};
    const char *text = NULL;
    json_t *request = NULL;
    size_t length;
    const void *body = http_body(call->http, &length);

    if (!has_type(call->http, e2b_stream_type(call->http))) {
        e2b_fail_text(call->http, 415, "the body has to be " E2B_TYPE_CONNECT);
        return NULL;
    }
    if (body && e2b_envelope_read(body, length, &text, &length) == 0 && method)
        request = protobuf_read(method->request, text, length, &problem.err);
    else if (text)
        request = length > 0 ? json_read_with(text, length, 0, &problem) : json_object();
    if (json_is_object(request))
        return request;
    json_decref(request);
    e2b_stream_fail(call->http, "invalid_argument",
                    problem.err.code ? problem.err.text
                                     : "the body has to be one envelope with a JSON object");
    return NULL;
}

/* ---- errors ---- */

const char *e2b_code_of(const struct error *err)
{
    static const struct {
        const char *code, *word;
    } rows[] = {
        {ERROR_BAD_INPUT, "invalid_argument"},
        {ERROR_BAD_JSON, "invalid_argument"},
        {ERROR_TOO_LARGE, "invalid_argument"},
        {ERROR_COMMAND_NOT_FOUND, "invalid_argument"},
        {ERROR_NOT_EXECUTABLE, "invalid_argument"},
        {ERROR_PATH_INVALID, "invalid_argument"},
        {ERROR_PATH_IS_FOLDER, "invalid_argument"},
        {ERROR_PATH_NOT_FOLDER, "invalid_argument"},
        {ERROR_PATH_REFUSED, "permission_denied"},
        {ERROR_READ_ONLY, "permission_denied"},
        {ERROR_FORBIDDEN, "permission_denied"},
        {ERROR_PATH_NOT_FOUND, "not_found"},
        {ERROR_EXECUTION_NOT_FOUND, "not_found"},
        {ERROR_EXECUTION_ENDED, "not_found"},
        {ERROR_CONTEXT_NOT_FOUND, "not_found"},
        {ERROR_PATH_EXISTS, "already_exists"},
        {ERROR_UNAUTHORIZED, "unauthenticated"},
        {ERROR_QUOTA, "resource_exhausted"},
        {ERROR_TOO_MANY_SESSIONS, "resource_exhausted"},
        {ERROR_BUSY, "resource_exhausted"},
        {ERROR_SESSION_NOT_FOUND, "unavailable"},
        {ERROR_SESSION_ENDED, "unavailable"},
        {ERROR_SESSION_PAUSED, "unavailable"},
        {ERROR_BOX_LOST, "unavailable"},
        {ERROR_SHUTTING_DOWN, "unavailable"},
        {ERROR_NOT_A_TERMINAL, "failed_precondition"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (str_equal(rows[i].code, err->code))
            return rows[i].word;
    return "internal";
}

static unsigned status_of(const char *code)
{
    static const struct {
        const char *code;
        unsigned status;
    } rows[] = {
        {"invalid_argument", 400},   {"failed_precondition", 400}, {"unauthenticated", 401},
        {"permission_denied", 403},  {"not_found", 404},           {"already_exists", 409},
        {"resource_exhausted", 429}, {"unimplemented", 501},       {"unavailable", 503},
        {"deadline_exceeded", 504},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (str_equal(rows[i].code, code))
            return rows[i].status;
    return 500;
}

static json_t *error_json(const char *code, const char *text)
{
    return json_pack("{s:s, s:o}", "code", code, "message", text_to_json(text, strlen(text)));
}

void e2b_unary_fail(struct http_request *http, const char *code, const char *text)
{
    front_reply(http, status_of(code), error_json(code, text));
}

void e2b_unary_error(struct door_call *call, const struct error *err)
{
    front_denied(call->front, call->http, err);
    e2b_unary_fail(call->http, e2b_code_of(err), err->text);
}

/* ---- envelopes ---- */

static int envelope(struct buf *to, unsigned flags, const char *text, size_t length)
{
    uint8_t header[HEADER] = {(uint8_t)flags, (uint8_t)(length >> 24), (uint8_t)(length >> 16),
                              (uint8_t)(length >> 8), (uint8_t)length};

    if (buf_append(to, header, sizeof(header)) < 0)
        return -ENOMEM;
    return buf_append(to, text, length);
}

/* Up to the end of a block, in a field that no message has. */
static int pad(struct buf *message)
{
    static const uint8_t zeros[BLOCK + PAD_HEAD];
    size_t left = BLOCK - (HEADER + message->length) % BLOCK;
    size_t count = (left < PAD_HEAD ? left + BLOCK : left) - PAD_HEAD;
    const uint8_t head[PAD_HEAD] = {(PAD_FIELD & 0x7f) | 0x80, PAD_FIELD >> 7,
                                    (uint8_t)((count & 0x7f) | 0x80), (uint8_t)(count >> 7)};
    int r;

    if (left == BLOCK)
        return 0;
    r = buf_append(message, head, sizeof(head));
    return r == 0 ? buf_append(message, zeros, count) : r;
}

/*
 * `method`: of a binary message; NULL: it is JSON, as the last one always is. is_block: whole
 * blocks.
 */
static int envelope_json(struct buf *to, const struct e2b_method *method, bool is_block,
                         unsigned flags, json_t *message)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(to->maximum);
    int r = -ENOMEM;

    if (message && method)
        r = protobuf_write(method->reply, message, &text);
    else if (message)
        r = text_of_json(message, FRONT_JSON, &text);
    if (r == 0 && is_block)
        r = pad(&text);
    if (r == 0)
        r = envelope(to, flags, buf_text(&text), text.length);
    json_decref(message);
    return r;
}

/* urllib3 gives its caller nothing before it has as many bytes as were asked for. */
static bool reads_blocks(const struct http_request *http)
{
    const char *agent = http_header(http, "User-Agent");

    return agent && str_starts(agent, "python-urllib3/");
}

void e2b_stream_send(struct front_stream *stream, json_t *message)
{
    const struct e2b_method *method = e2b_binary(stream->http);

    if (envelope_json(&stream->text, method, method && reads_blocks(stream->http), 0, message) < 0)
        stream->is_broken = true;
}

static json_t *end_json(const char *code, const char *text)
{
    return code ? json_pack("{s:o}", "error", error_json(code, text)) : json_object();
}

void e2b_stream_end(struct front_stream *stream, const char *code, const char *text)
{
    stream->is_over = true;
    if (envelope_json(&stream->text, NULL, false, FLAG_END, end_json(code, text)) < 0)
        stream->is_broken = true;
}

void e2b_stream_fail(struct http_request *http, const char *code, const char *text)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(64 * KIB);

    if (envelope_json(&body, NULL, false, FLAG_END, end_json(code, text)) < 0)
        front_fail_memory(http);
    else
        http_reply_text(http, 200, e2b_stream_type(http), NULL, &body);
}

void e2b_stream_reply(struct http_request *http, json_t *message)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(64 * KIB);

    if (envelope_json(&body, e2b_binary(http), false, 0, message) < 0 ||
        envelope_json(&body, NULL, false, FLAG_END, json_object()) < 0)
        front_fail_memory(http);
    else
        http_reply_text(http, 200, e2b_stream_type(http), NULL, &body);
}

void e2b_unary_reply(struct http_request *http, unsigned status, const char *const *headers,
                     json_t *message)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(BINARY_MAX);
    const struct e2b_method *method = status == 200 ? e2b_binary(http) : NULL;

    if (!method) { /* errors are JSON */
        front_reply_json(http, status, headers, message);
        return;
    }
    if (protobuf_write(method->reply, message, &body) < 0)
        front_fail_memory(http);
    else
        http_reply_text(http, status, E2B_TYPE_BINARY, headers, &body);
    json_decref(message);
}

uint64_t e2b_ping_ms(const struct http_request *http)
{
    const char *text = http_header(http, "Keepalive-Ping-Interval");
    uint64_t seconds;

    if (text && str_to_u64(text, &seconds) == 0 && seconds >= 1 && seconds <= 3600)
        return seconds * 1000;
    return E2B_KEEPALIVE_MS;
}

uint64_t e2b_timeout_ms(const struct http_request *http)
{
    const char *text = http_header(http, "Connect-Timeout-Ms");
    uint64_t ms;

    return text && str_to_u64(text, &ms) == 0 ? MIN(ms, (uint64_t)LIMIT_TIMEOUT_MS) : 0;
}
