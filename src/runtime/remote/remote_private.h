/*
 * remote_private.h - shared by the files of runtime/remote.
 *
 * Theory of operation. A box of this provider is a session of another Bailey, and this process
 * plays its warden: frames of the broker become calls to that server's REST interface, and replies
 * become frames. Nothing of the box is in this process: it keeps what the broker has not
 * acknowledged as offsets only, because the server keeps the output and can be asked again.
 *
 * Who calls whom: remote.c has the operations of the backend (a box's life) and target.c what is
 * known of the server; warden.c takes frames and gives them to runs.c (commands, cells, kernels;
 * strings.c reads what they are, follow.c their
 * output, input.c writes to them), to files.c or to plain.c (a server with
 * POST /execute only). All of them call through call.c.
 *
 * Everything that a server sends is hostile: sizes are limited, and texts are passed on as texts.
 *
 * Runs in: hosts, commands
 */
#ifndef BAILEY_RUNTIME_REMOTE_REMOTE_PRIVATE_H
#define BAILEY_RUNTIME_REMOTE_REMOTE_PRIVATE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/reactor.h"
#include "http/client.h"
#include "http/sse.h"
#include "runtime/host/host_box.h"
#include "runtime/remote/settings.h"

/* How long a server may be unreachable before its boxes are lost. */
#define REMOTE_PATIENCE_MS 15000
#define REMOTE_BEAT_MS 10000 /* interval of looking whether a box's session is still there */
#define REMOTE_DOWN_MS 5000  /* a server that did not answer is not asked for as long */
#define REMOTE_PATH_MAX 512  /* of a call, without the query */
#define REMOTE_EVENT_MAX (2 * LIMIT_CELL_EVENTS) /* one value may be all that is kept of a cell */
#define REMOTE_REPLY_MAX MIB
#define REMOTE_REPLY_LONG (64 * MIB) /* a listing of 100,000 entries with long names */
/* Frames for the broker that wait; more output is not read from the server. */
#define REMOTE_OUT_BYTES (256 * KIB)

struct remote;
struct target;
struct remote_box;

/* ---- call.c: one call with JSON in its reply ---- */

struct remote_reply {
    struct error err;  /* num 0: a status below 400 */
    const char *field; /* the member that an error names; NULL: none */
    unsigned status;   /* 0: no reply */
    json_t *json;      /* NULL: the reply is not JSON */
};
typedef void (*remote_done)(void *ctx, const struct remote_reply *reply);

struct remote_request {
    const char *method, *path;
    const json_t *json; /* borrowed; NULL: none */
    const void *body;   /* bytes instead; copied */
    size_t length;
    bool is_once;        /* must not be sent twice: one try on a connection of its own */
    bool waits;          /* tried for REMOTE_PATIENCE_MS while the server cannot be reached */
    bool insists;        /* and as long while it answers with 429 or a fault of its own */
    uint32_t timeout_ms; /* of one try; 0: REMOTE_PATIENCE_MS */
    size_t reply_max;    /* bytes of the reply; 0: REMOTE_REPLY_MAX */
};

struct remote_call;
/* done() comes from the reactor, once; NULL without memory. */
struct remote_call *remote_call_start(struct target *target, const struct remote_request *request,
                                      remote_done done, void *ctx);
void remote_call_cancel(struct remote_call *call); /* done() does not come; NULL is fine */

/* The error of a reply's status and body; `json` may be NULL. Returns err->num. */
int remote_refused(const struct target *target, unsigned status, const json_t *json,
                   struct error *err);
/* The error of an exchange without a reply. */
int remote_unreachable(const struct target *target, const struct error *why, struct error *err);

/* ---- target.c: the servers ---- */

enum target_kind {
    TARGET_UNKNOWN,
    TARGET_BAILEY,
    TARGET_PLAIN, /* POST /execute only */
};

/* One of SANDBOX_URL. */
struct target {
    struct remote *remote;
    char address[REMOTE_ADDRESS_MAX];
    unsigned weight, boxes; /* boxes of ours that are there */
    struct http_client *client;
    enum target_kind kind;
    uint64_t down_until_ms; /* it did not answer: others are preferred */
    struct remote_call *probe, *listing;
};

