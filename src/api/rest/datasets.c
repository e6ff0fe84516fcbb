/* datasets.c - datasets of a session: lists them, and takes uploads of any size. */
#include <errno.h>
#include <string.h>

#include "api/rest/rest_private.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/caller.h"
#include "model/text.h"

void datasets_list(struct door_call *call)
{
    struct session *session;

    if (front_session(call, true, &session))
        front_reply(call->http, 200,
                    json_pack("{s:o}", "datasets", session_datasets_json(session)));
}

struct upload {
    struct front *front;
    struct http_request *http;
    struct dataset_upload *into;
    struct caller caller;
    char session[ID_MAX];
    uint64_t bytes;
    char name[LIMIT_NAME + 1];
};

static void upload_free(struct upload *upload)
{
    dataset_cancel(upload->into);
    free(upload);
}

static size_t on_data(void *ctx, const void *data, size_t length)
{
    struct upload *upload = ctx;
    struct error err = {0};

    if (dataset_write(upload->into, data, length, &err) < 0) {
        front_fail(upload->front, upload->http, &err, NULL);
        upload_free(upload);
        return length;
    }
    upload->bytes += length;
    return length;
}

static void on_end(void *ctx)
{
    struct upload *upload = ctx;
    struct error err = {0};
    char file[LIMIT_NAME + 8];

    int r = dataset_end(ptr_take(&upload->into), &err);

    if (r == 0)
        r = dataset_file_name(upload->name, file, sizeof(file), &err);
    rest_file_over(upload->front, upload->http,
                   &(struct rest_file_over){.caller = &upload->caller,
                                            .session = upload->session,
                                            .change = "dataset",
                                            .path = upload->name,
                                            .bytes = upload->bytes,
                                            .error = r < 0 ? err.code : NULL});
    rest_file_bytes(upload->front, "in", upload->bytes);
    if (r < 0)
        front_fail(upload->front, upload->http, &err, NULL);
    else
        front_reply(upload->http, 201,
                    json_pack("{s:o, s:o, s:I}", "name",
                              text_to_json(upload->name, strlen(upload->name)), "path",
                              json_sprintf("/tmp/data/%s", file), "bytes",
                              (json_int_t)upload->bytes));
    upload_free(upload);
}

static void on_gone(void *ctx)
{
    upload_free(ctx);
}

void datasets_put(struct door_call *call)
{
    static const struct http_body_events events = {.data = on_data, .end = on_end};
    const char *name = http_param(call->http, "name");
    struct session *session;
    struct upload *upload;
    struct error err = {0};

    if (!front_session_to_use(call, &session))
        return;
    upload = calloc(1, sizeof(*upload));
    if (!upload) {
        front_fail_memory(call->http);
        return;
    }
    upload->front = call->front;
    upload->http = call->http;
    upload->caller = call->caller;
    str_copy(upload->session, sizeof(upload->session), session_id(session));
    if (!str_copy(upload->name, sizeof(upload->name), name)) {
        front_fail_field(call->http, "name", "'name' is too long: at most %d bytes", LIMIT_NAME);
        upload_free(upload);
        return;
    }
    if (dataset_begin(session, name, &upload->into, &err) < 0) {
        upload->into = NULL;
        front_fail(call->front, call->http, &err, NULL);
        upload_free(upload);
        return;
    }
    http_on_gone(call->http, on_gone, upload);
    http_body_read(call->http, &events, upload);
}
