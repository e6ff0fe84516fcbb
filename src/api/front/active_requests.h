/*
 * active_requests.h - requests that auth.c let in, from their head to their end: whose they are,
 * what they send, and what ends them before their time.
 *
 * The bytes of a reply are counted for its tenant as they go. A stream of events, a WebSocket or a
 * stream of MCP ends when its key is removed, gets another text or expires, and when its tenant has
 * used up the quota of bytes; what has an end of its own is not cut. Made by the door, used
 * by auth.c. One thread; blocks for the index only.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_ACTIVE_REQUESTS_H
#define BAILEY_API_ACTIVE_REQUESTS_H

#include "base/error.h"
#include "base/reactor.h"
#include "model/principal.h"

struct session_manager;
struct http_request;
struct index;
struct active_requests;

struct active_requests *active_requests_new(struct reactor *reactor,
                                            struct session_manager *manager,
                                            struct index *index);   /* NULL: no memory */
void active_requests_free(struct active_requests *active_requests); /* requests may be over later
                                                                       than this; NULL is fine */

/* False: no memory, and the request is not watched. */
bool active_requests_add(struct active_requests *active_requests, struct http_request *http,
                         const struct principal *who);
/* Whose request this is; NULL: it was not let in yet. *ret_ended: why it has to end; or NULL. */
const struct principal *active_requests_find(const struct http_request *http,
                                             const struct error **ret_ended);
/* The key was removed or has another text. */
void active_requests_key_changed(struct active_requests *active_requests, const char *key);

#endif
