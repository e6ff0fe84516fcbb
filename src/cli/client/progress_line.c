/* progress_line.c - a line that is overwritten; see progress_line.h. */
#include "cli/client/progress_line.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/message.h"

size_t progress_columns(void)
{
    struct winsize size;

    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20 ? size.ws_col : 80;
}

void progress_bar(uint64_t done, uint64_t total, char bar[PROGRESS_BAR_SIZE])
{
    const size_t width = PROGRESS_BAR_SIZE - 4;
    size_t filled = total ? (size_t)((double)MIN(done, total) / (double)total * (double)width) : 0;

    bar[0] = 0;
    if (total == 0)
        return;
    bar[0] = '[';
    for (size_t i = 0; i < width; i++)
        bar[i + 1] = i < filled ? '#' : '.';
    bar[width + 1] = ']';
    bar[width + 2] = 0;
}

static size_t words_after(const char *text, char separator)
{
    size_t count = text[0] ? 1 : 0;

    for (; *text; text++)
        count += *text == separator && text[1];
    return count;
}

void package_count_line(struct package_count *count, const char *line)
{
    static const char resolved[] = "installing ", collected[] = "Installing collected packages: ";

    if (str_starts(line, resolved)) /* guest/python/install.py: all that pip has chosen */
        *count = (struct package_count){.total = words_after(line + sizeof(resolved) - 1, ' ')};
    else if (str_starts(line, "Collecting ") || str_starts(line, "Processing ")) /* a local file */
        count->done++;
    else if (str_starts(line, collected))
        count->done = count->total = words_after(line + sizeof(collected) - 1, ',');
    if (count->total > 0 && count->done > count->total)
        count->total = 0; /* there are more than it seemed: how many is not known */
}

void package_count_text(const struct package_count *count, const char *line, char *text,
                        size_t size)
{
    char bar[PROGRESS_BAR_SIZE];

    progress_bar(count->done, count->total, bar);
    if (count->total > 0)
        (void)snprintf(text, size, "%s  %zu of %zu packages  %s", bar, count->done, count->total,
                       line);
    else if (count->done > 0)
        (void)snprintf(text, size, "%zu package%s  %s", count->done, count->done == 1 ? "" : "s",
                       line);
    else
        (void)snprintf(text, size, "%s", line);
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
    size_t length = strlen(words), room = progress_columns() - 1;

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
