/*
 * interpreters.c - which interpreter a session or a run has: the daemon's own, or the one that its
 * caller named (SANDBOX_PYTHON, SANDBOX_NODE); see session_manager.h.
 *
 * The broker can read almost nothing of the host, so it only knows paths: the launcher finds what a
 * path needs and whether a box may have it (launcher/interpreters.c). Only the daemon's own Python
 * has zygotes, prewarmed boxes and templates.
 */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "config/settings.h"
#include "runtime/provider_ops.h"
#include "session/session_private.h"

static const struct {
    const char *language;
    enum config_key key;
} rows[] = {{"python", KEY_PYTHON}, {"javascript", KEY_NODE}};

static bool is_python(const struct session_language *language)
{
    return str_equal(language->name, "python");
}

static const char *asked_of(const struct config *config, const struct session_language *language)
{
    return is_python(language)                       ? config->python
           : str_equal(language->name, "javascript") ? config->node
                                                     : NULL;
}

static const char *key_of(const struct session_language *language)
{
    return config_key_name(is_python(language) ? KEY_PYTHON : KEY_NODE);
}

/* The daemon's own, in a box of this machine; NULL: none. */
static const char *own_of(const struct session_language *language)
{
    return language->here ? language->here : language->program;
}

/* An interpreter of SANDBOX_INTERPRETERS, as configured or as it is called in a box. */
static const char *listed(const struct session_manager *manager, const char *asked)
{
    json_t *entry;
    size_t i;

    json_array_foreach(manager->spec.interpreters, i, entry)
    {
        const char *program = json_string_value(json_object_get(entry, "program"));

        if (str_equal(asked, program) ||
            str_equal(asked, json_string_value(json_object_get(entry, "named"))))
            return program;
    }
    return NULL;
}

static int check_path(const struct session_language *language, const char *asked, struct error *err)
{
    if (asked[0] != '/')
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "%s: '%.100s' is a name, which the daemon does not search for; give the "
                         "absolute path of the program",
                         key_of(language), asked);
    if (strlen(asked) >= PROVIDER_PROGRAM_MAX)
        return error_set(err, -ENAMETOOLONG, ERROR_BAD_INPUT,
                         "%s: a path of at most %d bytes is possible for a session",
                         key_of(language), PROVIDER_PROGRAM_MAX - 1);
    return 0;
}

/* In a box with a file system of its own. */
static int own_filesystem(const struct session_manager *manager, const struct config *config,
                          const struct session_language *language, struct error *err)
{
    const char *asked = asked_of(config, language);

    if (!asked || config->falls_back || str_equal(asked, asked_of(manager->spec.config, language)))
        return 0;
    return error_set(err, -ENOTSUP, ERROR_BAD_INPUT,
                     "%s: boxes of SANDBOX_TYPE=%s have the interpreter of their image, not "
                     "'%.200s' of this machine; leave it out, or use SANDBOX_TYPE=local",
                     key_of(language), config->type, asked);
}

int session_manager_interpreter(const struct session_manager *manager, const struct config *config,
                                const struct provider_row *row,
                                const struct session_language *language, const char **ret_program,
                                const char **ret_other, struct error *err)
{
    const char *own = own_of(language);
    const char *asked = asked_of(config, language), *program = own;
    const char *other = NULL;
    int r = 0;

    if (row && provider_can(row, PROVIDER_OWN_FILESYSTEM)) {
        program = language->own;
        r = own_filesystem(manager, config, language, err);
    } else if (!asked) {
        other = language->normal;
    } else if (!str_equal(asked, own) &&
               !str_equal(asked, asked_of(manager->spec.config, language))) {
        other = listed(manager, asked);
        if (!other)
            r = check_path(language, other = asked, err);
    }
    if (r < 0)
        return r;
    if (other && str_equal(other, own))
        other = NULL;
    if (other)
        program = other;
    if (!program)
        return error_set(err, -ENOENT, ERROR_NO_INTERPRETER, "%s",
                         language->missing ? language->missing
                                           : "there is no interpreter for this language");
    *ret_program = program;
    if (ret_other)
        *ret_other = other;
    return 0;
}

