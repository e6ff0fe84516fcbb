/* download.c - sends a file of the disk as a reply, with ranges; see download.h. */
#include "api/rest/download.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/rest/rest_private.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "http/range.h"

#define PIECE (256 * KIB)
#define HEADER_MAX 160

struct sending {
    struct front_stream stream;
    int fd;
    uint64_t at, left;
};

static void on_fill(void *ctx)
{
    struct sending *sending = ctx;
    CLEANUP(freep) char *data = malloc(PIECE);
    ssize_t count = 0;

    if (data && sending->left > 0) {
        do {
            count = pread(sending->fd, data, (size_t)MIN(sending->left, (uint64_t)PIECE),
                          (off_t)sending->at);
        } while (count < 0 && errno == EINTR);
    }
    if (!data || (sending->left > 0 && count <= 0) ||
        buf_append(&sending->stream.text, data, (size_t)count) < 0) {
        sending->stream.is_broken = true;
        return;
    }
    sending->at += (uint64_t)count;
    sending->left -= (uint64_t)count;
    sending->stream.is_over = sending->left == 0;
}

static void on_freed(void *ctx)
{
    struct sending *sending = ctx;

    fd_closep(&sending->fd);
    free(sending);
}

void rest_download_headers(const char *name, char *disposition,
                           const char *headers[DOWNLOAD_HEADERS_MAX])
{
    size_t count = 0;

    http_attachment(name, disposition, HTTP_ATTACHMENT_MAX);
    headers[count++] = disposition;
    headers[count++] = "X-Content-Type-Options: nosniff";
    headers[count++] = "Content-Security-Policy: default-src 'none'; sandbox";
    headers[count++] = "Cache-Control: private, no-cache";
    headers[count] = NULL;
}

/* Compares the request's conditions and range with the file: the status of the reply. */
static unsigned choose(struct http_request *http, const char *etag, uint64_t size,
                       struct sending *sending)
{
    static const unsigned statuses[] = {
        [RANGE_WHOLE] = 200, [RANGE_PART] = 206, [RANGE_NONE] = 416};
    const char *range;

    if (etag && http_etag_is_in(http_header(http, "If-None-Match"), etag)) {
        sending->left = 0;
        return 304;
    }
    /* Methods other than GET have no ranges (RFC 9110 section 14.2). */
    range = str_equal(http_method(http), "GET") ? http_header(http, "Range") : NULL;
    return statuses[http_range_read(range, http_header(http, "If-Range"), etag ? etag : "", size,
                                    &sending->at, &sending->left)];
}

/* Added after the headers of every download. */
static void add_headers(const char **headers, unsigned status, const char *etag,
                        const struct sending *sending, uint64_t size, char tag[HEADER_MAX],
                        char range[HEADER_MAX])
{
    size_t count = 0;

    while (headers[count])
        count++;
    headers[count++] = "Accept-Ranges: bytes";
    if (etag) {
        str_format(tag, HEADER_MAX, "ETag: %s", etag);
        headers[count++] = tag;
    }
    if (status == 206)
        str_format(range, HEADER_MAX, "Content-Range: bytes %llu-%llu/%llu",
                   (unsigned long long)sending->at,
                   (unsigned long long)(sending->at + sending->left - 1), (unsigned long long)size);
    if (status == 206)
        headers[count++] = range;
    headers[count] = NULL;
}

static void refuse_range(struct http_request *http, uint64_t size)
{
    char range[HEADER_MAX];
    const char *const headers[] = {range, "Accept-Ranges: bytes", NULL};
    struct error err = {0};

    str_format(range, sizeof(range), "Content-Range: bytes */%llu", (unsigned long long)size);
    error_set(&err, -ERANGE, ERROR_RANGE, "Range: it has only %llu bytes",
              (unsigned long long)size);
    front_reply_with(http, front_error_status(err.code), headers,
                     front_error_json(http_ctx(http), &err, json_pack("{s:s}", "field", "Range")));
}

void rest_download(struct http_request *http, int fd, const struct download_spec *spec)
{
    const char *headers[DOWNLOAD_HEADERS_MAX];
    char disposition[HTTP_ATTACHMENT_MAX], tag[HEADER_MAX], range[HEADER_MAX], quoted[HEADER_MAX];
    struct sending *sending = calloc(1, sizeof(*sending));
    const char *etag = spec->etag ? quoted : NULL;
    struct stat status;
    unsigned code;

    if (!sending || fstat(fd, &status) < 0) {
        close(fd);
        free(sending);
        front_fail_memory(http);
        return;
    }
    str_format(quoted, sizeof(quoted), "\"%s\"", spec->etag ? spec->etag : "");
    *sending = (struct sending){
        .fd = fd,
        .stream = {.http = http,
                   .text = BUF_INIT(PIECE),
                   .fill = on_fill,
                   .freed = on_freed,
                   .ctx = sending},
    };
    code = choose(http, etag, (uint64_t)status.st_size, sending);
    rest_download_headers(spec->name, disposition, headers);
    add_headers(headers, code, etag, sending, (uint64_t)status.st_size, tag, range);
    if (code == 304 || code == 416) {
        on_freed(sending);
        if (code == 304)
            http_reply(http, code, spec->type, headers, "", 0);
        else
            refuse_range(http, (uint64_t)status.st_size);
        return;
    }
    front_stream_start(&sending->stream, code, spec->type, headers, (int64_t)sending->left);
}
