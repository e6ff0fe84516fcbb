/*
 * drive.h - the loop of a one-shot run: the box, the caller's streams and cancellation.
 *
 * Private to oneshot/. Blocks in poll(2) only. One drive for one box.
 *
 * Runs in: commands
 */
#ifndef BAILEY_ONESHOT_DRIVE_H
#define BAILEY_ONESHOT_DRIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "oneshot/oneshot.h"
#include "runtime/box/box.h"
#include "runtime/box/files.h"

struct drive {
    const struct oneshot *shot;
    struct result *result;
    struct box *box;
    bool is_cancelled; /* the caller wants the run to end */
    bool is_sink_dead; /* the reader has closed */

    /* the command that runs */
    uint32_t exec_id;
    bool is_running;
    bool is_captured_only; /* the import check: its output is not the program's */
    struct buf *captured;  /* gets stdout then */
    bool is_held[2];       /* the sink took no more */
    size_t sink_chunk[2];
    int stdin_fd;     /* -1: no more */
    char *stdin_data; /* bytes read and not taken by the box yet; owned */
    size_t stdin_length, stdin_at;
    struct exec_end end;
    struct error failure; /* .code set: it could not be started or was lost */
};

/* Runs a command to its end. 0: drive->end is valid; else the negative errno of drive->failure. */
int drive_exec(struct drive *drive, const struct exec_spec *spec);

/* Turns the loop until *done, the box is lost or the caller cancels. 0 or a negative errno. */
int drive_until(struct drive *drive, const bool *done, struct error *err);

/* One turn of it. 0, or a negative errno when the box is lost or the caller cancelled. */
int drive_turn(struct drive *drive, struct error *err);

void drive_free(struct drive *drive);

#endif
