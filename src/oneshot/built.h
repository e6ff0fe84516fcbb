/*
 * built.h - the template of a box that is made without a daemon, from what a daemon built.
 *
 * Reads <state>/templates/<name>.json and looks whether its layer is there; the files are the
 * user's own. Blocks only for them. Owns its strings: built_free() in the end.
 *
 * Runs in: commands
 */
#ifndef BAILEY_ONESHOT_BUILT_H
#define BAILEY_ONESHOT_BUILT_H

#include <stdbool.h>

#include "base/error.h"
#include "base/limits.h"

struct config;

struct built_template {
    char *layer; /* absolute path of its folder; NULL: the machine's own Python */
    char **env;  /* strv of "K=V" */
};

/*
 * The configured template ("auto": the data template if it can be used, else none), in this state
 * folder (NULL: there is none). Errors: template_not_found, template_not_built (also: built for
 * another interpreter).
 */
int built_find(const struct config *config, const char *state, struct built_template *ret,
               struct error *err);
void built_free(struct built_template *built);

/*
 * The name of a template that can be used and has the package (normalised); false: none.
 */
bool built_with(const struct config *config, const char *state, const char *package,
                char name[LIMIT_NAME + 1]);

/* Each template that is built there, and whether it can be used: NULL, or why not. For doctor. */
void built_each(const struct config *config, const char *state,
                void (*each)(void *ctx, const char *name, const char *problem), void *ctx);

#endif
