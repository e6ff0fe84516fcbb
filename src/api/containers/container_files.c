/* container_files.c - /v1/containers/{id}/files: files in a container's box. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/containers/containers.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "model/text.h"

#define LIST_LIMIT 20

static json_t *file_json(const struct container_file *file)
{
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:o, s:s}", "id", file->id, "object",
                     "container.file", "container_id", file->container, "created_at",
                     (json_int_t)(file->created_ms / 1000), "bytes", (json_int_t)file->bytes,
                     "path", text_to_json(file->path, strlen(file->path)), "source",
                     file->is_users ? "user" : "assistant");
}

/* ---- POST ---- */

static void on_put(void *ctx, const struct container_file *files, size_t count,
                   const struct error *err)
{
    struct form *form = ctx;
    const char *name = form->filename ? form->filename : "";

    form->job = NULL;
    containers_changed(form->front, form->http, &form->caller, "written", form->container.id,
                       count > 0 ? files[0].path : name, count > 0 ? files[0].bytes : 0,
                       err->num < 0 ? err : NULL);
    if (err->num < 0) {
        form_fail(form, err, NULL);
        return;
    }
    front_reply(form->http, 200, count > 0 ? file_json(&files[0]) : NULL);
    form_free(form);
}

/* An uploaded file that is named by its id. */
static int put_uploaded(struct form *form, const char *id, struct error *err)
{
    struct session_manager *manager = form->front->manager;
    CLEANUP(fd_closep) int fd = -1;
    struct upload_row row;
    int r = upload_find(manager, form->caller.who.tenant, id, &row, err);

    if (r < 0)
        return r;
    fd = upload_open(manager, &row, err);
    if (fd < 0)
        return fd;
    return container_put(manager, &form->container, row.filename, fd, true, on_put, form,
                         &form->job, err);
}

static void on_form(struct form *form)
{
    const char *id = form_text(form, "file_id");
    struct error err = {0};
    int r;

    if (!form->file == !id)
        r = error_set(&err, -EINVAL, ERROR_BAD_INPUT,
                      "send either a file in the field 'file', or 'file_id'");
    else if (id)
        r = put_uploaded(form, id, &err);
    else
        r = container_put(form->front->manager, &form->container, form->filename,
                          upload_fd(form->file), true, on_put, form, &form->job, &err);
    if (r < 0)
        form_fail(form, &err, id ? "file_id" : "file");
}

void container_files_create(struct door_call *call)
{
    struct container_row row;
    struct session *session;
    struct error err = {0};
    struct form *form;

    if (!containers_take(call, &row))
        return;
    if (container_session(call->front->manager, &row, &session, &err) < 0) {
        openai_fail(call->front, call->http, &err, NULL);
        return;
    }
    form = form_new(call);
    if (!form)
        return;
    form->container = row;
    form_read(form, true, on_form);
}

/* ---- after a look into the box ---- */

/* A request that waits for one; its arguments are copied. */
struct looking {
    struct front *front;
    struct http_request *http;
    const struct door_route *route;
    struct caller caller;
    json_t *query;
    struct container_row row;
    char file[ID_MAX];
    struct container_job *job;
    void (*then)(struct looking *looking);
};

static void looking_free(struct looking *looking)
{
    container_job_cancel(looking->job);
    json_decref(looking->query);
    free(looking);
}

static void on_gone(void *ctx)
{
    looking_free(ctx);
}

static void looking_fail(struct looking *looking, const struct error *err)
{
    openai_fail(looking->front, looking->http, err, NULL);
    looking_free(looking);
}

static void on_looked(void *ctx, const struct container_file *files, size_t count,
                      const struct error *err)
{
    struct looking *looking = ctx;

    (void)files;
    (void)count;
    looking->job = NULL;
    if (err->num < 0)
        looking_fail(looking, err);
    else
        looking->then(looking);
}

