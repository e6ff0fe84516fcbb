/*
 * folders.c - the folders that watches cover: found, watched by inotify(7), released.
 *
 * A folder is opened beneath the root of its watch without following any link, entered by its
 * descriptor, and watched as ".": so a guest that swaps a folder for a link gains nothing, and no
 * /proc is needed. In a tree every folder is first watched, then scanned, so that no change is
 * missed; a folder that appears is scanned in the same way, and what is already in it is reported.
 * When a folder is removed or moved away, it is forgotten with everything below it; at its new
 * location it is new.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "warden/notify.h"

#define BUCKETS 1024
#define EVENT_BYTES (16 * 1024) /* of one turn */
#define EVENTS                                                                          \
    (IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | \
     IN_ATTRIB | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK)

struct notify {
    struct loop_source source; /* the inotify descriptor */
    struct warden *warden;
    struct link *watches;
    unsigned count; /* folders */
    uint32_t event; /* number of the current event */
    struct link *by_wd[BUCKETS], *by_name[BUCKETS];
};

#define FOLDER(link, member) ((struct folder *)((char *)(link)-offsetof(struct folder, member)))

static void link_add(struct link **head, struct link *link)
{
    link->next = *head;
    if (link->next)
        link->next->at = &link->next;
    link->at = head;
    *head = link;
}

static void link_remove(struct link *link)
{
    if (!link->at)
        return;
    *link->at = link->next;
    if (link->next)
        link->next->at = link->at;
    link->at = NULL;
}

int folder_path(const struct folder *folder, const char *name, char *path, size_t size)
{
    size_t at = size - 1;

    path[at] = 0;
    for (;; name = folder->name, folder = folder->parent) {
        size_t length = strlen(name);
        size_t slash = length > 0 && path[at];

        if (length + slash > at)
            return -ENAMETOOLONG;
        if (slash)
            path[--at] = '/';
        at -= length;
        memcpy(path + at, name, length);
        if (!folder->parent)
            break;
    }
    memmove(path, path + at, size - at);
    return 0;
}

static struct link **name_bucket(struct notify *notify, const struct folder *parent,
                                 const char *name)
{
    uint32_t hash = (uint32_t)((uintptr_t)parent >> 4);

    while (*name)
        hash = (hash ^ (unsigned char)*name++) * 16777619; /* FNV-1a */
    return &notify->by_name[hash % BUCKETS];
}

static struct folder *folder_child(struct notify *notify, const struct folder *parent,
                                   const char *name)
{
    for (struct link *link = *name_bucket(notify, parent, name); link; link = link->next) {
        struct folder *folder = FOLDER(link, by_name);

        if (folder->parent == parent && str_equal(folder->name, name))
            return folder;
    }
    return NULL;
}

static struct link **wd_bucket(struct notify *notify, int wd)
{
    return &notify->by_wd[(unsigned)wd % BUCKETS];
}

static struct folder *folder_find(struct notify *notify, int wd, uint32_t not_event)
{
    for (struct link *link = *wd_bucket(notify, wd); link; link = link->next) {
        struct folder *folder = FOLDER(link, by_wd);

        if (folder->wd == wd && folder->event != not_event)
            return folder;
    }
    return NULL;
}

/* The kernel's watch is removed with the last folder that uses it. */
static void folder_unwatch(struct notify *notify, struct folder *folder)
{
    if (folder->wd < 0)
        return;
    link_remove(&folder->by_wd);
    if (!folder_find(notify, folder->wd, notify->event + 1))
        inotify_rm_watch(notify->source.fd, folder->wd);
    folder->wd = -1;
}

/* With all below it: LIMIT_TREE_DEPTH bounds how deep that is. */
static void folder_forget(struct notify *notify, struct folder *folder)
{
    struct notify_op *watch = folder->watch;

    while (folder->children)
        folder_forget(notify, FOLDER(folder->children, sibling));
    folder_unwatch(notify, folder);
    link_remove(&folder->sibling);
    link_remove(&folder->by_name);
    link_remove(&folder->waits);
    if (watch->current == folder) {
        scan_close(&watch->scan);
        watch->current = NULL;
    }
    if (watch->root == folder)
        watch->root = NULL;
    notify->count--;
    free(folder);
}

