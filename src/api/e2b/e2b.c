/*
 * e2b.c - answers requests of E2B clients with an error in E2B's own shape: there is no E2B door
 * yet. The header decides, not the path: other doors have /execute and /health.
 */
#include <string.h>

#include "api/front/door.h"
#include "api/front/reply.h"
#include "base/cleanup.h"
#include "model/text.h"

#define SHOWN 100

extern const struct door_ops e2b_door;

static bool claims(const struct http_request *http)
{
    return http_header(http, "E2b-Sandbox-Id") != NULL;
}

static void refuse(struct http_request *http, const struct door_refusal *refusal)
{
    static const char why[] =
        "this request names a sandbox of E2B (E2b-Sandbox-Id), and this "
        "server has no door for those yet; without that header it is answered";
    const char *id = http_header(http, "E2b-Sandbox-Id");
    bool is_asked = refusal->status == 404;

    id = id ? id : "";
    front_reply(http, refusal->status,
                json_pack("{s:o, s:s, s:i}", "sandboxId",
                          text_to_json(id, MIN(strlen(id), (size_t)SHOWN)), "message",
                          is_asked ? why : refusal->text, "code", (int)refusal->status));
}

const struct door_ops e2b_door = {
    .name = "e2b",
    .claims = claims,
    .refuse = refuse,
};
