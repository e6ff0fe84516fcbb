/*
 * box_private.h - a box as its own files see it: the channel, and the pending calls.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_RUNTIME_BOX_BOX_PRIVATE_H
#define BAILEY_RUNTIME_BOX_BOX_PRIVATE_H

#include "base/buf.h"
#include "base/limits.h"
#include "launcher/protocol.h"
#include "runtime/box/box.h"
#include "runtime/box/files.h"
#include "runtime/box/ports.h"
#include "runtime/provider.h"
#include "wire/message.h"

enum call_kind {
    CALL_EXEC,
    CALL_PUT,
    CALL_GET,
    CALL_LIST,
    CALL_STAT,
    CALL_CHANGE, /* mkdir, move, remove, chmod */
    CALL_WATCH,
    CALL_PORT,  /* a connection to a port */
    CALL_PORTS, /* the list of them */
};

/* A stream of bytes from the warden: received, taken and acknowledged bytes. */
struct incoming {
    uint64_t received, taken, acked;
    struct buf held; /* received and not taken yet */
};

struct call {
    struct call *next;
    enum call_kind kind;
    uint32_t id;
    void *ctx;
    union {
        const struct exec_events *exec;
        const struct put_events *put;
        const struct get_events *get;
        const struct list_events *list; /* stat too */
        const struct done_events *change;
        const struct watch_events *watch;
        const struct port_events *port;
        const struct ports_events *ports;
    } on;

    /* exec */
    struct incoming in[BOX_STREAMS];
    uint64_t start_deadline_ms;       /* until STARTED or NOEXEC */
    uint64_t timeout_ms, deadline_ms; /* 0: none */
    uint64_t kill_deadline_ms;        /* until EXITED, which must arrive soon */
    uint64_t kill_last_ms;            /* the latest time, while its last output arrives */
    uint64_t kill_received;           /* bytes of output at the last check */
    uint64_t grace_deadline_ms; /* a cell was interrupted: until the next interrupt or the kill */
    bool was_asked_twice;
    bool has_started, was_timed_out, is_pty;
    bool is_kernel, is_cell;
    bool from_zygote; /* the kernel (or the cell's) is from a zygote: the warden does not know its
                         exit status */
    bool is_named;    /* a kernel from the provider: the warden was told its id */
    bool is_script;   /* a cell that ends with its kernel */
    bool is_adopted;  /* adopted: unknown whether it is a script */
    uint32_t kernel;  /* a cell's */
    uint32_t pid;     /* in the box, as its warden says; 0: unknown */
    bool has_exited;
    struct exec_end end; /* stored while output is still held */

    /* exec's standard input, put: bytes to the warden */
    uint64_t sent, acked;
    bool has_ended; /* no more bytes will be sent */

    /* files */
    uint32_t entries;   /* list, stat; watch: 1 once it watches */
    uint64_t bytes_max; /* get */
    uint32_t
        done_errno;     /* get, port: it has ended (has_exited), but held bytes are not taken yet */
    bool is_delivering; /* get, port: inside data() */
    bool is_cancelled;  /* no callback follows; DONE is awaited */
};

struct box {
    int fd;
    void *provider_data;
    uint32_t next_id;
    struct call *calls;
    void (*wake)(void *ctx); /* see box_on_wake() */
    void *wake_ctx;
    struct adoption *adoption;  /* adopt.c: from HELLO to WELCOME; else NULL */
    uint64_t hello_deadline_ms; /* of WELCOME */
    struct buf queue;           /* whole frames that the socket did not take yet */
    uint64_t clock_stopped_ms;  /* clock_now_ms() when box_clock_stop() was called; 0: it runs */
    uint64_t clock_lag_ms;      /* the time that the box's clock stood still */
    const char *broken;         /* why it will be lost at the end of this turn; NULL: it works */
    const struct provider_row *provider; /* NULL: unknown */
    enum launcher_why why;
    bool is_lost;
    struct error lost;
};

/* freeze.c: what deadlines are measured with; it stands still while the box is frozen */
uint64_t box_now_ms(const struct box *box);
/* box.c */
int box_send(struct box *box, enum frame_type type, uint32_t id, const void *payload,
             size_t length);
struct call *box_call(struct box *box, uint32_t id, enum call_kind kind);
struct call *box_call_new(struct box *box, enum call_kind kind, void *ctx, struct error *err);
/* The same with an id that the warden knows already. */
struct call *box_call_add(struct box *box, enum call_kind kind, uint32_t id, void *ctx,
                          struct error *err);
void box_call_free(struct box *box, struct call *call);
/*
 * A protocol error or failed call: the box is lost at the end of the current turn, never inside a
 * callback.
 */
void box_break(struct box *box, const char *why);
/* Sends bytes of a stream to the warden, as many as its window allows. */
long box_send_bytes(struct box *box, struct call *call, enum frame_type type, const void *data,
                    size_t length);

/*
 * Two frames that belong together: sent by one system call, handled in one turn of the warden, if
 * possible.
 */
struct out_frame {
    enum frame_type type;
    uint32_t id;
    const void *payload;
    size_t length;
};
int box_send_two(struct box *box, const struct out_frame frames[2]);
/* Whether the queue has room for this many bytes, if the socket takes none. */
bool box_has_room(const struct box *box, size_t bytes);

/* exec.c, answers.c: frames for a call; true if they are valid */
bool exec_frame(struct box *box, struct call *call, const struct frame *frame);
bool file_frame(struct box *box, struct call *call, const struct frame *frame);
void file_failed(const struct call *call, const struct error *err); /* the box is lost */
/* ports.c: the same for CALL_PORT and CALL_PORTS */
bool port_frame(struct box *box, struct call *call, const struct frame *frame);
void port_failed(const struct call *call, const struct error *err);
void exec_tick(struct box *box, struct call *call, uint64_t now_ms);

/* exec.c: EXEC with these flags in addition to those of the spec */
int exec_send(struct box *box, const struct exec_spec *spec, uint32_t flags,
              const struct exec_events *events, void *ctx, struct call **ret, struct error *err);
int exec_args_add(struct buf *args, const char *text);
int exec_args_send(struct box *box, const struct buf *args);

void exec_folder_error(const struct message_fail *fail, struct error *err);

/* cells.c */
/* Whether a call may end like this; checked for every call of CALL_EXEC. */
bool cell_end_makes_sense(const struct call *call, const struct message_exited *exited);
void cell_no_exec(struct box *box, struct call *call, const struct message_fail *fail);
/* The kernel's next cell must start soon now. */
void cell_expect_next(struct box *box, uint32_t kernel);
bool cell_is_reader_slow(const struct box *box, const struct call *call);
/* Bytes of output received from it, and from a kernel's cells. */
uint64_t cell_received(const struct box *box, const struct call *call);
int kernel_name(struct box *box,
                struct call *kernel); /* the warden may report its end from now on */

/* adopt.c: gets every frame while box->adoption is set */
bool adopt_frame(struct box *box, const struct frame *frame);
void adopt_tick(struct box *box, uint64_t now_ms);
void adopt_lose(struct box *box); /* the box is lost: calls done() with the error */

#endif
