/*
 * missing.h - a module that code did not find: its name, and whether a package may be installed for
 * it.
 *
 * The name comes from hostile code. The worst effect of a forged name must be the installation of a
 * package that the operator's lists allow: so it is parsed strictly, and modules of Python itself
 * or of an installed package are not looked for. Pure.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_SESSION_MISSING_H
#define BAILEY_SESSION_MISSING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/limits.h"

typedef struct json_t json_t;
struct config;

/*
 * Parses the value of a ModuleNotFoundError, exactly "No module named 'x.y'"; false: another value.
 */
bool missing_from_value(const char *value, size_t length, char module[LIMIT_MODULE + 1]);
/* The last line of a traceback, "ModuleNotFoundError: No module named 'x'". */
bool missing_from_stderr(const char *text, size_t length, char module[LIMIT_MODULE + 1]);

/*
 * The package to install for it, as the index names it. Errors: install_denied (the lists),
 * install_failed (such a name is not looked for; the text says why).
 */
int missing_package(const char *module, char *const *allow, char *const *deny,
                    char package[LIMIT_REQUIREMENT + 1], struct error *err);

/*
 * Whether it belongs to the standard library of any version of Python 3, by its top name
 * (stdlib_names.c).
 */
bool missing_is_standard(const char *module);

/*
 * The module that the last such line of a program's output names, wherever the line is: also that
 * of `python -m x`. For a hint only.
 */
bool missing_from_output(const char *text, size_t length, char module[LIMIT_MODULE + 1]);

enum missing_place {
    MISSING_IN_SESSION, /* which keeps what is installed */
    MISSING_IN_RUN,     /* a fresh box of the daemon */
    MISSING_ALONE,      /* a fresh box without a daemon, which installs nothing */
};
struct missing_hint {
    const char *module;
    const struct config *config;
    const char *template; /* one that is built and has it; NULL: none is known */
    enum missing_place place;
};
/*
 * Appends what can be done about it, for the agent or the user: the template, the tool, the
 * setting. False: no package brings the module (the standard library's, a part of an installed
 * package), or no memory.
 */
bool missing_hint(const struct missing_hint *hint, struct buf *text);

/*
 * The members for a result's `meta`, a new reference or NULL. {"installed":[{name, version}],
 * "install_note"} or {"install_error":{code, message}, "install_note"}; the note is a line for the
 * agent.
 */
json_t *missing_installed(const char *package, json_t *added);
json_t *missing_failed(const char *module, const struct error *err);

#endif
