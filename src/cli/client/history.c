/* history.c - lines that were typed at a prompt; see history.h. */
#include "cli/client/history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"

#define FILE_MAX (HISTORY_LINES * (size_t)HISTORY_LINE_BYTES)

static void forget_oldest(struct history *history)
{
    free(history->lines[0]);
    history->count--;
    memmove(history->lines, history->lines + 1, history->count * sizeof(*history->lines));
}

/* 1: it is kept; 0: it is left out. */
static int keep(struct history *history, const char *line, size_t length)
{
    char *copy;

    if (length > HISTORY_LINE_BYTES || strspn(line, " \t") >= length ||
        memchr(line, '\0', length) ||
        (history->count > 0 && strlen(history->lines[history->count - 1]) == length &&
         strncmp(history->lines[history->count - 1], line, length) == 0))
        return 0;
    if (!history->lines)
        history->lines = calloc(HISTORY_LINES, sizeof(*history->lines));
    copy = history->lines ? strndup(line, length) : NULL;
    if (!copy)
        return -ENOMEM;
    if (history->count == HISTORY_LINES)
        forget_oldest(history);
    history->lines[history->count++] = copy;
    return 1;
}

/* Opens the user's own file, or makes it. */
static int open_file(const char *path, int flags, struct error *err)
{
    CLEANUP(fd_closep)
    int fd = open(path, flags | O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    struct stat status;

    if (fd < 0 || fstat(fd, &status) < 0)
        return error_errno(err, "the history of the prompt, %.200s", path);
    if (!S_ISREG(status.st_mode) || status.st_uid != geteuid())
        return error_set(err, -EPERM, ERROR_BAD_INPUT,
                         "the history of the prompt, %.200s, is no file of yours", path);
    if ((status.st_mode & 077) && fchmod(fd, 0600) < 0)
        return error_errno(err, "the history of the prompt, %.200s", path);
    return fd_take(&fd);
}

/* Reads the last FILE_MAX bytes. Returns whether the file has more than is kept of it. */
static int load(struct history *history, bool *ret_is_long)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(FILE_MAX + 1);
    off_t size = lseek(history->fd, 0, SEEK_END);
    off_t from = size > (off_t)FILE_MAX ? size - (off_t)FILE_MAX : 0;
    size_t lines = 0;
    int r = size < 0 || lseek(history->fd, from, SEEK_SET) < 0 ? -errno
                                                               : buf_read_fd(&text, history->fd);

    for (const char *at = buf_text(&text), *last = at + text.length, *end; r >= 0 && at < last;
         at = end + 1, lines++) {
        end = memchr(at, '\n', (size_t)(last - at));
        if (!end)
            end = last;
        if (from == 0 || lines > 0) /* else it may have lost its beginning */
            r = keep(history, at, (size_t)(end - at));
    }
    *ret_is_long = lines > HISTORY_LINES || from > 0;
    return r < 0 ? r : 0;
}

/* Writes the lines that are kept into a new file, which takes the other one's place. */
static int cut(struct history *history, const char *path, struct error *err)
{
    CLEANUP(buf_free) struct buf name = BUF_INIT(8 * KIB);
    CLEANUP(buf_free) struct buf text = BUF_INIT(FILE_MAX + HISTORY_LINES);
    CLEANUP(fd_closep) int fd = -1;
    int r = buf_printf(&name, "%s.new", path);

    for (size_t i = 0; i < history->count && r == 0; i++)
        r = buf_printf(&text, "%s\n", history->lines[i]);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "the history of the prompt: %s", strerror(-r));
    fd = open_file(buf_text(&name), O_TRUNC | O_APPEND, err);
    if (fd < 0)
        return fd;
    r = fd_write_all(fd, buf_text(&text), text.length);
    if (r < 0 || rename(buf_text(&name), path) < 0) {
        r = r < 0 ? r : -errno;
        unlink(buf_text(&name));
        return error_set(err, r, ERROR_ENGINE, "the history of the prompt, %.200s: %s", path,
                         strerror(-r));
    }
    fd_closep(&history->fd);
    history->fd = fd_take(&fd);
    return 0;
}

int history_open(struct history *history, const char *path, struct error *err)
{
    bool is_long = false;
    int r;

    *history = (struct history){.fd = -1};
    if (!path)
        return 0;
    r = open_file(path, O_APPEND, err);
    if (r < 0)
        return r;
    history->fd = r;
    r = load(history, &is_long);
    if (r < 0)
        error_set(err, r, ERROR_ENGINE, "the history of the prompt, %.200s: %s", path,
                  strerror(-r));
    else if (is_long)
        r = cut(history, path, err);
    if (r < 0)
        fd_closep(&history->fd);
    return r;
}

int history_add(struct history *history, const char *line, struct error *err)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(HISTORY_LINE_BYTES + 1);
    int r = keep(history, line, strlen(line));

    if (r <= 0 || history->fd < 0)
        return r < 0 ? error_memory(err) : 0;
    r = buf_printf(&text, "%s\n", line);
    if (r == 0)
        r = fd_write_all(history->fd, buf_text(&text), text.length);
    if (r == 0)
        return 0;
    fd_closep(&history->fd);
    return error_set(err, r, ERROR_ENGINE, "writing the history of the prompt: %s", strerror(-r));
}

void history_free(struct history *history)
{
    for (size_t i = 0; i < history->count; i++)
        free(history->lines[i]);
    free(history->lines);
    fd_closep(&history->fd);
    *history = (struct history){.fd = -1};
}