static int folder_add(struct notify *notify, struct notify_op *watch, struct folder *parent,
                      const char *name, bool is_new)
{
    struct folder *folder;

    if (parent && parent->depth == LIMIT_TREE_DEPTH)
        return 0; /* deeper folders are not watched */
    if (notify->count >= LIMIT_WATCHES)
        return -ENOSPC;
    folder = calloc(1, sizeof(*folder) + strlen(name) + 1);
    if (!folder)
        return -ENOMEM;
    memcpy(folder->name, name, strlen(name) + 1);
    folder->watch = watch;
    folder->wd = -1;
    folder->is_new = is_new;
    folder->event = notify->event;
    notify->count++;
    link_add(&watch->waits, &folder->waits);
    if (!parent) {
        watch->root = folder;
        return 0;
    }
    folder->parent = parent;
    folder->depth = parent->depth + 1;
    link_add(&parent->children, &folder->sibling);
    link_add(name_bucket(notify, parent, name), &folder->by_name);
    return 0;
}

/* The root by its name, if that still leads to what it led to when the watch began. */
static int root_open(struct notify_op *watch)
{
    int fd = place_open(&watch->place, O_RDONLY | O_DIRECTORY);
    struct stat status;

    if (fd < 0)
        return fd;
    if (fstat(fd, &status) < 0 || status.st_ino != watch->inode || status.st_dev != watch->device) {
        close(fd);
        return -ENOENT;
    }
    return fd;
}

static int folder_open(struct notify_op *watch, const struct folder *folder)
{
    char path[LIMIT_PATH_BYTES + 1];
    int root_fd = root_open(watch);
    int r;

    if (!folder->parent || root_fd < 0)
        return root_fd;
    r = folder_path(folder, "", path, sizeof(path));
    if (r == 0)
        r = open_beneath(root_fd, path, O_RDONLY | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
    close(root_fd);
    return r;
}

static int folder_watch(struct notify *notify, struct folder *folder, int fd)
{
    int wd, r;

    if (fchdir(fd) < 0)
        return -errno;
    wd = inotify_add_watch(notify->source.fd, ".", EVENTS);
    r = wd < 0 ? -errno : 0;
    if (chdir("/") < 0)
        warden_end(notify->warden); /* nothing here depends on it, but we do not stay inside */
    if (r < 0 || wd == folder->wd)
        return r;
    folder_unwatch(notify, folder);
    folder->wd = wd;
    link_add(wd_bucket(notify, wd), &folder->by_wd);
    return 0;
}

/* Gone, replaced, closed to us or another mount: such a folder is not watched, the others are. */
static bool is_passed_over(int r)
{
    return r == -ENOENT || r == -ENOTDIR || r == -ELOOP || r == -EXDEV || r == -EACCES ||
           r == -ENAMETOOLONG || r == -EAGAIN;
}

static int look_into_next(struct notify *notify, struct notify_op *watch)
{
    struct folder *folder = FOLDER(watch->waits, waits);
    int fd, r;

    link_remove(&folder->waits);
    fd = folder_open(watch, folder);
    r = fd < 0 ? fd : folder_watch(notify, folder, fd);
    if (r == 0 && watch->is_tree) {
        scan_open(&watch->scan, fd);
        watch->current = folder;
        return 0;
    }
    fd_closep(&fd);
    if (r < 0 && folder->parent && is_passed_over(r)) {
        folder_forget(notify, folder);
        return 0;
    }
    return r;
}

static int look_further(struct notify *notify, struct notify_op *watch)
{
    struct folder *folder = watch->current;
    const char *name;
    bool is_folder;

    if (scan_next(&watch->scan, &name, &is_folder) <= 0) {
        scan_close(&watch->scan);
        watch->current = NULL;
        return 0;
    }
    if (folder->is_new)
        notify_tell(watch, folder, CHANGE_CREATED, is_folder, name);
    if (!is_folder || folder_child(notify, folder, name))
        return 0;
    return folder_add(notify, watch, folder, name, folder->is_new);
}

bool folders_wait(const struct notify_op *watch)
{
    return watch->current || watch->waits;
}

int folders_step(struct warden *warden, struct notify_op *watch)
{
    return watch->current ? look_further(warden->notify, watch)
                          : look_into_next(warden->notify, watch);
}

static enum change_kind kind_of(uint32_t mask)
{
    static const struct {
        uint32_t mask;
        enum change_kind kind;
    } kinds[] = {
        {IN_CREATE, CHANGE_CREATED},      {IN_MODIFY | IN_CLOSE_WRITE, CHANGE_WRITTEN},
        {IN_DELETE, CHANGE_REMOVED},      {IN_MOVED_FROM, CHANGE_RENAMED_FROM},
        {IN_MOVED_TO, CHANGE_RENAMED_TO}, {IN_ATTRIB, CHANGE_ATTRIBUTES},
    };

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        if (mask & kinds[i].mask)
            return kinds[i].kind;
    }
    return _CHANGE_KIND_MAX;
}

