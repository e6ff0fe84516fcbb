/*
 * reload.c - `bailey reload`: reads configuration and certificates with the caller's rights, and
 * sends them to the running daemon. Never starts one.
 */
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/client.h"
#include "cli/client/commands.h"
#include "cli/client_request.h"
#include "cli/message.h"
#include "cli/output.h"
#include "cli/request.h"
#include "cli/tls_files.h"
#include "model/text.h"

struct reload_job {
    struct client_request request;
    struct client client;
};

static void job_free(struct reload_job *job)
{
    client_close(&job->client);
    client_request_free(&job->request);
}

/* What came from the file, or from the environment; by the names of variables. */
static json_t *settings_json(const struct config *config, enum config_source source)
{
    json_t *settings = json_object();

    for (size_t i = 0; settings && i < _KEY_MAX; i++) {
        const char *text = config->values[i].text;

        if (config_table[i].env && text && config->values[i].source == source && i != KEY_STATE_DIR)
            json_object_set_new(settings, config_table[i].env, text_to_json(text, strlen(text)));
    }
    return settings;
}

static void add_names(struct buf *text, const char *what, json_t *names)
{
    json_t *name;
    size_t i;

    json_array_foreach(names, i, name)
        buf_printf(text, "%s%s", i > 0 ? ", " : what, json_string_value(name));
    if (json_array_size(names) > 0)
        buf_append_text(text, "\n");
}

static int show(json_t *reply)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);

    add_names(&text, "changed: ", json_object_get(reply, "changed"));
    if (json_is_true(json_object_get(reply, "certificate")))
        buf_append_text(&text, "changed: the certificate, for new connections\n");
    add_names(&text, "needs a restart: ", json_object_get(reply, "restart"));
    if (text.length == 0)
        buf_append_text(&text, "nothing changed\n");
    return print_text(&text);
}

/* The file that the server has read, wherever this command was started, unless --config names one.
 */
static int read_file(struct reload_job *job, char *const *env, struct error *err)
{
    CLEANUP(json_freep) json_t *info = NULL;
    CLEANUP(config_free) struct config config = {0};
    const char *file;
    int result;

    if (job->request.config_file)
        return 0;
    result = client_call(&job->client, "GET", "/v1/info", NULL, &info, err);
    file = json_string_value(json_object_get(info, "config_file"));
    if (result < 0 || !file || str_equal(file, job->client.config.file))
        return result;
    result = request_config(&config, file, env, err);
    if (result == 0)
        result = config_check(&config, err);
    if (result < 0)
        return result;
    config_free(&job->client.config);
    job->client.config = config;
    config = (struct config){0};
    return 0;
}

int reload_run(const struct invocation *invocation)
{
    CLEANUP(job_free) struct reload_job job = {0};
    CLEANUP(json_freep) json_t *tls = NULL;
    CLEANUP(json_freep) json_t *reply = NULL;
    struct error err = {0};
    json_t *body;

    if (client_request_load(invocation, &job.request, &err) < 0 ||
        client_open(&job.client, job.request.config_file, invocation->env, CLIENT_LOOKS, &err) <
            0 ||
        read_file(&job, invocation->env, &err) < 0 ||
        tls_files_json(&job.client.config, &tls, &err) < 0)
        return client_fail(job.request.is_json, &err);
    body =
        json_pack("{s:o, s:o, s:O*}", "settings", settings_json(&job.client.config, FROM_FILE),
                  "environment", settings_json(&job.client.config, FROM_ENVIRONMENT), "tls", tls);
    if (client_call(&job.client, "POST", "/v1/reload", body, &reply, &err) < 0)
        return client_fail(job.request.is_json, &err);
    if (!job.request.is_json)
        return show(reply);
    print_json(json_incref(reply));
    return 0;
}
