/*
 * file_path.h - paths of files in a box: which are allowed, and texts for the box's errors. Pure.
 *
 * Only the text is checked; the box's kernel resolves the path. Called by tool/ and api/.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_TOOL_FILE_PATH_H
#define BAILEY_TOOL_FILE_PATH_H

#include <stddef.h>

#include "base/error.h"
#include "base/limits.h"

/*
 * "//", "." and ".." are taken out of an absolute path, as text. 0, or ERROR_PATH_INVALID: empty,
 * relative, too long, a NUL within its length.
 */
int file_path_normalise(const char *path, size_t length, char ret[LIMIT_PATH_BYTES + 1],
                        struct error *err);

/* The same, and the path must be below /tmp/ or /workspace/: what tools may write. */
int file_path_for_tool(const char *path, size_t length, char ret[LIMIT_PATH_BYTES + 1],
                       struct error *err);

/* The same, and the path must be /tmp, /workspace or /home/user, or below: what REST may name. */
int file_path_for_rest(const char *path, size_t length, char ret[LIMIT_PATH_BYTES + 1],
                       struct error *err);

#define FILE_PATH_TOOL_ERROR "Invalid path: must be /tmp/* or /workspace/*"

/*
 * An error of a file operation in a box as one for a client: code and words from the number, with
 * the path. One that has a code of its own (the box was lost, the session ended) stays as it is.
 */
void file_error(const struct error *from, const char *path, struct error *ret);

/*
 * How often `what` occurs in the bytes, not overlapping; *ret_first is the offset of the first.
 * More than BYTES_COUNT_MAX are not counted to the end: eight million of them would take 40 ms, in
 * which the loop does nothing else.
 */
#define BYTES_COUNT_MAX 100000
size_t bytes_count(const void *data, size_t length, const void *what, size_t what_length,
                   size_t *ret_first);

#endif
