/*
 * schema.h - JSON from outside: read with a limit on its depth, and checked against a JSON Schema.
 *
 * Pure; the input is hostile, the schemas are our own. Supported keywords: type, properties,
 * required, additionalProperties, items, minItems, maxItems, minLength, minimum, maximum,
 * exclusiveMinimum, enum, contentMediaType (text that may hold a NUL: every other string may not).
 * Called by tool/ and api/.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_TOOL_SCHEMA_H
#define BAILEY_TOOL_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

typedef struct json_t json_t;

/* What is wrong: err has code (bad_json, bad_input, unknown_parameter), number and text. */
struct schema_problem {
    struct error err;
    char field[160];  /* "argv[2]", "pty.rows"; empty: the whole value */
    char nearest[64]; /* a known name similar to the unknown member; empty: none */
    int line, column; /* of invalid JSON; 0: it was valid */
};

/* Any JSON value within the bounds of model/json.h; duplicate members refused. New reference, or
 * NULL and the problem. */
json_t *json_read(const char *text, size_t length, struct schema_problem *problem);
/* flags: JSON_REJECT_DUPLICATES, or 0: of duplicate members the last one counts. */
json_t *json_read_with(const char *text, size_t length, size_t flags,
                       struct schema_problem *problem);

/* A compiled schema: rows are compiled once, when their door or tool starts. */
struct schema;
int schema_compile(const char *text, struct schema **ret); /* -EINVAL: not JSON, or no memory */
void schema_free(struct schema *schema);                   /* NULL is fine */
static inline void schema_freep(struct schema **schema)
{
    schema_free(*schema);
}
const char *schema_type(const struct schema *schema); /* "integer"; NULL: none, or several types */

/* Whether `value` matches the schema; otherwise sets the first problem. */
bool schema_check(const struct schema *schema, json_t *value, struct schema_problem *problem);

#endif
