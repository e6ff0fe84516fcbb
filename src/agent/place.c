/* place.c - the container of an agent; see place.h. */
#include "agent/place.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "model/caller.h"
#include "session/container.h"
#include "session/session.h"
#include "session/session_manager.h"

static int take(struct agent_place *place, struct session_manager *manager,
                struct container_row *row, struct error *err)
{
    struct session *session;
    int r = container_session(manager, row, &session, err);

    if (r < 0)
        return r;
    str_copy(place->container, sizeof(place->container), row->id);
    str_copy(place->session, sizeof(place->session), session_id(session));
    return 0;
}

/* The one that the conversation used before, without a word where it is gone, or has other memory.
 */
static bool take_used(struct agent_place *place, struct session_manager *manager,
                      const char *tenant)
{
    struct container_row row;
    struct error ignored = {0};

    return place->used[0] && !place->is_fresh &&
           container_find(manager, tenant, place->used, &row, &ignored) == 0 &&
           (!place->memory || str_equal(row.memory_limit, place->memory)) &&
           container_is_running(manager, &row) && take(place, manager, &row, &ignored) == 0;
}

int agent_place_open(struct agent_place *place, struct session_manager *manager,
                     const struct caller *caller, struct error *err)
{
    const struct container_spec spec = {.caller = caller,
                                        .memory_limit = place->memory,
                                        .has_policy = place->has_policy,
                                        .file_ids = place->file_ids};
    struct container_row row;
    int r;

    if (place->session[0] || take_used(place, manager, caller->who.tenant))
        return 0;
    if (place->container[0] && !place->is_fresh) {
        r = container_find(manager, caller->who.tenant, place->container, &row, err);
    } else {
        r = container_create(manager, &spec, &row, err);
    }
    return r < 0 ? r : take(place, manager, &row, err);
}

int agent_place_row(const struct agent_place *place, struct session_manager *manager,
                    const struct caller *caller, struct container_row *ret, struct error *err)
{
    return container_find(manager, caller->who.tenant, place->container, ret, err);
}

void agent_place_leave(struct agent_place *place, struct session_manager *manager,
                       const struct caller *caller)
{
    struct container_row row;
    struct error ignored = {0};

    if (!place->is_fresh || !place->session[0])
        return;
    if (agent_place_row(place, manager, caller, &row, &ignored) == 0)
        container_remove(manager, &row, caller, &ignored);
    place->session[0] = place->container[0] = '\0';
}
