/*
 * str.h - text: comparing, parsing numbers and sizes, UTF-8, nearest word. Pure functions; nothing
 * here allocates unless the name says so (strv_*).
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_STR_H
#define BAILEY_BASE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool str_equal(const char *a, const char *b); /* NULL equals only NULL */
bool str_starts(const char *text, const char *prefix);
bool str_ends(const char *text, const char *suffix);

/* Whether digits are written as a number is: without zeros before it. */
bool str_is_canonical(const char *digits);

/* Whole-string parsers: no blanks, no sign games, no rest. 0, -EINVAL or -ERANGE. */
int str_to_u64(const char *text, uint64_t *ret);
int str_to_i64(const char *text, int64_t *ret);
int str_to_bytes(const char *text,
                 uint64_t *ret); /* "512m", "1g", "10k", "4096", "1.5g", "256MB" */
int str_to_millis(const char *text, uint64_t *ret); /* "30", "0.5", "30s", "5m", "250ms"; in ms */
int str_to_bool(const char *text, bool *ret);       /* true/false yes/no on/off 1/0, any case */

void str_from_bytes(uint64_t bytes, char *text, size_t size); /* "1g", "1.5m", "10k", "123" */

/* The nearest of `words` (NULL-terminated) for "did you mean"; NULL when none is near. */
const char *str_nearest(const char *word, const char *const *words);

/*
 * Length of the valid UTF-8 sequence at the start of data (1-4); 0 when the bytes there are
 * invalid; -1 when they are a valid beginning that the data's end cuts off.
 */
int utf8_length(const void *data, size_t length);

/* The largest n <= length so that data[0..n) does not end inside a UTF-8 sequence. */
size_t utf8_floor(const void *data, size_t length);

/* A NULL-terminated vector of owned strings. */
char **strv_new(void);
int strv_push(char ***list, const char *text); /* copies */
int strv_push_n(char ***list, const char *text, size_t length);
size_t strv_length(char *const *list); /* NULL has length 0 */
char **strv_copy(const char *const *list);
void strv_free(char **list);
void strv_freep(char ***list);

/* A variable of an environment ("NAME=VALUE", NULL-terminated; may be NULL); NULL: it is not set.
 */
const char *env_value(char *const *env, const char *name);
const char *env_text(char *const *env, const char *name); /* NULL also when it is set to nothing */

/* Copies, always terminates; false when it did not fit. */
bool str_copy(char *to, size_t size, const char *from);

/* snprintf that reports truncation: 0 or -ENAMETOOLONG. */
int str_format(char *to, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
