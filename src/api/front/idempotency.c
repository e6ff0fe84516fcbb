/* idempotency.c - replies by Idempotency-Key: looked for, sent again, kept; see idempotency.h. */
#include "api/front/idempotency.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/front/reply.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/str.h"
#include "config/settings.h"
#include "store/kept_reply.h"

#define TRIM_EVERY 16   /* requests with a key; then what their tenants keep is bounded */
#define CLIENT_LEFT 499 /* status of a row: its client left before there was a reply */

/* A request that is being carried out; owned by its http_request, freed at its end. */
struct running {
    struct idempotency *idempotency;
    struct running *next, *previous;
    struct idempotent request;
    char session[ID_MAX]; /* of the path; empty: none */
    bool has_ended;       /* its row has a status, or is gone */
};

struct idempotency {
    struct index *index;
    struct running *running;
    char begun[TRIM_EVERY][TENANT_MAX]; /* tenants of the requests since the last time */
    unsigned begun_count;
};

struct idempotency *idempotency_new(struct index *index)
{
    struct idempotency *idempotency = calloc(1, sizeof(*idempotency));

    if (idempotency)
        idempotency->index = index;
    return idempotency;
}

void idempotency_free(struct idempotency *idempotency)
{
    if (!idempotency)
        return;
    for (struct running *running = idempotency->running; running; running = running->next)
        running->idempotency = NULL;
    free(idempotency);
}

/* ---- what makes two requests the same ---- */

static void add_text(struct sha256 *hash, const char *text)
{
    sha256_add(hash, text ? text : "", text ? strlen(text) + 1 : 1);
}

static void add_argument(void *ctx, const char *name, const char *value)
{
    add_text(ctx, name);
    add_text(ctx, value);
}

/* Method, path, query, settings, the kind of reply that is wanted, and the body. */
static void describe(struct door_call *call, char text[SHA256_TEXT])
{
    uint8_t digest[SHA256_BYTES];
    struct sha256 hash;

    sha256_begin(&hash);
    add_text(&hash, http_method(call->http));
    add_text(&hash, http_path(call->http));
    http_query_each(call->http, add_argument, &hash);
    add_text(&hash, http_header(call->http, SETTINGS_HEADER));
    add_text(&hash, http_header(call->http, SESSION_HEADER));
    add_text(&hash, http_header(call->http, "Accept"));
    front_body_digest(call->http, digest);
    sha256_add(&hash, digest, sizeof(digest));
    sha256_end(&hash, digest);
    sha256_text(digest, text);
}

static int read_key(struct door_call *call, const char *key, struct error *err)
{
    size_t length = strlen(key);

    if (http_header_differs(call->http, IDEMPOTENCY_HEADER))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "the header " IDEMPOTENCY_HEADER " is there twice, with two values");
    if (length < 1 || length > LIMIT_IDEMPOTENCY_KEY)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "the header " IDEMPOTENCY_HEADER
                         " has %zu characters; 1 to %d are allowed",
                         length, LIMIT_IDEMPOTENCY_KEY);
    for (size_t i = 0; i < length; i++)
        if (key[i] < 0x20 || key[i] > 0x7e)
            return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                             "the header " IDEMPOTENCY_HEADER
                             " may only have printable ASCII characters");
    return 0;
}

/* ---- a key that was used before ---- */

struct looking {
    struct door_call *call;
    const struct idempotent *request;
    uint64_t now_ms;
    bool is_running; /* in this broker */
    bool is_old;
    bool was_found, was_answered;
    struct error *err;
};

static void send_again(struct looking *looking, const struct kept_reply *row)
{
    static const char *const headers[] = {"Idempotent-Replayed: true", NULL};

    looking->was_answered = true;
    http_reply(looking->call->http, row->status, row->type, headers, row->data, row->length);
}

