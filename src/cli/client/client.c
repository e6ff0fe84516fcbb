/* client.c - calls to the daemon and its replies; see client.h. */
#include "cli/client/client.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/daemon.h"
#include "cli/client/format.h"
#include "cli/command.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/request.h"
#include "config/settings.h"
#include "model/text.h"
#include "runtime/provider.h"

#define RETRY_MS 50

/* Every code of the API, as the constant that the rest of the program compares with. */
static const struct code_row {
    const char *code;
    int num;
} code_table[] = {
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

int client_open(struct client *client, const char *config_file, char *const *env,
                enum client_start start, struct error *err)
{
    int result;

    *client = (struct client){0};
    result = request_config(&client->config, config_file, env, err);
    if (result == 0)
        result = config_check(&client->config, err);
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
    if (result == 0) {
        client->settings = BUF_INIT(SETTINGS_MAX + KIB);
        result = settings_header(&client->config, &client->settings, err);
    }
    if (result == 0 && client->http &&
        http_client_set_header(client->http, buf_text(&client->settings)) < 0)
        result = error_memory(err);
    return result;
}

bool client_is_alive(const struct client *client)
{
    return paths_is_locked(&client->paths);
}

int client_api_error(unsigned status, const char *body, size_t length, struct error *err)
{
    CLEANUP(json_freep) json_t *json = json_loadb(body, length, 0, NULL);
    json_t *error = json_object_get(json, "error");
    const char *code = member_text(error, "code"), *message = member_text(error, "message");

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
