/*
 * log.h - lines for people on standard error, or for programs as one JSON object each. Only doors
 * and the daemon log above debug; all other rooms return an error. Level, format and context of the
 * lines are the mutable globals of the project besides parsed arguments.
 *
 * No secret may be passed in: no header with a key, no query of an address, no code, no value of a
 * variable.
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_LOG_H
#define BAILEY_BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG };

void log_set_level(enum log_level level);
enum log_level log_get_level(void);
void log_set_json(bool is_json); /* BAILEY_LOG_FORMAT */
void log_write(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_write(LOG_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_WARNING, __VA_ARGS__)
#define log_info(...) log_write(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_DEBUG, __VA_ARGS__)

/* A text or a number that a line carries besides; an array of them ends with a NULL name. */
struct log_field {
    const char *name;
    const char *text; /* NULL: the number; empty: left out */
    uint64_t number;
};
/* As JSON members of their own; as text "message name=value name=value". */
void log_fields(enum log_level level, const char *message, const struct log_field *fields);

/* What every line says besides, while a request is handled; copied, cut. NULL: nothing. */
struct log_about {
    char request_id[65], trace_id[33], tenant[65], session[65]; /* empty: left out */
};
void log_set_about(const struct log_about *about);

#endif
