/*
 * file_op.h - shared by the files of the warden that handle file frames: operations, names, and
 * walking through a folder.
 *
 * An operation is embedded at the head of its own kind's struct and is in warden->files from
 * file_op_new() to file_op_end(), or until a CANCEL or a new host ends it. Whatever the guest does
 * meanwhile, names are resolved beneath the shares and open files stay the same files.
 *
 * Runs in: box
 */
#ifndef BAILEY_WARDEN_FILE_OP_H
#define BAILEY_WARDEN_FILE_OP_H

#include "warden/warden_private.h"
#include "wire/file_message.h"

struct file_kind {
    bool is_fed; /* the host sends bytes, which may be on their way when it has already failed */
    /* Sends at most one frame, only when the channel has room; true when it did something. */
    bool (*produce)(struct warden *warden, struct file_op *op);
    /*
     * What needs no room in the channel, `steps` small steps of it; true when more is to be done.
     * Neither of the two touches the operation after it has ended it.
     */
    bool (*work)(struct warden *warden, struct file_op *op, unsigned steps);
    void (*release)(struct warden *warden, struct file_op *op); /* all but the struct; not NULL */
};

struct file_op {
    struct file_op *next;
    const struct file_kind *kind;
    uint32_t id;
    bool has_ended; /* DONE was sent; it only waits for what the host still sends (PUT) */
};

/* files.c */
/*
 * A zeroed struct of `size` bytes that begins with the operation. When there are too many DONE is
 * sent, and the result is NULL or, of a kind that is fed, has ended. An id in use ends the box.
 */
void *file_op_new(struct warden *warden, uint32_t id, const struct file_kind *kind, size_t size);
void *file_op_find(struct warden *warden, uint32_t id, const struct file_kind *kind);
void file_op_end(struct warden *warden, struct file_op *op, int negative_errno); /* DONE, freed */
void file_op_free(struct warden *warden, struct file_op *op);                    /* no DONE */
/* Unpacks the frame and finds the share; a negative errno is the operation's result. */
int file_place(struct warden *warden, const struct frame *frame, struct message_path *ret_message,
               struct place *ret_place);
uint64_t file_time_ns(const struct timespec *time);

/* path.c: beneath an open folder; `resolve` adds RESOLVE_* to what always holds */
int open_beneath(int dir_fd, const char *name, int flags, uint64_t resolve);

/* A name cut in two. */
struct place_parts {
    const char *folder; /* from the share on; "." for the share */
    const char *last;   /* one component, never . or .. */
    bool has_slash;     /* a trailing slash: it means a folder */
};
/* Points into the path, which it changes. -EBUSY: the share itself; -EINVAL: it ends in . or .. */
int place_split(struct place *place, struct place_parts *ret);
/* The same and the folder, which must be there (O_PATH). */
int place_open_parent(struct place *place, struct place_parts *ret, int *ret_fd);
/* A folder with all above it, made for the guest where missing (O_PATH). */
int place_make_folder(const struct sandbox *sandbox, int share_fd, const char *name, mode_t mode,
                      int *ret_fd);
bool place_is_folder_name(const struct place *place); /* ends in a slash, . or .. */

/* scan.c: the names in a folder, without . and .. */
#define SCAN_BYTES 4096
struct scan {
    int fd; /* -1: closed */
    size_t at, have;
    _Alignas(8) char data[SCAN_BYTES];
};
void scan_open(struct scan *scan, int fd); /* takes the descriptor */
void scan_close(struct scan *scan);
/* 1, 0 at the end, or a negative errno; the name is valid until the next call. */
int scan_next(struct scan *scan, const char **ret_name, bool *ret_is_folder);

/* put.c: names under which puts, and what is moved to another disk, are written until they are
 * whole */
#define PUT_TEMPORARY ".bailey-put"
bool put_is_temporary(const char *name);

/* change.c: the mode of the file that an O_PATH descriptor refers to, never through a link */
int mode_set(int path_fd, mode_t mode);

/* tree.c: a folder with its contents; continues after the call, and sends DONE */
void tree_remove(struct warden *warden, uint32_t id, int parent_fd, const char *name);

/*
 * carry.c: a move between two file systems; takes the descriptors, continues after the call, sends
 * DONE
 */
void carry_move(struct warden *warden, uint32_t id, int from_fd, const char *from, int to_fd,
                const char *to);

#endif
