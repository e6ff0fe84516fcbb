/*
 * http_files.c - outputs and files of sessions for MCP over HTTP; see http_host.h.
 *
 * A file is first requested from the box, which has the newest version; if it is not there, or the
 * session has ended, a saved output of the same name is used.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/front/auth.h"
#include "api/mcp/http_host.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "session/session.h"
#include "session/session_manager.h"
#include "tool/file_path.h"

#define OUTPUT_FOLDER "/tmp/output/"
#define PIECE (64 * KIB)

int mcp_engine_list(void *ctx, const struct mcp_asker *asker, struct mcp_work *work,
                    struct error *err)
{
    CLEANUP(json_decrefp) json_t *json = NULL;
    struct mcp_engine *host = ctx;
    const char *own = asker->own && (*asker->own)[0] ? *asker->own : NULL;
    struct session *session;
    struct error gone = {0};

    if (!own || auth_session(host->auth, &asker->caller.who, own, true, &session, &gone) < 0) {
        mcp_work_listed(work, NULL, NULL); /* no session was created yet */
        return 0;
    }
    json = session_outputs_json(session);
    if (!json)
        return error_memory(err);
    mcp_work_listed(work, own, json_object_get(json, "outputs"));
    return 0;
}

/* ---- reading ---- */

struct reading {
    struct mcp_task task;
    struct session *session; /* live: its box is asked */
    struct box *box;
    uint32_t op; /* 0: none */
    bool waits_for_box, is_too_large, is_list_cut;
    size_t maximum;
    char path[LIMIT_PATH_BYTES + 1];
    struct buf data;
    /* Its bytes count for the tenant while they are here. */
    struct session_manager *manager;
    char tenant[TENANT_MAX];
    size_t held;
    struct error refused;
};

static void reading_free(struct reading *reading)
{
    if (reading->waits_for_box)
        session_box_cancel(reading->session, reading);
    if (reading->op)
        box_cancel(reading->box, reading->op);
    session_manager_release(reading->manager, reading->tenant, reading->held);
    buf_free(&reading->data);
    free(reading);
}

static void reading_cancel(struct mcp_engine *host, struct mcp_task *task, bool is_left)
{
    (void)host;
    (void)is_left;
    reading_free((struct reading *)task);
}

static void reading_done(struct reading *reading, enum mcp_read_kind kind)
{
    CLEANUP(buf_free) struct buf data = reading->data;
    struct mcp_work *work = reading->task.work;

    reading->data = (struct buf){0};
    mcp_work_attach(work, NULL);
    reading_free(reading);
    mcp_work_read(work, kind, buf_text(&data), data.length);
}

static void reading_missing(struct reading *reading, const struct error *err)
{
    buf_clear(&reading->data);
    buf_append_text(&reading->data, err->text);
    reading_done(reading, MCP_READ_MISSING);
}

/*
 * Reads a saved output of a session that may have ended; false: there is none of this name, or it
 * cannot be read.
 */
static bool read_saved(struct reading *reading, struct session *session)
{
    CLEANUP(fd_closep) int fd = -1;
    struct stat status;
    struct error ignored = {0};

    if (!session || !str_starts(reading->path, OUTPUT_FOLDER))
        return false;
    fd = session_output_open(session, reading->path + strlen(OUTPUT_FOLDER), &ignored);
    if (fd < 0 || fstat(fd, &status) < 0)
        return false;
    if ((uint64_t)status.st_size > reading->maximum) {
        reading_done(reading, MCP_READ_TOO_LARGE);
        return true;
    }
    buf_clear(&reading->data);
    if (buf_read_fd(&reading->data, fd) < 0)
        return false;
    reading_done(reading, MCP_READ_FILE);
    return true;
}

/* A folder as lines: a slash after folders, sizes after files. */
static void on_entry(void *ctx, const struct box_entry *entry)
{
    struct reading *reading = ctx;
    struct buf *lines = &reading->data;
    int r = reading->is_list_cut ? -EFBIG : 0;

    if (strlen(entry->name) + 64 > lines->maximum - lines->length)
        r = -EFBIG; /* keeps room for the last line */
    if (r == 0 && S_ISREG(entry->mode))
        r = buf_printf(lines, "%s\t%llu\n", entry->name,
                       (unsigned long long)(entry->bytes & INT64_MAX));
    else if (r == 0 && S_ISDIR(entry->mode))
        r = buf_printf(lines, "%s/\n", entry->name);
    else if (r == 0)
        r = buf_printf(lines, "%s\t(%s)\n", entry->name,
                       S_ISLNK(entry->mode) ? "symlink" : "other");
    reading->is_list_cut |= r < 0;
}

static void on_listed(void *ctx, const struct error *err)
{
    struct reading *reading = ctx;
    struct error told = {0};

    reading->op = 0;
    reading->is_list_cut |= err->num == -E2BIG;
    if (err->num < 0 && err->num != -E2BIG) {
        file_error(err, reading->path, &told);
        reading_missing(reading, &told);
        return;
    }
    if (reading->is_list_cut)
        buf_append_text(&reading->data, "...\n");
    reading_done(reading, MCP_READ_FOLDER);
}

