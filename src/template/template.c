/* template.c - a template's keys, checked one by one; see template.h. */
#include "template/template.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "config/config.h"
#include "template/requirement.h"

#define DESCRIPTION_MAX 300
#define SHOWN 60 /* bytes of a word from outside that an error repeats */

/* A tree that is being checked. */
struct check {
    const char *file;                 /* NULL: it came over the wire */
    const struct yaml_entries *lines; /* of the file */
    struct error *err;
};

struct key_row {
    const char *name;
    int (*check)(const struct check *check, json_t *mapping, const char *key, json_t *value);
};

/* "template.yaml:7: 'tiers' ...", or "'tiers' ..." */
__attribute__((format(printf, 4, 5))) static int
wrong(const struct check *check, const json_t *mapping, const char *key, const char *format, ...)
{
    char text[400];
    va_list args;

    va_start(args, format);
    if (vsnprintf(text, sizeof(text), format, args) < 0)
        text[0] = '\0';
    va_end(args);
    if (!check->file)
        return error_set(check->err, -EINVAL, ERROR_BAD_INPUT, "'%.*s' %s", SHOWN, key, text);
    return error_set(check->err, -EINVAL, ERROR_BAD_INPUT, "%.200s:%lu: '%.*s' %s", check->file,
                     config_yaml_line(check->lines, mapping, key), SHOWN, key, text);
}

static int unknown(const struct check *check, const json_t *mapping, const char *key,
                   const struct key_row *rows, size_t count)
{
    const char *names[16] = {0};
    const char *nearest;

    for (size_t i = 0; i < count && i < ARRAY_SIZE(names) - 1; i++)
        names[i] = rows[i].name;
    nearest = str_nearest(key, names);
    if (nearest)
        return wrong(check, mapping, key, "is unknown here (did you mean '%s'?)", nearest);
    return wrong(check, mapping, key, "is unknown here");
}

