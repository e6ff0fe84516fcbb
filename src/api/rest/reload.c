/*
 * reload.c - POST /v1/reload: loads new configuration and certificates; only for the daemon's
 * owner.
 */
#include <errno.h>

#include "api/rest/rest_private.h"
#include "base/str.h"

void reload_post(struct door_call *call)
{
    const struct front_info *info = &call->front->info;
    struct error err = {0};
    json_t *reply = NULL;
    int r;

    if (!http_is_local(call->http) || !info->reload)
        r = error_set(&err, -EPERM, ERROR_FORBIDDEN,
                      "only over the daemon's own socket: run 'bailey reload' on its machine");
    else
        r = info->reload(info->reload_ctx, call->body, &reply, &err);
    if (r < 0) {
        if (str_equal(err.code, ERROR_BAD_CONFIG))
            err.code = ERROR_BAD_INPUT; /* the error is in the caller's configuration, not in the
                                           active one */
        front_fail(call->front, call->http, &err, NULL);
        return;
    }
    front_reply(call->http, 200, reply);
}