static void read_folder(struct reading *reading)
{
    static const struct list_events events = {.entry = on_entry, .done = on_listed};
    struct error err = {0}, told = {0};

    buf_clear(&reading->data);
    if (box_list(reading->box, reading->path, 1, &events, reading, &reading->op, &err) == 0)
        return;
    reading->op = 0;
    file_error(&err, reading->path, &told);
    reading_missing(reading, &told);
}

static bool may_hold(struct reading *reading, size_t bytes)
{
    if (session_manager_hold(reading->manager, reading->tenant, bytes, &reading->refused) < 0)
        return false;
    reading->held += bytes;
    return true;
}

static size_t on_data(void *ctx, const void *data, size_t length)
{
    struct reading *reading = ctx;

    if (length > reading->maximum - MIN(reading->data.length, reading->maximum) ||
        !may_hold(reading, length) || buf_append(&reading->data, data, length) < 0)
        reading->is_too_large = true;
    return length; /* the rest is dropped; at most one byte above the maximum was requested */
}

static void on_got(void *ctx, const struct error *err)
{
    struct reading *reading = ctx;
    struct error told = {0};

    reading->op = 0;
    if (reading->refused.num < 0) {
        reading_missing(reading, &reading->refused);
        return;
    }
    if (err->num == 0) {
        reading_done(reading, reading->is_too_large ? MCP_READ_TOO_LARGE : MCP_READ_FILE);
        return;
    }
    file_error(err, reading->path, &told);
    if (str_equal(told.code, ERROR_PATH_IS_FOLDER))
        read_folder(reading);
    else if (!read_saved(reading, reading->session))
        reading_missing(reading, &told);
}

static void on_box(void *ctx, struct box *box, const struct error *failed)
{
    static const struct get_events events = {.data = on_data, .done = on_got};
    struct reading *reading = ctx;
    struct error err = {0};

    reading->waits_for_box = false;
    reading->box = box;
    if (!box) {
        if (!read_saved(reading, reading->session))
            reading_missing(reading, failed);
        return;
    }
    if (box_get(box, reading->path, 0, reading->maximum + 1, &events, reading, &reading->op, &err) <
        0)
        on_got(reading, &err);
}

/* MCP_LOG_FOLDER "3/stdout": the beginning of an execution's output. */
static void read_log(struct reading *reading, struct session *session)
{
    const char *number = reading->path + strlen(MCP_LOG_FOLDER);
    const char *slash = strchr(number, '/');
    int stream = str_equal(slash, "/stdout") ? 1 : str_equal(slash, "/stderr") ? 2 : 0;
    CLEANUP(freep) char *word = slash ? strndup(number, (size_t)(slash - number)) : NULL;
    CLEANUP(freep) char *piece = malloc(PIECE);
    struct execution *execution;
    struct error err = {.code = ERROR_PATH_NOT_FOUND, .text = "there is no such log"};
    uint64_t at;

    if (!stream || !word || !piece || session_find_execution(session, word, &execution, &err) < 0) {
        reading_missing(reading, &err);
        return;
    }
    at = execution_first(execution, stream);
    while (reading->data.length < reading->maximum) {
        size_t room = MIN((size_t)PIECE, reading->maximum - reading->data.length);
        ssize_t count = execution_read(execution, stream, at, piece, room);

        if (count <= 0 || buf_append(&reading->data, piece, (size_t)count) < 0)
            break;
        at += (uint64_t)count;
    }
    reading_done(reading, MCP_READ_FILE);
}

static void begin(struct reading *reading, struct mcp_engine *host, const struct principal *who,
                  const char *word)
{
    struct session *session = NULL, *ended = NULL;
    struct error err = {0}, ignored = {0};
    char path[LIMIT_PATH_BYTES + 1];

    if (auth_session(host->auth, who, word, false, &session, &err) < 0) {
        if (auth_session(host->auth, who, word, true, &ended, &ignored) < 0 ||
            !read_saved(reading, ended))
            reading_missing(reading, &err);
        return;
    }
    if (str_starts(reading->path, MCP_LOG_FOLDER)) {
        read_log(reading, session);
        return;
    }
    if (file_path_for_rest(reading->path, strlen(reading->path), path, &err) < 0) {
        reading_missing(reading, &err);
        return;
    }
    str_copy(reading->path, sizeof(reading->path), path);
    reading->session = session;
    reading->waits_for_box = true;
    session_box(session, on_box, reading);
}

int mcp_engine_read(void *ctx, const struct mcp_asker *asker, struct mcp_work *work,
                    const char *session, const char *path, size_t maximum, struct error *err)
{
    struct reading *reading = calloc(1, sizeof(*reading));

    if (!reading)
        return error_memory(err);
    *reading = (struct reading){
        .task = {.work = work, .cancel = reading_cancel},
        .maximum = maximum,
        .manager = ((struct mcp_engine *)ctx)->auth->manager,
        .data = BUF_INIT(MAX(maximum, (size_t)LIMIT_MCP_RESOURCE) + 1),
    };
    str_copy(reading->path, sizeof(reading->path), path);
    str_copy(reading->tenant, sizeof(reading->tenant), asker->caller.who.tenant);
    mcp_work_attach(work, reading);
    begin(reading, ctx, &asker->caller.who, session);
    return 0;
}
