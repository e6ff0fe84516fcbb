/*
 * target.c - the servers of SANDBOX_URL: their key, what kind of server each is, which of them gets
 * a box, and the sessions that an earlier process left there; see remote_private.h.
 *
 * A box goes to the one with the fewest of our boxes for its weight, and stays there. A server that
 * does not answer is preferred to none only, for REMOTE_DOWN_MS; a box that could not be made there
 * is made by another one.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "config/config.h"
#include "runtime/remote/remote_private.h"
#include "runtime/remote/settings.h"

#define KEY_MAX (4 * KIB)
#define SWEEPS_AT_ONCE 8

/* A session that no box of this process has, and that is being ended. */
struct sweep {
    struct sweep *next;
    struct remote *remote;
    struct target *target;
    char id[LIMIT_NAME + 1];  /* or its name */
    struct remote_call *call; /* NULL: its turn has not come */
};

/* ---- the key ---- */

static int read_key_file(const struct remote *remote, struct buf *key, struct error *err)
{
    const char *path = remote->config->url.key_file;
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
    int r = fd < 0 ? -errno : buf_read_fd(key, fd);

    if (r < 0)
        return error_set(err, r, ERROR_BAD_CONFIG,
                         "SANDBOX_URL_KEY_FILE: the file '%.200s' cannot be read: %s", path,
                         strerror(-r));
    while (key->length > 0 && strchr("\r\n \t", key->data[key->length - 1]))
        key->data[--key->length] = 0;
    if (key->length == 0)
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG,
                         "SANDBOX_URL_KEY_FILE: the file '%.200s' is empty", path);
    return 0;
}

/* Its text in the environment is overwritten: /proc/PID/environ would show it. */
static int take_key(struct remote *remote, struct error *err)
{
    char *text = getenv(REMOTE_ENV_KEY);

    if (text && text[0]) {
        remote->key = strdup(text);
        explicit_bzero(text, strlen(text));
        unsetenv(REMOTE_ENV_KEY);
        return remote->key ? 0 : error_memory(err);
    }
    return remote->config->url.key_file ? read_key_file(remote, &remote->key_file, err) : 0;
}

static void forget(struct buf *key)
{
    if (key->data)
        explicit_bzero(key->data, key->length);
    buf_free(key);
}

static int set_keys(struct remote *remote, const char *key)
{
    int r = 0;

    for (size_t i = 0; i < remote->count && r == 0; i++)
        r = http_client_set_key(remote->targets[i].client, key);
    return r;
}

bool remote_target_renew_key(struct remote *remote)
{
    struct buf key = BUF_INIT(KEY_MAX);
    struct error err = {0};

    if (remote->key || !remote->config->url.key_file || read_key_file(remote, &key, &err) < 0 ||
        str_equal(buf_text(&key), buf_text(&remote->key_file)) ||
        set_keys(remote, buf_text(&key)) < 0) {
        forget(&key);
        return false;
    }
    forget(&remote->key_file);
    remote->key_file = key;
    return true;
}

static int open_one(struct target *target, struct error *err)
{
    struct remote *remote = target->remote;
    struct http_place place = {.address = target->address,
                               .ca_file = remote->config->url.ca_file,
                               .proxy = remote->config->url.proxy,
                               .reactor = remote->reactor};

    if (!str_starts(target->address, "https://"))
        place.ca_file = NULL;
    place.key = remote->key                   ? remote->key
                : remote->key_file.length > 0 ? buf_text(&remote->key_file)
                                              : NULL;
    return http_client_open_at(&place, &target->client, err);
}

int remote_targets_open(struct remote *remote, struct error *err)
{
    const char *list = remote->config->url.address;
    int r;

    remote->key_file = BUF_INIT(KEY_MAX);
    r = take_key(remote, err);
    while (r == 0 && remote->count < REMOTE_TARGETS_MAX) {
        struct target *target = &remote->targets[remote->count];

        target->remote = remote;
        if (remote_settings_next(&list, target->address, &target->weight) <= 0)
            return 0; /* it was checked: it is the end */
        remote->count++;
        r = open_one(target, err);
    }
    return r;
}

