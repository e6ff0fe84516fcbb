/* sessions.c - creates, lists, extends and deletes sessions. */
#include <errno.h>
#include <string.h>

#include "api/rest/rest_private.h"
#include "api/start.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/dataset_name.h"

/* ---- creating ---- */

/* A dataset that is copied from a Parquet file is one, also if its name does not say so. */
static void take_extension(json_t *dataset)
{
    const char *name = json_string_value(json_object_get(dataset, "name"));
    const char *extension =
        dataset_extension_of_file(name, json_string_value(json_object_get(dataset, "path")));

    if (extension[0])
        json_object_set_new(dataset, "name", json_sprintf("%s%s", name, extension));
}

/* A dataset has exactly one of content, content_base64 and path; false: it was answered. */
static bool check_dataset(struct door_call *call, json_t *dataset, const char *field,
                          char names[LIMIT_DATASETS][LIMIT_NAME + 8], size_t index)
{
    static const char *const sources[] = {"content", "content_base64", "path"};
    struct error err = {0};
    unsigned count = 0;

    for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
        count += json_object_get(dataset, sources[i]) != NULL;
    if (count != 1) {
        front_fail_field(call->http, field,
                         "'%s' has to have exactly one of content, content_base64 and path", field);
        return false;
    }
    if (json_object_get(dataset, "path"))
        take_extension(dataset);
    if (dataset_file_name(json_string_value(json_object_get(dataset, "name")), names[index],
                          sizeof(names[index]), &err) < 0) {
        front_fail(call->front, call->http, &err, json_pack("{s:s+}", "field", field, ".name"));
        return false;
    }
    for (size_t i = 0; i < index; i++) {
        if (!str_equal(names[i], names[index]))
            continue;
        error_set(&err, -EEXIST, ERROR_DATASET_TAKEN,
                  "two datasets would both be /tmp/data/%s: give them other names", names[i]);
        front_fail(call->front, call->http, &err, json_pack("{s:s+}", "field", field, ".name"));
        return false;
    }
    return true;
}

/* Checked before anything is created: clashing names are reported first. */
static bool check_datasets(struct door_call *call, json_t *datasets)
{
    CLEANUP(freep) char(*names)[LIMIT_NAME + 8] = NULL;
    json_t *one;
    size_t i;

    if (json_array_size(datasets) == 0)
        return true;
    names = calloc(LIMIT_DATASETS, sizeof(*names));
    if (!names) {
        front_fail_memory(call->http);
        return false;
    }
    json_array_foreach(datasets, i, one)
    {
        char field[40];

        str_format(field, sizeof(field), "datasets[%zu]", i);
        if (!check_dataset(call, one, field, names, i))
            return false;
    }
    return true;
}

static int give_bytes(struct session *session, const char *name, const void *data, size_t length,
                      struct error *err)
{
    struct dataset_upload *upload;
    int r = dataset_begin(session, name, &upload, err);

    if (r < 0)
        return r;
    r = dataset_write(upload, data, length, err);
    if (r < 0) {
        dataset_cancel(upload);
        return r;
    }
    return dataset_end(upload, err);
}

/*
 * A session that is being created: its datasets are stored one after the other, then the request is
 * answered.
 */
struct creating {
    struct front *front;
    struct caller caller;
    struct http_request *http;
    char id[ID_MAX];
    json_t *datasets;              /* NULL: none */
    size_t at;                     /* index of the dataset that is being stored */
    struct dataset_upload *upload; /* copy from a folder under way; NULL: none */
};

static void creating_free(struct creating *creating)
{
    json_decref(creating->datasets);
    free(creating);
}

/* Ends the session: it gets all that was requested, or does not exist. */
static void give_up(struct creating *creating)
{
    struct session *session;
    struct error ignored;

    if (session_manager_find(creating->front->manager, creating->id, &session, &ignored) == 0)
        session_end_by(session, &creating->caller, "deleted", NULL, NULL);
}

static void creating_fail(struct creating *creating, const struct error *err)
{
    give_up(creating);
    front_fail(creating->front, creating->http, err,
               json_pack("{s:o}", "field", json_sprintf("datasets[%zu]", creating->at)));
    creating_free(creating);
}

static void create_next(struct creating *creating);

static void on_given(void *ctx, const struct error *err)
{
    struct creating *creating = ctx;

    creating->upload = NULL;
    if (err->num < 0) {
        creating_fail(creating, err);
        return;
    }
    creating->at++;
    create_next(creating);
}

