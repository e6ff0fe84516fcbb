/*
 * work.h - how building an image reports its progress and is stopped, and the programs of this
 * machine that it runs.
 *
 * Runs in: commands
 */
#ifndef BAILEY_IMAGE_WORK_H
#define BAILEY_IMAGE_WORK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

struct image_work {
    /* `done` of `total` of what the stage counts; total 0: not known. May be NULL, as may be the
     * other. */
    void (*tell)(void *ctx, const char *stage, uint64_t done, uint64_t total);
    bool (*is_stopped)(void *ctx);
    void *ctx;
};

void image_tell(const struct image_work *work, const char *stage, uint64_t done, uint64_t total);
/* 0, or -ECANCELED with err. */
int image_check(const struct image_work *work, struct error *err);

/*
 * Runs a program of PATH in a folder (NULL: this one) to its end, with empty standard input. Its
 * output goes to `output` (may be NULL), its errors to the end of `err`. -ENOENT: there is no such
 * program; -EIO: it failed. Kills it when the work is stopped.
 */
int image_execute(const struct image_work *work, const char *const *argv, const char *folder,
                  struct buf *output, struct error *err);

#endif
