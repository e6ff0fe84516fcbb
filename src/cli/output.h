/*
 * output.h - the guest's output on our standard streams, while it comes.
 *
 * Each stream is exact bytes, unless it is a terminal: then it goes through sanitize.h (not with
 * --raw). Waits for a slow reader, and notices while waiting that the caller wants the run to end.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_OUTPUT_H
#define BAILEY_CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "cli/sanitize.h"

struct output_stream {
    int fd;
    bool is_filtered;
    struct sanitizer sanitizer;
};

struct output {
    struct output_stream streams[2]; /* standard output, standard error */
    int cancel_fd;                   /* readable: stop waiting; -1: none */
    int failure;                     /* negative errno of the first write that failed; 0 */
    int failed_stream;               /* 1 or 2 */
};

void output_init(struct output *output, bool is_raw, int cancel_fd);

/* For struct oneshot_sink: ctx is the output. */
int output_write(void *ctx, int stream, const void *data, size_t length);

/* Shows what the filters still hold. */
void output_finish(struct output *output);

/*
 * Writes everything, also to a non-blocking descriptor. Negative errno; -ECANCELED when cancel_fd
 * (-1: none) became readable while the bytes were not accepted.
 */
int stream_write(int fd, const void *data, size_t length, int cancel_fd);

#endif
