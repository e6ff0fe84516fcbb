/*
 * files.h - files of a box: bytes in and out, folders, watches; see box.h for the rules.
 *
 * Names are resolved in the box, by its kernel, beneath its shares; only their length is checked
 * here. Every operation ends with exactly one done(); err->num is 0 or the negative errno that the
 * box's kernel gave (-EXDEV: a symbolic link leads out, or into another mount; -EROFS: /tmp/data;
 * -EBUSY: a share itself; -EAGAIN: more than LIMIT_FILE_OPS at once).
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_RUNTIME_BOX_FILES_H
#define BAILEY_RUNTIME_BOX_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct box;

struct put_events {
    void (*done)(void *ctx, const struct error *err); /* err->num 0: the file is there */
    void (*more)(void *ctx);                          /* room for more bytes; may be NULL */
};
struct put_spec {
    const char *path;
    uint32_t mode;    /* 0: mode and owner of the file it replaces, else 0644 */
    bool is_in_place; /* write at `offset` into the file itself, created if missing; else atomic */
    bool is_new;      /* -EEXIST if the name exists */
    uint64_t offset;
};
int box_put(struct box *box, const struct put_spec *spec, const struct put_events *events,
            void *ctx, uint32_t *ret_id, struct error *err);
/* Returns bytes taken, 0 when the window is full (more() follows), or a negative errno. */
long box_put_data(struct box *box, uint32_t id, const void *data, size_t length);
void box_put_end(struct box *box, uint32_t id);

struct get_events {
    /* Before the first data(): so many bytes follow if the get succeeds and the file is not made
     * shorter meanwhile. May be NULL, and boxes of earlier versions do not call it. */
    void (*size)(void *ctx, uint64_t bytes);
    /* Returns the bytes taken; less than length stops the stream until box_get_resume(). */
    size_t (*data)(void *ctx, const void *data, size_t length);
    void (*done)(void *ctx, const struct error *err);
};
/* bytes 0: up to the end of the file when it was opened. Regular files only; -EISDIR, -EINVAL. */
int box_get(struct box *box, const char *path, uint64_t offset, uint64_t bytes,
            const struct get_events *events, void *ctx, uint32_t *ret_id, struct error *err);
void box_get_resume(struct box *box, uint32_t id);

struct box_entry {
    const char *name; /* relative to the listed folder, "" from box_stat(); not checked */
    uint32_t mode;    /* st_mode */
    uint64_t bytes;
    uint64_t time_ns;   /* mtime (settable by the guest) */
    uint64_t change_ns; /* ctime (not settable) */
};
struct list_events {
    void (*entry)(void *ctx, const struct box_entry *entry);
    void (*done)(void *ctx, const struct error *err);
};
/* depth 0: everything below; 1: the folder's own entries. -E2BIG over LIMIT_LIST_ENTRIES. */
int box_list(struct box *box, const char *path, unsigned depth, const struct list_events *events,
             void *ctx, uint32_t *ret_id, struct error *err);
/* One entry; a symbolic link at the end is not followed. */
int box_stat(struct box *box, const char *path, const struct list_events *events, void *ctx,
             uint32_t *ret_id, struct error *err);

struct done_events {
    void (*done)(void *ctx, const struct error *err);
};
int box_mkdir(struct box *box, const char *path, uint32_t mode, const struct done_events *events,
              void *ctx, uint32_t *ret_id, struct error *err);
int box_move(struct box *box, const char *from, const char *to, const struct done_events *events,
             void *ctx, uint32_t *ret_id, struct error *err);
int box_remove(struct box *box, const char *path, bool tree, const struct done_events *events,
               void *ctx, uint32_t *ret_id, struct error *err);
int box_chmod(struct box *box, const char *path, uint32_t mode, const struct done_events *events,
              void *ctx, uint32_t *ret_id, struct error *err);

struct box_change {
    unsigned kind; /* enum change_kind of wire/file_message.h */
    bool is_folder;
    const char *name; /* relative to the watched path */
};
struct watch_events {
    void (*ready)(void *ctx); /* changes from now on are reported; may be NULL */
    void (*changed)(void *ctx, const struct box_change *change);
    void (*done)(void *ctx,
                 const struct error *err); /* watching failed, or the watched path is gone */
};
int box_watch(struct box *box, const char *path, bool tree, const struct watch_events *events,
              void *ctx, uint32_t *ret_id, struct error *err);

/*
 * Cancels: no callback of this operation comes after this call. The warden ends it; an unfinished
 * put leaves nothing. An id that has ended is fine.
 */
void box_cancel(struct box *box, uint32_t id);

#endif
