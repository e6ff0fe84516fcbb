/*
 * debug.c - the one sandbox of clients with E2B_DEBUG=true, which ask for no sandbox and have no
 * key; see e2b.h.
 *
 * Such clients expect a sandbox at http://localhost:49983 and its code interpreter at :49999. They
 * get one where SANDBOX_E2B_DEBUG=true, and only from this machine's loopback: their sandbox
 * belongs to the tenant "default", and is made by the first request that needs it.
 */
#include <errno.h>
#include <string.h>

#include "api/sandboxes/e2b.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "config/config.h"

struct search {
    struct session *found;
};

static void look_at(void *ctx, struct session *session)
{
    struct search *search = ctx;

    if (session_state(session) < SESSION_ENDING &&
        json_is_true(json_object_get(session_notes(session), "debug")))
        search->found = session;
}

static bool is_from_here(const struct http_request *http)
{
    const char *peer = http_peer(http);

    return http_is_local(http) || str_starts(peer, "127.") || str_starts(peer, "[::1]");
}

static int make(struct e2b *e2b, struct session **ret, struct error *err)
{
    const struct config *config = session_manager_config(e2b->front->manager);
    CLEANUP(json_decrefp)
    json_t *notes = json_pack("{s:b, s:b, s:s, s:s, s:{}}", "debug", 1, "secure", 0, "key", "",
                              "template", "base", "metadata");
    CLEANUP(json_decrefp) json_t *env = json_pack("{s:s}", "E2B_SANDBOX", "true");
    const struct context_spec context = {.language = "python", .cwd = E2B_HOME, .is_default = true};
    struct caller caller = {.who = {.scopes = SCOPES_ORDINARY}};
    const struct session_spec spec = {
        .caller = &caller,
        .tenant = "default",
        .idle_ms = LIMIT_KEEP_MS,
        .age_ms = config->session_age_ms,
        .env = env,
        .notes = notes,
    };
    struct context *ignored;
    struct error none = {0};
    int r;

    if (!notes || !env)
        return error_memory(err);
    str_copy(caller.who.tenant, sizeof(caller.who.tenant), "default");
    r = session_manager_create(e2b->front->manager, &spec, ret, err);
    if (r == 0)
        (void)session_create_context(*ret, &context, &ignored, &none); /* there may be no Python */
    return r;
}

int e2b_debug_session(struct e2b *e2b, const struct http_request *http, struct session **ret,
                      struct error *err)
{
    struct search search = {.found = NULL};

    if (!session_manager_config(e2b->front->manager)->e2b_debug)
        return error_set(err, -EACCES, ERROR_UNAUTHORIZED,
                         "clients with E2B_DEBUG need a server with SANDBOX_E2B_DEBUG=true");
    if (!is_from_here(http))
        return error_set(err, -EACCES, ERROR_UNAUTHORIZED,
                         "the sandbox of SANDBOX_E2B_DEBUG answers programs of its own machine "
                         "only: it needs no key");
    session_manager_each(e2b->front->manager, false, look_at, &search);
    *ret = search.found;
    return search.found ? 0 : make(e2b, ret, err);
}
