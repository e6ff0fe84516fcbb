/*
 * keyless.c - connections on which no key was admitted yet: so many for each address, and the first
 * that are closed when the server is full.
 *
 * A new connection is not refused for them, because whether it has a key is known only after its
 * first request: the oldest one of the address is closed instead. So a client with a key gets in
 * beside a flood from its own address, unless the flood renews itself within the time that the
 * client takes for its first request. When the server is full, the address that has the most of
 * them loses its oldest. Where there is none, a connection with a key goes: one of the tenant that
 * has the most (tenant_share.c), which waits for its next request if any does, else the newest. So
 * a new client is heard, /healthz included, however many tenants keep all of theirs busy.
 *
 * Addresses from which a key was used in the last hour have a reserve: their connections are closed
 * for others only when there are no others, and LATELY_RESERVE of them may be opened while so many
 * are being closed that other addresses may not. So a flood from many addresses, which is not told
 * from many clients otherwise, does not keep out those that were there before it.
 *
 * An address is an IPv4 address or the first half of an IPv6 address, which one client has alone.
 */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "http/http_private.h"

#define TELL_MS 60000 /* between two lines of the log */

struct keyless_address {
    struct keyless_address *next;
    uint8_t bytes[ADDRESS_BYTES];
    unsigned count;
    struct link *oldest, *newest;
};

