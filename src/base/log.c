/*
 * log.c - one line, one write(2), so that lines of several processes never mix; see log.h.
 *
 * A line may carry a name or a text that came out of a box: control bytes become '?', so that no
 * message can drive the terminal it is shown on.
 */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"

#define LOG_LINE_MAX 4096

static enum log_level current_level = LOG_WARNING;

static const char *const prefixes[] = {
    [LOG_ERROR] = "bailey: ",
    [LOG_WARNING] = "bailey: warning: ",
    [LOG_INFO] = "bailey: ",
    [LOG_DEBUG] = "bailey: debug: ",
};

void log_set_level(enum log_level level)
{
    current_level = level;
}

enum log_level log_get_level(void)
{
    return current_level;
}

/* Several lines in one message are fine, everything else below blank is not. */
static void make_harmless(char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];

        if ((byte < 0x20 && byte != '\n' && byte != '\t') || byte == 0x7f)
            text[i] = '?';
    }
}

void log_write(enum log_level level, const char *format, ...)
{
    static const char cut[] = " ...";
    char line[LOG_LINE_MAX];
    int saved_errno = errno;
    size_t prefix, length;
    va_list args;
    int wanted;

    if (level > current_level)
        return;
    prefix = strlen(prefixes[level]);
    memcpy(line, prefixes[level], prefix);
    /* One byte is kept back for the newline, which takes the NUL's place or follows the text. */
    va_start(args, format);
    wanted = vsnprintf(line + prefix, sizeof(line) - prefix - 1, format, args);
    va_end(args);
    if (wanted < 0)
        wanted = 0;
    length = prefix + (size_t)wanted;
    if (length > sizeof(line) - 2) {
        length = sizeof(line) - 2;
        memcpy(line + length - (sizeof(cut) - 1), cut, sizeof(cut) - 1);
    }
    make_harmless(line, length);
    line[length++] = '\n';
    (void)fd_write_all(STDERR_FILENO, line, length); /* nobody is left to tell */
    errno = saved_errno;
}
