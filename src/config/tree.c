/*
 * tree.c - stores the tree of a bailey.yaml in the struct: every entry is a known key, a section on
 * the way to one, or an error that names the nearest known key.
 */
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "config/config_private.h"

#define PATH_SIZE 256 /* longer than any known path; a longer path is unknown */

struct tree {
    struct config *config;
    const char *name; /* the file, for errors */
    struct yaml_entries entries;
    struct error *err;
};

/* The sections of known paths. */
static const char *const sections[] = {"sandbox",
                                       "server",
                                       "quota",
                                       "docker",
                                       "providers",
                                       "providers.model",
                                       "providers.code_interpreter",
                                       "providers.code_interpreter.settings"};

static void tree_free(struct tree *tree)
{
    yaml_entries_free(&tree->entries);
}

static void json_freep(json_t **json)
{
    json_decref(*json);
}

static int unknown_key(struct tree *tree, const char *path, unsigned long line)
{
    const char *words[_KEY_MAX + ARRAY_SIZE(sections) + 1];
    char quoted[VALUE_QUOTE_SIZE];
    const char *nearest;
    size_t count = 0;

    for (size_t i = 0; i < _KEY_MAX; i++)
        words[count++] = config_table[i].yaml;
    for (size_t i = 0; i < ARRAY_SIZE(sections); i++)
        words[count++] = sections[i];
    words[count] = NULL;
    nearest = str_nearest(path, words);
    value_quote(quoted, path);
    if (!nearest)
        return error_set(tree->err, -EINVAL, ERROR_BAD_CONFIG,
                         "%s:%lu: unknown key '%s' (`bailey config` lists the known ones)",
                         tree->name, line, quoted);
    return error_set(tree->err, -EINVAL, ERROR_BAD_CONFIG,
                     "%s:%lu: unknown key '%s' (did you mean '%s'?)", tree->name, line, quoted,
                     nearest);
}

static int wrong_type(struct tree *tree, const char *path, unsigned long line, const char *what)
{
    return error_set(tree->err, -EINVAL, ERROR_BAD_CONFIG, "%s:%lu: '%s' must be %s", tree->name,
                     line, path, what);
}

static int find_key(const char *path)
{
    for (int i = 0; i < _KEY_MAX; i++) {
        if (str_equal(config_table[i].yaml, path))
            return i;
    }
    return -ENOENT;
}

static bool is_section(const char *path)
{
    for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
        if (str_equal(sections[i], path))
            return true;
    }
    return false;
}

static bool takes_list(int key)
{
    return key == KEY_BLOCKED_IMPORTS || key == KEY_LANGUAGES || key == KEY_DATASET_FOLDERS ||
           key == KEY_INTERPRETERS || key == KEY_INDEX_HOSTS || key == KEY_INSTALL_ALLOW ||
           key == KEY_INSTALL_DENY || key == KEY_E2B_TEMPLATES || key == KEY_LISTEN ||
           key == KEY_HOSTS || key == KEY_CORS_ORIGINS;
}

/* A sequence of strings, as the text with commas that the environment uses. */
static int join(struct tree *tree, const char *path, unsigned long line, const json_t *list,
                struct buf *text)
{
    size_t i;
    json_t *item;

    json_array_foreach(list, i, item)
    {
        if (!json_is_string(item))
            return wrong_type(tree, path, line, "a list of texts");
        if ((i > 0 && buf_append_text(text, ",") < 0) ||
            buf_append_text(text, json_string_value(item)) < 0)
            return error_set(tree->err, -ENOMEM, ERROR_ENGINE, "reading %s: out of memory",
                             tree->name);
    }
    return 0;
}

static int apply_value(struct tree *tree, int key, const struct yaml_entry *entry,
                       const json_t *value)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_CONFIG_BYTES * 2);
    CLEANUP(buf_free) struct buf where = BUF_INIT(LIMIT_PATH_BYTES + 32);
    const char *path = config_table[key].yaml;
    const char *raw = entry->raw;
    int r;

    if (json_is_null(value))
        return 0;
    if (json_is_array(value) && takes_list(key)) {
        r = join(tree, path, entry->line, value, &text);
        if (r < 0)
            return r;
        raw = buf_text(&text);
    }
    if (!raw)
        return wrong_type(tree, path, entry->line,
                          takes_list(key) ? "a list of texts" : "a single value");
    if (buf_printf(&where, "%s:%lu", tree->name, entry->line) < 0)
        return error_set(tree->err, -ENOMEM, ERROR_ENGINE, "reading %s: out of memory", tree->name);
    return value_apply(tree->config, (enum config_key)key, raw, FROM_FILE, buf_text(&where),
                       tree->err);
}

/* The recursion is as deep as the sections, whatever the file contains. */
static int apply_mapping(struct tree *tree, const char *parent, json_t *mapping)
{
    const char *name;
    json_t *value;

    json_object_foreach(mapping, name, value)
    {
        const struct yaml_entry *entry = yaml_entries_find(&tree->entries, mapping, name);
        char path[PATH_SIZE];
        int key, r;

        if (strchr(name, '.') ||
            str_format(path, sizeof(path), "%s%s%s", parent, parent[0] ? "." : "", name) < 0)
            return error_set(tree->err, -EINVAL, ERROR_BAD_CONFIG,
                             "%s:%lu: a key has a dot in it or is too long; write one mapping in "
                             "the other (sandbox:, and type: below it)",
                             tree->name, entry->line);
        key = find_key(path);
        if (key >= 0) {
            r = apply_value(tree, key, entry, value);
        } else if (!is_section(path)) {
            r = unknown_key(tree, path, entry->line);
        } else if (json_is_object(value)) {
            r = apply_mapping(tree, path, value);
        } else {
            r = json_is_null(value) ? 0 : wrong_type(tree, path, entry->line, "a mapping of keys");
        }
        if (r < 0)
            return r;
    }
    return 0;
}

int tree_apply(struct config *config, const char *text, size_t length, const char *name,
               struct error *err)
{
    CLEANUP(tree_free) struct tree tree = {.config = config, .name = name, .err = err};
    CLEANUP(json_freep) json_t *root = NULL;
    int r = yaml_parse(text, length, name, &root, &tree.entries, err);

    if (r < 0)
        return r;
    if (json_is_null(root))
        return 0;
    if (!json_is_object(root))
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG,
                         "%s: must be a mapping of keys (sandbox:, docker:, providers:)", name);
    return apply_mapping(&tree, "", root);
}