static bool read_address(const struct sockaddr *from, uint8_t bytes[ADDRESS_BYTES])
{
    const struct sockaddr_in *v4 = (const void *)from;
    const struct sockaddr_in6 *v6 = (const void *)from;

    memset(bytes, 0, ADDRESS_BYTES);
    if (from && from->sa_family == AF_INET)
        memcpy(bytes + 4, &v4->sin_addr, 4);
    else if (from && from->sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        memcpy(bytes + 4, v6->sin6_addr.s6_addr + 12, 4);
    else if (from && from->sa_family == AF_INET6)
        memcpy(bytes, v6->sin6_addr.s6_addr, ADDRESS_BYTES);
    else
        return false;
    return true;
}

/* The place in the table of the address, or of NULL at the end of its chain. */
static struct keyless_address **find(struct http_server *server, const uint8_t bytes[ADDRESS_BYTES])
{
    struct keyless_address **at;
    unsigned hash = 0;

    for (int i = 0; i < ADDRESS_BYTES; i++)
        hash = hash * 31 + bytes[i];
    at = &server->keyless[hash % KEYLESS_CHAINS];
    while (*at && memcmp((*at)->bytes, bytes, ADDRESS_BYTES) != 0)
        at = &(*at)->next;
    return at;
}

bool http_keyless_add(struct link *link, const struct sockaddr *from)
{
    struct http_server *server = link->server;
    struct keyless_address **at, *address;
    uint8_t bytes[ADDRESS_BYTES];

    if (server->spec.keyless_max == 0 || !read_address(from, bytes))
        return true;
    memcpy(link->from, bytes, ADDRESS_BYTES);
    link->has_from = true;
    at = find(server, bytes);
    if (!*at) {
        *at = calloc(1, sizeof(**at));
        if (!*at)
            return false;
        memcpy((*at)->bytes, bytes, ADDRESS_BYTES);
    }
    address = *at;
    link->address = address;
    link->older = address->newest;
    if (link->older)
        link->older->newer = link;
    else
        address->oldest = link;
    address->newest = link;
    address->count++;
    server->keyless_count++;
    return true;
}

void http_keyless_leave(struct link *link)
{
    struct keyless_address *address = link->address, **at;
    struct http_server *server = link->server;

    if (!address)
        return;
    *(link->older ? &link->older->newer : &address->oldest) = link->newer;
    *(link->newer ? &link->newer->older : &address->newest) = link->older;
    link->address = NULL;
    link->older = link->newer = NULL;
    server->keyless_count--;
    if (--address->count > 0)
        return;
    at = find(server, address->bytes);
    *at = address->next;
    free(address);
}

/* Its end is noticed as a client's own would be. */
static void evict(struct link *link)
{
    struct http_server *server = link->server;
    uint64_t now = clock_now_ms();

    if (server->told_ms == 0 || now - server->told_ms > TELL_MS) {
        server->told_ms = now;
        log_warning("http: too many connections: closing the oldest without a key, or one of the "
                    "tenant with the most (%u of %u have no key; now %s)",
                    server->keyless_count, server->client_count, link->peer);
    }
    http_keyless_leave(link);
    http_share_leave(link);
    link->is_evicted = true;
    server->evicted++;
    shutdown(link->fd, SHUT_RDWR);
}

/* ---- addresses of keys ---- */

static unsigned place_of(const uint8_t bytes[ADDRESS_BYTES])
{
    unsigned hash = 0;

    for (int i = 0; i < ADDRESS_BYTES; i++)
        hash = hash * 31 + bytes[i];
    return hash % LATELY_MAX;
}

/* Two addresses with the same place: the one that was used last has it. */
void http_keyless_known(struct link *link)
{
    struct http_server *server = link->server;
    struct lately *place;

    if (!link->has_from)
        return;
    if (!server->lately)
        server->lately = calloc(LATELY_MAX, sizeof(*server->lately));
    if (!server->lately)
        return; /* no reserve then */
    place = &server->lately[place_of(link->from)];
    memcpy(place->from, link->from, ADDRESS_BYTES);
    place->at_ms = clock_now_ms();
}

static bool is_known(const struct http_server *server, const uint8_t bytes[ADDRESS_BYTES])
{
    const struct lately *place = server->lately ? &server->lately[place_of(bytes)] : NULL;

    return place && place->at_ms && memcmp(place->from, bytes, ADDRESS_BYTES) == 0 &&
           clock_now_ms() - place->at_ms < LATELY_MS;
}

/* The address that loses a connection: the one with the most, among those without a reserve. */
static struct keyless_address *largest(struct http_server *server)
{
    struct keyless_address *ret = NULL, *known = NULL;

    for (int i = 0; i < KEYLESS_CHAINS; i++) {
        for (struct keyless_address *at = server->keyless[i]; at; at = at->next) {
            struct keyless_address **best = is_known(server, at->bytes) ? &known : &ret;

            if (!*best || at->count > (*best)->count)
                *best = at;
        }
    }
    return ret ? ret : known;
}

/* Whether `a` goes before `b`: the links are in the order of their beginning, the newest first. */
static bool goes_first(const struct link *a, const struct link *b)
{
    unsigned a_count = http_share_count(a), b_count = http_share_count(b);

    if (a_count != b_count)
        return a_count > b_count;
    if (!a->request != !b->request)
        return !a->request;
    return !a->request && a->since_ms < b->since_ms;
}

/* The connection with a key that is closed for a new one. */
static struct link *most_dispensable(struct http_server *server)
{
    struct link *ret = NULL;

    for (struct link *link = server->links; link; link = link->next) {
        if (!link->is_evicted && (!ret || goes_first(link, ret)))
            ret = link;
    }
    return ret;
}

/* Also while an earlier one that was closed for it is still to be forgotten. */
static bool make_room(struct http_server *server)
{
    struct keyless_address *address;
    struct link *going;

    if (server->client_count - server->evicted < server->spec.client_max &&
        server->keyless_count < server->spec.client_max - server->spec.client_max / KEYED_SHARE)
        return true;
    address = largest(server);
    going = address ? address->oldest : most_dispensable(server);
    if (going)
        evict(going);
    return going != NULL;
}

bool http_keyless_accept(struct http_server *server, const struct sockaddr *from)
{
    const struct keyless_address *address;
    uint8_t bytes[ADDRESS_BYTES];

    if (server->spec.keyless_max == 0 || !read_address(from, bytes))
        return server->client_count < server->spec.client_max;
    if (server->client_count >=
        server->spec.client_max + EVICTED_MAX + (is_known(server, bytes) ? LATELY_RESERVE : 0))
        return false;
    address = *find(server, bytes);
    if (address && address->count >= server->spec.keyless_max)
        evict(address->oldest);
    return make_room(server);
}
