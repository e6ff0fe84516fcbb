/* client.c - Docker's Engine API for commands; see client.h. */
#include "runtime/docker/client.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "config/image_name.h"
#include "model/json.h"
#include "runtime/docker/remedy.h"
#include "runtime/docker/settings.h"

#define REPLY_MAX (16 * MIB)
#define CALL_MS 60000 /* removing an image takes longest */
#define REMEDY "Set SANDBOX_TYPE=local or start Docker daemon"

int docker_client_open(struct docker_client *docker, const struct config *config, struct error *err)
{
    *docker = (struct docker_client){.host = config->docker.host};
    return http_client_open_at(&(struct http_place){.address = config->docker.host,
                                                    .tls_folder = config->docker.cert_path,
                                                    .is_unverified = !config->docker.verifies_tls},
                               &docker->http, err);
}

void docker_client_close(struct docker_client *docker)
{
    http_client_close(docker->http);
    *docker = (struct docker_client){0};
}

static int lost(const struct docker_client *docker, const struct error *why, struct error *err)
{
    const char *remedy = docker_tls_remedy(why->num);

    if (remedy)
        return error_set(err, why->num, ERROR_PROVIDER_UNAVAILABLE,
                         DOCKER_UNAVAILABLE ": %.200s: %.500s. %s", docker->host, why->text,
                         remedy);
    switch (why->num) {
    case -ENOENT:
    case -ECONNREFUSED:
        return error_set(err, why->num, ERROR_PROVIDER_UNAVAILABLE,
                         DOCKER_UNAVAILABLE ": no process listens on %.200s. " REMEDY,
                         docker->host);
    case -EACCES:
    case -EPERM:
        return error_set(err, why->num, ERROR_PROVIDER_UNAVAILABLE,
                         DOCKER_UNAVAILABLE
                         ": no permission for %.200s. Add yourself to "
                         "the group docker (sudo usermod -aG docker $USER, then log in again; its "
                         "members can become root), or run Docker rootless",
                         docker->host);
    default:
        return error_set(err, why->num, ERROR_PROVIDER_UNAVAILABLE,
                         DOCKER_UNAVAILABLE ": %.200s: %.300s. " REMEDY, docker->host, why->text);
    }
}

int docker_client_lost(const struct docker_client *docker, const struct error *why,
                       struct error *err)
{
    int r = lost(docker, why, err);

    if (err)
        err->provider = "docker";
    return r;
}

int docker_client_refused(unsigned status, const struct buf *reply, struct error *err)
{
    CLEANUP(json_decrefp) json_t *json = json_parse(buf_text(reply), reply->length, 0, NULL);
    const char *given = json_string_value(json_object_get(json, "message"));
    const char *message = given ? given : "";

    if (strcasestr(message, "no space left on device"))
        return error_set(err, -ENOSPC, ERROR_DISK_FULL, "Docker's disk is full: %.400s", message);
    if (strcasestr(message, "no such image"))
        return error_set(err, -ENOENT, ERROR_IMAGE_NOT_FOUND,
                         "Docker: %.300s; 'bailey image ls' lists those of bailey, 'bailey image "
                         "build' makes one",
                         message);
    if (message[0])
        return error_set(err, status == 404 ? -ENOENT : -EIO, ERROR_ENGINE, "Docker: %.400s",
                         message);
    return error_set(err, -EPROTO, ERROR_ENGINE, "Docker answered with HTTP status %u", status);
}

int docker_client_call(struct docker_client *docker, const char *method, const char *path,
                       json_t **ret, struct error *err)
{
    CLEANUP(buf_free) struct buf reply = BUF_INIT(REPLY_MAX);
    struct http_call call = {
        .method = method, .path = path, .body_total = -1, .timeout_ms = CALL_MS};
    struct error why = {0};
    unsigned status = 0;

    if (http_call(docker->http, &call, &status, &reply, &why) < 0)
        return docker_client_lost(docker, &why, err);
    if (docker_wants_tls(status, &reply)) {
        error_set(&why, -EPROTOTYPE, ERROR_ENGINE, DOCKER_WANTS_TLS);
        return docker_client_lost(docker, &why, err);
    }
    if (status >= 400)
        return docker_client_refused(status, &reply, err);
    *ret = reply.length > 0 ? json_parse(buf_text(&reply), reply.length, 0, NULL) : NULL;
    if (reply.length > 0 && !*ret)
        return error_set(err, -EPROTO, ERROR_ENGINE,
                         "%.200s does not answer with Docker's Engine API", docker->host);
    return 0;
}

static bool is_made_of(const char *text, const char *letters)
{
    return text[0] && text[strspn(text, letters)] == '\0';
}

#define SMALL "abcdefghijklmnopqrstuvwxyz0123456789._-"

bool docker_client_is_name(const char *text)
{
    return strlen(text) < DOCKER_NAME_MAX && image_name_is_valid(text);
}

int docker_client_name(const char *text, char name[DOCKER_NAME_MAX], char tag[DOCKER_NAME_MAX],
                       struct error *err)
{
    const char *slash = strrchr(text, '/'), *colon = strrchr(text, ':');
    size_t length = colon && (!slash || colon > slash) ? (size_t)(colon - text) : strlen(text);

    if (length < DOCKER_NAME_MAX &&
        str_copy(tag, DOCKER_NAME_MAX, text[length] ? text + length + 1 : "latest")) {
        memcpy(name, text, length);
        name[length] = '\0';
        if (is_made_of(name, SMALL "/:") && name[0] != '-' && name[0] != '.' && name[0] != '/' &&
            !strstr(name, "..") && !strstr(name, "//") && !str_ends(name, "/") &&
            is_made_of(tag, SMALL "ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
            return 0;
    }
    return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                     "'%.100s' is not the name of an image; such are bailey-sandbox or "
                     "registry.example/team/sandbox:2",
                     text);
}
