/*
 * gunzip.h - undoes gzip (RFC 1952, 1951) as the bytes come, at the pace of the reader. Pure; the
 * bytes are hostile, and their text may be a thousand times as long as they are: the reader counts.
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_GUNZIP_H
#define BAILEY_BASE_GUNZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct gunzip;

/* data() returns the bytes it took; less than length: it takes no more now. NULL: no memory. */
struct gunzip *gunzip_new(size_t (*data)(void *ctx, const void *data, size_t length), void *ctx);
/*
 * Bytes used; less than `length`: the reader takes no more now, and the rest is to be given again.
 * -EINVAL: not gzip, or damaged; no call may follow.
 */
ssize_t gunzip_feed(struct gunzip *gunzip, const void *data, size_t length);
bool gunzip_is_whole(const struct gunzip *gunzip); /* it ended where it may */
void gunzip_free(struct gunzip *gunzip);           /* NULL is fine */

#endif
