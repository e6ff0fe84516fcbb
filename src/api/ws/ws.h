/*
 * ws.h - the WebSocket door: docs/websocket.md over http/websocket.h. Its addresses are rows of
 * rest/routes.c like others: key, scope and query are checked there before these are called.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_WS_WS_H
#define BAILEY_API_WS_WS_H

#include <stdbool.h>
#include <stddef.h>

struct rest_call;

void ws_all(struct rest_call *call);     /* GET /v1/ws */
void ws_session(struct rest_call *call); /* GET /v1/sessions/{id}/ws */
void ws_pty(struct rest_call *call);     /* GET /v1/sessions/{id}/pty/ws */

/*
 * Browsers cannot set headers, but they can offer protocols: "bailey.v1, bailey.key.KEY". False:
 * there is no key among them, or one that does not fit. Pure.
 */
bool ws_protocol_key(const char *protocols, char *key, size_t size);

#endif
