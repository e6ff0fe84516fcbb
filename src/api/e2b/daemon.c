/*
 * daemon.c - what E2B's daemon in a sandbox answers besides: /health, /envs, /metrics; and metrics
 * and logs of the control plane. See e2b.h.
 *
 * Metrics are one sample, of the moment of the request: a server that keeps none has no past.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/e2b/e2b.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"

#define SAMPLE_S 30 /* how far from now a range may be that has the sample */

void e2b_health(struct door_call *call)
{
    if (e2b_session(call))
        http_reply(call->http, 204, TYPE_JSON, NULL, "", 0);
}

void e2b_envs(struct door_call *call)
{
    struct session *session = e2b_session(call);
    json_t *about = session ? session_json(session) : NULL;

    if (!session)
        return;
    front_reply(call->http, 200, json_incref(json_object_get(about, "env")));
    json_decref(about);
}

/* ---- metrics ---- */

static const char script[] = "cat /proc/[0-9]*/stat 2>/dev/null; echo; "
                             "df -B1 --output=used,size /home/user 2>/dev/null | tail -n 1";

struct sample {
    uint64_t memory, cpu_ticks, disk_used, disk_size;
};

/* A line of /proc/PID/stat: the name may have blanks and brackets in it. */
static void add_process(struct sample *sample, const char *line)
{
    const char *at = strrchr(line, ')');
    unsigned long long user, kernel, pages;

    if (!at || sscanf(at + 1,
                      " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d %*d %*d "
                      "%*d %*u %*u %llu",
                      &user, &kernel, &pages) != 3)
        return;
    sample->cpu_ticks += user + kernel;
    sample->memory += pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static struct sample read_sample(const char *text)
{
    unsigned long long used = 0, size = 0;
    struct sample sample = {0};
    bool is_disk = false;

    while (*text) {
        size_t length = strcspn(text, "\n");
        char line[1024];

        str_format(line, sizeof(line), "%.*s", (int)(length < 1000 ? length : 1000), text);
        if (is_disk && sscanf(line, "%llu %llu", &used, &size) == 2) {
            sample.disk_used = used;
            sample.disk_size = size;
        } else if (!is_disk) {
            is_disk = length == 0;
            add_process(&sample, line);
        }
        text += length + (text[length] == '\n');
    }
    return sample;
}

struct asking {
    struct http_request *http;
    struct session *session;
    struct e2b_probe *probe;
    bool is_inside; /* /metrics of the sandbox's daemon: other names */
};

static void asking_free(struct asking *asking)
{
    e2b_probe_free(asking->probe);
    free(asking);
}

static void on_gone(void *ctx)
{
    asking_free(ctx);
}

static json_t *metric_json(const struct session *session, const struct sample *sample)
{
    struct limits limits = session_limits(session);
    uint64_t now_ms = clock_wall_ms();
    uint64_t age_ms = now_ms - MIN(now_ms, session_created_ms(session)) + 1;
    double cpu_s = (double)sample->cpu_ticks / (double)sysconf(_SC_CLK_TCK);
    double percent = 100.0 * cpu_s * 1000.0 / (double)age_ms;

    return json_pack("{s:o, s:I, s:I, s:f, s:I, s:I, s:i, s:I, s:I}", "timestamp", e2b_time(now_ms),
                     "timestampUnix", (json_int_t)(now_ms / 1000), "cpuCount",
                     (json_int_t)e2b_cpus(session), "cpuUsedPct", percent, "memUsed",
                     (json_int_t)sample->memory, "memTotal", (json_int_t)limits.memory_bytes,
                     "memCache", 0, "diskUsed", (json_int_t)sample->disk_used, "diskTotal",
                     (json_int_t)(sample->disk_size ? sample->disk_size : limits.disk_bytes));
}

static json_t *inside_json(json_t *metric)
{
    static const char *const names[][2] = {
        {"ts", "timestampUnix"},   {"cpu_count", "cpuCount"},   {"cpu_used_pct", "cpuUsedPct"},
        {"mem_total", "memTotal"}, {"mem_used", "memUsed"},     {"mem_cache", "memCache"},
        {"disk_used", "diskUsed"}, {"disk_total", "diskTotal"},
    };
    json_t *json = json_object();

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        json_object_set(json, names[i][0], json_object_get(metric, names[i][1]));
    json_decref(metric);
    return json;
}

static void on_told(void *ctx, const char *text, size_t length)
{
    struct asking *asking = ctx;
    struct sample sample = read_sample(text);
    json_t *metric = metric_json(asking->session, &sample);

    (void)length;
    front_reply(asking->http, 200,
                asking->is_inside ? inside_json(metric) : json_pack("[o]", metric));
    asking_free(asking);
}

static void ask(struct door_call *call, struct session *session, bool is_inside)
{
    static const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    struct asking *asking = calloc(1, sizeof(*asking));
    struct error err = {0};

    if (!asking) {
        front_fail_memory(call->http);
        return;
    }
    *asking = (struct asking){.http = call->http, .session = session, .is_inside = is_inside};
    http_on_gone(call->http, on_gone, asking);
    asking->probe = e2b_probe_new(session, &call->caller, argv, on_told, asking, &err);
    if (asking->probe)
        return;
    free(asking);
    e2b_fail_error(call, &err);
}

void e2b_metrics(struct door_call *call)
{
    struct session *session = e2b_session(call);

    if (session)
        ask(call, session, true);
}

/* Whether a range of seconds has this moment in it. */
static bool has_now(const struct door_call *call)
{
    const char *start = http_query(call->http, "start"), *end = http_query(call->http, "end");
    uint64_t now_s = clock_wall_ms() / 1000, from = 0, to = UINT64_MAX;

    if (start)
        (void)str_to_u64(start, &from);
    if (end)
        (void)str_to_u64(end, &to);
    return from <= now_s + SAMPLE_S && (to >= now_s || now_s - to <= SAMPLE_S);
}

void e2b_metrics_of(struct door_call *call)
{
    struct session *session = e2b_sandbox(call);

    if (!session)
        return;
    if (has_now(call))
        ask(call, session, false);
    else
        front_reply(call->http, 200, json_array());
}

void e2b_logs(struct door_call *call)
{
    if (e2b_sandbox(call))
        front_reply(call->http, 200, json_pack("{s:[], s:[]}", "logs", "logEntries"));
}

void e2b_logs_v2(struct door_call *call)
{
    if (e2b_sandbox(call))
        front_reply(call->http, 200, json_pack("{s:[]}", "logs"));
}
