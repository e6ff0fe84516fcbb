/*
 * warden_private.h - the warden's own state, shared by its files only.
 *
 * Theory of operation. One loop. Frames from the host are handled as they arrive. Frames to the
 * host are of two kinds: control frames go into a queue that is always sent first; bytes (output,
 * file contents, listings) are made by producers only when the channel has room, so they never
 * delay a control frame. A producer has at most one window of bytes that the host has not
 * acknowledged.
 *
 * Runs in: box
 */
#ifndef BAILEY_WARDEN_WARDEN_PRIVATE_H
#define BAILEY_WARDEN_WARDEN_PRIVATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "sandbox/sandbox.h"
#include "sys/loop.h"
#include "wire/message.h"

struct command;
struct drain;
struct file_op;
struct frozen;
struct rusage;
struct notify;
struct port_stream;
struct stream;
struct zygote;

/* kernel_memory.c: files of /proc that are read again and again; -1: not to be had. */
struct kernel_memory {
    int sockets_fd, sockets6_fd, machine_fd;
    /* unreclaimable kernel memory of the machine when locks and when files were counted */
    unsigned long locks_kib, files_kib, hidden_kib;
};

struct warden {
    struct sandbox *sandbox;
    struct loop loop;
    struct loop_source channel, signals, timer;
    struct buf control;       /* whole frames that wait, one after the other */
    bool is_blocked;          /* the channel took no more in this turn */
    struct stream *stream;    /* stream.c; NULL: the channel is one socket and sends packets */
    struct buf args;          /* strings for the next EXEC, text for the next CELL */
    int given[3];             /* descriptors that came with this frame; -1: none */
    struct command *commands; /* in the order of their start */
    struct file_op *files;
    struct port_stream *ports; /* port.c: connections to the box's own servers */
    char *spare_rings[3];      /* out_stream.c: of one cell for the next; NULL: none */
    struct drain *drains;      /* drain.c; newest first */
    unsigned drain_count;
    uint32_t highest_id;   /* that a frame of any host named */
    struct notify *notify; /* notify.c; NULL while nothing is watched */
    struct zygote *zygote; /* zygote.c; NULL: there is none, or no more */
    bool is_alone; /* waitpid(2) says that no child is left: orphans are ours, so no process is left
                    */
    bool has_clock;      /* watch.c looks */
    bool has_guests;     /* one was started, and processes of it may still exist */
    bool watchdog_fired; /* memory exceeded the limit that only we enforce */
    bool disk_was_full;
    struct frozen *frozen; /* freeze.c: the box's processes are stopped; NULL: they are not */
    struct kernel_memory kernel_memory;
};

/* channel.c */
int channel_open(struct warden *warden, int fd);
/* All frames are sent: nothing is lost if the box ends now. */
bool channel_is_clear(const struct warden *warden);
/* Queues a control frame; a host that never reads ends the box. */
void channel_control(struct warden *warden, enum frame_type type, uint32_t id, const void *payload,
                     size_t length);
void channel_done(struct warden *warden, uint32_t id, int negative_errno);
void channel_ack(struct warden *warden, uint32_t id, uint8_t stream, uint64_t offset);
/* Sends bytes of a stream now; false when there is no room (the channel is then watched). */
bool channel_bytes(struct warden *warden, enum frame_type type, uint32_t id, uint8_t stream,
                   uint64_t offset, const void *data, size_t length);
bool channel_frame(struct warden *warden, enum frame_type type, uint32_t id, const void *payload,
                   size_t length);
void channel_flush(struct warden *warden); /* control first, then every producer in turn */

/* stream.c: the channel as two byte streams, for a box whose host is on another machine */
struct iovec;
int stream_open(struct warden *warden, int in_fd, int out_fd);
int stream_send(struct warden *warden, struct iovec *parts, size_t count); /* as send_parts() */
void stream_watch(struct warden *warden);
bool stream_is_clear(const struct stream *stream);

/* dispatch.c */
void dispatch_frame(struct warden *warden, const struct frame *frame);

