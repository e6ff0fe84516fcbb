/*
 * files.c - files of a box: each operation of the broker is a call, an upload or a download that
 * goes on while both sides take it, or a stream of changes; see remote_private.h.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "model/json.h"
#include "runtime/remote/remote_private.h"
#include "wire/file_message.h"

#define DATA_FOLDER "/tmp/data/"
#define TARGET_MAX (3 * LIMIT_PATH_BYTES + 256) /* of a call, each byte of a path encoded */
#define ERROR_BODY_MAX (64 * KIB)

struct file_op {
    struct file_op *next;
    struct remote_box *box;
    uint32_t id;
    enum frame_type type;
    struct remote_call *call;       /* with JSON */
    struct http_exchange *exchange; /* PUT, GET, WATCH */
    unsigned status;
    struct buf held;      /* PUT: to be sent; GET: received; and the body of an error */
    uint64_t sent, acked; /* GET */
    uint64_t received;    /* PUT */
    bool is_ended;        /* PUT: PUT_END came; GET: the last byte came */
    bool is_over;         /* PUT: the server has answered before PUT_END */
    int num;
    struct sse_reader reader;
};

/* ---- the list ---- */

static struct file_op *find(struct remote_box *box, uint32_t id)
{
    struct file_op *op = box->files;

    while (op && op->id != id)
        op = op->next;
    return op;
}

static void op_free(struct file_op *op)
{
    struct file_op **at = &op->box->files;

    while (*at && *at != op)
        at = &(*at)->next;
    if (*at)
        *at = op->next;
    remote_call_cancel(op->call);
    if (op->exchange)
        http_call_cancel(op->exchange);
    buf_free(&op->held);
    sse_reader_free(&op->reader);
    free(op);
}

void remote_files_free(struct remote_box *box)
{
    while (box->files)
        op_free(box->files);
}

static void finish(struct file_op *op, int num)
{
    remote_warden_done(op->box, op->id, num);
    op_free(op);
}

static struct file_op *op_new(struct remote_box *box, const struct frame *frame)
{
    struct file_op *op = calloc(1, sizeof(*op));

    if (!op)
        return NULL;
    op->box = box;
    op->id = frame->id;
    op->type = frame->type;
    op->held = BUF_INIT(16 * MIB);
    op->reader = SSE_READER_INIT(MIB);
    op->next = box->files;
    box->files = op;
    return op;
}

/* ---- entries ---- */

/* "2026-11-19T17:38:25.250Z"; 0: it is no time. */
static uint64_t time_ns(const char *text)
{
    struct tm tm = {0};
    unsigned ms = 0;
    time_t seconds;

    if (!text || sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d.%3u", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
                        &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &ms) < 6)
        return 0;
    tm.tm_year -= 1900;
    tm.tm_mon--;
    seconds = timegm(&tm);
    return seconds < 0 ? 0 : (uint64_t)seconds * 1000000000 + (uint64_t)ms * 1000000;
}

static uint32_t mode_of(const json_t *entry)
{
    const char *type = json_string_value(json_object_get(entry, "type"));
    const char *mode = json_string_value(json_object_get(entry, "mode"));
    const char *special = json_string_value(json_object_get(entry, "special"));
    uint32_t bits = mode ? (uint32_t)strtoul(mode, NULL, 8) & 07777 : 0;

    if (str_equal(type, "file"))
        return S_IFREG | bits;
    if (str_equal(type, "folder"))
        return S_IFDIR | bits;
    if (str_equal(type, "symlink"))
        return S_IFLNK | bits;
    if (str_equal(special, "fifo"))
        return S_IFIFO | bits;
    return (str_equal(special, "device") ? S_IFCHR : S_IFSOCK) | bits;
}

static void send_entry(struct file_op *op, const json_t *entry, const char *name)
{
    json_int_t bytes = json_integer_value(json_object_get(entry, "bytes"));
    uint64_t time = time_ns(json_string_value(json_object_get(entry, "modified_at")));
    struct message_path path = {.mode = entry ? mode_of(entry) : 0,
                                .bytes = bytes > 0 ? (uint64_t)bytes : 0,
                                .time_ns = time,
                                .offset = time,
                                .path = name,
                                .path_length = strlen(name)};
    uint8_t payload[LIMIT_PATH_BYTES + MESSAGE_PATH_HEADER];

    if (path.path_length <= LIMIT_PATH_BYTES)
        remote_warden_send(op->box, FRAME_ENTRY, op->id, payload,
                           message_path_pack(&path, payload, sizeof(payload)));
}

