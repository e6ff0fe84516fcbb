/*
 * session_private.h - the structs of the session manager, for the files of session/ only.
 *
 * Theory of operation. Callbacks of a box come from inside box_pump(), where the box must not be
 * freed; so an event that takes a box away (a session's end, a lost warden) only marks it, and
 * session_manager_later() does the work in a separate turn of the loop. An execution's output is
 * written to its spool before it is acknowledged, and its end to the index before the warden may
 * forget it: a broker that dies at any point leaves a successor that can go on. Short output goes
 * straight into the row of the execution's end: it stays in memory until then, and the warden has
 * all of it during that time too, because nothing is acknowledged before BOX_ACK_BYTES of a stream
 * were taken (output.c).
 *
 * A cell is an execution whose program is a kernel that already runs (cell.c). Contexts own kernels
 * (context.c, kernel.c); cells of one context wait in its queue and go to the box one by one, so
 * that a deadline counts from a cell's start.
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
#include "session/settings_table.h"
#include "session/tenant.h"
#include "store/artifact.h"
#include "store/index.h"
#include "store/spool.h"

/* pump.c: a box on the reactor */
struct pump {
    struct reactor *reactor;
    struct box *box; /* borrowed; NULL: stopped */
    struct reactor_watch *watch;
    struct reactor_timer *timer;
    short events;
    uint64_t armed_ms; /* the time the timer is set to */
    bool is_inside;    /* box_pump() is under way */
    void (*lost)(void *ctx, const struct error *err);
    void *ctx;
};
int pump_start(struct pump *pump, struct reactor *reactor, struct box *box,
               void (*lost)(void *ctx, const struct error *err), void *ctx);
void pump_stop(struct pump *pump); /* safe twice; not from inside box_pump() */

/* A call that waits for a session's box. */
struct waiter {
    struct waiter *next;
    void (*ready)(void *ctx, struct box *box, const struct error *err);
    void *ctx;
};

/* The waiters that are being called right now; on the caller's stack. */
struct calling {
    struct calling *outer;
    struct waiter *list;
};

/* A callback to be called once. */
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
    char *name;    /* NULL: none */
    json_t *env;   /* object of strings */
    json_t *notes; /* of the door that made it; NULL: none */
    enum session_state state;
    uint64_t created_ms, used_ms, expires_ms, idle_ms; /* wall clock */
    uint64_t paused_ms;      /* wall clock: since when it is paused; 0: it is not */
    uint32_t flags;          /* SESSION_*, in its row of the index */
    struct pausing *pausing; /* pause.c: callers that wait; NULL: none */
    struct caller pauser;    /* the caller of the pause or the resumption under way */
    bool wants_resume;       /* PAUSING: it is resumed as soon as it is paused */
    uint32_t next_execution;
    bool has_box;        /* a box was made at some time */
    bool is_spare;       /* one call made it: session_spec */
    bool keeps_data;     /* ENDED: its datasets wait for a successor */
    bool has_heir;       /* a successor has them */
    bool is_provisional; /* not complete yet: a broker that finds it in this state ends it */
    uint64_t ended_ms;
    const char *reason;  /* static, or owned by the session manager */
    struct caller ender; /* the caller that ended it */

    /* the box */
    uint32_t make_serial; /* STARTING */
    uint64_t make_asked_ns;
    uint32_t number;
    struct box *box; /* NULL: none */
    struct pump pump;
    struct settings *settings; /* with which it was made; NULL: the daemon's */
    struct limits limits;
    struct box_facts facts;
    struct waiter *waiters;
    struct calling *calling;
    bool is_leaving;  /* ENDING: the box is still to be returned */
    bool is_box_lost; /* ENDING: the box ended by itself; its last frames are read first */
    const struct provider_row
        *provider; /* the provider that made its last box; NULL: it had no box yet */
    const struct provider_row *wanted; /* if another provider made it: the one that should have */
    char *fallback;                    /* why; NULL: it is the wanted one */
    struct dataset_push *push;         /* datasets being copied into a container; NULL: none */

    struct execution *executions, *oldest; /* newest first; the other end of the list */
    unsigned execution_count, running;
    unsigned pinned;  /* the list is being walked: no execution is dropped */
    uint64_t spooled; /* bytes on disk of its ended executions */
    struct outputs *outputs;
    struct code_store *code_stores; /* scripts that are being read (code_store.c) */
    unsigned uploads;               /* uploads of datasets under way */
    unsigned asked;                 /* questions to the provider without an answer yet */
    struct completion *completions;

    struct context *contexts; /* oldest first */
    unsigned next_context;
    struct kernel *kernels; /* all kernels of the box, including those without a context */

    /* its environment: from its template (template_env.c), and installed packages (packages.c) */
    char *template_name; /* NULL: the configured one */
    json_t *given_env;
    int tier;               /* tier of its kernels */
    char layer[65];         /* of the template that its box was made with; empty: none */
    char package_layer[65]; /* of the packages installed for it; empty: none */
    json_t *packages;       /* those packages; NULL: none, or not read yet */
    char **asked_packages;  /* strv: the requirements as the user wrote them */
    struct package_order *package_orders; /* under way */
    struct guest_install *guest_install;  /* `pip install` in its box; NULL: not carried out */
    bool hears_pip; /* a call had SANDBOX_AUTO_INSTALL, whatever the session was made with */

    /* its share of its tenant's quotas (usage.c) */
    bool is_counted;      /* counted as a live session */
    uint64_t held_memory; /* of its box */
    uint64_t held_data;   /* bytes of datasets and packages */
    uint64_t held_output; /* bytes of saved outputs: the local tenant's files stay when the session
                             ends */
    uint64_t held_packages;  /* the part of held_data that is packages */
    uint64_t told_cpu_us;    /* sum of its box's executions that have ended */
    uint64_t counted_cpu_us; /* CPU time of its box, as counted in its tenant's quota */
    bool is_cpu_unknown;     /* part of it was counted by an earlier broker */
};

