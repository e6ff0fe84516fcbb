/* prepare.c - before a message is answered: its session, and its files in there. */
#include <errno.h>
#include <string.h>

#include "api/chat/chat.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "config/config.h"

/* ---- the session ---- */

static int new_container(struct chat *chat, struct error *err)
{
    const struct container_spec spec = {.caller = &chat->caller, .name = "chat"};

    return container_create(chat->front->manager, &spec, &chat->row, err);
}

/* By id or name of a session, or by id of a container. */
static int find_container(struct chat *chat, const char *word, struct error *err)
{
    struct session_manager *manager = chat->front->manager;
    struct session *session;
    int r;

    if (str_starts(word, "cntr_")) {
        r = container_find(manager, chat->caller.who.tenant, word, &chat->row, err);
        return r < 0 ? r : container_session(manager, &chat->row, &session, err);
    }
    r = auth_session(&chat->front->auth, &chat->caller.who, word, false, &session, err);
    if (r == 0)
        r = container_adopt(manager, session, &chat->row, err);
    return r < 0 ? r : container_session(manager, &chat->row, &session, err);
}

static unsigned count_of_tenant(const struct chat *chat)
{
    unsigned count = 0;

    for (const struct chat *at = chat->door->active; at; at = at->next)
        count += str_equal(at->caller.who.tenant, chat->caller.who.tenant);
    return count;
}

static bool is_busy(const struct chat *chat)
{
    for (const struct chat *at = chat->door->active; at; at = at->next)
        if (at != chat && !at->is_gone && str_equal(at->row.session, chat->row.session))
            return true;
    return false;
}

bool chat_prepare(struct chat *chat, struct door_call *call)
{
    const char *word = json_string_value(json_object_get(call->body, "session"));
    const struct config *config = session_manager_config(chat->front->manager);
    struct error err = {0};
    int r;

    if (!config->upstream.url)
        r = error_set(&err, -ENOTCONN, ERROR_NO_UPSTREAM,
                      "no model server is configured: start 'bailey serve' with "
                      "BAILEY_UPSTREAM_URL, the base address of a Chat Completions API with its "
                      "/v1, and BAILEY_UPSTREAM_KEY if it needs one");
    else if (count_of_tenant(chat) > LIMIT_CHATS_TENANT)
        r = error_set(&err, -EAGAIN, ERROR_BUSY,
                      "%d messages of this tenant are being answered, which is the most: try again",
                      LIMIT_CHATS_TENANT);
    else
        r = word && *word ? find_container(chat, word, &err) : new_container(chat, &err);
    if (r == 0 && is_busy(chat)) {
        err.retry_s = 1;
        r = error_set(&err, -EAGAIN, ERROR_BUSY,
                      "another message of this session is being answered; wait for its end");
    }
    if (r == 0)
        return true;
    if (str_equal(err.code, ERROR_BUSY))
        err.retry_s = 1;
    chat_fail(chat, &err);
    return false;
}

/* ---- files ---- */

static void on_put(void *ctx, const struct container_file *files, size_t count,
                   const struct error *err)
{
    struct chat *chat = ctx;

    chat->job = NULL;
    if (err->num < 0) {
        chat_fail(chat, err);
        return;
    }
    if (count > 0)
        json_array_append_new(chat->paths, json_string(files[0].path));
    chat->file_at++;
    chat_put_next(chat);
}

static int put_uploaded(struct chat *chat, const char *id, struct error *err)
{
    struct session_manager *manager = chat->front->manager;
    CLEANUP(fd_closep) int fd = -1;
    struct upload_row row;
    int r = upload_find(manager, chat->caller.who.tenant, id, &row, err);

    if (r == 0)
        fd = r = upload_open(manager, &row, err);
    if (r < 0)
        return r;
    return container_put(manager, &chat->row, row.filename, fd, true, on_put, chat, &chat->job,
                         err);
}

static int put_bytes(struct chat *chat, json_t *file, struct error *err)
{
    struct session_manager *manager = chat->front->manager;
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(LIMIT_REQUEST_JSON);
    const char *name = json_string_value(json_object_get(file, "name"));
    json_t *text = json_object_get(file, "content");
    json_t *base64 = json_object_get(file, "content_base64");
    struct upload_writer *writer = NULL;
    int r;

    if (!name || json_is_string(text) == json_is_string(base64))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "files: each has a 'name' and either 'content' or 'content_base64', or "
                         "is the id of an uploaded file");
    if (json_is_string(text))
        r = buf_append(&bytes, json_string_value(text), json_string_length(text));
    else
        r = base64_decode(json_string_value(base64), json_string_length(base64), &bytes);
    if (r < 0)
        return r == -ENOMEM ? error_memory(err)
                            : error_set(err, -EINVAL, ERROR_BAD_INPUT,
                                        "files: 'content_base64' is not base64");
    /* Written to disk first: a job reads from there as fast as the box takes it. */
    r = upload_begin(manager, chat->caller.who.tenant, &writer, err);
    if (r == 0)
        r = upload_write(writer, buf_text(&bytes), bytes.length, err);
    if (r == 0)
        r = container_put(manager, &chat->row, name, upload_fd(writer), true, on_put, chat,
                          &chat->job, err);
    upload_cancel(writer); /* the job has a descriptor of its own */
    return r;
}

void chat_put_next(struct chat *chat)
{
    json_t *file = json_array_get(chat->files, chat->file_at);
    const char *id = json_string_value(file);
    struct error err = {0};
    int r;

    if (!file) {
        json_object_del(chat->body, "files"); /* they are in the box */
        json_decref(ptr_take(&chat->files));
        chat_hold(chat, json_string_length(json_object_get(chat->body, "message")), &err);
        chat_start(chat);
        return;
    }
    if (!id)
        id = json_string_value(json_object_get(file, "file_id"));
    r = id ? put_uploaded(chat, id, &err) : put_bytes(chat, file, &err);
    if (r < 0)
        chat_fail(chat, &err);
}
