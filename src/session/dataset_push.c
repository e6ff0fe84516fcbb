/*
 * dataset_push.c - copies datasets into a container: no folder of the host is bound there, so their
 * bytes go through the warden into /tmp/data, when the box was made and when a dataset is added.
 *
 * While a dataset is being copied the session is not ready: a command that was requested after a
 * dataset finds it. The error of a dataset that does not fit is reported once, to the calls that
 * wait at that moment.
 *
 * An adopted box has its datasets already, except those that were uploaded while there was no
 * broker: each file is looked up first, and copied again if its length differs or its ctime is
 * older than the file here.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/log.h"
#include "base/str.h"
#include "runtime/box/files.h"
#include "session/session_private.h"

#define PIECE (128 * 1024)

struct dataset_push {
    struct session *session;
    char **names; /* strv, in data/<session> */
    size_t at;    /* index of the file that is being copied */
    bool looks;   /* look at each file in the box before copying it */
    bool is_same; /* the file in the box is the same */
    int fd;
    uint32_t call;
    size_t have, sent; /* of `piece` */
    struct error failure;
    char piece[PIECE];
};

static void next(struct dataset_push *push);

void datasets_push_free(struct session *session)
{
    struct dataset_push *push = ptr_take(&session->push);

    if (!push)
        return;
    fd_closep(&push->fd);
    strv_free(push->names);
    free(push);
}

static void over(struct dataset_push *push)
{
    struct session *session = push->session;
    struct error failure = push->failure;

    datasets_push_free(session);
    if (failure.num < 0)
        log_warning("session %s: %s", session->id, failure.text);
    if (session->state == SESSION_READY)
        session_tell_box(session, failure.num < 0 ? NULL : session->box, &failure);
}

static void failed(struct dataset_push *push, int num)
{
    const struct provider_row *row = push->session->provider;
    bool is_memory = provider_can(row, PROVIDER_DISK_IS_MEMORY);
    char disk[32];

    str_from_bytes(push->session->limits.disk_bytes, disk, sizeof(disk));
    if (num == -ENOSPC || num == -EDQUOT)
        error_set(&push->failure, num, ERROR_DISK_FULL,
                  "the dataset /tmp/data/%.100s does not fit into the container, whose disk of %s "
                  "is part of its memory: %s",
                  push->names[push->at], disk,
                  is_memory ? row->more_disk : "raise SANDBOX_DISK_LIMIT");
    else
        error_set(&push->failure, num, ERROR_ENGINE,
                  "the dataset /tmp/data/%.100s could not be put into the container: %s",
                  push->names[push->at], strerror(-num));
}

static void on_put(void *ctx, const struct error *err)
{
    struct dataset_push *push = ctx;

    if (err->num < 0)
        failed(push, err->num);
    fd_closep(&push->fd);
    push->at++;
    next(push);
}

static void on_more(void *ctx)
{
    struct dataset_push *push = ctx;

    for (;;) {
        long taken;

        if (push->sent == push->have) {
            ssize_t length = read(push->fd, push->piece, PIECE);

            if (length <= 0) { /* an unreadable file ends short, and the error says so */
                if (length < 0)
                    failed(push, -errno);
                box_put_end(push->session->box, push->call);
                return;
            }
            push->have = (size_t)length;
            push->sent = 0;
        }
        taken = box_put_data(push->session->box, push->call, push->piece + push->sent,
                             push->have - push->sent);
        if (taken <= 0)
            return;
        push->sent += (size_t)taken;
    }
}

static int open_next(struct dataset_push *push)
{
    char path[ID_MAX + LIMIT_NAME + 16];

    str_format(path, sizeof(path), "%s/%s", push->session->id, push->names[push->at]);
    push->fd = openat(push->session->manager->spec.folders.data_fd, path,
                      O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    return push->fd < 0 ? -errno : 0;
}

static void path_of(const struct dataset_push *push, char path[LIMIT_NAME + 32])
{
    str_format(path, LIMIT_NAME + 32, "/tmp/data/%s", push->names[push->at]);
}

static int put(struct dataset_push *push)
{
    static const struct put_events events = {.done = on_put, .more = on_more};
    char path[LIMIT_NAME + 32];
    struct put_spec spec = {.path = path, .mode = 0444};
    struct error err = {0};
    int r;

    path_of(push, path);
    push->have = push->sent = 0;
    r = box_put(push->session->box, &spec, &events, push, &push->call, &err);
    if (r == 0)
        on_more(push);
    return r;
}

/* ctime: the guest cannot set it. */
static void on_entry(void *ctx, const struct box_entry *entry)
{
    struct dataset_push *push = ctx;
    struct stat here;

    if (fstat(push->fd, &here) < 0)
        return;
    push->is_same = S_ISREG(entry->mode) && entry->bytes == (uint64_t)here.st_size &&
                    entry->change_ns >= (uint64_t)here.st_mtim.tv_sec * UINT64_C(1000000000) +
                                            (uint64_t)here.st_mtim.tv_nsec;
}

static void on_looked(void *ctx, const struct error *err)
{
    struct dataset_push *push = ctx;
    int r = 0;

    if (err->num < 0 || !push->is_same) {
        r = put(push);
        if (r == 0)
            return;
        failed(push, r);
    }
    fd_closep(&push->fd);
    push->at++;
    next(push);
}

static int look(struct dataset_push *push)
{
    static const struct list_events events = {.entry = on_entry, .done = on_looked};
    char path[LIMIT_NAME + 32];
    struct error err = {0};

    path_of(push, path);
    push->is_same = false;
    return box_stat(push->session->box, path, &events, push, &push->call, &err);
}

static void next(struct dataset_push *push)
{
    for (; push->names[push->at]; push->at++) {
        int r = open_next(push);

        if (r == 0)
            r = push->looks ? look(push) : put(push);
        if (r == 0)
            return;
        fd_closep(&push->fd);
        failed(push, r);
    }
    over(push);
}

/* The session's own, or a new one; NULL: no memory. */
static struct dataset_push *push_of(struct session *session)
{
    struct dataset_push *push = session->push;

    if (push)
        return push;
    push = calloc(1, sizeof(*push));
    if (!push)
        return NULL;
    push->session = session;
    push->fd = -1;
    push->names = strv_new();
    if (!push->names) {
        free(push);
        return NULL;
    }
    return session->push = push;
}

static void out_of_memory(const struct session *session)
{
    log_error("session %s: no memory to put its datasets into the container, continuing without "
              "them",
              session->id);
}

void dataset_push(struct session *session, const char *file)
{
    bool is_new = !session->push;
    struct dataset_push *push;

    if (provider_can(session->provider, PROVIDER_CAN_BIND_DATASETS) || !session->box ||
        session->state != SESSION_READY)
        return; /* a box that is made later gets all of them */
    push = push_of(session);
    if (!push || strv_push(&push->names, file) < 0) {
        out_of_memory(session);
        if (is_new)
            datasets_push_free(session);
        return;
    }
    if (is_new)
        next(push);
}

void datasets_push(struct session *session, bool is_new)
{
    int data_fd = session->manager->spec.folders.data_fd;
    struct dataset_push *push = NULL;
    DIR *folder = folder_list(data_fd, session->id);
    struct dirent *entry;

    if (!folder)
        return;
    while ((entry = readdir(folder))) {
        if (entry->d_name[0] == '.')
            continue;
        push = push_of(session);
        if (!push || strv_push(&push->names, entry->d_name) < 0) {
            out_of_memory(session);
            break;
        }
    }
    closedir(folder);
    if (!push)
        return;
    push->looks = !is_new;
    next(push);
}
