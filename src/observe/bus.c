/*
 * bus.c - a ring of the newest events, and readers with their own positions; see bus.h.
 *
 * Events have consecutive numbers inside, which give their positions in the ring. Their ids are
 * the time in microseconds: numbers would tell a tenant how much others do. Before the oldest one
 * is overwritten, each reader that still had to read it is moved on, and counts it if it was for
 * that reader: a reader never points to an overwritten event, and one that waits for a quiet
 * session gets no gaps that others caused.
 */
#include "observe/bus.h"

#include <jansson.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/list.h"
#include "base/str.h"

struct bus_reader {
    struct bus *bus; /* NULL: it is gone */
    struct bus_reader *previous, *next;
    char tenant[TENANT_MAX]; /* empty: all */
    char session[ID_MAX];    /* empty: all */
    uint64_t next_number;
    uint64_t missed;
    bool has_gap;     /* to be read before anything else */
    json_t *gap_data; /* of the last gap that was read */
    void (*notify)(void *ctx);
    void *ctx;
};

struct bus {
    struct bus_event ring[LIMIT_EVENTS]; /* an event is at its number modulo the size */
    uint64_t oldest, next;               /* numbers; the same: none are kept */
    uint64_t gone_id, newest_id;         /* of the one before the oldest, and of the last */
    size_t bytes;                        /* of all that are kept */
    struct bus_reader *readers;
    struct bus_reader *to_notify; /* the next one, while it is being notified */
    bool is_notifying;
};

static const char *const names[_EVENT_TYPE_MAX] = {
    [EVENT_SESSION_CREATED] = "session.created",
    [EVENT_EXEC_STARTED] = "exec.started",
    [EVENT_OUTPUT] = "output",
    [EVENT_EXEC_EXITED] = "exec.exited",
    [EVENT_FILE_CHANGED] = "file.changed",
    [EVENT_VISUALIZATION] = "visualization",
    [EVENT_SESSION_ENDED] = "session.ended",
    [EVENT_SESSION_PAUSED] = "session.paused",
    [EVENT_SESSION_RESUMED] = "session.resumed",
    [EVENT_GAP] = "gap",
};

const char *event_name(enum event_type type)
{
    return (unsigned)type < _EVENT_TYPE_MAX ? names[type] : "unknown";
}

static uint64_t wall_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

/* ---- the bus ----------------------------------------------------------------------------------
 */

struct bus *bus_new(void)
{
    struct bus *bus = calloc(1, sizeof(*bus));

    if (bus)
        bus->gone_id = bus->newest_id = wall_us();
    return bus;
}

void bus_free(struct bus *bus)
{
    if (!bus)
        return;
    for (struct bus_reader *reader = bus->readers; reader; reader = reader->next)
        reader->bus = NULL;
    for (size_t i = 0; i < LIMIT_EVENTS; i++)
        json_decref(bus->ring[i].data);
    free(bus);
}

static struct bus_event *event_of(struct bus *bus, uint64_t number)
{
    return &bus->ring[number % LIMIT_EVENTS];
}

static bool is_for(const struct bus_reader *reader, const struct bus_event *event)
{
    return (!reader->tenant[0] || str_equal(reader->tenant, event->tenant)) &&
           (!reader->session[0] || str_equal(reader->session, event->session));
}

static void drop_oldest(struct bus *bus)
{
    struct bus_event *event = event_of(bus, bus->oldest);

    for (struct bus_reader *reader = bus->readers; reader; reader = reader->next) {
        if (reader->next_number != bus->oldest)
            continue;
        reader->next_number++;
        if (is_for(reader, event)) {
            reader->missed++;
            reader->has_gap = true;
        }
    }
    json_decref(event->data);
    event->data = NULL;
    bus->bytes -= event->bytes;
    bus->gone_id = event->id;
    bus->oldest++;
}

/* Whatever a reader does to the list meanwhile: bus_unsubscribe() keeps to_notify right. */
static void notify_readers(struct bus *bus, const struct bus_event *event)
{
    bus->is_notifying = true;
    bus->to_notify = bus->readers;
    while (bus->to_notify) {
        struct bus_reader *reader = bus->to_notify;

        bus->to_notify = reader->next;
        if (reader->notify && is_for(reader, event))
            reader->notify(reader->ctx);
    }
    bus->is_notifying = false;
}

#define NUMBER_SIZE 8 /* of a number, true, false or null as text, about */

/* About how long a value is as text, for the bound on what is kept: nothing is written for that. */
static size_t size_of(const json_t *value)
{
    size_t size = 2, index;
    const char *name;
    json_t *part;

    switch (json_typeof(value)) {
    case JSON_OBJECT:
        json_object_foreach((json_t *)value, name, part)
        {
            size += strlen(name) + 4 + size_of(part);
        }
        return size;
    case JSON_ARRAY:
        json_array_foreach(value, index, part)
        {
            size += 1 + size_of(part);
        }
        return size;
    case JSON_STRING:
        return size + json_string_length(value);
    default:
        return NUMBER_SIZE;
    }
}

