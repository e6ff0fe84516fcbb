/* client.c - calls to the daemon and its replies; see client.h. */
#include "cli/client/client.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/daemon.h"
#include "cli/client/format.h"
#include "cli/command.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/place.h"
#include "cli/program_settings.h"
#include "cli/request.h"
#include "config/settings.h"
#include "model/text.h"
#include "runtime/provider.h"

#define RETRY_MS 50
#define KEY_MAX 1024 /* bytes of a key file that are read */

/* Every code of the API, as the constant that the rest of the program compares with. */
static const struct code_row {
    const char *code;
    int num;
} code_table[] = {
    {ERROR_UNAUTHORIZED, -EACCES},
    {ERROR_FORBIDDEN, -EPERM},
    {ERROR_QUOTA, -EDQUOT},
    {ERROR_BUSY, -EBUSY},
    {ERROR_BAD_INPUT, -EINVAL},
    {ERROR_BAD_CONFIG, -EINVAL},
    {ERROR_BAD_JSON, -EINVAL},
    {ERROR_UNKNOWN_PARAMETER, -EINVAL},
    {ERROR_UNKNOWN_TOOL, -ENOENT},
    {ERROR_NO_ROUTE, -ENOENT},
    {ERROR_METHOD, -EOPNOTSUPP},
    {ERROR_SESSION_NOT_FOUND, -ENOENT},
    {ERROR_SESSION_AMBIGUOUS, -ENOTUNIQ},
    {ERROR_SESSION_ENDED, -EIDRM},
    {ERROR_SESSION_PAUSED, -EBUSY},
    {ERROR_NAME_TAKEN, -EEXIST},
    {ERROR_TOO_MANY_SESSIONS, -EAGAIN},
    {ERROR_EXECUTION_NOT_FOUND, -ENOENT},
    {ERROR_EXECUTION_ENDED, -ESRCH},
    {ERROR_NOT_A_TERMINAL, -ENOTTY},
    {ERROR_OFFSET_GONE, -ERANGE},
    {ERROR_PATH_INVALID, -EINVAL},
    {ERROR_PATH_NOT_FOUND, -ENOENT},
    {ERROR_PATH_REFUSED, -EACCES},
    {ERROR_PATH_IS_FOLDER, -EISDIR},
    {ERROR_PATH_NOT_FOLDER, -ENOTDIR},
    {ERROR_PATH_EXISTS, -EEXIST},
    {ERROR_FOLDER_NOT_EMPTY, -ENOTEMPTY},
    {ERROR_READ_ONLY, -EROFS},
    {ERROR_DATASET_TAKEN, -EEXIST},
    {ERROR_DISK_FULL, -ENOSPC},
    {ERROR_SHUTTING_DOWN, -ESHUTDOWN},
    {ERROR_TOO_LARGE, -EFBIG},
    {ERROR_REFUSED, -EPERM},
    {ERROR_BOX_FAILED, -EIO},
    {ERROR_BOX_LOST, -EIO},
    {ERROR_NO_INTERPRETER, -ENOENT},
    {ERROR_COMMAND_NOT_FOUND, -ENOENT},
    {ERROR_NOT_EXECUTABLE, -EACCES},
    {ERROR_BLOCKED_IMPORT, -EPERM},
    {ERROR_CANCELLED, -ECANCELED},
    {ERROR_TEMPLATE_NOT_FOUND, -ENOENT},
    {ERROR_TEMPLATE_NOT_BUILT, -ENOENT},
    {ERROR_SETTING_DIFFERS, -EEXIST},
    {ERROR_RUN_DIFFERS, -EPERM},
    {ERROR_TEMPLATE_IN_USE, -EBUSY},
    {ERROR_INSTALL_FAILED, -EIO},
    {ERROR_INSTALL_DENIED, -EPERM},
    {ERROR_NO_NETWORK, -ENETUNREACH},
    {ERROR_PROVIDER_UNAVAILABLE, -ECONNREFUSED},
    {ERROR_ENGINE, -EIO},
};

void json_freep(json_t **json)
{
    json_decref(*json);
    *json = NULL;
}

