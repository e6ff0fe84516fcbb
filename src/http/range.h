/*
 * range.h - which bytes of a file a client wants (RFC 9110 section 14), and the header that names a
 * file it shall save. Pure; headers are hostile.
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_HTTP_RANGE_H
#define BAILEY_HTTP_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum http_range {
    RANGE_WHOLE, /* no range, one of a kind that is not known, or several: all of it (200) */
    RANGE_PART,  /* 206 */
    RANGE_NONE,  /* 416: nothing of it is there */
};

/*
 * `range` and `if_range` are header values or NULL; `etag` is the file's own, with its quotes. What
 * is not understood is passed over, as the RFC has it.
 */
enum http_range http_range_read(const char *range, const char *if_range, const char *etag,
                                uint64_t size, uint64_t *ret_first, uint64_t *ret_count);

/* Whether a list of tags (If-None-Match) has this one. */
bool http_etag_is_in(const char *list, const char *etag);

/*
 * "Content-Disposition: attachment; ..." for a name of any bytes: plain letters for old clients,
 * the rest percent-encoded (RFC 6266, 8187). Only the part after the last '/' is used.
 */
void http_attachment(const char *name, char *header, size_t size);
#define HTTP_ATTACHMENT_MAX 1200

#endif
