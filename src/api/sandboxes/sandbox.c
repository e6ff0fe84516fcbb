/*
 * sandbox.c - the control plane: sandboxes are created, connected to, listed and ended; see e2b.h.
 *
 * Two generations of addresses have the same answers: /sandboxes and /v2/sandboxes. A sandbox has
 * no idle limit; it ends at its timeout, which can be set anew, and is at most
 * SANDBOX_SESSION_MAX_AGE from now.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "api/sandboxes/e2b.h"
#include "api/start.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "config/config.h"
#include "model/text.h"
#include "session/settings_table.h"
#include "tool/schema.h"

#define CLIENT_ID "bailey" /* clients of old versions append it to the id */
#define METADATA_MAX (64 * KIB)

/* ---- objects ---- */

static bool is_secure(const struct session *session)
{
    return !json_is_false(json_object_get(session_notes(session), "secure"));
}

static const char *template_of(const struct session *session)
{
    const char *name = json_string_value(json_object_get(session_notes(session), "template"));

    return name ? name : session_template_name(session);
}

/*
 * The domain below which the client finds ports of sandboxes; it puts "3000-ID." in front of it. Of
 * a request to "api.DOMAIN" that is DOMAIN, on this machine localhost; of others it is not known.
 */
static json_t *domain_of(const struct http_request *http)
{
    static const char *const loopback[] = {"localhost", "127.0.0.1", "[::1]"};
    const char *host = http_header(http, "Host");
    char text[300];

    if (host && strncasecmp(host, "api.", 4) == 0)
        return json_string(host + 4);
    for (size_t i = 0; host && i < ARRAY_SIZE(loopback); i++) {
        const char *port = host + strlen(loopback[i]);

        if (!str_starts(host, loopback[i]) || (*port && *port != ':'))
            continue;
        str_format(text, sizeof(text), "localhost%s", port);
        return json_string(text);
    }
    return json_null();
}

static json_t *made_json(const struct e2b *e2b, const struct http_request *http,
                         const struct session *session)
{
    char token[E2B_TOKEN_MAX];

    e2b_token_make(e2b->secret, e2b_id(session), token);
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s*, s:n, s:o}", "sandboxID", e2b_id(session),
                     "templateID", template_of(session), "alias", template_of(session), "clientID",
                     CLIENT_ID, "envdVersion", E2B_ENVD_VERSION, "envdAccessToken",
                     is_secure(session) ? token : NULL, "trafficAccessToken", "domain",
                     domain_of(http));
}

static json_t *metadata_of(const struct session *session)
{
    json_t *metadata = json_object_get(session_notes(session), "metadata");

    return metadata ? json_incref(metadata) : json_object();
}

static const char *state_of(const struct session *session)
{
    return session_is_paused(session) ? "paused" : "running";
}

unsigned e2b_cpus(const struct session *session)
{
    struct limits limits = session_limits(session);
    long online = sysconf(_SC_NPROCESSORS_ONLN);

    if (limits.cpu_millis)
        return (unsigned)(limits.cpu_millis + 999) / 1000;
    return online > 0 ? (unsigned)online : 1;
}

static json_t *listed_json(const struct session *session)
{
    struct limits limits = session_limits(session);

    return json_pack(
        "{s:s, s:s, s:s, s:s, s:o, s:o, s:I, s:I, s:I, s:s, s:s, s:o, s:[]}", "sandboxID",
        e2b_id(session), "templateID", template_of(session), "alias", template_of(session),
        "clientID", CLIENT_ID, "startedAt", e2b_time(session_created_ms(session)), "endAt",
        e2b_time(session_expires_ms(session)), "cpuCount", (json_int_t)e2b_cpus(session),
        "memoryMB", (json_int_t)(limits.memory_bytes / MIB), "diskSizeMB",
        (json_int_t)(limits.disk_bytes / MIB), "state", state_of(session), "envdVersion",
        E2B_ENVD_VERSION, "metadata", metadata_of(session), "volumeMounts");
}

/* What create, connect and resume answer. */
json_t *e2b_sandbox_json(const struct e2b *e2b, const struct http_request *http,
                         const struct session *session)
{
    CLEANUP(json_decrefp) json_t *made = made_json(e2b, http, session);
    json_t *all;

    if (!made || !e2b->wire->has_details)
        return json_incref(made);
    all = listed_json(session);
    json_object_update(all, made);
    return all;
}

