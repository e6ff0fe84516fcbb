/* outputs.c - files of a session's /tmp/output: the list, and the bytes of saved ones. */
#include <errno.h>

#include "api/rest/download.h"
#include "api/rest/rest_private.h"
#include "session/output_type.h"

void outputs_list(struct door_call *call)
{
    struct session *session;

    if (front_session(call, true, &session))
        front_reply(call->http, 200, session_outputs_json(session));
}

void outputs_get(struct door_call *call)
{
    const char *name = http_param(call->http, "name");
    struct session *session;
    struct error err = {0};
    int fd;

    if (!front_session(call, true, &session))
        return;
    fd = session_output_open(session, name, &err);
    if (fd < 0) {
        if (fd == -ENOENT)
            error_set(&err, fd, ERROR_NO_ROUTE, "there is no saved output '%.200s'", name);
        front_fail(call->front, call->http, &err, NULL);
        return;
    }
    rest_download(call->http, fd,
                  &(struct download_spec){.name = name, .type = output_type_find(name)->mime});
}
