/*
 * install.c - the tool sandbox_install {packages}: Python packages for the session, fetched by an
 * installer box. The session's own box gets no network.
 */
#include <errno.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"
#include "tool/tool_private.h"

static void on_installed(void *ctx, const struct install_end *end, const struct error *err)
{
    struct tool_call *call = ctx;

    call->installation = NULL;
    if (err->num < 0) {
        call_fail(call, err, NULL);
        return;
    }
    call->reply.kind = TOOL_REPLY_INSTALLED;
    call->reply.installed = end->added ? json_incref(end->added) : json_array();
    call_set_hint(&call->reply, json_array_size(call->reply.installed) > 0
                                    ? "Packages installed. Import them, or run the code again."
                                    : "The packages were there already. Import them.");
    if (!call->reply.installed)
        call_fail_memory(call);
    else
        call_reply(call);
}

/* Checks that can refuse the call before a session is created for it. */
static int check(const struct tool_call *call, const char *const *packages, struct error *err)
{
    const struct session_manager *manager = call->tools->manager;
    const char *why = config_no_install(session_manager_config(manager));

    if (!packages)
        return error_memory(err);
    if (why)
        return error_set(err, -ENOTSUP, ERROR_INSTALL_FAILED, "%s", why);
    return install_check(manager, packages, err);
}

void sandbox_install_start(struct tool_call *call)
{
    static const struct install_events events = {.done = on_installed};
    CLEANUP(freep)
    const char **packages = text_list_of_json(call_parameter(call, "packages"));
    struct error err = {0};

    if (check(call, packages, &err) < 0) {
        call_fail(call, &err, NULL);
        return;
    }
    if (!call_session(call))
        return;
    if (session_install(call->session, &call->caller, packages, &events, call, &call->installation,
                        &err) < 0) {
        call->installation = NULL;
        call_fail(call, &err, NULL);
    }
}
