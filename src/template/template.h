/*
 * template.h - what a template.yaml may contain, and what of it goes to the daemon. Pure.
 *
 * The file:   name, description, python, packages | lock (a file beside it), tiers [{name,
 *             modules}], env {}, files [{path, from}], warm_up []
 * The wire:   the same as JSON, with the lock's text in `lock` and files {path: base64}
 *
 * Both are checked here, by the same rules; unknown keys are refused with the nearest name, and the
 * file's errors name its line. docs/templates.md describes it for users.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_TEMPLATE_TEMPLATE_H
#define BAILEY_TEMPLATE_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

typedef struct json_t json_t;

/* The one that needs no building: the host's own Python. */
#define TEMPLATE_PLAIN "python"
/* No template but a choice: TEMPLATE_DATA where it is built for this Python, else the plain one. */
#define TEMPLATE_AUTO "auto"
#define TEMPLATE_DATA "data"

/* The text of a file called `file` in errors. *ret is a new reference; its names are checked. */
int template_read(const char *text, size_t length, const char *file, json_t **ret,
                  struct error *err);

/* What came over the wire. */
int template_check(json_t *body, struct error *err);

bool template_name_is_good(const char *name); /* [a-z0-9][a-z0-9_-]*, at most LIMIT_NAME */
bool template_module_is_good(const char *name);
/* Relative, and no part of it is empty, "." or "..": it stays below the folder it is joined to. */
bool template_path_is_good(const char *path);

#endif
