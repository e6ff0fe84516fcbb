/* requirement.c - names and versions of packages, checked; see requirement.h. */
#include "template/requirement.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/str.h"

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
#define NAME_BYTES LETTERS "._-"
#define VERSION_BYTES LETTERS ".*+!_-"

bool requirement_normalise(const char *text, size_t length, char name[LIMIT_REQUIREMENT + 1])
{
    size_t have = 0;

    if (length == 0 || length > LIMIT_REQUIREMENT || !strchr(LETTERS, text[0]) ||
        !strchr(LETTERS, text[length - 1]))
        return false;
    for (size_t i = 0; i < length; i++) {
        char c = text[i];

        if (!c || !strchr(NAME_BYTES, c))
            return false;
        if (c == '.' || c == '_' || c == '-') {
            if (name[have - 1] != '-') /* the first is a letter */
                name[have++] = '-';
        } else {
            name[have++] = (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
        }
    }
    name[have] = '\0';
    return true;
}

bool requirement_is_listed(json_t *packages, const char *package)
{
    char name[LIMIT_REQUIREMENT + 1];
    json_t *item;
    size_t i;

    json_array_foreach(packages, i, item)
    {
        const char *text = json_string_value(json_object_get(item, "name"));

        if (text && requirement_normalise(text, strlen(text), name) && str_equal(name, package))
            return true;
    }
    return false;
}

static const char *skip(const char *text)
{
    return text + strspn(text, " ");
}

/* "[excel, plot]" or nothing; NULL: it is wrong. */
static const char *skip_extras(const char *text)
{
    char ignored[LIMIT_REQUIREMENT + 1];

    if (*text != '[')
        return text;
    do {
        size_t length;

        text = skip(text + 1);
        length = strspn(text, NAME_BYTES);
        if (!requirement_normalise(text, length, ignored))
            return NULL;
        text = skip(text + length);
    } while (*text == ',');
    return *text == ']' ? skip(text + 1) : NULL;
}

/* ">=2, <3" or nothing; NULL: it is wrong. */
static const char *skip_versions(const char *text)
{
    static const char *const signs[] = {"===", "==", "~=", "!=", "<=", ">=", "<", ">", NULL};

    if (*text == '\0')
        return text;
    for (;;) {
        const char *const *sign = signs;
        size_t length;

        while (*sign && !str_starts(text, *sign))
            sign++;
        if (!*sign)
            return NULL;
        text = skip(text + strlen(*sign));
        length = strspn(text, VERSION_BYTES);
        if (length == 0)
            return NULL;
        text = skip(text + length);
        if (*text != ',')
            return text;
        text = skip(text + 1);
    }
}

int requirement_parse(const char *text, char name[LIMIT_REQUIREMENT + 1], struct error *err)
{
    const char *rest = skip(text);
    size_t length = strspn(rest, NAME_BYTES);

    if (strlen(text) <= LIMIT_REQUIREMENT && requirement_normalise(rest, length, name)) {
        rest = skip_extras(skip(rest + length));
        rest = rest ? skip_versions(rest) : NULL;
        if (rest && *rest == '\0')
            return 0;
    }
    return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                     "'%.80s' is not the name of a package; write it as requests, numpy==2.1 or "
                     "\"polars[excel]>=1,<3\"",
                     text);
}

static bool is_listed(const char *name, char *const *list)
{
    char other[LIMIT_REQUIREMENT + 1];

    for (; list && *list; list++) {
        if (requirement_normalise(*list, strlen(*list), other) && str_equal(other, name))
            return true;
    }
    return false;
}

bool requirement_is_among(const char *name, const char *const *requirements)
{
    char other[LIMIT_REQUIREMENT + 1];

    for (; *requirements; requirements++) {
        if (requirement_parse(*requirements, other, NULL) == 0 && str_equal(other, name))
            return true;
    }
    return false;
}

static bool has_package(json_t *packages, json_t *wanted)
{
    json_t *item;
    size_t i;

    json_array_foreach(packages, i, item)
    {
        if (json_equal(item, wanted))
            return true;
    }
    return false;
}

json_t *requirement_added(json_t *before, json_t *now)
{
    json_t *added = json_array(), *item;
    size_t i;

    json_array_foreach(now, i, item)
    {
        if (!has_package(before, item))
            json_array_append(added, item);
    }
    return added;
}

bool requirement_is_allowed(const char *name, char *const *allow, char *const *deny)
{
    return !is_listed(name, deny) && (strv_length(allow) == 0 || is_listed(name, allow));
}

int requirement_denied(const char *name, struct error *err)
{
    return error_set(err, -EPERM, ERROR_INSTALL_DENIED,
                     "the package '%s' may not be installed here (SANDBOX_INSTALL_ALLOW, "
                     "SANDBOX_INSTALL_DENY)",
                     name);
}
