/*
 * format.h - formats numbers and times for people, and parses RFC 3339. Pure.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_FORMAT_H
#define BAILEY_CLI_CLIENT_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define FORMAT_SIZE 48 /* holds any of these texts */

/* "58 B", "2.0 KB", "1.5 GB" */
void format_bytes(uint64_t bytes, char text[FORMAT_SIZE]);

/* "12s", "3m", "2h", "5d": one unit. */
void format_span(int64_t seconds, char text[FORMAT_SIZE]);

/* "3m ago", "in 2h", "now"; "-" for an invalid time. */
void format_when(const char *rfc3339, int64_t now_s, char text[FORMAT_SIZE]);

/* "2026-11-15T08:15:04.123Z" into seconds since 1970. 0 or -EINVAL. */
int format_parse_time(const char *rfc3339, int64_t *ret_s);

int64_t format_now(void);

/* Characters of an id that are shown to people: enough to distinguish and to type. */
#define FORMAT_ID 10
/* The beginning of a long id; `text` has FORMAT_SIZE. */
void format_id(const char *id, size_t length, char text[FORMAT_SIZE]);

#endif
