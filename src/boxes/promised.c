/*
 * promised.c - the paths that a box promises, in a container that is the only box: /workspace, /tmp
 * with /tmp/output and /tmp/data, /home/user, /mnt/data, and /bailey with our own files.
 *
 * They are folders of the container, so others may use them: a folder that is there with something
 * in it is not ours to give to a guest. Then none is taken, because a box with some of the promised
 * paths would surprise more than one with none.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/str.h"
#include "boxes/boxes_private.h"
#include "boxes/plan_builder.h"

#define LINK "/mnt/data"
#define OURS "/bailey"

/* In the order in which they are made. */
static const struct {
    const char *path;
    mode_t mode;
    bool is_guests;
    bool is_shared; /* whatever is in it stays */
} rows[] = {
    {"/home", 0755, false, true},      {"/home/user", 0700, true, false},
    {"/workspace", 0755, true, false}, {"/tmp/output", 0755, true, false},
    {"/tmp/data", 0755, true, false},  {"/mnt", 0755, false, true},
    {OURS, 0755, false, false},
};

static const char *const readable[] = {
    OURS,         "/etc/passwd",   "/etc/group", "/etc/nsswitch.conf",
    "/etc/hosts", "/etc/hostname", "/opt",       "/sys/devices/system/cpu"};
static const char *const devices[] = {"/dev/tty", "/dev/ptmx"};

static bool is_empty(int fd)
{
    DIR *folder = folder_list(fd, ".");
    const struct dirent *entry;
    bool is_found = false;

    while (folder && !is_found && (entry = readdir(folder)))
        is_found = !str_equal(entry->d_name, ".") && !str_equal(entry->d_name, "..");
    if (folder)
        closedir(folder);
    return folder && !is_found;
}

static int take_folder(struct promised_folder *folder, size_t row, uid_t guest)
{
    struct stat status;

    *folder = (struct promised_folder){.path = rows[row].path, .fd = -1};
    folder->is_made = mkdir(folder->path, rows[row].mode) == 0;
    if (!folder->is_made && errno != EEXIST)
        return -errno;
    folder->fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder->fd < 0 || fstat(folder->fd, &status) < 0)
        return -errno;
    folder->uid = status.st_uid;
    folder->gid = status.st_gid;
    folder->mode = status.st_mode & 07777;
    if (rows[row].is_shared)
        return folder->is_made && fchmod(folder->fd, rows[row].mode) < 0 ? -errno : 0;
    if (!folder->is_made && !is_empty(folder->fd))
        return -ENOTEMPTY;
    /* Of a box that was not given back: it is gone with its last owner. */
    if (status.st_uid == guest)
        folder->uid = folder->gid = geteuid();
    if (rows[row].is_guests && fchown(folder->fd, guest, guest) < 0)
        return -errno;
    return fchmod(folder->fd, rows[row].mode) < 0 ? -errno : 0;
}

/* A link that leads there already is as good, and another file is in the way of nothing else. */
static void take_link(struct promised *promised)
{
    promised->has_link = symlink("/workspace", LINK) == 0;
}

/* What a process that was killed left of ours; the mark shows that it is. */
static void remove_ours(void)
{
    if (access(OURS "/" PROMISED_MARK, F_OK) == 0)
        folder_remove(AT_FDCWD, OURS);
}

/* Without the sticky bit the guest could replace what others have in it, links of ours too. */
static bool is_shared_safely(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && (!(status.st_mode & S_IWOTH) || status.st_mode & S_ISVTX);
}

int promised_take(struct promised *promised, uid_t guest, const char **ret_path)
{
    _Static_assert(ARRAY_SIZE(rows) <= PROMISED_MAX, "each row has its place");

    *promised = (struct promised){.count = 0};
    *ret_path = "/tmp without the sticky bit";
    if (!is_shared_safely("/tmp"))
        return -EPERM;
    remove_ours();
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        int r = take_folder(&promised->folders[i], i, guest);

        promised->count = i + 1;
        if (r < 0) {
            *ret_path = rows[i].path;
            promised_give_back(promised);
            return r;
        }
    }
    take_link(promised);
    return 0;
}

/* It was there before, and went with what the guest left, since the guest had it. */
static void make_again(struct promised_folder *folder)
{
    struct stat status;

    if (lstat(folder->path, &status) == 0 || mkdir(folder->path, 0700) < 0)
        return;
    fd_closep(&folder->fd);
    folder->fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static void give_back(struct promised_folder *folder, bool is_shared)
{
    if (folder->fd < 0)
        return;
    if (str_equal(folder->path, OURS) && folder->is_made)
        folder_remove(AT_FDCWD, OURS);
    else if (str_equal(folder->path, OURS))
        remove_ours();
    if (!folder->is_made && !is_shared)
        make_again(folder);
    if (folder->is_made)
        rmdir(folder->path); /* fails if somebody else uses it meanwhile: then it stays */
    else if (!is_shared && fchown(folder->fd, folder->uid, folder->gid) == 0)
        fchmod(folder->fd, folder->mode);
    fd_closep(&folder->fd);
    folder->fd = -1;
}

void promised_give_back(struct promised *promised)
{
    if (promised->has_link)
        unlink(LINK);
    promised->has_link = false;
    for (size_t i = promised->count; i-- > 0;)
        give_back(&promised->folders[i], rows[i].is_shared);
    promised->count = 0;
}

static int write_file(const char *path, const void *data, size_t length)
{
    CLEANUP(fd_closep)
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0444);
    int r = fd < 0 ? -errno : fd_write_all(fd, data, length);

    return r == 0 && fchmod(fd, 0444) < 0 ? -errno : r;
}

int promised_files(void)
{
    return drivers_write(OURS);
}

int drivers_write(const char *folder)
{
    const struct launch_file *module = launch_zygote_module();
    const struct launch_file *files;
    char path[LIMIT_PATH_BYTES + 1];
    size_t count;
    int r = 0;

    files = launch_drivers(&count);
    if (str_format(path, sizeof(path), "%s/driver", folder) < 0)
        return -ENAMETOOLONG;
    if (mkdir(path, 0755) < 0 || chmod(path, 0755) < 0)
        return -errno;
    for (size_t i = 0; i <= count && r == 0; i++) {
        const struct launch_file *file = i < count ? &files[i] : module;

        r = str_format(path, sizeof(path), "%s/%s", folder, file->path) < 0
                ? -ENAMETOOLONG
                : write_file(path, file->text, file->length);
    }
    if (r == 0 && str_format(path, sizeof(path), "%s/" PROMISED_MARK, folder) == 0)
        r = write_file(path, "", 0);
    return r;
}

void promised_plan(struct plan_builder *builder)
{
    root_shares(builder);
    for (size_t i = 0; i < ARRAY_SIZE(readable); i++) {
        struct stat status;

        if (stat(readable[i], &status) == 0)
            plan_builder_rule(builder, S_ISDIR(status.st_mode) ? RULE_READ_DIR : RULE_READ_FILE,
                              readable[i]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(devices); i++)
        plan_builder_rule(builder, RULE_DEVICE_FILE, devices[i]);
    plan_builder_rule(builder, RULE_DEVICES, "/dev/pts");
    plan_builder_rule(builder, RULE_WRITE_DIR, "/dev/shm");
}