static json_t *detail_json(struct door_call *call, const struct session *session)
{
    const struct principal *who = &call->caller.who;
    struct e2b *e2b = call->door;
    CLEANUP(json_decrefp) json_t *sandbox = made_json(e2b, call->http, session);
    json_t *detail = listed_json(session);
    bool pauses = json_is_true(json_object_get(session_notes(session), "pauses"));

    if (!detail || !sandbox)
        return detail;
    if (is_secure(session) && e2b_may_have_token(e2b, who, session))
        json_object_set(detail, "envdAccessToken", json_object_get(sandbox, "envdAccessToken"));
    json_object_set(detail, "domain", json_object_get(sandbox, "domain"));
    json_object_set_new(detail, "allowInternetAccess", json_false());
    json_object_set_new(
        detail, "lifecycle",
        json_pack("{s:s, s:b}", "onTimeout", pauses ? "pause" : "kill", "autoResume",
                  json_is_true(json_object_get(session_notes(session), "resumes"))));
    return detail;
}

/* ---- create ---- */

/* As E2B's clients write it. */
static json_t *in_words_of_e2b(struct door_call *call, json_t *body)
{
    const struct e2b_wire *wire = ((struct e2b *)call->door)->wire;
    struct error err = {0};

    if (!wire->body)
        return body;
    body = wire->body(call, body, &err);
    if (!body)
        e2b_fail_error(call, &err);
    return body;
}

json_t *e2b_body(struct door_call *call)
{
    struct schema_problem problem = {0};
    json_t *body;
    size_t length;

    http_body(call->http, &length);
    if (length == 0 && !http_prepared(call->http))
        return in_words_of_e2b(call, json_object());
    body = front_body_json(call->http, &problem);
    if (json_is_object(body))
        return in_words_of_e2b(call, body);
    json_decref(body);
    e2b_fail_text(call->http, 400,
                  problem.err.code ? problem.err.text : "the body has to be an object");
    return NULL;
}

static int bad(struct error *err, const char *text)
{
    return error_set(err, -EINVAL, ERROR_BAD_INPUT, "%s", text);
}

bool e2b_is_asked(json_t *body, const char *name)
{
    json_t *value = e2b_member(body, name, NULL);

    return value && !json_is_false(value) &&
           !(json_is_string(value) && json_string_length(value) == 0) &&
           !(json_is_array(value) && json_array_size(value) == 0) &&
           !(json_is_object(value) && json_object_size(value) == 0);
}

/* What is wanted and cannot be given is an error that says so. */
static int check_wishes(json_t *body, struct error *err)
{
    static const struct {
        const char *name, *why;
    } rows[] = {
        {"mcp", "mcp: this server runs no MCP gateway in sandboxes; its own MCP server is at /mcp"},
        {"iam", "iam: this server registers no workload identities"},
        {"volumeMounts", "volumeMounts: this server has no volumes"},
        {"network", "network: rules for a single sandbox are not supported; what sandboxes may "
                    "reach is configured on the server"},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (e2b_is_asked(body, rows[i].name))
            return bad(err, rows[i].why);
    return e2b_check_pause_wishes(body, err);
}

static bool is_text_object(json_t *object)
{
    const char *name;
    json_t *value;

    if (!json_is_object(object))
        return false;
    json_object_foreach(object, name, value)
    {
        if (!json_is_string(value))
            return false;
    }
    return true;
}

static size_t size_of(json_t *object)
{
    CLEANUP(freep) char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;

    return text ? strlen(text) : 0;
}

static int check_maps(json_t *body, struct error *err)
{
    json_t *metadata = e2b_member(body, "metadata", NULL);
    json_t *env = e2b_member(body, "envVars", NULL);
    struct schema_problem problem = {0};

    if (metadata && (!is_text_object(metadata) || size_of(metadata) > METADATA_MAX))
        return bad(err, "metadata has to be an object of texts, of at most 64 KiB");
    if (env && !is_text_object(env))
        return bad(err, "envVars has to be an object of texts");
    if (env && !start_env_check(env, &problem))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "envVars: %s", problem.err.text);
    return 0;
}

