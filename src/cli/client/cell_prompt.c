/*
 * cell_prompt.c - reads cells from a terminal; see cell_prompt.h.
 *
 * Ctrl-C comes here as a signal in both modes (termios(3), ISIG). The mode in which keys are read
 * one by one lasts as long as a line is typed; while a cell runs the terminal is as it was found.
 */
#include "cli/client/cell_prompt.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/colour.h"
#include "cli/message.h"
#include "cli/python_lines.h"
#include "cli/signals.h"

#define COLUMNS 80 /* of a terminal that does not say how many it has */
#define SHOW_MAX (LIMIT_CODE_BYTES + 4 * KIB)
/* Marks of a bracketed paste on and off (XTerm ctlseqs): other terminals ignore them. */
#define PASTE_ON "\033[?2004h"
#define PASTE_OFF "\033[?2004l"

static bool can_edit(void)
{
    const char *terminal = getenv("TERM");

    return terminal && terminal[0] && !str_equal(terminal, "dumb") && isatty(STDIN_FILENO) &&
           isatty(STDERR_FILENO);
}

int cell_prompt_init(struct cell_prompt *prompt, int cancel_fd, bool is_python,
                     const char *history_path, struct error *err)
{
    int r;

    *prompt = (struct cell_prompt){.cancel_fd = cancel_fd,
                                   .is_python = is_python,
                                   .pending = {.maximum = LIMIT_CODE_BYTES},
                                   .shown = {.maximum = LIMIT_CODE_BYTES},
                                   .edits = can_edit()};
    r = history_open(&prompt->history, prompt->edits ? history_path : NULL, err);
    line_edit_init(&prompt->edit, &prompt->history, LIMIT_CODE_BYTES);
    return r;
}

static void keys_off(struct cell_prompt *prompt)
{
    if (!prompt->is_raw)
        return;
    prompt->is_raw = false;
    tcsetattr(STDIN_FILENO, TCSADRAIN, &prompt->saved);
}

void cell_prompt_free(struct cell_prompt *prompt)
{
    keys_off(prompt);
    if (prompt->marks_pastes)
        (void)fd_write_all(STDERR_FILENO, PASTE_OFF, strlen(PASTE_OFF));
    line_edit_free(&prompt->edit);
    history_free(&prompt->history);
    buf_free(&prompt->shown);
    buf_free(&prompt->pending);
}

/* Keys come one by one, but for Ctrl-C. What was typed before stays. */
static void keys_on(struct cell_prompt *prompt)
{
    struct termios mode;

    if (tcgetattr(STDIN_FILENO, &prompt->saved) < 0) {
        prompt->edits = false;
        return;
    }
    mode = prompt->saved;
    mode.c_lflag &= ~(tcflag_t)(ICANON | ECHO | IEXTEN);
    mode.c_iflag &= ~(tcflag_t)(ICRNL | INLCR | IGNCR);
    mode.c_cc[VSUSP] = mode.c_cc[VQUIT] = _POSIX_VDISABLE;
    mode.c_cc[VMIN] = 1;
    mode.c_cc[VTIME] = 0;
    prompt->is_raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &mode) == 0;
    prompt->edits = prompt->is_raw;
    if (prompt->is_raw && !prompt->marks_pastes)
        (void)fd_write_all(STDERR_FILENO, PASTE_ON, strlen(PASTE_ON));
    prompt->marks_pastes = true;
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

/* ---- a line that is edited here ---- */

static size_t columns(void)
{
    struct winsize size;

    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : COLUMNS;
}

/* What was typed at the end of a line that is short enough is written alone. */
static bool show_end(const struct cell_prompt *prompt, const char *words)
{
    const struct line_edit *edit = &prompt->edit;
    const char *text = buf_text(&edit->line);
    size_t had = prompt->shown.length;

    if (!prompt->is_shown || edit->is_searching || edit->at != edit->line.length ||
        edit->line.length < had || memcmp(text, buf_text(&prompt->shown), had) != 0 ||
        memchr(text + had, '\t', edit->line.length - had) ||
        strlen(words) + line_edit_width(text, edit->line.length) + 1 > columns())
        return false;
    (void)fd_write_all(STDERR_FILENO, text + had, edit->line.length - had);
    return true;
}

