/* api.c - calls of Docker's Engine API: JSON requests and replies; see docker_private.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "model/json.h"
#include "runtime/docker/docker_private.h"
#include "runtime/docker/settings.h"

struct api_call {
    struct api *api;
    struct http_exchange *exchange;
    struct buf body; /* the reply, or its unfinished line */
    size_t looked;   /* bytes of that line without a newline */
    unsigned status;
    int trouble; /* why data() gave up */
    void (*line)(void *ctx, const json_t *line);
    api_done done;
    void *ctx;
};

int api_open(struct api *api, struct reactor *reactor, const struct docker_spec *spec,
             struct error *err)
{
    struct http_place place = {
        .address = spec->host,
        .tls_folder = spec->cert_path,
        .is_unverified = !spec->verifies_tls,
        .reactor = reactor,
    };

    api->reactor = reactor;
    api->host = spec->host;
    return http_client_open_at(&place, &api->client, err);
}

void api_close(struct api *api)
{
    http_client_close(api->client);
    api->client = NULL;
}

static void call_free(struct api_call *call)
{
    buf_free(&call->body);
    free(call);
}

/* One pass, whatever the lines are: a Docker that sends empty lines costs no more than others. */
void api_take_lines(struct buf *body, size_t *looked, void (*line)(void *ctx, const json_t *line),
                    void *ctx)
{
    size_t begin = 0;

    while (*looked < body->length) {
        char *end = memchr(body->data + *looked, '\n', body->length - *looked);
        size_t length = end ? (size_t)(end - body->data) - begin : 0;
        json_t *json = length > 0 ? json_parse(body->data + begin, length, 0, NULL) : NULL;

        *looked = end ? (size_t)(end - body->data) + 1 : body->length;
        if (end)
            begin = *looked;
        if (json_is_object(json))
            line(ctx, json);
        json_decref(json);
    }
    if (begin > 0)
        buf_consume(body, begin);
    *looked -= begin;
}

static void on_status(void *ctx, unsigned status)
{
    ((struct api_call *)ctx)->status = status;
}

static int on_data(void *ctx, const void *data, size_t length)
{
    struct api_call *call = ctx;

    call->trouble = buf_append(&call->body, data, length);
    if (call->trouble == 0 && call->line && call->status < 300)
        api_take_lines(&call->body, &call->looked, call->line, call->ctx);
    return call->trouble;
}

static void on_done(void *ctx, unsigned status, const struct error *err)
{
    struct api_call *call = ctx;
    struct api_reply reply = {.status = status, .raw = &call->body};
    json_t *json =
        call->body.length ? json_parse(call->body.data, call->body.length, 0, NULL) : NULL;

    if (call->trouble < 0)
        error_set(&reply.err, call->trouble, ERROR_ENGINE, "Docker's answer is too long");
    else if (err->num < 0)
        docker_unavailable(call->api->host, err->num, err->text, &reply.err);
    else if (status >= 300 && status != 304)
        docker_refused(status, json_text(json_object_get(json, "message")), &reply.err);
    reply.json = json;
    call->done(call->ctx, &reply);
    json_decref(json);
    call_free(call);
}

static const struct http_call_events events = {
    .status = on_status, .data = on_data, .done = on_done};

int api_start(struct api *api, const struct api_request *request, api_done done, void *ctx,
              struct api_call **ret)
{
    static const char *const json_type[] = {"Content-Type: application/json", "Expect:", NULL};
    static const char *const tar_type[] = {"Content-Type: application/x-tar", "Expect:", NULL};
    CLEANUP(buf_free) struct buf path = BUF_INIT(LIMIT_HTTP_TARGET);
    CLEANUP(freep)
    char *text = request->json ? json_dumps(request->json, JSON_COMPACT) : strdup("");
    struct http_call http = {
        .method = request->method,
        .timeout_ms = request->timeout_ms ? request->timeout_ms : DOCKER_CALL_MS,
    };
    struct api_call *call = calloc(1, sizeof(*call));
    int r = call && text ? buf_printf(&path, "%s%s", request->is_unversioned ? "" : api->version,
                                      request->path)
                         : -ENOMEM;

    if (r < 0) {
        free(call);
        return r;
    }
    *call = (struct api_call){.api = api, .line = request->line, .done = done, .ctx = ctx};
    call->body = BUF_INIT(request->reply_max ? request->reply_max : LIMIT_DOCKER_REPLY);
    if (http.timeout_ms == UINT32_MAX)
        http.timeout_ms = 0;
    http.path = buf_text(&path);
    if (request->bytes) {
        http.headers = tar_type;
        http.body = request->bytes->data;
        http.body_length = request->bytes->length;
    } else if (!str_equal(request->method, "GET") && !str_equal(request->method, "DELETE")) {
        http.headers = json_type;
        http.body = text;
        http.body_length = strlen(text);
    }
    r = http_call_start(api->client, &http, &events, call, &call->exchange, NULL);
    if (r < 0) {
        call_free(call);
        return r;
    }
    *ret = call;
    return 0;
}

void api_cancel(struct api_call *call)
{
    if (!call)
        return;
    http_call_cancel(call->exchange);
    call_free(call);
}

/* "1.41" as 1041; 0: invalid. */
static unsigned version_number(const char *text)
{
    unsigned major, minor;

    if (sscanf(text, "%3u.%3u", &major, &minor) != 2 || minor > 999)
        return 0;
    return major * 1000 + minor;
}

/* The wanted version, or the oldest one that Docker still supports if that is newer. */
int api_negotiate(struct api *api, const json_t *version, struct error *err)
{
    const char *newest = json_text(json_object_get(version, "ApiVersion"));
    const char *oldest = json_text(json_object_get(version, "MinAPIVersion"));
    unsigned has = version_number(newest), least = version_number(oldest);
    unsigned wanted = version_number(DOCKER_API_WANTED);

    if (has == 0)
        return error_set(err, -EPROTO, ERROR_PROVIDER_UNAVAILABLE,
                         DOCKER_UNAVAILABLE ": the server on %s is not Docker. Set "
                                            "SANDBOX_TYPE=local or start Docker daemon",
                         api->host);
    if (has < wanted)
        return error_set(err, -ENOTSUP, ERROR_PROVIDER_UNAVAILABLE,
                         "Docker is too old: its API is %u.%u, " DOCKER_API_WANTED
                         " (Docker 20.10) is needed. Set SANDBOX_TYPE=local or upgrade Docker",
                         has / 1000, has % 1000);
    if (least > wanted)
        wanted = least;
    str_format(api->version, sizeof(api->version), "/v%u.%u", wanted / 1000, wanted % 1000);
    return 0;
}

const json_t *json_at(const json_t *json, const char *first, const char *second)
{
    const json_t *inner = json_object_get(json, first);

    return second ? json_object_get(inner, second) : inner;
}

const char *json_text(const json_t *json)
{
    const char *text = json_string_value(json);

    return text ? text : "";
}