/* Milliseconds of a timeout in seconds; `fallback_s` where there is none. */
static int read_timeout(const struct door_call *call, json_t *body, const char *name,
                        unsigned fallback_s, uint64_t *ret_ms, struct error *err)
{
    const struct config *config = session_manager_config(call->front->manager);
    json_t *value = e2b_member(body, name, NULL);
    double seconds = value ? json_number_value(value) : fallback_s;

    if (!value && !call->caller.who.is_local)
        seconds = MIN(seconds, (double)config->session_age_ms / 1000.0);
    if ((value && !json_is_number(value)) || seconds <= 0 || seconds > 1e9)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "%s has to be a number of seconds above 0",
                         name);
    *ret_ms = (uint64_t)(seconds * 1000);
    if (call->caller.who.is_local || *ret_ms <= config->session_age_ms)
        return 0;
    return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                     "Timeout cannot be greater than %llu seconds, which is this server's "
                     "SANDBOX_SESSION_MAX_AGE",
                     (unsigned long long)(config->session_age_ms / 1000));
}

/*
 * The name of the template of this server that a client means by `asked`: the one of
 * SANDBOX_E2B_TEMPLATES, else `asked` itself. NULL: the configured template. Every template has the
 * tags `latest` and `default`, and no other tag.
 */
static const char *map_template(const struct config *config, const char *asked, char *room,
                                size_t size)
{
    size_t length = strcspn(asked, ":");

    if (asked[length] && !str_equal(asked + length, ":latest") &&
        !str_equal(asked + length, ":default"))
        return asked;
    str_format(room, size, "%.*s", (int)length, asked);
    for (size_t i = 0; i < strv_length(config->e2b_templates); i++) {
        const char *row = config->e2b_templates[i];

        if (strncmp(row, asked, length) != 0 || (row[length] && row[length] != '='))
            continue;
        return row[length] && row[length + 1] ? row + length + 1 : NULL;
    }
    return room;
}

static json_t *notes_of(const struct door_call *call, json_t *body, bool is_v1)
{
    json_t *metadata = e2b_member(body, "metadata", NULL);
    json_t *resume = e2b_member(e2b_member(body, "autoResume", NULL), "enabled", NULL);

    return json_pack("{s:s, s:O, s:O?, s:b, s:b, s:b}", "key", call->caller.who.key, "template",
                     json_object_get(body, "templateID"), "metadata", metadata, "secure",
                     !is_v1 || e2b_flag(body, "secure", NULL, false), "pauses",
                     e2b_flag(body, "autoPause", NULL, false), "resumes", json_is_true(resume));
}

static json_t *env_of(json_t *body)
{
    json_t *env = e2b_member(body, "envVars", NULL);
    json_t *all = env ? json_copy(env) : json_object();

    if (all)
        json_object_set_new(all, "E2B_SANDBOX", json_string("true"));
    return all;
}

/* The default context, with the folder that clients expect: a warm kernel is given to it. */
static int make_context(struct session *session, struct error *err)
{
    const struct context_spec spec = {.language = "python", .cwd = E2B_HOME, .is_default = true};
    struct context *context;

    return session_create_context(session, &spec, &context, err);
}

static int create(struct door_call *call, json_t *body, bool is_v1, struct session **ret,
                  struct error *err)
{
    const char *template_name = e2b_text(body, "templateID", NULL);
    CLEANUP(json_decrefp) json_t *env = NULL;
    CLEANUP(json_decrefp) json_t *notes = NULL;
    char room[2 * LIMIT_NAME];
    struct session_spec spec = {
        .caller = &call->caller, .tenant = call->caller.who.tenant, .idle_ms = LIMIT_KEEP_MS};
    int r = template_name ? check_wishes(body, err) : bad(err, "templateID is missing");

    if (r == 0)
        r = check_maps(body, err);
    if (r == 0)
        r = read_timeout(call, body, "timeout",
                         is_v1 ? E2B_DEFAULT_TIMEOUT_V1_S : E2B_DEFAULT_TIMEOUT_S, &spec.age_ms,
                         err);
    if (r < 0)
        return r;
    spec.template_name = map_template(session_manager_config(call->front->manager), template_name,
                                      room, sizeof(room));
    spec.pauses_at_end = e2b_flag(body, "autoPause", NULL, false);
    spec.resumes_by_use =
        json_is_true(e2b_member(e2b_member(body, "autoResume", NULL), "enabled", NULL));
    spec.env = env = env_of(body);
    spec.notes = notes = notes_of(call, body, is_v1);
    if (!env || !notes)
        return error_memory(err);
    r = session_manager_create(call->front->manager, &spec, ret, err);
    if (r == 0 && make_context(*ret, err) < 0)
        *err = (struct error){0}; /* there is no Python here: commands work */
    return r;
}

