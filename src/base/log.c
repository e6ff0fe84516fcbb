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
#include "base/log_json.h"
#include "base/mask.h"
#include "base/str.h"

static enum log_level current_level = LOG_WARNING;
static bool is_json;
static struct log_about current_about;

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

void log_set_json(bool is_wanted)
{
    is_json = is_wanted;
}

void log_set_about(const struct log_about *about)
{
    current_about = about ? *about : (struct log_about){.request_id = ""};
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

/* The text after the level's prefix, as a line for people. */
static void write_text(enum log_level level, const char *text, bool is_cut)
{
    static const char cut[] = " ...";
    char line[LOG_LINE_MAX];
    size_t prefix = strlen(prefixes[level]), length = strlen(text);

    memcpy(line, prefixes[level], prefix);
    if (length > sizeof(line) - 2 - prefix) {
        length = sizeof(line) - 2 - prefix;
        is_cut = true;
    }
    memcpy(line + prefix, text, length);
    length += prefix;
    if (is_cut)
        memcpy(line + length - (sizeof(cut) - 1), cut, sizeof(cut) - 1);
    make_harmless(line, length);
    mask_keys(line, length);
    line[length++] = '\n';
    (void)fd_write_all(STDERR_FILENO, line, length); /* there is no other place to report this */
}

/* A value from outside must not begin a new line. */
static void keep_in_line(char *text)
{
    for (; *text; text++)
        if (*text == '\n' || *text == '\t')
            *text = '?';
}

/* What the lines are about while a request is handled; ends with a NULL name. */
static const struct log_field *about_fields(struct log_field fields[5])
{
    fields[0] = (struct log_field){"request_id", current_about.request_id, 0};
    fields[1] = (struct log_field){"tenant", current_about.tenant, 0};
    fields[2] = (struct log_field){"session", current_about.session, 0};
    fields[3] = (struct log_field){"trace_id", current_about.trace_id, 0};
    fields[4] = (struct log_field){NULL, NULL, 0};
    return fields;
}

static void write_json(enum log_level level, const char *text, const struct log_field *fields)
{
    struct log_field about[5];
    char line[LOG_LINE_MAX];
    size_t length = log_json_line(line, level, text, fields, about_fields(about));

    mask_keys(line, length);
    (void)fd_write_all(STDERR_FILENO, line, length);
}

static bool has_field(const struct log_field *fields, const char *name)
{
    for (; fields && fields->name; fields++)
        if (str_equal(fields->name, name))
            return true;
    return false;
}

/* " name=value" for each that is not among `but` (may be NULL); what has no room is left out. */
static void add_fields(char *text, size_t size, const struct log_field *fields,
                       const struct log_field *but)
{
    for (; fields->name; fields++) {
        size_t length = strlen(text);
        int r = 0;

        if (has_field(but, fields->name))
            continue;
        if (fields->text && fields->text[0])
            r = str_format(text + length, size - length, " %s=%s", fields->name, fields->text);
        else if (!fields->text)
            r = str_format(text + length, size - length, " %s=%llu", fields->name,
                           (unsigned long long)fields->number);
        if (r < 0)
            text[length] = '\0';
        keep_in_line(text + length);
    }
}

void log_write(enum log_level level, const char *format, ...)
{
    struct log_field about[5];
    char text[LOG_LINE_MAX];
    int saved_errno = errno;
    va_list args;
    int wanted;

    if (level > current_level)
        return;
    va_start(args, format);
    wanted = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (wanted < 0)
        text[0] = '\0';
    if (!is_json)
        add_fields(text, sizeof(text), about_fields(about), NULL);
    if (is_json)
        write_json(level, text, NULL);
    else
        write_text(level, text, wanted >= (int)sizeof(text));
    errno = saved_errno;
}

void log_fields(enum log_level level, const char *message, const struct log_field *fields)
{
    struct log_field about[5];
    char text[LOG_LINE_MAX];
    int saved_errno = errno;

    if (level > current_level)
        return;
    if (is_json) {
        write_json(level, message, fields);
        errno = saved_errno;
        return;
    }
    str_copy(text, sizeof(text), message);
    add_fields(text, sizeof(text), fields, NULL);
    add_fields(text, sizeof(text), about_fields(about), fields);
    write_text(level, text, false);
    errno = saved_errno;
}
