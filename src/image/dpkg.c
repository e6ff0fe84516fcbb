/*
 * dpkg.c - stanzas of packages and the closure of their dependencies; see dpkg.h.
 *
 * A stanza is "Field: value" lines up to an empty one; a line that begins with a blank continues
 * the one before. deb-control(5), debian-policy 7.1: "a (>= 1), b:any | c [amd64]".
 */
#include "image/dpkg.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"

/* ---- reading ---- */

static const struct field {
    const char *name;
    size_t offset;
} fields[] = {
    {"Package", offsetof(struct dpkg_package, name)},
    {"Architecture", offsetof(struct dpkg_package, architecture)},
    {"Version", offsetof(struct dpkg_package, version)},
    {"Depends", offsetof(struct dpkg_package, depends)},
    {"Pre-Depends", offsetof(struct dpkg_package, pre_depends)},
    {"Provides", offsetof(struct dpkg_package, provides)},
};

static char *skip_blanks(char *at)
{
    return at + strspn(at, " \t");
}

/* One line, which stays where it is: its value is a string from now on. */
static void take_line(struct dpkg_package *package, char *line, bool *is_ok)
{
    char *colon = strchr(line, ':');
    char *value;

    if (!colon)
        return;
    *colon = '\0';
    value = skip_blanks(colon + 1);
    for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
        if (strcasecmp(line, fields[i].name) == 0)
            memcpy((char *)package + fields[i].offset, &value, sizeof(value));
    }
    /* "install ok installed": wanted, flag, state */
    if (strcasecmp(line, "Status") == 0)
        *is_ok = str_ends(value, " installed");
}

/* The end of a line with those that continue it, whose newlines become blanks. NULL: the text's. */
static char *line_end(char *at)
{
    char *end = strchr(at, '\n');

    while (end && (end[1] == ' ' || end[1] == '\t')) {
        *end = ' ';
        end = strchr(end, '\n');
    }
    return end;
}

static bool name_is_good(const char *name)
{
    size_t length = strlen(name);

    return length >= 2 && length <= LIMIT_NAME * 2 && name[0] != '-' && name[0] != '.' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789+-.") == length;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct dpkg_package *)a)->name, ((const struct dpkg_package *)b)->name);
}

const struct dpkg_package *dpkg_find(const struct dpkg *dpkg, const char *name)
{
    struct dpkg_package wanted = {.name = name};

    return dpkg->count == 0
               ? NULL
               : bsearch(&wanted, dpkg->packages, dpkg->count, sizeof(wanted), by_name);
}

static int push(struct dpkg *dpkg, const struct dpkg_package *package)
{
    if (dpkg->count == LIMIT_IMAGE_STANZAS)
        return -E2BIG;
    if (dpkg->count == dpkg->capacity) {
        size_t capacity = dpkg->capacity ? dpkg->capacity * 2 : 1024;
        struct dpkg_package *packages =
            reallocarray(dpkg->packages, capacity, sizeof(*dpkg->packages));

        if (!packages)
            return -ENOMEM;
        dpkg->packages = packages;
        dpkg->capacity = capacity;
    }
    dpkg->packages[dpkg->count++] = *package;
    return 0;
}

static bool is_ours(const struct dpkg *dpkg, const struct dpkg_package *package)
{
    return str_equal(package->architecture, "all") ||
           str_equal(package->architecture, dpkg->architecture);
}

/* Removes packages of other architectures and duplicates. `known`: sorted. */
static void settle(struct dpkg *dpkg, size_t known)
{
    struct dpkg before = {.packages = dpkg->packages, .count = known};
    size_t kept = known;

    for (size_t i = known; i < dpkg->count; i++) {
        struct dpkg_package package = dpkg->packages[i];

        if (is_ours(dpkg, &package) && !dpkg_find(&before, package.name))
            dpkg->packages[kept++] = package;
    }
    dpkg->count = kept;
    if (kept == 0)
        return;
    qsort(dpkg->packages, kept, sizeof(*dpkg->packages), by_name);
    kept = 1;
    for (size_t i = 1; i < dpkg->count; i++) {
        if (!str_equal(dpkg->packages[i].name, dpkg->packages[kept - 1].name))
            dpkg->packages[kept++] = dpkg->packages[i];
    }
    dpkg->count = kept;
}

static int read_stanzas(struct dpkg *dpkg, char *text, bool is_status)
{
    struct dpkg_package package = {0};
    bool is_ok = !is_status;

    for (char *at = text, *end; at; at = end ? end + 1 : NULL) {
        bool is_last;

        end = line_end(at);
        if (end)
            *end = '\0';
        if (*at)
            take_line(&package, at, &is_ok);
        is_last = !end || !end[1];
        if (*at && !is_last)
            continue;
        package.is_installed = is_status;
        if (package.name && package.architecture && is_ok && name_is_good(package.name)) {
            int r = push(dpkg, &package);

            if (r < 0)
                return r;
            /* dpkg itself is of the machine's own architecture */
            if (is_status && str_equal(package.name, "dpkg"))
                str_copy(dpkg->architecture, sizeof(dpkg->architecture), package.architecture);
        }
        package = (struct dpkg_package){0};
        is_ok = !is_status;
        if (is_last)
            break;
    }
    return 0;
}

