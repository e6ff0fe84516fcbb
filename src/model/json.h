/*
 * json.h - reads JSON that comes from outside into jansson's values: from guests, clients, Docker.
 * Pure functions.
 *
 * Jansson's own reader has no bound but 2048 levels: three bytes "{}," become 300 bytes of memory,
 * and 16 MiB of plain text take it a quarter of a second and three copies. This reader refuses a
 * document that nests deeper than LIMIT_JSON_DEPTH, or whose values would take more than
 * LIMIT_JSON_STRUCTURE besides their text, when it comes to the first value too many; and it takes
 * the text of a string at the speed of memory, with one copy. Besides, it
 * accepts the same documents with the same values, but for numbers of 400 digits (fuzz/fuzz_json.c
 * compares).
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_MODEL_JSON_H
#define BAILEY_MODEL_JSON_H

#include <jansson.h>
#include <stddef.h>

struct json_problem {
    int num;          /* -EINVAL: not JSON; -E2BIG: too deep; -EFBIG: too many values; -ENOMEM */
    int line, column; /* where, from 1 */
    size_t position;  /* the same in bytes */
    char text[120];   /* what is wrong, without the place */
};

/*
 * flags: JSON_DECODE_ANY, JSON_REJECT_DUPLICATES, JSON_ALLOW_NUL. NULL: *ret_problem says why (NULL
 * is fine).
 */
json_t *json_parse(const char *text, size_t length, size_t flags, struct json_problem *ret_problem);

/*
 * The same for several documents that are kept together: *left is how much their values may still
 * take, and what this one takes is subtracted.
 */
json_t *json_parse_within(const char *text, size_t length, size_t flags, size_t *left,
                          struct json_problem *ret_problem);

#endif
