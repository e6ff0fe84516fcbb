/*
 * scratch.h - a folder of its own for a unit test: made below /tmp, filled, removed with all that
 * is in it. Nothing in it is followed.
 */
#ifndef BAILEY_TESTS_SCRATCH_H
#define BAILEY_TESTS_SCRATCH_H

#include "unit.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct scratch {
    char path[64];
};

static inline void scratch_make(struct scratch *scratch)
{
    snprintf(scratch->path, sizeof(scratch->path), "/tmp/unit.XXXXXX");
    assert_non_null(mkdtemp(scratch->path));
}

static inline int scratch_remove_one(const char *path, const struct stat *status, int kind,
                                     struct FTW *ftw)
{
    (void)status;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static inline void scratch_remove(struct scratch *scratch)
{
    assert_int_equal(nftw(scratch->path, scratch_remove_one, 32, FTW_DEPTH | FTW_PHYS), 0);
}

/* The name of something in the folder; valid until the eighth call from now. */
static inline const char *scratch_path(const struct scratch *scratch, const char *name)
{
    static char paths[8][4352];
    static unsigned next;
    char *path = paths[next++ % 8];

    assert_true(snprintf(path, sizeof(paths[0]), "%s/%s", scratch->path, name) <
                (int)sizeof(paths[0]));
    return path;
}

/* A folder with all that leads to it. */
static inline const char *scratch_folder(const struct scratch *scratch, const char *name)
{
    char path[4352];

    snprintf(path, sizeof(path), "%s", scratch_path(scratch, name));
    for (char *at = path + strlen(scratch->path) + 1; *at; at++) {
        if (*at != '/')
            continue;
        *at = 0;
        mkdirat(AT_FDCWD, path, 0755);
        *at = '/';
    }
    mkdirat(AT_FDCWD, path, 0755);
    return scratch_path(scratch, name);
}

static inline void scratch_write(const struct scratch *scratch, const char *name, const char *text)
{
    int fd = open(scratch_path(scratch, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

/* The text of a small file; "" and false when there is none. */
static inline int scratch_read(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);

    text[length > 0 ? length : 0] = 0;
    if (fd >= 0)
        close(fd);
    return length >= 0;
}

#endif
