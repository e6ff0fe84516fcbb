/*
 * shape.h - the part of a configuration that affects a one-shot run, as lines of text: two programs
 * with the same lines run it in the same way. Pure.
 *
 * Runs in: broker, hosts, supervisor, commands
 */
#ifndef BAILEY_CONFIG_SHAPE_H
#define BAILEY_CONFIG_SHAPE_H

#include "config/config.h"

/* Facts outside the configuration that matter as well. */
struct shape {
    const char *state;       /* the state folder */
    const char *fingerprint; /* of the host's interpreter */
    const char *layer;       /* the template's, by its hash; NULL: none */
};

/*
 * "name=value" lines, in a fixed order, this program's version first. The timeout is left out: each
 * run has its own. 0, -EFBIG or -ENOMEM.
 */
int shape_text(const struct shape *shape, const struct config *config, struct buf *text);

/* The name of the first line of `ours` that differs in `theirs`; NULL: they are the same. */
const char *shape_difference(const char *ours, const char *theirs, char name[64]);

#endif
