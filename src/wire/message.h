/*
 * message.h - what the frames say: one struct for each kind with a fixed shape, packed and unpacked
 * here and nowhere else, so that host and warden cannot disagree.
 *
 * message_*_pack() return the payload's length or -EMSGSIZE; message_*_unpack() return 0 or
 * -EPROTO. Unpacked pointers borrow from the frame.
 *
 * Runs in: broker, hosts, launcher, box
 */
#ifndef BAILEY_WIRE_MESSAGE_H
#define BAILEY_WIRE_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/frame.h"

#define MESSAGE_STAGES_MAX 48
#define MESSAGE_LACKS_MAX 32
#define MESSAGE_STREAMS 3 /* standard output, error, and a cell's events */

/* READY: the box is ready. */
/* READY: which descriptors come along, in this order. */
#define READY_HAS_RULESET 1u /* Landlock's */
#define READY_HAS_EGRESS 2u  /* a listening socket for the egress proxy */
#define READY_FDS_MAX 2
struct message_ready {
    uint16_t version;
    uint32_t layers;
    uint32_t missing;
    uint8_t descriptors; /* READY_HAS_* */
    uint32_t stage_ns[MESSAGE_STAGES_MAX];
    uint8_t stage_count;
    /* why a layer is missing, one errno for each bit of `missing`, by layer number */
    uint16_t lack_errno[MESSAGE_LACKS_MAX];
};
ssize_t message_ready_pack(const struct message_ready *ready, uint8_t *data, size_t size);
int message_ready_unpack(const struct frame *frame, struct message_ready *ret);

/* FAILED and NOEXEC: stage, errno, and which step of the stage (an index into the plan). */
struct message_fail {
    uint16_t stage;
    uint16_t error;
    uint16_t step;
};
ssize_t message_fail_pack(const struct message_fail *fail, uint8_t *data, size_t size);
int message_fail_unpack(const struct frame *frame, struct message_fail *ret);

/*
 * EXEC: argc + envc + 1 strings (the working folder last, may be empty) are in the ARGS frames
 * before it, each with its NUL, args_length bytes in all.
 */
#define EXEC_STDIN 1u /* standard input comes as STDIN frames; otherwise it is empty */
#define EXEC_ENDS_BOX \
    2u /* when it ends, all processes of the box end, and the box too if no output is waiting */
#define EXEC_KEEP 4u /* after its end it stays until FORGET, for a host that may come back */
#define EXEC_PTY 8u  /* on its own terminal: all output is stream 1, input is STDIN frames */
/* the program is a kernel: descriptor 3 is its socket (docs/kernels.md), its output is that of its
 * cells, and its id is what cells name; it stays until it ends or is killed */
#define EXEC_KERNEL 16u
/*
 * a Python kernel: forked from the box's zygote if there is one, without the environment and folder
 * given here; STARTED says whether it was
 */
#define EXEC_FORK 32u
struct message_exec {
    uint32_t flags;
    uint32_t argc, envc;
    uint32_t args_length;
    uint16_t rows, columns; /* EXEC_PTY */
};
ssize_t message_exec_pack(const struct message_exec *exec, uint8_t *data, size_t size);
int message_exec_unpack(const struct frame *frame, struct message_exec *ret);

/*
 * KERNEL: a process that the launcher put into the box; id: chosen by the broker. Comes with three
 * descriptors: the kernel's socket, then the reading ends of its standard output and error. The
 * warden is not its parent: it learns of its end from a pidfd, and never learns its status. It does
 * not mention it to a host that has not named it, by a CELL or a RESUME. A kernel whose id is in
 * use, or that exceeds the limit, is killed.
 */
struct message_kernel {
    int32_t pid; /* in the box */
};
ssize_t message_kernel_pack(const struct message_kernel *kernel, uint8_t *data, size_t size);
int message_kernel_unpack(const struct frame *frame, struct message_kernel *ret);

/*
 * CELL: like EXEC a command in every answer (STARTED, OUTPUT on streams 1, 2 and 3, EXITED), with
 * its own id. Code, input and environment ("K=V" strings, each with its NUL) are in the ARGS frames
 * before it, in this order. Cells of one kernel run in the order of arrival. SIGNAL on a cell is
 * sent to its kernel's process group; SIGKILL ends the kernel. NOEXEC with ESRCH: no such kernel.
 */
#define CELL_SCRIPT 1u /* as a separate program; the kernel ends with it */
#define CELL_INPUT 2u  /* input was given, if empty */
#define CELL_KEEP 4u   /* as EXEC_KEEP */
/* the first string of the environment is the folder that the kernel enters before anything else;
 * NOEXEC with GUEST_STAGE_FOLDER: there is none, and the kernel has not heard of the cell */
#define CELL_FOLDER 8u
struct message_cell {
    uint32_t kernel;
    uint32_t flags;
    uint32_t code_length, input_length, env_length;
};
ssize_t message_cell_pack(const struct message_cell *cell, uint8_t *data, size_t size);
int message_cell_unpack(const struct frame *frame, struct message_cell *ret);

