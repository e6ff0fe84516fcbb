/*
 * cell_prompt.c - reads cells from a terminal; see cell_prompt.h.
 *
 * The terminal stays in its line mode: the kernel edits the line, and Ctrl-C discards what was
 * typed (termios(3), ISIG) and comes here as a signal.
 */
#include "cli/client/cell_prompt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/colour.h"
#include "cli/python_lines.h"
#include "cli/signals.h"

void cell_prompt_init(struct cell_prompt *prompt, int cancel_fd, bool is_python)
{
    *prompt = (struct cell_prompt){
        .cancel_fd = cancel_fd, .is_python = is_python, .pending = {.maximum = LIMIT_CODE_BYTES}};
}

void cell_prompt_free(struct cell_prompt *prompt)
{
    buf_free(&prompt->pending);
}

static void show(const char *words)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(KIB);

    /* There is no other place to report that standard error cannot be written. */
    if (buf_printf(&text, "%s%s%s", colour_begin(STDERR_FILENO, COLOUR_PROMPT), words,
                   colour_end(STDERR_FILENO)) == 0)
        (void)fd_write_all(STDERR_FILENO, buf_text(&text), text.length);
}

/* 1: there is more in `pending`; 0: the end; -EINTR: Ctrl-C; another: err says why. */
static int read_more(struct cell_prompt *prompt, struct error *err)
{
    struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                           {.fd = prompt->cancel_fd, .events = POLLIN}};
    char piece[4096];
    ssize_t length;
    int number;

    if (poll(fds, 2, -1) < 0 && errno != EINTR)
        return error_errno(err, "waiting for input");
    number = fds[1].revents ? signals_taken(prompt->cancel_fd) : 0;
    if (number == SIGINT)
        return -EINTR;
    if (number) {
        prompt->signal = number;
        return 0;
    }
    if (!fds[0].revents)
        return 1;
    length = read(STDIN_FILENO, piece, sizeof(piece));
    if (length < 0)
        return errno == EINTR ? 1 : error_errno(err, "reading the terminal");
    if (length == 0)
        return 0;
    return buf_append(&prompt->pending, piece, (size_t)length) < 0
               ? error_set(err, -EFBIG, ERROR_TOO_LARGE, "the line is too long")
               : 1;
}

/* Moves one line with its newline to `cell`. As read_more(). */
static int take_line(struct cell_prompt *prompt, struct buf *cell, struct error *err)
{
    for (;;) {
        const char *text = buf_text(&prompt->pending);
        const char *end = memchr(text, '\n', prompt->pending.length);
        int r;

        if (end) {
            size_t length = (size_t)(end - text) + 1;

            if (buf_append(cell, text, length) < 0)
                return error_set(err, -EFBIG, ERROR_TOO_LARGE, "the cell is too large");
            buf_consume(&prompt->pending, length);
            return 1;
        }
        r = read_more(prompt, err);
        if (r <= 0)
            return r;
    }
}

static bool is_empty(const struct buf *cell)
{
    return !buf_text(cell)[strspn(buf_text(cell), " \t\r\n")];
}

/* Other languages: brackets and strings are written as in Python, blocks are not. */
static bool is_complete(const struct cell_prompt *prompt, const struct buf *cell)
{
    struct python_lines reader = {0};
    bool is_foreign;

    if (prompt->is_python)
        return python_is_complete(buf_text(cell));
    for (const char *at = buf_text(cell); *at;) {
        size_t length = python_line_read(&reader, at, &is_foreign);

        at += length + (at[length] == '\n');
    }
    return !reader.quote && reader.depth == 0 && !reader.continues;
}

int cell_prompt_read(struct cell_prompt *prompt, struct buf *cell, struct error *err)
{
    buf_clear(cell);
    for (;;) {
        int r;

        show(cell->length == 0 ? ">>> " : "... ");
        r = take_line(prompt, cell, err);
        if (r == -EINTR) {
            show("\n");
            buf_clear(cell);
            buf_clear(&prompt->pending);
            continue;
        }
        if (r <= 0) {
            show("\n");
            return r;
        }
        if (is_empty(cell))
            buf_clear(cell);
        else if (is_complete(prompt, cell))
            return 1;
    }
}
