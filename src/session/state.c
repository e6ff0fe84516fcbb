/*
 * state.c - the table of a session's state changes, and the only function that changes the state.
 */
#include "base/log.h"
#include "session/session_private.h"

#define BIT(state) (1u << (state))

static const uint8_t may_become[_SESSION_STATE_MAX] = {
    [SESSION_NEW] = BIT(SESSION_STARTING) | BIT(SESSION_PAUSED) | BIT(SESSION_ENDING),
    /* back to NEW: the box could not be made; the next use may try again */
    [SESSION_STARTING] = BIT(SESSION_READY) | BIT(SESSION_NEW) | BIT(SESSION_ENDING),
    [SESSION_READY] = BIT(SESSION_PAUSING) | BIT(SESSION_ENDING),
    /* back to READY: the warden could not do it */
    [SESSION_PAUSING] = BIT(SESSION_PAUSED) | BIT(SESSION_READY) | BIT(SESSION_ENDING),
    /* to NEW: it has no box */
    [SESSION_PAUSED] = BIT(SESSION_RESUMING) | BIT(SESSION_NEW) | BIT(SESSION_ENDING),
    /* back to PAUSED: the warden could not do it */
    [SESSION_RESUMING] = BIT(SESSION_READY) | BIT(SESSION_PAUSED) | BIT(SESSION_ENDING),
    [SESSION_ENDING] = BIT(SESSION_ENDED),
    [SESSION_ENDED] = 0,
};

static const char *const names[_SESSION_STATE_MAX] = {
    [SESSION_NEW] = "new",         [SESSION_STARTING] = "starting", [SESSION_READY] = "ready",
    [SESSION_PAUSING] = "pausing", [SESSION_PAUSED] = "paused",     [SESSION_RESUMING] = "resuming",
    [SESSION_ENDING] = "ending",   [SESSION_ENDED] = "ended",
};

const char *session_state_name(enum session_state state)
{
    return names[state];
}

void session_become(struct session *session, enum session_state state)
{
    if (!(may_become[session->state] & BIT(state))) {
        log_error("session %s: %s may not become %s", session->id, names[session->state],
                  names[state]);
        return;
    }
    session->state = state;
}