static void on_found(void *ctx, const struct kept_reply *row)
{
    struct looking *looking = ctx;
    struct error *err = looking->err;

    looking->is_old = row->created_ms + KEPT_REPLY_MS < looking->now_ms;
    if (looking->is_old)
        return;
    looking->was_found = true;
    if (!str_equal(row->request, looking->request->request))
        error_set(err, -EINVAL, ERROR_KEY_REUSED,
                  "this " IDEMPOTENCY_HEADER " came with another request before (its address, "
                  "query, settings, kind of reply or body differs); use a new key for a new "
                  "request");
    else if (row->status > 0 && row->data)
        send_again(looking, row);
    else if (row->status == CLIENT_LEFT)
        error_set(err, -EALREADY, ERROR_REPLY_GONE,
                  "the client of the first request with this " IDEMPOTENCY_HEADER
                  " left before its reply, so what it had begun was ended; look at what is there, "
                  "and use a new key to do it again");
    else if (row->status > 0)
        error_set(err, -EALREADY, ERROR_REPLY_GONE,
                  "the first request with this " IDEMPOTENCY_HEADER " was carried out (status %u), "
                  "but its reply is not kept: it was a stream, too large or too old, or its "
                  "session has ended; use a new key to do it again",
                  row->status);
    else if (looking->is_running)
        error_set(err, -EALREADY, ERROR_KEY_RUNNING,
                  "the first request with this " IDEMPOTENCY_HEADER " is still under way; send it "
                  "again later");
    else
        error_set(err, -EALREADY, ERROR_REPLY_GONE,
                  "the server stopped while it carried out the first request with "
                  "this " IDEMPOTENCY_HEADER
                  ", and what became of it is not known; look at what is there, "
                  "and use a new key to do it again");
    if (str_equal(err->code, ERROR_KEY_RUNNING))
        err->retry_s = 1;
}

static bool is_running(const struct idempotency *idempotency, const struct idempotent *request)
{
    for (const struct running *at = idempotency->running; at; at = at->next)
        if (str_equal(at->request.key, request->key) &&
            str_equal(at->request.owner, request->owner) && !at->has_ended)
            return true;
    return false;
}

/* True: it is new. */
static bool is_new(struct idempotency *idempotency, struct door_call *call,
                   const struct idempotent *request, struct error *err)
{
    struct looking looking = {.call = call,
                              .request = request,
                              .now_ms = clock_wall_ms(),
                              .is_running = is_running(idempotency, request),
                              .err = err};
    int r =
        kept_reply_find(idempotency->index, request->owner, request->key, on_found, &looking, err);

    if (r == 0 && looking.is_old)
        r = kept_reply_drop(idempotency->index, request->owner, request->key, err);
    return r == 0 && !looking.was_found;
}

bool idempotency_look(struct idempotency *idempotency, struct door_call *call,
                      struct idempotent *ret, struct error *err)
{
    const char *key = http_header(call->http, IDEMPOTENCY_HEADER);

    ret->key[0] = '\0';
    /* Bytes that stream come after their handler was called: nothing can be compared. */
    if (!key || !str_equal(call->route->method, "POST") || call->route->body == BODY_BYTES)
        return true;
    if (read_key(call, key, err) < 0)
        return false;
    str_copy(ret->key, sizeof(ret->key), key);
    str_format(ret->owner, sizeof(ret->owner), "%s/%s", call->caller.who.tenant,
               call->caller.who.key);
    describe(call, ret->request);
    return is_new(idempotency, call, ret, err);
}

/* ---- a request that is carried out ---- */

/* The session that a reply is about: that of the path, or one that the reply names. */
static const char *session_of(const struct running *running, json_t *reply)
{
    const char *id = json_string_value(json_object_get(reply, "session_id"));

    if (running->session[0])
        return running->session;
    if (!id)
        id = json_string_value(json_object_get(reply, "id"));
    return id && str_starts(id, "s_") ? id : NULL;
}

