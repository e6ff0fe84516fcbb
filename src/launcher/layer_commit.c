/*
 * layer_commit.c - children of the launcher that work on folders a guest filled: committing one as
 * a layer, removing one.
 *
 * Only the engine's root may touch files of every box's ids, so the broker cannot do it itself.
 * The launcher does not do it either, because it never waits: each job is a child that first
 * confines itself (the folder of layers or packages and no other, three capabilities, no way to a
 * new namespace, process or socket), writes its answer to a pipe as the packet that the broker
 * gets, and ends. At most LAYER_COMMITS_AT_ONCE run at a time, the others wait in order.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/list.h"
#include "base/log.h"
#include "base/str.h"
#include "launcher/launcher_private.h"
#include "sys/calls.h"

#define LAYER_COMMITS_AT_ONCE 2
#define LAYER_COMMITS_MAX 256 /* that wait */
#define NAME_MAX_BYTES (ID_MAX + 16)

struct layer_commit_job {
    struct loop_source source; /* the child's pidfd; -1: it has none yet */
    struct launcher *launcher;
    struct layer_commit_job *next;
    pid_t pid;
    int answer_fd;
    bool is_discard;
    int folder_fd;               /* borrowed: of layers or packages */
    uint32_t serial, generation; /* of the broker that asked */
    char name[NAME_MAX_BYTES];
};

/* ---- in the child ---- */

static _Noreturn void job_child(const struct layer_commit_job *job, int answer_fd)
{
    struct launcher_message message = {.type = LAUNCHER_LAYER_COMMITTED,
                                       .layer_committed = {.serial = job->serial}};
    uint8_t packet[LAUNCHER_MESSAGE_MAX];
    long length;
    int r = layer_commit_confine(job->folder_fd, answer_fd);

    if (r < 0)
        error_set(&message.layer_committed.error, r, ERROR_ENGINE, "confining the layer commit: %s",
                  strerror(-r));
    else if (job->is_discard)
        folder_remove(job->folder_fd, job->name);
    else
        r = layer_commit_folder(job->folder_fd, job->name, job->launcher->plan->broker_id,
                                &message.layer_committed);
    length = launcher_message_pack(&message, packet, sizeof(packet));
    if (length > 0)
        fd_write_all(answer_fd, packet, (size_t)length);
    _exit(r < 0);
}

/* ---- in the launcher ---- */

static void answer(struct launcher *launcher,
                   const struct launcher_layer_committed *layer_committed)
{
    struct launcher_message message = {.type = LAUNCHER_LAYER_COMMITTED,
                                       .layer_committed = *layer_committed};

    broker_send(launcher, &message, -1);
}

static void refuse(struct launcher *launcher, uint32_t serial, int num, const char *text)
{
    struct launcher_layer_committed layer_committed = {.serial = serial};

    error_set(&layer_committed.error, num, ERROR_ENGINE, "%s", text);
    answer(launcher, &layer_committed);
}

/* The report of the child is parsed as untrusted: the child handled files of a guest. */
static void tell(struct layer_commit_job *job)
{
    uint8_t packet[LAUNCHER_MESSAGE_MAX];
    struct launcher_message message;
    ssize_t length = read(job->answer_fd, packet, sizeof(packet));

    if (length <= 0 || launcher_message_unpack(packet, (size_t)length, &message) < 0 ||
        message.type != LAUNCHER_LAYER_COMMITTED || message.layer_committed.serial != job->serial)
        refuse(job->launcher, job->serial, -EIO, "the layer could not be sealed");
    else
        answer(job->launcher, &message.layer_committed);
}

static void job_free(struct layer_commit_job *job)
{
    int pid_fd = job->source.fd;

    if (pid_fd >= 0)
        loop_remove(&job->launcher->loop, &job->source);
    fd_closep(&pid_fd);
    fd_closep(&job->answer_fd);
    free(job);
}

static void start_jobs(struct launcher *launcher);

static void on_job_end(struct loop_source *source, uint32_t events)
{
    struct layer_commit_job *job = (struct layer_commit_job *)source; /* its first member */
    struct launcher *launcher = job->launcher;

    (void)events;
    while (waitpid(job->pid, NULL, __WALL) < 0 && errno == EINTR)
        ; /* it has ended: the descriptor says so */
    LIST_UNLINK(launcher->layer_commits, job);
    if (!job->is_discard && job->generation == launcher->generation)
        tell(job); /* a broker that started meanwhile has requested nothing */
    job_free(job);
    start_jobs(launcher);
}

