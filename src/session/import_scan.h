/*
 * import_scan.h - scans a Python source for import lines, without parsing it, and lists the modules
 * they name.
 *
 * Used to choose a warm interpreter that has these modules loaded. Only a hint: a string that looks
 * like an import counts, a hidden import does not. Pure; the source is hostile.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_IMPORT_SCAN_H
#define BAILEY_SESSION_IMPORT_SCAN_H

#include <stddef.h>

#define IMPORT_SCAN_BYTES (1024UL * 1024) /* of a source that are scanned */

/* Calls for every dotted name behind an `import` or `from`; (pointer, length), never empty. */
void import_scan(const char *code, size_t length,
                 void (*each)(void *ctx, const char *module, size_t module_length), void *ctx);

/*
 * The smallest of `count` tiers that has what the source imports: 0 is the plain one, tier i has
 * the modules of lists[0] to lists[i - 1] (each NULL-terminated). A module that no tier has is
 * ignored; a module whose package is in a tier is satisfied by that tier.
 */
unsigned import_scan_tier(const char *code, size_t length, const char *const *const *lists,
                          unsigned count);

#endif
