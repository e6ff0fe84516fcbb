/*
 * artifact.c - an execution as a separate file; see artifact.h.
 *
 * The folder is where the user works, so anything may have been planted in it. Each component is
 * opened by descriptor and never through a symbolic link: all of a relative folder's, the last one
 * of an absolute folder's (above it the operator's own links are fine), and executions/ itself. The
 * file has no name before it is complete.
 */
#include "store/artifact.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/sha256.h"
#include "base/str.h"
#include "store/document.h"

#define FOLDER_DEFAULT "artifacts"
#define FOLDER_EXECUTIONS "executions"
#define FILE_MODE 0600
#define HASH_BYTES 6    /* twelve digits of the name */
#define NAME_TRIES 1000 /* names differ by milliseconds; each try waits for the next */
#define NAME_SIZE 64

/* ---- the folder -------------------------------------------------------------------------------
 */

/* Opens the folder `name` beneath dir_fd and makes it when it is not there. */
static int open_folder(int dir_fd, const char *name, bool may_follow, int *ret_fd,
                       struct error *err)
{
    int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (may_follow ? 0 : O_NOFOLLOW);
    int fd = openat(dir_fd, name, flags);

    if (fd < 0 && errno == ENOENT) {
        if (mkdirat(dir_fd, name, 0700) < 0 && errno != EEXIST)
            return error_errno(err, "making the folder '%s'", name);
        fd = openat(dir_fd, name, flags);
    }
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
        return error_set(err, -errno, ERROR_ENGINE,
                         "'%s' is not a folder (symbolic links are not followed)", name);
    if (fd < 0)
        return error_errno(err, "opening the folder '%s'", name);
    *ret_fd = fd;
    return 0;
}

/* Descends one component and closes the one above. */
static int descend(int *fd, const char *name, bool may_follow, struct error *err)
{
    int next = -1, r = open_folder(*fd, name, may_follow, &next, err);

    if (r < 0)
        return r;
    fd_closep(fd);
    *fd = next;
    return 0;
}

static int open_executions(const char *folder, int *ret_fd, struct error *err)
{
    CLEANUP(fd_closep) int fd = -1;
    CLEANUP(freep) char *path = strdup(folder);
    bool is_absolute = folder[0] == '/';
    char *rest = path, *name;

    if (!path)
        return error_memory(err);
    fd = open(is_absolute ? "/" : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, "opening '%s'", is_absolute ? "/" : ".");
    while ((name = strsep(&rest, "/"))) {
        bool is_last = !rest || rest[strspn(rest, "/")] == '\0';
        int r;

        if (name[0] == '\0' || str_equal(name, "."))
            continue;
        r = descend(&fd, name, is_absolute && !is_last, err);
        if (r < 0)
            return r;
    }
    *ret_fd = -1;
    return open_folder(fd, FOLDER_EXECUTIONS, false, ret_fd, err);
}

/* ---- the file ---------------------------------------------------------------------------------
 */

/* A file that has no final name yet. */
struct draft {
    int dir_fd; /* borrowed */
    int fd;
    char name[NAME_SIZE]; /* empty: it has none at all (O_TMPFILE) */
};

static void draft_close(struct draft *draft)
{
    fd_closep(&draft->fd);
    draft->fd = -1;
    if (draft->name[0])
        unlinkat(draft->dir_fd, draft->name, 0);
    draft->name[0] = '\0';
}

static int draft_open(struct draft *draft, struct error *err)
{
    char id[ID_MAX];
    int r;

    /* A file without a name leaves nothing behind, whatever happens to us. */
    draft->fd = openat(draft->dir_fd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, FILE_MODE);
    if (draft->fd >= 0)
        return 0;
    /* Not every file system supports it: EOPNOTSUPP, and EISDIR where the flag is unknown. */
    if (errno != EOPNOTSUPP && errno != EISDIR)
        return error_errno(err, "making a file");
    r = id_make(id, ".draft");
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "making a name: %s", error_name(-r));
    draft->fd =
        openat(draft->dir_fd, id, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY | O_CLOEXEC, FILE_MODE);
    if (draft->fd < 0)
        return error_errno(err, "making a file");
    str_copy(draft->name, sizeof(draft->name), id);
    return 0;
}