void bus_publish(struct bus *bus, enum event_type type, const char *tenant, const char *session,
                 json_t *data)
{
    uint64_t now_us = wall_us();
    size_t bytes = data ? size_of(data) : 0;
    struct bus_event *event;

    /* The newest one is always kept: readers that are notified of it have to find it. */
    while (bus->next != bus->oldest &&
           (bus->next - bus->oldest == LIMIT_EVENTS ||
            bus->bytes + MIN(bytes, LIMIT_EVENTS_BYTES) > LIMIT_EVENTS_BYTES))
        drop_oldest(bus);
    event = event_of(bus, bus->next++);
    event->id = bus->newest_id = MAX(now_us, bus->newest_id + 1);
    event->time_ms = now_us / 1000;
    event->type = type;
    event->data = data;
    event->bytes = bytes;
    bus->bytes += bytes;
    str_copy(event->tenant, sizeof(event->tenant), tenant ? tenant : TENANT_LOCAL);
    str_copy(event->session, sizeof(event->session), session ? session : "");
    if (!bus->is_notifying)
        notify_readers(bus, event);
}

/* ---- readers ----------------------------------------------------------------------------------
 */

/* The first that is newer than this id. */
static uint64_t number_behind(struct bus *bus, uint64_t id)
{
    uint64_t low = bus->oldest, high = bus->next;

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (event_of(bus, middle)->id <= id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct bus_reader *bus_subscribe(struct bus *bus, const char *tenant, const char *session,
                                 uint64_t last_id, void (*notify)(void *ctx), void *ctx)
{
    struct bus_reader *reader = calloc(1, sizeof(*reader));

    if (!reader)
        return NULL;
    reader->bus = bus;
    reader->notify = notify;
    reader->ctx = ctx;
    str_copy(reader->tenant, sizeof(reader->tenant), tenant ? tenant : "");
    str_copy(reader->session, sizeof(reader->session), session ? session : "");
    reader->next_number = bus->next;
    if (last_id != 0) {
        /* From the client: any number. One that was never issued is from an earlier daemon. */
        reader->has_gap = last_id > bus->newest_id || last_id < bus->gone_id;
        reader->next_number = reader->has_gap ? bus->oldest : number_behind(bus, last_id);
    }
    /* In front: a walk that is going on does not come to it. */
    DLIST_PUSH(bus->readers, reader);
    return reader;
}

static void make_gap(struct bus_reader *reader, struct bus_event *ret)
{
    struct bus *bus = reader->bus;

    if (reader->missed > 0)
        reader->gap_data = json_pack("{s:I}", "missed", (json_int_t)reader->missed);
    *ret = (struct bus_event){.id = reader->next_number == bus->oldest
                                        ? bus->gone_id
                                        : event_of(bus, reader->next_number - 1)->id,
                              .time_ms = wall_us() / 1000,
                              .type = EVENT_GAP,
                              .data = reader->gap_data};
    str_copy(ret->session, sizeof(ret->session), reader->session);
    reader->has_gap = false;
    reader->missed = 0;
}

bool bus_next(struct bus_reader *reader, struct bus_event *ret)
{
    struct bus *bus = reader->bus;

    json_decref(reader->gap_data);
    reader->gap_data = NULL;
    if (!bus)
        return false;
    if (reader->has_gap) {
        make_gap(reader, ret);
        return true;
    }
    while (reader->next_number != bus->next) {
        const struct bus_event *event = event_of(bus, reader->next_number++);

        if (is_for(reader, event)) {
            *ret = *event;
            return true;
        }
    }
    return false;
}

void bus_unsubscribe(struct bus_reader *reader)
{
    if (!reader)
        return;
    if (reader->bus) {
        if (reader->bus->to_notify == reader)
            reader->bus->to_notify = reader->next;
        DLIST_UNLINK(reader->bus->readers, reader);
    }
    json_decref(reader->gap_data);
    free(reader);
}

/* ---- as JSON ----------------------------------------------------------------------------------
 */

static void format_time(uint64_t time_ms, char *text, size_t size)
{
    time_t seconds = (time_t)(time_ms / 1000);
    struct tm tm;

    gmtime_r(&seconds, &tm);
    str_format(text, size, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", tm.tm_year + 1900, tm.tm_mon + 1,
               tm.tm_mday, tm.tm_hour, tm.tm_min, tm.tm_sec, (int)(time_ms % 1000));
}

json_t *bus_event_json(const struct bus_event *event)
{
    CLEANUP(json_decrefp) json_t *json = NULL;
    char time[64];

    format_time(event->time_ms, time, sizeof(time));
    json =
        json_pack("{s:I, s:s, s:s, s:s?}", "id", (json_int_t)event->id, "time", time, "type",
                  event_name(event->type), "session_id", event->session[0] ? event->session : NULL);
    if (!json || (json_is_object(event->data) && json_object_update_missing(json, event->data) < 0))
        return NULL;
    return ptr_take(&json);
}