void remote_targets_close(struct remote *remote)
{
    for (size_t i = 0; i < remote->count; i++) {
        remote_call_cancel(remote->targets[i].probe);
        remote_call_cancel(remote->targets[i].listing);
    }
    while (remote->sweeps) {
        struct sweep *sweep = remote->sweeps;

        remote->sweeps = sweep->next;
        remote_call_cancel(sweep->call);
        free(sweep);
    }
    for (size_t i = 0; i < remote->count; i++)
        http_client_close(remote->targets[i].client);
    if (remote->key)
        explicit_bzero(remote->key, strlen(remote->key));
    free(remote->key);
    forget(&remote->key_file);
}

/* ---- what it is ---- */

/* A Bailey has GET /v1/info; a server that has POST /execute only does not know that address. */
enum target_kind remote_target_kind_of(unsigned status, const json_t *info)
{
    if (status == 200 && json_is_string(json_object_get(info, "version")) &&
        json_is_string(json_object_get(info, "runtime")))
        return TARGET_BAILEY;
    return status == 404 || status == 405 || status == 501 ? TARGET_PLAIN : TARGET_UNKNOWN;
}

static uint32_t bit_of(const struct target *target)
{
    return UINT32_C(1) << (target - target->remote->targets);
}

void remote_target_down(struct target *target)
{
    target->kind = TARGET_UNKNOWN; /* another one may answer at that address later */
    target->down_until_ms = clock_now_ms() + REMOTE_DOWN_MS;
}

/* All that wait for this server get the same answer. Refusing frees a box. */
static void tell_waiting(struct target *target, const struct error *failure)
{
    struct remote *remote = target->remote;
    struct host_box *box = host_boxes(remote->host), *next;

    for (; box; box = next) {
        struct remote_box *self = remote_box_of(box);
        struct error err = *failure;

        next = box->next;
        if (!box->is_waiting || self->target != target)
            continue;
        if (err.num == 0 && remote_check(box, &err) == 0) {
            host_box_begin(box);
            continue;
        }
        self->tried |= bit_of(target);
        remote_target_leave(self);
        if (remote_target_is_left(self))
            remote_target_place(self);
        else
            host_box_refuse(box, &err);
    }
    host_check_greeting(remote->host);
    host_check_left(remote->host);
}

static void on_info(void *ctx, const struct remote_reply *reply)
{
    struct target *target = ctx;
    struct error err = reply->err;

    target->probe = NULL;
    target->kind = remote_target_kind_of(reply->status, reply->json);
    if (target->kind == TARGET_BAILEY || target->kind == TARGET_PLAIN)
        err = (struct error){0};
    else if (err.code != ERROR_PROVIDER_UNAVAILABLE)
        error_set(&err, -EPROTO, ERROR_PROVIDER_UNAVAILABLE,
                  REMOTE_UNAVAILABLE ": %.200s is neither a Bailey nor a server with POST /execute "
                                     "(GET /v1/info: HTTP status %u). Correct SANDBOX_URL",
                  target->address, reply->status);
    if (err.num < 0) {
        err.provider = "url";
        remote_target_down(target);
    } else {
        target->down_until_ms = 0;
    }
    tell_waiting(target, &err);
}

static void ask(struct target *target)
{
    struct remote_request request = {.method = "GET", .path = "/v1/info"};
    struct error err = {0};

    if (target->probe)
        return;
    if (target->kind != TARGET_UNKNOWN) {
        tell_waiting(target, &err);
        return;
    }
    target->probe = remote_call_start(target, &request, on_info, target);
    if (target->probe)
        return;
    error_memory(&err);
    tell_waiting(target, &err);
}

/* ---- which one ---- */

/* Whether a box is better placed there: one that answers first, then the one with less load. */
static bool is_better(const struct target *target, const struct target *other, uint64_t now_ms)
{
    bool is_down = target->down_until_ms > now_ms, other_is = other->down_until_ms > now_ms;

    if (is_down != other_is)
        return other_is;
    return (uint64_t)target->boxes * other->weight < (uint64_t)other->boxes * target->weight;
}

static struct target *choose(const struct remote_box *box)
{
    struct remote *remote = box->remote;
    uint64_t now_ms = clock_now_ms();
    struct target *found = NULL;