static int draft_fill(struct draft *draft, const char *data, size_t length, struct error *err)
{
    int r;

    /* The umask may have taken bits away, an access list may have added some. */
    if (fchmod(draft->fd, FILE_MODE) < 0)
        return error_errno(err, "setting the file's mode");
    r = fd_write_all(draft->fd, data, length);
    if (r < 0) {
        errno = -r;
        return error_errno(err, "writing %zu bytes", length);
    }
    if (fsync(draft->fd) < 0)
        return error_errno(err, "writing %zu bytes to the disk", length);
    return 0;
}

/* Gives the complete file its name, and never takes one that is in use. 0 or -errno. */
static int draft_publish(struct draft *draft, const char *name)
{
    char path[NAME_SIZE];

    if (draft->name[0]) {
        if (renameat2(draft->dir_fd, draft->name, draft->dir_fd, name, RENAME_NOREPLACE) < 0)
            return -errno;
        draft->name[0] = '\0';
        return 0;
    }
    snprintf(path, sizeof(path), "/proc/self/fd/%d", draft->fd);
    return linkat(AT_FDCWD, path, draft->dir_fd, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static void make_name(const struct artifact *artifact, char name[NAME_SIZE])
{
    uint8_t digest[SHA256_BYTES];
    char stamp[32], hash[2 * HASH_BYTES + 1];

    sha256(artifact->code, artifact->code_length, digest);
    for (int i = 0; i < HASH_BYTES; i++)
        snprintf(hash + 2 * i, 3, "%02x", digest[i]);
    clock_stamp(stamp, sizeof(stamp));
    snprintf(name, NAME_SIZE, "%s_%s.json", stamp, hash);
}

static int publish(struct draft *draft, const struct artifact *artifact, char name[NAME_SIZE],
                   struct error *err)
{
    int r = -EEXIST;

    for (int try = 0; r == -EEXIST && try < NAME_TRIES; try++) {
        /* The same code twice in a millisecond: the next one is free. */
        if (try > 0)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        make_name(artifact, name);
        r = draft_publish(draft, name);
    }
    if (r < 0) {
        errno = -r;
        return error_errno(err, "naming the file '%s'", name);
    }
    return 0;
}

/* The absolute path, as the user would write it. */
static int make_path(const char *folder, const char *name, char **ret, struct error *err)
{
    CLEANUP(buf_free) struct buf path = BUF_INIT(2 * LIMIT_PATH_BYTES);
    char here[LIMIT_PATH_BYTES + 1] = "";
    size_t length = strlen(folder);
    int r = 0;

    while (length > 1 && folder[length - 1] == '/')
        length--;
    if (folder[0] != '/') {
        if (!getcwd(here, sizeof(here)))
            return error_errno(err, "finding the working folder");
        r = buf_printf(&path, "%s/", str_equal(here, "/") ? "" : here);
    }
    if (r == 0)
        r = buf_printf(&path, "%.*s/" FOLDER_EXECUTIONS "/%s", (int)length, folder, name);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "making a path: %s", error_name(-r));
    *ret = ptr_take(&path.data);
    return 0;
}

static int write_file(const struct artifact *artifact, const char *folder, const char *text,
                      char **ret_path, struct error *err)
{
    CLEANUP(fd_closep) int dir_fd = -1;
    CLEANUP(draft_close) struct draft draft = {.fd = -1};
    char name[NAME_SIZE];
    int r = artifact->folder_fd
                ? open_folder(*artifact->folder_fd, FOLDER_EXECUTIONS, false, &dir_fd, err)
                : open_executions(folder, &dir_fd, err);

    if (r < 0)
        return r;
    draft.dir_fd = dir_fd;
    r = draft_open(&draft, err);
    if (r == 0)
        r = draft_fill(&draft, text, strlen(text), err);
    if (r == 0)
        r = publish(&draft, artifact, name, err);
    if (r == 0)
        r = make_path(folder, name, ret_path, err);
    return r;
}

int artifact_write(const struct artifact *artifact, char **ret_path, struct error *err)
{
    const char *folder =
        artifact->folder && artifact->folder[0] ? artifact->folder : FOLDER_DEFAULT;
    char prefix[LIMIT_PATH_BYTES + 64];
    CLEANUP(freep) char *text = NULL;
    int r = document_make(artifact, &text, err);

    if (r == 0)
        r = write_file(artifact, folder, text, ret_path, err);
    if (r < 0) {
        snprintf(prefix, sizeof(prefix), "keeping the execution in '%s/" FOLDER_EXECUTIONS "'",
                 folder);
        error_prefix(err, prefix);
    }
    return r;
}