const char *member_text(json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));

    return text ? text : "";
}

/* ---- a server of --url ---- */

/* What libcurl says is for people who know libcurl: here is what to do. */
static int explain_server(const char *url, const struct error *failure, struct error *err)
{
    int num = failure->num;
    const char *code = ERROR_NO_DAEMON;

    switch (num) {
    case -ECONNREFUSED:
    case -ENOENT:
        return error_set(err, num, code,
                         "no server answers at %.200s: start one there with 'bailey serve', or "
                         "check --url (" PLACE_URL ")",
                         url);
    case -EHOSTUNREACH:
    case -ETIMEDOUT:
        return error_set(err, num, code,
                         "%.200s cannot be reached (%.200s): check the name in "
                         "--url (" PLACE_URL ") and the network",
                         url, failure->text);
    case -EPROTOTYPE:
        return error_set(err, num, code,
                         "the server at %.200s does not use TLS: write http:// in --url", url);
    case -EKEYREJECTED:
        return error_set(err, num, code,
                         "the certificate of %.200s cannot be verified: give the certificate of "
                         "its authority with --ca-file FILE (" PLACE_CA_FILE ")",
                         url);
    case -EREMCHG:
        return error_set(err, num, code,
                         "the certificate of %.200s is for another name: use that name in --url "
                         "(%.200s)",
                         url, failure->text);
    case -ECONNRESET:
    case -EPROTO:
        return error_set(err, num, code,
                         "%.200s does not answer as a web server does: if it uses TLS, write "
                         "https:// in --url",
                         url);
    default:
        return error_set(err, num, code, "talking to %.200s: %.300s", url, failure->text);
    }
}

/* The first line of a file. */
static int read_key_file(const char *path, char key[KEY_MAX], struct error *err)
{
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    ssize_t length = fd < 0 ? -1 : read(fd, key, KEY_MAX - 1);

    if (length < 0)
        return error_set(err, -errno, ERROR_BAD_INPUT, "--key-file '%.200s': %s", path,
                         strerror(errno));
    key[length] = 0;
    key[strcspn(key, "\r\n")] = 0;
    return key[0]
               ? 0
               : error_set(err, -EINVAL, ERROR_BAD_INPUT,
                           "--key-file '%.200s' is empty: its first line has to be the key", path);
}

/* Needs no key: a server that is not ours is told apart from a key that is not good. */
static int probe(struct client *client, struct error *err)
{
    CLEANUP(buf_free) struct buf reply = BUF_INIT(64 * KIB);
    CLEANUP(json_freep) json_t *json = NULL;
    const struct http_call call = {.method = "GET", .path = "/healthz", .body_total = -1};
    struct error failure = {0};
    unsigned status = 0;
    int result = http_call(client->http, &call, &status, &reply, &failure);

    if (result < 0 && result != -EFBIG)
        return explain_server(client->url, &failure, err);
    json = json_loadb(buf_text(&reply), reply.length, 0, NULL);
    if (status == 200 && json_is_string(json_object_get(json, "status")))
        return 0;
    return error_set(err, -EPROTO, ERROR_NO_DAEMON,
                     "the server at %.200s is not a Bailey (GET /healthz answered with HTTP status "
                     "%u): check --url (" PLACE_URL ")",
                     client->url, status);
}

static int open_server(struct client *client, char *const *env, struct error *err)
{
    const char *file = env_value(env, PLACE_KEY_FILE), *key = env_value(env, PLACE_KEY);
    const char *authority = env_value(env, PLACE_CA_FILE);
    struct http_place place = {.address = client->url};
    char text[KEY_MAX] = "";
    int result = 0;

    if (!(key && key[0]) && file && file[0]) {
        result = read_key_file(file, text, err);
        key = text;
    }
    place.key = key && key[0] ? key : NULL;
    place.ca_file = authority && authority[0] ? authority : NULL;
    if (place.ca_file && access(place.ca_file, R_OK) < 0)
        result = error_set(err, -errno, ERROR_BAD_INPUT, "--ca-file '%.200s': %s", place.ca_file,
                           strerror(errno));
    if (result == 0)
        result = http_client_open_at(&place, &client->http, err);
    explicit_bzero(text, sizeof(text));
    return result;
}