/* Every key has its row; the rows say what its value may be. */
static int check_mapping(const struct check *check, json_t *mapping, const struct key_row *rows,
                         size_t count)
{
    const char *key;
    json_t *value;

    json_object_foreach(mapping, key, value)
    {
        size_t i = 0;
        int r;

        while (i < count && !str_equal(rows[i].name, key))
            i++;
        r = i < count ? rows[i].check(check, mapping, key, value)
                      : unknown(check, mapping, key, rows, count);
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- texts ---- */

bool template_name_is_good(const char *name)
{
    size_t length = strlen(name);

    return length > 0 && length <= LIMIT_NAME && name[0] != '-' && name[0] != '_' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == length;
}

bool template_module_is_good(const char *name)
{
    size_t length = strlen(name);

    return length > 0 && length <= LIMIT_MODULE && name[0] != '.' && name[length - 1] != '.' &&
           !strstr(name, "..") && !(name[0] >= '0' && name[0] <= '9') &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.") ==
               length;
}

bool template_path_is_good(const char *path)
{
    size_t length = strlen(path);

    if (length == 0 || length > LIMIT_PATH_BYTES / 4)
        return false;
    for (const char *part = path; part;) {
        size_t size = strcspn(part, "/");

        if (size == 0 || size > 255 || (size == 1 && part[0] == '.') ||
            (size == 2 && part[0] == '.' && part[1] == '.'))
            return false;
        part = part[size] ? part + size + 1 : NULL;
    }
    return true;
}

static bool is_variable(const char *name)
{
    size_t length = strlen(name);

    return length > 0 && length <= LIMIT_NAME && !(name[0] >= '0' && name[0] <= '9') &&
           strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
               length;
}

/* Text without NUL bytes, with a maximum length; NULL: the error was set. */
static const char *text_of(const struct check *check, json_t *mapping, const char *key,
                           json_t *value, size_t maximum)
{
    const char *text = json_string_value(value);

    if (!text)
        wrong(check, mapping, key, "has to be text%s",
              json_is_number(value) ? "; put it in quotes" : "");
    else if (strlen(text) != json_string_length(value) || json_string_length(value) > maximum)
        wrong(check, mapping, key, "is longer than %zu bytes, or has a NUL byte", maximum);
    else
        return text;
    return NULL;
}

/* ---- keys ---- */

static int check_name(const struct check *check, json_t *mapping, const char *key, json_t *value)
{
    const char *name = text_of(check, mapping, key, value, LIMIT_NAME);

    if (!name)
        return -EINVAL;
    if (!template_name_is_good(name))
        return wrong(check, mapping, key,
                     "has to be made of 1 to %d small letters, digits, '_' and '-'", LIMIT_NAME);
    if (str_equal(name, TEMPLATE_AUTO))
        return wrong(check, mapping, key, "may not be '%s': SANDBOX_TEMPLATE=%s means the best one",
                     name, name);
    if (str_equal(name, TEMPLATE_PLAIN))
        return wrong(
            check, mapping, key,
            "may not be '%s': that is the machine's own interpreter, with nothing to build", name);
    return 0;
}

static int check_description(const struct check *check, json_t *mapping, const char *key,
                             json_t *value)
{
    return text_of(check, mapping, key, value, DESCRIPTION_MAX) ? 0 : -EINVAL;
}

static int check_python(const struct check *check, json_t *mapping, const char *key, json_t *value)
{
    const char *text = text_of(check, mapping, key, value, LIMIT_PATH_BYTES / 4);

    if (!text)
        return -EINVAL;
    if (text[0] != '/' && (!text[0] || text[strspn(text, "0123456789.")] != '\0'))
        return wrong(check, mapping, key,
                     "has to be a version such as \"3.12\" or an absolute path");
    return 0;
}

/* A list of valid texts; NULL for `fits`: each is a requirement. */
static int check_list(const struct check *check, json_t *mapping, const char *key, json_t *value,
                      bool (*fits)(const char *word), const char *what)
{
    char name[LIMIT_REQUIREMENT + 1];
    json_t *item;
    size_t i;

    if (!json_is_array(value) || json_array_size(value) > LIMIT_TEMPLATE_ROWS)
        return wrong(check, mapping, key, "has to be a list of at most %d %s", LIMIT_TEMPLATE_ROWS,
                     what);
    json_array_foreach(value, i, item)
    {
        const char *word = text_of(check, mapping, key, item, LIMIT_REQUIREMENT);
        struct error cause = {0};

        if (!word)
            return -EINVAL;
        if (fits && !fits(word))
            return wrong(check, mapping, key, "has '%.*s', which is none of %s", SHOWN, word, what);
        if (!fits && requirement_parse(word, name, &cause) < 0)
            return wrong(check, mapping, key, "has %.300s", cause.text);
    }
    return 0;
}

static int check_packages(const struct check *check, json_t *mapping, const char *key,
                          json_t *value)
{
    return check_list(check, mapping, key, value, NULL, "packages");
}

static int check_modules(const struct check *check, json_t *mapping, const char *key, json_t *value)
{
    return check_list(check, mapping, key, value, template_module_is_good, "modules");
}

/* The file's name, or its text. */
static int check_lock(const struct check *check, json_t *mapping, const char *key, json_t *value)
{
    const char *text = text_of(check, mapping, key, value, LIMIT_CONFIG_BYTES);

    if (!text)
        return -EINVAL;
    if (check->file && !template_path_is_good(text))
        return wrong(check, mapping, key,
                     "has to be the name of a file below the template's folder");
    return 0;
}

static int check_tiers(const struct check *check, json_t *mapping, const char *key, json_t *value)
{
    static const struct key_row rows[] = {{"name", check_name}, {"modules", check_modules}};
    json_t *tier;
    size_t i;

    if (!json_is_array(value) || json_array_size(value) > LIMIT_TIERS)
        return wrong(check, mapping, key, "has to be a list of at most %d of {name, modules}",
                     LIMIT_TIERS);
    json_array_foreach(value, i, tier)
    {
        const char *name = json_string_value(json_object_get(tier, "name"));
        int r = json_is_object(tier) ? check_mapping(check, tier, rows, ARRAY_SIZE(rows)) : -EINVAL;

        if (r < 0 && json_is_object(tier))
            return r;
        if (!name || !json_object_get(tier, "modules"))
            return wrong(check, mapping, key, "has to be a list of {name, modules}");
        for (size_t k = 0; k < i; k++) {
            if (str_equal(name,
                          json_string_value(json_object_get(json_array_get(value, k), "name"))))
                return wrong(check, mapping, key, "has the name '%s' twice", name);
        }
    }
    return 0;
}

static int check_env(const struct check *check, json_t *mapping, const char *key, json_t *value)
{
    const char *name;
    json_t *text;

    if (!json_is_object(value) || json_object_size(value) > LIMIT_TEMPLATE_ROWS)
        return wrong(check, mapping, key, "has to be a mapping of at most %d variables",
                     LIMIT_TEMPLATE_ROWS);
    json_object_foreach(value, name, text)
    {
        if (!is_variable(name))
            return wrong(check, mapping, key, "has '%.*s', which is not a name of a variable",
                         SHOWN, name);
        if (!text_of(check, check->file ? value : mapping, check->file ? name : key, text,
                     LIMIT_ARGV_BYTES / 16))
            return -EINVAL;
    }
    return 0;
}

static int check_file_path(const struct check *check, json_t *mapping, const char *key,
                           json_t *value)
{
    const char *path = text_of(check, mapping, key, value, LIMIT_PATH_BYTES / 4);

    if (!path)
        return -EINVAL;
    if (!template_path_is_good(path))
        return wrong(check, mapping, key, "has to be a relative path without '..'");
    return 0;
}

/* In the file a list of {path, from}. */
static int check_file_rows(const struct check *check, json_t *mapping, const char *key,
                           json_t *value)
{
    static const struct key_row rows[] = {{"path", check_file_path}, {"from", check_file_path}};
    json_t *row;
    size_t i;

    if (!json_is_array(value) || json_array_size(value) > LIMIT_TEMPLATE_ROWS)
        return wrong(check, mapping, key, "has to be a list of at most %d of {path, from}",
                     LIMIT_TEMPLATE_ROWS);
    json_array_foreach(value, i, row)
    {
        int r = json_is_object(row) ? check_mapping(check, row, rows, ARRAY_SIZE(rows)) : 0;

        if (r < 0)
            return r;
        if (!json_object_get(row, "path") || !json_object_get(row, "from"))
            return wrong(check, mapping, key, "has to be a list of {path, from}");
    }
    return 0;
}

/* On the wire path to base64. */
static int check_file_texts(const struct check *check, json_t *mapping, const char *key,
                            json_t *value)
{
    const char *path;
    json_t *text;
    size_t bytes = 0;

    if (!json_is_object(value) || json_object_size(value) > LIMIT_TEMPLATE_ROWS)
        return wrong(check, mapping, key, "has to be a mapping of at most %d files",
                     LIMIT_TEMPLATE_ROWS);
    json_object_foreach(value, path, text)
    {
        if (!template_path_is_good(path))
            return wrong(check, mapping, key, "has '%.*s', which is not a relative path", SHOWN,
                         path);
        if (!json_is_string(text))
            return wrong(check, mapping, key, "has to be a mapping of paths to base64");
        bytes += json_string_length(text) / 4 * 3;
    }
    if (bytes > LIMIT_TEMPLATE_FILES)
        return error_set(check->err, -EFBIG, ERROR_TOO_LARGE,
                         "the template's files are larger than %llu MB together",
                         LIMIT_TEMPLATE_FILES / MIB);
    return 0;
}

static int check_files(const struct check *check, json_t *mapping, const char *key, json_t *value)
{
    return check->file ? check_file_rows(check, mapping, key, value)
                       : check_file_texts(check, mapping, key, value);
}

/* ---- the whole ---- */

static const struct key_row template_rows[] = {
    {"name", check_name},       {"description", check_description},
    {"python", check_python},   {"packages", check_packages},
    {"lock", check_lock},       {"tiers", check_tiers},
    {"env", check_env},         {"files", check_files},
    {"warm_up", check_modules},
};

static int check_tree(const struct check *check, json_t *tree)
{
    int r;

    if (!json_is_object(tree))
        return error_set(check->err, -EINVAL, ERROR_BAD_INPUT,
                         "%.200s: a template is a mapping of keys (name:, packages:, ...)",
                         check->file ? check->file : "the template");
    r = check_mapping(check, tree, template_rows, ARRAY_SIZE(template_rows));
    if (r < 0)
        return r;
    if (!json_object_get(tree, "name"))
        return wrong(check, tree, "name", "is missing");
    if (json_object_get(tree, "packages") && json_object_get(tree, "lock"))
        return wrong(check, tree, "lock",
                     "and 'packages' together: a lock names all packages already");
    return 0;
}

static void json_freep(json_t **json)
{
    json_decref(*json);
}

static void lines_freep(struct yaml_entries **lines)
{
    config_yaml_lines_free(*lines);
}

int template_read(const char *text, size_t length, const char *file, json_t **ret,
                  struct error *err)
{
    CLEANUP(json_freep) json_t *tree = NULL;
    CLEANUP(lines_freep) struct yaml_entries *lines = NULL;
    int r = config_yaml_parse_lines(text, length, file, &tree, &lines, err);

    if (r == 0)
        r = check_tree(&(struct check){.file = file, .lines = lines, .err = err}, tree);
    else if (err)
        err->code = ERROR_BAD_INPUT; /* it is the caller's file, not the configuration */
    if (r == 0)
        *ret = ptr_take(&tree);
    return r;
}

int template_check(json_t *body, struct error *err)
{
    return check_tree(&(struct check){.err = err}, body);
}
