/*
 * shape.h - what a configuration means for a one-shot run, as lines of text: two programs that have
 * the same lines run it in the same way. Pure.
 *
 * Runs in: broker, hosts, supervisor, commands
 */
#ifndef BAILEY_CONFIG_SHAPE_H
#define BAILEY_CONFIG_SHAPE_H

#include "config/config.h"

/* What is not in the configuration, but decides as much. */
struct shape {
    const char *state;       /* the state folder */
    const char *fingerprint; /* of the host's interpreter */
    const char *layer;       /* the template's, by its hash; NULL: none */
};

/*
 * "name=value" lines, in a fixed order, this program's version first. The timeout is not among
 * them: a run names its own. 0, -EFBIG or -ENOMEM.
 */
int shape_text(const struct shape *shape, const struct config *config, struct buf *text);

/* The first line of `ours` that is not so in `theirs`, its name alone; NULL: they are the same. */
const char *shape_difference(const char *ours, const char *theirs, char name[64]);

#endif
