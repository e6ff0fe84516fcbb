/* progress_line.c - a line that is overwritten; see progress_line.h. */
#include "cli/client/progress_line.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/message.h"

static size_t terminal_columns(void)
{
    struct winsize size;

    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

struct progress_line progress_line_begin(bool is_silent)
{
    return (struct progress_line){.is_silent = is_silent, .is_terminal = isatty(STDERR_FILENO)};
}

void progress_line_clear(struct progress_line *line)
{
    if (line->has_line)
        fd_write_all(STDERR_FILENO, "\r\033[K", 4);
    line->has_line = false;
}

void progress_line_show(struct progress_line *line, const char *words)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(8 * KIB);
    size_t length = strlen(words), room = terminal_columns() - 1;

    if (line->is_silent)
        return;
    if (!line->is_terminal) {
        message_print("%s", words);
        return;
    }
    progress_line_clear(line);
    length = utf8_floor(words, MIN(length, room));
    buf_append(&text, words, length);
    for (size_t i = 0; i < text.length; i++)
        if ((unsigned char)text.data[i] < ' ' || text.data[i] == 0x7f ||
            (unsigned char)text.data[i] >= 0x80)
            text.data[i] = '?';
    fd_write_all(STDERR_FILENO, buf_text(&text), text.length);
    line->has_line = true;
}
