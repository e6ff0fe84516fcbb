/*
 * form_data.c - see form_data.h.
 *
 * Content ends with CR LF - - BOUNDARY. A CR is nowhere else in that text, so what matched a part
 * of it and then did not is content as a whole, and the search begins anew at the next byte.
 */
#include "http/form_data.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/str.h"

#define LINE_BYTES 128 /* blanks between a boundary and the end of its line */

/* ---- values of headers ---- */

/* A quoted text, from the first character in it; returns what follows its end. */
static const char *take_quoted(const char *at, struct buf *value)
{
    for (; *at && *at != '"'; at++) {
        if (at[0] == '\\' && (at[1] == '"' || at[1] == '\\'))
            at++;
        if (buf_append(value, at, 1) < 0)
            return NULL;
    }
    return *at ? at + 1 : at;
}

/* A quoted text or a token; returns what follows it, NULL: it is too long. */
static const char *take_value(const char *at, struct buf *value)
{
    size_t length = strcspn(at, "; \t");

    if (*at == '"')
        return take_quoted(at + 1, value);
    return buf_append(value, at, length) < 0 ? NULL : at + length;
}

/* The value of a parameter of a header; false: it has none by this name. */
static bool parameter(const char *header, const char *name, struct buf *value)
{
    const char *at = header + strcspn(header, ";");

    while (*at == ';') {
        size_t length;
        bool is_wanted;

        at++;
        at += strspn(at, " \t");
        length = strcspn(at, "=;");
        is_wanted = length == strlen(name) && strncasecmp(at, name, length) == 0;
        at += length;
        buf_clear(value);
        if (*at == '=')
            at = take_value(at + 1, value);
        if (!at)
            return false;
        if (is_wanted)
            return true;
        at += strcspn(at, ";");
    }
    return false;
}

static int hex_of(char c)
{
    if (!isxdigit((unsigned char)c))
        return -1;
    return isdigit((unsigned char)c) ? c - '0' : (c | 0x20) - 'a' + 10;
}

/* "%41" is 'A': in place, from `at` on. Returns the new length of the text, or 0 for a NUL. */
static size_t decode_percent(char *text, const char *at)
{
    size_t length = 0;

    for (; *at; at++) {
        char c = *at;

        if (c == '%' && hex_of(at[1]) >= 0 && hex_of(at[2]) >= 0) {
            c = (char)(hex_of(at[1]) << 4 | hex_of(at[2]));
            at += 2;
        }
        if (!c)
            return 0;
        text[length++] = c;
    }
    text[length] = '\0';
    return length;
}

/* UTF-8''a%20b (RFC 8187), in place; false: it is not that. */
static bool decode_extended(struct buf *value)
{
    const char *text = buf_text(value);
    const char *at = strncasecmp(text, "utf-8'", 6) == 0 ? strchr(text + 6, '\'') : NULL;

    if (!at)
        return false;
    value->length = decode_percent(value->data, at + 1);
    return value->length > 0;
}

/* Browsers and httpx write a quote in a name as %22, and nothing else so (WHATWG). */
static void decode_quotes(struct buf *value)
{
    size_t length = 0;

    for (size_t i = 0; i < value->length; i++) {
        bool is_quote = value->length - i >= 3 && memcmp(value->data + i, "%22", 3) == 0;

        value->data[length++] = is_quote ? '"' : value->data[i];
        i += is_quote ? 2 : 0;
    }
    if (value->data)
        value->data[length] = '\0';
    value->length = length;
}

static bool read_filename(const char *header, struct buf *value)
{
    if (parameter(header, "filename*", value) && decode_extended(value))
        return true;
    if (!parameter(header, "filename", value))
        return false;
    decode_quotes(value);
    return true;
}

/* ---- parts ---- */

/* The value of a header among the lines of a head, which it cuts; NULL: none. */
static char *header_of(char *head, const char *name)
{
    size_t length = strlen(name);

    for (char *line = head; *line;) {
        char *end = line + strcspn(line, "\r\n");
        char *next = end + strspn(end, "\r\n");

        if (strncasecmp(line, name, length) == 0 && line[length] == ':') {
            *end = '\0';
            return line + length + 1 + strspn(line + length + 1, " \t");
        }
        line = next;
    }
    return NULL;
}

static int begin_part(struct form_data *form)
{
    CLEANUP(buf_free) struct buf name = BUF_INIT(FORM_DATA_HEAD);
    CLEANUP(buf_free) struct buf filename = BUF_INIT(FORM_DATA_HEAD);
    struct form_data_part part = {.name = ""};
    char *disposition;

    if (memchr(form->head.data, 0, form->head.length))
        return -EINVAL;
    disposition = header_of(form->head.data, "Content-Disposition");
    if (disposition && parameter(disposition, "name", &name))
        part.name = buf_text(&name);
    if (disposition && read_filename(disposition, &filename))
        part.filename = buf_text(&filename);
    return form->events->begin(form->ctx, &part);
}

static bool has_blank_line(const struct buf *head)
{
    return (head->length >= 4 && memcmp(head->data + head->length - 4, "\r\n\r\n", 4) == 0) ||
           (head->length == 2 && memcmp(head->data, "\r\n", 2) == 0);
}

/* ---- bytes: each returns how many it used, with *ret_waits if no more are taken now ---- */