static void send_list(struct file_op *op, const json_t *json)
{
    json_t *entry;
    size_t i;

    json_array_foreach(json_object_get(json, "entries"), i, entry)
    {
        const char *name = json_string_value(json_object_get(entry, "name"));

        if (name && name[0] && i < LIMIT_LIST_ENTRIES)
            send_entry(op, entry, name);
    }
}

/* ---- calls with JSON ---- */

static void on_reply(void *ctx, const struct remote_reply *reply)
{
    struct file_op *op = ctx;
    int num = reply->err.num < 0 ? remote_result_errno(&reply->err) : 0;

    op->call = NULL;
    if (num == 0 && op->type == FRAME_LIST)
        send_list(op, reply->json);
    else if (num == 0 && op->type == FRAME_STAT)
        send_entry(op, reply->json, "");
    if (num == 0 && op->type == FRAME_LIST &&
        json_is_true(json_object_get(reply->json, "truncated")))
        num = -E2BIG;
    finish(op, num);
}

static void call(struct file_op *op, const char *method, const char *path, const json_t *json)
{
    struct remote_request request = {.method = method,
                                     .path = path,
                                     .json = json,
                                     .waits = true,
                                     .timeout_ms = 60000,
                                     .reply_max = op->type == FRAME_LIST ? REMOTE_REPLY_LONG : 0};

    op->call = remote_call_start(op->box->target, &request, on_reply, op);
    if (!op->call)
        finish(op, -ENOMEM);
}

/* "/v1/sessions/ID/files<what>?path=PATH". */
static int target(const struct file_op *op, const char *what, const char *path, struct buf *text)
{
    int r = buf_printf(text, "/v1/sessions/%s/files%s?path=", op->box->session, what);

    return r < 0 ? r : http_encode(text, path);
}

static const char *const wheres[] = {
    [FRAME_LIST] = "/list", [FRAME_STAT] = "/stat",   [FRAME_MKDIR] = "/mkdir",
    [FRAME_MOVE] = "/move", [FRAME_CHMOD] = "/chmod", [FRAME_WATCH] = "/watch"};

static void begin_get(struct file_op *op, const char *where, const struct message_path *message,
                      const char *path)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(TARGET_MAX);
    int r = target(op, where, path, &text);

    if (r == 0 && op->type == FRAME_LIST)
        r = buf_printf(&text, "&depth=%u", (unsigned)message->depth);
    if (r == 0 && op->type == FRAME_REMOVE && message->flags & REMOVE_TREE)
        r = buf_append_text(&text, "&recursive=true");
    if (r < 0)
        finish(op, r);
    else
        call(op, op->type == FRAME_REMOVE ? "DELETE" : "GET", buf_text(&text), NULL);
}

static void begin_post(struct file_op *op, json_t *json)
{
    char path[REMOTE_PATH_MAX];

    if (json)
        call(op, "POST", remote_box_path(op->box, path, "/files%s", wheres[op->type]), json);
    else
        finish(op, -EILSEQ);
    json_decref(json);
}

static void begin_mode(struct file_op *op, const struct message_path *message, const char *path)
{
    char mode[16];

    str_format(mode, sizeof(mode), "%04o", (unsigned)message->mode & 07777);
    begin_post(op, json_pack("{s:s, s:s}", "path", path, "mode", mode));
}

static int begin_move(struct remote_box *box, const struct frame *frame)
{
    struct message_move move;
    struct file_op *op;

    if (message_move_unpack(frame, &move) < 0 || !(op = op_new(box, frame)))
        return -EPROTO;
    begin_post(op, json_pack("{s:s%, s:s%}", "from", move.from, move.from_length, "to", move.to,
                             move.to_length));
    return 0;
}

/* ---- bytes ---- */

static int body_errno(struct file_op *op)
{
    CLEANUP(json_decrefp) json_t *json = json_parse(buf_text(&op->held), op->held.length, 0, NULL);
    struct error err = {0};

    remote_refused(op->box->target, op->status, json, &err);
    return remote_result_errno(&err);
}

