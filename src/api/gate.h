/*
 * gate.h - who asks, and what is there for them: the one check that every door makes first.
 *
 * A door calls gate_admit() before it looks at anything else of a request, and gate_session()
 * wherever it takes a session from outside. Errors are told in the door's own shape. Counts what it
 * refuses (metrics) and records it (audit); counts the bytes of the reply for the tenant. One
 * thread; blocks for the index only.
 */
#ifndef BAILEY_API_GATE_H
#define BAILEY_API_GATE_H

#include "base/error.h"
#include "http/server.h"
#include "model/principal.h"

struct engine;
struct index;
struct metrics;
struct session;

struct gate {
    struct engine *engine;
    struct index *index;
    struct metrics *metrics;
};

/*
 * Who this is, if the key (Authorization: Bearer, or X-API-Key; two that differ are refused; or of
 * a WebSocket the protocol bailey.key.KEY) has
 * the scope and the tenant its quota of requests. Errors: -EACCES (unauthorized: 401 with
 * WWW-Authenticate), -EPERM (forbidden: 403, the text names the scope), -EDQUOT (quota_exceeded:
 * 429; the error's `quota` and `retry_s` say which and when).
 */
int gate_admit(const struct gate *gate, struct http_request *http, enum scope scope,
               struct principal *ret, struct error *err);

/* Whether its key is a good one, whatever it may do: for what is done before gate_admit(). */
bool gate_knows(const struct gate *gate, const struct http_request *http);

/* Whose events, sessions and runs it may see; NULL: everybody's (the owner over the socket). */
const char *gate_tenant(const struct principal *who);

/*
 * From here on what is done is this principal's: in the audit, in results and in the log. Done by
 * gate_admit(); for rows that ask for no key the door does it. gate_leave() when the handler has
 * returned (http_server_spec.handled).
 */
void gate_enter(const struct gate *gate, struct http_request *http, const struct principal *who);
void gate_leave(const struct gate *gate);

/* As engine_find() and engine_find_any(), for this principal. */
int gate_session(const struct gate *gate, const struct principal *who, const char *word,
                 bool with_ended, struct session **ret, struct error *err);

#endif
