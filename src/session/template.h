/*
 * template.h - templates for the doors: list, build, remove, verify.
 *
 * A template is templates/<name>.json, which names its layer (docs/templates.md). Building is an
 * installation (installer.h) and then that file; a failed build leaves the earlier template as it
 * was. Never blocks; callbacks come from the loop.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_TEMPLATE_H
#define BAILEY_SESSION_TEMPLATE_H

#include <stdbool.h>

#include "base/error.h"

typedef struct json_t json_t;
struct session_manager;

/* docs/rest.md, "template"; new references. All known templates, built or not, by name. */
json_t *template_list_json(struct session_manager *manager);
/* Errors: template_not_found. */
int template_json(struct session_manager *manager, const char *name, json_t **ret,
                  struct error *err);
/* Whether a template as above has the package of this normalised name ("scikit-learn"). */
bool template_has_package(json_t *template, const char *package);

struct template_build;
struct template_build_events {
    void (*progress)(void *ctx, const char *line); /* may be NULL */
    /* err->num 0: `template` (borrowed) as above, with `was_there`: it was built already. */
    void (*done)(void *ctx, json_t *template, const struct error *err);
};
/* `body`: the format in template/template.h; borrowed. Errors: bad_input, too_large, ... */
int template_build(struct session_manager *manager, json_t *body,
                   const struct template_build_events *events, void *ctx,
                   struct template_build **ret, struct error *err);
void template_build_cancel(struct template_build *build); /* no callback comes any more */

/* Errors: template_not_found, template_not_built, template_in_use. */
int template_remove(struct session_manager *manager, const char *name, struct error *err);

/* Reads and hashes everything in its layer; err->num 0: the hash matches its name. */
struct template_verify;
int template_verify(struct session_manager *manager, const char *name,
                    void (*done)(void *ctx, const struct error *err), void *ctx,
                    struct template_verify **ret, struct error *err);
void template_verify_cancel(struct template_verify *verify);

#endif