/* The box is made at once, so that the first call finds it. */
static void on_box(void *ctx, struct box *box, const struct error *err)
{
    (void)ctx;
    (void)box;
    (void)err; /* the next call tries again, and says why */
}

static void answer_create(struct door_call *call, bool is_v1)
{
    json_t *body = e2b_body(call);
    struct session *session;
    struct error err = {0};

    if (!body)
        return;
    if (create(call, body, is_v1, &session, &err) < 0) {
        e2b_fail_error(call, &err);
    } else {
        front_reply(call->http, 201, e2b_sandbox_json(call->door, call->http, session));
        session_box(session, on_box, NULL);
    }
    json_decref(body);
}

void e2b_create(struct door_call *call)
{
    answer_create(call, true);
}

void e2b_create_v2(struct door_call *call)
{
    answer_create(call, false);
}

/* ---- one sandbox ---- */

/* The reply has the sandbox's token. False: it was answered. */
static bool check_token(struct door_call *call, const struct session *session)
{
    if (e2b_may_have_token(call->door, &call->caller.who, session))
        return true;
    e2b_fail_text(call->http, 403,
                  "this key does not have all the scopes of the key that made the sandbox, whose "
                  "token it would get: use that key, or one with the same scopes");
    return false;
}

/* Only ever later. */
void e2b_connect(struct door_call *call)
{
    struct session *session = e2b_sandbox(call);
    json_t *body = session && check_token(call, session) ? e2b_body(call) : NULL;
    struct error err = {0};
    uint64_t ms;

    if (!body)
        return;
    if (read_timeout(call, body, "timeout", E2B_DEFAULT_TIMEOUT_S, &ms, &err) < 0 ||
        (session_is_paused(session) && e2b_check_pause_wishes(body, &err) < 0)) {
        e2b_fail_error(call, &err);
    } else {
        if (session_is_paused(session)) {
            e2b_resume_for(call, session, ms);
        } else {
            bool is_kept = ((struct e2b *)call->door)->wire->keeps_timeout &&
                           !e2b_member(body, "timeout", NULL);

            if (!is_kept && clock_wall_ms() + ms > session_expires_ms(session))
                session_expire_at(session, clock_wall_ms() + ms);
            front_reply(call->http, 200, e2b_sandbox_json(call->door, call->http, session));
        }
    }
    json_decref(body);
}

/* Of old clients; new ones connect. */
void e2b_resume(struct door_call *call)
{
    struct session *session = e2b_sandbox(call);
    json_t *body = session && check_token(call, session) ? e2b_body(call) : NULL;
    struct error err = {0};
    uint64_t ms;

    if (!body)
        return;
    if (!session_is_paused(session))
        e2b_fail_text(call->http, 409, "the sandbox is running already");
    else if (read_timeout(call, body, "timeout", E2B_DEFAULT_TIMEOUT_S, &ms, &err) < 0)
        e2b_fail_error(call, &err);
    else
        e2b_resume_for(call, session, ms);
    json_decref(body);
}

void e2b_get(struct door_call *call)
{
    struct session *session = e2b_sandbox(call);

    if (session)
        front_reply(call->http, 200, detail_json(call, session));
}

static void set_timeout(struct door_call *call, const char *name, bool only_later)
{
    struct session *session = e2b_sandbox(call);
    json_t *body = session ? e2b_body(call) : NULL;
    struct error err = {0};
    uint64_t ms, at;

    if (!body)
        return;
    if (read_timeout(call, body, name, E2B_DEFAULT_TIMEOUT_S, &ms, &err) < 0) {
        e2b_fail_error(call, &err);
    } else {
        at = clock_wall_ms() + ms;
        if (!only_later || at > session_expires_ms(session))
            session_expire_at(session, at);
        http_reply(call->http, 204, TYPE_JSON, NULL, "", 0);
    }
    json_decref(body);
}

void e2b_set_timeout(struct door_call *call)
{
    set_timeout(call, "timeout", false);
}

