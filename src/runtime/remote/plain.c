/*
 * plain.c - a box of a server that has POST /execute only (docs/execute.md): files that are put are
 * kept here until a command comes, which is one call with all of them, and what the reply has
 * is what there is to read afterwards; see remote_private.h.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "config/config.h"
#include "runtime/remote/remote_private.h"
#include "sandbox/guest_stage.h"
#include "wire/file_message.h"

#define FILES_BYTES (10 * MIB) /* what the server takes */
#define FILES_MAX 256
#define OUTPUTS_MAX 1000 /* files that are taken from a reply */
#define WORKSPACE "/workspace/"
#define OUTPUT "/tmp/output"
#define GRACE_S 10 /* the engine's own deadline comes first */

struct plain_file {
    struct plain_file *next;
    char path[LIMIT_PATH_BYTES + 1];
    uint32_t id; /* of its PUT */
    struct buf data;
};

/* Bytes on their way to the broker, as far as its window goes. */
struct plain_send {
    struct plain_send *next;
    enum frame_type type; /* FRAME_OUTPUT or FRAME_DATA */
    uint32_t id;
    uint8_t stream;
    struct buf data;
    uint64_t sent, acked;
};

struct plain {
    struct plain_send *sends;
    struct message_exited exited;
    bool has_end; /* `exited` is known, and told when all output is sent */
    struct plain_file *files, *outputs;
    size_t count;
    uint32_t id; /* of the command; 0: none yet */
    struct remote_strings strings;
    struct remote_call *call;
    uint64_t began_ns;
};

/* ---- files ---- */

static void free_files(struct plain_file **list)
{
    while (*list) {
        struct plain_file *file = *list;

        *list = file->next;
        buf_free(&file->data);
        free(file);
    }
}

static struct plain_file *add_file(struct plain_file **list, const char *path, size_t length)
{
    struct plain_file *file = calloc(1, sizeof(*file));

    if (!file)
        return NULL;
    memcpy(file->path, path, MIN(length, (size_t)LIMIT_PATH_BYTES));
    file->data = BUF_INIT(64 * MIB);
    file->next = *list;
    *list = file;
    return file;
}

static struct plain_file *find_path(struct plain_file *list, const char *path)
{
    while (list && !str_equal(list->path, path))
        list = list->next;
    return list;
}

/* A file that was put, by its path or by its name in the working folder. */
static struct plain_file *find_source(const struct plain *plain, const char *text)
{
    struct plain_file *file = plain->files;

    while (file && (!file->path[0] || (!str_equal(file->path, text) &&
                                       !str_equal(file->path + strlen(WORKSPACE), text))))
        file = file->next;
    return file;
}

static struct plain_file *find_put(struct plain *plain, uint32_t id)
{
    struct plain_file *file = plain->files;

    while (file && file->id != id)
        file = file->next;
    return file;
}

/* ---- bytes to the broker ---- */

static void send_free(struct plain *plain, struct plain_send *send)
{
    struct plain_send **at = &plain->sends;

    while (*at != send)
        at = &(*at)->next;
    *at = send->next;
    buf_free(&send->data);
    free(send);
}

static void drop_output(struct plain *plain)
{
    struct plain_send *next;

    for (struct plain_send *send = plain->sends; send; send = next) {
        next = send->next;
        if (send->type == FRAME_OUTPUT)
            send_free(plain, send);
    }
}

static bool has_output(const struct plain *plain)
{
    for (const struct plain_send *send = plain->sends; send; send = send->next) {
        if (send->type == FRAME_OUTPUT)
            return true;
    }
    return false;
}

static void pump(struct remote_box *box)
{
    struct plain *plain = box->plain;
    struct plain_send *next;
    uint8_t payload[128];

    for (struct plain_send *send = plain->sends; send; send = next) {
        size_t room = WIRE_STREAM_WINDOW - (size_t)(send->sent - send->acked);
        size_t part = MIN(room, send->data.length - (size_t)send->sent);

        next = send->next;
        remote_warden_send_bytes(box, send->type, send->id, send->stream, send->sent,
                                 buf_text(&send->data) + send->sent, part);
        send->sent += part;
        if (send->sent < send->data.length)
            continue;
        if (send->type == FRAME_DATA)
            remote_warden_done(box, send->id, 0);
        send_free(plain, send);
    }
    if (!plain->has_end || has_output(plain))
        return;
    plain->has_end = false;
    remote_warden_send(box, FRAME_EXITED, plain->id, payload,
                       message_exited_pack(&plain->exited, payload, sizeof(payload)));
}

