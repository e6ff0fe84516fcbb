/*
 * kernel.h - a kernel as warden/ sees it, and the cells that it runs (docs/kernels.md). Private to
 * warden/.
 *
 * Theory of operation. A kernel is a command (its process, its id, its end) with a socket and two
 * pipes that outlive each cell. A cell is a command without a process: while it is the current one
 * of its kernel, its first two streams read the kernel's pipes, and lines of the socket are its
 * third. `end` says that all its output is in the pipes: that many bytes still belong to it, and
 * when they are in its rings the next cell begins. The rest is as for commands: rings that are kept
 * until they are acknowledged, EXITED after the last byte, HELLO and RESUME.
 *
 * A slow reader delays this kernel and nothing else: a full ring of output leaves its pipe unread,
 * a full ring of events the socket.
 *
 * A kernel that has died keeps its socket and pipes until its last cell has what is in them. Its
 * own end is reported after that.
 *
 * Runs in: box
 */
#ifndef BAILEY_WARDEN_KERNEL_H
#define BAILEY_WARDEN_KERNEL_H

#include "warden/command.h"
#include "warden/kernel_line.h"

struct kernel_pipe {
    struct loop_source source; /* watched while a cell reads it, or until it is hung up */
    struct kernel *kernel;
    int index; /* of the stream that it feeds */
    int fd;    /* -1: the guest has closed it */
};

struct kernel {
    struct warden *warden;
    struct command *command; /* which it is */
    pid_t pid;               /* 0: it is not there yet */
    bool is_unwanted;        /* it is to be killed when it is */
    bool from_zygote;        /* not our child: `end` reports that it has ended, not its status */
    bool is_dead, is_taking; /* the latter: messages of its socket are being handled */
    struct loop_source socket, end;
    int socket_fd; /* -1 once it is over; `socket` watches it while there is something to do */
    struct kernel_pipe pipe[2];
    struct kernel_line line;
    struct command *current; /* the cell that runs, or whose last bytes are not read yet */
    char head[96];           /* of the current cell's message, which its text follows */
    size_t head_length, written;
    size_t left; /* bytes in the socket of a dead one that are not read yet */
};

/* kernel.c: takes the descriptors (socket, stdout, stderr); pid 0: they come later, with its pid */
void kernel_open(struct command *command, pid_t pid, const int fd[3]);
void kernel_place(struct kernel *kernel, pid_t pid, const int fd[3]);
void kernel_free(struct kernel *kernel);
bool kernel_make_room(struct warden *warden); /* for one more */
void kernel_read(struct kernel *kernel);      /* one piece of what it says */
void kernel_write(struct kernel *kernel);     /* what of the current cell's message it takes */
void kernel_next(struct kernel *kernel);      /* begins the next cell, if it is time */
void kernel_go_on(struct kernel *kernel);     /* there is room for events again */
void kernel_died(struct kernel *kernel);      /* its command has exited */
void kernel_kill(struct kernel *kernel);      /* with all processes it started */
void kernel_signal(struct kernel *kernel, int number);
void kernel_pipe_close(struct kernel_pipe *pipe);
uint64_t kernel_cpu_ns(const struct kernel *kernel); /* 0: unknown */

/* cell.c: a cell that has begun reports it (STARTED) when the previous one has reported its end */
void cell_begin(struct kernel *kernel, struct command *cell);
void cell_event(struct command *cell, const char *data, size_t length);
void cell_end(struct command *cell, int status); /* as wait(2) would say it */
void cell_lose(struct command *cell);            /* its kernel has died */
void cell_settle(struct command *cell);          /* a stream of it has ended */
void cell_room(struct command *cell);            /* its events were acknowledged */
void cell_signal(struct command *cell, int number);
void cell_forget(
    struct command *cell); /* no host wants its result: it is forgotten, now or at its end */

#endif
