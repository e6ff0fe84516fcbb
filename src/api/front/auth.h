/*
 * auth.h - who asks, and what is there for them: the one check that every door makes first.
 *
 * A door calls auth_admit() with the head of a request (http_route.admit), before any of its body
 * is there, again in its handler, which costs nothing more, and auth_session() wherever it takes a
 * session from outside. Errors are told in the door's own shape. Counts what it refuses (metrics)
 * and records it (audit); who is let in is watched to the end (active_requests.h). One thread;
 * blocks for the index only.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_AUTH_H
#define BAILEY_API_AUTH_H

#include "base/error.h"
#include "http/server.h"
#include "model/principal.h"

struct caller;
struct session_manager;
struct index;
struct metrics;
struct session;
struct active_requests;

struct auth {
    struct session_manager *manager;
    struct index *index;
    struct metrics *metrics;
    struct active_requests *active_requests;
};

/*
 * Who this is, if the key (Authorization: Bearer, or X-API-Key; two that differ are refused; or of
 * a WebSocket the protocol bailey.key.KEY) has
 * the scope and the tenant its quota of requests. Errors: -EACCES (unauthorized: 401 with
 * WWW-Authenticate), -EPERM (forbidden: 403, the text names the scope), -EDQUOT (quota_exceeded:
 * 429; the error's `quota` and `retry_s` say which and when).
 */
int auth_admit(const struct auth *auth, struct http_request *http, enum scope scope,
               struct principal *ret, struct error *err);

/*
 * The same for whoever needs no key: the quotas are those of this principal's tenant. Errors:
 * -EDQUOT.
 */
int auth_admit_as(const struct auth *auth, struct http_request *http, const struct principal *who,
                  struct error *err);

/* Whose events, sessions and runs it may see; NULL: everybody's (the owner over the socket). */
const char *auth_tenant(const struct principal *who);

/*
 * A request that was let in is handled from here on: lines of the log name its caller, and its
 * tenant shares the machine. Done by auth_admit(); for rows that ask for no key the door does it.
 * auth_leave() when the handler has returned (http_server_spec.handled).
 */
void auth_enter(const struct auth *auth, struct http_request *http, const struct principal *who);
/* The same for a message that comes behind its request (a WebSocket's); session: "" for none. */
void auth_speak(const struct caller *caller, const char *session);
void auth_leave(void);

/* As session_manager_find() and session_manager_find_any(), for this principal. */
int auth_session(const struct auth *auth, const struct principal *who, const char *word,
                 bool with_ended, struct session **ret, struct error *err);

/* "s_..." of "/v1/sessions/s_.../files", for the log and the audit; "": it is about none. Pure. */
void auth_path_session(const char *path, char *ret, size_t size);

/*
 * Browsers cannot set headers, but they can offer protocols: "bailey.v1, bailey.key.KEY". False:
 * there is no key among them, or one that does not fit. Pure.
 */
bool auth_protocol_key(const char *protocols, char *key, size_t size);

#endif