/* Without memory the box is lost. */
static void send_later(struct remote_box *box, enum frame_type type, uint32_t id, uint8_t stream,
                       const void *data, size_t length)
{
    struct plain_send *send = calloc(1, sizeof(*send));

    if (send) {
        *send = (struct plain_send){.next = box->plain->sends,
                                    .type = type,
                                    .id = id,
                                    .stream = stream,
                                    .data = BUF_INIT(64 * MIB)};
        box->plain->sends = send;
    }
    if (!send || buf_append(&send->data, data, length) < 0)
        remote_box_lose(box, false, "no memory for output");
}

/* A download or an upload; one that has ended is not there. */
static void cancel(struct remote_box *box, uint32_t id)
{
    struct plain_send *send = box->plain->sends;
    struct plain_file *put = find_put(box->plain, id);

    while (send && (send->id != id || send->type != FRAME_DATA))
        send = send->next;
    if (!send && (!put || id == 0))
        return;
    if (send)
        send_free(box->plain, send);
    else
        put->id = 0;
    remote_warden_done(box, id, -ECANCELED);
}

static int on_ack(struct remote_box *box, const struct frame *frame)
{
    struct plain_send *send = box->plain->sends;
    struct message_ack ack;

    if (message_ack_unpack(frame, &ack) < 0)
        return -EPROTO;
    while (send && (send->id != frame->id || send->stream != ack.stream))
        send = send->next;
    if (!send) /* all of it was sent */
        return 0;
    if (ack.offset > send->sent)
        return -EPROTO;
    send->acked = MAX(send->acked, ack.offset);
    pump(box);
    return 0;
}

int remote_plain_open(struct remote_box *box)
{
    box->plain = calloc(1, sizeof(*box->plain));
    return box->plain ? 0 : -ENOMEM;
}

