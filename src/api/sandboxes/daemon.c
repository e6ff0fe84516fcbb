/*
 * daemon.c - what E2B's daemon in a sandbox answers besides: /health, /envs, /metrics; and metrics
 * of the control plane, of one sandbox and of several. See e2b.h.
 *
 * Metrics are one sample, of the moment of the request: a server that keeps none has no past.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/sandboxes/e2b.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"

#define MS_FROM 100000000000 /* such a number is not one of seconds: it would be the year 5138 */
#define SAMPLE_S 30          /* how far from now a range may be that has the sample */

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
    struct asking *next; /* of the same request */
    struct several *several;
    struct http_request *http;
    struct session *session;
    struct e2b_probe *probe;
    bool is_inside; /* /metrics of the sandbox's daemon: other names */
};

/* A request about several sandboxes: one answer, when all are known. */
struct several {
    struct asking *askings;
    json_t *found; /* metrics by the sandbox's id */
    unsigned pending;
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

static void several_free(struct several *several)
{
    while (several->askings) {
        struct asking *asking = several->askings;

        several->askings = asking->next;
        asking_free(asking);
    }
    json_decref(several->found);
    free(several);
}

static void on_several_gone(void *ctx)
{
    several_free(ctx);
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
    static const char *const mib[][2] = {
        {"mem_total_mib", "memTotal"}, {"mem_used_mib", "memUsed"}, {"mem_cache_mib", "memCache"}};
    json_t *json = json_object();

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        json_object_set(json, names[i][0], json_object_get(metric, names[i][1]));
    for (size_t i = 0; i < ARRAY_SIZE(mib); i++)
        json_object_set_new(
            json, mib[i][0],
            json_integer(json_integer_value(json_object_get(metric, mib[i][1])) / (json_int_t)MIB));
    json_decref(metric);
    return json;
}

/* One of them is known. */
static void several_done(struct several *several, struct http_request *http)
{
    if (--several->pending > 0)
        return;
    front_reply(http, 200, json_pack("{s:O}", "sandboxes", several->found));
    several_free(several);
}

static void on_told(void *ctx, const char *text, size_t length)
{
    struct asking *asking = ctx;
    struct sample sample = read_sample(text);
    json_t *metric = metric_json(asking->session, &sample);

    (void)length;
    if (asking->several) {
        json_object_set_new(asking->several->found, e2b_id(asking->session), metric);
        e2b_probe_free(ptr_take(&asking->probe));
        several_done(asking->several, asking->http);
        return;
    }
    front_reply(asking->http, 200,
                asking->is_inside ? inside_json(metric) : json_pack("[o]", metric));
    asking_free(asking);
}

static const char *const argv[] = {"/bin/sh", "-c", script, NULL};

static void ask(struct door_call *call, struct session *session, bool is_inside)
{
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

/* Whether a range of seconds has this moment in it; some clients write milliseconds. */
static bool has_now(const struct door_call *call)
{
    const char *start = http_query(call->http, "start"), *end = http_query(call->http, "end");
    uint64_t now_s = clock_wall_ms() / 1000, from = 0, to = UINT64_MAX;

    if (start)
        (void)str_to_u64(start, &from);
    if (end)
        (void)str_to_u64(end, &to);
    if (from >= MS_FROM && start)
        from /= 1000;
    if (to >= MS_FROM && end)
        to /= 1000;
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

/* A sandbox of the list; one that cannot be asked now is not in the reply. */
static void ask_one_of(struct door_call *call, struct several *several, struct session *session)
{
    struct asking *asking = calloc(1, sizeof(*asking));
    struct error ignored = {0};

    if (!asking)
        return;
    *asking = (struct asking){
        .several = several, .http = call->http, .session = session, .next = several->askings};
    asking->probe = e2b_probe_new(session, &call->caller, argv, on_told, asking, &ignored);
    if (!asking->probe) {
        free(asking);
        return;
    }
    several->askings = asking;
    several->pending++;
}

void e2b_metrics_several(struct door_call *call)
{
    const char *at = http_query(call->http, "sandbox_ids");
    struct several *several = at ? calloc(1, sizeof(*several)) : NULL;
    unsigned count = 0;

    if (!at) {
        e2b_fail_text(call->http, 400, "the query argument 'sandbox_ids' is missing");
        return;
    }
    for (const char *comma = at; *comma; comma++)
        count += *comma == ',';
    if (!several || count >= E2B_LIST_MAX) {
        free(several);
        e2b_fail_text(call->http, 400, "sandbox_ids: at most 100 ids");
        return;
    }
    several->found = json_object();
    several->pending = 1; /* this loop */
    while (*at) {
        size_t length = strcspn(at, ",");
        char id[ID_MAX];
        struct session *session = NULL;

        if (str_format(id, sizeof(id), "%.*s", (int)length, at) >= 0)
            session = e2b_find(call->door, auth_tenant(&call->caller.who), id);
        if (session)
            ask_one_of(call, several, session);
        at += length + (at[length] == ',');
    }
    if (several->pending > 1)
        http_on_gone(call->http, on_several_gone, several);
    several_done(several, call->http);
}
