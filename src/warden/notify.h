/*
 * notify.h - shared by notify.c (the operations) and folders.c (the folders that they watch).
 *
 * One inotify instance serves all watches of a box: instances are few, and counted for the host's
 * user too. A folder that several operations watch has one number (wd) and a struct folder for each
 * of them. Folders form the tree that the operation sees; a path is its parent's path and its own
 * name.
 *
 * Runs in: box
 */
#ifndef BAILEY_WARDEN_NOTIFY_H
#define BAILEY_WARDEN_NOTIFY_H

#include "warden/file_op.h"

/* In a list, or not (at is NULL). */
struct link {
    struct link *next, **at;
};

struct notify_op;

struct folder {
    struct notify_op *watch;
    struct folder *parent; /* NULL: the root */
    struct link *children;
    struct link sibling, by_wd, by_name;
    struct link waits; /* to be looked into */
    int wd;            /* -1: not watched yet */
    unsigned depth;
    uint32_t event; /* the last one it was asked about */
    bool is_new;    /* its contents are reported */
    char name[];    /* "" of the root */
};

/* One WATCH. */
struct notify_op {
    struct file_op op;
    struct link others; /* watches of the box */
    struct place place;
    dev_t device;
    ino_t inode; /* of the folder that the path led to when the watch began */
    bool is_tree;
    bool is_ready, has_said_so;
    struct folder *root;
    struct link *waits;
    struct folder *current; /* is being looked into */
    struct scan scan;
    struct buf changes; /* that wait: a length of two bytes and the payload, again and again */
    size_t sent;        /* of them */
    size_t last;        /* where the last one begins; SIZE_MAX: none */
    bool has_lost;      /* changes were dropped, and that was not reported yet */
};

/* folders.c */
int folders_begin(struct warden *warden, struct notify_op *watch); /* 0 or a negative errno */
void folders_end(struct warden *warden, struct notify_op *watch);
bool folders_wait(const struct notify_op *watch); /* is there anything to be looked into? */
/* Looks into one folder's next name, or into the next folder; a negative errno: it cannot watch. */
int folders_step(struct warden *warden, struct notify_op *watch);
/* "a/b/name" below the root, or the folder's own with an empty name; -ENAMETOOLONG. */
int folder_path(const struct folder *folder, const char *name, char *path, size_t size);

/* notify.c */
void notify_tell(struct notify_op *watch, const struct folder *folder, enum change_kind kind,
                 bool is_folder, const char *name);
void notify_lost(struct notify_op *watch);                              /* events were lost */
void notify_end(struct warden *warden, struct notify_op *watch, int r); /* DONE, freed */

#endif
