/* held.c - bytes held for each tenant; see held.h. */
#include "base/held.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/str.h"

/* A tenant that holds something. */
struct holder {
    struct holder *next;
    size_t bytes;
    char tenant[64];
};

struct held {
    size_t each, all, sum;
    struct holder *holders;
};

struct held *held_new(size_t each, size_t all)
{
    struct held *held = calloc(1, sizeof(*held));

    if (held)
        *held = (struct held){.each = each, .all = all};
    return held;
}

void held_free(struct held *held)
{
    if (!held)
        return;
    while (held->holders) {
        struct holder *next = held->holders->next;

        free(held->holders);
        held->holders = next;
    }
    free(held);
}

static struct holder *find(const struct held *held, const char *tenant)
{
    struct holder *at = held->holders;

    while (at && !str_equal(at->tenant, tenant))
        at = at->next;
    return at;
}

int held_check(const struct held *held, const char *tenant, bool is_free, size_t bytes)
{
    const struct holder *holder = held ? find(held, tenant) : NULL;
    size_t has = holder ? holder->bytes : 0;

    if (!held)
        return 0;
    if (!is_free && bytes > held->each - (has < held->each ? has : held->each))
        return -EDQUOT;
    return bytes > held->all - held->sum ? -ENOBUFS : 0;
}

int held_take(struct held *held, const char *tenant, bool is_free, size_t bytes)
{
    int r = held_check(held, tenant, is_free, bytes);
    struct holder *holder;

    if (!held || r < 0 || bytes == 0)
        return r;
    holder = find(held, tenant);
    if (!holder) {
        holder = calloc(1, sizeof(*holder));
        if (!holder)
            return -ENOBUFS;
        str_copy(holder->tenant, sizeof(holder->tenant), tenant);
        holder->next = held->holders;
        held->holders = holder;
    }
    holder->bytes += bytes;
    held->sum += bytes;
    return 0;
}

void held_give(struct held *held, const char *tenant, size_t bytes)
{
    struct holder *holder = held ? find(held, tenant) : NULL;

    if (!holder)
        return;
    if (bytes > holder->bytes)
        bytes = holder->bytes;
    holder->bytes -= bytes;
    held->sum -= bytes;
    if (holder->bytes > 0)
        return;
    LIST_UNLINK(held->holders, holder);
    free(holder);
}

size_t held_by(const struct held *held, const char *tenant)
{
    const struct holder *holder;

    if (!held)
        return 0;
    if (!tenant)
        return held->sum;
    holder = find(held, tenant);
    return holder ? holder->bytes : 0;
}