static void on_status(void *ctx, unsigned status)
{
    struct file_op *op = ctx;
    struct message_path path = {.path = ""};
    uint8_t payload[MESSAGE_PATH_HEADER];
    const char *length = http_call_header(op->exchange, "Content-Length");

    op->status = status;
    if (op->type != FRAME_GET || status >= 300 || !length)
        return;
    path.mode = S_IFREG;
    path.bytes = strtoull(length, NULL, 10);
    remote_warden_send(op->box, FRAME_ENTRY, op->id, payload,
                       message_path_pack(&path, payload, sizeof(payload)));
}

/* ---- download ---- */

static void send_data(struct file_op *op)
{
    size_t room = WIRE_STREAM_WINDOW - (size_t)(op->sent - op->acked);
    size_t length = MIN(op->held.length, room);

    if (length > 0 && !remote_box_waits(op->box)) {
        remote_warden_send_bytes(op->box, FRAME_DATA, op->id, 0, op->sent, op->held.data, length);
        op->sent += length;
        buf_consume(&op->held, length);
    }
    if (op->exchange)
        http_call_pause(op->exchange, op->held.length > 0);
    if (op->is_ended && op->held.length == 0)
        finish(op, op->num);
}

static int on_get_data(void *ctx, const void *data, size_t length)
{
    struct file_op *op = ctx;

    if (op->status >= 300 && length > ERROR_BODY_MAX - MIN(op->held.length, ERROR_BODY_MAX))
        return -1;
    if (buf_append(&op->held, data, length) < 0)
        return -1;
    if (op->status < 300)
        send_data(op);
    return 0;
}

static void on_get_done(void *ctx, unsigned status, const struct error *err)
{
    struct file_op *op = ctx;

    (void)status;
    op->exchange = NULL;
    if (err->num < 0) {
        finish(op, -EIO);
    } else if (op->status >= 300) {
        finish(op, body_errno(op));
    } else {
        op->is_ended = true;
        send_data(op);
    }
}

static const struct http_call_events get_events = {
    .status = on_status, .data = on_get_data, .done = on_get_done};

static void begin_download(struct file_op *op, const struct message_path *message, const char *path)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(TARGET_MAX);
    struct http_call http = {.method = "GET", .body_total = -1};
    struct error err = {0};
    int r = target(op, "", path, &text);

    if (r == 0 && (message->offset > 0 || message->bytes > 0))
        r = buf_printf(&text, "&offset=%llu", (unsigned long long)message->offset);
    if (r == 0 && message->bytes > 0)
        r = buf_printf(&text, "&length=%llu", (unsigned long long)message->bytes);
    http.path = buf_text(&text);
    if (r == 0)
        r = http_call_start(op->box->target->client, &http, &get_events, op, &op->exchange, &err);
    if (r < 0)
        finish(op, r);
}

/* ---- upload ---- */

static long on_body(void *ctx, void *data, size_t size)
{
    struct file_op *op = ctx;
    size_t length = MIN(size, op->held.length);
    struct message_ack ack;
    uint8_t payload[9];

    if (op->is_over) /* `held` is the reply: the server does not want the rest */
        return op->is_ended ? 0 : -1;
    if (length == 0)
        return op->is_ended ? 0 : -EAGAIN;
    memcpy(data, op->held.data, length);
    buf_consume(&op->held, length);
    op->acked += length;
    ack = (struct message_ack){.offset = op->acked};
    remote_warden_send(op->box, FRAME_ACK, op->id, payload,
                       message_ack_pack(&ack, payload, sizeof(payload)));
    return (long)length;
}

static int on_put_data(void *ctx, const void *data, size_t length)
{
    struct file_op *op = ctx;

    if (!op->is_over)
        buf_clear(&op->held); /* the reply: what was not sent is not wanted */
    op->is_over = true;
    return op->held.length + length > ERROR_BODY_MAX ? -1 : buf_append(&op->held, data, length);
}

/* PUT_END still comes if it failed early: the frame for an operation that is gone is ignored. */
static void on_put_done(void *ctx, unsigned status, const struct error *err)
{
    struct file_op *op = ctx;

    op->exchange = NULL;
    op->status = status;
    finish(op, err->num < 0 ? -EIO : status >= 300 ? body_errno(op) : op->is_ended ? 0 : -EIO);
}

static const struct http_call_events put_events = {.data = on_put_data, .done = on_put_done};

