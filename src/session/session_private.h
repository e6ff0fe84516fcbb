/*
 * session_private.h - the engine's own structs, shared by the files of session/ and nobody else.
 *
 * Theory of operation. Callbacks of a box come from inside box_pump(), where the box must not be
 * freed; so whatever takes a box away (a session's end, a lost warden) only marks it and is done by
 * session_manager_later() in a turn of the loop of its own. An execution's output is written to its
 * spool before it is acknowledged, and its end to the index before the warden may forget it: a
 * broker that dies at any point leaves a successor that can go on. Short output goes straight into
 * the row of its end: it stays in memory until then, and so long the warden has all of it too,
 * because nothing is acknowledged before BOX_ACK_BYTES of a stream were taken (output.c).
 *
 * A cell is an execution whose program is a kernel that was there before (cell.c). Contexts own
 * kernels (context.c, kernel.c); cells of one context wait in its queue and go to the box one by
 * one, so that a deadline counts from a cell's start.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_SESSION_PRIVATE_H
#define BAILEY_SESSION_SESSION_PRIVATE_H

#include <jansson.h>

#include "base/buf.h"
#include "base/limits.h"
#include "model/result.h"
#include "observe/audit.h"
#include "observe/bus.h"
#include "runtime/provider_ops.h"
#include "session/account.h"
#include "session/fair_queue.h"
#include "session/session.h"
#include "session/session_manager.h"
#include "session/tenant.h"
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
struct completion {
    struct completion *next;
    void (*done)(void *ctx);
    void *ctx;
};

struct outputs; /* outputs.c */

struct session {
    struct session *next;
    struct session_manager *manager;
    char id[ID_MAX];
    char tenant[TENANT_MAX];
    char *name;  /* NULL: none */
    json_t *env; /* object of strings */
    enum session_state state;
    uint64_t created_ms, used_ms, expires_ms, idle_ms; /* wall clock */
    uint32_t next_execution;
    bool has_box;        /* one was made at some time */
    bool is_provisional; /* not yet what was asked for: a broker that finds it so ends it */
    uint64_t ended_ms;
    const char *reason;  /* static, or owned by the engine's words */
    struct caller ender; /* who ended it */

    /* the box */
    uint32_t make_serial; /* STARTING */
    uint64_t make_asked_ns;
    uint32_t number;
    struct box *box; /* NULL: none */
    struct pump pump;
    struct limits limits;
    struct box_facts facts;
    struct waiter *waiters;
    struct calling *calling;
    bool is_leaving;                     /* ENDING: the box is still to be given back */
    bool is_box_lost;                    /* ENDING: by itself; its last words are heard first */
    const struct provider_row *provider; /* that made its last box; NULL: it had none yet */
    const struct provider_row *wanted;   /* where another made it: the one that should have */
    char *fallback;                      /* why; NULL: it is as wanted */
    struct dataset_push *push;           /* datasets on their way into a container; NULL: none */

    struct execution *executions, *oldest; /* newest first; the other end */
    unsigned execution_count, running;
    unsigned pinned;  /* they are being walked: none is dropped */
    uint64_t spooled; /* bytes that its ended ones have on disk */
    struct outputs *outputs;
    unsigned uploads; /* datasets under way */
    unsigned asked;   /* questions to the provider that are not answered */
    struct completion *completions;

    struct context *contexts; /* oldest first */
    unsigned next_context;
    struct kernel *kernels; /* all that the box has, also those that nobody uses any more */

    /* its environment: what its template gives (template_env.c), and what was installed
     * (packages.c) */
    char *template_name; /* NULL: the configured one */
    json_t *given_env;
    int tier;               /* of its kernels */
    char layer[65];         /* of the template that its box was made with; empty: none */
    char package_layer[65]; /* of what was installed for it; empty: nothing was */
    json_t *packages;       /* that; NULL: nothing, or not looked at yet */
    char **asked_packages;  /* strv: as they were asked for */
    struct package_order *package_orders; /* under way */

