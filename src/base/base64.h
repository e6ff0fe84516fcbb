/*
 * base64.h - bytes as text of 64 letters and back: RFC 4648 section 4, standard alphabet, padded,
 * without line breaks. Pure. Both append; when they fail, the buffer is as it was.
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_BASE64_H
#define BAILEY_BASE_BASE64_H

#include <stddef.h>

#include "base/buf.h"

/* How long the text of so many bytes is. */
#define BASE64_LENGTH(bytes) (((bytes) + 2) / 3 * 4)

int base64_encode(const void *data, size_t length, struct buf *text); /* 0, -EFBIG, -ENOMEM */

/* -EINVAL unless it is whole groups of four, padding at the very end only, and no other letter, not
 * even white space. The bits that padding leaves over are not looked at: some writers fill them.
 * Else 0, -EFBIG or -ENOMEM. */
int base64_decode(const char *text, size_t length, struct buf *data);

#endif