enum execution_state {
    EXECUTION_WAITING, /* waits for the box */
    EXECUTION_SENT,    /* sent to the warden */
    EXECUTION_RUNNING,
    EXECUTION_CLOSING, /* has ended; an answer from the launcher is missing */
    EXECUTION_EXITED,
    EXECUTION_FAILED, /* never ran, or was lost */
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
#define EXECUTION_UNKEPT 128u /* output could not be stored completely */
#define EXECUTION_CELL 256u
#define EXECUTION_EVENTS_CUT 512u /* LIMIT_CELL_EVENTS */

/* session.flags */
#define SESSION_PAUSES_AT_END 1u
#define SESSION_RESUMES_BY_USE 2u
#define SESSION_OUTLIVES_AGE 4u /* paused: the age limit does not end it */

#define CONTEXT_ID_MAX 16
#define KERNEL_NOTE_MAX 160

#define PROVISIONAL_REASON "draft" /* reason in the row of a live provisional session */

struct execution_watcher {
    struct execution_watcher *next;
    struct execution *execution;
    bool paces;
    bool has_left; /* set while watchers are being called: freed afterwards */
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
    struct context *context; /* its context; NULL: none any more */
    uint32_t id;             /* its id in the box */
    enum warm warm;
    bool from_zygote; /* forked by the provider's zygote: only the provider knows its exit status */
    bool is_asked;    /* requested from the provider, which has not answered yet */
    bool is_placed;   /* its working directory is the context's: it started there, or a cell changed
                         to it */
    bool has_env;     /* it started with the session's environment: cells need not bring it */
    bool has_ended;   /* the box reported it: no callback comes any more */
    bool is_dying;    /* it has ended, or one of its cells reported that it died */
    bool has_status;
    int exit_code, signal; /* valid if has_status; both -1: no status came in time */
    struct usage usage;
    bool was_adopted;            /* started by an earlier broker */
    struct error failure;        /* why it never started */
    uint32_t cells;              /* number of cells it was sent */
    struct execution *cell;      /* the cell that runs in it */
    struct reactor_timer *timer; /* limits the wait for the provider's report of its exit status */
};

struct context {
    struct context *next;
    struct session *session;
    uint32_t number; /* c1, c2, ... */
    const struct session_language *language;
    char *name, *cwd; /* NULL: none */
    bool is_default;
    bool waits_for_box;
    bool was_refused; /* the zygote could not fork a kernel for it */
    uint32_t cells;
    uint64_t started_ms, used_ms; /* wall clock; started_ms: start of its kernel */
    struct kernel *kernel;        /* NULL: none */
    char note[KERNEL_NOTE_MAX];   /* why the previous kernel is gone; empty: there was none */
    struct execution
        *running; /* the cell that was sent, or whose imports are being checked; NULL: none */
    struct execution *waiting; /* cells, in the order they came */
    uint32_t found_kernel;     /* from the row, while the box is being adopted */
    enum warm found_warm;
};

/* The members that only a cell has. */
struct cell {
    struct execution *next;  /* in the context's queue */
    struct context *context; /* NULL: removed, restarted, or of an earlier broker */
    struct kernel *kernel;   /* the kernel it was sent to */
    char context_id[CONTEXT_ID_MAX];
    char language[24];
    uint32_t count;  /* in its context, from 1 */
    uint32_t number; /* in its kernel, from 1 */
    enum warm warm;
    const char *word;           /* "new", "kept", "replaced"; static; NULL: it never had a kernel */
    char note[KERNEL_NOTE_MAX]; /* if replaced: why */
    bool has_lost;              /* the kernel died with this cell */
    bool is_cut; /* its result does not have all values: LIMIT_JSON_STRUCTURE, LIMIT_CELL_RESULTS */
    bool was_sent_again, is_checked, is_settled;
    uint32_t found_kernel;             /* from the row, while the box is being adopted */
    struct import_check *import_check; /* the check of its imports, under way */
    /* For a missing module (cell_install.c). */
    struct cell_install *install; /* the package may be installed; NULL: no longer */
    json_t *install_meta;         /* how the installation ended; NULL: no module was missing */
    uint64_t base[BOX_STREAMS];   /* offset in each stream at which the second run begins */
    bool is_again;
    /* Kept until the cell was started for the last time. */
    const char *code, *input;
    json_t *keeper; /* owns code and input; NULL: they are copies of our own */
    size_t code_length, input_length;
    size_t held; /* of both, counted by session_manager_hold() */
    json_t *env;
    struct reactor_timer *timer; /* until an ignored interrupt is followed by a kill */
    bool was_asked_twice;
};

struct execution {
    uint64_t held;                   /* bytes of output on disk that count for the tenant */
    uint64_t held_words, held_input; /* likewise: its argv in the index, its standard input */
    json_t *words; /* `argv` as an array, while it may be asked for; NULL: parse it */
    struct execution *next, *previous; /* older, newer */
    struct session *session;
    uint32_t number;
    uint32_t call; /* its id in the box; 0: not sent */
    uint32_t pid;  /* in the box; 0: unknown */
    char *argv;    /* a JSON array of strings; NULL: long, and stored only in its row */
    uint32_t flags;
    enum execution_state state;
    uint64_t started_ms, ended_ms; /* wall clock */
    uint64_t timeout_ms;
    uint64_t paused_ms; /* the time that it stood still before its session was resumed last */
    struct spool out[BOX_STREAMS];
    struct buf early[BOX_STREAMS]; /* the whole stream, while it is short; out[] has no file then */
    bool is_in_row[BOX_STREAMS];   /* its row in the index has the whole stream */
    bool is_held[BOX_STREAMS];     /* held back: a watcher is too far behind */
    bool is_awaited;               /* counted by tenant_works(): a client waits for it */
    bool was_killed;               /* by a client's SIGKILL, not for its memory */
    bool is_adopted;               /* the warden has it, and an earlier broker started it */
    struct exec_end end;
    struct error *error; /* FAILED; NULL: none, and execution_error() is empty */
    struct execution_watcher *watchers;
    unsigned telling;  /* watchers are being called */
    bool is_abandoned; /* the client that requested it has left */
    unsigned users;    /* watchers and calls under way: while above 0 it is not dropped */
    int input_fd;      /* file of the standard input that came with the request; -1: none */
    uint64_t input_at;
    struct input_write *input_write;  /* its standard input is still being stored */
    struct completion *input_waiters; /* callers that have more input for it */
    struct completion *input_called;  /* the part of them that is being called */
    /* Requested before the box had the command; on_started() does it. */
    bool ends_input;
    unsigned rows, columns;     /* 0: no resize */
    uint64_t told_ms;           /* when the bus was last told of its output */
    struct exec_request *asked; /* WAITING: the request (execution.c) */
    struct cell *cell;          /* NULL: a command */
    struct account *account;    /* until it has ended; NULL: the caller is unknown */
    struct settings *settings;  /* of its call; NULL: the session's */
    char trace[TRACE_ID_MAX];   /* trace id of the request; empty: none */
};

/* code_store.c: what a command runs: code that is among its words, or a file. */
struct command_code {
    const char *language;    /* static */
    const char *code, *path; /* one of them is set, borrowed from the words */
};
bool code_of_command(const char *const *words, struct command_code *ret); /* false: no code */
/* SANDBOX_STORE_CODE: the execution has ended, and its account still has the code. */
void code_store(struct execution *execution);
void code_stores_free(struct session *session); /* writes down what is still being read */

/* code_write.c: a record of stored code, written by a thread; done() is called in any case. */
struct code_write_spec {
    void (*done)(void *ctx); /* `artifact` is borrowed until then */
    void *ctx;
};
void code_write(struct session_manager *manager, const char *tenant,
                const struct artifact *artifact, const struct code_write_spec *spec);
/*
 * Takes over *result, `code` and `env`, which count as held by the tenant until they are written: a
 * record for which there is no room is left out, and the log says so.
 */
void code_write_owned(struct session_manager *manager, const char *tenant, struct result *result,
                      const char *language, char *code, size_t length, char **env);

struct session_manager {
    struct session_manager_spec spec;
    struct tenants *tenants;
    struct held *held;           /* bytes in memory, by tenant */
    struct worker *writer;       /* of stored code (code_write.c) */
    struct worker *input_writer; /* of long standard inputs (input.c) */
    uint64_t input_waiting;      /* their bytes */
    struct reactor_timer *retention;
    struct fair_queue *fair_queue;
    struct provider *provider;
    uint32_t generation;
    struct session *sessions; /* newest first, including ended ones */
    unsigned alive, ended;
    struct run *runs;
    struct late_kernel *late;   /* kernels of finished runs (usage.c) */
    struct run_look *run_looks; /* runs whose CPU time the provider was asked for (usage.c) */
    unsigned late_count;
    struct look *looks;           /* warm.c */
    struct template *templates;   /* by name (template.c) */
    struct install_job *installs; /* (installer.c) */
    struct recent_layer {
        char layer[65];
        uint64_t bytes, until_ms;  /* wall clock */
    } recent[LIMIT_RECENT_LAYERS]; /* layers of packages for runs; newest first (layers.c) */
    struct found *found; /* boxes of an earlier broker that belong to no session yet (adopt.c) */
    struct reactor_timer *later, *expiry, *sweeper, *usage;
    struct reactor_timer
        *forgetter;        /* environments of ended sessions are still in the index's log */
    bool is_forgetting;    /* it is set */
    bool is_usage_watched; /* the timer `usage` is set */
    struct reactor_timer *artifacts; /* timer; NULL: there is no index */
    struct refusal_log *refusal_log; /* refusal_log.c */
    struct settings *settings;       /* newest first (settings_table.c) */
    uint32_t next_settings;
    uint64_t settings_used;
    unsigned settings_generation; /* number of reloads */
    bool has_later, is_sweeping;
    unsigned next_gone, next_upload; /* numbers in names of hidden files */
    bool is_stopping;
    bool is_ending; /* the grace time is over, or nothing runs any more */
    struct reactor_timer *grace;
    void (*stopped)(void *ctx);
    void *stopped_ctx;
    unsigned adopting; /* boxes that have not answered yet, plus one while they are being asked */
    void (*ready)(void *ctx);
    void *ready_ctx;
};

/* session_manager.c */
uint64_t session_manager_now_ms(void);                       /* wall clock */
uint64_t time_add(uint64_t ms, uint64_t more_ms);            /* at most LIMIT_TIME_MS */
void session_manager_later(struct session_manager *manager); /* calls session_settle() for sessions
                                                                that need it, next turn */
/* Removes what the index still has of environments of ended sessions, in a moment. */
void session_manager_forget(struct session_manager *manager);
void session_manager_expect(struct session_manager *manager); /* sets the expiry timer again */
void session_manager_check_stopped(struct session_manager *manager);

/* usage.c: takes from a tenant's quotas and gives back */
int usage_take(struct session_manager *manager, const char *tenant, enum quota quota,
               uint64_t amount, struct error *err);
/* CPU time that programs used: for the quota, and for the tenant's turn (fair_queue.h). */
void usage_cpu(struct session_manager *manager, const char *tenant, uint64_t cpu_us);
int usage_session(struct session *session, struct error *err); /* counts it as a live session */
void usage_session_over(struct session *session);
void usage_watch(struct session_manager *manager); /* counts CPU time of what lives, if limited */
int usage_box(struct session *session,
              struct error *err); /* before a box is made; may be called twice */
void usage_box_over(struct session *session,
                    const struct box_facts *facts);              /* facts NULL: there was no box */
int usage_execution(struct session *session, struct error *err); /* counts one more program */
void usage_execution_over(struct session *session, const struct exec_end *end); /* NULL: none ran */
/*
 * The result of a run has its usage; the rest of a kernel that lives longer is counted at its end.
 */
struct run;
void usage_run(struct run *run);
void usage_told(struct run *run, const struct usage *usage);
void usage_kernel(struct session_manager *manager, const struct kernel_end *end);
int usage_start(struct session_manager *manager);
void usage_free(struct session_manager *manager);
int usage_data(struct session *session, uint64_t bytes, struct error *err);
void usage_data_over(struct session *session, uint64_t bytes);
/* Completes the writing of a saved output that replaces one of `before` bytes. */
struct output_writer;
int usage_keep(struct session *session, struct output_writer *writer, uint64_t before,
               uint64_t now);
void usage_outputs_over(struct session *session); /* its saved outputs are deleted */
/*
 * Output of an execution on disk: `more` bytes are about to be written (-EDQUOT: even without the
 * older output of the session they do not fit), were written, are deleted.
 */
int usage_log(struct execution *execution, uint64_t more, struct error *err);
void usage_log_written(struct execution *execution);
void usage_log_over(struct execution *execution);
/*
 * What its request takes on disk: its argv until the execution is dropped or its session ends, its
 * standard input until the command ends. Ended executions are dropped for it where there is no
 * room.
 */
int usage_request(struct execution *execution, uint64_t words, uint64_t input, struct error *err);
void usage_input_over(struct execution *execution);
void usage_request_over(struct execution *execution);
const char *usage_why(int r); /* why an output was not saved; static */
void usage_packages(struct session *session,
                    uint64_t bytes);        /* replaces the bytes counted before */
void usage_adopt(struct session *session);  /* counts a session of an earlier broker */
void usage_forget(struct session *session); /* the session is dropped from memory */

/* state.c */
void session_become(struct session *session, enum session_state state);

/* session.c */
struct session *session_new(struct session_manager *manager);
void session_free(struct session *session);
void session_save(struct session *session); /* to the index; a failure is logged, not fatal */
int session_record(struct session *session, struct error *err);
void session_stand(struct session *session, const struct made *made); /* it has a box now */
void session_lost(void *ctx, const struct error *err);                /* its box is gone */
/* Calls the waiters of the box: with it, or with an error. */
void session_tell_box(struct session *session, struct box *box, const struct error *err);
void session_settle(struct session *session); /* performs deferred ends */
int session_ended_error(const struct session *session, struct error *err);
uint64_t session_deadline_ms(const struct session *session); /* when it ends if it is not used */
char **env_vector(json_t *base, json_t *over);               /* strv of "K=V"; NULL: no memory */
int env_check(json_t *env, struct error *err);

/* describe.c */
json_t *time_json(uint64_t ms); /* RFC 3339; null for 0 */

/* execution.c */
struct execution *execution_new(struct session *session, uint32_t number);
/* Checks, numbers and records: the common part of session_exec() and session_cell(). */
int execution_may_start(struct session *session,
                        struct error *err); /* it counts as running from now on */
/* It counts as its tenant's work until it has ended, unless it is a terminal or in the background.
 */
void execution_works(struct execution *execution);
void execution_by(struct execution *execution,
                  struct account *account); /* takes over the account */
int execution_record(struct execution *execution, struct error *err);
void execution_number_now(struct execution *execution,
                          const struct box *box); /* sets call and start time */
void execution_end(struct execution *execution, enum execution_state state);
/*
 * The execution was killed, but not by the engine: asks whether memory was the reason, then ends
 * it.
 */
void execution_ask_memory(struct execution *execution);
void execution_fail(struct execution *execution, const struct error *err);
/*
 * Why it never ran or was lost; without a code: neither. Stored separately, because most executions
 * have none.
 */
const struct error *execution_error(const struct execution *execution);
void execution_set_error(struct execution *execution, const struct error *err);
/* kept.c */
char *text_copy(const char *text, size_t length); /* not terminated; NULL: no memory */
/* The command's arguments as a JSON array: a new reference. */
json_t *execution_words(const struct execution *execution);
/* After its end: frees members that are large and stored in its row too, once it has no users. */
void execution_forget(struct execution *execution);
void execution_free(struct execution *execution);
void execution_save(struct execution *execution);
extern const struct exec_events execution_exec_events;
size_t execution_output(void *ctx, enum box_stream stream, const void *data, size_t length);

/* pause.c */
int session_paused_error(const struct session *session, struct error *err);
/* Those that are paused, or about to be, or being resumed: they do not count as live. */
unsigned session_manager_paused_count(const struct session_manager *manager);
/* Its limit as a paused session is over, and not its age limit. */
bool session_paused_too_long(const struct session *session, uint64_t now_ms);
/* PAUSED, and its box has answered its new broker. */
void session_pause_adopted(struct session *session);
void session_pause_fail(struct session *session, const struct error *err); /* it ends */
void session_pause_expired(struct session *session); /* SESSION_PAUSES_AT_END: its time is over */

/* watching.c */
void execution_tell(struct execution *execution, bool has_started);
void execution_tell_paused(struct execution *execution);
/* How many more bytes of a stream the slowest pacing watcher allows. */
uint64_t execution_room(const struct execution *execution, int stream);

/* output.c: streams by index, 0 to BOX_STREAMS - 1 */
/* logs/<session>/: a new descriptor, or a negative errno */
int logs_folder(const struct session *session, bool makes_it);
void output_name(const struct execution *execution, int stream, char name[32]);
/* Finds the output that an earlier broker stored. */
int output_find(struct execution *execution, struct error *err);
int output_append(struct execution *execution, int stream, const void *data, size_t length,
                  struct error *err);
void output_close(struct execution *execution);  /* closes its files; readers open them again */
void output_forget(struct execution *execution); /* for execution_forget() */
void output_free(struct execution *execution);
void outputs_gone(
    struct session *session); /* the session has ended: deletes its files and buffers */

/* kernel.c */
/* The kernel that came with the box goes to the first context that wants one. */
struct made;
void kernel_came(struct session *session, const struct made *made);
void kernel_start(struct context *context); /* sets context->kernel, or fails its cells */
void kernel_discard(struct kernel *kernel); /* its context no longer wants it */
/*
 * A cell reported that the kernel died; cell_kernel_status() follows, perhaps at once. end NULL:
 * the cell never began.
 */
void kernel_died_under(struct kernel *kernel, const struct exec_end *end);
void kernel_release(struct kernel *kernel); /* its cell has ended */
/* A kernel of an earlier broker; only while the box is being adopted. */
void kernel_adopt(struct context *context, uint32_t id, bool from_zygote, enum warm warm);
void kernels_free(struct session *session);

/* context.c */
struct context *context_new(struct session *session, const struct session_language *language,
                            uint32_t number);
void context_id(const struct context *context, char id[CONTEXT_ID_MAX]);
void context_save(struct context *context);
void context_advance(
    struct context *context); /* sends the next cell, if there is one and the kernel is free */
void context_kernel_gone(struct context *context, const struct kernel *kernel);
void context_fail_waiting(struct context *context, const struct error *err);
void contexts_load(struct session *session);
void contexts_found(struct session *session,
                    const struct box_found *found); /* reports a kernel of an adopted box */
void contexts_settle(struct session *session); /* all kernels of the adopted box were reported */
void contexts_free(struct session *session);

/* cell.c */
void cell_send(struct execution *execution, struct kernel *kernel);
bool cell_check(struct execution *execution); /* true: its imports are being checked first */
void cell_over(struct execution *execution);  /* it has ended: the next cell may begin */
void cell_kernel_status(struct execution *execution); /* its kernel's exit status is known */
void cell_cancel(struct execution *execution, const struct error *err); /* it waits in the queue */
void cell_abandon(struct execution *execution); /* its last watcher left: interrupt, then kill */
char *cell_text(const struct execution *execution); /* for the index; NULL: no memory */
void cell_load(struct execution *execution, const char *text);
void cell_attach(
    struct execution *execution); /* adoption: finds its kernel, if it is still there */
void cell_free(struct execution *execution);
extern const struct exec_events cell_exec_events;

size_t cell_keep(struct execution *execution, enum box_stream stream, const void *data,
                 size_t length);

/* cell_install.c */
int cell_install_new(struct execution *execution); /* sets cell->install, if it is configured */
void cell_install_free(struct execution *execution);
size_t cell_install_hold(struct execution *execution, const char *data,
                         size_t length);               /* holds events back */
void cell_install_flush(struct execution *execution);  /* passes held events on */
bool cell_install_begin(struct execution *execution);  /* true: an installation was started */
bool cell_install_cancel(struct execution *execution); /* true: an installation was under way */

/* kept.c */
uint64_t execution_kept(const struct execution *execution);   /* bytes in files */
uint64_t execution_stored(const struct execution *execution); /* bytes in files and in its row */
bool executions_drop_oldest(struct session *session);         /* its output; false: none is left */
/* Removes output of executions that ended before, of at most *left, which is reduced. */
void executions_age(struct session *session, uint64_t before_ms, unsigned *left);
void executions_trim(struct session *session,
                     unsigned keep); /* drops ended executions without a reader */
void executions_drop_output(
    struct session *session); /* reduces output on disk to the session's share */

/* import_check.c: SANDBOX_BLOCK_DANGEROUS_IMPORTS */
struct import_check;
struct import_check_spec {
    const char *program; /* Python's path in the box */
    const char *code;    /* copied */
    size_t length;
    void (*done)(void *ctx, const struct error *err); /* NULL: it may run */
    void *ctx;
    char ***modules; /* gets the blocked modules, a strv; NULL: not wanted */
    const struct config *config;
};
int import_check_start(struct box *box, const struct import_check_spec *spec,
                       struct import_check **ret, struct error *err);
void import_check_leave(
    struct import_check *import_check); /* done() is not called any more; NULL is fine */

/*
 * guest_install.c: requests of the pip in a session's box, which count while a call with
 * SANDBOX_AUTO_INSTALL is under way. start: the box is new. adopt: it is an earlier broker's. call:
 * before a call with this configuration gets its id in the box; its frames come after ours.
 * guest_install_free() comes before the box goes; NULL is fine.
 */
void guest_install_start(struct session *session);
void guest_install_adopt(struct session *session);
void guest_install_call(struct session *session, const struct config *config);
void guest_install_free(struct guest_install *guest);

/* dataset_push.c: copies into a container; does nothing for other boxes */
void dataset_push(struct session *session, const char *file); /* one that was added */
void datasets_push(struct session *session, bool is_new); /* all; not is_new: only missing ones */
void datasets_push_free(struct session *session);
/* session.c: the provider that stopped beneath the session; NULL: it ended for another reason */
const char *session_gone_provider(const struct session *session);
#define REASON_PROVIDER_GONE "provider_gone"
bool session_is_ready(
    const struct session *session); /* session.c: its box and all datasets are ready */

/* template_env.c */
const char *template_env_program(const struct session_manager *manager, const struct config *config,
                                 const struct session_language *language, bool has_layer,
                                 const struct provider_row *row);
/* interpreters.c: what the box needs besides the daemon's own; false: it gets no warm kernel. */
struct make_request;
bool request_interpreters(const struct session_manager *manager, const struct config *config,
                          struct make_request *request);
void session_take_template(struct session *session, const struct session_template *found_template);
int session_apply_template(struct session *session, struct session_template *ret,
                           struct error *err);
const char *session_program(const struct session *session, const struct session_language *language);
char **session_env(const struct session *session, json_t *over); /* strv; NULL: no memory */

/*
 * input.c: standard input that came with the request. It is stored in a file, so that a broker that
 * adopts the command can continue where the warden says.
 */
/* Sets execution->input_write if a thread does it, after which execution_ask_box() is called. */
int input_store(struct execution *execution, const struct execution_spec *spec, struct error *err);
void input_write_leave(struct execution *execution);
void execution_ask_box(struct execution *execution); /* execution.c: it starts as soon as it can */
int input_open(
    struct execution *execution); /* opens the file of an earlier broker; -ENOENT: none */
void input_push(struct execution *execution); /* as much as the window takes */
void input_tell(
    struct execution *execution); /* calls the waiters: there is room, or never will be again */
void input_remove(struct execution *execution);

/* outputs.c, datasets.c */
int output_folder(struct session *session, bool makes_it); /* output_open.c; a descriptor */
void output_announce(struct session *session, const struct session_output *output);
void outputs_remove(
    struct session *session); /* after its end; the local tenant's own copies stay */
void outputs_free(struct session *session);
void outputs_fail(struct session *session, const struct error *err);
struct output_row;
bool session_output_is_newest(struct session *session, const struct output_row *row);
bool outputs_are_collected(const struct session *session); /* a collection is under way */
void datasets_remove(struct session *session);
/* succession.c */
bool datasets_outlive(const struct session *session); /* ENDING: whether a successor gets them */
void datasets_keep(struct session *session);          /* ENDED: they wait for it */
void datasets_let_go(struct session *session);        /* no longer; nothing if they do not wait */
/* The oldest ones of a tenant that wait are removed; false: there are none. */
bool datasets_make_room(struct session_manager *manager, const char *tenant);
int datasets_prepare(struct session *session, struct error *err); /* makes the folder */

/* tree.c */
int session_manager_discard(struct session_manager *manager, int folder_fd,
                            const char *name); /* moves it away, to be removed */
void session_manager_sweep_old(
    struct session_manager *manager);      /* finishes what an earlier broker left unfinished */
void session_manager_sweep(void *manager); /* removes a part of it */

/* adopt.c */
void found_free(struct session_manager *manager);

/* warm.c */
void looks_free(struct session_manager *manager); /* no callback comes any more */

/* run.c */
void runs_fail(struct session_manager *manager, const struct error *err);
void runs_resume(struct session_manager *manager); /* run.c: continues output that was held back */
void runs_free(struct session_manager *manager);   /* no callback comes any more */
void run_box_ended(struct session_manager *manager, uint32_t number, unsigned why);
void run_kernel_ended(struct session_manager *manager, const struct kernel_end *end);

/* ---- what ages out (retention.c) ---- */

int retention_start(struct session_manager *manager); /* -ENOMEM */
bool retention_look(struct session_manager *manager); /* some of what is due; true: there is more */
void retention_stop(struct session_manager *manager); /* safe twice */
/* Counts a file of stored code (NULL: none was stored) for its tenant, or removes it again. */
void retention_code(struct session_manager *manager, const char *tenant, const char *path);

#endif