/* command.c, start.c, in_stream.c */
void command_exec(struct warden *warden, const struct frame *frame);
void command_stdin(struct warden *warden, const struct frame *frame);
void command_stdin_end(struct warden *warden, uint32_t id);
void command_signal(struct warden *warden, const struct frame *frame);
void command_resize(struct warden *warden, const struct frame *frame);
bool command_ack(struct warden *warden, uint32_t id, const struct message_ack *ack);
void command_exited(struct warden *warden, pid_t pid, int status, const struct rusage *usage);
bool command_is_ending(
    const struct warden *warden);            /* one that ends the box waits for the others */
bool command_produce(struct warden *warden); /* true when it sent something */

/* kernel.c, cell.c: KERNEL, which comes with three descriptors in warden->given, and CELL */
void kernel_given(struct warden *warden, const struct frame *frame);
bool kernel_is_watched(
    const struct warden *warden); /* a process that is not a child of any process in the box */
void command_cell(struct warden *warden, const struct frame *frame);

/* zygote.c */
void zygote_start(struct warden *warden, const struct frame *frame); /* ZYGOTE */
/* A kernel whose strings are in warden->args. True: it is started, now or later, forked or not. */
bool zygote_take(struct command *command, const struct message_exec *exec);
void zygote_exited(struct warden *warden, pid_t pid); /* a child; may be any */
void zygote_look(struct warden *warden);              /* is it late? */

/* resume.c: HELLO, RESUME, FORGET */
void warden_hello(struct warden *warden, const struct frame *frame);
void warden_resume(struct warden *warden, const struct frame *frame);
void warden_forget(struct warden *warden, const struct frame *frame);

/* pty.c: 0 or a negative errno */
int pty_pair_open(const struct sandbox *sandbox, const struct message_size *size, int *ret_our,
                  int *ret_guests);
/* Another descriptor of the guest's end, or a negative errno. */
int pty_pair_hold(int fd);
int pty_pair_resize(int fd, const struct message_size *size);
/* The bytes to write for an end of file after the byte `last`: 0, 1 or 2 bytes. */
size_t pty_pair_end(int fd, char last, char end[2]);

/* spawn.c */
struct spawned {
    pid_t pid;
    int fd[3];     /* our ends; [0] -1 without standard input, [2] -1 of a terminal */
    int socket_fd; /* of a kernel; else -1 */
    int exec_fd;   /* says when the program runs, or why not */
};
/* Read from exec_fd: the time (8 bytes) when the exec is tried, then this if it failed. */
struct exec_failure {
    uint16_t stage, error;
};
/*
 * The first guest of a box is started by vfork(2), which copies nothing (0.1 ms); later ones by
 * fork(2): a guest that is already there could stop the child before its exec, and with it the
 * warden.
 */
int spawn_guest(const struct sandbox *sandbox, const struct guest_start *start, bool has_stdin,
                const struct message_size *terminal, /* NULL: pipes */
                bool is_first, struct spawned *ret);
/* Descriptors of a kernel that another process starts: socket, standard output and error. */
int spawn_ends(int ret_ours[3], int ret_theirs[3]);

/* files.c */
bool file_produce(struct warden *warden);
bool file_has_room(const struct warden *warden); /* nothing waits in front of bytes */
bool file_work(struct warden *warden);           /* a bounded piece; true when more is to be done */
void file_cancel(struct warden *warden, uint32_t id);
/*
 * A new host connected: every operation ends, unfinished puts leave nothing, and nothing is
 * reported.
 */
void file_forget_all(struct warden *warden);

/* put.c, get.c, list.c, change.c, notify.c: one frame each */
void file_put(struct warden *warden, const struct frame *frame);
void file_put_data(struct warden *warden, const struct frame *frame);
void file_put_end(struct warden *warden, uint32_t id);
void file_get(struct warden *warden, const struct frame *frame);
bool file_ack(struct warden *warden, uint32_t id, const struct message_ack *ack);
void file_list(struct warden *warden, const struct frame *frame);
void file_stat(struct warden *warden, const struct frame *frame);
bool file_has_output(const struct sandbox *sandbox); /* is anything in /tmp/output? */
void file_mkdir(struct warden *warden, const struct frame *frame);
void file_move(struct warden *warden, const struct frame *frame);
void file_remove(struct warden *warden, const struct frame *frame);
void file_chmod(struct warden *warden, const struct frame *frame);
void file_watch(struct warden *warden, const struct frame *frame);

