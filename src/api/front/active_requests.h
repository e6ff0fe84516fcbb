/*
 * active_requests.h - requests that auth.c admitted, from their head to their end: their principal,
 * the bytes they send, and reasons to end them early.
 *
 * The bytes of a reply are counted for its tenant as they are sent. A stream of events, a WebSocket
 * or a stream of MCP ends when its key is removed, gets a new secret or expires, and when its
 * tenant has used up the quota of bytes; a reply of limited length is not cut. Created by the front
 * hall, used by auth.c. One thread; blocks for the index only.
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
                                            struct index *index); /* NULL: no memory */
void active_requests_free(
    struct active_requests *active_requests); /* requests may end later than this; NULL is fine */

/* False: no memory, and the request is not watched. */
bool active_requests_add(struct active_requests *active_requests, struct http_request *http,
                         const struct principal *who);
/* The principal of this request; NULL: not admitted yet. *ret_ended: why it must end; or NULL. */
const struct principal *active_requests_find(const struct http_request *http,
                                             const struct error **ret_ended);
/* The key was removed or got a new secret. */
void active_requests_key_changed(struct active_requests *active_requests, const char *key);

#endif
