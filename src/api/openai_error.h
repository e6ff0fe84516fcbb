/*
 * openai_error.h - errors in OpenAI's shape, for the doors that OpenAI's clients use:
 * {"error":{"message","type","param","code"}}, all four members always there.
 *
 * The `type` follows from the status: invalid_request_error for what the caller can change,
 * too_many_requests (429) and server_error (500 and above) for the rest; `code` is the engine's own
 * code. Retry-After and WWW-Authenticate are sent as by front_fail().
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_OPENAI_ERROR_H
#define BAILEY_API_OPENAI_ERROR_H

#include "api/front/door.h"

/* The body; param NULL: null. New reference, or NULL without memory. */
json_t *openai_error_json(const struct error *err, const char *param);
/* Answers with it, and records a refusal. */
void openai_fail(struct front *front, struct http_request *http, const struct error *err,
                 const char *param);
/* bad_input about a member or an argument: 400. */
void openai_fail_param(struct front *front, struct http_request *http, const char *param,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));
void openai_fail_memory(struct http_request *http);

/* For the row of a door. */
void openai_door_fail(struct door_call *call, const struct error *err); /* door_ops.fail */
void openai_door_refuse(struct http_request *http, const struct door_refusal *refusal);
/* Members of components.schemas of OpenAPI: "OpenAIError". Each door that uses it names it itself.
 */
#define OPENAI_ERROR_SCHEMA                                                                  \
    "\"OpenAIError\":{\"type\":\"object\",\"properties\":{\"error\":{\"type\":\"object\","   \
    "\"properties\":{\"message\":{\"type\":\"string\"},\"type\":{\"type\":\"string\"},"      \
    "\"param\":{\"type\":[\"string\",\"null\"]},\"code\":{\"type\":[\"string\",\"null\"]}}," \
    "\"required\":[\"message\",\"type\",\"param\",\"code\"]}},\"required\":[\"error\"]}"
json_t *openai_responses(const struct door_route *route); /* door_ops.responses */

#endif
