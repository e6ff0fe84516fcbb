/*
 * log_json.c - a line of the log as JSON; see log_json.h.
 *
 * Made by hand, because the static program and every process logs, also without memory. Texts may
 * come out of a box: whatever is not plain text is escaped, what is not UTF-8 becomes U+FFFD. A
 * long text is cut, a member that does not fit any more is left out; the line is always whole.
 */
#include "base/log_json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"

#define MESSAGE_MAX 2048 /* bytes as they are written */
#define FIELD_MAX 512
#define END "}\n"

struct line {
    char *data;
    size_t length; /* END always fits after it */
};

static size_t room(const struct line *line)
{
    return LOG_LINE_MAX - sizeof(END) - line->length;
}

/* Whole or not at all. */
static bool put(struct line *line, const char *data, size_t length)
{
    if (length > room(line))
        return false;
    memcpy(line->data + line->length, data, length);
    line->length += length;
    return true;
}

/* How the first character of the text is written; returns its bytes in the text. */
static size_t escape(const char *text, size_t length, char out[8])
{
    unsigned char byte = (unsigned char)text[0];
    int count = utf8_length(text, length);

    if (byte == '"' || byte == '\\') {
        str_format(out, 8, "\\%c", byte);
    } else if (byte == '\n') {
        str_format(out, 8, "\\n");
    } else if (byte < 0x20 || byte == 0x7f) {
        str_format(out, 8, "\\u%04x", byte);
    } else if (count <= 0) {
        str_format(out, 8, "\\ufffd");
        return 1;
    } else {
        str_format(out, 8, "%.*s", count, text);
        return (size_t)count;
    }
    return 1;
}

static bool put_text(struct line *line, const char *text, size_t maximum)
{
    size_t length = strlen(text), used = 0;
    bool is_whole = put(line, "\"", 1);

    while (is_whole && length > 0) {
        char out[8];
        size_t taken = escape(text, length, out);

        used += strlen(out);
        if (used > maximum) {
            is_whole = put(line, " ...", 4);
            break;
        }
        is_whole = put(line, out, strlen(out));
        text += taken;
        length -= taken;
    }
    return is_whole && put(line, "\"", 1);
}

static void put_field(struct line *line, const struct log_field *field, size_t maximum)
{
    size_t before = line->length;
    char head[80];
    bool is_whole;

    if (field->text && field->text[0] == '\0')
        return;
    str_format(head, sizeof(head), "%s\"%s\":", line->length > 1 ? "," : "", field->name);
    is_whole = put(line, head, strlen(head));
    if (is_whole && field->text) {
        is_whole = put_text(line, field->text, maximum);
    } else if (is_whole) {
        str_format(head, sizeof(head), "%" PRIu64, field->number);
        is_whole = put(line, head, strlen(head));
    }
    if (!is_whole)
        line->length = before;
}

static bool has_field(const struct log_field *fields, const char *name)
{
    for (; fields && fields->name; fields++)
        if (str_equal(fields->name, name))
            return true;
    return false;
}

size_t log_json_line(char data[LOG_LINE_MAX], enum log_level level, const char *message,
                     const struct log_field *extra, const struct log_field *about)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    struct line line = {.data = data};
    char time[32];

    clock_iso(time, sizeof(time));
    put(&line, "{", 1);
    put_field(&line, &(struct log_field){"time", time, 0}, FIELD_MAX);
    put_field(&line, &(struct log_field){"level", names[level], 0}, FIELD_MAX);
    put_field(&line, &(struct log_field){"message", message[0] ? message : "-", 0}, MESSAGE_MAX);
    for (const struct log_field *one = extra; one && one->name; one++)
        put_field(&line, one, FIELD_MAX);
    for (; about && about->name; about++) {
        if (!has_field(extra, about->name))
            put_field(&line, about, FIELD_MAX);
    }
    memcpy(data + line.length, END, sizeof(END) - 1);
    return line.length + sizeof(END) - 1;
}
