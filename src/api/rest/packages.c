/*
 * packages.c - packages of a session: lists them, installs some with progress events.
 *
 * An installation belongs to its request: if the client leaves, it is cancelled.
 */
#include <string.h>

#include "api/rest/rest_private.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"
#include "session/installer.h"

void packages_list(struct door_call *call)
{
    struct session *session;

    if (front_session(call, false, &session))
        front_reply(call->http, 200,
                    json_pack("{s:o}", "packages", session_packages_json(session)));
}

struct installing {
    struct front *front;
    struct http_request *http;         /* NULL: the reply is a stream now */
    struct installation *installation; /* NULL: it has ended */
    struct front_stream stream;
};

static void installing_free(void *ctx)
{
    struct installing *installing = ctx;

    if (installing->installation)
        installer_cancel(installing->installation);
    free(installing);
}

static void on_progress(void *ctx, const char *line)
{
    struct installing *installing = ctx;

    if (installing->http)
        return;
    front_stream_event(&installing->stream, NULL, "progress",
                       json_pack("{s:o}", "line", text_to_json(line, strlen(line))));
    http_reply_more(installing->stream.http);
}

static void on_installed(void *ctx, const struct install_end *end, const struct error *err)
{
    struct installing *installing = ctx;
    json_t *reply = NULL;

    installing->installation = NULL;
    if (err->num == 0)
        reply = json_pack("{s:O, s:s, s:I}", "installed", end->added, "layer", end->layer, "ms",
                          (json_int_t)end->ms);
    if (!installing->http) {
        front_stream_event(&installing->stream, NULL, reply ? "installed" : "error",
                           reply ? reply
                                 : json_pack("{s:{s:s, s:o}}", "error", "code",
                                             err->code ? err->code : ERROR_ENGINE, "message",
                                             text_to_json(err->text, strlen(err->text))));
        installing->stream.is_over = true;
        http_reply_more(installing->stream.http);
        return;
    }
    if (err->num == 0)
        front_reply(installing->http, 200, reply);
    else
        front_fail(installing->front, installing->http, err, NULL);
    installing_free(installing);
}

static void on_fill(void *ctx)
{
    (void)ctx; /* events are sent when there are some */
}

static char **read_names(json_t *list)
{
    CLEANUP(strv_freep) char **names = strv_new();
    json_t *item;
    size_t i;

    json_array_foreach(list, i, item)
    {
        if (!names || strv_push(&names, json_string_value(item)) < 0)
            return NULL;
    }
    return ptr_take(&names);
}

static int start(struct door_call *call, struct session *session, struct installing *installing,
                 struct error *err)
{
    static const struct install_events events = {.progress = on_progress, .done = on_installed};
    CLEANUP(strv_freep) char **names = read_names(json_object_get(call->body, "packages"));

    if (!names)
        return error_memory(err);
    return session_install(session, &call->caller, (const char *const *)names, &events, installing,
                           &installing->installation, err);
}

void packages_install(struct door_call *call)
{
    struct installing *installing;
    struct session *session;
    struct error err = {0};

    if (!front_session_to_use(call, &session))
        return;
    installing = calloc(1, sizeof(*installing));
    if (!installing) {
        front_fail_memory(call->http);
        return;
    }
    installing->front = call->front;
    installing->http = call->http;
    if (start(call, session, installing, &err) < 0) {
        installing->installation = NULL;
        front_fail(call->front, call->http, &err, NULL);
        installing_free(installing);
        return;
    }
    if (!rest_wants_events(call->http)) {
        http_on_gone(call->http, installing_free, installing);
        return;
    }
    installing->http = NULL;
    installing->stream = (struct front_stream){.http = call->http,
                                               .text = BUF_INIT(64 * MIB),
                                               .fill = on_fill,
                                               .freed = installing_free,
                                               .ctx = installing};
    front_stream_start(&installing->stream, 200, TYPE_EVENTS, front_event_headers, -1);
}
