/* rows.c - the addresses of WebSockets (docs/websocket.md), and this door's row. */
#include "api/front/row_text.h"
#include "api/ws/ws_private.h"
#include "base/cleanup.h"

static const struct door_route routes[] = {
    {
        .method = "GET",
        .path = "/v1/ws",
        .name = "openAll",
        .summary = "A WebSocket for everything that streams: events of all sessions, commands, "
                   "cells, files; see docs/websocket.md",
        .tag = "WebSockets",
        .description = "Each message is a JSON object; docs/websocket.md has their types. Many "
                       "executions and watches share one connection.",
        .status = 101,
        .errors = "upgrade_required",
        .scope = SCOPE_SESSIONS,
        .handle = ws_all,
    },
    {
        .method = "GET",
        .path = "/v1/sessions/{id}/ws",
        .name = "openSession",
        .summary = "The same, for one session",
        .tag = "WebSockets",
        .description = "As `/v1/ws`, with a session that the messages need not name.",
        .params = {SESSION_ID},
        .status = 101,
        .errors = "session_not_found session_ambiguous upgrade_required",
        .scope = SCOPE_SESSIONS,
        .handle = ws_session,
    },
    {
        .method = "GET",
        .path = "/v1/sessions/{id}/pty/ws",
        .name = "openTerminal",
        .summary = "A WebSocket that is a terminal: binary messages are its bytes, text messages "
                   "control it",
        .tag = "WebSockets",
        .description = "Starts a shell or `command` with a terminal, or attaches to a terminal "
                       "that runs (`execution`). docs/websocket.md has the control messages.",
        .params = {SESSION_ID, QUERY("rows", S_SIZE, "default 24"),
                   QUERY("columns", S_SIZE, "default 80"),
                   QUERY("command", S_NAME, "for /bin/sh -c; default a shell"),
                   QUERY("execution", S_NAME,
                         "id of a running terminal to attach to, instead of starting a new one"),
                   QUERY("offset", S_COUNT, "offset in its output to continue from")},
        .status = 101,
        .errors = BOX_ERRORS " execution_not_found not_a_terminal offset_gone upgrade_required",
        .scope = SCOPE_SESSIONS,
        .handle = ws_pty,
    },
};

static const struct door_tag tags[] = {
    {"WebSockets", "One connection for everything that streams, and terminals."},
    {NULL, NULL},
};

const struct door_ops ws_door = {
    .name = "ws",
    .tags = tags,
    .label = "rest", /* one API over two transports: counted under one label */
    .routes = routes,
    .route_count = ARRAY_SIZE(routes),
    .open = ws_compile,
    .close = ws_forget,
};