int client_open(struct client *client, const char *config_file, char *const *env,
                enum client_start start, struct error *err)
{
    int result;

    *client = (struct client){.url = place_url(env)};
    result = request_config(&client->config, config_file, env, err);
    if (result == 0)
        result = config_check(&client->config, err);
    if (client->url) {
        if (result == 0)
            result = open_server(client, env, err);
        if (result == 0 && start != CLIENT_NO_CALL)
            result = probe(client, err);
        if (result < 0)
            client_close(client);
        return result;
    }
    if (result == 0)
        result = paths_choose(&client->paths, &client->config, env, NULL, NULL, err);
    if (result == 0 && start != CLIENT_NO_CALL)
        result = daemon_reach(&client->paths, config_file, start == CLIENT_STARTS, err);
    if (result == 0 && start != CLIENT_NO_CALL)
        result = http_client_open(client->paths.socket, &client->http, err);
    if (result < 0)
        client_close(client);
    return result;
}

void client_close(struct client *client)
{
    http_client_close(client->http);
    config_free(&client->config);
    paths_free(&client->paths);
    buf_free(&client->settings);
    *client = (struct client){0};
}

/* In a session --timeout is a member of the call, where 0 has a meaning of its own. */
static bool is_setting(const struct invocation *invocation, const struct option_row *row)
{
    return row->is_config &&
           !(row->key == KEY_TIMEOUT && str_equal(invocation->command->name, "exec"));
}

int client_bring_settings(struct client *client, const struct invocation *invocation,
                          struct error *err)
{
    const struct parsed *parsed = &invocation->parsed;
    int result = 0;

    for (size_t i = 0; i < parsed->use_count && result == 0; i++) {
        const struct option_use *use = &parsed->uses[i];
        char flag[64];

        str_format(flag, sizeof(flag), "--%s", use->row->name);
        if (is_setting(invocation, use->row))
            result = config_set(&client->config, use->row->key, use->value, flag, err);
    }
    if (result == 0)
        result = config_check(&client->config, err);
    if (result == 0 && !client->url)
        result = program_settings(&client->config, err);
    if (result == 0) {
        client->settings = BUF_INIT(SETTINGS_MAX + KIB);
        result = settings_header(&client->config, client->url, &client->settings, err);
    }
    if (result == 0 && client->http &&
        http_client_set_header(client->http, buf_text(&client->settings)) < 0)
        result = error_memory(err);
    return result;
}

/* Of another machine only its answers tell: callers repeat for RECONNECT_PATIENCE_MS. */
bool client_is_alive(const struct client *client)
{
    return client->url || paths_is_locked(&client->paths);
}

int client_api_error(unsigned status, const char *body, size_t length, struct error *err)
{
    CLEANUP(json_freep) json_t *json = json_loadb(body, length, 0, NULL);
    json_t *error = json_object_get(json, "error");
    const char *code = member_text(error, "code"), *message = member_text(error, "message");

    if (str_equal(code, ERROR_UNAUTHORIZED))
        return error_set(err, -EACCES, ERROR_UNAUTHORIZED,
                         "the server does not accept the API key, or there is none: give a valid "
                         "one with " PLACE_KEY " or --key-file FILE ('bailey key new' on the "
                         "server's machine makes one)");
    for (size_t i = 0; i < ARRAY_SIZE(code_table); i++)
        if (str_equal(code, code_table[i].code)) {
            const struct provider_row *row = provider_known(member_text(error, "provider"));

            error_set(err, code_table[i].num, code_table[i].code, "%s", message);
            if (err && row)
                err->provider = row->name;
            return code_table[i].num;
        }
    if (message[0])
        return error_set(err, -EPROTO, ERROR_ENGINE, "%s", message);
    return error_set(err, -EPROTO, ERROR_ENGINE, "the daemon answered with HTTP status %u", status);
}

/* Whether the call may be repeated after the connection broke during it. */
static bool is_repeatable(const char *method, int failure)
{
    return str_equal(method, "GET") || failure == -ECONNREFUSED || failure == -ENOENT;
}