static void show_line(struct cell_prompt *prompt, const char *words)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(SHOW_MAX);
    const struct line_edit *edit = &prompt->edit;
    size_t width = strlen(words) + line_edit_width(buf_text(&edit->line), edit->line.length);

    if (!show_end(prompt, words) &&
        line_edit_show(edit, words, colour_begin(STDERR_FILENO, COLOUR_PROMPT),
                       colour_end(STDERR_FILENO), columns(), &out) == 0)
        (void)fd_write_all(STDERR_FILENO, buf_text(&out), out.length);
    buf_clear(&prompt->shown);
    prompt->is_shown = !edit->is_searching && edit->at == edit->line.length &&
                       width + 1 <= columns() &&
                       buf_append(&prompt->shown, buf_text(&edit->line), edit->line.length) == 0;
}

/* The keys that were read, up to an Enter. */
static enum line_event take_keys(struct cell_prompt *prompt)
{
    enum line_event event = LINE_MORE;
    size_t used = 0;

    while (used < prompt->pending.length && event == LINE_MORE) {
        event = line_edit_take(&prompt->edit, prompt->pending.data[used++]);
        if (event == LINE_TOO_LONG) {
            (void)fd_write_all(STDERR_FILENO, "\a", 1);
            event = LINE_MORE;
        }
    }
    buf_consume(&prompt->pending, used);
    return event;
}

static int line_is_done(struct cell_prompt *prompt, const char *words, struct buf *cell,
                        struct error *err)
{
    struct line_edit *edit = &prompt->edit;
    struct error failure = {0};

    edit->at = edit->line.length;
    edit->is_searching = false;
    show_line(prompt, words);
    (void)fd_write_all(STDERR_FILENO, "\n", 1);
    if (buf_append(cell, buf_text(&edit->line), edit->line.length) < 0 ||
        buf_append(cell, "\n", 1) < 0)
        return error_set(err, -EFBIG, ERROR_TOO_LARGE, "the cell is too large");
    if (history_add(&prompt->history, buf_text(&edit->line), &failure) < 0)
        message_print("%s, continuing without it", failure.text);
    line_edit_clear(edit);
    return 1;
}

/* As take_line(), which has the kernel's line mode. */
static int edit_line(struct cell_prompt *prompt, const char *words, struct buf *cell,
                     struct error *err)
{
    prompt->is_shown = false;
    for (;;) {
        enum line_event event = take_keys(prompt);
        int r;

        if (event == LINE_DONE)
            return line_is_done(prompt, words, cell, err);
        if (event == LINE_END)
            return 0;
        show_line(prompt, words);
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

static int read_line(struct cell_prompt *prompt, struct buf *cell, struct error *err)
{
    const char *words = cell->length == 0 ? ">>> " : "... ";

    if (prompt->edits)
        return edit_line(prompt, words, cell, err);
    show(words);
    return take_line(prompt, cell, err);
}

static void forget(struct cell_prompt *prompt, struct buf *cell)
{
    buf_clear(cell);
    buf_clear(&prompt->pending);
    line_edit_clear(&prompt->edit);
    prompt->edit.is_pasting = false;
}

static int read_cell(struct cell_prompt *prompt, struct buf *cell, struct error *err)
{
    buf_clear(cell);
    for (;;) {
        int r = read_line(prompt, cell, err);

        if (r == -EINTR) {
            show("\n");
            forget(prompt, cell);
            continue;
        }
        if (r <= 0) {
            show("\n");
            return r;
        }
        if (is_empty(cell))
            buf_clear(cell);
        else if (!prompt->edit.is_pasting && is_complete(prompt, cell))
            return 1;
    }
}

int cell_prompt_read(struct cell_prompt *prompt, struct buf *cell, struct error *err)
{
    int r;

    if (prompt->edits)
        keys_on(prompt);
    r = read_cell(prompt, cell, err);
    keys_off(prompt);
    return r;
}
