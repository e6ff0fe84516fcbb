/*
 * install_job.h - the state of one installer box; shared by installer.c and install_job.c.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_INSTALL_JOB_H
#define BAILEY_SESSION_INSTALL_JOB_H

#include "runtime/provider_ops.h"
#include "session/installer.h"
#include "session/layers.h"

enum job_state {
    JOB_MAKING,  /* the box is being made */
    JOB_PUTTING, /* the order is being written into it */
    JOB_RUNNING, /* the script runs */
    JOB_THERE,   /* the layer exists already */
    JOB_OVER,    /* the box is to be returned; err says whether the job succeeded */
    JOB_ENDING,
    JOB_COMMITTING,
    JOB_TOLD,
};

/* One caller that waits for the job. */
struct installation {
    struct installation *next;
    struct install_job *job;
    const struct install_events *events;
    void *ctx;
    void (*cancel)(
        struct installation *installation); /* for a struct that contains this one; or NULL */
};

struct install_job {
    struct install_job *next;
    struct session_manager *manager;
    enum job_state state;
    char key[ID_MAX];
    char tenant[TENANT_MAX];
    char inputs[LAYER_TEXT]; /* SHA-256 of all inputs that determine the layer */
    char layer[LAYER_TEXT];  /* packages: the template's layer they are for; empty: the host's own
                                Python */
    bool is_template;
    bool
        is_finishing; /* the second box, in which code of packages runs: no network, no passwords */
    char program[PROVIDER_PROGRAM_MAX]; /* its Python; empty: the daemon's own */
    const char *interpreter;            /* path that the engine chose; NULL: none */
    uint64_t timeout_ms, bytes_max, memory_bytes, started_ms;
    uint64_t script_ms; /* start time of the first script */
    struct installation *installations;

    uint32_t make_serial, number, call;
    struct box *box;
    struct pump pump;
    struct reactor_timer *turn, *watch;
    struct buf put; /* the order */
    size_t put_at;
    struct buf said, line;  /* standard output; an unfinished line of standard error */
    char **last;            /* strv: the last lines of standard error */
    unsigned partial_looks; /* how often in a row a part of it could not be measured */

    struct error err;
    char made_layer[LAYER_TEXT];
    char python[24];
    json_t *packages;
    uint64_t bytes, files;
    bool was_there;
};

/* installer.c */
void job_over(struct install_job *job, const struct error *err);

/* install_job.c: input and output of the box */
int install_inputs(struct session_manager *manager, const struct install_spec *spec,
                   char inputs[LAYER_TEXT], struct error *err);
int job_write_order(struct install_job *job, const struct install_spec *spec, struct error *err);
/* Finds a layer made from the same inputs and loads its description; false: there is none. */
bool job_find_layer(struct install_job *job);
void job_take_lines(struct install_job *job, const char *data, size_t length);
/* Reads the script's output into err, or into python and packages. Hostile input. */
void job_read_answer(struct install_job *job, const struct exec_end *end);
void job_look_at_size(struct install_job *job);
void job_over_size(struct install_job *job); /* sets err */

#endif
