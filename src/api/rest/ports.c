/*
 * ports.c - the ports of a session that its processes listen on, and links to them; requests to a
 * port are answered in api/ports.
 */
#include <errno.h>
#include <string.h>

#include "api/link.h"
#include "api/rest/rest_private.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "session/artifacts.h"

/* ---- the list ---- */

struct listing {
    struct front *front;
    struct http_request *http;
    struct session *session;
    struct box *box;
    uint32_t op;
    bool waits_for_box, is_cut;
    json_t *ports;
};

static void listing_free(struct listing *listing)
{
    if (listing->waits_for_box)
        session_box_cancel(listing->session, listing);
    if (listing->op)
        box_cancel(listing->box, listing->op);
    json_decref(listing->ports);
    free(listing);
}

static void on_gone(void *ctx)
{
    listing_free(ctx);
}

static void fail(struct listing *listing, const struct error *err)
{
    struct error told = *err;

    if (err->num == -ENOTSUP && err->code == ERROR_ENGINE)
        error_set(&told, err->num, ERROR_PORT_CLOSED,
                  "what runs this session here does not tell which ports it has");
    if (err->num == -EPERM && err->code == ERROR_ENGINE)
        error_set(&told, err->num, ERROR_PORT_CLOSED,
                  "this session has no network of its own, so it has no ports");
    front_fail(listing->front, listing->http, &told, NULL);
    listing_free(listing);
}

static void on_listed(void *ctx, const uint16_t *ports, size_t count, bool is_cut)
{
    struct listing *listing = ctx;
    char url[ID_MAX + 64];

    listing->is_cut = is_cut;
    for (size_t i = 0; i < count; i++) {
        str_format(url, sizeof(url), "/v1/sessions/%s/ports/%u/", session_id(listing->session),
                   ports[i]);
        json_array_append_new(listing->ports,
                              json_pack("{s:i, s:s}", "port", (int)ports[i], "url", url));
    }
}

static void on_done(void *ctx, const struct error *err)
{
    struct listing *listing = ctx;

    listing->op = 0;
    if (err->num < 0) {
        fail(listing, err);
        return;
    }
    front_reply(listing->http, 200,
                json_pack("{s:O, s:b}", "ports", listing->ports, "truncated", listing->is_cut));
    listing_free(listing);
}

static void on_box(void *ctx, struct box *box, const struct error *failed)
{
    static const struct ports_events events = {.listed = on_listed, .done = on_done};
    struct listing *listing = ctx;
    struct error err = {0};

    listing->waits_for_box = false;
    listing->box = box;
    if (!box) {
        fail(listing, failed);
    } else if (box_ports(box, &events, listing, &listing->op, &err) < 0) {
        listing->op = 0;
        fail(listing, &err);
    }
}

void ports_list(struct door_call *call)
{
    struct listing *listing;
    struct session *session;

    if (!front_session_to_use(call, &session))
        return;
    listing = calloc(1, sizeof(*listing));
    if (listing)
        listing->ports = json_array();
    if (!listing || !listing->ports) {
        free(listing);
        front_fail_memory(call->http);
        return;
    }
    listing->front = call->front;
    listing->http = call->http;
    listing->session = session;
    listing->waits_for_box = true;
    http_on_gone(call->http, on_gone, listing);
    session_box(session, on_box, listing);
}

/* ---- links ---- */

void ports_link(struct door_call *call)
{
    json_t *seconds = json_object_get(call->body, "seconds");
    unsigned port = (unsigned)json_integer_value(json_object_get(call->body, "port"));
    uint64_t most_ms = session_manager_config(call->front->manager)->link_ms;
    uint64_t ms = seconds ? (uint64_t)(json_number_value(seconds) * 1000.0) : most_ms;
    uint64_t expires_s = (clock_wall_ms() + MIN(ms, most_ms)) / 1000;
    uint8_t secret[SHA256_BYTES];
    char text[LINK_MAX], expires[40];
    struct session *session;
    struct error err = {0};

    if (!front_session_to_use(call, &session))
        return;
    if (artifacts_secret(call->front->manager, secret, &err) < 0) {
        front_fail(call->front, call->http, &err, NULL);
        return;
    }
    link_port_make(secret, session_id(session), port, expires_s, text);
    explicit_bzero(secret, sizeof(secret));
    front_time(expires_s * 1000, expires, sizeof(expires));
    front_reply(call->http, 201, json_pack("{s:s, s:s}", "url", text, "expires_at", expires));
}
