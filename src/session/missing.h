/*
 * missing.h - a module that code did not find: which one, and whether a package may be fetched for
 * it.
 *
 * The name is a hint of hostile code. Nothing worse may come of it than the installation of a
 * package that the operator's lists allow: so it is read strictly, and what belongs to Python
 * itself or to something that is there already is not looked for. Pure.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_MISSING_H
#define BAILEY_SESSION_MISSING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/limits.h"

typedef struct json_t json_t;

/* The value of a ModuleNotFoundError, "No module named 'x.y'" and nothing else; false: it is none.
 */
bool missing_from_value(const char *value, size_t length, char module[LIMIT_MODULE + 1]);
/* The last line of a traceback, "ModuleNotFoundError: No module named 'x'". */
bool missing_from_stderr(const char *text, size_t length, char module[LIMIT_MODULE + 1]);

/*
 * The package to fetch for it, as the index knows it. Errors: install_denied (the lists),
 * install_failed (nobody looks for such a name; the text says why).
 */
int missing_package(const char *module, char *const *allow, char *const *deny,
                    char package[LIMIT_REQUIREMENT + 1], struct error *err);

/* Of the standard library of any version of Python 3, by its top name (stdlib_names.c). */
bool missing_is_standard(const char *module);

/*
 * What a result says of it: an object of members for `meta`, a new reference or NULL.
 * {"installed":[{name, version}], "install_note"} or {"install_error":{code, message},
 * "install_note"}; the note is a line for the agent.
 */
json_t *missing_installed(const char *package, json_t *added);
json_t *missing_failed(const char *module, const struct error *err);

#endif
