/*
 * missing_hint.c - what an agent or a user can do about a module that code did not find; see
 * missing.h.
 */
#include <stdarg.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "config/config.h"
#include "session/missing.h"

#define UNQUOTED ": No module named " /* python -m x */

#define AUTO_INSTALL                                                                           \
    " With SANDBOX_AUTO_INSTALL=true run_code and run_python_code install missing modules by " \
    "themselves."

#define PIP                                                                                \
    "This Python has no module pip; use the command pip, not python -m pip. Packages are " \
    "installed into a session by sandbox_install {\"packages\": [\"NAME\"]}."

/* How the package is added. */
static int add_way(enum missing_place place, const char *package, struct buf *text)
{
    switch (place) {
    case MISSING_IN_SESSION:
        return buf_printf(text,
                          " If it is a package, sandbox_install {\"packages\": [\"%s\"]} adds it "
                          "to this session.",
                          package);
    case MISSING_IN_RUN:
        return buf_printf(text,
                          " If it is a package, sandbox_install {\"packages\": [\"%s\"]} adds it "
                          "to a session, not to a fresh sandbox like this one.",
                          package);
    case MISSING_ALONE:
        return buf_printf(text,
                          " If it is a package, 'bailey install -s SESSION %s' adds it to a "
                          "session, not to a fresh sandbox like this one.",
                          package);
    }
    return -1;
}

/* The module of one line; false: the line says something else. */
static bool module_of_line(const char *line, size_t length, char module[LIMIT_MODULE + 1])
{
    CLEANUP(buf_free) struct buf quoted = BUF_INIT(KIB);
    const char *found;
    size_t at;

    if (missing_from_stderr(line, length, module))
        return true;
    found = memmem(line, length, UNQUOTED, sizeof(UNQUOTED) - 1);
    if (!found || found == line || memchr(line, ' ', (size_t)(found - line)))
        return false; /* the words before it are the interpreter's path */
    at = (size_t)(found - line) + sizeof(UNQUOTED) - 1;
    return buf_printf(&quoted, "No module named '%.*s'", (int)(length - at), line + at) == 0 &&
           missing_from_value(buf_text(&quoted), quoted.length, module);
}

bool missing_from_output(const char *text, size_t length, char module[LIMIT_MODULE + 1])
{
    while (length > 0) {
        size_t end = text[length - 1] == '\n' ? length - 1 : length, start = end;

        while (start > 0 && text[start - 1] != '\n')
            start--;
        if (module_of_line(text + start, end - start, module))
            return true;
        length = start;
    }
    return false;
}

bool missing_hint(const struct missing_hint *hint, struct buf *text)
{
    const struct config *config = hint->config;
    const char *why = config_no_install(config);
    char package[LIMIT_REQUIREMENT + 1] = "";
    struct error err = {0};
    int failed;

    if (str_equal(hint->module, "pip")) /* python -m pip */
        return !why && buf_append_text(text, PIP) == 0;
    if (missing_package(hint->module, config->install_allow, config->install_deny, package, &err) <
            0 &&
        err.code != ERROR_INSTALL_DENIED)
        return false; /* no package brings it */
    failed = buf_printf(text, "The module '%s' is missing.", hint->module);
    if (hint->template)
        failed |= buf_printf(text, " The template '%s' has it (SANDBOX_TEMPLATE=%s).",
                             hint->template, hint->template);
    if (why)
        failed |= buf_printf(text, " It cannot be installed: %s.", why);
    else if (err.num < 0)
        failed |= buf_printf(text, " It cannot be installed: %s.", err.text);
    else
        failed |= add_way(hint->place, package, text);
    if (!why && err.num == 0 && !config->auto_install && hint->place != MISSING_ALONE)
        failed |= buf_append_text(text, AUTO_INSTALL);
    return failed == 0;
}
