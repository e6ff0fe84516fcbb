/*
 * tenant_share.c - connections by the tenant whose key was last used on them: so many for each
 * tenant, and not all of them are kept between two requests.
 *
 * A connection joins when the first request with a key is admitted on it and stays, whatever it
 * does then: a stream of events, a WebSocket, half a request, nothing. So one key cannot take the
 * connections of others, nor more memory than its share (server.c: CONNECTION_MEMORY, all of which
 * is only written after the first request). A request on one more is refused, and its connection
 * goes on counting as one without a key (keyless.c).
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "http/http_private.h"

static struct tenant_share **find(struct http_server *server, const char *tenant)
{
    struct tenant_share **at;
    unsigned hash = 0;

    for (const char *c = tenant; *c; c++)
        hash = hash * 31 + (unsigned char)*c;
    at = &server->shares[hash % SHARE_CHAINS];
    while (*at && !str_equal((*at)->tenant, tenant))
        at = &(*at)->next;
    return at;
}

int http_share_join(struct link *link, const char *tenant)
{
    struct http_server *server = link->server;
    struct tenant_share **at, *share;

    if (server->spec.tenant_max == 0 || (link->share && str_equal(link->share->tenant, tenant)))
        return 0;
    at = find(server, tenant);
    if (*at && (*at)->count >= server->spec.tenant_max)
        return -EDQUOT;
    if (!*at) {
        *at = calloc(1, sizeof(**at));
        if (!*at)
            return -ENOMEM;
        (*at)->server = server;
        str_copy((*at)->tenant, sizeof((*at)->tenant), tenant);
    }
    share = *at;
    share->count++;
    http_share_leave(link); /* the key of another tenant was used on it before */
    link->share = share;
    return 0;
}

void http_share_drop(struct http_server *server, struct tenant_share *share)
{
    struct tenant_share **at;

    if (share->count > 0 || share->users > 0)
        return;
    at = find(server, share->tenant);
    *at = share->next;
    free(share);
}

void http_share_leave(struct link *link)
{
    struct tenant_share *share = link->share;

    if (!share)
        return;
    http_turn_leave(link);
    link->share = NULL;
    share->kept -= link->is_kept;
    link->is_kept = false;
    share->count--;
    http_share_drop(link->server, share);
}

bool http_share_keep(struct link *link)
{
    struct tenant_share *share = link->share;

    if (!share || link->is_kept)
        return true;
    if (share->kept >= link->server->spec.tenant_max / KEPT_SHARE)
        return false;
    link->is_kept = true;
    share->kept++;
    return true;
}

unsigned http_share_count(const struct link *link)
{
    return link->share ? link->share->count : 0;
}
