/*
 * import_names.h - from the name that code imports to the name that the package index knows. Pure.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_IMPORT_NAMES_H
#define BAILEY_SESSION_IMPORT_NAMES_H

#include <stddef.h>

struct import_name {
    const char *module, *distribution;
};
const struct import_name *import_names(size_t *ret_count);

/*
 * The distribution for a module: static, or the module's top name in `text`. NULL: it is too long.
 */
const char *import_distribution(const char *module, char *text, size_t size);

#endif