static int start_job(struct layer_commit_job *job)
{
    int ends[2], pid_fd = -1, r;

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return -errno;
    job->pid = sys_clone_fork(0, &pid_fd, -1);
    if (job->pid == 0)
        job_child(job, ends[1]);
    r = job->pid < 0 ? -errno : 0;
    close(ends[1]);
    job->answer_fd = ends[0];
    if (r < 0)
        return r;
    job->source.ready = on_job_end;
    r = loop_add(&job->launcher->loop, &job->source, pid_fd, EPOLLIN);
    if (r < 0) {
        job->source.fd = -1;
        sys_pidfd_send_signal(pid_fd, SIGKILL);
        while (waitpid(job->pid, NULL, __WALL) < 0 && errno == EINTR)
            ;
        fd_closep(&pid_fd);
    }
    return r;
}

/* The first ones of the list run. */
static void start_jobs(struct launcher *launcher)
{
    struct layer_commit_job **at = &launcher->layer_commits;

    for (int running = 0; *at && running < LAYER_COMMITS_AT_ONCE;) {
        struct layer_commit_job *job = *at;

        if (job->source.fd < 0 && start_job(job) < 0) {
            *at = job->next;
            if (!job->is_discard && job->generation == launcher->generation)
                refuse(launcher, job->serial, -EAGAIN, "no process to seal the layer with");
            job_free(job);
            continue;
        }
        running++;
        at = &job->next;
    }
}

static int add_job(struct launcher *launcher, const struct layer_commit_job *job)
{
    struct layer_commit_job **at = &launcher->layer_commits, *copy;
    unsigned count = 0;

    for (; *at; at = &(*at)->next) {
        if (++count >= LAYER_COMMITS_MAX)
            return -EBUSY;
    }
    copy = malloc(sizeof(*copy));
    if (!copy)
        return -ENOMEM;
    *copy = *job;
    copy->source.fd = copy->answer_fd = -1;
    copy->launcher = launcher;
    copy->generation = launcher->generation;
    *at = copy;
    start_jobs(launcher);
    return 0;
}

void layer_commit_start(struct launcher *launcher, const struct launcher_commit_layer *commit_layer)
{
    struct layer_commit_job job = {.folder_fd = launcher->folder_fd[FOLDER_LAYERS],
                                   .serial = commit_layer->serial};

    staging_name(commit_layer->key, job.name, sizeof(job.name));
    if (boxes_has_key(launcher, commit_layer->key)) {
        refuse(launcher, commit_layer->serial, -EBUSY, "the installer's box has not ended yet");
        return;
    }
    if (add_job(launcher, &job) < 0)
        refuse(launcher, commit_layer->serial, -EBUSY, "too many layers are being committed");
}

void layer_commit_discard(struct launcher *launcher,
                          const struct launcher_commit_layer *commit_layer)
{
    struct layer_commit_job job = {.is_discard = true};

    job.folder_fd =
        launcher->folder_fd[commit_layer->is_packages ? FOLDER_PACKAGES : FOLDER_LAYERS];
    if (commit_layer->is_packages)
        str_copy(job.name, sizeof(job.name), commit_layer->key);
    else
        staging_name(commit_layer->key, job.name, sizeof(job.name));
    if (add_job(launcher, &job) < 0)
        log_warning("the folder %s could not be removed, continuing without that", job.name);
}

/*
 * Left by an earlier launcher: boxes do not outlive their launcher. Removed as jobs, because a
 * guest filled them too.
 */
void layer_commit_sweep(struct launcher *launcher)
{
    struct layer_commit_job job = {.is_discard = true,
                                   .folder_fd = launcher->folder_fd[FOLDER_LAYERS]};
    DIR *folder = folder_list(job.folder_fd, ".");
    struct dirent *entry;

    if (!folder)
        return;
    while ((entry = readdir(folder))) {
        if (str_starts(entry->d_name, STAGING_PREFIX) &&
            str_copy(job.name, sizeof(job.name), entry->d_name))
            add_job(launcher, &job);
    }
    closedir(folder);
}