/* 1: on_given() follows; 0: stored; or a negative errno. */
static int give_dataset(struct creating *creating, struct session *session, json_t *dataset,
                        struct error *err)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(LIMIT_REQUEST_JSON);
    const char *name = json_string_value(json_object_get(dataset, "name"));
    json_t *content = json_object_get(dataset, "content");
    json_t *encoded = json_object_get(dataset, "content_base64");
    int r;

    if (content)
        return give_bytes(session, name, json_string_value(content), json_string_length(content),
                          err);
    if (!encoded) {
        r = dataset_from_folder(session, name, json_string_value(json_object_get(dataset, "path")),
                                on_given, creating, &creating->upload, err);
        return r == 0 ? 1 : r;
    }
    if (base64_decode(json_string_value(encoded), json_string_length(encoded), &bytes) < 0)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "'content_base64' is not base64");
    return give_bytes(session, name, buf_text(&bytes), bytes.length, err);
}

static void create_next(struct creating *creating)
{
    struct session *session;
    struct error err = {0};
    int r = session_manager_find(creating->front->manager, creating->id, &session, &err);

    for (; r == 0 && creating->at < json_array_size(creating->datasets); creating->at++) {
        r = give_dataset(creating, session, json_array_get(creating->datasets, creating->at), &err);
        if (r != 0)
            break;
    }
    if (r > 0)
        return; /* on_given() continues */
    if (r < 0) {
        creating_fail(creating, &err);
        return;
    }
    if (json_array_size(creating->datasets) > 0 && session_complete(session, &err) < 0) {
        give_up(creating);
        front_fail(creating->front, creating->http, &err, NULL);
    } else {
        front_reply(creating->http, 201, session_json(session));
    }
    creating_free(creating);
}

static void on_client_gone(void *ctx)
{
    struct creating *creating = ctx;

    dataset_cancel(creating->upload);
    give_up(creating); /* the client left and never got its id */
    creating_free(creating);
}

bool rest_check_env(struct http_request *http, json_t *env)
{
    struct schema_problem problem = {0};

    if (start_env_check(env, &problem))
        return true;
    front_fail_field(http, problem.field, "%s", problem.err.text);
    return false;
}

/* A number as the text of a setting. */
static json_t *setting_text(json_t *value)
{
    char text[64];

    if (json_is_string(value))
        return json_incref(value);
    if (json_is_integer(value))
        str_format(text, sizeof(text), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else
        str_format(text, sizeof(text), "%.3f", json_number_value(value));
    return json_string(text);
}

/* Members of the body that are settings. */
static const struct {
    const char *name, *limit;
    enum config_key key;
} members[] = {
    {"type", NULL, KEY_SANDBOX_TYPE},     {"isolation", NULL, KEY_ISOLATION},
    {"limits", "memory", KEY_MEMORY},     {"limits", "cpus", KEY_CPUS},
    {"limits", "pids", KEY_PIDS},         {"limits", "disk", KEY_DISK},
    {"limits", "timeout", KEY_TIMEOUT},   {"idle_timeout_s", NULL, KEY_SESSION_IDLE},
    {"max_age_s", NULL, KEY_SESSION_AGE},
};

/* The member whose key the error names; NULL: another, such as a header's. */
static json_t *setting_field(json_t *settings, const struct error *err)
{
    for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
        const char *key = config_key_name(members[i].key);

        if (json_object_get(settings, key) && str_starts(err->text, key))
            return json_pack("{s:s++}", "field", members[i].name, members[i].limit ? "." : "",
                             members[i].limit ? members[i].limit : "");
    }
    return NULL;
}

bool rest_take_settings(struct door_call *call)
{
    CLEANUP(json_decrefp) json_t *settings = json_object();
    struct error err = {0};

    for (size_t i = 0; settings && i < ARRAY_SIZE(members); i++) {
        json_t *value = json_object_get(call->body, members[i].name);

        if (members[i].limit)
            value = json_object_get(value, members[i].limit);
        if (value)
            json_object_set_new(settings, config_key_name(members[i].key), setting_text(value));
    }
    if (!settings) {
        front_fail_memory(call->http);
        return false;
    }
    if (json_object_size(settings) == 0 ||
        session_manager_settings(call->front->manager, &call->caller, settings, &err) == 0)
        return true;
    front_fail(call->front, call->http, &err, setting_field(settings, &err));
    return false;
}

static uint64_t millis(json_t *seconds)
{
    return (uint64_t)(json_number_value(seconds) * 1000.0 + 0.5);
}

