/*
 * output_save.h - bytes that did not come as a file of /tmp/output, such as a picture that a cell
 * showed, as an output with an id (artifacts.h).
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_OUTPUT_SAVE_H
#define BAILEY_SESSION_OUTPUT_SAVE_H

#include <stddef.h>

#include "base/error.h"
#include "store/output_row.h"

struct session;

/* `name`: a file name without a slash. It lives as every output does; the session's folder of
 * outputs does not show it. Blocks for the disk. */
int session_output_save(struct session *session, const char *name, const void *data, size_t length,
                        struct output_row *ret, struct error *err);

#endif
