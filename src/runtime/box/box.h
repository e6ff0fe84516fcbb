/*
 * box.h - box_ops: what happens inside a box, over frames to its warden, for every provider.
 *
 * Without its own loop: a box has one descriptor; the owner polls it for box_poll_events() and
 * calls box_pump() when it is ready or when box_next_deadline_ms() has come. Callbacks are called
 * from inside box_pump() and box_resume() only; they may use the box, except for those two and
 * box_free(). Every frame from a warden is hostile input: one that breaks the protocol loses its
 * box and nothing else. Deadlines are kept here, not in the warden. Never blocks.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_RUNTIME_BOX_BOX_H
#define BAILEY_RUNTIME_BOX_BOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "model/result.h"
#include "model/spec.h"

struct box;
struct provider_row;

enum box_stream {
    BOX_STDIN = 0,
    BOX_STDOUT = 1,
    BOX_STDERR = 2,
    BOX_EVENTS = 3 /* BOX_EVENTS: of a cell */
};
#define BOX_STREAMS 3 /* output streams: arrays of them are indexed by stream - 1 */

/* How a command ended. */
struct exec_end {
    int exit_code;        /* the program's own; invalid if signal is set */
    int signal;           /* 0: it exited */
    bool timed_out;       /* the engine's deadline, not a claim of the warden */
    bool disk_full;       /* the box's disk had no block or no inode left */
    bool memory_watchdog; /* ended by the warden's watchdog: no cgroup enforced the memory limit */
    bool has_output;      /* /tmp/output is not empty */
    bool kernel_died;     /* a cell: its kernel ended during it or before */
    uint64_t events_dropped; /* bytes of a cell's events above LIMIT_CELL_EVENTS */
    bool status_external;    /* a kernel from a zygote: the provider reports exit_code and signal */
    uint64_t duration_ns;
    struct usage usage; /* the warden's numbers, from wait4(2) */
};

struct exec_events {
    void (*forked)(
        void *ctx); /* a kernel, forked by the box's zygote; before started(); may be NULL */
    void (*started)(void *ctx); /* may be NULL */
    /* Return the number of bytes taken; less than length stops the stream until box_resume(). */
    size_t (*output)(void *ctx, enum box_stream stream, const void *data, size_t length);
    void (*ended)(void *ctx, const struct exec_end *end); /* exactly one of these two is called, */
    void (*failed)(void *ctx, const struct error *err);   /* as the last callback */
    void (*stdin_ready)(void *ctx);                       /* room for more; may be NULL */
};

/* Bytes of a stream that are taken before any is acknowledged: until then the warden keeps them. */
#define BOX_ACK_BYTES (128 * 1024)

int box_exec(struct box *box, const struct exec_spec *spec, const struct exec_events *events,
             void *ctx, uint32_t *ret_id, struct error *err);
/* Returns bytes taken, 0 when the window is full (stdin_ready follows), or a negative errno. */
long box_stdin(struct box *box, uint32_t id, const void *data, size_t length);
void box_stdin_end(struct box *box, uint32_t id);
void box_resume(struct box *box, uint32_t id, enum box_stream stream);
/*
 * SIGKILL ends all guests of the box if the exec has ends_box, else the command with all processes
 * it started; other signals go to its process group.
 */
void box_signal(struct box *box, uint32_t id, int signal);
/* 0, -ENOTTY: no pty, -ESRCH: it has ended, -EINVAL: over LIMIT_TERMINAL. */
int box_resize(struct box *box, uint32_t id, unsigned rows, unsigned columns);
/* The pid of a started exec, as its own box sees it and its warden says; 0: unknown. */
uint32_t box_pid(struct box *box, uint32_t id);
/*
 * An exec with `keeps` has ended or failed, and the caller has recorded it: the warden may drop it.
 * A running exec is not dropped.
 */
void box_forget(struct box *box, uint32_t id);

/*
 * Kernels and cells (docs/kernels.md). A kernel is started cold by box_kernel(), whose events are
 * those of an exec without output: ended() when the process is gone, after those of its cells. Or
 * the provider supplies it: then box_kernel_given() sets its id and the events of its end
 * (status_external: the status comes from the provider). It takes the id: call it before the
 * provider is asked for one more (box_next_id()), or with the id of a box that was made with one.
 * is_wardens: it came with the box and the warden started it, so the warden reports its status.
 * Nothing is sent: the warden reports its end from the first box_cell() or box_signal() on. If the
 * provider refuses, box_forget() releases the id without a callback.
 *
 * A cell is an exec in every respect: output() also with BOX_EVENTS, its deadline is kept here
 * (SIGINT, again after half of CELL_GRACE_MS, then SIGKILL, which ends the kernel; a script is
 * killed at once, as a command is), box_signal(), box_forget(), box_resume() as for an exec. A cell
 * that waits for its turn has not started(); any signal removes it from the queue (ended() with
 * that signal). If its kernel is gone (-ESRCH, or ended() with kernel_died), start another.
 */
#define CELL_GRACE_MS 2000
int box_kernel(struct box *box, const struct exec_spec *spec, const struct exec_events *events,
               void *ctx, uint32_t *ret_id, struct error *err);
int box_kernel_given(struct box *box, uint32_t id, bool is_wardens,
                     const struct exec_events *events, void *ctx, struct error *err);