void e2b_refresh(struct door_call *call)
{
    set_timeout(call, "duration", true);
}

/* The reply comes when nothing of it is left. */
struct leaving {
    struct http_request *http; /* NULL: the client left */
};

static void on_ended(void *ctx)
{
    struct leaving *leaving = ctx;

    if (leaving->http)
        http_reply(leaving->http, 204, TYPE_JSON, NULL, "", 0);
    free(leaving);
}

static void on_gone(void *ctx)
{
    ((struct leaving *)ctx)->http = NULL;
}

void e2b_delete(struct door_call *call)
{
    struct session *session = e2b_sandbox(call);
    struct leaving *leaving = session ? malloc(sizeof(*leaving)) : NULL;

    if (!session)
        return;
    if (!leaving) {
        front_fail_memory(call->http);
        return;
    }
    *leaving = (struct leaving){.http = call->http};
    http_on_gone(call->http, on_gone, leaving);
    session_end_by(session, &call->caller, "deleted", on_ended, leaving);
}

/* ---- lists ---- */

struct listing {
    const char *tenant; /* NULL: all */
    json_t *metadata;   /* that they have to have; NULL: any */
    const char *template_id, *states;
    uint64_t since_ms;
    bool is_ascending;
    struct session **found;
    size_t count, capacity;
    bool is_broken;
};

static bool has_metadata(const struct session *session, json_t *wanted)
{
    json_t *metadata = json_object_get(session_notes(session), "metadata"), *value;
    const char *name;

    json_object_foreach(wanted, name, value)
    {
        if (!json_equal(json_object_get(metadata, name), value))
            return false;
    }
    return true;
}

/* Whether a list of words, separated by commas, has this one. */
static bool has_word(const char *list, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = list; *at;) {
        size_t size = strcspn(at, ",");

        if (size == length && strncmp(at, word, length) == 0)
            return true;
        at += size + (at[size] == ',');
    }
    return false;
}

static void look_at(void *ctx, struct session *session)
{
    struct listing *listing = ctx;

    if (!json_object_get(session_notes(session), "key") ||
        session_state(session) >= SESSION_ENDING ||
        (listing->tenant && !str_equal(session_tenant(session), listing->tenant)) ||
        !has_metadata(session, listing->metadata) ||
        (listing->template_id && !str_equal(template_of(session), listing->template_id)) ||
        (listing->states && !has_word(listing->states, state_of(session))) ||
        session_created_ms(session) < listing->since_ms)
        return;
    if (listing->count == listing->capacity) {
        size_t capacity = listing->capacity ? 2 * listing->capacity : 64;
        struct session **found = realloc(listing->found, capacity * sizeof(*found));

        listing->is_broken |= !found;
        if (!found)
            return;
        listing->found = found;
        listing->capacity = capacity;
    }
    listing->found[listing->count++] = session;
}

static int by_start(const void *a, const void *b)
{
    const struct session *one = *(struct session *const *)a, *two = *(struct session *const *)b;
    uint64_t first = session_created_ms(one), second = session_created_ms(two);

    if (first != second)
        return first < second ? -1 : 1;
    return strcmp(session_id(one), session_id(two));
}

static int by_start_down(const void *a, const void *b)
{
    return by_start(b, a);
}

/* Undoes percent-encoding, in place. */
static void unescape(char *text)
{
    char *to = text;

    for (const char *at = text; *at; at++) {
        unsigned value;

        if (*at == '%' && sscanf(at + 1, "%2x", &value) == 1 && at[1] && at[2] && value) {
            *to++ = (char)value;
            at += 2;
        } else {
            *to++ = *at == '+' ? ' ' : *at;
        }
    }
    *to = '\0';
}

/*
 * "a%20b=c%26d&e=f", which is escaped as a whole once more. NULL: no memory.
 */
static json_t *read_metadata(const char *query)
{
    CLEANUP(freep) char *text = strdup(query);
    json_t *metadata = json_object();
    char *rest = text, *pair;

    if (!text || !metadata) {
        json_decref(metadata);
        return NULL;
    }
    unescape(text);
    while ((pair = strsep(&rest, "&"))) {
        char *value = strchr(pair, '=');

        if (!value)
            continue;
        *value++ = '\0';
        unescape(pair);
        unescape(value);
        json_object_set_new(metadata, pair, json_string(value));
    }
    return metadata;
}