static void look(struct door_call *call, void (*then)(struct looking *looking))
{
    const char *file = http_param(call->http, "file");
    struct looking *looking;
    struct container_row row;
    struct error err = {0};

    if (!containers_take(call, &row))
        return;
    looking = calloc(1, sizeof(*looking));
    if (!looking) {
        openai_fail_memory(call->http);
        return;
    }
    *looking = (struct looking){.front = call->front,
                                .http = call->http,
                                .route = call->route,
                                .caller = call->caller,
                                .query = json_incref(call->query),
                                .row = row,
                                .then = then};
    str_copy(looking->file, sizeof(looking->file), file ? file : "");
    if (container_look(call->front->manager, &row, UINT64_MAX, on_looked, looking, &looking->job,
                       &err) < 0)
        looking_fail(looking, &err);
    else
        http_on_gone(call->http, on_gone, looking);
}

/* ---- GET ---- */

static void add_file(void *ctx, const struct container_file *file)
{
    json_array_append_new(ctx, file_json(file));
}

static void list(struct looking *looking)
{
    struct door_call call = {.front = looking->front,
                             .http = looking->http,
                             .route = looking->route,
                             .query = looking->query};
    json_t *all = json_array();
    struct error err = {0};

    if (container_file_each(looking->front->manager, looking->row.id, add_file, all, &err) < 0) {
        json_decref(all);
        looking_fail(looking, &err);
        return;
    }
    containers_reply_list(&call, all, LIST_LIMIT, false);
    looking_free(looking);
}

void container_files_list(struct door_call *call)
{
    look(call, list);
}

/* The file of {file}; false: answered, and freed. */
static bool find(struct looking *looking, struct container_file *ret, char *path)
{
    struct error err = {0};

    if (container_file_find(looking->front->manager, looking->row.id, looking->file, ret, path,
                            &err) == 0)
        return true;
    looking_fail(looking, &err);
    return false;
}

static void get(struct looking *looking)
{
    char path[CONTAINER_PATH_MAX];
    struct container_file file;

    if (!find(looking, &file, path))
        return;
    front_reply(looking->http, 200, file_json(&file));
    looking_free(looking);
}

void container_files_get(struct door_call *call)
{
    look(call, get);
}

static void send_content(struct looking *looking)
{
    struct door_call call = {.front = looking->front,
                             .http = looking->http,
                             .route = looking->route,
                             .caller = looking->caller};
    char path[CONTAINER_PATH_MAX], inside[CONTAINER_PATH_MAX];
    struct container_file file;
    struct session *session;
    struct error err = {0};

    if (!find(looking, &file, path))
        return;
    if (container_session(looking->front->manager, &looking->row, &session, &err) < 0) {
        looking_fail(looking, &err);
        return;
    }
    container_box_path(path, inside, sizeof(inside));
    looking_free(looking); /* content_send_box() has a callback of its own for a client that left */
    content_send_box(&call, session, inside);
}

void container_files_content(struct door_call *call)
{
    look(call, send_content);
}

/* ---- DELETE ---- */

static void on_removed(void *ctx, const struct container_file *files, size_t count,
                       const struct error *err)
{
    struct looking *looking = ctx;

    (void)files;
    (void)count;
    looking->job = NULL;
    containers_changed(looking->front, looking->http, &looking->caller, "deleted", looking->row.id,
                       looking->file, 0, err->num < 0 ? err : NULL);
    if (err->num < 0) {
        looking_fail(looking, err);
        return;
    }
    front_reply(looking->http, 200,
                json_pack("{s:s, s:s, s:b}", "id", looking->file, "object",
                          "container.file.deleted", "deleted", 1));
    looking_free(looking);
}

static void remove_file(struct looking *looking)
{
    char path[CONTAINER_PATH_MAX];
    struct container_file file;
    struct error err = {0};

    if (!find(looking, &file, path))
        return;
    if (container_unlink(looking->front->manager, &looking->row, &file, on_removed, looking,
                         &looking->job, &err) < 0)
        looking_fail(looking, &err);
}

void container_files_delete(struct door_call *call)
{
    look(call, remove_file);
}
