/* result.c - a result's life, its captured streams and its exit status; see result.h. */
#include "model/result.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "model/text.h"

#define NOTE_LINE_MAX 1024

/* Exit statuses of the command line, as env(1), timeout(1) and the shells have them. */
#define STATUS_TIMED_OUT 124
#define STATUS_ENGINE 125
#define STATUS_REFUSED 126
#define STATUS_NOT_FOUND 127
#define STATUS_CANCELLED 130

const char *usage_by_name(enum usage_by by, const char *runtime)
{
    static const char *const names[_USAGE_BY_MAX] = {
        [USAGE_BY_WARDEN] = "warden",
        [USAGE_BY_ENGINE] = "engine",
    };

    if (by == USAGE_BY_PROVIDER)
        return runtime;
    return (unsigned)by < _USAGE_BY_MAX ? names[by] : NULL;
}

void result_init(struct result *result, const struct limits *limits)
{
    *result = (struct result){
        .limits = *limits,
        .out.kept = BUF_INIT(limits->output_bytes),
        .err.kept = BUF_INIT(limits->output_bytes),
        .err.keeps_end = true,
        .note = BUF_INIT(RESULT_NOTE_MAX),
    };
}

void result_free(struct result *result)
{
    capture_free(&result->out);
    capture_free(&result->err);
    buf_free(&result->note);
    strv_freep(&result->blocked_imports);
    strv_freep(&result->words);
    for (size_t i = 0; i < result->file_count; i++) {
        free(result->files[i].name);
        free(result->files[i].path);
        free(result->files[i].skipped);
    }
    free(result->files);
    json_decref(result->install);
    *result = (struct result){0};
}

void capture_free(struct capture *capture)
{
    buf_free(&capture->kept);
    buf_free(&capture->tail);
}

/* Appends to the end of a stream that was cut; half of the limit counts, twice that is held. */
static void add_end(struct capture *capture, const char *data, size_t length)
{
    struct buf *tail = &capture->tail;
    size_t most = capture->end_bytes;

    if (length > most) {
        data += length - most;
        length = most;
    }
    if (tail->length + length > 2 * most)
        buf_consume(tail, tail->length - MIN(tail->length, most));
    tail->maximum = 2 * most;
    if (buf_append(tail, data, length) < 0)
        buf_free(tail); /* an end with a gap would not be the end */
}

/* The limit is reached: what is kept becomes the beginning and the first bytes of the end. */
static void split(struct capture *capture, uint64_t limit)
{
    size_t head = (size_t)MIN(capture->kept.length, limit / 2);

    capture->end_bytes = (size_t)(limit - limit / 2);
    add_end(capture, buf_text(&capture->kept) + head, capture->kept.length - head);
    if (capture->kept.data)
        capture->kept.data[head] = '\0';
    capture->kept.length = head;
}

void capture_add(struct capture *capture, const void *data, size_t length, uint64_t limit)
{
    size_t room = limit > capture->kept.length ? limit - capture->kept.length : 0;
    size_t take = MIN(room, length);

    capture->total_bytes += length;
    if (capture->is_truncated) {
        if (capture->end_bytes > 0)
            add_end(capture, data, length);
        return;
    }
    capture->kept.maximum = limit;
    if (take > 0 && buf_append(&capture->kept, data, take) < 0)
        take = 0;
    /* Once something is missing nothing may follow: what is kept is a prefix. */
    capture->is_truncated = take < length;
    if (capture->is_truncated && capture->keeps_end) {
        split(capture, limit);
        add_end(capture, (const char *)data + take, length - take);
    }
}

const char *capture_end(const struct capture *capture, size_t *ret_length)
{
    size_t length = MIN(capture->tail.length, capture->end_bytes);
    const char *end = buf_text(&capture->tail) + capture->tail.length - length;
    size_t skip = 0;

    /* The rest of a character whose beginning was cut off. */
    while (skip < MIN(length, 3u) && ((unsigned char)end[skip] & 0xc0) == 0x80)
        skip++;
    *ret_length = length - skip;
    return end + skip;
}

