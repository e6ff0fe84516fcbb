/*
 * audit.c - GET /v1/audit: lines of the audit log that match, and with follow new lines as they are
 * written.
 */
#include "observe/audit.h"

#include <errno.h>
#include <string.h>

#include "api/rest/rest_private.h"
#include "base/str.h"

#define PIECE (256 * KIB) /* produced at once for a client */

struct listing {
    struct front_stream stream;
    struct session_manager *manager;
    struct audit_reader *reader;
    struct reactor *reactor;
    struct reactor_timer *timer; /* there are more lines to read, in a separate turn */
    bool follows;
};

static void on_more(void *ctx)
{
    struct listing *listing = ctx;

    http_reply_more(listing->stream.http);
}

static void on_fill(void *ctx)
{
    struct listing *listing = ctx;
    struct front_stream *stream = &listing->stream;
    const char *line;
    size_t length;
    int r = 1;

    while (stream->text.length < PIECE &&
           (r = audit_reader_next(listing->reader, &line, &length)) > 0) {
        if (buf_append(&stream->text, line, length) < 0)
            r = -ENOMEM;
        if (r < 0)
            break;
    }
    if (r == -EAGAIN && stream->text.length == 0)
        listing->reactor->ops->timer_set(listing->timer, 0);
    else if (r < 0 && r != -EAGAIN)
        stream->is_broken = true;
    else if (r == 0)
        stream->is_over = !listing->follows;
}

static void on_freed(void *ctx)
{
    struct listing *listing = ctx;

    audit_unfollow(session_manager_audit(listing->manager), listing);
    listing->reactor->ops->timer_remove(listing->timer);
    audit_reader_free(listing->reader);
    free(listing);
}

/* "2026-11-15", or with a time, in UTC; as a text that compares with the times of the lines. */
static bool read_since(const char *text, char ret[40])
{
    static const char form[] = "dddd-dd-ddTdd:dd:dd";
    size_t i = 0;

    if (!str_copy(ret, 40, text))
        return false;
    for (; form[i] && text[i]; i++) {
        if (form[i] == 'd' ? text[i] < '0' || text[i] > '9' : text[i] != form[i])
            return false;
    }
    if (i == 10 && !text[i])
        return true;
    if (form[i])
        return false;
    if (text[i] == '.')
        i += 1 + strspn(text + i + 1, "0123456789");
    if (!str_equal(text + i, "Z"))
        return false;
    ret[i] = '\0'; /* "04" sorts before "04.123Z", "04Z" would not */
    return true;
}

static struct listing *listing_new(struct door_call *call, const struct audit_filter *filter,
                                   uint64_t tail, struct error *err)
{
    struct listing *listing = calloc(1, sizeof(*listing));
    struct session_manager *manager = call->front->manager;

    if (!listing)
        return NULL;
    *listing = (struct listing){
        .manager = manager,
        .reactor = call->front->reactor,
        .follows = front_query_bool(call, "follow"),
        .stream = {.http = call->http,
                   .text = BUF_INIT(PIECE + LIMIT_AUDIT_LINE),
                   .fill = on_fill,
                   .freed = on_freed,
                   .ctx = listing},
    };
    listing->timer = reactor_timer(listing->reactor, on_more, listing);
    if (listing->timer)
        listing->reader = audit_reader_new(session_manager_logs_fd(manager), filter, tail, err);
    if (listing->reader &&
        (!listing->follows || audit_follow(session_manager_audit(manager), on_more, listing)))
        return listing;
    on_freed(listing);
    return NULL;
}

void audit_get(struct door_call *call)
{
    const char *given = front_query_text(call, "since");
    char since[40];
    struct audit_filter filter = {
        .session = front_query_text(call, "session"),
        .tenant = front_query_text(call, "tenant"),
        .action = front_query_text(call, "action"),
        .since = given ? since : NULL,
    };
    bool is_operator = principal_may(&call->caller.who, SCOPE_OPERATOR);
    struct error err = {0};
    struct listing *listing;

    if (!is_operator && filter.tenant && !str_equal(filter.tenant, call->caller.who.tenant)) {
        error_set(&err, -EPERM, ERROR_FORBIDDEN,
                  "this key reads the audit of its own tenant, '%s'; the audit of others needs the "
                  "scope 'operator'",
                  call->caller.who.tenant);
        front_fail(call->front, call->http, &err, NULL);
        return;
    }
    if (!is_operator)
        filter.tenant = call->caller.who.tenant;
    if (given && !read_since(given, since)) {
        front_fail_field(call->http, "since",
                         "'since' has to be a time in UTC, such as 2026-11-15T08:15:04Z");
        return;
    }
    listing = listing_new(call, &filter, front_query_u64(call, "tail", UINT64_MAX), &err);
    if (listing)
        front_stream_start(&listing->stream, 200, TYPE_LINES, front_event_headers, -1);
    else if (err.code)
        front_fail(call->front, call->http, &err, NULL);
    else
        front_fail_memory(call->http);
}