    /* what it holds of its tenant's quotas (usage.c) */
    bool is_counted;         /* as one that lives */
    uint64_t held_memory;    /* of its box */
    uint64_t held_data;      /* bytes of datasets and packages */
    uint64_t held_output;    /* bytes of saved outputs: the local tenant's stay when it ends */
    uint64_t held_packages;  /* the part of held_data that is packages */
    uint64_t told_cpu_us;    /* of its box's executions that have ended */
    uint64_t counted_cpu_us; /* of its box, in its tenant's quota */
    bool is_cpu_unknown;     /* what an earlier broker counted of it */
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
#define EXECUTION_CELL 256u
#define EXECUTION_EVENTS_CUT 512u /* LIMIT_CELL_EVENTS */

#define CONTEXT_ID_MAX 16
#define KERNEL_NOTE_MAX 160

#define PROVISIONAL_REASON "draft" /* in the row of one that lives */

struct execution_watcher {
    struct execution_watcher *next;
    struct execution *execution;
    bool paces;
    bool has_left; /* while others were being told: freed after that */
    uint64_t offset[BOX_STREAMS];
    const struct execution_watch_events *events;
    void *ctx;
};

/* ---- kernels, contexts, cells ---- */

/* How a kernel was started; index_context.warm. */
enum warm { WARM_COLD, WARM_ZYGOTE, WARM_POOL, _WARM_MAX };
const char *warm_name(enum warm warm);

/* An interpreter process in the box. Belongs to its session, until it has ended. */
struct kernel {
    struct kernel *next;
    struct session *session;
    struct context *context; /* whose it is; NULL: nobody's any more */
    uint32_t id;             /* in the box */
    enum warm warm;
    bool from_zygote; /* by the provider, who alone knows how it ends */
    bool is_asked;    /* of the provider, who has not answered yet */
    bool is_placed;   /* it is in its context's folder: it began there, or a cell was told to go */
    bool has_env;     /* it began with the session's environment: cells need not bring it */
    bool has_ended;   /* the box said so: nobody calls it any more */
    bool is_dying;    /* that, or one of its cells was told */
    bool has_status;
    int exit_code, signal; /* has_status; both -1: nobody told in time */
    struct usage usage;
    bool was_adopted;            /* an earlier broker had it */
    struct error failure;        /* it never ran */
    uint32_t cells;              /* that it was given */
    struct execution *cell;      /* that runs in it */
    struct reactor_timer *timer; /* for the provider's word about its end */
};

struct context {
    struct context *next;
    struct session *session;
    uint32_t number; /* c1, c2, ... */
    const struct session_language *language;
    char *name, *cwd; /* NULL: none */
    bool is_default;
    bool waits_for_box;
    bool was_refused; /* a zygote had none for it */
    uint32_t cells;
    uint64_t started_ms, used_ms; /* wall clock; started: its kernel */
    struct kernel *kernel;        /* NULL: none */
    char note[KERNEL_NOTE_MAX];   /* why the one before is gone; empty: there was none */
    struct execution *running;    /* the cell that was sent, or is looked at; NULL: none */
    struct execution *waiting;    /* cells, in the order they came */
    uint32_t found_kernel;        /* the row's, while the box is taken over */
    enum warm found_warm;
};

/* What an execution that is a cell has besides. */
struct cell {
    struct execution *next;  /* of those that wait */
    struct context *context; /* NULL: removed, restarted, or an earlier broker's */
    struct kernel *kernel;   /* while it is sent */
    char context_id[CONTEXT_ID_MAX];
    char language[24];
    uint32_t count;  /* in its context, from 1 */
    uint32_t number; /* in its kernel, from 1 */
    enum warm warm;
    const char *word;           /* "new", "kept", "replaced"; static; NULL: it never had one */
    char note[KERNEL_NOTE_MAX]; /* replaced: why */
    bool has_lost;              /* its end took the kernel with it */
    bool was_sent_again, is_checked, is_settled;
    uint32_t found_kernel;             /* while the box is taken over */
    struct import_check *import_check; /* of its imports, under way */
    /* A module was missing (cell_install.c). */
    struct cell_install *install; /* it may be fetched; NULL: not any more */
    json_t *install_meta;         /* how that went; NULL: none was missing */
    uint64_t base[BOX_STREAMS];   /* where the second time begins in what it wrote */
    bool is_again;
    /* Until it has started for the last time. */
    const char *code, *input;
    json_t *keeper; /* owns code and input; NULL: they are copies of our own */
    size_t code_length, input_length;
    json_t *env;
    struct reactor_timer *timer; /* until an interrupt that is not obeyed becomes a kill */
    bool was_asked_twice;
};

struct execution {
    json_t *words; /* `argv` as an array, while somebody may ask for it; NULL: read it */
    struct execution *next, *previous; /* older, newer */
    struct session *session;
    uint32_t number;
    uint32_t call; /* its id in the box; 0: not sent */
    char *argv;    /* a JSON array of strings; NULL: long, and only in its row */
    uint32_t flags;
    enum execution_state state;
    uint64_t started_ms, ended_ms; /* wall clock */
    uint64_t timeout_ms;
    struct spool out[BOX_STREAMS];
    struct buf early[BOX_STREAMS]; /* all of a stream, while it is short; then out[] has no file */
    bool is_in_row[BOX_STREAMS];   /* its row in the index has all of the stream */
    bool is_held[BOX_STREAMS];     /* a watcher is too far behind */
    bool was_killed;               /* by somebody's SIGKILL, not for its memory */
    bool is_adopted;               /* the warden has it, and an earlier broker started it */
    struct exec_end end;
    struct error *error; /* FAILED; NULL: none, and execution_error() is empty */
    struct execution_watcher *watchers;
    unsigned telling;  /* they are being told something */
    bool is_abandoned; /* who asked for it has left */
    unsigned users;    /* watchers, and calls under way: it is not dropped */
    int input_fd;      /* standard input that came with the request; -1: none */
    uint64_t input_at;
    struct completion *input_waiters; /* who has more input for it */
    struct completion *input_called;  /* those of them that are being called */
    /* Asked for before the box had the command; on_started() does it. */
    bool ends_input;
    unsigned rows, columns;     /* 0: no resize */
    uint64_t told_ms;           /* when the bus last heard of its output */
    struct exec_request *asked; /* WAITING: what to start (execution.c) */
    struct cell *cell;          /* NULL: a command */
    struct account *account;    /* until it has ended; NULL: nobody knows who asked */
    char trace[TRACE_ID_MAX];   /* of who asked; empty: none */
};

struct session_manager {
    struct session_manager_spec spec;
    struct tenants *tenants;
    struct fair_queue *fair_queue;
    struct provider *provider;
    uint32_t generation;
    struct session *sessions; /* newest first, ended ones too */
    unsigned alive, ended;
    struct run *runs;
    struct late_kernel *late; /* of runs that are over (usage.c) */
    unsigned late_count;
    struct look *looks;           /* warm.c */
    struct template *templates;   /* by name (template.c) */
    struct install_job *installs; /* (installer.c) */
    struct recent_layer {
        char layer[65];
        uint64_t bytes, until_ms;  /* wall clock */
    } recent[LIMIT_RECENT_LAYERS]; /* of packages for runs; newest first (layers.c) */
    struct found *found; /* boxes of an earlier broker that nobody has claimed yet (adopt.c) */
    struct reactor_timer *later, *expiry, *sweeper, *usage;
    bool is_usage_watched;           /* `usage` is set */
    struct reactor_timer *artifacts; /* NULL: there is no index */
    struct refusal_log *refusal_log; /* refusal_log.c */
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

/* session_manager.c */
uint64_t session_manager_now_ms(void);            /* wall clock */
uint64_t time_add(uint64_t ms, uint64_t more_ms); /* at most LIMIT_TIME_MS */
void session_manager_later(
    struct session_manager *manager); /* session_settle() for whoever needs it, next turn */
void session_manager_expect(struct session_manager *manager); /* the expiry timer is set anew */
void session_manager_check_stopped(struct session_manager *manager);

/* usage.c: what is taken of a tenant's quotas, and given back */
int usage_take(struct session_manager *manager, const char *tenant, enum quota quota,
               uint64_t amount, struct error *err);
int usage_session(struct session *session, struct error *err); /* it begins to live */
void usage_session_over(struct session *session);
int usage_box(struct session *session, struct error *err); /* one is to be made; safe twice */
void usage_box_over(struct session *session, const struct box_facts *facts); /* NULL: no box was */
int usage_execution(struct session *session, struct error *err);             /* a program more */
void usage_execution_over(struct session *session, const struct exec_end *end); /* NULL: none ran */
/* A run has what it used in its result; of a kernel that lives on the rest is counted at its end.
 */
struct run;
void usage_run(struct run *run);
void usage_told(struct run *run, const struct usage *usage);
void usage_kernel(struct session_manager *manager, const struct kernel_end *end);
int usage_start(struct session_manager *manager);
void usage_free(struct session_manager *manager);
int usage_data(struct session *session, uint64_t bytes, struct error *err);
void usage_data_over(struct session *session, uint64_t bytes);
/* Ends the writing of an output that is kept, in place of one of `before` bytes. */
struct output_writer;
int usage_keep(struct session *session, struct output_writer *writer, uint64_t before,
               uint64_t now);
void usage_outputs_over(struct session *session);             /* they are gone */
const char *usage_why(int r);                                 /* it is not; static */
void usage_packages(struct session *session, uint64_t bytes); /* in place of those before */
void usage_adopt(struct session *session);                    /* an earlier broker's */
void usage_forget(struct session *session);                   /* nobody knows it any more */

/* state.c */
void session_become(struct session *session, enum session_state state);

/* session.c */
struct session *session_new(struct session_manager *manager);
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
int env_check(json_t *env, struct error *err);

/* describe.c */
json_t *time_json(uint64_t ms); /* RFC 3339; null for 0 */

/* execution.c */
struct execution *execution_new(struct session *session, uint32_t number);
/* Checked, numbered and recorded: what session_exec() and session_cell() have in common. */
int execution_may_start(struct session *session, struct error *err);     /* it counts from now on */
void execution_by(struct execution *execution, struct account *account); /* takes it over */
int execution_record(struct execution *execution, struct error *err);
void execution_number_now(struct execution *execution, const struct box *box); /* call, started */
void execution_end(struct execution *execution, enum execution_state state);
/* It was killed, and not by us: whether memory was the reason is asked, and then it ends. */
void execution_ask_memory(struct execution *execution);
void execution_fail(struct execution *execution, const struct error *err);
/* Why it never ran, or was lost; without a code: it was not. There are many: it is kept apart. */
const struct error *execution_error(const struct execution *execution);
void execution_set_error(struct execution *execution, const struct error *err);
/* kept.c */
char *text_copy(const char *text, size_t length); /* not terminated; NULL: no memory */
/* What was started, as a JSON array: a new reference. */
json_t *execution_words(const struct execution *execution);
/* It has ended: what is much and in its row too is not kept in memory, once nobody uses it. */
void execution_forget(struct execution *execution);
void execution_free(struct execution *execution);
void execution_save(struct execution *execution);
extern const struct exec_events execution_exec_events;
size_t execution_output(void *ctx, enum box_stream stream, const void *data, size_t length);

/* watching.c */
void execution_tell(struct execution *execution, bool has_started);
/* How much more the slowest watcher that paces allows of a stream. */
uint64_t execution_room(const struct execution *execution, int stream);

/* output.c: streams by index, 0 to BOX_STREAMS - 1 */
/* logs/<session>/: a new descriptor, or a negative errno */
int logs_folder(const struct session *session, bool makes_it);
void output_name(const struct execution *execution, int stream, char name[32]);
/* What an earlier broker kept of its output. */
int output_find(struct execution *execution, struct error *err);
int output_append(struct execution *execution, int stream, const void *data, size_t length,
                  struct error *err);
void output_close(struct execution *execution);  /* files; they are opened again for who reads */
void output_forget(struct execution *execution); /* for execution_forget() */
void output_free(struct execution *execution);
void outputs_gone(struct session *session); /* it has ended: its files go, and the rest with them */

/* kernel.c */
/* The kernel that came with the box, for whoever is the first to want one. */
struct made;
void kernel_came(struct session *session, const struct made *made);
void kernel_start(struct context *context); /* context->kernel, or its cells have failed */
void kernel_discard(struct kernel *kernel); /* its context does not want it any more */
/* A cell was told so; cell_kernel_status() follows, perhaps at once. end NULL: it never began. */
void kernel_died_under(struct kernel *kernel, const struct exec_end *end);
void kernel_release(struct kernel *kernel); /* its cell is over */
/* An earlier broker's; only while the box is being taken over. */
void kernel_adopt(struct context *context, uint32_t id, bool from_zygote, enum warm warm);
void kernels_free(struct session *session);

/* context.c */
struct context *context_new(struct session *session, const struct session_language *language,
                            uint32_t number);
void context_id(const struct context *context, char id[CONTEXT_ID_MAX]);
void context_save(struct context *context);
void context_advance(struct context *context); /* the next cell, if there is one and it can */
void context_kernel_gone(struct context *context, const struct kernel *kernel);
void context_fail_waiting(struct context *context, const struct error *err);
void contexts_load(struct session *session);
void contexts_found(struct session *session, const struct box_found *found); /* a kernel */
void contexts_settle(struct session *session); /* all that is there was found */
void contexts_free(struct session *session);

/* cell.c */
void cell_send(struct execution *execution, struct kernel *kernel);
bool cell_check(struct execution *execution);         /* true: its imports are looked at first */
void cell_over(struct execution *execution);          /* it has ended: the next one may begin */
void cell_kernel_status(struct execution *execution); /* its kernel's status is known */
void cell_cancel(struct execution *execution, const struct error *err); /* it waits */
void cell_abandon(struct execution *execution);     /* nobody wants it: interrupt, then kill */
char *cell_text(const struct execution *execution); /* for the index; NULL: no memory */
void cell_load(struct execution *execution, const char *text);
void cell_attach(struct execution *execution); /* taken over: its kernel is there, if ever */
void cell_free(struct execution *execution);
extern const struct exec_events cell_exec_events;

size_t cell_keep(struct execution *execution, enum box_stream stream, const void *data,
                 size_t length);

/* cell_install.c */
int cell_install_new(struct execution *execution); /* cell->install, where it is configured */
void cell_install_free(struct execution *execution);
size_t cell_install_hold(struct execution *execution, const char *data, size_t length); /* events */
void cell_install_flush(struct execution *execution);  /* what was held is told */
bool cell_install_begin(struct execution *execution);  /* true: it goes on from there */
bool cell_install_cancel(struct execution *execution); /* true: that was under way */

/* kept.c */
uint64_t execution_kept(const struct execution *execution);   /* bytes on disk */
void executions_trim(struct session *session, unsigned keep); /* ended ones that nobody reads */
void executions_drop_output(struct session *session);         /* down to its share of the disk */

/* import_check.c: SANDBOX_BLOCK_DANGEROUS_IMPORTS */
struct import_check;
struct import_check_spec {
    const char *program; /* Python's, in the box */
    const char *code;    /* copied */
    size_t length;
    void (*done)(void *ctx, const struct error *err); /* NULL: it may run */
    void *ctx;
    char ***modules; /* gets those that are blocked, a strv; NULL: not wanted */
};
int import_check_start(struct session_manager *manager, struct box *box,
                       const struct import_check_spec *spec, struct import_check **ret,
                       struct error *err);
void import_check_leave(
    struct import_check *import_check); /* done() does not come any more; NULL is fine */

/* dataset_push.c: into a container; nothing where the box is none */
void dataset_push(struct session *session, const char *file); /* one that was added */
void datasets_push(struct session *session, bool is_new);     /* all; not new: those it lacks */
void datasets_push_free(struct session *session);
/* session.c: the provider that stopped beneath it; NULL: it did not end so */
const char *session_gone_provider(const struct session *session);
#define REASON_PROVIDER_GONE "provider_gone"
bool session_is_ready(const struct session *session); /* session.c: its box, and all in it */

/* template_env.c */
const char *template_env_program(const struct session_language *language, bool has_layer,
                                 bool is_fallback);
void session_take_template(struct session *session, const struct session_template *found_template);
int session_apply_template(struct session *session, struct session_template *ret,
                           struct error *err);
const char *session_program(const struct session *session, const struct session_language *language);
char **session_env(const struct session *session, json_t *over); /* strv; NULL: no memory */

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
int output_folder(struct session *session, bool makes_it); /* output_open.c; a descriptor */
void output_announce(struct session *session, const struct session_output *output);
void outputs_remove(struct session *session); /* it has ended; the owner's own copies stay */
void outputs_free(struct session *session);
void outputs_fail(struct session *session, const struct error *err);
struct output_row;
bool session_output_is_newest(struct session *session, const struct output_row *row);
bool outputs_are_collected(const struct session *session); /* now */
void datasets_remove(struct session *session);
int datasets_prepare(struct session *session, struct error *err); /* the folder is there */

/* tree.c */
int session_manager_discard(struct session_manager *manager, int folder_fd,
                            const char *name); /* gone from its place */
void session_manager_sweep_old(
    struct session_manager *manager);      /* what an earlier broker left half done */
void session_manager_sweep(void *manager); /* a little of it */

/* adopt.c */
void found_free(struct session_manager *manager);

/* warm.c */
void looks_free(struct session_manager *manager); /* nobody is called any more */

/* run.c */
void runs_fail(struct session_manager *manager, const struct error *err);
void runs_resume(struct session_manager *manager); /* run.c: output that was held back */
void runs_free(struct session_manager *manager);   /* nobody is called any more */
void run_box_ended(struct session_manager *manager, uint32_t number, unsigned why);
void run_kernel_ended(struct session_manager *manager, const struct kernel_end *end);

#endif
