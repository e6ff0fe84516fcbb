/* info.c - GET /healthz and GET /v1/info: is it there, and what is it. */
#include "api/rest/inside.h"
#include "base/str.h"

void info_health(struct rest_call *call)
{
    rest_reply(call->http, 200, json_pack("{s:s}", "status", "ok"));
}

/* The languages that are switched on and have an interpreter. */
static json_t *languages(struct engine *engine)
{
    const struct config *config = engine_config(engine);
    json_t *array = json_array();

    for (size_t i = 0; array && i < strv_length(config->languages); i++) {
        const struct engine_language *language = engine_language(engine, config->languages[i]);

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

void info_get(struct rest_call *call)
{
    const struct rest_info *info = &call->rest->info;
    const struct config *config = engine_config(call->rest->engine);
    char started[40];

    rest_time(call->rest->started_ms, started, sizeof(started));
    rest_reply(call->http, 200,
               json_pack("{s:s, s:i, s:i, s:i, s:s?, s:s?, s:s, s:i, s:i, s:o, s:o}", "version",
                         BAILEY_VERSION, "launcher_pid", (int)info->launcher_pid, "broker_pid",
                         (int)info->broker_pid, "generation", (int)info->generation, "socket",
                         info->socket, "state", info->state, "started_at", started, "sessions",
                         (int)engine_session_count(call->rest->engine), "max_sessions",
                         (int)config->max_sessions, "limits", limits_json(&config->limits),
                         "languages", languages(call->rest->engine)));
}
