/*
 * list.c - listings: a folder with everything below it, or one name.
 *
 * A list is a producer: it makes the next entry only when the channel has room for it. It descends
 * into folders without following links, not into other mounts, and no deeper than LIMIT_TREE_DEPTH.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "warden/file_op.h"

/* One folder on the way down. */
struct level {
    struct scan scan;
    size_t length; /* of the prefix in it */
};

struct list {
    struct file_op op;
    struct level *levels[LIMIT_TREE_DEPTH];
    unsigned depth, depth_max;
    struct buf prefix;
    uint32_t entries;
};

static void level_leave(struct list *list)
{
    struct level *level = list->levels[--list->depth];

    scan_close(&level->scan);
    free(level);
    list->prefix.length = list->depth > 0 ? list->levels[list->depth - 1]->length : 0;
}

static int level_enter(struct list *list, int fd)
{
    struct level *level = malloc(sizeof(*level));

    if (!level) {
        close(fd);
        return -ENOMEM;
    }
    scan_open(&level->scan, fd);
    level->length = list->prefix.length;
    list->levels[list->depth++] = level;
    return 0;
}

static void list_release(struct warden *warden, struct file_op *op)
{
    struct list *list = (struct list *)op;

    (void)warden;
    while (list->depth > 0)
        level_leave(list);
    buf_free(&list->prefix);
}

static void send_entry(struct warden *warden, uint32_t id, const struct stat *status,
                       const char *path, size_t path_length)
{
    struct message_path message = {
        .mode = status->st_mode,
        .bytes = (uint64_t)status->st_size,
        .time_ns = file_time_ns(&status->st_mtim),
        .offset = file_time_ns(&status->st_ctim),
        .path = path,
        .path_length = path_length,
    };
    static uint8_t payload[LIMIT_PATH_BYTES + MESSAGE_PATH_HEADER];
    ssize_t length = message_path_pack(&message, payload, sizeof(payload));

    if (length >= 0)
        channel_control(warden, FRAME_ENTRY, id, payload, (size_t)length);
}

/*
 * Sends one entry, and descends into it if it is a folder. An entry that has disappeared is
 * skipped.
 */
static int list_entry(struct warden *warden, struct list *list, const char *name)
{
    int dir_fd = list->levels[list->depth - 1]->scan.fd;
    size_t before = list->prefix.length;
    struct stat status;
    int fd;

    if (fstatat(dir_fd, name, &status, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (buf_printf(&list->prefix, "%s%s", before ? "/" : "", name) < 0) {
        list->prefix.length = before;
        return 0; /* no frame could carry such a name */
    }
    send_entry(warden, list->op.id, &status, list->prefix.data, list->prefix.length);
    list->entries++;
    if (S_ISDIR(status.st_mode) && list->depth < list->depth_max) {
        fd = open_beneath(dir_fd, name, O_RDONLY | O_DIRECTORY, RESOLVE_NO_SYMLINKS);
        if (fd >= 0)
            return level_enter(list, fd); /* the prefix stays while we are in it */
        if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM)
            return fd;
    }
    list->prefix.length = before;
    return 0;
}

static bool list_produce(struct warden *warden, struct file_op *op)
{
    struct list *list = (struct list *)op;
    const char *name;
    bool is_folder;
    int r;

    if (!file_has_room(warden))
        return false;
    if (list->depth == 0 || list->entries >= LIMIT_LIST_ENTRIES) {
        file_op_end(warden, op, list->depth == 0 ? 0 : -E2BIG);
        return true;
    }
    r = scan_next(&list->levels[list->depth - 1]->scan, &name, &is_folder);
    if (r == 0)
        level_leave(list);
    else if (r > 0)
        r = list_entry(warden, list, name);
    if (r < 0)
        file_op_end(warden, op, r);
    return true;
}

static const struct file_kind list_kind = {.produce = list_produce, .release = list_release};

void file_list(struct warden *warden, const struct frame *frame)
{
    struct message_path message;
    struct place place;
    int r = file_place(warden, frame, &message, &place);
    struct list *list = file_op_new(warden, frame->id, &list_kind, sizeof(*list));

    if (!list)
        return;
    list->prefix = BUF_INIT(LIMIT_PATH_BYTES);
    list->depth_max =
        message.depth ? MIN(message.depth, (uint32_t)LIMIT_TREE_DEPTH) : (unsigned)LIMIT_TREE_DEPTH;
    if (r == 0)
        r = place_open(&place, O_RDONLY | O_DIRECTORY);
    if (r >= 0)
        r = level_enter(list, r);
    if (r < 0)
        file_op_end(warden, &list->op, r);
}

/* A link at the end is itself the answer. */
void file_stat(struct warden *warden, const struct frame *frame)
{
    CLEANUP(fd_closep) int fd = -1;
    struct message_path message;
    struct place place;
    struct stat status;
    int r = file_place(warden, frame, &message, &place);

    if (r == 0)
        r = fd = place_open(&place, O_PATH | O_NOFOLLOW);
    if (r >= 0 && fstat(fd, &status) < 0)
        r = -errno;
    if (r >= 0)
        send_entry(warden, frame->id, &status, "", 0);
    channel_done(warden, frame->id, MIN(r, 0));
}

/* A folder that the guest removed or replaced has nothing; the listing would say the same. */
bool file_has_output(const struct sandbox *sandbox)
{
    struct scan scan;
    const char *name;
    bool is_folder;
    int r;

    scan_open(&scan, openat(sandbox->share_fd[SHARE_TMP], "output",
                            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (scan.fd < 0)
        return false;
    r = scan_next(&scan, &name, &is_folder);
    scan_close(&scan);
    return r > 0;
}
