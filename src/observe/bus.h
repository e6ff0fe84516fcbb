/*
 * bus.h - the events of the daemon: published once, kept for a while, read by subscribers.
 *
 * Never fails the publisher: publishing allocates nothing. Ids only grow, also over a restart of
 * the broker: they are the wall clock's microseconds, so that a tenant cannot count what others do.
 * A subscriber gets the events of its tenant, or of all, and reads at its own pace; what it missed
 * because it was slower than LIMIT_EVENTS (or LIMIT_EVENTS_BYTES) is reported as one gap. One
 * thread, no I/O.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_OBSERVE_BUS_H
#define BAILEY_OBSERVE_BUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/id.h"
#include "model/principal.h"

typedef struct json_t json_t;
struct bus;
struct bus_reader;

enum event_type {
    EVENT_SESSION_CREATED, /* "session.created" */
    EVENT_EXEC_STARTED,    /* "exec.started" */
    EVENT_OUTPUT,          /* "output": how far a stream is, not its bytes */
    EVENT_EXEC_EXITED,     /* "exec.exited" */
    EVENT_FILE_CHANGED,    /* "file.changed": by a call, or seen by a watch */
    EVENT_VISUALIZATION,   /* "visualization": an image was saved */
    EVENT_SESSION_ENDED,   /* "session.ended" with the reason */
    EVENT_SESSION_PAUSED,  /* "session.paused" */
    EVENT_SESSION_RESUMED, /* "session.resumed" */
    EVENT_GAP,             /* "gap": events were lost; only made by bus_next() */
    _EVENT_TYPE_MAX,
};
const char *event_name(enum event_type type);

struct bus_event {
    uint64_t id;
    uint64_t time_ms;
    enum event_type type;
    char tenant[TENANT_MAX];
    char session[ID_MAX]; /* empty: none */
    json_t *data;         /* borrowed; an object, may be NULL */
    size_t bytes;         /* that it has as text */
};

struct bus *bus_new(void); /* NULL: no memory */
void bus_free(struct bus *bus);

/*
 * Of a tenant (NULL: TENANT_LOCAL). Takes over `data` (an object or NULL) and its contents: the
 * caller changes neither any more.
 */
void bus_publish(struct bus *bus, enum event_type type, const char *tenant, const char *session,
                 json_t *data);

/*
 * Reads events of a tenant (NULL: all) and of one session (NULL: all) after last_id (0: only new
 * ones). A last_id that is no longer known, or not yet, begins with a gap, then all that is kept.
 * notify() (may be NULL) is called from inside bus_publish() for each event to read. It may read,
 * subscribe and unsubscribe any reader, itself too; it may not publish (such an event is kept, but
 * readers are not notified before the next). NULL: no memory.
 */
struct bus_reader *bus_subscribe(struct bus *bus, const char *tenant, const char *session,
                                 uint64_t last_id, void (*notify)(void *ctx), void *ctx);
/*
 * True and the event, valid until the next publish or read; false: nothing more now. A gap has the
 * id of the last event that was missed, and {"missed": how many} where that is known.
 */
bool bus_next(struct bus_reader *reader, struct bus_event *ret);
void bus_unsubscribe(struct bus_reader *reader); /* NULL is fine; also after bus_free() */

/*
 * {"id","time","type","session_id",...data}: time as in 2026-11-15T08:15:04.123Z, session_id null
 * when there is none; these four win over members of data. New reference, or NULL: no memory.
 */
json_t *bus_event_json(const struct bus_event *event);

#endif