/* path.c: names of the host's frames, resolved by the kernel beneath the shares */
struct place {
    enum share share;
    int share_fd;                    /* borrowed */
    char name[LIMIT_PATH_BYTES + 1]; /* relative to it; "." for the share itself */
};
int place_find(const struct sandbox *sandbox, const char *path, size_t length, struct place *ret);
/*
 * Where a promised path really is, if the box's folders have other paths than it promises; NULL: it
 * is none, or has its own name. The caller frees it.
 */
char *place_real(const struct sandbox *sandbox, const char *path);
int place_open(const struct place *place, int flags); /* fd or negative errno */

/* drain.c: reads pipes whose command has ended */
void drain_take(struct warden *warden, int fd); /* owns it */

/* kernel_memory.c */
/* What cannot be opened is not watched. */
void kernel_memory_open(struct kernel_memory *memory, const struct sandbox *sandbox);
bool kernel_memory_is_over(struct kernel_memory *memory, const struct sandbox *sandbox);
/* More open and mapped files than a box may have. */
bool kernel_files_are_over(const struct sandbox *sandbox);

/* process_locks.c: more locks than a box may have, or than can be counted, or more files than that;
 * *ret_is_hidden: there is a process whose locks cannot be seen. */
bool process_locks_are_over(const struct sandbox *sandbox, bool *ret_is_hidden);

/* watch.c */
int watch_start(struct warden *warden);
void watch_somebody(struct warden *warden); /* a guest was started */
void watch_clock(struct warden *warden);    /* the same, by another process */
/* Until watch_clock() only freeze_look() is called, at longer intervals: nothing runs. */
void watch_frozen(struct warden *warden);
bool watch_disk_full(const struct warden *warden);

/* proc_tree.c: all processes of the box except the warden */
void proc_tree_kill(const struct sandbox *sandbox);
/* At most one thread: a kernel that waits for its next cell does nothing meanwhile. */
bool proc_tree_is_quiet(const struct sandbox *sandbox);
/*
 * A guest, its session, its process group and all descendants; no other process. root_fd: a pidfd
 * of one that is not our own child, else -1.
 */
void proc_tree_kill_tree(const struct sandbox *sandbox, pid_t root, int root_fd);
uint64_t proc_tree_memory(const struct sandbox *sandbox); /* bytes, roughly */
/*
 * SIGSTOP to all, until they are seen stopped (or cannot be, deep in the kernel: they stop when
 * they leave it). `ret` gets those that were stopped already, at most `room`; returns how many.
 */
size_t proc_tree_stop(const struct sandbox *sandbox, pid_t *ret, size_t room);
/* Those that live, at most `room`; *ret_running: how many of all are not stopped. */
size_t proc_tree_list(const struct sandbox *sandbox, pid_t *ret, size_t room, size_t *ret_running);
/* SIGCONT to all but these; children before their parents, which then never see them stopped. */
void proc_tree_continue(const struct sandbox *sandbox, const pid_t *stopped, size_t count);

/* port.c: CONNECT, PORT_DATA, PORT_END; true: the id is one of its connections */
void port_connect(struct warden *warden, const struct frame *frame);
void port_data(struct warden *warden, const struct frame *frame);
void port_end(struct warden *warden, const struct frame *frame);
bool port_ack(struct warden *warden, uint32_t id, const struct message_ack *ack);
bool port_cancel(struct warden *warden, uint32_t id);
bool port_produce(struct warden *warden);
void port_forget_all(struct warden *warden); /* a new host: they end, and nothing is reported */

/* port_list.c: PORTS */
void port_list(struct warden *warden, const struct frame *frame);

/* freeze.c: FREEZE and THAW */
void warden_freeze(struct warden *warden, const struct frame *frame);
void warden_thaw(struct warden *warden, const struct frame *frame);
/* Frozen: does it hold? True: something ran, so that limits may be exceeded. */
bool freeze_look(struct warden *warden);

void warden_reap(struct warden *warden);

/* Ends the box: nothing can be done any more. */
_Noreturn void warden_end(struct warden *warden);

#endif
