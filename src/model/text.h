/*
 * text.h - bytes of any kind as JSON text. Pure functions over caller-owned buffers.
 *
 * Jansson refuses strings that are not UTF-8, and guests write any bytes: every string that goes
 * out passes through here. Called by model/, store/ and cli/.
 *
 * Runs in: broker, hosts, upstream, commands
 */
#ifndef BAILEY_MODEL_TEXT_H
#define BAILEY_MODEL_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

typedef struct json_t json_t;

/*
 * Appends `data` with each maximal invalid part (Unicode 15, 3.9) replaced by one U+FFFD, and adds
 * the number of bytes replaced to *invalid_bytes. A sequence that the end cuts off is invalid too,
 * unless `is_cut` says that the end is ours: then it is left out. 0, -EFBIG or -ENOMEM.
 */
int text_clean(struct buf *to, const char *data, size_t length, bool is_cut,
               uint64_t *invalid_bytes);

/* A JSON string of any bytes, cleaned; NULL when memory is out. */
json_t *text_to_json(const char *data, size_t length);

/* A document as text, appended to `to`: whole, or an error (jansson alone may drop a piece). */
int text_of_json(json_t *json, size_t flags, struct buf *to);

/*
 * The strings of an array, NULL-terminated; an element that is not a string ends the list. The
 * caller frees the list, its strings are borrowed from the array. NULL: no memory.
 */
const char **text_list_of_json(json_t *array);

#endif
