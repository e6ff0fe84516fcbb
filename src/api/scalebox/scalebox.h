/*
 * scalebox.h - the door of Scalebox's clients: api/sandboxes in other words. The control plane
 * below /v1 has an envelope and snake_case, the daemon of a sandbox is sandboxagent.* with JSON or
 * binary messages, files go through /upload and /download; docs/scalebox.md.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_SCALEBOX_SCALEBOX_H
#define BAILEY_API_SCALEBOX_SCALEBOX_H

#include <jansson.h>

#include "api/sandboxes/e2b.h"

/* ---- the control plane (control.c); pure ---- */

/*
 * A body of "POST /v1/sandboxes" and others in E2B's words; takes it over. What this server does
 * not have is an error that names it. NULL: `err` says why.
 */
json_t *scalebox_body(json_t *body, bool is_create, struct error *err);
/*
 * A reply in Scalebox's words, {"success":true,"data":...}, or
 * {"success":false,"code","message","error"} of a status of 400 or more. `domain`: of sandboxes.
 * Takes it over; new reference or NULL.
 */
json_t *scalebox_reply_json(unsigned status, const char *domain, uint64_t now_ms, json_t *reply);
/* An error of a method: the packages look for words in the text of one about what is missing. */
void scalebox_error_words(const char *path, json_t *error);
/* `sandbox_domain` of a sandbox: the Host that the client used; "<id>.DOMAIN" for "api.DOMAIN". */
void scalebox_domain(const char *host, const char *id, char *text, size_t size);

/* ---- code (code.c) ---- */

/* A line of /execute as an ExecuteResponse; NULL: it says nothing there. Pure. */
json_t *scalebox_event(json_t *line, json_int_t count);
void scalebox_context(struct door_call *call); /* ContextService/{method} */

/* ---- binary messages (messages.c) ---- */

extern const struct e2b_method scalebox_methods[]; /* the last one has no path */

#endif
