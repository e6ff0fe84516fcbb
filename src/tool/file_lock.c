/*
 * file_lock.c - serialises tool calls that change the same file of a session.
 *
 * An edit reads, changes and writes; another edit in between would be lost. Changes by the guest
 * itself are not synchronised.
 */
#include "base/str.h"
#include "tool/tool_private.h"

static bool is_same(const struct tool_call *a, const struct tool_call *b)
{
    return a->session == b->session && str_equal(a->path, b->path);
}

void call_lock_file(struct tool_call *call, void (*on_file_locked)(struct tool_call *call))
{
    struct tool_call **at = &call->tools->file_locks;
    bool is_taken = false;

    for (; *at; at = &(*at)->next_locked)
        is_taken |= is_same(*at, call);
    call->wants_file_lock = true;
    call->next_locked = NULL;
    call->on_file_locked = on_file_locked;
    *at = call;
    if (!is_taken)
        on_file_locked(call);
}

/* The first of the calls that want the file. */
static struct tool_call *holder(const struct tool_call *call)
{
    struct tool_call *at = call->tools->file_locks;

    while (at && !is_same(at, call))
        at = at->next_locked;
    return at;
}

void call_unlock_file(struct tool_call *call)
{
    struct tool_call **at = &call->tools->file_locks;
    struct tool_call *next;
    bool was_holder;

    if (!call->wants_file_lock)
        return;
    call->wants_file_lock = false;
    was_holder = holder(call) == call;
    while (*at != call)
        at = &(*at)->next_locked;
    *at = call->next_locked;
    next = holder(call);
    if (was_holder && next)
        next->on_file_locked(next);
}
