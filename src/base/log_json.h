/*
 * log_json.h - one line of the log as a JSON object, in a buffer of fixed size. Inside of base/.
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_LOG_JSON_H
#define BAILEY_BASE_LOG_JSON_H

#include <stddef.h>

#include "base/log.h"

#define LOG_LINE_MAX 4096 /* a pipe takes so much in one piece */

/* With its end of line; returns its length. `extra` and `about` may be NULL. */
size_t log_json_line(char line[LOG_LINE_MAX], enum log_level level, const char *message,
                     const struct log_field *extra, const struct log_field *about);

#endif
