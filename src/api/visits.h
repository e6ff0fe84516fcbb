/*
 * visits.h - requests that the gate let in, from their head to their end: whose they are, what they
 * send, and what ends them before their time.
 *
 * The bytes of a reply are counted for its tenant as they go. A stream of events, a WebSocket or a
 * stream of MCP ends when its key is removed, gets another text or expires, and when its tenant has
 * used up the quota of bytes; what has an end of its own is not cut. Made by the gate's door, used
 * by gate.c. One thread; blocks for the index only.
 */
#ifndef BAILEY_API_VISITS_H
#define BAILEY_API_VISITS_H

#include "base/error.h"
#include "base/reactor.h"
#include "model/principal.h"

struct engine;
struct http_request;
struct index;
struct visits;

struct visits *visits_new(struct reactor *reactor, struct engine *engine,
                          struct index *index); /* NULL: no memory */
void visits_free(struct visits *visits); /* requests may be over later than this; NULL is fine */

/* False: no memory, and the request is not watched. */
bool visits_add(struct visits *visits, struct http_request *http, const struct principal *who);
/* Whose request this is; NULL: it was not let in yet. *ret_ended: why it has to end; or NULL. */
const struct principal *visits_find(const struct http_request *http,
                                    const struct error **ret_ended);
/* The key was removed or has another text. */
void visits_key_changed(struct visits *visits, const char *key);

#endif
