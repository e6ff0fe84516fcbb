/*
 * lib_private.h - what the files of libbailey share.
 *
 * An engine owns a loop over epoll(7), and the client of its server or the program that makes boxes
 * here. A job is one exchange with either: bytes of a request out, events or a whole reply back.
 *
 * Runs in: callers
 */
#ifndef BAILEY_LIB_PRIVATE_H
#define BAILEY_LIB_PRIVATE_H

#include <bailey.h>
#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"
#include "http/client.h"
#include "http/sse.h"

#define LIB_REPLY_MAX (256u << 20) /* bytes of one reply, and of one event */

struct turner; /* the loop */

struct bailey_engine {
    struct turner *turner;
    struct bailey_job *jobs;    /* those that run */
    struct http_client *client; /* NULL: boxes are made here */
    char *server;               /* its address; NULL: boxes are made here */
    char *settings;             /* a header of requests that do something; NULL: none */
    int program_fd;             /* the program that makes them, sealed; -1: a server does */
};

struct bailey_spec {
    json_t *json;     /* members of a request */
    struct error err; /* the first one */
    bailey_on_output on_output;
    void *ctx;
};

struct bailey_sandbox {
    struct bailey_engine *engine;
    char *id, *path; /* "/v1/sessions/ID" */
};

struct bailey_result {
    json_t *json;
    char *text; /* the same as text */
};

/* What job_start() sends, and what becomes of the reply. */
struct job_spec {
    const char *method, *path;
    const void *body;
    size_t body_length;
    bool is_json;            /* the body is; a POST gets an Idempotency-Key */
    bool has_events;         /* the reply is a result, as events; else any bytes */
    const char *signal_path; /* "/v1/sessions/ID": whose executions a cancelled job kills; NULL */
    bailey_on_output on_output;
    void *ctx;
};

struct bailey_job {
    struct bailey_engine *engine;
    struct bailey_job *next;
    bailey_on_output on_output;
    void *ctx;
    bool has_events, is_done, is_cancelled;
    bool is_stream;          /* the reply is events */
    struct bailey_error err; /* .number 0: none; set when it is done */
    unsigned http_status;    /* of an answer; 0: none */
    unsigned retry_s;
    struct bailey_result *result;
    struct sse_reader events;
    struct buf reply; /* all that is not events */
    int broken;       /* what reading the events returned */
    /* over a server */
    struct http_exchange *exchange;
    char *signal_path;
    char execution[64];
    /* here */
    int fd, pid_fd;
    struct reactor_watch *watch;
    struct buf request; /* what is not sent yet */
};

/* ---- turner.c ---- */
int turner_new(struct turner **ret, struct error *err);
void turner_free(struct turner *turner);
struct reactor *turner_reactor(struct turner *turner);
int turner_fd(const struct turner *turner);
/* Calls back what is ready, after waiting at most timeout_ms (-1: for ever). 0 or -errno. */
int turner_turn(struct turner *turner, int timeout_ms);

/* ---- errors.c ---- */
/* Fills `to` (if any) from `from` and returns its number. */
int errors_tell(struct bailey_error *to, const struct error *from);
/* -EINVAL: `what` ("the engine") is NULL, which it is after a failure that was not looked at. */
int errors_of_null(const char *what, struct bailey_error *told);
/* Of a connection to `server`, as http_call_events.done() has it: which server, and what to do. */
int errors_of_connection(struct bailey_error *to, const struct error *from, const char *server);
/* From {"code": ..., "message": ...}; `status` 0: it is of a result. */
void errors_of_json(struct bailey_error *to, unsigned status, unsigned retry_s, json_t *json);

/* ---- job.c ---- */
int job_start(struct bailey_engine *engine, const struct job_spec *spec, struct bailey_job **ret,
              struct error *err);
/* Of a transport: bytes of events, and the end (err->num 0: of a whole reply). */
int job_take(struct bailey_job *job, const void *data, size_t length);
void job_end(struct bailey_job *job, const struct error *err);
/* Begins and waits; the reply is job->reply. The caller frees the job, also after an error. */
int job_call(struct bailey_engine *engine, const struct job_spec *spec, struct bailey_job **ret,
             struct bailey_error *err);
int job_wait(struct bailey_job *job);
int job_wait_failed(int num, struct bailey_error *told);
/* The reply as memory of the caller; NULL arguments: it is not needed. */
int job_reply(struct bailey_job *job, char **ret_data, size_t *ret_length,
              struct bailey_error *err);

/* ---- local.c ---- */
int local_program(int *ret_fd, struct error *err);
int local_start(struct bailey_job *job, const struct job_spec *spec, struct error *err);
void local_cancel(struct bailey_job *job);
void local_drop(struct bailey_job *job); /* ends and reaps the maker, if there is one */

/* ---- place.c ---- */
/* The socket of this user's daemon, if it answers: "unix://...". */
int place_find(char **ret, struct error *err);

/* ---- settings.c ---- */
/* A header line, or NULL: nothing is set. `is_here`: the server is on this machine. */
int settings_line(bool is_named, bool is_here, char **ret, struct error *err);

/* ---- spec.c ---- */
/* The request's body as text; the caller frees it. */
int spec_text(const struct bailey_spec *spec, char **ret, struct error *err);
bool spec_has(const struct bailey_spec *spec, const char *member);

/* ---- result.c ---- */
struct bailey_result *result_take(json_t *json); /* takes the reference; NULL: no memory */

#endif
