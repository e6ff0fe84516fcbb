/* reply_reader.c - reads the reply of a server that is not trusted; see reply_reader.h. */
#include "http/reply_reader.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/str.h"

#define INFORMAL_MAX 8     /* 1xx replies before the reply */
#define CHUNK_LINE_MAX 256 /* its size and extensions */
#define CHUNK_DIGITS 15    /* of its size: no number overflows */
#define TRAILERS_MAX (8 * KIB)

enum chunk_state {
    CHUNK_SIZE,      /* digits */
    CHUNK_EXTENSION, /* after them, up to the CR */
    CHUNK_SIZE_LF,
    CHUNK_DATA,
    CHUNK_DATA_CR,
    CHUNK_DATA_LF,
    TRAILER_START, /* at the beginning of a line */
    TRAILER_LINE,
    TRAILER_LF,
    TRAILER_END_LF,
};

void reply_reader_init(struct reply_reader *reader, bool is_head, bool may_switch)
{
    memset(reader, 0, sizeof(*reader));
    reader->is_head = is_head;
    reader->may_switch = may_switch;
    reader->head = BUF_INIT(LIMIT_PORT_HEAD);
}

void reply_reader_free(struct reply_reader *reader)
{
    buf_free(&reader->head);
    reader->header_count = 0;
}

static int refuse(struct reply_reader *reader, const char *why)
{
    reader->why = why;
    return -EPROTO;
}

/* ---- the head ---- */

static bool is_token(const char *text, size_t length)
{
    static const char marks[] = "!#$%&'*+-.^_`|~";

    for (size_t i = 0; i < length; i++) {
        char c = text[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              (c && strchr(marks, c))))
            return false;
    }
    return length > 0;
}

/* No control character but the tab. */
static bool is_text(const char *text)
{
    for (; *text; text++) {
        if (((unsigned char)*text < ' ' && *text != '\t') || *text == 0x7f)
            return false;
    }
    return true;
}

/* "HTTP/1.1 200 OK" */
static int read_status(struct reply_reader *reader, const char *line)
{
    bool is_good = str_starts(line, "HTTP/1.1 ") || str_starts(line, "HTTP/1.0 ");
    const char *digits = is_good ? line + strlen("HTTP/1.1 ") : "";

    if (!is_good || strspn(digits, "0123456789") != 3 || (digits[3] && digits[3] != ' ') ||
        !is_text(digits))
        return refuse(reader, "its first line is not that of HTTP/1.1 or HTTP/1.0");
    reader->status = (unsigned)(digits[0] - '0') * 100 + (unsigned)(digits[1] - '0') * 10 +
                     (unsigned)(digits[2] - '0');
    if (reader->status < 100 || reader->status > 599)
        return refuse(reader, "its status is not between 100 and 599");
    return 0;
}

