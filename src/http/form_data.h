/*
 * form_data.h - bodies of multipart/form-data (RFC 7578), part by part, as the bytes come, at the
 * pace of the reader. Pure; the bytes are hostile.
 *
 * Nothing of a part's content is kept: data() takes what it can, and form_data_feed() says how many
 * bytes of the body were used, so that a reader who cannot take more holds the sender back. The
 * head of a part is at most FORM_DATA_HEAD bytes.
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_HTTP_FORM_DATA_H
#define BAILEY_HTTP_FORM_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"

#define FORM_DATA_BOUNDARY 70 /* RFC 2046 */
#define FORM_DATA_HEAD (16 * 1024)

struct form_data_part {
    const char *name;     /* "" where it has none */
    const char *filename; /* NULL: none; as sent, with its folders */
};
struct form_data_events {
    /* A part begins; strings live until it returns. Less than 0: the body is refused; more than
     * 0: no more bytes now. */
    int (*begin)(void *ctx, const struct form_data_part *part);
    size_t (*data)(void *ctx, const void *data, size_t length); /* the bytes taken */
    int (*end)(void *ctx);                                      /* as begin() */
};

enum form_data_state {
    FORM_DATA_BEFORE, /* the first part */
    FORM_DATA_LINE,   /* after a boundary */
    FORM_DATA_HEADER,
    FORM_DATA_BODY,
    FORM_DATA_OVER, /* after the last boundary */
};

struct form_data {
    char delimiter[FORM_DATA_BOUNDARY + 5]; /* CR LF - - BOUNDARY */
    size_t length;                          /* of it */
    size_t matched, flushed;
    bool is_flushing; /* what looked like a delimiter was content */
    enum form_data_state state;
    struct buf head;
    const struct form_data_events *events;
    void *ctx;
};

bool form_data_is_type(const char *type); /* multipart/form-data, whatever its boundary */
/* `type` is the Content-Type of the body. -EINVAL: another type, or it has no boundary. */
int form_data_begin(struct form_data *form, const char *type, const struct form_data_events *events,
                    void *ctx);
/*
 * Bytes used; less than `length`: the reader takes no more now, and gets the rest again. -EINVAL,
 * -EFBIG (a head), -ENOMEM, or what a callback returned: no call may follow.
 */
ssize_t form_data_feed(struct form_data *form, const void *data, size_t length);
bool form_data_is_whole(const struct form_data *form); /* the last boundary was there */
void form_data_free(struct form_data *form);           /* twice is fine */

#endif