/* The tree below a folder follows what happens to the folders in it. */
static int follow(struct notify *notify, struct folder *folder, uint32_t mask, const char *name)
{
    struct folder *child;

    if (!folder->watch->is_tree || !(mask & IN_ISDIR) ||
        !(mask & (IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)))
        return 0;
    child = folder_child(notify, folder, name);
    if (child)
        folder_forget(notify, child);
    if (mask & (IN_CREATE | IN_MOVED_TO))
        return folder_add(notify, folder->watch, folder, name, true);
    return 0;
}

static void folder_event(struct notify *notify, struct folder *folder,
                         const struct inotify_event *event)
{
    struct notify_op *watch = folder->watch;
    const char *name = event->len > 0 ? event->name : "";
    uint32_t gone = IN_IGNORED | IN_DELETE_SELF | IN_UNMOUNT;
    enum change_kind kind = kind_of(event->mask);
    int r;

    if (!folder->parent)
        gone |= IN_MOVE_SELF; /* what is watched is what its name leads to */
    if (event->mask & gone) {
        if (folder->parent)
            folder_forget(notify, folder);
        else
            notify_end(notify->warden, watch, -ENOENT);
        return;
    }
    if (!name[0] || kind == _CHANGE_KIND_MAX)
        return;
    notify_tell(watch, folder, kind, event->mask & IN_ISDIR, name);
    r = follow(notify, folder, event->mask, name);
    if (r < 0)
        notify_end(notify->warden, watch, r);
}

/*
 * The kernel dropped events: folders may have appeared and disappeared, so trees are scanned again.
 */
static void lost_events(struct notify *notify)
{
    for (struct link *link = notify->watches; link; link = link->next) {
        struct notify_op *watch =
            (struct notify_op *)((char *)link - offsetof(struct notify_op, others));

        notify_lost(watch);
        if (!watch->is_tree || watch->root->waits.at)
            continue;
        while (watch->root->children)
            folder_forget(notify, FOLDER(watch->root->children, sibling));
        if (watch->current)
            scan_close(&watch->scan);
        watch->current = NULL;
        link_add(&watch->waits, &watch->root->waits);
    }
}

/*
 * The watches of the folder are looked up again after each: handling one may end another's folder.
 */
static void notify_event(struct warden *warden, const struct inotify_event *event)
{
    struct notify *notify = warden->notify;
    struct folder *folder;

    if (event->mask & IN_Q_OVERFLOW) {
        lost_events(notify);
        return;
    }
    notify->event++;
    while (warden->notify && (folder = folder_find(notify, event->wd, notify->event))) {
        folder->event = notify->event;
        folder_event(notify, folder, event);
    }
}

static void notify_ready(struct loop_source *source, uint32_t events)
{
    static _Alignas(struct inotify_event) char data[EVENT_BYTES]; /* one thread */
    struct warden *warden = ((struct notify *)source)->warden;    /* its first member */
    ssize_t length = read(source->fd, data, sizeof(data));

    (void)events;
    for (ssize_t at = 0; at < length && warden->notify;) {
        const struct inotify_event *event = (const struct inotify_event *)(data + at);

        at += (ssize_t)(sizeof(*event) + event->len);
        notify_event(warden, event);
    }
}

static int notify_open(struct warden *warden)
{
    struct notify *notify;
    int fd, r;

    if (warden->notify)
        return 0;
    notify = calloc(1, sizeof(*notify));
    if (!notify)
        return -ENOMEM;
    notify->warden = warden;
    notify->source.ready = notify_ready;
    fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    r = fd < 0 ? -errno : loop_add(&warden->loop, &notify->source, fd, EPOLLIN);
    if (r < 0) {
        fd_closep(&fd);
        free(notify);
        return r;
    }
    warden->notify = notify;
    return 0;
}

int folders_begin(struct warden *warden, struct notify_op *watch)
{
    CLEANUP(fd_closep) int fd = place_open(&watch->place, O_PATH | O_DIRECTORY);
    struct stat status;
    int r;

    if (fd < 0)
        return fd;
    if (fstat(fd, &status) < 0)
        return -errno;
    watch->device = status.st_dev;
    watch->inode = status.st_ino;
    r = notify_open(warden);
    if (r < 0)
        return r;
    link_add(&warden->notify->watches, &watch->others);
    return folder_add(warden->notify, watch, NULL, "", false);
}

void folders_end(struct warden *warden, struct notify_op *watch)
{
    struct notify *notify = warden->notify;
    int fd;

    if (!watch->others.at)
        return; /* it never began */
    if (watch->root)
        folder_forget(notify, watch->root);
    link_remove(&watch->others);
    if (notify->watches)
        return;
    fd = notify->source.fd;
    loop_remove(&warden->loop, &notify->source);
    fd_closep(&fd);
    free(notify);
    warden->notify = NULL;
}