struct remote {
    struct host *host;
    struct reactor *reactor;
    const struct config *config;
    char *key;           /* NULL: none */
    struct buf key_file; /* what the file of keys had when it was read last */
    struct target targets[REMOTE_TARGETS_MAX];
    size_t count;
    struct sweep *sweeps;
};

int remote_targets_open(struct remote *remote, struct error *err);
void remote_targets_close(struct remote *remote);
/* Reads the file of the key again; true: it has another one now, which is used from now on. */
bool remote_target_renew_key(struct remote *remote);
/*
 * Chooses a server for a box that waits, the least loaded one that answers and that the box has not
 * tried; it is asked what it is, unless that is known, and the box begins or is refused.
 */
void remote_target_place(struct remote_box *box);
bool remote_target_is_left(const struct remote_box *box); /* one that the box has not tried */
void remote_target_leave(struct remote_box *box);         /* the box is not there any more */
void remote_target_down(struct target *target);
void remote_targets_sweep(struct remote *remote); /* ends sessions that an earlier process left */
/* Ends one that may be there: the reply to its creation was lost. */
void remote_target_end_session(struct target *target, const char *name);
enum target_kind remote_target_kind_of(unsigned status, const json_t *info);
bool remote_target_is_id(const char *id); /* of a session, as a server says it; NULL is none */

/* ---- a box ---- */

struct remote_run;
struct file_op;
struct plain;

struct remote_box {
    struct host_box box;
    struct remote *remote;
    struct target *target;     /* where it is, or is to be; NULL: nowhere yet */
    uint32_t tried;            /* bits of the servers that could not make it */
    char session[ID_MAX];      /* its id at the server; empty: none */
    struct remote_call *step;  /* of its life: create, look, remove */
    struct remote_call *beat;  /* looks whether it is still there */
    struct remote_call *clock; /* FREEZE or THAW */
    uint32_t clock_id;
    struct reactor_timer *beat_timer, *wake_timer;
    uint64_t extended_ms, extending_ms; /* until when the session's age was postponed; is being */

    /* warden.c */
    struct frame_stream in;
    struct buf args; /* of the next EXEC or CELL */
    struct buf out;  /* frames for the broker */
    int lost;        /* negative: the stream ends with it once `out` is empty */
    bool is_lost;
    uint32_t highest; /* id that was ever used */

    struct remote_run *runs;
    struct file_op *files;
    struct plain *plain; /* NULL: the server is a Bailey */
};

