/*
 * output.h - what a one-shot run left in /tmp/output: which files may come out of the box, and what
 * the result says about the others.
 *
 * The list comes out of a box and is hostile; store/output_file.h says what is done about it. No
 * I/O.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_RECIPE_OUTPUT_H
#define BAILEY_RECIPE_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "model/result.h"
#include "runtime/box/files.h"

#define OUTPUT_FOLDER "/tmp/output"

struct output_entry {
    char *name;
    uint64_t bytes;
    const char *skipped; /* why it stays in the box: static; NULL: it may be fetched */
};

/* Zeroed but for `result` is an empty one. */
struct output_listing {
    struct result *result;
    struct output_entry *entries;
    size_t count;   /* at most LIMIT_OUTPUT_FILES */
    uint64_t bytes; /* of what may be fetched: no more than the box's disk can have had */
    bool has_no_memory;
};

/* One more of the folder: counted in the result, and kept. */
void output_listing_add(struct output_listing *listing, const struct box_entry *entry);

/* It is complete: sorted by name, and what stays in the box is among the result's files. */
int output_listing_report(struct output_listing *listing, struct error *err);

void output_listing_free(struct output_listing *listing); /* for CLEANUP() */

#endif