/* STDIN, PUT_DATA, OUTPUT and DATA: bytes of a stream at an offset. */
struct message_bytes {
    uint8_t stream;
    uint64_t offset;
    const void *data;
    size_t length;
};
#define MESSAGE_BYTES_HEADER 9
int message_bytes_unpack(const struct frame *frame, struct message_bytes *ret);
void message_bytes_header(uint8_t header[MESSAGE_BYTES_HEADER], uint8_t stream, uint64_t offset);

/* ACK */
struct message_ack {
    uint8_t stream;
    uint64_t offset;
};
ssize_t message_ack_pack(const struct message_ack *ack, uint8_t *data, size_t size);
int message_ack_unpack(const struct frame *frame, struct message_ack *ret);

/* STARTED: when, on the monotonic clock that box and host share, and the pid that the box sees. */
#define STARTED_FORKED 1u /* from the box's zygote */
struct message_started {
    uint64_t start_ns;
    uint8_t flags;
    uint32_t pid; /* 0: unknown. It and the flags may be left out: zero. */
};
ssize_t message_started_pack(const struct message_started *started, uint8_t *data, size_t size);
int message_started_unpack(const struct frame *frame, struct message_started *ret);

/* EXITED */
#define EXITED_DISK_FULL 1u
#define EXITED_MEMORY_WATCHDOG 2u
#define EXITED_HAS_OUTPUT 4u  /* /tmp/output is not empty: a listing is worth its while */
#define EXITED_KERNEL_DIED 8u /* a cell: its kernel ended under it, or had before it began */
#define EXITED_STATUS_EXTERNAL \
    16u /* of a kernel that the launcher put into the box: the launcher knows its status */
struct message_exited {
    int32_t exit_code;
    uint32_t signal;
    uint32_t flags;
    uint64_t duration_ns;
    uint64_t out_bytes, err_bytes;
    uint64_t event_bytes;           /* with those over LIMIT_CELL_EVENTS, which were dropped */
    uint64_t cpu_us, max_rss_bytes; /* of the command and those of its children it waited for */
};
ssize_t message_exited_pack(const struct message_exited *exited, uint8_t *data, size_t size);
int message_exited_unpack(const struct frame *frame, struct message_exited *ret);

/* INVENTORY: a command as the warden knows it. */
#define INVENTORY_STARTED 1u
/* EXITED follows a RESUME once all output is sent again; of one that never STARTED, NOEXEC does */
#define INVENTORY_EXITED 2u
#define INVENTORY_PTY 4u
#define INVENTORY_KERNEL 8u /* cells may name it; a RESUME from 0 requests a report of its end */
#define INVENTORY_GIVEN 16u /* besides: by the launcher */
#define INVENTORY_CELL 32u
#define INVENTORY_FORKED 64u /* a kernel, by the box's zygote */
struct message_inventory {
    uint32_t generation; /* of the HELLO that it answers: an earlier host may have asked too */
    uint32_t flags;
    uint64_t start_ns;               /* monotonic; 0: not started */
    uint32_t kernel;                 /* INVENTORY_CELL: its kernel */
    uint64_t acked[MESSAGE_STREAMS]; /* the first byte of each stream that is still kept */
    uint64_t read[MESSAGE_STREAMS];  /* bytes written by the guest so far */
    uint64_t input_received;         /* standard input continues at this offset */
    bool input_ended;
    uint32_t pid; /* as in STARTED; may be left out */
};
ssize_t message_inventory_pack(const struct message_inventory *inventory, uint8_t *data,
                               size_t size);
int message_inventory_unpack(const struct frame *frame, struct message_inventory *ret);

/* WELCOME: the highest id that the warden has ever seen, so that none is used twice. */
/* (packed as one number, below) */

/* RESUME: offsets of the streams; acked <= offset <= read, else the warden ends the box. */
struct message_resume {
    uint64_t offset[MESSAGE_STREAMS];
};
ssize_t message_resume_pack(const struct message_resume *resume, uint8_t *data, size_t size);
int message_resume_unpack(const struct frame *frame, struct message_resume *ret);

/* RESIZE */
struct message_size {
    uint16_t rows, columns;
};
ssize_t message_size_pack(const struct message_size *terminal, uint8_t *data, size_t size);
int message_size_unpack(const struct frame *frame, struct message_size *ret);

/* CONNECT: to 127.0.0.1, or to ::1 if nothing listens there. */
ssize_t message_port_pack(uint16_t port, uint8_t *data, size_t size);
int message_port_unpack(const struct frame *frame, uint16_t *ret); /* never 0 */

/* LISTENING: ports in ascending order, each once. */
struct message_listening {
    uint16_t ports[LIMIT_LISTED_PORTS];
    uint16_t count;
    bool is_cut; /* there are more than fit */
};
ssize_t message_listening_pack(const struct message_listening *listening, uint8_t *data,
                               size_t size);
int message_listening_unpack(const struct frame *frame, struct message_listening *ret);

/* SIGNAL, DONE and WELCOME: one number. */
ssize_t message_number_pack(uint32_t number, uint8_t *data, size_t size);
int message_number_unpack(const struct frame *frame, uint32_t *ret);

#endif
