/*
 * requirement.h - a package as a user writes it: "requests", "numpy>=2,<3", "polars[excel]".
 *
 * Names and versions only: no addresses, no paths, no options of pip, no markers. Pure; the input
 * is hostile.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_TEMPLATE_REQUIREMENT_H
#define BAILEY_TEMPLATE_REQUIREMENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/limits.h"

typedef struct json_t json_t;

/* `name` gets the distribution's, normalised (lower case, '-' between its parts). bad_input. */
int requirement_parse(const char *text, char name[LIMIT_REQUIREMENT + 1], struct error *err);

/* "Foo__Bar.baz" is "foo-bar-baz" (PEP 503); false: it is not a distribution's name. */
bool requirement_normalise(const char *text, size_t length, char name[LIMIT_REQUIREMENT + 1]);
/* Whether a list of {"name", ...} has the package of this normalised name, however it is spelled
 * there. */
bool requirement_is_listed(json_t *packages, const char *package);
/* Whether one of the requirements in a NULL-ended list is for the package of this normalised name.
 */
bool requirement_is_among(const char *name, const char *const *requirements);
/* The packages of `now` that `before` (NULL: empty) does not have, or has in another version; a new
 * reference. */
json_t *requirement_added(json_t *before, json_t *now);

/* May it be installed? `allow` empty or NULL: everything that `deny` does not name. */
bool requirement_is_allowed(const char *name, char *const *allow, char *const *deny);
int requirement_denied(const char *name,
                       struct error *err); /* install_denied, for one that may not */

#endif
