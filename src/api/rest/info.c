/* info.c - GET /healthz and GET /v1/info: whether the daemon answers, and its facts. */
#include "api/rest/rest_private.h"
#include "base/cleanup.h"
#include "base/str.h"

void info_health(struct door_call *call)
{
    front_reply(call->http, 200, json_pack("{s:s}", "status", "ok"));
}

/* The languages that are enabled and have an interpreter. */
static json_t *languages(struct session_manager *manager)
{
    const struct config *config = session_manager_config(manager);
    json_t *array = json_array();

    for (size_t i = 0; array && i < strv_length(config->languages); i++) {
        const struct session_language *language =
            session_manager_language(manager, config->languages[i]);

        if (language && language->program)
            json_array_append_new(array, json_string(language->name));
    }
    return array;
}

static json_t *limits_json(const struct limits *limits)
{
    return json_pack("{s:f, s:I, s:I, s:I, s:i, s:i}", "timeout_s",
                     (double)limits->timeout_ms / 1000.0, "memory_bytes",
                     (json_int_t)limits->memory_bytes, "disk_bytes", (json_int_t)limits->disk_bytes,
                     "output_bytes", (json_int_t)limits->output_bytes, "pids", (int)limits->pids,
                     "cpu_millis", (int)limits->cpu_millis);
}

/* The libraries whose version affects how requests are handled (docs/server.md). */
static json_t *libraries(void)
{
    return json_pack("{s:s}", "libmicrohttpd", http_library_version());
}

void info_get(struct door_call *call)
{
    const struct front_info *info = &call->front->info;
    const struct config *config = session_manager_config(call->front->manager);
    struct session_manager *manager = call->front->manager;
    const char *tenant =
        auth_tenant(&call->caller.who); /* only the local owner learns facts of the host */
    unsigned most = config->max_sessions;
    char started[40];

    if (tenant && config->quota.sessions && !str_equal(tenant, TENANT_LOCAL))
        most = (unsigned)MIN((uint64_t)most, config->quota.sessions);

    front_time(call->front->started_ms, started, sizeof(started));
    front_reply(
        call->http, 200,
        json_pack("{s:s, s:o*, s:i, s:i, s:i, s:s?, s:s?, s:s?, s:s, s:i, s:i, s:o, s:o, s:s}",
                  "version", BAILEY_VERSION, "libraries", tenant ? NULL : libraries(),
                  "launcher_pid", tenant ? 0 : info->launcher_pid, "broker_pid",
                  tenant ? 0 : info->broker_pid, "generation", (int)info->generation, "socket",
                  tenant ? NULL : info->socket, "state", tenant ? NULL : info->state, "config_file",
                  tenant ? NULL : info->file, "started_at", started, "sessions",
                  (int)(tenant ? session_manager_session_count_of(manager, tenant)
                               : session_manager_session_count(manager)),
                  "max_sessions", (int)most, "limits", limits_json(&config->limits), "languages",
                  languages(call->front->manager), "runtime", config->type));
}
