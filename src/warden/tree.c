/*
 * tree.c - removes a folder with its contents in small steps.
 *
 * Theory of operation. A guest can make a tree of any width and depth, and change it while it is
 * removed. So nothing here recurses, remembers names or holds a descriptor for each level: there is
 * the folder at the top, the current one, and the inode numbers of those between. Entries are
 * unlinked; we descend into a folder that is not empty; when one is empty we ascend by "..", and if
 * that is not the folder we came from, because another process moved ours, we begin at the top
 * again and do not touch anything there. A folder LIMIT_TREE_DEPTH below the top is moved up into
 * the top first, so a tree of any depth can be removed. Links are never followed, other mounts
 * never entered. The first entry that cannot be removed ends the operation, with its errno.
 *
 * A guest that continues to fill the tree does not make it endless: an honest tree has no more
 * names than the disk has inodes in use when we begin.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "sys/calls.h"
#include "warden/file_op.h"

#define NAMES_MAX 8 /* that a random name exists already is no accident; this many are tried */

struct tree {
    struct file_op op;
    int parent_fd; /* that holds the tree */
    char *name;    /* in it */
    int top_fd;    /* the tree itself */
    dev_t device;
    struct scan here;              /* the folder that is being emptied */
    ino_t above[LIMIT_TREE_DEPTH]; /* the folders between, from the top */
    unsigned depth;                /* 0: here is the top */
    uint64_t steps_left;           /* before we report that a process continues to fill it */
};

static void tree_release(struct warden *warden, struct file_op *op)
{
    struct tree *tree = (struct tree *)op;

    (void)warden;
    fd_closep(&tree->parent_fd);
    fd_closep(&tree->top_fd);
    scan_close(&tree->here);
    free(tree->name);
}

/* Four steps for each name: down into it, found empty, up, and the unlink. */
static uint64_t honest_steps(int fd)
{
    struct statfs status;

    if (fstatfs(fd, &status) < 0 || status.f_files <= status.f_ffree)
        return UINT64_MAX; /* a file system that does not count */
    return 4 * (uint64_t)(status.f_files - status.f_ffree) + 4096;
}

static int enter_top(struct tree *tree)
{
    int fd = openat(tree->top_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    scan_close(&tree->here);
    scan_open(&tree->here, fd);
    tree->depth = 0;
    return 0;
}

/*
 * A folder to be emptied has to be read, written and entered, whatever its mode says. Only where we
 * share the guest's id does the mode count, and there it is ours to change.
 */
static int open_folder(int dir_fd, const char *name)
{
    int fd = open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
    struct stat status;

    if (fd == -EACCES) {
        int path_fd = open_beneath(dir_fd, name, O_PATH | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
        int r = path_fd < 0 ? path_fd : mode_set(path_fd, 0700);

        fd = r < 0 ? r : open_beneath(path_fd, ".", O_RDONLY | O_DIRECTORY, 0);
        fd_closep(&path_fd);
    }
    if (fd >= 0 && fstat(fd, &status) == 0 && (status.st_mode & S_IRWXU) != S_IRWXU)
        fchmod(fd, 0700);
    return fd;
}

/* Whether the entry was changed or removed concurrently; it is then read again or skipped. */
static bool is_race(int r)
{
    return r == -ENOENT || r == -ENOTDIR || r == -EISDIR || r == -ELOOP || r == -EAGAIN ||
           r == -ENOTEMPTY || r == -EEXIST;
}

/* Too deep: it becomes a folder of the top, where it is found again. */
static int move_up(struct tree *tree, const char *name)
{
    for (int tries = 0;; tries++) {
        char moved[ID_MAX];
        int r = id_make(moved, ".bailey-deep");

        if (r < 0)
            return r;
        if (sys_renameat2(tree->here.fd, name, tree->top_fd, moved, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno != EEXIST || tries == NAMES_MAX)
            return -errno;
    }
}

static int go_down(struct tree *tree, const char *name)
{
    struct stat here;
    int fd = open_folder(tree->here.fd, name);

    if (fd < 0)
        return fd;
    if (tree->depth == LIMIT_TREE_DEPTH) {
        close(fd); /* opened all the same: now its mode lets it be moved */
        return move_up(tree, name);
    }
    if (fstat(tree->here.fd, &here) < 0) {
        int r = -errno;

        close(fd);
        return r;
    }
    tree->above[tree->depth++] = here.st_ino;
    scan_close(&tree->here);
    scan_open(&tree->here, fd);
    return 0;
}

/* Back to the folder we came from, if that is still the parent of this one. */
static int go_up(struct tree *tree)
{
    int fd = openat(tree->here.fd, "..", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat status;

    if (fd < 0 || fstat(fd, &status) < 0 || status.st_dev != tree->device ||
        status.st_ino != tree->above[tree->depth - 1]) {
        fd_closep(&fd);
        return enter_top(tree);
    }
    tree->depth--;
    scan_close(&tree->here);
    scan_open(&tree->here, fd);
    return 0;
}

static int remove_name(struct tree *tree, const char *name, bool is_folder)
{
    int r = unlinkat(tree->here.fd, name, is_folder ? AT_REMOVEDIR : 0) < 0 ? -errno : 0;

    if (is_folder && (r == -ENOTEMPTY || r == -EEXIST))
        r = go_down(tree, name);
    return is_race(r) ? 0 : r;
}

/* The top is empty: 1 when it is gone. */
static int remove_top(struct tree *tree)
{
    if (unlinkat(tree->parent_fd, tree->name, AT_REMOVEDIR) == 0 || errno == ENOENT)
        return 1;
    if (errno != ENOTEMPTY && errno != EEXIST)
        return -errno;
    return enter_top(tree); /* a process has put something in */
}

/* 1 at the end, 0 to go on, or a negative errno. */
static int tree_step(struct tree *tree)
{
    const char *name;
    bool is_folder;
    int r;

    if (tree->steps_left-- == 0)
        return -EBUSY;
    r = scan_next(&tree->here, &name, &is_folder);
    if (r < 0)
        return r;
    if (r > 0)
        return remove_name(tree, name, is_folder);
    return tree->depth > 0 ? go_up(tree) : remove_top(tree);
}

static bool tree_work(struct warden *warden, struct file_op *op, unsigned steps)
{
    struct tree *tree = (struct tree *)op;
    int r = 0;

    while (r == 0 && steps-- > 0)
        r = tree_step(tree);
    if (r == 0)
        return true;
    file_op_end(warden, op, r == 1 ? 0 : r);
    return false;
}

static const struct file_kind tree_kind = {.work = tree_work, .release = tree_release};

void tree_remove(struct warden *warden, uint32_t id, int parent_fd, const char *name)
{
    struct tree *tree = file_op_new(warden, id, &tree_kind, sizeof(*tree));
    struct stat status;
    int r = 0;

    if (!tree) {
        close(parent_fd);
        return;
    }
    tree->parent_fd = parent_fd;
    tree->here.fd = -1;
    tree->name = strdup(name);
    tree->top_fd = tree->name ? open_folder(parent_fd, name) : -ENOMEM;
    if (tree->top_fd < 0)
        r = tree->top_fd;
    else if (fstat(tree->top_fd, &status) < 0)
        r = -errno;
    if (r == 0) {
        tree->device = status.st_dev;
        tree->steps_left = honest_steps(tree->top_fd);
        r = enter_top(tree);
    }
    if (r < 0)
        file_op_end(warden, &tree->op, r);
}
