/* decode.h - bytes of an event that are not UTF-8. Pure. */
#ifndef BAILEY_CLI_CLIENT_DECODE_H
#define BAILEY_CLI_CLIENT_DECODE_H

#include "base/buf.h"

/* Standard alphabet, padded, nothing else. 0, -EINVAL, -EFBIG or -ENOMEM. */
int decode_base64(const char *text, size_t length, struct buf *to);

#endif
