/*
 * logs.c - GET /sandboxes/{id}/logs: what was started in a sandbox and how it ended, from the
 * session's own list of executions; see e2b.h. What commands print is not in it.
 */
#include <stdlib.h>
#include <string.h>

#include "api/sandboxes/e2b.h"
#include "base/cleanup.h"
#include "base/str.h"

#define LOGS_MAX 1000 /* lines of one reply */

struct logging {
    json_t *entries; /* with `timestamp`, `level`, `message`, `fields` */
    uint64_t since_ms;
};

static void add_line(struct logging *logging, json_t *about, const char *when, const char *word)
{
    json_t *time = json_object_get(about, when), *entry;
    const char *text = json_string_value(time);
    CLEANUP(freep) char *fields = NULL;

    if (!text || e2b_time_read(text) < logging->since_ms)
        return;
    entry = json_pack(
        "{s:O, s:s, s:s, s:{s:O, s:O, s:O}}", "timestamp", time, "level", "info", "message", word,
        "fields", "execution_id", json_object_get(about, "execution_id"), "argv",
        json_object_get(about, "argv"), "exit_code", json_object_get(about, "exit_code"));
    fields = json_dumps(json_object_get(entry, "fields"), JSON_COMPACT | JSON_SORT_KEYS);
    json_object_set_new(entry, "line", json_sprintf("%s %s", word, fields ? fields : ""));
    json_array_append_new(logging->entries, entry);
}

static void add_execution(void *ctx, struct execution *execution)
{
    CLEANUP(json_decrefp) json_t *about = execution_json(execution);
    struct logging *logging = ctx;

    add_line(logging, about, "started_at",
             execution_is_cell(execution) ? "code started" : "process started");
    add_line(logging, about, "ended_at",
             execution_is_cell(execution) ? "code ended" : "process ended");
}

static int by_time(const void *a, const void *b)
{
    return strcmp(json_string_value(json_object_get(*(json_t *const *)a, "timestamp")),
                  json_string_value(json_object_get(*(json_t *const *)b, "timestamp")));
}

/* The entries, the oldest first; NULL: no memory. */
static json_t *logs_of(const struct door_call *call, struct session *session)
{
    const char *start = http_query(call->http, "start"), *limit = http_query(call->http, "limit");
    struct logging logging = {.entries = json_array()};
    CLEANUP(freep) json_t **all = NULL;
    json_t *sorted = json_array(), *entry;
    uint64_t most = LOGS_MAX;
    size_t i, count;

    if (!start)
        start = http_query(call->http, "cursor");
    if (start)
        (void)str_to_u64(start, &logging.since_ms);
    if (limit && (str_to_u64(limit, &most) < 0 || most > LOGS_MAX))
        most = LOGS_MAX;
    session_each_execution(session, add_execution, &logging);
    count = json_array_size(logging.entries);
    all = calloc(count + 1, sizeof(*all));
    json_array_foreach(logging.entries, i, entry)
    {
        if (all)
            all[i] = entry;
    }
    if (all)
        qsort(all, count, sizeof(*all), by_time);
    for (i = 0; all && i < MIN((uint64_t)count, most); i++)
        json_array_append(sorted, all[i]);
    json_decref(logging.entries);
    return sorted;
}

/* Each line as `line` and its time, as the first generation of this address has it. */
static json_t *lines_of(json_t *entries)
{
    json_t *lines = json_array(), *entry;
    size_t i;

    json_array_foreach(entries, i, entry)
    {
        json_array_append_new(lines, json_pack("{s:O, s:O}", "timestamp",
                                               json_object_get(entry, "timestamp"), "line",
                                               json_object_get(entry, "line")));
    }
    return lines;
}

static void without_lines(json_t *entries)
{
    json_t *entry, *value;
    const char *name;
    size_t i;

    json_array_foreach(entries, i, entry)
    {
        json_t *fields = json_object();

        json_object_del(entry, "line");
        json_object_foreach(json_object_get(entry, "fields"), name, value)
        {
            CLEANUP(freep) char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);

            if (json_is_string(value))
                json_object_set(fields, name, value);
            else if (!json_is_null(value) && text)
                json_object_set_new(fields, name, json_string(text));
        }
        json_object_set_new(entry, "fields", fields); /* texts, as clients read them */
    }
}

void e2b_logs(struct door_call *call)
{
    struct session *session = e2b_sandbox(call);
    json_t *entries = session ? logs_of(call, session) : NULL, *lines;

    if (!session)
        return;
    lines = lines_of(entries);
    without_lines(entries);
    front_reply(call->http, 200, json_pack("{s:o, s:o}", "logs", lines, "logEntries", entries));
}

void e2b_logs_v2(struct door_call *call)
{
    struct session *session = e2b_sandbox(call);
    json_t *entries = session ? logs_of(call, session) : NULL;

    if (!session)
        return;
    without_lines(entries);
    front_reply(call->http, 200, json_pack("{s:o}", "logs", entries));
}
