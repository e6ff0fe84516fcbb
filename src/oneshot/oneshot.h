/*
 * oneshot.h - one run in one fresh box, from request to result. The heart of `bailey run`,
 * `bailey exec` and the tool run_python_code.
 *
 * Blocks until the run has ended and the box is gone. Everything pointed to is borrowed. The result
 * is filled for every ending, also when the run was refused: a caller that only prints the result
 * tells the truth. Nothing is left behind, whatever happened.
 *
 * Runs in: commands
 */
#ifndef BAILEY_ONESHOT_ONESHOT_H
#define BAILEY_ONESHOT_ONESHOT_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"
#include "model/result.h"

/* A host file (or folder) to copy in. */
struct oneshot_file {
    const char *host;
    const char *box; /* NULL: its base name in /workspace; a relative one is below /workspace */
};

/*
 * Where output goes as it arrives, uncut. write() is called with a small piece only when poll(2)
 * reports room, so that a slow reader blocks the guest and not the deadline. Returns <0 when the
 * reader has closed (EPIPE).
 */
struct oneshot_sink {
    int (*write)(void *ctx, int stream /* 1 or 2 */, const void *data, size_t length);
    void *ctx;
    int fd[2]; /* what to poll for stdout and stderr; -1: always ready */
};

/* Progress of bring-up for --timing: nanoseconds of each stage, in order. */
struct oneshot_timing {
    const char *stage;
    unsigned long long ns;
};
#define ONESHOT_TIMINGS_MAX 64

/* What a run is done with, once that is known. */
struct oneshot_found {
    const char *fingerprint; /* of the host's interpreter */
    const char *layer;       /* of the template: its folder; NULL: none */
    const char *name;        /* of the source in /workspace */
};

/*
 * Another executor (a running daemon), asked once the request is checked. 0: done, see `result`;
 * 1: not available, `why` says why, so the run happens here; negative: it started there and failed,
 * see result->error.
 */
#define ONESHOT_WHY_MAX 256
struct oneshot;
struct oneshot_elsewhere {
    int (*run)(void *ctx, const struct oneshot *shot, const struct oneshot_found *found,
               struct result *result, char why[ONESHOT_WHY_MAX]);
    void *ctx;
};

struct oneshot {
    const struct config *config; /* effective values, flags already laid over */
    const char *language;        /* "python", "bash"; NULL: exec of `argv` as it is */
    const char *code;            /* with language: the source */
    size_t code_length;
    const char *name;        /* base name the source gets in /workspace; NULL: "main.py" */
    const char *const *argv; /* with language: the arguments behind the script's name */
    const char *const *env;  /* "K=V", checked by the caller */
    const struct oneshot_file *files;
    size_t file_count;
    const char *out;                 /* folder that gets /tmp/output; NULL: nothing is fetched */
    int stdin_fd;                    /* -1: /dev/null in the box */
    const struct oneshot_sink *sink; /* NULL: only captured */
    int cancel_fd;               /* readable when the caller wants the run to end (signalfd); -1 */
    bool keep_artifact;          /* SANDBOX_STORE_CODE applies */
    bool shows_progress;         /* of an image that has to come first, on standard error */
    const char *artifact_folder; /* NULL: "artifacts" in the working folder */
    const struct oneshot_elsewhere *elsewhere; /* NULL: none */
    const char *state;           /* the state folder, where templates are; NULL: nowhere */
    const char *engine, *warden; /* paths of bailey-engine and `bailey`, for containers; or NULL */
};

struct oneshot_extra {
    struct oneshot_timing timings[ONESHOT_TIMINGS_MAX];
    size_t timing_count;
    char *artifact_path;         /* owned; NULL: none was written */
    struct error artifact_error; /* .code set: it could not be written; the run is not affected */
};

/* 0 when the program ran (whatever its exit), else the negative errno in result->error. */
int oneshot_run(const struct oneshot *shot, struct result *result, struct oneshot_extra *extra);
void oneshot_extra_free(struct oneshot_extra *extra);

#endif
