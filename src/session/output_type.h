/*
 * output_type.h - kind and MIME type of an output, by its name. Pure.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_OUTPUT_TYPE_H
#define BAILEY_SESSION_OUTPUT_TYPE_H

#include <stdbool.h>

struct output_type {
    const char *extension; /* ".csv" */
    const char *kind;      /* "text", "image", "data", "binary" */
    const char *mime;
};

/* Never NULL: an unknown extension is binary. */
const struct output_type *output_type_find(const char *name);

/* Texts, images and data are saved on the host; binaries and models stay in the box. */
bool output_type_is_saved(const struct output_type *type);

#endif
