/*
 * turn.c - who may change a file of a session now: two calls on one file come one after the other.
 *
 * An edit reads, changes and writes; another one in between would be lost. What the guest itself
 * does meanwhile is its own affair.
 */
#include "base/str.h"
#include "tool/inside.h"

static bool is_same(const struct tool_call *a, const struct tool_call *b)
{
    return a->session == b->session && str_equal(a->path, b->path);
}

void call_turn(struct tool_call *call, void (*on_turn)(struct tool_call *call))
{
    struct tool_call **at = &call->tools->turns;
    bool is_taken = false;

    for (; *at; at = &(*at)->next_turn)
        is_taken |= is_same(*at, call);
    call->has_turn = true;
    call->next_turn = NULL;
    call->on_turn = on_turn;
    *at = call;
    if (!is_taken)
        on_turn(call);
}

/* The first of those that want the file. */
static struct tool_call *holder(const struct tool_call *call)
{
    struct tool_call *at = call->tools->turns;

    while (at && !is_same(at, call))
        at = at->next_turn;
    return at;
}

void call_leave_turn(struct tool_call *call)
{
    struct tool_call **at = &call->tools->turns;
    struct tool_call *next;
    bool was_holder;

    if (!call->has_turn)
        return;
    call->has_turn = false;
    was_holder = holder(call) == call;
    while (*at != call)
        at = &(*at)->next_turn;
    *at = call->next_turn;
    next = holder(call);
    if (was_holder && next)
        next->on_turn(next);
}
