/*
 * start.h - commands and cells from a JSON body that fits its schema (docs/rest.md), for the doors
 * that take one: what the schema cannot say is checked, then it is started.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_START_H
#define BAILEY_API_START_H

#include <stdbool.h>
#include <stdint.h>

#include "session/session.h"
#include "tool/schema.h"

/* What the schema cannot say of an environment (NULL: none): false and the problem. */
bool start_env_check(json_t *env, struct schema_problem *problem);
bool start_command_check(json_t *body, struct schema_problem *problem);
bool start_cell_check(json_t *body, struct schema_problem *problem);

int start_command(struct session *session, json_t *body, struct execution **ret, struct error *err);
int start_cell(struct session *session, json_t *body, struct execution **ret, struct error *err);

/* `timeout` of the body: 60 s without it; only an explicit 0 is 0, "until the session ends". */
uint64_t start_timeout_ms(json_t *body);

/* "TERM", "SIGTERM" or a number; 0: it is none. */
int start_signal(json_t *value);

#endif