/* A file of /tmp/data is a dataset there: the guest of a local box cannot change it either. */
static int put_target(struct file_op *op, const struct message_path *message, const char *path,
                      struct buf *text)
{
    int r;

    if (str_starts(path, DATA_FOLDER) && !strchr(path + strlen(DATA_FOLDER), '/')) {
        const char *name = path + strlen(DATA_FOLDER);
        CLEANUP(freep) char *stem = strndup(name, strlen(name) - (str_ends(name, ".csv") ? 4 : 0));

        r = buf_printf(text, "/v1/sessions/%s/datasets/", op->box->session);
        return r < 0 ? r : stem ? http_encode(text, stem) : -ENOMEM;
    }
    r = target(op, "", path, text);
    if (r == 0 && message->mode)
        r = buf_printf(text, "&mode=%04o", (unsigned)message->mode & 07777);
    if (r == 0 && message->flags & PUT_NEW)
        r = buf_append_text(text, "&new=true");
    if (r == 0 && message->flags & PUT_IN_PLACE)
        r = buf_printf(text, "&offset=%llu", (unsigned long long)message->offset);
    return r;
}

static void begin_upload(struct file_op *op, const struct message_path *message, const char *path)
{
    static const char *const headers[] = {"Content-Type: application/octet-stream",
                                          "Expect:", NULL};
    CLEANUP(buf_free) struct buf text = BUF_INIT(TARGET_MAX);
    struct http_call http = {.method = "PUT",
                             .headers = headers,
                             .body_read = on_body,
                             .body_ctx = op,
                             .body_total = -1};
    struct error err = {0};
    int r = put_target(op, message, path, &text);

    http.path = buf_text(&text);
    if (r == 0)
        r = http_call_start(op->box->target->client, &http, &put_events, op, &op->exchange, &err);
    if (r < 0)
        finish(op, r);
}

static int on_put_frame(struct remote_box *box, const struct frame *frame)
{
    struct file_op *op = find(box, frame->id);
    struct message_bytes bytes;

    if (!op || op->is_over) /* it failed early */
        return 0;
    if (op->type != FRAME_PUT || op->is_ended)
        return -EPROTO;
    if (frame->type == FRAME_PUT_DATA) {
        if (message_bytes_unpack(frame, &bytes) < 0 || bytes.offset != op->received ||
            buf_append(&op->held, bytes.data, bytes.length) < 0)
            return -EPROTO;
        op->received += bytes.length;
    } else {
        op->is_ended = true;
    }
    if (op->exchange)
        http_call_more(op->exchange);
    return 0;
}

/* ---- changes ---- */

static void send_change(struct file_op *op, const json_t *json)
{
    static const char *const kinds[_CHANGE_KIND_MAX] = {
        [CHANGE_CREATED] = "created",       [CHANGE_WRITTEN] = "written",
        [CHANGE_REMOVED] = "removed",       [CHANGE_RENAMED_FROM] = "renamed_from",
        [CHANGE_RENAMED_TO] = "renamed_to", [CHANGE_ATTRIBUTES] = "attributes",
        [CHANGE_OVERFLOW] = "overflow",
    };
    const char *kind = json_string_value(json_object_get(json, "kind"));
    const char *path = json_string_value(json_object_get(json, "path"));
    struct message_changed changed = {
        .is_folder = str_equal(json_string_value(json_object_get(json, "type")), "folder")};
    uint8_t payload[LIMIT_PATH_BYTES + 16];

    while (changed.kind < _CHANGE_KIND_MAX && !str_equal(kinds[changed.kind], kind))
        changed.kind++;
    if (changed.kind == _CHANGE_KIND_MAX)
        return;
    changed.path = path && changed.kind != CHANGE_OVERFLOW ? path : "";
    changed.path_length = strlen(changed.path);
    if ((changed.path_length == 0) != (changed.kind == CHANGE_OVERFLOW) ||
        changed.path_length > LIMIT_PATH_BYTES)
        return;
    remote_warden_send(op->box, FRAME_CHANGED, op->id, payload,
                       message_changed_pack(&changed, payload, sizeof(payload)));
}

static void on_change(void *ctx, const char *id, const char *event, const char *data, size_t length)
{
    struct file_op *op = ctx;
    CLEANUP(json_decrefp) json_t *json = json_parse(data, length, 0, NULL);

    (void)id;
    if (str_equal(event, "ready"))
        send_entry(op, NULL, "");
    else if (str_equal(event, "change") && json)
        send_change(op, json);
}