static const char *other_of(const struct session_manager *manager, const struct config *config,
                            const char *name)
{
    const struct session_language *language = session_manager_language(manager, name);
    const char *program, *other = NULL;
    struct error ignored = {0};

    /* A box of the fallback is one of this machine. */
    const struct provider_row *row = config->falls_back ? NULL : config_provider(config);

    if (!language ||
        session_manager_interpreter(manager, config, row, language, &program, &other, &ignored) < 0)
        return NULL;
    return other;
}

const char *session_manager_other_python(const struct session_manager *manager,
                                         const struct config *config)
{
    return other_of(manager, config, "python");
}

const char *session_manager_other_node(const struct session_manager *manager,
                                       const struct config *config)
{
    return other_of(manager, config, "javascript");
}

bool request_interpreters(const struct session_manager *manager, const struct config *config,
                          struct make_request *request)
{
    const char *python = session_manager_other_python(manager, config);
    const char *node = session_manager_other_node(manager, config);

    str_copy(request->python, sizeof(request->python), python ? python : "");
    str_copy(request->node, sizeof(request->node), node ? node : "");
    return !python;
}

int session_manager_own_python(const struct session_manager *manager, const struct config *config,
                               const char *what, struct error *err)
{
    const struct session_language *python = session_manager_language(manager, "python");
    const char *other = session_manager_other_python(manager, config);

    if (!other)
        return 0;
    return error_set(err, -ENOTSUP, ERROR_BAD_INPUT,
                     "SANDBOX_PYTHON: %s for the daemon's Python ('%.200s'), and this one is "
                     "'%.200s'; %s",
                     what, own_of(python), other,
                     asked_of(config, python)
                         ? "leave SANDBOX_PYTHON out, or use the template 'python'"
                         : "set SANDBOX_PYTHON to the daemon's, or use the template 'python'");
}

int settings_fix_interpreters(struct session_manager *manager, json_t *settings,
                              const struct config *config, struct error *err)
{
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const struct session_language *language =
            session_manager_language(manager, rows[i].language);
        const struct provider_row *row = config_provider(config);
        const char *program;
        int r;

        if (!language || (row && provider_can(row, PROVIDER_OWN_FILESYSTEM) &&
                          !config->falls_back && !asked_of(config, language)))
            continue;
        r = session_manager_interpreter(manager, config, row, language, &program, NULL, err);
        if (r < 0 && str_equal(err->code, ERROR_NO_INTERPRETER)) {
            *err = (struct error){0}; /* said when code of that language comes */
            continue;
        }
        if (r < 0)
            return r;
        if (program[0] == '/' &&
            json_object_set_new(settings, config_key_name(rows[i].key), json_string(program)) < 0)
            return error_memory(err);
    }
    return 0;
}

int settings_check_interpreters(const struct session_manager *manager, const struct config *config,
                                bool is_network, struct error *err)
{
    char *const *list = manager->spec.config->interpreters;
    bool is_limited = is_network || (list && list[0]);

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const struct session_language *language =
            session_manager_language(manager, rows[i].language);
        const char *asked = language ? asked_of(config, language) : NULL;

        if (!asked || !is_limited || listed(manager, asked) ||
            str_equal(asked, asked_of(manager->spec.config, language)) ||
            str_equal(asked, own_of(language)) || str_equal(asked, language->normal))
            continue;
        return error_set(err, -EPERM, ERROR_BAD_INPUT,
                         "%s: '%.200s' is not allowed: a session can have the server's own "
                         "interpreter or one of SANDBOX_INTERPRETERS of the server's "
                         "configuration; leave it out, or have it added there",
                         key_of(language), asked);
    }
    return 0;
}
