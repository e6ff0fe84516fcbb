/*
 * import_scan.h - a lexical look at a Python source: which modules do its import lines name?
 *
 * For choosing a warm interpreter that has them already. A hint and nothing more: a string that
 * looks like an import counts, one that is hidden does not. Pure; the source is hostile.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_IMPORT_SCAN_H
#define BAILEY_SESSION_IMPORT_SCAN_H

#include <stddef.h>

#define IMPORT_SCAN_BYTES (1024UL * 1024) /* of a source are looked at */

/* Calls for every dotted name behind an `import` or `from`; (pointer, length), never empty. */
void import_scan(const char *code, size_t length,
                 void (*each)(void *ctx, const char *module, size_t module_length), void *ctx);

/*
 * The smallest of `count` tiers that has what the source imports: 0 is the plain one, tier i has
 * the modules of lists[0] to lists[i - 1] (each NULL-terminated). A module that no tier has does
 * not count; of one whose package a tier has, that tier will do.
 */
unsigned import_scan_tier(const char *code, size_t length, const char *const *const *lists,
                          unsigned count);

#endif