struct cell_spec {
    uint32_t kernel;
    const char *code;
    size_t code_length;
    const char *input; /* NULL: none */
    size_t input_length;
    const char *const *env; /* NULL-terminated "K=V" for this cell; NULL: none */
    const char *folder;     /* changed to first; NULL: the kernel's current folder */
    uint64_t timeout_ms;    /* 0: none */
    bool is_script;         /* the kernel becomes the program, and ends with it */
    bool keeps;             /* as in exec_spec */
};
int box_cell(struct box *box, const struct cell_spec *spec, const struct exec_events *events,
             void *ctx, uint32_t *ret_id, struct error *err);

/*
 * Adopts a box whose earlier host process is gone (box_new() on the same channel). All frames
 * before the WELCOME are dropped; then found() is called for each command in the box, and done()
 * once. In found() the caller may adopt a command: output continues at these offsets, then its end
 * follows. timeout_ms counts from now. A command that is not adopted is killed and forgotten. File
 * operations of the earlier host are gone, unfinished uploads with them. No two hosts of a box may
 * use the same generation. Must be the first call on a box; nothing else may be called before
 * done().
 */
struct box_found {
    uint32_t id;
    bool has_started, has_exited, is_pty; /* exited and never started: failed() will report why */
    bool is_kernel, from_zygote;          /* a kernel: box_adopt_kernel() keeps it */
    bool is_forked;                       /* also: forked by the box's zygote */
    bool is_cell;
    uint32_t kernel; /* the cell's kernel */
    uint32_t pid;    /* box_pid() */
    uint64_t start_ns;
    uint64_t first[BOX_STREAMS];   /* offsets of the oldest bytes that are still available */
    uint64_t written[BOX_STREAMS]; /* bytes written by the guest so far */
    uint64_t input;                /* offset at which standard input continues */
};
struct adopt_events {
    void (*found)(void *ctx, const struct box_found *found);
    void (*done)(void *ctx, const struct error *err); /* err->num 0: the box is usable */
};
int box_hello(struct box *box, uint32_t generation, const struct adopt_events *events, void *ctx,
              struct error *err);
/*
 * Only inside found(). stdin: box_stdin() continues after the bytes received. -ERANGE: bad offsets.
 */
int box_adopt(struct box *box, uint32_t id, const uint64_t offset[BOX_STREAMS], uint64_t timeout_ms,
              const struct exec_events *events, void *ctx, struct error *err);
/* Only inside found(). */
int box_adopt_kernel(struct box *box, uint32_t id, const struct exec_events *events, void *ctx,
                     struct error *err);

/* File operations are in files.h. */

/*
 * Freezing. box_freeze() and box_thaw() ask the warden to stop all processes of the box except
 * itself, and to continue them; done_events as of a file operation. box_clock_stop() and
 * box_clock_start() hold back every deadline of the box meanwhile, whatever froze it; both are safe
 * twice. box_fail_files() ends the operations on files that are under way, except watches, with
 * this error.
 */
struct done_events;
int box_freeze(struct box *box, const struct done_events *events, void *ctx, struct error *err);
int box_thaw(struct box *box, const struct done_events *events, void *ctx, struct error *err);
void box_clock_stop(struct box *box);
void box_clock_start(struct box *box);
void box_fail_files(struct box *box, const struct error *err);
/* box_hello() was not answered yet. */
bool box_is_adopting(const struct box *box);

/* For providers: a box over a connected SOCK_SEQPACKET descriptor, which it then owns. */
int box_new(int fd, void *provider_data, struct box **ret, struct error *err);
void *box_provider_data(const struct box *box); /* the pointer given to box_new() */
void box_free(struct box *box); /* pending calls are dropped without a callback; NULL is fine */
/*
 * Sets the provider that made it. With PROVIDER_HOSTED there is a provider host between the broker
 * and the warden, whose last frame (FRAME_LOST) says why the box is lost.
 */
void box_set_provider(struct box *box, const struct provider_row *row);
void box_blame(struct box *box,
               unsigned why); /* the reason, reported by its provider; the first one counts */
bool box_lost_provider(const struct box *box);                /* because its provider stopped */
int box_lost_error(const struct box *box, struct error *err); /* the box is lost, or about to be */

/*
 * Fails every pending call with this error; the box takes no more calls. Not to be called inside a
 * callback.
 */
void box_fail(struct box *box, const struct error *err);

/* For the owner's loop. */
/* wake() is called if poll events or the deadline may have changed outside box_pump(). */
void box_on_wake(struct box *box, void (*wake)(void *ctx), void *ctx);
uint32_t box_next_id(const struct box *box);    /* the id that the next call will have */
void box_reserve(struct box *box, uint32_t id); /* the provider used it: no call here gets it */
int box_fd(const struct box *box); /* -1 once the box is lost: nothing more will arrive */
short box_poll_events(const struct box *box);
bool box_is_busy(const struct box *box); /* a call is under way, other than a watch or a kernel */
uint64_t box_next_deadline_ms(const struct box *box); /* clock_now_ms() scale; UINT64_MAX: none */
/* 0, or a negative errno once the box is lost; every pending call has then failed. */
int box_pump(struct box *box, struct error *err);

#endif
