/*
 * start.h - starts commands and cells from a JSON body, for the doors that take one (docs/rest.md):
 * the schema of the body, and the checks that a schema cannot express.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_START_H
#define BAILEY_API_START_H

#include <stdbool.h>
#include <stdint.h>

#include "api/front/row_text.h"
#include "session/session.h"
#include "tool/schema.h"

/* clang-format off */
#define START_COMMAND_SCHEMA                                                                \
    OBJECT(MEMBER("argv", ARRAY_FROM_TO(S_STRING, 1, 4096))                                 \
           ALSO("env", S_ENV)                                                               \
           ALSO("cwd", S_NAME)                                                              \
           ALSO("stdin", JSON({"type":["string","boolean","null"],                          \
                               "contentMediaType":"text/plain"}))                           \
           ALSO("timeout", S_TIMEOUT)                                                       \
           ALSO("background", S_BOOLEAN)                                                    \
           ALSO("collect", S_BOOLEAN)                                                       \
           ALSO("pty", OBJECT(MEMBER("rows", S_SIZE) ALSO("columns", S_SIZE),               \
                              "rows", "columns")),                                          \
           "argv")
#define START_CELL_SCHEMA               \
    OBJECT(MEMBER("code", S_TEXT)       \
           ALSO("language", S_LANGUAGE) \
           ALSO("context", S_NAME)      \
           ALSO("timeout", S_TIMEOUT)   \
           ALSO("stdin", S_TEXT)        \
           ALSO("env", S_ENV)           \
           ALSO("background", S_BOOLEAN) \
           ALSO("collect", S_BOOLEAN),  \
           "code")
#define START_SIGNAL_SCHEMA OBJECT(MEMBER("signal", JSON({"type":["string","integer"]})), "signal")
#define START_RESIZE_SCHEMA \
    OBJECT(MEMBER("rows", S_SIZE) ALSO("columns", S_SIZE), "rows", "columns")
/* clang-format on */

/* Checks of an environment (NULL: none) that the schema cannot express: false and the problem. */
bool start_env_check(json_t *env, struct schema_problem *problem);
bool start_command_check(json_t *body, struct schema_problem *problem);
bool start_cell_check(json_t *body, struct schema_problem *problem);

int start_command(struct session *session, const struct caller *caller, json_t *body,
                  struct execution **ret, struct error *err);
int start_cell(struct session *session, const struct caller *caller, json_t *body,
               struct execution **ret, struct error *err);

/* "TERM", "SIGTERM" or a number; 0: not a signal. */
int start_signal(json_t *value);

#endif
