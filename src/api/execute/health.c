/*
 * health.c - GET /health: whether the daemon works, and how busy it is. Needs no key.
 *
 * The interpreter's version is read once, by a run in a box; the first caller waits for it.
 */
#include <stdlib.h>
#include <string.h>

#include "api/execute/execute.h"
#include "api/front/door.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "model/text.h"

#define QUESTION "import sys\nprint('Python %d.%d.%d' % sys.version_info[:3])\n"
#define QUESTION_MS 10000

struct health_probe {
    struct front *front;
    struct execute *execute;
    struct http_request *http;
    struct run *run;
};

static void reply(const struct front *front, const struct execute *execute,
                  struct http_request *http)
{
    const struct config *config = session_manager_config(front->manager);
    const char *version = execute->version[0] ? execute->version : "unknown";
    uint64_t now_ms = clock_wall_ms();

    execute_reply(http, 200, NULL,
                  json_pack("{s:s, s:s, s:o, s:i, s:i, s:I}", "status", "healthy", "mode", "python",
                            "runtime_version", text_to_json(version, strlen(version)), "capacity",
                            (int)config->max_concurrent, "current_load", (int)execute->count,
                            "uptime_seconds",
                            (json_int_t)((now_ms - MIN(now_ms, front->started_ms)) / 1000)));
}

static void on_told(void *ctx, struct result *result)
{
    struct health_probe *probe = ctx;
    struct execute *execute = probe->execute;
    size_t length = strcspn(buf_text(&result->out.kept), "\n");

    if (result->exit_code == 0 && !result->error.code && length < sizeof(execute->version))
        str_format(execute->version, sizeof(execute->version), "%.*s", (int)length,
                   buf_text(&result->out.kept));
    execute->was_asked = execute->version[0] != '\0'; /* else the next request tries again */
    result_free(result);
    reply(probe->front, execute, probe->http);
    free(probe);
}

static void on_gone(void *ctx)
{
    struct health_probe *probe = ctx;

    probe->execute->was_asked = false; /* the next request tries again */
    session_manager_run_cancel(probe->run);
    free(probe);
}

void execute_health(struct door_call *call)
{
    struct run_spec spec = {.caller = &call->caller,
                            .language = "python",
                            .code = QUESTION,
                            .code_length = sizeof(QUESTION) - 1,
                            .timeout_ms = QUESTION_MS,
                            .keeps_nothing = true};
    struct execute *execute = call->door;
    struct health_probe *probe = NULL;
    struct error ignored = {0};

    if (!execute->was_asked)
        probe = calloc(1, sizeof(*probe));
    if (probe) {
        execute->was_asked = true;
        *probe =
            (struct health_probe){.front = call->front, .execute = execute, .http = call->http};
        if (session_manager_run(call->front->manager, &spec, on_told, probe, &probe->run,
                                &ignored) == 0) {
            http_on_gone(call->http, on_gone, probe);
            return;
        }
        execute->was_asked = false;
        free(probe);
    }
    reply(call->front, execute, call->http);
}