static int on_watch_data(void *ctx, const void *data, size_t length)
{
    struct file_op *op = ctx;

    if (op->status < 300) {
        if (sse_read(&op->reader, data, length, on_change, op) < 0)
            return -1;
        http_call_pause(op->exchange, remote_box_waits(op->box)); /* until remote_files_pump() */
        return 0;
    }
    return op->held.length + length > ERROR_BODY_MAX ? -1 : buf_append(&op->held, data, length);
}

static void on_watch_done(void *ctx, unsigned status, const struct error *err)
{
    struct file_op *op = ctx;

    (void)status;
    op->exchange = NULL;
    finish(op, err->num == 0 && op->status >= 300 ? body_errno(op) : -EPIPE);
}

static const struct http_call_events watch_events = {
    .status = on_status, .data = on_watch_data, .done = on_watch_done};

static void begin_watch(struct file_op *op, const struct message_path *message, const char *path)
{
    static const char *const headers[] = {"Accept: text/event-stream", NULL};
    CLEANUP(buf_free) struct buf text = BUF_INIT(TARGET_MAX);
    struct http_call http = {.method = "GET", .headers = headers, .body_total = -1};
    struct error err = {0};
    int r = target(op, "/watch", path, &text);

    if (r == 0 && message->flags & WATCH_TREE)
        r = buf_append_text(&text, "&recursive=true");
    http.path = buf_text(&text);
    if (r == 0)
        r = http_call_start(op->box->target->client, &http, &watch_events, op, &op->exchange, &err);
    if (r < 0)
        finish(op, r);
}

/* ---- frames ---- */

static int begin(struct remote_box *box, const struct frame *frame)
{
    struct message_path message;
    struct file_op *op;
    char path[LIMIT_PATH_BYTES + 1];

    if (message_path_unpack(frame, &message) < 0 || message.path_length > LIMIT_PATH_BYTES ||
        find(box, frame->id) || !(op = op_new(box, frame)))
        return -EPROTO;
    memcpy(path, message.path, message.path_length);
    path[message.path_length] = 0;
    switch (frame->type) {
    case FRAME_PUT:
        begin_upload(op, &message, path);
        return 0;
    case FRAME_GET:
        begin_download(op, &message, path);
        return 0;
    case FRAME_WATCH:
        begin_watch(op, &message, path);
        return 0;
    case FRAME_MKDIR:
    case FRAME_CHMOD:
        begin_mode(op, &message, path);
        return 0;
    case FRAME_REMOVE:
        begin_get(op, "", &message, path);
        return 0;
    default:
        begin_get(op, wheres[frame->type], &message, path);
        return 0;
    }
}

static int on_ack(struct remote_box *box, const struct frame *frame)
{
    struct file_op *op = find(box, frame->id);
    struct message_ack ack;

    if (!op)
        return 0; /* of one that has ended */
    if (op->type != FRAME_GET || message_ack_unpack(frame, &ack) < 0 || ack.offset > op->sent)
        return -EPROTO;
    op->acked = MAX(op->acked, ack.offset);
    send_data(op);
    return 0;
}

int remote_files_frame(struct remote_box *box, const struct frame *frame)
{
    struct file_op *op;

    switch (frame->type) {
    case FRAME_PUT:
    case FRAME_GET:
    case FRAME_LIST:
    case FRAME_STAT:
    case FRAME_MKDIR:
    case FRAME_REMOVE:
    case FRAME_CHMOD:
    case FRAME_WATCH:
        return begin(box, frame);
    case FRAME_MOVE:
        return begin_move(box, frame);
    case FRAME_PUT_DATA:
    case FRAME_PUT_END:
        return on_put_frame(box, frame);
    case FRAME_ACK:
        return on_ack(box, frame);
    case FRAME_CANCEL:
        op = find(box, frame->id);
        if (op)
            finish(op, -ECANCELED);
        return 0;
    default:
        return -EPROTO;
    }
}

void remote_files_pump(struct remote_box *box)
{
    struct file_op *next;

    for (struct file_op *op = box->files; op; op = next) {
        next = op->next;
        if (op->type == FRAME_GET && op->status > 0 && op->status < 300)
            send_data(op);
        else if (op->type == FRAME_WATCH && op->exchange)
            http_call_pause(op->exchange, false);
    }
}
