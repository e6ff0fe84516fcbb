/*
 * command.h - a command of the box and its streams, as the files that make up its life see them.
 * Private to warden/; the rest of it knows warden_private.h.
 *
 * Theory of operation. An out_stream is a ring: bytes are read from the guest while there is room,
 * sent while the channel takes them, and kept until the host has acknowledged them. A full ring
 * blocks the guest's write and nothing else. EXITED follows the last byte of output.
 *
 * Hosts come and go. From a HELLO on a command is silent: it runs, its rings fill, and it says
 * nothing until the new host has named the offsets from which it wants the output (RESUME). What
 * was said to the host before does not count: it may never have been read.
 *
 * Runs in: box
 */
#ifndef BAILEY_WARDEN_COMMAND_H
#define BAILEY_WARDEN_COMMAND_H

#include "warden/warden_private.h"

struct out_stream {
    struct loop_source source; /* watches the descriptor while the ring has room */
    struct command *command;
    uint8_t number;
    int fd;                     /* the guest's pipe or terminal; -1 after its end */
    struct kernel_pipe *pipe;   /* the cell that borrowed it; else NULL */
    char *ring;                 /* WIRE_STREAM_WINDOW bytes, or NULL before the first */
    uint64_t read, sent, acked; /* offsets: acked <= sent <= read <= acked + window */
    uint64_t stop;              /* bytes from here on do not belong to this command */
};

struct in_stream {
    struct loop_source source; /* the pipe or terminal to the guest; fd -1 after its end */
    struct command *command;
    struct buf waiting; /* bytes the guest has not taken yet */
    uint64_t received, taken;
    bool has_end, is_end_written; /* the latter: of a terminal */
    char last;                    /* byte that was received: a line begins after a newline */
};

struct command {
    struct command *next; /* started after this one */
    struct warden *warden;
    uint32_t id;
    pid_t pid;
    bool ends_box, keeps, is_pty;
    bool is_silent;    /* a new host has not asked for it yet */
    bool is_forgotten; /* its end will not be reported */
    struct in_stream in;
    struct out_stream out[MESSAGE_STREAMS]; /* the third of a cell only */
    int peer_fd;             /* the guest's end of its terminal, held until it has exited; -1 */
    struct loop_source exec; /* the note of spawn.c */
    uint64_t start_ns;       /* 0: not yet */
    bool has_started, has_failed, has_exited;
    bool was_signalled; /* by the host */
    struct exec_failure failure;
    bool is_start_told, is_end_told; /* to this host: STARTED or NOEXEC; EXITED or NOEXEC */
    int status;
    struct message_exited end; /* whole once has_facts */
    uint64_t end_ns;
    bool has_facts;

    /* kernel.h */
    bool is_kernel, is_cell;
    bool is_forked;        /* a kernel: by the box's zygote */
    bool is_unnamed;       /* a kernel that the launcher put here, and that no host has named yet */
    struct kernel *kernel; /* its kernel data; or of a cell: its kernel, until it has left it */
    struct message_cell cell; /* as it was asked for */
    struct buf text;          /* code, input and environment, until the kernel has them; of a
                                 kernel the strings of its EXEC, until it is forked */
    uint64_t cpu_ns;          /* of the kernel when the cell began */
};

/* command.c */
struct command *command_new(struct warden *warden, uint32_t id, uint32_t flags); /* EXEC_* */
struct command *command_by_id(const struct warden *warden, uint32_t id);
void command_free(struct command *command);
int command_watch_exec(struct command *command, int fd); /* owns it: spawn.c's note */
void command_failed(struct command *command, uint16_t stage, int negative_errno);
bool command_is_held(const struct command *command); /* by a kernel: it cannot be freed yet */
/* Sends STARTED or NOEXEC, once it is known, if it was not sent and a host listens. */
void command_tell_start(struct command *command);

/* start.c */
struct guest_start;
/* The guest of an EXEC whose strings are `args`; -EPROTO: they are malformed. */
int command_spawn(struct warden *warden, const struct message_exec *exec, const struct buf *args,
                  struct guest_start *start, struct spawned *ret);
/* A kernel that was to be forked, and cannot be: its strings are in its `text`. */
void command_start_later(struct command *kernel, const struct message_exec *exec);
bool command_make_room(struct warden *warden); /* for one more */
/* It does not run, and this is why: NOEXEC. */
void command_refuse(struct command *command, uint16_t stage, int negative_errno);

/* out_stream.c */
void out_stream_init(struct out_stream *stream, struct command *command, int index);
int out_stream_open(struct out_stream *stream, int fd); /* owns it */
void out_stream_borrow(struct out_stream *stream, struct kernel_pipe *pipe);
void out_stream_read(struct out_stream *stream);         /* what is there and the ring can hold */
bool out_stream_produce(struct out_stream *stream);      /* true when it sent something */
void out_stream_stop(struct out_stream *stream);         /* what is in the pipe now is its last */
size_t out_stream_room(const struct out_stream *stream); /* bytes that the ring can take */
void out_stream_put(struct out_stream *stream, const char *data, size_t length); /* there is room */
bool out_stream_is_full(const struct out_stream *stream);
bool out_stream_is_done(
    const struct out_stream *stream);             /* all is sent, and nothing more will come */
void out_stream_close(struct out_stream *stream); /* reads no more; the ring stays */
void out_stream_let_go(
    struct out_stream *stream); /* the same; processes that still write may continue */
void out_stream_free(struct out_stream *stream);
/* The host has everything before `offset` (between acked and read). */
void out_stream_acknowledge(struct out_stream *stream, uint64_t offset);
/* The same, and everything after it is sent again. */
void out_stream_rewind(struct out_stream *stream, uint64_t offset);

/* in_stream.c */
void in_stream_init(struct in_stream *input, struct command *command);
int in_stream_open(struct in_stream *input, int fd); /* owns it */
void in_stream_close(struct in_stream *input);
void in_stream_tell(struct in_stream *input); /* acknowledges what the guest took */

#endif
