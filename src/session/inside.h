/*
 * inside.h - the engine's own structs, shared by the files of session/ and nobody else.
 *
 * Theory of operation. Callbacks of a box come from inside box_pump(), where the box must not be
 * freed; so whatever takes a box away (a session's end, a lost warden) only marks it and is done by
 * engine_later() in a turn of the loop of its own. An execution's output is written to its spool
 * before it is acknowledged, and its end to the index before the warden may forget it: a broker
 * that dies at any point leaves a successor that can go on.
 */
#ifndef BAILEY_SESSION_INSIDE_H
#define BAILEY_SESSION_INSIDE_H

#include <jansson.h>

#include "base/buf.h"
#include "base/limits.h"
#include "model/result.h"
#include "observe/audit.h"
#include "observe/bus.h"
#include "runtime/maker.h"
#include "session/engine.h"
#include "session/session.h"
#include "store/index.h"
#include "store/spool.h"

/* pump.c: a box on the reactor */
struct pump {
    struct reactor *reactor;
    struct box *box; /* borrowed; NULL: stopped */
    struct reactor_watch *watch;
    struct reactor_timer *timer;
    short events;
    uint64_t armed_ms; /* what the timer is set to */
    bool is_inside;    /* box_pump() is under way */
    void (*lost)(void *ctx, const struct error *err);
    void *ctx;
};
int pump_start(struct pump *pump, struct reactor *reactor, struct box *box,
               void (*lost)(void *ctx, const struct error *err), void *ctx);
void pump_stop(struct pump *pump); /* safe twice; not from inside box_pump() */

/* What waits for a session's box. */
struct waiter {
    struct waiter *next;
    void (*ready)(void *ctx, struct box *box, const struct error *err);
    void *ctx;
};

/* Those of them that are being called just now; on the caller's stack. */
struct calling {
    struct calling *outer;
    struct waiter *list;
};

/* Who wants to be called once. */
struct mourner {
    struct mourner *next;
    void (*done)(void *ctx);
    void *ctx;
};

struct outputs; /* outputs.c */

struct session {
    struct session *next;
    struct engine *engine;
    char id[ID_MAX];
    char *name;  /* NULL: none */
    json_t *env; /* object of strings */
    enum session_state state;
    uint64_t created_ms, used_ms, expires_ms, idle_ms; /* wall clock */
    uint32_t next_execution;
    bool has_box;  /* one was made at some time */
    bool is_draft; /* not yet what was asked for: a broker that finds it so ends it */
    uint64_t ended_ms;
    const char *reason; /* static, or owned by the engine's words */

    /* the box */
    uint32_t make_serial; /* STARTING */
    uint32_t number;
    struct box *box; /* NULL: none */
    struct pump pump;
    struct limits limits;
    struct box_facts facts;
    struct waiter *waiters;
    struct calling *calling;
    bool is_leaving; /* ENDING: the box is still to be given back */

    struct execution *executions, *oldest; /* newest first; the other end */
    unsigned execution_count, running;
    unsigned pinned;  /* they are being walked: none is dropped */
    uint64_t spooled; /* bytes that its ended ones have on disk */
    struct outputs *outputs;
    unsigned uploads; /* datasets under way */
    unsigned asked;   /* questions to the maker that are not answered */
    struct mourner *mourners;
};

enum execution_state {
    EXECUTION_WAITING, /* for the box */
    EXECUTION_SENT,    /* to the warden */
    EXECUTION_RUNNING,
    EXECUTION_CLOSING, /* it has ended; a last fact is asked for */
    EXECUTION_EXITED,
    EXECUTION_FAILED, /* it never ran, or the engine lost it */
    _EXECUTION_STATE_MAX,
};

/* index_execution.flags */
#define EXECUTION_BACKGROUND 1u
#define EXECUTION_PTY 2u
#define EXECUTION_STDIN 4u
#define EXECUTION_TIMED_OUT 8u
#define EXECUTION_OOM 16u
#define EXECUTION_DISK_FULL 32u
#define EXECUTION_STARTED 64u
#define EXECUTION_UNKEPT 128u /* output could not be stored any more */

#define DRAFT_REASON "draft" /* in the row of one that lives */

struct execution_watcher {
    struct execution_watcher *next;
    struct execution *execution;
    bool paces;
    bool has_left; /* while others were being told: freed after that */
    uint64_t offset[BOX_STREAMS];
    const struct execution_watch_events *events;
    void *ctx;
};

