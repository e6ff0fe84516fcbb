/*
 * missing.c - which module the code did not find, and which package may be installed for it; see
 * missing.h.
 */
#include "session/missing.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"
#include "session/import_names.h"
#include "template/requirement.h"

#define VALUE "No module named '"
#define LINE "ModuleNotFoundError: " VALUE

/*
 * Namespaces that many distributions share; the package of the same name on the index is an
 * unrelated one.
 */
static const char *const spaces[] = {"azure", "backports", "google", "zope"};

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* "a.b_1.c" */
static bool is_module(const char *text, size_t length)
{
    bool begins = true;

    if (length == 0 || length > LIMIT_MODULE)
        return false;
    for (size_t i = 0; i < length; i++) {
        if (begins ? !is_letter(text[i])
                   : !is_letter(text[i]) && text[i] != '.' && !(text[i] >= '0' && text[i] <= '9'))
            return false;
        begins = text[i] == '.';
    }
    return !begins;
}

bool missing_from_value(const char *value, size_t length, char module[LIMIT_MODULE + 1])
{
    size_t words = sizeof(VALUE) - 1;

    if (length <= words || memcmp(value, VALUE, words) != 0 || value[length - 1] != '\'' ||
        !is_module(value + words, length - words - 1))
        return false;
    memcpy(module, value + words, length - words - 1);
    module[length - words - 1] = '\0';
    return true;
}

bool missing_from_stderr(const char *text, size_t length, char module[LIMIT_MODULE + 1])
{
    size_t prefix = sizeof(LINE) - sizeof(VALUE), start;

    if (length > 0 && text[length - 1] == '\n')
        length--;
    for (start = length; start > 0 && text[start - 1] != '\n';)
        start--;
    return length - start > prefix && memcmp(text + start, LINE, prefix) == 0 &&
           missing_from_value(text + start + prefix, length - start - prefix, module);
}

static bool is_space(const char *module)
{
    for (size_t i = 0; i < ARRAY_SIZE(spaces); i++) {
        if (str_equal(spaces[i], module))
            return true;
    }
    return false;
}

static int not_looked_for(const char *module, const char *why, struct error *err)
{
    return error_set(err, -ENOENT, ERROR_INSTALL_FAILED, "no package is installed: '%s' %s", module,
                     why);
}

int missing_package(const char *module, char *const *allow, char *const *deny,
                    char package[LIMIT_REQUIREMENT + 1], struct error *err)
{
    char text[LIMIT_MODULE + 1], top[LIMIT_MODULE + 1], top_text[LIMIT_MODULE + 1];
    const char *name = import_distribution(module, text, sizeof(text));

    str_copy(top, sizeof(top), module);
    top[strcspn(top, ".")] = '\0';
    if (missing_is_standard(top))
        return not_looked_for(
            module, "belongs to the standard library, and this Python does not have it", err);
    /* Python names the part that was not found: the part before the last dot exists already. */
    if (strchr(module, '.') &&
        (name == text || name == import_distribution(top, top_text, sizeof(top_text))))
        return not_looked_for(module, "is not in the installed package of that name", err);
    if (name == text && is_space(top))
        return not_looked_for(module, "is shared by many packages; name one of them", err);
    if (!name || !requirement_normalise(name, strlen(name), package))
        return not_looked_for(module, "cannot be the name of a package", err);
    if (!requirement_is_allowed(package, allow, deny))
        return requirement_denied(package, err);
    return 0;
}

/* ---- JSON for results ---- */

static const char *version_of(const char *package, json_t *added)
{
    char name[LIMIT_REQUIREMENT + 1];
    json_t *item;
    size_t i;

    json_array_foreach(added, i, item)
    {
        const char *text = json_string_value(json_object_get(item, "name"));

        if (text && requirement_normalise(text, strlen(text), name) && str_equal(name, package))
            return json_string_value(json_object_get(item, "version"));
    }
    return NULL;
}

json_t *missing_installed(const char *package, json_t *added)
{
    const char *version = version_of(package, added);
    char note[2 * LIMIT_REQUIREMENT + 64];

    str_format(note, sizeof(note), "installed %s%s%s and ran the code again", package,
               version ? " " : "", version ? version : "");
    return json_pack("{s:O, s:s}", "installed", added, "install_note", note);
}

json_t *missing_failed(const char *module, const struct error *err)
{
    char note[LIMIT_MODULE + ERROR_TEXT_MAX + 64];

    str_format(note, sizeof(note), "the module '%s' is missing and was not installed: %s", module,
               err->text);
    return json_pack("{s:{s:s, s:o}, s:o}", "install_error", "code",
                     err->code ? err->code : ERROR_ENGINE, "message",
                     text_to_json(err->text, strlen(err->text)), "install_note",
                     text_to_json(note, strlen(note)));
}