/* The line that says where the stream was cut, and the end of the stream behind it. */
static int add_cut(const struct capture *capture, struct buf *text, uint64_t *invalid_bytes)
{
    size_t length;
    const char *end = capture_end(capture, &length);
    int r = 0;

    if (text->length > 0 && text->data[text->length - 1] != '\n')
        r = buf_append_text(text, "\n");
    if (r == 0)
        r = buf_append_text(text, RESULT_TRUNCATED);
    if (r < 0 || length == 0)
        return r;
    r = buf_append_text(text, "\n");
    return r < 0 ? r : text_clean(text, end, length, false, invalid_bytes);
}

int capture_text(const struct capture *capture, struct buf *text, uint64_t *ret_invalid_bytes)
{
    uint64_t invalid_bytes = 0;
    int r;

    buf_clear(text);
    r = text_clean(text, buf_text(&capture->kept), capture->kept.length, capture->is_truncated,
                   &invalid_bytes);
    if (r == 0 && capture->is_truncated)
        r = add_cut(capture, text, &invalid_bytes);
    if (r < 0)
        return r;
    *ret_invalid_bytes = invalid_bytes + capture->replaced_bytes;
    return 0;
}

void result_note(struct result *result, const char *format, ...)
{
    char line[NOTE_LINE_MAX];
    va_list args;
    int length;

    va_start(args, format);
    length = vsnprintf(line, sizeof(line) - 1, format, args);
    va_end(args);
    if (length < 0)
        return;
    length = MIN(length, (int)sizeof(line) - 2);
    length = (int)utf8_floor(line, (size_t)length);
    line[length] = '\n';
    /* A note that does not fit or finds no memory is lost; flags and meta.error say the same. */
    (void)buf_append(&result->note, line, (size_t)length + 1);
}

/* Room for one more file; the list doubles whenever its length is a power of two. */
static int grow_files(struct result *result)
{
    size_t count = result->file_count;
    struct output_file *grown;

    if (count >= LIMIT_LIST_ENTRIES)
        return -EFBIG;
    if (count & (count - 1))
        return 0;
    grown = reallocarray(result->files, count ? count * 2 : 1, sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    result->files = grown;
    return 0;
}

int result_add_file(struct result *result, const char *name, const char *path, uint64_t bytes,
                    const char *skipped)
{
    struct output_file file = {.bytes = bytes};
    int r = grow_files(result);

    if (r < 0)
        return r;
    file.name = strdup(name);
    file.path = path ? strdup(path) : NULL;
    file.skipped = skipped ? strdup(skipped) : NULL;
    if (!file.name || (path && !file.path) || (skipped && !file.skipped)) {
        free(file.name);
        free(file.path);
        free(file.skipped);
        return -ENOMEM;
    }
    result->files[result->file_count++] = file;
    return 0;
}

static int status_of_code(const char *code)
{
    static const struct {
        const char *code;
        int status;
    } rows[] = {
        {ERROR_REFUSED, STATUS_REFUSED},        {ERROR_BLOCKED_IMPORT, STATUS_REFUSED},
        {ERROR_NOT_EXECUTABLE, STATUS_REFUSED}, {ERROR_COMMAND_NOT_FOUND, STATUS_NOT_FOUND},
        {ERROR_CANCELLED, STATUS_CANCELLED},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (str_equal(code, rows[i].code))
            return rows[i].status;
    }
    return STATUS_ENGINE;
}

int result_exit_status(const struct result *result)
{
    if (result->timed_out)
        return STATUS_TIMED_OUT;
    if (result->error.code)
        return status_of_code(result->error.code);
    if (result->signal > 0)
        return 128 + result->signal;
    /* The shell sees eight bits; a larger status is not the program's own. */
    if (result->exit_code < 0 || result->exit_code > 255)
        return STATUS_ENGINE;
    return result->exit_code;
}

void result_set_fallback(struct result *result, const char *from, const char *why)
{
    result->fallback_from = from;
    if (strv_push(&result->words, why) == 0)
        result->fallback = result->words[strv_length(result->words) - 1];
    else
        result->fallback = "the provider is not available";
}
