/*
 * auth.h - authentication and authorisation: the one check that every door makes first.
 *
 * A door calls auth_admit() with the head of a request (http_route.admit), before any of its body
 * has arrived, again in its handler, which costs nothing more, and auth_session() wherever it takes
 * a session's name from outside. Errors are sent in the door's own shape. Refusals are counted
 * (metrics) and recorded (audit); an admitted request is watched to its end (active_requests.h).
 * One thread; blocks for the index only.
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
 * Sets the principal, if the key (Authorization: Bearer, or X-API-Key; two different keys are
 * refused; or of a WebSocket the protocol bailey.key.KEY) has the scope and the tenant has quota of
 * requests left. Errors: -EACCES (unauthorized: 401 with WWW-Authenticate), -EPERM (forbidden: 403,
 * the text names the scope), -EDQUOT (quota_exceeded: 429; the error's `quota` and `retry_s` say
 * which and when).
 */
int auth_admit(const struct auth *auth, struct http_request *http, enum scope scope,
               struct principal *ret, struct error *err);

/*
 * The same for a request that needs no key: the quotas are those of this principal's tenant.
 * Errors: -EDQUOT.
 */
int auth_admit_as(const struct auth *auth, struct http_request *http, const struct principal *who,
                  struct error *err);

/*
 * The tenant whose events, sessions and runs it may see; NULL: all tenants' (the owner over the
 * socket).
 */
const char *auth_tenant(const struct principal *who);

/*
 * The handling of an admitted request begins: lines of the log name its caller. Done by
 * auth_admit(); for rows that need no key the door does it. auth_leave() when the handler has
 * returned (http_server_spec.handled).
 */
void auth_enter(struct http_request *http, const struct principal *who);
/* The same for a message that follows its request (of a WebSocket); session: "" for none. */
void auth_speak(const struct caller *caller, const char *session);
void auth_leave(void);

/* As session_manager_find() and session_manager_find_any(), for this principal. */
int auth_session(const struct auth *auth, const struct principal *who, const char *word,
                 bool with_ended, struct session **ret, struct error *err);

/*
 * "s_..." of "/v1/sessions/s_.../files", for the log and the audit; "": the path names no session.
 * Pure.
 */
void auth_path_session(const char *path, char *ret, size_t size);

/*
 * Browsers cannot set headers of a WebSocket, but they can offer protocols: "bailey.v1,
 * bailey.key.KEY". False: there is no key among them, or it is too long. Pure.
 */
bool auth_protocol_key(const char *protocols, char *key, size_t size);

#endif