void sessions_create(struct door_call *call)
{
    json_t *datasets = json_object_get(call->body, "datasets");
    struct session_spec spec = {
        .caller = &call->caller,
        .tenant = call->caller.who.tenant,
        .template_name = json_string_value(json_object_get(call->body, "template")),
        .name = json_string_value(json_object_get(call->body, "name")),
        .env = json_object_get(call->body, "env"),
        .idle_ms = millis(json_object_get(call->body, "idle_timeout_s")),
        .age_ms = millis(json_object_get(call->body, "max_age_s")),
        .is_provisional = json_array_size(datasets) > 0, /* with all datasets, or not at all */
    };
    struct creating *creating;
    struct session *session;
    struct error err = {0};

    if (!rest_check_env(call->http, spec.env) || !check_datasets(call, datasets) ||
        !rest_take_settings(call))
        return;
    creating = calloc(1, sizeof(*creating));
    if (!creating) {
        front_fail_memory(call->http);
        return;
    }
    *creating = (struct creating){
        .front = call->front,
        .caller = call->caller,
        .http = call->http,
        .datasets = json_incref(datasets),
    };
    if (session_manager_create(call->front->manager, &spec, &session, &err) < 0) {
        /* Of the remaining errors only the name belongs to a member. */
        front_fail(call->front, call->http, &err,
                   str_equal(err.code, ERROR_BAD_INPUT) || str_equal(err.code, ERROR_NAME_TAKEN)
                       ? json_pack("{s:s}", "field", "name")
                       : NULL);
        creating_free(creating);
        return;
    }
    str_copy(creating->id, sizeof(creating->id), session_id(session));
    http_on_gone(call->http, on_client_gone, creating);
    create_next(creating);
}

/* ---- showing ---- */

struct listing {
    const char *tenant; /* NULL: all */
    json_t *sessions;
};

static void add_session(void *ctx, struct session *session)
{
    struct listing *listing = ctx;

    if (!listing->tenant || str_equal(session_tenant(session), listing->tenant))
        json_array_append_new(listing->sessions, session_json(session));
}

void sessions_list(struct door_call *call)
{
    struct listing listing = {.tenant = auth_tenant(&call->caller.who), .sessions = json_array()};

    if (listing.sessions)
        session_manager_each(call->front->manager, front_query_bool(call, "all"), add_session,
                             &listing);
    front_reply(call->http, 200,
                listing.sessions ? json_pack("{s:o}", "sessions", listing.sessions) : NULL);
}

void sessions_get(struct door_call *call)
{
    struct session *session;

    if (front_session(call, true, &session))
        front_reply(call->http, 200, session_json(session));
}

/* Over the network a session is not kept longer at once than the server's configuration says. */
static int check_extension(const struct door_call *call, uint64_t more_ms, struct error *err)
{
    const struct config *config = session_manager_config(call->front->manager);

    if (call->caller.who.is_local || more_ms <= config->session_age_ms)
        return 0;
    return error_set(err, -EPERM, ERROR_BAD_INPUT,
                     "seconds: %.3f is more than this server's SANDBOX_SESSION_MAX_AGE of '%s', "
                     "the most by which a caller over the network can postpone the end at once",
                     (double)more_ms / 1000.0, config->values[KEY_SESSION_AGE].text);
}

void sessions_extend(struct door_call *call)
{
    uint64_t more_ms = millis(json_object_get(call->body, "seconds"));
    struct session *session;
    struct error err = {0};

    if (!front_session(call, false, &session))
        return;
    if (check_extension(call, more_ms, &err) < 0) {
        front_fail(call->front, call->http, &err, json_pack("{s:s}", "field", "seconds"));
        return;
    }
    session_extend(session, more_ms);
    front_reply(call->http, 200, session_json(session));
}

/* ---- ending ---- */

struct leaving {
    struct front *front;
    struct http_request *http; /* NULL: the client left; the session ends anyway */
    char id[ID_MAX];
};

static void on_ended(void *ctx)
{
    struct leaving *leaving = ctx;
    struct session *session;
    struct error err = {0};

    if (leaving->http &&
        session_manager_find_any(leaving->front->manager, leaving->id, &session, &err) == 0)
        front_reply(leaving->http, 200, session_json(session));
    else if (leaving->http)
        front_fail(leaving->front, leaving->http, &err, NULL);
    free(leaving);
}

static void on_gone(void *ctx)
{
    ((struct leaving *)ctx)->http = NULL;
}

void sessions_delete(struct door_call *call)
{
    struct leaving *leaving;
    struct session *session;

    if (!front_session(call, false, &session))
        return;
    leaving = malloc(sizeof(*leaving));
    if (!leaving) {
        front_fail_memory(call->http);
        return;
    }
    *leaving = (struct leaving){.front = call->front, .http = call->http};
    str_copy(leaving->id, sizeof(leaving->id), session_id(session));
    http_on_gone(call->http, on_gone, leaving);
    session_end_by(session, &call->caller, "deleted", on_ended, leaving);
}
