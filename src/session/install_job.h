/*
 * install_job.h - one installer box and its order; shared by installer.c and install_job.c.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_INSTALL_JOB_H
#define BAILEY_SESSION_INSTALL_JOB_H

#include "session/installer.h"
#include "session/layers.h"

enum job_state {
    JOB_MAKING,  /* the box */
    JOB_PUTTING, /* the order into it */
    JOB_RUNNING, /* the script */
    JOB_THERE,   /* nothing had to be done */
    JOB_OVER,    /* the box is to be given back; err says whether it went well */
    JOB_ENDING,
    JOB_COMMITTING,
    JOB_TOLD,
};

/* Somebody who waits. */
struct installation {
    struct installation *next;
    struct install_job *job;
    const struct install_events *events;
    void *ctx;
    void (*cancel)(struct installation *installation); /* of one that is more than this; or NULL */
};

struct install_job {
    struct install_job *next;
    struct session_manager *manager;
    enum job_state state;
    char key[ID_MAX];
    char tenant[TENANT_MAX];
    char inputs[LAYER_TEXT]; /* the hash of everything that decides what comes out */
    char layer[LAYER_TEXT];  /* packages: what they are for; empty: the host's own Python */
    bool is_template;
    bool
        is_finishing; /* the second box, in which code of packages runs: no network, no passwords */
    const char *interpreter; /* the engine's word for it; NULL: it has none */
    uint64_t timeout_ms, bytes_max, memory_bytes, started_ms;
    uint64_t script_ms; /* when the first script began */
    struct installation *installations;

    uint32_t make_serial, number, call;
    struct box *box;
    struct pump pump;
    struct reactor_timer *turn, *watch;
    struct buf put; /* the order */
    size_t put_at;
    struct buf said, line; /* standard output; a line of standard error that has no end yet */
    char **last;           /* strv: the last lines */
    uint64_t free_bytes;   /* of the disk when it began */

    struct error err;
    char made_layer[LAYER_TEXT];
    char python[24];
    json_t *packages;
    uint64_t bytes, files;
    bool was_there;
};

/* installer.c */
void job_over(struct install_job *job, const struct error *err);

/* install_job.c: its words */
int install_inputs(struct session_manager *manager, const struct install_spec *spec,
                   char inputs[LAYER_TEXT], struct error *err);
int job_write_order(struct install_job *job, const struct install_spec *spec, struct error *err);
/* A layer made from the same inputs, with what is known of it; false: there is none. */
bool job_find_layer(struct install_job *job);
void job_take_lines(struct install_job *job, const char *data, size_t length);
/* What the script said: err, or python and packages. Hostile. */
void job_read_answer(struct install_job *job, const struct exec_end *end);
void job_look_at_size(struct install_job *job);
void job_over_size(struct install_job *job); /* sets err */

#endif
