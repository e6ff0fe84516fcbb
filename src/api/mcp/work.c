/* work.c - requests that wait for the host: their list, progress and cancellation. */
#include <string.h>

#include "api/mcp/mcp_private.h"
#include "base/cleanup.h"
#include "base/list.h"
#include "base/str.h"
#include "model/text.h"

struct mcp_work *mcp_work_new(const struct mcp_request *request, enum mcp_work_kind kind)
{
    json_t *token = json_object_get(json_object_get(request->params, "_meta"), "progressToken");
    struct mcp_work *work;

    if (request->peer->work_count >= LIMIT_MCP_CALLS) {
        mcp_send_error(request->peer, &request->origin, MCP_INTERNAL, NULL,
                       "%d requests are running already; wait for one of them", LIMIT_MCP_CALLS);
        return NULL;
    }
    work = calloc(1, sizeof(*work));
    if (!work) {
        mcp_send_error(request->peer, &request->origin, MCP_INTERNAL, NULL, "out of memory");
        return NULL;
    }
    work->peer = request->peer;
    work->kind = kind;
    work->origin = request->origin;
    json_incref(work->origin.id);
    if (json_is_string(token) || json_is_integer(token))
        work->progress_token = json_incref(token);
    work->began_ms = request->now_ms;
    work->due_ms = request->now_ms + MCP_PROGRESS_FIRST_MS;
    work->next = request->peer->works;
    request->peer->works = work;
    request->peer->work_count++;
    return work;
}

void mcp_work_free(struct mcp_work *work)
{
    LIST_UNLINK(work->peer->works, work);
    work->peer->work_count--;
    json_decref(work->origin.id);
    json_decref(work->progress_token);
    mcp_content_freep(&work->content);
    free(work->uri);
    free(work);
}

/* Ids are equal by type and value; if an id was used twice both requests end. No answer is sent. */
void mcp_work_cancel(struct mcp_peer *peer, json_t *id)
{
    struct mcp_work *next;

    for (struct mcp_work *work = peer->works; work && id; work = next) {
        next = work->next;
        if (!json_equal(work->origin.id, id))
            continue;
        peer->ops->cancel(peer->ctx, work);
        mcp_work_free(work);
    }
}

uint64_t mcp_work_lost_ms(const struct mcp_work *work)
{
    return work->origin.lost_ms;
}

void mcp_work_attach(struct mcp_work *work, void *thing)
{
    work->attached = thing;
}

void *mcp_work_attached(const struct mcp_work *work)
{
    return work->attached;
}

/* Keeps the last line that is not empty. */
void mcp_work_printed(struct mcp_work *work, const char *text, size_t length)
{
    size_t begin;

    while (length > 0 && memchr(" \t\r\n", text[length - 1], 4))
        length--;
    begin = length;
    while (begin > 0 && text[begin - 1] != '\n' && text[begin - 1] != '\r')
        begin--;
    if (begin == length)
        return;
    length = MIN(length - begin, sizeof(work->tail) - 1);
    memcpy(work->tail, text + begin, length);
    work->tail[utf8_floor(work->tail, length)] = '\0';
}

static void send_progress(struct mcp_work *work, uint64_t now_ms)
{
    int64_t seconds = (int64_t)((now_ms - work->began_ms) / 1000);
    char text[MCP_TAIL_SIZE + 64];

    if (seconds <= work->progress)
        seconds = work->progress + 1; /* progress must increase, whatever the clock does */
    work->progress = seconds;
    if (work->tail[0])
        snprintf(text, sizeof(text), "running for %lld s: %s", (long long)seconds, work->tail);
    else
        snprintf(text, sizeof(text), "running for %lld s", (long long)seconds);
    mcp_send_notice(work->peer, "notifications/progress",
                    json_pack("{s:O,s:I,s:o}", "progressToken", work->progress_token, "progress",
                              (json_int_t)seconds, "message", text_to_json(text, strlen(text))));
}

uint64_t mcp_peer_tick(struct mcp_peer *peer, uint64_t now_ms)
{
    uint64_t next = UINT64_MAX;

    for (struct mcp_work *work = peer->works; work; work = work->next) {
        if (!work->progress_token)
            continue;
        if (now_ms >= work->due_ms) {
            send_progress(work, now_ms);
            work->due_ms = now_ms + MCP_PROGRESS_MS;
        }
        next = MIN(next, work->due_ms);
    }
    return next;
}

void mcp_work_failed(struct mcp_work *work, const struct error *err)
{
    if (work->content) { /* only a picture could not be fetched */
        mcp_call_read(work, MCP_READ_MISSING, NULL, 0);
        return;
    }
    /* An error of a tool call is a result that the model reads; other errors are JSON-RPC
     * errors. */
    if (work->kind == WORK_CALL)
        mcp_send_result(work->peer, &work->origin, mcp_content_refusal(err->text));
    else
        mcp_send_error(work->peer, &work->origin, MCP_INTERNAL, NULL, "%s", err->text);
    mcp_work_free(work);
}

void mcp_work_read(struct mcp_work *work, enum mcp_read_kind kind, const void *data, size_t length)
{
    if (work->kind == WORK_CALL)
        mcp_call_read(work, kind, data, length);
    else
        mcp_resource_done(work, kind, data, length);
}