void remote_plain_free(struct remote_box *box)
{
    struct plain *plain = box->plain;

    if (!plain)
        return;
    remote_call_cancel(plain->call);
    while (plain->sends)
        send_free(plain, plain->sends);
    free_files(&plain->files);
    free_files(&plain->outputs);
    remote_strings_free(&plain->strings);
    free(plain);
    box->plain = NULL;
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

static int put(struct remote_box *box, const struct frame *frame)
{
    struct plain *plain = box->plain;
    struct message_path message;
    struct plain_file *file;

    if (message_path_unpack(frame, &message) < 0 || message.path_length > LIMIT_PATH_BYTES)
        return -EPROTO;
    file = plain->count++ < FILES_MAX ? add_file(&plain->files, message.path, message.path_length)
                                      : NULL;
    if (!file) {
        remote_warden_done(box, frame->id, -ENOSPC);
        return 0;
    }
    file->id = frame->id;
    /* It keeps base names in one folder. */
    if (!str_starts(file->path, WORKSPACE) || strchr(file->path + strlen(WORKSPACE), '/')) {
        file->id = 0;
        file->path[0] = 0;
        remote_warden_done(box, frame->id, -ENOTSUP);
    }
    return 0;
}

static int put_more(struct remote_box *box, const struct frame *frame)
{
    struct plain_file *file = find_put(box->plain, frame->id);
    struct message_bytes bytes;
    struct message_ack ack;
    uint8_t payload[9];

    if (!file || file->id == 0)
        return 0; /* it was refused */
    if (frame->type == FRAME_PUT_END) {
        file->id = 0;
        remote_warden_done(box, frame->id, 0);
        return 0;
    }
    if (message_bytes_unpack(frame, &bytes) < 0)
        return -EPROTO;
    if (file->data.length + bytes.length > FILES_BYTES ||
        buf_append(&file->data, bytes.data, bytes.length) < 0) {
        file->id = 0;
        remote_warden_done(box, frame->id, -EFBIG);
        return 0;
    }
    ack = (struct message_ack){.offset = file->data.length};
    remote_warden_send(box, FRAME_ACK, frame->id, payload,
                       message_ack_pack(&ack, payload, sizeof(payload)));
    return 0;
}

static void send_entry(struct remote_box *box, uint32_t id, const char *name, size_t bytes)
{
    uint8_t payload[LIMIT_PATH_BYTES + MESSAGE_PATH_HEADER];
    struct message_path path = {.mode = S_IFREG | 0644,
                                .bytes = bytes,
                                .time_ns = box->plain->began_ns,
                                .offset = box->plain->began_ns,
                                .path = name,
                                .path_length = strlen(name)};

    remote_warden_send(box, FRAME_ENTRY, id, payload,
                       message_path_pack(&path, payload, sizeof(payload)));
}

static int list(struct remote_box *box, const struct frame *frame, const char *path)
{
    if (!str_equal(path, OUTPUT)) {
        remote_warden_done(box, frame->id, -ENOTSUP);
        return 0;
    }
    for (struct plain_file *file = box->plain->outputs; file; file = file->next)
        send_entry(box, frame->id, base_name(file->path), file->data.length);
    remote_warden_done(box, frame->id, 0);
    return 0;
}

static int get(struct remote_box *box, const struct frame *frame, const char *path,
               const struct message_path *message)
{
    struct plain_file *file = find_path(box->plain->outputs, path);
    size_t offset, length;

    if (!file) {
        remote_warden_done(box, frame->id, -ENOENT);
        return 0;
    }
    offset = (size_t)MIN(message->offset, (uint64_t)file->data.length);
    length = file->data.length - offset;
    if (message->bytes > 0)
        length = (size_t)MIN(message->bytes, (uint64_t)length);
    send_entry(box, frame->id, "", length);
    send_later(box, FRAME_DATA, frame->id, 0, buf_text(&file->data) + offset, length);
    pump(box);
    return 0;
}

static int read_file(struct remote_box *box, const struct frame *frame)
{
    char path[LIMIT_PATH_BYTES + 1];
    struct message_path message;

    if (message_path_unpack(frame, &message) < 0 || message.path_length > LIMIT_PATH_BYTES)
        return -EPROTO;
    memcpy(path, message.path, message.path_length);
    path[message.path_length] = 0;
    return frame->type == FRAME_LIST ? list(box, frame, path) : get(box, frame, path, &message);
}

/* ---- the call ---- */

/* 'text', for a shell. */
static int add_quoted(struct buf *code, const char *text)
{
    int r = buf_append_text(code, "'");

    for (; *text && r == 0; text++)
        r = *text == '\'' ? buf_append_text(code, "'\\''") : buf_append(code, text, 1);
    return r < 0 ? r : buf_append_text(code, "'");
}

/* The command as a line of a shell, after its variables. */
static int shell_code(const struct plain *plain, struct buf *code)
{
    const char *name;
    json_t *value;
    size_t i;
    int r = 0;

    json_object_foreach(plain->strings.env, name, value)
    {
        r = r < 0 ? r : buf_printf(code, "export %s=", name);
        r = r < 0 ? r : add_quoted(code, json_string_value(value));
        r = r < 0 ? r : buf_append_text(code, "\n");
    }
    json_array_foreach(plain->strings.argv, i, value)
    {
        const char *text = json_string_value(value);
        bool is_file = find_source(plain, text);

        r = r < 0 ? r : buf_append_text(code, i == 0 ? "exec " : " ");
        r = r < 0 ? r : add_quoted(code, is_file ? base_name(text) : text);
    }
    return r;
}

/* JSON of texts is Python, too. */
static int python_code(const struct plain *plain, const char *file, struct buf *code)
{
    CLEANUP(freep) char *env = json_dumps(plain->strings.env, JSON_ENSURE_ASCII);
    CLEANUP(freep) char *argv = json_dumps(plain->strings.argv, JSON_ENSURE_ASCII);
    CLEANUP(json_decrefp) json_t *quoted = json_string(file);
    CLEANUP(freep)
    char *name = quoted ? json_dumps(quoted, JSON_ENSURE_ASCII | JSON_ENCODE_ANY) : NULL;

    if (!env || !argv || !name)
        return -ENOMEM;
    return buf_printf(code,
                      "import os, runpy, sys\nos.environ.update(%s)\nsys.argv = %s[1:]\n"
                      "runpy.run_path(%s, run_name='__main__')\n",
                      env, argv, name);
}

/* Which member `language` a program is. */
static const char *language_of(const char *program)
{
    const char *name = base_name(program);

    if (str_starts(name, "python"))
        return "python";
    if (str_starts(name, "node"))
        return "javascript";
    return str_equal(name, "bash") || str_equal(name, "sh") ? "bash" : NULL;
}

/* The source as it is, where nothing has to be said besides it. */
static int fill_code(const struct plain *plain, json_t *json, const struct plain_file **source)
{
    const char *program = json_string_value(json_array_get(plain->strings.argv, 0));
    const char *first = json_string_value(json_array_get(plain->strings.argv, 1));
    const char *language = language_of(program);
    struct plain_file *file = first ? find_source(plain, first) : NULL;
    CLEANUP(buf_free) struct buf code = BUF_INIT(LIMIT_CODE_BYTES + 64 * KIB);
    bool is_simple =
        json_array_size(plain->strings.argv) == 2 && json_object_size(plain->strings.env) == 0;
    int r = 0;

    if (file && language && is_simple) {
        *source = file;
        r = buf_append(&code, file->data.data, file->data.length);
    } else if (file && str_equal(language, "python")) {
        r = python_code(plain, base_name(file->path), &code);
    } else {
        language = "bash";
        r = shell_code(plain, &code);
    }
    if (r == 0 &&
        (json_object_set_new(json, "language", json_string(language)) < 0 ||
         json_object_set_new(json, "code", json_stringn(buf_text(&code), code.length)) < 0))
        r = -EILSEQ;
    return r;
}

static int fill_files(const struct plain *plain, json_t *json, const struct plain_file *source)
{
    CLEANUP(json_decrefp) json_t *files = json_object();
    int r = files ? 0 : -ENOMEM;

    for (const struct plain_file *file = plain->files; file && r == 0; file = file->next) {
        CLEANUP(buf_free) struct buf text = BUF_INIT(2 * FILES_BYTES);

        if (file == source || !file->path[0])
            continue;
        r = base64_encode(file->data.data, file->data.length, &text);
        if (r == 0 &&
            json_object_set_new(files, base_name(file->path), json_string(buf_text(&text))) < 0)
            r = -EILSEQ;
    }
    return r == 0 && json_object_size(files) > 0 ? json_object_set(json, "files", files) : r;
}

/* ---- the end ---- */

static void send_text(struct remote_box *box, uint8_t stream, const json_t *text, const char *note,
                      uint64_t *ret)
{
    CLEANUP(buf_free) struct buf all = BUF_INIT(REMOTE_REPLY_LONG + KIB);
    const char *said = json_string_value(text);

    if ((said && buf_append(&all, said, json_string_length(text)) < 0) ||
        buf_append_text(&all, note) < 0) {
        remote_box_lose(box, false, "no memory for output");
        return;
    }
    *ret = all.length;
    if (*ret > 0)
        send_later(box, FRAME_OUTPUT, box->plain->id, stream, all.data, all.length);
}

/* Told behind the output. */
static void send_exited(struct remote_box *box, const struct message_exited *exited)
{
    box->plain->exited = *exited;
    box->plain->has_end = true;
    pump(box);
}

/* What was left out is in `note`. */
static void take_outputs(struct plain *plain, json_t *produced, char note[256])
{
    const char *name;
    json_t *value;
    size_t count = 0;

    note[0] = 0;
    json_object_foreach(produced, name, value)
    {
        char path[LIMIT_PATH_BYTES + 1];
        struct plain_file *file;
        const char *text = json_string_value(value);

        if (count++ == OUTPUTS_MAX) {
            str_format(note, 256,
                       "bailey: the server of SANDBOX_URL sent %zu output files, and the first %d "
                       "of them were taken\n",
                       json_object_size(produced), OUTPUTS_MAX);
            return;
        }
        if (!text || !name[0] || strchr(name, '/') || str_equal(name, ".") ||
            str_equal(name, "..") || str_format(path, sizeof(path), OUTPUT "/%s", name) < 0)
            continue;
        file = add_file(&plain->outputs, path, strlen(path));
        if (file && base64_decode(text, strlen(text), &file->data) < 0)
            buf_clear(&file->data);
    }
}

static void on_executed(void *ctx, const struct remote_reply *reply)
{
    struct remote_box *box = ctx;
    struct plain *plain = box->plain;
    json_t *code = json_object_get(reply->json, "exit_code");
    struct message_exited exited = {.flags = EXITED_HAS_OUTPUT};
    char note[256];

    plain->call = NULL;
    if (reply->err.num < 0 || !json_is_integer(code)) {
        remote_box_lose(box, reply->status == 0,
                        reply->err.num < 0 ? reply->err.text
                                           : "the reply of POST /execute has no exit_code");
        return;
    }
    take_outputs(plain, json_object_get(reply->json, "files_produced"), note);
    send_text(box, 1, json_object_get(reply->json, "stdout"), "", &exited.out_bytes);
    send_text(box, 2, json_object_get(reply->json, "stderr"), note, &exited.err_bytes);
    exited.exit_code =
        json_integer_value(code) < 0 ? 1 : (int32_t)(json_integer_value(code) & 0xff);
    exited.duration_ns =
        (uint64_t)MAX(json_integer_value(json_object_get(reply->json, "execution_time_ms")),
                      (json_int_t)0) *
        1000000;
    send_exited(box, &exited);
}

static int execute(struct remote_box *box)
{
    struct plain *plain = box->plain;
    const struct config *config = box->remote->config;
    CLEANUP(json_decrefp)
    json_t *json = json_pack("{s:I}", "timeout_seconds",
                             (json_int_t)(config->limits.timeout_ms / 1000 + GRACE_S));
    const struct plain_file *source = NULL;
    struct message_started started = {.start_ns = clock_now_ns()};
    struct remote_request request = {.method = "POST",
                                     .path = "/execute",
                                     .json = json,
                                     .is_once = true,
                                     .reply_max = REMOTE_REPLY_LONG,
                                     .timeout_ms = UINT32_MAX / 2};
    uint8_t payload[32];
    int r = json ? fill_code(plain, json, &source) : -ENOMEM;

    if (r == 0)
        r = fill_files(plain, json, source);
    if (r < 0)
        return r;
    plain->began_ns = started.start_ns;
    plain->call = remote_call_start(box->target, &request, on_executed, box);
    if (!plain->call)
        return -ENOMEM;
    remote_warden_send(box, FRAME_STARTED, plain->id, payload,
                       message_started_pack(&started, payload, sizeof(payload)));
    return 0;
}

static void refuse(struct remote_box *box, uint32_t id, int number)
{
    struct message_fail fail = {.stage = GUEST_STAGE_EXEC, .error = (uint16_t)number};
    uint8_t payload[16];

    remote_warden_send(box, FRAME_NOEXEC, id, payload,
                       message_fail_pack(&fail, payload, sizeof(payload)));
}

/* Two commands at once, a terminal and input are more than one call can be. */
static int exec(struct remote_box *box, const struct frame *frame)
{
    struct plain *plain = box->plain;
    struct message_exec message;
    int r;

    if (message_exec_unpack(frame, &message) < 0)
        return -EPROTO;
    if (plain->call || plain->has_end || message.flags & (EXEC_STDIN | EXEC_PTY | EXEC_KERNEL)) {
        buf_clear(&box->args);
        refuse(box, frame->id, ENOTSUP);
        return 0;
    }
    remote_strings_free(&plain->strings);
    plain->strings = (struct remote_strings){0};
    r = remote_strings_read(box, &message, &plain->strings);
    buf_clear(&box->args);
    if (r == -EPROTO)
        return r;
    plain->id = frame->id;
    if (r == 0)
        r = execute(box);
    if (r < 0)
        refuse(box, frame->id, -r);
    return 0;
}

/* The call ends, and what it printed is not known. */
static void end(struct remote_box *box, int number)
{
    struct message_exited exited = {.signal = (uint32_t)number};

    remote_call_cancel(box->plain->call);
    box->plain->call = NULL;
    drop_output(box->plain);
    send_exited(box, &exited);
}

int remote_plain_frame(struct remote_box *box, const struct frame *frame)
{
    struct plain *plain = box->plain;

    switch (frame->type) {
    case FRAME_PUT:
        return put(box, frame);
    case FRAME_PUT_DATA:
    case FRAME_PUT_END:
        return put_more(box, frame);
    case FRAME_LIST:
    case FRAME_GET:
        return read_file(box, frame);
    case FRAME_EXEC:
        return exec(box, frame);
    case FRAME_SIGNAL:
        if (frame->id == plain->id && plain->call)
            end(box, SIGKILL);
        return 0;
    case FRAME_ACK:
        return on_ack(box, frame);
    case FRAME_CANCEL:
        cancel(box, frame->id);
        return 0;
    case FRAME_STAT:
    case FRAME_MKDIR:
    case FRAME_MOVE:
    case FRAME_REMOVE:
    case FRAME_CHMOD:
    case FRAME_WATCH:
    case FRAME_CONNECT:
    case FRAME_PORTS:
    case FRAME_FREEZE:
    case FRAME_THAW:
        remote_warden_done(box, frame->id, -ENOTSUP);
        return 0;
    case FRAME_CELL:
        buf_clear(&box->args);
        refuse(box, frame->id, ENOTSUP);
        return 0;
    case FRAME_HELLO: /* a box of a run: no later broker takes it over */
        remote_box_lose(box, false, "a run of POST /execute cannot be taken over");
        return 0;
    default:
        return 0;
    }
}
