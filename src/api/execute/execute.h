/*
 * execute.h - the door of POST /execute and GET /health: takes code, packages and files, runs them
 * in a new box, and returns the result and the files it made; docs/execute.md.
 *
 * The shapes are those of an existing server's API, so errors are {"error": TEXT} with a code
 * beside it, and unknown members are ignored. Owns the calls under way. One thread, never blocks.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_EXECUTE_EXECUTE_H
#define BAILEY_API_EXECUTE_EXECUTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "session/session_manager.h"

typedef struct json_t json_t;
struct http_request;
struct door_call;

/* State between calls. */
struct execute {
    unsigned count; /* calls under way */
    bool was_asked; /* the interpreter was asked for its version */
    char version[64];
};

/* Takes over `json`; NULL: no memory. */
void execute_reply(struct http_request *http, unsigned status, const char *const *headers,
                   json_t *json);

/* {"error": TEXT, "code": CODE}; `header` may be NULL. */
void execute_fail(struct http_request *http, unsigned status, const char *header, const char *code,
                  const char *text);

void execute_start(struct door_call *call); /* POST /execute */
int execute_admit(struct door_call *call, struct error *err);
void execute_refuse(struct door_call *call, const struct error *err);
void execute_health(struct door_call *call); /* GET /health */

/* ---- the body of a request (order.c); pure ---- */

struct execute_order {
    json_t *body;         /* code and requirements point into it */
    const char *language; /* "python"; static */
    const char *code;
    size_t code_length;
    uint64_t timeout_ms;
    const char **requirements; /* NULL-terminated; NULL: none */
    struct run_file *files;
    struct buf *bytes; /* contents of the files */
    size_t file_count;
};
/* Errors: -EINVAL (bad_json, bad_input), -EFBIG, -ENOMEM. `order` must be zeroed. */
int execute_order_read(const char *text, size_t length, struct execute_order *order,
                       struct error *err);
/* The same from a body that was read already, which is taken over; NULL: `why` it could not be. */
int execute_order_take(json_t *body, const struct error *why, struct execute_order *order,
                       struct error *err);
void execute_order_free(struct execute_order *order);
const char *execute_script(const char *language); /* "script.py": file name of the source */

#endif
