/*
 * target.c - the server of SANDBOX_URL: its key, what kind of server it is, and the sessions that
 * an earlier process left there; see remote_private.h.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "config/config.h"
#include "runtime/remote/remote_private.h"
#include "runtime/remote/settings.h"

#define KEY_MAX (4 * KIB)

/* A session of an earlier process that is being ended. */
struct sweep {
    struct sweep *next;
    struct remote *remote;
    struct remote_call *call;
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

bool remote_target_renew_key(struct remote *remote)
{
    struct buf key = BUF_INIT(KEY_MAX);
    struct error err = {0};

    if (remote->key || !remote->config->url.key_file || read_key_file(remote, &key, &err) < 0 ||
        str_equal(buf_text(&key), buf_text(&remote->key_file)) ||
        http_client_set_key(remote->client, buf_text(&key)) < 0) {
        forget(&key);
        return false;
    }
    forget(&remote->key_file);
    remote->key_file = key;
    return true;
}

int remote_target_open(struct remote *remote, struct error *err)
{
    const struct config *config = remote->config;
    struct http_place place = {.address = config->url.address,
                               .ca_file = config->url.ca_file,
                               .proxy = config->url.proxy,
                               .reactor = remote->reactor};
    int r;

    remote->key_file = BUF_INIT(KEY_MAX);
    r = take_key(remote, err);
    if (r < 0)
        return r;
    place.key = remote->key                   ? remote->key
                : remote->key_file.length > 0 ? buf_text(&remote->key_file)
                                              : NULL;
    return http_client_open_at(&place, &remote->client, err);
}

void remote_target_close(struct remote *remote)
{
    remote_call_cancel(remote->probe);
    remote_call_cancel(remote->listing);
    while (remote->sweeps) {
        struct sweep *sweep = remote->sweeps;

        remote->sweeps = sweep->next;
        remote_call_cancel(sweep->call);
        free(sweep);
    }
    http_client_close(remote->client);
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

/* All that wait get the same answer. Refusing frees a box, so the list is read again each time. */
static void tell_waiting(struct remote *remote, const struct error *failure)
{
    struct host_box *box = host_boxes(remote->host), *next;

    for (; box; box = next) {
        struct error err = *failure;

        next = box->next;
        if (!box->is_waiting)
            continue;
        if (err.num < 0 || remote_check(box, &err) < 0)
            host_box_refuse(box, &err);
        else
            host_box_begin(box);
    }
    host_check_greeting(remote->host);
    host_check_left(remote->host);
}

static void on_info(void *ctx, const struct remote_reply *reply)
{
    struct remote *remote = ctx;
    struct error err = reply->err;

    remote->probe = NULL;
    remote->kind = remote_target_kind_of(reply->status, reply->json);
    if (remote->kind == TARGET_BAILEY || remote->kind == TARGET_PLAIN)
        err = (struct error){0};
    else if (err.code != ERROR_PROVIDER_UNAVAILABLE)
        error_set(&err, -EPROTO, ERROR_PROVIDER_UNAVAILABLE,
                  REMOTE_UNAVAILABLE ": %.200s is neither a Bailey nor a server with POST /execute "
                                     "(GET /v1/info: HTTP status %u). Correct SANDBOX_URL",
                  remote->config->url.address, reply->status);
    if (err.num < 0)
        err.provider = "url";
    tell_waiting(remote, &err);
}

void remote_target_ask(struct remote *remote)
{
    struct remote_request request = {.method = "GET", .path = "/v1/info"};
    struct error err = {0};

    if (remote->probe)
        return;
    if (remote->kind != TARGET_UNKNOWN) {
        tell_waiting(remote, &err);
        return;
    }
    remote->probe = remote_call_start(remote, &request, on_info, remote);
    if (remote->probe)
        return;
    error_memory(&err);
    tell_waiting(remote, &err);
}

/* ---- what an earlier process left ---- */

static void on_swept(void *ctx, const struct remote_reply *reply)
{
    struct sweep *sweep = ctx, **at = &sweep->remote->sweeps;

    (void)reply; /* else the server ends it when it was idle for long enough */
    while (*at != sweep)
        at = &(*at)->next;
    *at = sweep->next;
    host_check_left(sweep->remote->host);
    free(sweep);
}

static void sweep_one(struct remote *remote, const char *id)
{
    struct sweep *sweep = calloc(1, sizeof(*sweep));
    char path[REMOTE_PATH_MAX];
    struct remote_request request = {.method = "DELETE", .path = path};

    if (!sweep)
        return;
    str_format(path, sizeof(path), "/v1/sessions/%.40s", id);
    sweep->remote = remote;
    sweep->next = remote->sweeps;
    remote->sweeps = sweep;
    sweep->call = remote_call_start(remote, &request, on_swept, sweep);
    if (!sweep->call) {
        remote->sweeps = sweep->next;
        free(sweep);
    }
}

static bool is_id(const char *id)
{
    return id && id[0] && strlen(id) < ID_MAX &&
           strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(id);
}

/* This process has no session yet when the listing is asked for, and none of these names ever. */
static void on_listed(void *ctx, const struct remote_reply *reply)
{
    struct remote *remote = ctx;
    char prefix[64];
    json_t *session;
    size_t i, count = 0;

    remote->listing = NULL;
    str_format(prefix, sizeof(prefix), "bailey-%s-", host_state(remote->host));
    json_array_foreach(json_object_get(reply->json, "sessions"), i, session)
    {
        const char *name = json_string_value(json_object_get(session, "name"));
        const char *id = json_string_value(json_object_get(session, "id"));
        bool is_ours = false;

        if (!name || !str_starts(name, prefix) || !is_id(id))
            continue;
        for (struct host_box *box = host_boxes(remote->host); box; box = box->next)
            is_ours = is_ours || str_ends(box->name, name + strlen(prefix));
        if (is_ours)
            continue;
        sweep_one(remote, id);
        count++;
    }
    if (count > 0)
        log_info("url: %zu sessions that an earlier process had left at %s are being ended", count,
                 remote->config->url.address);
    host_check_left(remote->host);
}

void remote_target_sweep(struct remote *remote)
{
    struct remote_request request = {.method = "GET", .path = "/v1/sessions"};

    if (host_spec(remote->host)->state)
        remote->listing = remote_call_start(remote, &request, on_listed, remote);
}