static int call_until_answered(struct client *client, const struct http_call *call,
                               unsigned *ret_status, struct buf *reply, struct error *err)
{
    uint64_t give_up_ms = clock_now_ms() + RECONNECT_PATIENCE_MS;

    for (;;) {
        struct error failure = {0};
        int result = http_call(client->http, call, ret_status, reply, &failure);

        if (result == 0)
            return 0;
        if (result == -EFBIG || !is_repeatable(call->method, result) || !client_is_alive(client) ||
            clock_now_ms() > give_up_ms) {
            if (client->url && (result == -ECONNRESET || result == -EPROTO))
                return error_set(err, result, ERROR_NO_DAEMON,
                                 "the connection to %.200s was lost (%.200s): look whether the "
                                 "call was carried out, then try again",
                                 client->url, failure.text);
            if (client->url && result != -EFBIG)
                return explain_server(client->url, &failure, err);
            *err = failure;
            error_prefix(err, "talking to the daemon");
            return result;
        }
        buf_clear(reply);
        http_client_wait(client->http, NULL, 0, RETRY_MS);
    }
}

int client_call(struct client *client, const char *method, const char *path, json_t *body,
                json_t **ret, struct error *err)
{
    static const char *const headers[] = {"Content-Type: application/json", NULL};
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_REQUEST_JSON);
    CLEANUP(buf_free) struct buf reply = BUF_INIT(LIMIT_REPLY_JSON);
    CLEANUP(json_freep) json_t *taken = body;
    struct http_call call = {.method = method, .path = path, .body_total = -1};
    unsigned status = 0;
    int result;

    if (taken) {
        if (text_of_json(taken, JSON_COMPACT, &text) < 0)
            return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory writing the request");
        call.body = buf_text(&text);
        call.body_length = text.length;
        call.headers = headers;
    }
    result = call_until_answered(client, &call, &status, &reply, err);
    if (result < 0)
        return result;
    if (status >= 400)
        return client_api_error(status, buf_text(&reply), reply.length, err);
    if (!ret)
        return 0;
    *ret = json_loadb(buf_text(&reply), reply.length, JSON_DECODE_ANY, NULL);
    if (!*ret)
        return error_set(err, -EPROTO, ERROR_ENGINE, "the daemon's answer is not JSON");
    return 0;
}

static int path_failed(struct error *err)
{
    return error_set(err, -EFBIG, ERROR_BAD_INPUT, "an argument is too long");
}

int client_session_path(struct buf *path, const char *session, const char *tail, struct error *err)
{
    if (buf_append_text(path, "/v1/sessions/") < 0 || http_encode(path, session) < 0 ||
        buf_append_text(path, tail) < 0)
        return path_failed(err);
    return 0;
}

int client_query(struct buf *path, const char *name, const char *value, struct error *err)
{
    if (buf_printf(path, "%c%s=", strchr(buf_text(path), '?') ? '&' : '?', name) < 0 ||
        http_encode(path, value) < 0)
        return path_failed(err);
    return 0;
}

size_t client_id_length(json_t *list, const char *name)
{
    size_t length = FORMAT_ID;

    for (size_t i = 0; i < json_array_size(list); i++)
        for (size_t j = 0; j < i; j++) {
            const char *a = member_text(json_array_get(list, i), name);
            const char *b = member_text(json_array_get(list, j), name);

            while (length < FORMAT_SIZE - 1 && strncmp(a, b, length) == 0 && !str_equal(a, b))
                length++;
        }
    return length;
}

int client_fail(bool is_json, const struct error *err)
{
    int status = str_equal(err->code, ERROR_REFUSED) ? STATUS_REFUSED : STATUS_BAD_INPUT;

    if (is_json)
        print_json(json_pack(
            "{s:{s:s, s:o, s:s*}}", "error", "code", err->code ? err->code : ERROR_ENGINE,
            "message", text_to_json(err->text, strlen(err->text)), "provider", err->provider));
    else
        message_bad_input(err);
    return status;
}