    for (size_t i = 0; i < remote->count; i++) {
        struct target *target = &remote->targets[i];

        if (!(box->tried & bit_of(target)) && (!found || is_better(target, found, now_ms)))
            found = target;
    }
    return found;
}

bool remote_target_is_left(const struct remote_box *box)
{
    return choose(box);
}

void remote_target_place(struct remote_box *box)
{
    remote_target_leave(box);
    if (!remote_target_is_left(box))
        box->tried = 0;
    box->target = choose(box);
    box->target->boxes++;
    ask(box->target);
}

void remote_target_leave(struct remote_box *box)
{
    if (box->target)
        box->target->boxes--;
    box->target = NULL;
}

/* ---- what an earlier process left ---- */

static void sweep_some(struct remote *remote);

static void sweep_free(struct sweep *sweep)
{
    struct sweep **at = &sweep->remote->sweeps;

    while (*at != sweep)
        at = &(*at)->next;
    *at = sweep->next;
    free(sweep);
}

static void on_swept(void *ctx, const struct remote_reply *reply)
{
    struct sweep *sweep = ctx;
    struct remote *remote = sweep->remote;

    (void)reply; /* else the server ends it when it was idle for long enough */
    sweep_free(sweep);
    sweep_some(remote);
    host_check_left(remote->host);
}

/* A connection for each of thousands would take every descriptor. */
static void sweep_some(struct remote *remote)
{
    struct sweep *next;
    size_t running = 0;

    for (const struct sweep *at = remote->sweeps; at; at = at->next)
        running += at->call != NULL;
    for (struct sweep *at = remote->sweeps; at && running < SWEEPS_AT_ONCE; at = next) {
        char path[REMOTE_PATH_MAX];
        struct remote_request request = {.method = "DELETE", .path = path, .waits = true};

        next = at->next;
        if (at->call)
            continue;
        str_format(path, sizeof(path), "/v1/sessions/%s", at->id);
        at->call = remote_call_start(at->target, &request, on_swept, at);
        if (at->call)
            running++;
        else
            sweep_free(at);
    }
}

static void sweep_later(struct target *target, const char *id)
{
    struct sweep *sweep = calloc(1, sizeof(*sweep));

    if (!sweep)
        return;
    sweep->remote = target->remote;
    sweep->target = target;
    str_copy(sweep->id, sizeof(sweep->id), id);
    sweep->next = target->remote->sweeps;
    target->remote->sweeps = sweep;
}

void remote_target_end_session(struct target *target, const char *name)
{
    sweep_later(target, name);
    sweep_some(target->remote);
}

bool remote_target_is_id(const char *id)
{
    return id && id[0] && strlen(id) < ID_MAX &&
           strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(id);
}

/* This process has no session yet when the listing is asked for, and none of these names ever. */
static void on_listed(void *ctx, const struct remote_reply *reply)
{
    struct target *target = ctx;
    struct remote *remote = target->remote;
    char prefix[64];
    json_t *session;
    size_t i, count = 0;

    target->listing = NULL;
    str_format(prefix, sizeof(prefix), "bailey-%s-", host_state(remote->host));
    json_array_foreach(json_object_get(reply->json, "sessions"), i, session)
    {
        const char *name = json_string_value(json_object_get(session, "name"));
        const char *id = json_string_value(json_object_get(session, "id"));
        bool is_ours = false;

        if (!name || !str_starts(name, prefix) || !remote_target_is_id(id) ||
            count == LIMIT_SESSIONS)
            continue;
        for (struct host_box *box = host_boxes(remote->host); box; box = box->next)
            is_ours = is_ours || str_ends(box->name, name + strlen(prefix));
        if (is_ours)
            continue;
        sweep_later(target, id);
        count++;
    }
    sweep_some(remote);
    if (count > 0)
        log_info("url: %zu sessions that an earlier process had left at %s are being ended", count,
                 target->address);
    host_check_left(remote->host);
}

void remote_targets_sweep(struct remote *remote)
{
    struct remote_request request = {
        .method = "GET", .path = "/v1/sessions", .reply_max = REMOTE_REPLY_LONG};

    for (size_t i = 0; i < remote->count && host_spec(remote->host)->state; i++) {
        struct target *target = &remote->targets[i];

        target->listing = remote_call_start(target, &request, on_listed, target);
    }
}
