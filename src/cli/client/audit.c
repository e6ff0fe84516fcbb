/* audit.c - `bailey audit verify|tail|query`: verifies and reads the audit log. */
#include "observe/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/client/action.h"
#include "cli/client/client.h"
#include "cli/client/commands.h"
#include "cli/client/transfer.h"
#include "cli/client_request.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/place.h"

#define STATUS_NOT_INTACT 1

static const char *given(const struct invocation *invocation, const char *name)
{
    const char *value = NULL;

    return option_given(&invocation->parsed, name, &value) ? value : NULL;
}

/* ---- verify ---- */

static int open_folder(const struct invocation *invocation, struct error *err)
{
    CLEANUP(client_close) struct client client = {0};
    const char *folder = given(invocation, "folder");
    char path[4200];
    int fd;

    if (!folder) {
        if (place_url(invocation->env))
            return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                             "'bailey audit verify' reads files, which --url (" PLACE_URL ") does "
                             "not have: run it on the server's machine, or name a copy of the "
                             "audit with --folder");
        if (client_open(&client, given(invocation, "config"), invocation->env, CLIENT_NO_CALL,
                        err) < 0 ||
            paths_path(&client.paths, "logs", path, sizeof(path), err) < 0)
            return err->num;
        folder = path;
    }
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? error_errno(err, "the audit's folder '%.200s'", folder) : fd;
}

static int verify_json(const struct audit_report *report)
{
    return print_json(json_pack(
        "{s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:s, s:s?, s:I, s:s?}", "intact", report->is_intact,
        "lines", (json_int_t)report->lines, "first", (json_int_t)report->first, "last",
        (json_int_t)report->last, "broken", (json_int_t)report->broken, "unchained",
        (json_int_t)report->unchained, "lost", (json_int_t)report->lost, "hash", report->hash,
        "file", report->file[0] ? report->file : NULL, "line", (json_int_t)report->line, "problem",
        report->problem[0] ? report->problem : NULL));
}

static int verify_text(const struct audit_report *report)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * 1024);

    if (!report->is_intact) {
        if (report->line > 0)
            buf_printf(&text, "%s, line %" PRIu64 ": ", report->file, report->line);
        buf_printf(&text, "%s\n", report->problem);
    } else if (report->lines == 0) {
        buf_printf(&text, "there is nothing yet\n");
    } else {
        buf_printf(&text, "intact: %" PRIu64 " lines, %" PRIu64 " to %" PRIu64 "\n", report->lines,
                   report->first, report->last);
    }
    if (report->broken > 0)
        buf_printf(&text, "%" PRIu64 " broken off by a crash\n", report->broken);
    if (report->lost > 0)
        buf_printf(&text, "%" PRIu64 " could not be written\n", report->lost);
    if (report->unchained > 0)
        buf_printf(&text, "%" PRIu64 " written before lines were chained\n", report->unchained);
    if (report->hash[0])
        buf_printf(&text, "last hash %s\n", report->hash);
    return print_text(&text);
}

static int verify(const struct invocation *invocation)
{
    CLEANUP(fd_closep) int fd = -1;
    bool is_json = option_given(&invocation->parsed, "json", NULL);
    struct audit_report report;
    struct error err = {0};
    int status;

    fd = open_folder(invocation, &err);
    if (fd < 0 || audit_verify(fd, &report, &err) < 0)
        return client_fail(is_json, &err);
    status = is_json ? verify_json(&report) : verify_text(&report);
    return status == 0 && !report.is_intact ? STATUS_NOT_INTACT : status;
}

/* ---- tail and query ---- */

/* "8h" means that long ago; a time in UTC is parsed by the daemon. */
static int since_text(const char *value, char *ret, size_t size, struct error *err)
{
    uint64_t ms, now = clock_wall_ms();
    time_t seconds;
    struct tm parts;

    if (str_to_millis(value, &ms) < 0 || ms > now) {
        if (!strchr(value, 'T') || strlen(value) >= size)
            return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                             "--since '%.60s': a time in UTC such as 2026-11-15T08:15:04Z, or how "
                             "long ago, such as 90s, 30m or 8h",
                             value);
        str_copy(ret, size, value);
        return 0;
    }
    seconds = (time_t)((now - ms) / 1000);
    gmtime_r(&seconds, &parts);
    strftime(ret, size, "%Y-%m-%dT%H:%M:%SZ", &parts);
    return 0;
}

static int make_path(const struct invocation *invocation, bool is_tail, struct buf *path,
                     struct error *err)
{
    static const char *const names[] = {"session", "tenant", "action"};
    const char *since = given(invocation, "since"), *lines = given(invocation, "lines");
    char time[64];
    int r = buf_append_text(path, "/v1/audit");

    for (size_t i = 0; i < ARRAY_SIZE(names) && r == 0; i++) {
        const char *value = given(invocation, names[i]);

        if (value)
            r = client_query(path, names[i], value, err);
    }
    if (r == 0 && since)
        r = since_text(since, time, sizeof(time), err);
    if (r == 0 && since)
        r = client_query(path, "since", time, err);
    if (r == 0 && (is_tail || lines))
        r = client_query(path, "tail", lines ? lines : "20", err);
    if (r == 0 && option_given(&invocation->parsed, "follow", NULL))
        r = client_query(path, "follow", "true", err);
    return r;
}

static int write_piece(void *ctx, const void *data, size_t length)
{
    int *failure = ctx;

    *failure = stream_write(STDOUT_FILENO, data, length, -1);
    return *failure;
}

static int read_lines(const struct invocation *invocation, bool is_tail)
{
    CLEANUP(client_close) struct client client = {0};
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    struct error err = {0};
    int failure = 0;

    if (make_path(invocation, is_tail, &path, &err) < 0 ||
        client_open(&client, given(invocation, "config"), invocation->env, CLIENT_STARTS, &err) < 0)
        return client_fail(false, &err);
    if (transfer_receive(&client, buf_text(&path), -1, NULL, NULL, write_piece, &failure, &err) < 0)
        return failure == -EPIPE ? 128 + SIGPIPE : client_fail(false, &err);
    return 0;
}

int audit_run(const struct invocation *invocation)
{
    const char *action =
        invocation->parsed.operand_count > 0 ? invocation->parsed.operands[0] : NULL;
    struct error err = {0};

    if (str_equal(action, "verify"))
        return verify(invocation);
    if (str_equal(action, "tail") || str_equal(action, "query"))
        return read_lines(invocation, str_equal(action, "tail"));
    action_unknown(&audit_command, action, &err);
    return client_fail(false, &err);
}