struct execution {
    struct execution *next, *previous; /* older, newer */
    struct session *session;
    uint32_t number;
    uint32_t call; /* its id in the box; 0: not sent */
    json_t *argv;  /* array of strings */
    uint32_t flags;
    enum execution_state state;
    uint64_t started_ms, ended_ms; /* wall clock */
    uint64_t timeout_ms;
    struct spool out[BOX_STREAMS];
    bool is_held[BOX_STREAMS]; /* a watcher is too far behind */
    bool was_killed;           /* by somebody's SIGKILL, not for its memory */
    bool is_adopted;           /* the warden has it, and an earlier broker started it */
    struct exec_end end;
    struct error error; /* FAILED */
    struct execution_watcher *watchers;
    unsigned telling;  /* they are being told something */
    bool is_abandoned; /* who asked for it has left */
    unsigned users;    /* watchers, and calls under way: it is not dropped */
    int input_fd;      /* standard input that came with the request; -1: none */
    uint64_t input_at;
    struct mourner *input_waiters; /* who has more input for it */
    struct mourner *input_called;  /* those of them that are being called */
    /* Asked for before the box had the command; on_started() does it. */
    bool ends_input;
    unsigned rows, columns;     /* 0: no resize */
    uint64_t told_ms;           /* when the bus last heard of its output */
    struct exec_request *asked; /* WAITING: what to start (execution.c) */
};

struct engine {
    struct engine_spec spec;
    struct maker *maker;
    uint32_t generation;
    struct session *sessions; /* newest first, ended ones too */
    unsigned alive, ended;
    struct run *runs;
    struct found *found; /* boxes of an earlier broker that nobody has claimed yet (adopt.c) */
    struct reactor_timer *later, *expiry, *sweeper;
    bool has_later, is_sweeping;
    unsigned next_gone, next_upload; /* numbers in names of hidden files */
    bool is_stopping;
    bool is_ending; /* the grace is over, or nobody needs it any more */
    struct reactor_timer *grace;
    void (*stopped)(void *ctx);
    void *stopped_ctx;
    unsigned adopting; /* boxes that have not answered yet, plus one while they are being asked */
    void (*ready)(void *ctx);
    void *ready_ctx;
};

/* engine.c */
uint64_t engine_now_ms(void);                     /* wall clock */
uint64_t time_add(uint64_t ms, uint64_t more_ms); /* at most LIMIT_TIME_MS */
void engine_later(struct engine *engine);  /* session_settle() for whoever needs it, next turn */
void engine_expect(struct engine *engine); /* the expiry timer is set anew */
void engine_check_stopped(struct engine *engine);

/* state.c */
void session_become(struct session *session, enum session_state state);

/* session.c */
struct session *session_new(struct engine *engine);
void session_free(struct session *session);
void session_save(struct session *session); /* to the index; a failure is logged, not fatal */
int session_record(struct session *session, struct error *err);
void session_stand(struct session *session, const struct made *made); /* it has a box now */
void session_lost(void *ctx, const struct error *err);                /* its box is gone */
/* Whoever waits for the box is called: with it, or with an error. */
void session_tell_box(struct session *session, struct box *box, const struct error *err);
void session_settle(struct session *session); /* deferred ends */
int session_ended_error(const struct session *session, struct error *err);
uint64_t session_deadline_ms(const struct session *session); /* when it ends if nobody comes */
char **env_vector(json_t *base, json_t *over);               /* strv of "K=V"; NULL: no memory */

/* describe.c */
json_t *time_json(uint64_t ms); /* RFC 3339; null for 0 */

/* execution.c */
struct execution *execution_new(struct session *session, uint32_t number);
/* What an earlier broker kept of its output; new ones are made at the first byte. */
int execution_find_spools(struct execution *execution, struct error *err);
/* logs/<session>/: a new descriptor, or a negative errno */
int logs_folder(const struct session *session, bool makes_it);
void execution_fail(struct execution *execution, const struct error *err);
void execution_free(struct execution *execution);
void execution_save(struct execution *execution);
extern const struct exec_events execution_exec_events;

/* kept.c */
uint64_t execution_kept(const struct execution *execution);   /* bytes on disk */
void executions_trim(struct session *session, unsigned keep); /* ended ones that nobody reads */
void executions_drop_output(struct session *session);         /* down to its share of the disk */

/*
 * input.c: standard input that came with the request. It is kept in a file, so that a broker which
 * takes over can go on where the warden says it is.
 */
int input_store(struct execution *execution, const void *data, size_t length, struct error *err);
int input_open(struct execution *execution);  /* the file of an earlier broker; -ENOENT: none */
void input_push(struct execution *execution); /* as much as the window takes */
void input_tell(struct execution *execution); /* there is room, or never will be again */
void input_remove(struct execution *execution);

/* outputs.c, datasets.c */
void outputs_free(struct session *session);
void outputs_fail(struct session *session, const struct error *err);
bool outputs_are_collected(const struct session *session); /* now */
void datasets_remove(struct session *session);
int datasets_prepare(struct session *session, struct error *err); /* the folder is there */

/* tree.c */
int engine_discard(struct engine *engine, int folder_fd,
                   const char *name);         /* gone from its place */
void engine_sweep_old(struct engine *engine); /* what an earlier broker left half done */
void engine_sweep(void *engine);              /* a little of it */

/* adopt.c */
void found_free(struct engine *engine);

/* run.c */
void runs_fail(struct engine *engine, const struct error *err);
void runs_free(struct engine *engine); /* nobody is called any more */
void run_box_ended(struct engine *engine, uint32_t number);

#endif
