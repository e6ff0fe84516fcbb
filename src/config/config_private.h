/*
 * config_private.h - shared by the files of config/ only: storing one value, finding the file, YAML
 * with line numbers.
 *
 * Runs in: broker, hosts, supervisor, commands
 */
#ifndef BAILEY_CONFIG_PRIVATE_H
#define BAILEY_CONFIG_PRIVATE_H

#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "config/config.h"

/*
 * value.c: checks `text` for the key and stores it; after an error nothing has changed. `where` is
 * copied (NULL for a default) and names the value in errors.
 */
int value_apply(struct config *config, enum config_key key, const char *text,
                enum config_source source, const char *where, struct error *err);

/* value.c: makes arbitrary text safe for an error line: control bytes replaced, cut. */
#define VALUE_QUOTE_SIZE 96
const char *value_quote(char quoted[VALUE_QUOTE_SIZE], const char *text);

/*
 * find.c: opens the file to read (see config_load). *ret_fd is -1 and *ret_path NULL if there is
 * none.
 */
int find_file(const char *file, char *const *env, char **ret_path, int *ret_fd, struct error *err);

/* tree.c: stores the values of a YAML text in the struct. `name` is the file's name in errors. */
int tree_apply(struct config *config, const char *text, size_t length, const char *name,
               struct error *err);

/*
 * yaml.c: the line of each entry of each mapping. An entry is found by its mapping and its key, so
 * the table grows with the text and not with the depth.
 */
struct yaml_entry {
    const json_t *mapping; /* borrowed from the tree; only compared */
    char *key;
    char *raw; /* a scalar as written; NULL for mappings and sequences */
    unsigned long line;
};

struct yaml_entries {
    struct yaml_entry *rows;
    size_t count, capacity;
};

const struct yaml_entry *yaml_entries_find(const struct yaml_entries *entries,
                                           const json_t *mapping, const char *key);
void yaml_entries_free(struct yaml_entries *entries);

/* config_yaml_parse() with the table. `entries` is zeroed by the caller, filled also on an error.
 */
int yaml_parse(const char *text, size_t length, const char *name, json_t **ret,
               struct yaml_entries *entries, struct error *err);

#endif
