/*
 * path_arg.h - parses the arguments of cp, ls, cat and rm: NAME:PATH, or a name on the host. Pure.
 *
 * An argument belongs to a session if it has a colon before any slash; "./a:b" is a host's file.
 * Beside `-s NAME` the session's name is left out: cp writes ":PATH". A PATH that does not begin
 * with '/' is below /workspace.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_PATH_ARG_H
#define BAILEY_CLI_CLIENT_PATH_ARG_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/limits.h"

struct path_arg {
    bool is_in_box;
    char session[128];               /* in a box */
    char path[LIMIT_PATH_BYTES + 1]; /* absolute in a box; as written on the host */
    bool ends_in_slash;              /* a folder is meant */
};

int path_arg_parse(const char *word, struct path_arg *ret, struct error *err);

/*
 * The same for an argument that must belong to a session; without a colon it is the session alone.
 */
int path_arg_parse_box(const char *word, bool may_lack_path, struct path_arg *ret,
                       struct error *err);

/*
 * The same beside `-s session`: "PATH" or ":PATH". A word that names a session too is refused.
 */
int path_arg_parse_in(const char *session, const char *word, struct path_arg *ret,
                      struct error *err);

/* "<folder>/<name>" into path. */
int path_arg_join(char path[LIMIT_PATH_BYTES + 1], const char *folder, const char *name,
                  struct error *err);

/* The last part of a path, without slashes at its end; empty for "/". */
void path_arg_base(const char *path, char name[NAME_MAX + 1]);

/*
 * Whether a name from a box may be created below a folder of the host, part by part: not empty, not
 * absolute, no part that is empty, "." or "..", or too long.
 */
bool path_arg_name_is_safe(const char *name);

/* "sales 2024/q1" is /tmp/data/sales_2024_q1.csv, "s.parquet" as it is: a dataset's file name. */
void path_arg_dataset(const char *name, size_t length, char file[NAME_MAX + 1]);

#endif