static int read_header(struct reply_reader *reader, char *line)
{
    char *colon = strchr(line, ':');
    char *value, *end;

    if (!colon || !is_token(line, (size_t)(colon - line)))
        return refuse(reader, "a header's name is malformed");
    value = colon + 1 + strspn(colon + 1, " \t");
    end = value + strlen(value);
    while (end > value && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    *end = '\0';
    *colon = '\0';
    if (!is_text(value))
        return refuse(reader, "a header's value has control characters");
    if (reader->header_count == LIMIT_PORT_HEADERS)
        return refuse(reader, "it has more than 100 headers");
    reader->headers[reader->header_count++] = (struct reply_header){line, value};
    return 0;
}

static int count_header(const struct reply_reader *reader, const char *name)
{
    int count = 0;

    for (size_t i = 0; i < reader->header_count; i++)
        count += strcasecmp(reader->headers[i].name, name) == 0;
    return count;
}

const char *reply_reader_header(const struct reply_reader *reader, const char *name)
{
    for (size_t i = 0; i < reader->header_count; i++) {
        if (strcasecmp(reader->headers[i].name, name) == 0)
            return reader->headers[i].value;
    }
    return NULL;
}

static int read_length(struct reply_reader *reader)
{
    const char *text = reply_reader_header(reader, "Content-Length");

    if (!text)
        return 0;
    if (!text[0] || strlen(text) > 18 || text[strspn(text, "0123456789")] ||
        str_to_u64(text, &reader->length) < 0)
        return refuse(reader, "its Content-Length is not a number");
    reader->has_length = true;
    return 0;
}

/* How the body is framed (RFC 9112 section 6.3). */
static int choose_body(struct reply_reader *reader, bool is_old)
{
    const char *coding = reply_reader_header(reader, "Transfer-Encoding");

    if (count_header(reader, "Content-Length") > 1)
        return refuse(reader, "it has a Content-Length more than once");
    if (count_header(reader, "Transfer-Encoding") > 1)
        return refuse(reader, "it has a Transfer-Encoding more than once");
    if (coding && reply_reader_header(reader, "Content-Length"))
        return refuse(reader, "it has both a Content-Length and a Transfer-Encoding");
    if (coding && (is_old || strcasecmp(coding, "chunked") != 0))
        return refuse(reader, "its Transfer-Encoding is not chunked");
    if (read_length(reader) < 0)
        return -EPROTO;
    if (reader->is_head || reader->status == 204 || reader->status == 304 || reader->status < 200)
        reader->body = REPLY_NO_BODY;
    else if (coding)
        reader->body = REPLY_CHUNKED;
    else
        reader->body = reader->has_length ? REPLY_LENGTH : REPLY_UNTIL_CLOSE;
    reader->left = reader->body == REPLY_LENGTH ? reader->length : 0;
    reader->is_over =
        reader->body == REPLY_NO_BODY || (reader->body == REPLY_LENGTH && reader->left == 0);
    return 0;
}

/* The head without its empty line, each line ended by CR LF; 1: it is the reply's, 0: a 1xx. */
static int read_head(struct reply_reader *reader)
{
    char *line = reader->head.data, *end = line + reader->head.length - 2;
    bool is_first = true;
    int r = 0;

    if (memchr(line, '\0', reader->head.length))
        return refuse(reader, "its head has a NUL byte");
    reader->header_count = 0;
    while (line < end && r == 0) {
        char *stop = strstr(line, "\r\n"); /* there is one: the head ends with it */

        *stop = '\0';
        if (strpbrk(line, "\r\n"))
            return refuse(reader, "a line of its head does not end with CR LF");
        if (!is_first && (*line == ' ' || *line == '\t'))
            return refuse(reader, "a line of its head is folded");
        r = is_first ? read_status(reader, line) : read_header(reader, line);
        is_first = false;
        line = stop + 2;
    }
    if (r < 0)
        return r;
    if (reader->status == 101)
        return reader->may_switch ? 1 : refuse(reader, "it switches to a protocol unasked");
    return reader->status >= 200;
}

/* The bytes up to the empty line, if that is in there. */
static size_t head_part(const struct reply_reader *reader, const char *data, size_t length,
                        bool *ret_is_whole)
{
    static const char mark[] = "\r\n\r\n";
    size_t matched = 0;

    /* The mark may have begun in what came before. */
    for (size_t k = MIN(reader->head.length, (size_t)3); k > 0 && matched == 0; k--) {
        if (memcmp(reader->head.data + reader->head.length - k, mark, k) == 0)
            matched = k;
    }
    *ret_is_whole = false;
    for (size_t i = 0; i < length; i++) {
        if (data[i] == mark[matched])
            matched++;
        else
            matched = data[i] == '\r';
        if (matched == 4) {
            *ret_is_whole = true;
            return i + 1;
        }
    }
    return length;
}

ssize_t reply_reader_head(struct reply_reader *reader, const char *data, size_t length)
{
    size_t taken = 0;

    while (taken < length && !reader->has_head) {
        bool is_whole;
        size_t part = head_part(reader, data + taken, length - taken, &is_whole);
        int r;

        if (part > reader->head.maximum - reader->head.length)
            return refuse(reader, "its head is larger than 32 KiB");
        r = buf_append(&reader->head, data + taken, part);
        if (r < 0)
            return r;
        taken += part;
        if (!is_whole)
            break;
        r = read_head(reader);
        if (r < 0)
            return r;
        if (r == 0 && ++reader->informal > INFORMAL_MAX)
            return refuse(reader, "it has too many 1xx replies before it");
        if (r == 0)
            buf_clear(&reader->head);
        reader->has_head = r > 0;
        if (reader->has_head && choose_body(reader, str_starts(reader->head.data, "HTTP/1.0")) < 0)
            return -EPROTO;
    }
    return (ssize_t)taken;
}

/* ---- the body ---- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int size_byte(struct reply_reader *reader, char c)
{
    int digit = reader->chunk_state == CHUNK_SIZE ? hex_digit(c) : -1;

    if (++reader->line_length > CHUNK_LINE_MAX)
        return refuse(reader, "the line of a chunk is too long");
    if (digit >= 0 && reader->digits < CHUNK_DIGITS) {
        reader->left = reader->left * 16 + (unsigned)digit;
        reader->digits++;
        return 0;
    }
    if (digit >= 0 || reader->digits == 0)
        return refuse(reader, "the size of a chunk is malformed");
    if (c == '\r') {
        reader->chunk_state = CHUNK_SIZE_LF;
        return 0;
    }
    if (((unsigned char)c < ' ' && c != '\t') || c == 0x7f ||
        (reader->chunk_state == CHUNK_SIZE && c != ';'))
        return refuse(reader, "the line of a chunk is malformed");
    reader->chunk_state = CHUNK_EXTENSION;
    return 0;
}

static int expect(struct reply_reader *reader, char c, char wanted, int next)
{
    if (c != wanted)
        return refuse(reader, "a chunk does not end where its size says");
    reader->chunk_state = next;
    reader->line_length = 0;
    return 0;
}

/* They are dropped; a line is anything without control characters. */
static int trailer_byte(struct reply_reader *reader, char c)
{
    bool is_start = reader->chunk_state == TRAILER_START;

    if (++reader->line_length > TRAILERS_MAX)
        return refuse(reader, "its trailers are too long");
    if (c == '\r') {
        reader->chunk_state = is_start ? TRAILER_END_LF : TRAILER_LF;
        return 0;
    }
    if (((unsigned char)c < ' ' && c != '\t') || c == 0x7f || (is_start && (c == ' ' || c == '\t')))
        return refuse(reader, "its trailers are malformed");
    reader->chunk_state = TRAILER_LINE;
    return 0;
}

/* A byte that is not of the data. */
static int framing_byte(struct reply_reader *reader, char c)
{
    switch ((enum chunk_state)reader->chunk_state) {
    case CHUNK_SIZE:
    case CHUNK_EXTENSION:
        return size_byte(reader, c);
    case CHUNK_SIZE_LF:
        reader->digits = 0;
        return expect(reader, c, '\n', reader->left > 0 ? CHUNK_DATA : TRAILER_START);
    case CHUNK_DATA_CR:
        return expect(reader, c, '\r', CHUNK_DATA_LF);
    case CHUNK_DATA_LF:
        return expect(reader, c, '\n', CHUNK_SIZE);
    case TRAILER_START:
    case TRAILER_LINE:
        return trailer_byte(reader, c);
    case TRAILER_LF:
        reader->chunk_state = TRAILER_START;
        return c == '\n' ? 0 : refuse(reader, "its trailers are malformed");
    case TRAILER_END_LF:
        reader->is_over = true;
        return c == '\n' ? 0 : refuse(reader, "its trailers are malformed");
    case CHUNK_DATA:
        break;
    }
    return refuse(reader, "its chunks are malformed");
}

static ssize_t chunked_body(struct reply_reader *reader, const char *data, size_t length,
                            const char **ret_piece, size_t *ret_length)
{
    size_t taken = 0;

    while (taken < length && !reader->is_over) {
        if (reader->chunk_state == CHUNK_DATA) {
            *ret_piece = data + taken;
            *ret_length = (size_t)MIN((uint64_t)(length - taken), reader->left);
            reader->left -= *ret_length;
            if (reader->left == 0)
                reader->chunk_state = CHUNK_DATA_CR;
            return (ssize_t)(taken + *ret_length);
        }
        if (framing_byte(reader, data[taken]) < 0)
            return -EPROTO;
        taken++;
    }
    return (ssize_t)taken;
}

ssize_t reply_reader_body(struct reply_reader *reader, const char *data, size_t length,
                          const char **ret_piece, size_t *ret_length)
{
    *ret_piece = data;
    *ret_length = 0;
    if (reader->is_over || length == 0)
        return 0;
    if (reader->body == REPLY_CHUNKED)
        return chunked_body(reader, data, length, ret_piece, ret_length);
    *ret_length = length;
    if (reader->body == REPLY_LENGTH) {
        *ret_length = (size_t)MIN((uint64_t)length, reader->left);
        reader->left -= *ret_length;
        reader->is_over = reader->left == 0;
    }
    return (ssize_t)*ret_length;
}

int reply_reader_close(struct reply_reader *reader)
{
    if (!reader->has_head)
        return refuse(reader, reader->head.length > 0 ? "it ends in the middle of its head"
                                                      : "it closed the connection without a reply");
    if (reader->body == REPLY_UNTIL_CLOSE)
        reader->is_over = true;
    return reader->is_over ? 0 : refuse(reader, "it ends in the middle of its body");
}