static ssize_t on_line(struct form_data *form, char c)
{
    struct buf *line = &form->head;

    if (line->length == LINE_BYTES)
        return -EINVAL;
    if (buf_append(line, &c, 1) < 0)
        return -ENOMEM;
    if (line->length == 2 && memcmp(line->data, "--", 2) == 0) {
        form->state = FORM_DATA_OVER;
    } else if (c == '\n') {
        if (line->length < 2 || line->data[line->length - 2] != '\r' ||
            strspn(line->data, " \t") != line->length - 2)
            return -EINVAL;
        form->state = FORM_DATA_HEADER;
        buf_clear(line);
    }
    return 1;
}

static ssize_t on_header(struct form_data *form, char c, bool *ret_waits)
{
    int r;

    if (form->head.length == FORM_DATA_HEAD)
        return -EFBIG;
    if (buf_append(&form->head, &c, 1) < 0)
        return -ENOMEM;
    if (!has_blank_line(&form->head))
        return 1;
    r = begin_part(form);
    buf_clear(&form->head);
    form->state = FORM_DATA_BODY;
    *ret_waits = r > 0;
    return r < 0 ? r : 1;
}

/* What comes before the first part is dropped. */
static size_t give(struct form_data *form, const void *data, size_t length)
{
    return form->state == FORM_DATA_BEFORE ? length : form->events->data(form->ctx, data, length);
}

static ssize_t flush(struct form_data *form, bool *ret_waits)
{
    form->flushed += give(form, form->delimiter + form->flushed, form->matched - form->flushed);
    *ret_waits = form->flushed < form->matched;
    if (!*ret_waits) {
        form->is_flushing = false;
        form->matched = 0;
    }
    return 0;
}

/* The next character, after a beginning of the delimiter. */
static ssize_t on_match(struct form_data *form, char c)
{
    int r;

    if (c != form->delimiter[form->matched]) {
        form->is_flushing = true;
        form->flushed = 0;
        return 0;
    }
    if (++form->matched < form->length)
        return 1;
    r = form->state == FORM_DATA_BODY ? form->events->end(form->ctx) : 0;
    form->matched = 0;
    form->state = FORM_DATA_LINE;
    buf_clear(&form->head);
    return r < 0 ? r : 1;
}

/*
 * How much there is before the delimiter, or before what may be its beginning at the end of the
 * data. A CR that is content does not end a run: in binary files there is one every 256 bytes.
 */
static size_t content_run(const struct form_data *form, const char *data, size_t length)
{
    const char *end = data + length, *at = data;

    while ((at = memchr(at, '\r', (size_t)(end - at)))) {
        if (memcmp(at, form->delimiter, MIN((size_t)(end - at), form->length)) == 0)
            return (size_t)(at - data);
        at++;
    }
    return length;
}

static ssize_t on_content(struct form_data *form, const char *data, size_t length, bool *ret_waits)
{
    size_t run, taken;

    if (form->is_flushing)
        return flush(form, ret_waits);
    if (form->matched > 0)
        return on_match(form, data[0]);
    run = content_run(form, data, length);
    if (run == 0) {
        form->matched = 1;
        return 1;
    }
    taken = give(form, data, run);
    *ret_waits = taken < run;
    return (ssize_t)taken;
}

static ssize_t step(struct form_data *form, const char *data, size_t length, bool *ret_waits)
{
    switch (form->state) {
    case FORM_DATA_LINE:
        return on_line(form, data[0]);
    case FORM_DATA_HEADER:
        return on_header(form, data[0], ret_waits);
    case FORM_DATA_OVER:
        return (ssize_t)length; /* what follows is passed over (RFC 2046) */
    default:
        return on_content(form, data, length, ret_waits);
    }
}

ssize_t form_data_feed(struct form_data *form, const void *data, size_t length)
{
    bool waits = false;
    size_t at = 0;

    while (at < length && !waits) {
        ssize_t used = step(form, (const char *)data + at, length - at, &waits);

        if (used < 0)
            return used;
        at += (size_t)used;
    }
    return (ssize_t)at;
}

/* ---- begin and end ---- */

bool form_data_is_type(const char *type)
{
    static const char wanted[] = "multipart/form-data";
    size_t length = sizeof(wanted) - 1;

    return type && strncasecmp(type, wanted, length) == 0 &&
           (!type[length] || strchr("; \t", type[length]));
}

int form_data_begin(struct form_data *form, const char *type, const struct form_data_events *events,
                    void *ctx)
{
    CLEANUP(buf_free) struct buf boundary = BUF_INIT(FORM_DATA_BOUNDARY);

    *form = (struct form_data){.events = events, .ctx = ctx, .head = BUF_INIT(FORM_DATA_HEAD)};
    if (!form_data_is_type(type) || !parameter(type, "boundary", &boundary) || boundary.length == 0)
        return -EINVAL;
    for (size_t i = 0; i < boundary.length; i++)
        if ((unsigned char)boundary.data[i] < 0x20 || boundary.data[i] == 0x7f)
            return -EINVAL;
    str_format(form->delimiter, sizeof(form->delimiter), "\r\n--%s", buf_text(&boundary));
    form->length = boundary.length + 4;
    form->matched = 2; /* the first one may stand at the very beginning */
    return 0;
}

bool form_data_is_whole(const struct form_data *form)
{
    return form->state == FORM_DATA_OVER;
}

void form_data_free(struct form_data *form)
{
    buf_free(&form->head);
}