/* RFC 3339, or milliseconds; 0: neither. */
uint64_t e2b_time_read(const char *text)
{
    struct tm parts = {0};
    const char *rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &parts) : NULL;
    uint64_t ms = 0;

    if (!rest)
        return text && str_to_u64(text, &ms) == 0 ? ms : 0;
    ms = (uint64_t)timegm(&parts) * 1000;
    if (*rest == '.')
        ms += (uint64_t)(strtod(rest, NULL) * 1000);
    return ms;
}

/*
 * A page begins after the sandbox that its token names, "MS-ID", which may have ended meanwhile.
 * -1: it is no token.
 */
static ssize_t first_of_page(const struct listing *listing, const char *token)
{
    char digits[24], id[ID_MAX];
    uint64_t created_ms;
    size_t dash, i;

    if (!token || !token[0])
        return 0;
    dash = strcspn(token, "-");
    if (!token[dash] || str_format(digits, sizeof(digits), "%.*s", (int)dash, token) < 0 ||
        str_to_u64(digits, &created_ms) < 0 ||
        str_format(id, sizeof(id), "%s", token + dash + 1) < 0)
        return -1;
    for (i = 0; i < listing->count; i++) {
        const struct session *session = listing->found[i];
        uint64_t other_ms = session_created_ms(session);
        int order =
            other_ms != created_ms ? (other_ms < created_ms ? -1 : 1) : strcmp(e2b_id(session), id);

        if (listing->is_ascending ? order > 0 : order < 0)
            break;
    }
    return (ssize_t)i;
}

static void send_page(struct door_call *call, const struct listing *listing, size_t most)
{
    ssize_t first = first_of_page(listing, http_query(call->http, "nextToken"));
    size_t end = MIN(listing->count, (size_t)MAX(first, (ssize_t)0) + most);
    json_t *page;
    char next[96];
    const char *const headers[] = {end < listing->count ? next : NULL, NULL};

    if (first < 0) {
        e2b_fail_text(call->http, 400, "nextToken is not one that a list of sandboxes gave");
        return;
    }
    page = json_array();
    for (size_t i = (size_t)first; i < end; i++)
        json_array_append_new(page, listed_json(listing->found[i]));
    if (end < listing->count)
        str_format(next, sizeof(next), "X-Next-Token: %llu-%s",
                   (unsigned long long)session_created_ms(listing->found[end - 1]),
                   e2b_id(listing->found[end - 1]));
    front_reply_with(call->http, 200, headers, page);
}

static void list(struct door_call *call, bool is_paged)
{
    const char *metadata = http_query(call->http, "metadata");
    const char *limit = http_query(call->http, "limit");
    const char *states = ((struct e2b *)call->door)->wire->state_query;
    CLEANUP(json_decrefp) json_t *wanted = metadata ? read_metadata(metadata) : json_object();
    struct listing listing = {
        .tenant = auth_tenant(&call->caller.who),
        .metadata = wanted,
        .template_id = http_query(call->http, "template"),
        .states = is_paged ? http_query(call->http, states ? states : "state") : "running",
        .since_ms = e2b_time_read(http_query(call->http, "startedAfter")),
        .is_ascending = str_equal(http_query(call->http, "order"), "asc"),
    };
    uint64_t most = E2B_LIST_MAX;

    if (limit && (str_to_u64(limit, &most) < 0 || most < 1 || most > E2B_LIST_MAX)) {
        e2b_fail_text(call->http, 400, "limit has to be between 1 and 100");
        return;
    }
    session_manager_each(call->front->manager, false, look_at, &listing);
    if (!wanted || listing.is_broken) {
        front_fail_memory(call->http);
    } else {
        if (listing.count > 0)
            qsort(listing.found, listing.count, sizeof(struct session *),
                  listing.is_ascending ? by_start : by_start_down);
        send_page(call, &listing, is_paged ? (size_t)most : SIZE_MAX / 2);
    }
    free(listing.found);
}

void e2b_list(struct door_call *call)
{
    list(call, false);
}

void e2b_list_v2(struct door_call *call)
{
    list(call, true);
}

/* ---- what is not here ---- */

void e2b_not_here(struct door_call *call)
{
    e2b_fail_text(call->http, 501, call->route->description);
}
