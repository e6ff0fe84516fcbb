/* caller.c - a caller as JSON members; see caller.h. */
#include "model/caller.h"

#include <jansson.h>
#include <stddef.h>

const struct caller caller_engine = {.request = ""};

static void add(json_t *object, const char *name, const char *text)
{
    if (text[0] && !json_object_get(object, name))
        json_object_set_new(object, name, json_string(text));
}

void caller_describe(const struct caller *caller, json_t *object)
{
    if (!object)
        return;
    add(object, "tenant", caller->who.tenant);
    add(object, "key", caller->who.key);
    if (caller->who.is_local && !json_object_get(object, "local"))
        json_object_set_new(object, "local", json_true());
    add(object, "request_id", caller->request);
    add(object, "trace_id", caller->trace.id);
    add(object, "parent_id", caller->trace.parent);
}