struct remote_box *remote_box_of(struct host_box *box);
int remote_check(const struct host_box *box, struct error *err); /* can the server make it? */
bool remote_box_waits(const struct remote_box *box); /* it has no room for more output now */
/* "/v1/sessions/ID" and the rest of a path. Returns `path`. */
const char *remote_box_path(const struct remote_box *box, char path[REMOTE_PATH_MAX],
                            const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The box cannot be used any more; `reason` is for the log. is_gone: the server is. */
void remote_box_lose(struct remote_box *box, bool is_gone, const char *reason);

/* ---- warden.c ---- */

extern const struct pump_stream_ops remote_stream_ops; /* the stream is a struct remote_box */

/* Queues one frame; without memory the box is lost. */
void remote_warden_send(struct remote_box *box, enum frame_type type, uint32_t id,
                        const void *payload, ssize_t length);
void remote_warden_send_bytes(struct remote_box *box, enum frame_type type, uint32_t id,
                              uint8_t stream, uint64_t offset, const void *data, size_t length);
void remote_warden_done(struct remote_box *box, uint32_t id,
                        int num); /* DONE; num: 0 or negative */
void remote_warden_ready(struct remote_box *box, uint32_t layers);
void remote_warden_free(struct remote_box *box);

/* ---- runs.c, follow.c, input.c: commands, cells and kernels ---- */

/* strings.c */
struct remote_strings {
    json_t *argv, *env;
    const char *folder; /* borrowed from box->args */
};
/* Those of an EXEC: 0, -EPROTO, -EILSEQ (text that is no UTF-8 cannot be sent) or -ENOMEM. */
int remote_strings_read(struct remote_box *box, const struct message_exec *exec,
                        struct remote_strings *ret);
void remote_strings_free(struct remote_strings *strings); /* for CLEANUP() */
/* The next string with its NUL, which is passed over; NULL: there is none. */
const char *remote_strings_text(const char **at, size_t *left);
int remote_strings_variable(json_t *env, const char *text); /* "K=V": 0, -EILSEQ or -ENOMEM */

enum run_kind { RUN_COMMAND, RUN_CELL, RUN_KERNEL };

struct run_output {
    struct buf held;      /* received, and not sent to the broker */
    uint64_t sent, acked; /* offsets */
    uint64_t far;         /* bytes that the server sent, or had sent before */
};

struct remote_run {
    struct remote_run *next;
    struct remote_box *box;
    uint32_t id, kernel; /* kernel: of a cell */
    enum run_kind kind;
    uint32_t flags;         /* EXEC_* or CELL_* */
    json_t *body;           /* of the call that starts it; NULL: it was sent */
    json_t *env;            /* of a kernel: for each of its cells */
    char name[ID_MAX + 16]; /* at the server: of an execution, or a context; empty: not yet */
    char once[ID_MAX];      /* its Idempotency-Key */
    struct remote_call *start;
    bool is_started;   /* STARTED was sent */
    bool is_over;      /* `exited` or `fail` is known */
    bool has_failed;   /* `fail` is */
    bool is_told;      /* EXITED or NOEXEC was sent */
    bool is_quiet;     /* after HELLO, until RESUME */
    bool is_forgotten; /* the broker does not want to hear of it any more */
    bool is_removed;   /* a kernel: its context was removed, or is being */
    struct message_exited exited;
    struct message_fail fail;
    uint64_t signals; /* SIGNAL_BIT() of those to be sent */

    /* follow.c */
    struct http_exchange *stream;
    struct reactor_timer *again;
    struct sse_reader reader;
    struct run_output out[MESSAGE_STREAMS];
    uint64_t skip_events, skip_note; /* bytes that were sent before and come again */
    uint64_t events_total;           /* bytes of all events, sent or not */
    uint64_t cut_since_ms;
    unsigned stream_status;
    bool has_end; /* the event `exit` came */
    char last_id[96];

    /* input.c */
    struct buf input;
    struct remote_call *input_call, *signal_call, *size_call;
    size_t input_sending;
    uint64_t input_received, input_acked;
    bool input_ended, input_end_sent, input_lost;
    uint16_t rows, columns; /* to be sent; 0: none */
};

int remote_runs_exec(struct remote_box *box, const struct frame *frame);
int remote_runs_cell(struct remote_box *box, const struct frame *frame);
int remote_runs_frame(struct remote_box *box, const struct frame *frame); /* of a run that exists */
void remote_runs_hello(struct remote_box *box, uint32_t generation);
void remote_runs_pump(struct remote_box *box); /* there is room for output */
void remote_runs_free(struct remote_box *box);
struct remote_run *remote_run_find(struct remote_box *box, uint32_t id);
void remote_run_over(
    struct remote_run *run); /* tells the end if all output was sent; may free it */
void remote_run_started(struct remote_run *run);
void remote_run_fail(struct remote_run *run, unsigned stage, int number);
void remote_run_kernel_died(
    struct remote_run *cell); /* the server says that a cell's kernel is gone */

void remote_follow_start(struct remote_run *run); /* reads its events from where they were left */
void remote_follow_stop(struct remote_run *run);
void remote_follow_send(struct remote_run *run); /* sends what is held, as far as the windows go */
void remote_follow_note(struct remote_run *run,
                        const char *text); /* a line of ours on standard error */
void remote_follow_resume(struct remote_run *run, const struct message_resume *resume);

#define SIGNAL_BIT(number_) (UINT64_C(1) << ((number_)-1))
int remote_input_frame(struct remote_run *run, const struct frame *frame);
void remote_input_signal(struct remote_run *run, uint32_t number);
void remote_input_begin(struct remote_run *run); /* its name is known: what waited is sent */
void remote_input_stop(struct remote_run *run);

/* result.c: what the event `exit` says */
void remote_result_read(struct remote_run *run, const json_t *result);
int remote_result_errno(const struct error *err); /* a negative errno for an error of a reply */

/* ---- files.c ---- */

int remote_files_frame(struct remote_box *box, const struct frame *frame);
void remote_files_pump(struct remote_box *box);
void remote_files_free(struct remote_box *box);

/* ---- plain.c ---- */

int remote_plain_frame(struct remote_box *box, const struct frame *frame);
int remote_plain_open(struct remote_box *box);
void remote_plain_free(struct remote_box *box);

#endif