static void forget(struct running *running)
{
    struct error err = {0};

    if (!running->idempotency || running->has_ended)
        return;
    running->has_ended = true;
    if (kept_reply_drop(running->idempotency->index, running->request.owner, running->request.key,
                        &err) < 0)
        log_warning("an Idempotency-Key could not be freed: %s, continuing without it", err.text);
}

static void keep(struct running *running, unsigned status, const char *type, const void *data,
                 size_t length)
{
    CLEANUP(json_decrefp) json_t *reply = NULL;
    struct kept_reply row = {
        .owner = running->request.owner, .key = running->request.key, .status = status};
    struct error err = {0};

    if (data && length <= LIMIT_KEPT_REPLY) {
        reply = json_loadb(data, length, 0, NULL);
        row.session = session_of(running, reply);
        row.type = type;
        row.data = data;
        row.length = length;
    }
    running->has_ended = true;
    if (kept_reply_end(running->idempotency->index, &row, &err) < 0)
        log_warning("the reply of a request with an Idempotency-Key could not be kept: %s, "
                    "continuing without it",
                    err.text);
}

static void on_whole(void *ctx, unsigned status, const char *type, const void *data, size_t length)
{
    struct running *running = ctx;

    if (!running->idempotency)
        return;
    if (status >= 200 && status < 300)
        keep(running, status, type, data, length);
    else
        forget(running);
}

static void on_over(void *ctx)
{
    struct running *running = ctx;

    if (running->idempotency && !running->has_ended)
        keep(running, CLIENT_LEFT, NULL, NULL, 0);
    if (running->idempotency)
        DLIST_UNLINK(running->idempotency->running, running);
    free(running);
}

static const struct http_reply_keeper keeper = {.whole = on_whole, .over = on_over};

/* Each tenant that sent something since, whoever sent the last: no order of requests evades it. */
static void trim(struct idempotency *idempotency, const char *tenant)
{
    struct kept_reply_bounds bounds = {.since_ms = clock_wall_ms() - KEPT_REPLY_MS,
                                       .bytes = LIMIT_KEPT_REPLIES,
                                       .rows = LIMIT_KEPT_REPLY_ROWS};
    struct error err = {0};

    str_copy(idempotency->begun[idempotency->begun_count++], TENANT_MAX, tenant);
    if (idempotency->begun_count < TRIM_EVERY)
        return;
    for (size_t i = 0; i < TRIM_EVERY; i++) {
        bool is_known = false;

        for (size_t k = 0; k < i; k++)
            is_known |= str_equal(idempotency->begun[k], idempotency->begun[i]);
        if (!is_known &&
            kept_reply_trim(idempotency->index, idempotency->begun[i], &bounds, &err) < 0)
            log_warning("old replies could not be removed: %s, continuing without that", err.text);
    }
    idempotency->begun_count = 0;
}

int idempotency_begin(struct idempotency *idempotency, struct door_call *call,
                      const struct idempotent *request, struct error *err)
{
    struct running *running = calloc(1, sizeof(*running));
    const char *word = http_param(call->http, "id");
    struct session *session;
    struct error ignored = {0};
    int r;

    if (!running)
        return error_memory(err);
    r = kept_reply_begin(idempotency->index,
                         &(struct kept_reply){.owner = request->owner,
                                              .key = request->key,
                                              .request = request->request,
                                              .created_ms = clock_wall_ms()},
                         err);
    if (r < 0) {
        free(running);
        return r;
    }
    trim(idempotency, call->caller.who.tenant);
    *running = (struct running){.idempotency = idempotency, .request = *request};
    if (word &&
        auth_session(&call->front->auth, &call->caller.who, word, true, &session, &ignored) == 0)
        str_copy(running->session, sizeof(running->session), session_id(session));
    DLIST_PUSH(idempotency->running, running);
    http_keep_reply(call->http, &keeper, running);
    return 0;
}
