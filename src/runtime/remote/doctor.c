/* doctor.c - what `bailey doctor` says about the server of SANDBOX_URL; see remote.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "config/config.h"
#include "model/json.h"
#include "runtime/remote/remote.h"
#include "runtime/remote/remote_private.h"
#include "runtime/remote/settings.h"

#define CALL_MS 10000

static void add_problem(json_t *report, const char *problem, const char *remedy)
{
    json_array_append_new(json_object_get(report, "problems"),
                          json_pack("{s:s, s:s}", "problem", problem, "remedy", remedy));
}

/* The sentence of an error ends with its remedy. */
static void add_error(json_t *report, const struct error *err)
{
    char text[ERROR_TEXT_MAX];
    char *remedy;

    str_copy(text, sizeof(text), err->text);
    remedy = strstr(text, ". ");
    if (remedy)
        *remedy = 0;
    add_problem(report, text, remedy ? remedy + 2 : "see the message");
}

static void add_line(json_t *report, const char *title, const char *text)
{
    json_array_append_new(json_object_get(report, "lines"), json_pack("[s, s]", title, text));
}

static void describe(json_t *report, const json_t *info)
{
    const char *version = json_string_value(json_object_get(info, "version"));
    const char *runtime = json_string_value(json_object_get(info, "runtime"));
    char text[256];

    json_object_set_new(report, "kind", json_string("bailey"));
    json_object_set(report, "version", json_object_get(info, "version"));
    json_object_set(report, "runtime", json_object_get(info, "runtime"));
    str_format(text, sizeof(text), "Bailey %.60s, its sandboxes are of '%.60s'", version, runtime);
    add_line(report, "server", text);
    str_format(text, sizeof(text), "%lld of %lld",
               (long long)json_integer_value(json_object_get(info, "sessions")),
               (long long)json_integer_value(json_object_get(info, "max_sessions")));
    add_line(report, "sessions", text);
}

static void ask(struct target *target, json_t *report)
{
    CLEANUP(buf_free) struct buf reply = BUF_INIT(MIB);
    CLEANUP(json_decrefp) json_t *json = NULL;
    struct http_call call = {
        .method = "GET", .path = "/v1/info", .body_total = -1, .timeout_ms = CALL_MS};
    struct error why = {0}, err = {0};
    unsigned status = 0;

    if (http_call(target->client, &call, &status, &reply, &why) < 0) {
        remote_unreachable(target, &why, &err);
        add_error(report, &err);
        return;
    }
    json = reply.length > 0 ? json_parse(buf_text(&reply), reply.length, 0, NULL) : NULL;
    switch (remote_target_kind_of(status, json)) {
    case TARGET_BAILEY:
        describe(report, json);
        return;
    case TARGET_PLAIN:
        json_object_set_new(report, "kind", json_string("execute"));
        add_line(report, "server", "POST /execute: one-shot runs, no sessions");
        return;
    case TARGET_UNKNOWN:
        break;
    }
    if (status >= 400) {
        remote_refused(target, status, json, &err);
        add_error(report, &err);
    } else {
        add_problem(report, "it is neither a Bailey nor a server with POST /execute",
                    "correct SANDBOX_URL");
    }
}

json_t *remote_doctor(const struct config *config)
{
    json_t *report =
        json_pack("{s:s, s:[], s:[]}", "host", remote_settings_place(config), "problems", "lines");
    struct remote remote = {.config = config};
    struct error err = {0};

    if (!report)
        return NULL;
    if (!config->url.address)
        add_problem(report, "SANDBOX_URL is not set", "set it to the address of the server");
    else if (remote_targets_open(&remote, &err) < 0)
        add_error(report, &err);
    else
        for (size_t i = 0; i < remote.count; i++)
            ask(&remote.targets[i], report);
    remote_targets_close(&remote);
    json_object_set_new(report, "ok",
                        json_boolean(json_array_size(json_object_get(report, "problems")) == 0));
    return report;
}
