/*
 * dpkg.h - which of Debian's packages a list of packages needs, by the stanzas of dpkg and apt.
 *
 * Pure: text in, names out. dpkg_read() may be called several times; of a package that occurs twice
 * the first one counts, so that installed ones are read first. Owns copies of the texts: call
 * dpkg_free(). Packages of other architectures than the machine's own are skipped.
 *
 * Runs in: commands
 */
#ifndef BAILEY_IMAGE_DPKG_H
#define BAILEY_IMAGE_DPKG_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

struct dpkg_package {
    const char *name, *architecture, *version;
    const char *depends, *pre_depends, *provides; /* as they are written; NULL: none */
    bool is_installed;
};

struct dpkg {
    struct dpkg_package *packages; /* sorted by name */
    size_t count, capacity;
    char **texts; /* what the packages' strings point into */
    size_t text_count;
    char architecture[32]; /* "amd64"; empty until a package has it */
};

/* `is_status`: the status file of dpkg, of whose packages only the installed ones count. */
int dpkg_read(struct dpkg *dpkg, const char *text, size_t length, bool is_status,
              struct error *err);
const struct dpkg_package *dpkg_find(const struct dpkg *dpkg, const char *name);
void dpkg_free(struct dpkg *dpkg); /* for CLEANUP(); zero-initialised is fine */

struct dpkg_need {
    const char *const *wanted;  /* NULL-terminated */
    const char *const *without; /* never taken, nor what only they need; NULL-terminated */
};
/*
 * The packages and all that they depend on, in a strv sorted by name. Of alternatives the first one
 * that is installed is taken, else the first one. Those that no stanza is known of come in
 * *ret_unknown: the caller may read stanzas for them and ask again.
 */
int dpkg_closure(const struct dpkg *dpkg, const struct dpkg_need *need, char ***ret,
                 char ***ret_unknown, struct error *err);

#endif