int dpkg_read(struct dpkg *dpkg, const char *text, size_t length, bool is_status, struct error *err)
{
    size_t known = dpkg->count;
    char **texts = reallocarray(dpkg->texts, dpkg->text_count + 1, sizeof(*texts));
    int r;

    if (!texts)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory reading the packages");
    dpkg->texts = texts;
    texts[dpkg->text_count] = malloc(length + 1);
    if (!texts[dpkg->text_count])
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory reading the packages");
    if (length > 0)
        memcpy(texts[dpkg->text_count], text, length);
    texts[dpkg->text_count][length] = 0;
    r = read_stanzas(dpkg, texts[dpkg->text_count++], is_status);
    if (r < 0) {
        dpkg->count = known;
        return error_set(err, r, ERROR_TOO_LARGE, "there are too many packages to read");
    }
    settle(dpkg, known);
    return 0;
}

void dpkg_free(struct dpkg *dpkg)
{
    for (size_t i = 0; i < dpkg->text_count; i++)
        free(dpkg->texts[i]);
    free(dpkg->texts);
    free(dpkg->packages);
    *dpkg = (struct dpkg){0};
}

/* ---- the closure ---- */

struct closure {
    const struct dpkg *dpkg;
    const struct dpkg_need *need;
    char **names;   /* strv: found, in the order that they were */
    char **unknown; /* strv */
};

static bool has_word(const char *const *words, const char *word)
{
    for (; words && *words; words++) {
        if (str_equal(*words, word))
            return true;
    }
    return false;
}

/*
 * The next name of a list and where it continues; blanks, versions and architectures are skipped.
 */
static const char *take_name(const char *at, const char *stop, char name[LIMIT_NAME * 2 + 1])
{
    size_t length;

    at += strspn(at, " \t,|");
    length = strcspn(at, " \t,|(:[<");
    str_format(name, LIMIT_NAME * 2 + 1, "%.*s", (int)MIN(length, (size_t)LIMIT_NAME * 2), at);
    return at + strcspn(at, stop);
}

static const struct dpkg_package *find_provider(const struct dpkg *dpkg, const char *name)
{
    for (size_t i = 0; i < dpkg->count; i++) {
        const char *at = dpkg->packages[i].provides;
        char provided[LIMIT_NAME * 2 + 1];

        while (at && *at && dpkg->packages[i].is_installed) {
            at = take_name(at, ",", provided);
            if (str_equal(provided, name))
                return &dpkg->packages[i];
        }
    }
    return NULL;
}

static int add(struct closure *closure, const char *name)
{
    if (!name_is_good(name))
        return 0; /* such a package cannot be there, and it is not for a command line */
    if (has_word((const char *const *)closure->names, name))
        return 0;
    return strv_push(&closure->names, name);
}

/* "a (>= 1) | b": the one that there is. `group` ends at a comma or at the end. */
static int add_group(struct closure *closure, const char *group)
{
    char name[LIMIT_NAME * 2 + 1], first[LIMIT_NAME * 2 + 1] = "";
    const struct dpkg_package *provider = NULL, *package;
    const char *at = group;

    for (bool is_more = true; is_more; is_more = *at == '|') {
        at = take_name(at, ",|", name);
        if (!name[0])
            continue;
        if (has_word(closure->need->without, name))
            return 0;
        package = dpkg_find(closure->dpkg, name);
        if (package && package->is_installed)
            return add(closure, name);
        if (!provider)
            provider = find_provider(closure->dpkg, name);
        if (!first[0])
            str_copy(first, sizeof(first), name);
    }
    if (provider && has_word(closure->need->without, provider->name))
        return 0;
    if (provider)
        return add(closure, provider->name);
    return first[0] ? add(closure, first) : 0;
}

static int add_list(struct closure *closure, const char *list)
{
    int r = 0;

    for (const char *at = list; at && *at && r == 0; at += strspn(at, ",")) {
        r = add_group(closure, at);
        at += strcspn(at, ",");
    }
    return r;
}

static int walk(struct closure *closure)
{
    const char *const *wanted = closure->need->wanted;
    int r = 0;

    for (; *wanted && r == 0; wanted++)
        r = add_group(closure, *wanted);
    /* the list grows while it is gone through */
    for (size_t i = 0; r == 0 && closure->names[i]; i++) {
        const struct dpkg_package *package = dpkg_find(closure->dpkg, closure->names[i]);

        if (i == LIMIT_IMAGE_PACKAGES)
            return -E2BIG;
        if (!package) {
            r = strv_push(&closure->unknown, closure->names[i]);
            continue;
        }
        r = add_list(closure, package->pre_depends);
        if (r == 0)
            r = add_list(closure, package->depends);
    }
    return r;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int dpkg_closure(const struct dpkg *dpkg, const struct dpkg_need *need, char ***ret,
                 char ***ret_unknown, struct error *err)
{
    CLEANUP(strv_freep) char **names = strv_new();
    CLEANUP(strv_freep) char **unknown = strv_new();
    struct closure closure = {.dpkg = dpkg, .need = need, .names = names, .unknown = unknown};
    int r = names && unknown ? walk(&closure) : -ENOMEM;

    names = closure.names; /* they may have moved */
    unknown = closure.unknown;
    if (r == -E2BIG)
        return error_set(err, r, ERROR_TOO_LARGE, "more than %d packages are needed",
                         LIMIT_IMAGE_PACKAGES);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "out of memory looking for packages");
    qsort(names, strv_length(names), sizeof(*names), by_text);
    *ret = ptr_take(&names);
    *ret_unknown = ptr_take(&unknown);
    return 0;
}
