/*
 * seal.c - children of the launcher that work on folders a guest filled: sealing one as a layer,
 * taking one away.
 *
 * Only the engine's root may touch files of every box's ids, so the broker cannot do it himself.
 * The launcher does not do it either, because it waits for nobody: each job is a child that has put
 * on walls first (the folder of layers or packages and no other, three capabilities, no way to a
 * new namespace, process or socket), says its answer through a pipe as the packet that the broker
 * gets, and ends. At most SEALS_AT_ONCE run at a time, the others wait in order.
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
#include "base/log.h"
#include "base/str.h"
#include "launcher/engine.h"
#include "sys/calls.h"

#define SEALS_AT_ONCE 2
#define SEALS_MAX 256 /* that wait */
#define NAME_MAX_BYTES (ID_MAX + 16)

struct seal_job {
    struct loop_source source; /* the child's pidfd; -1: it has none yet */
    struct engine *engine;
    struct seal_job *next;
    pid_t pid;
    int answer_fd;
    bool is_discard;
    int folder_fd;               /* borrowed: of layers or packages */
    uint32_t serial, generation; /* of the broker that asked */
    char name[NAME_MAX_BYTES];
};

/* ---- in the child ---- */

static _Noreturn void job_child(const struct seal_job *job, int answer_fd)
{
    struct launcher_message message = {.type = LAUNCHER_SEALED, .sealed = {.serial = job->serial}};
    uint8_t packet[LAUNCHER_MESSAGE_MAX];
    long length;
    int r = seal_confine(job->folder_fd, answer_fd);

    if (r < 0)
        error_set(&message.sealed.error, r, ERROR_ENGINE, "the walls around sealing: %s",
                  strerror(-r));
    else if (job->is_discard)
        folder_remove(job->folder_fd, job->name);
    else
        r = seal_folder(job->folder_fd, job->name, job->engine->plan->broker_id, &message.sealed);
    length = launcher_message_pack(&message, packet, sizeof(packet));
    if (length > 0)
        fd_write_all(answer_fd, packet, (size_t)length);
    _exit(r < 0);
}

/* ---- in the launcher ---- */

static void answer(struct engine *engine, const struct launcher_sealed *sealed)
{
    struct launcher_message message = {.type = LAUNCHER_SEALED, .sealed = *sealed};

    broker_send(engine, &message, -1);
}

static void refuse(struct engine *engine, uint32_t serial, int num, const char *text)
{
    struct launcher_sealed sealed = {.serial = serial};

    error_set(&sealed.error, num, ERROR_ENGINE, "%s", text);
    answer(engine, &sealed);
}

/* What the child said, read as the packet of a stranger: it has handled a guest's files. */
static void tell(struct seal_job *job)
{
    uint8_t packet[LAUNCHER_MESSAGE_MAX];
    struct launcher_message message;
    ssize_t length = read(job->answer_fd, packet, sizeof(packet));

    if (length <= 0 || launcher_message_unpack(packet, (size_t)length, &message) < 0 ||
        message.type != LAUNCHER_SEALED || message.sealed.serial != job->serial)
        refuse(job->engine, job->serial, -EIO, "the layer could not be sealed");
    else
        answer(job->engine, &message.sealed);
}

static void job_free(struct seal_job *job)
{
    int pid_fd = job->source.fd;

    if (pid_fd >= 0)
        loop_remove(&job->engine->loop, &job->source);
    fd_closep(&pid_fd);
    fd_closep(&job->answer_fd);
    free(job);
}

static void start_jobs(struct engine *engine);

static void on_job_end(struct loop_source *source, uint32_t events)
{
    struct seal_job *job = (struct seal_job *)source; /* its first member */
    struct engine *engine = job->engine;
    struct seal_job **at = &engine->seals;

    (void)events;
    while (waitpid(job->pid, NULL, __WALL) < 0 && errno == EINTR)
        ; /* it has ended: the descriptor says so */
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    if (!job->is_discard && job->generation == engine->generation)
        tell(job); /* one that came meanwhile has asked for nothing */
    job_free(job);
    start_jobs(engine);
}

static int start_job(struct seal_job *job)
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
    r = loop_add(&job->engine->loop, &job->source, pid_fd, EPOLLIN);
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
static void start_jobs(struct engine *engine)
{
    struct seal_job **at = &engine->seals;

    for (int running = 0; *at && running < SEALS_AT_ONCE;) {
        struct seal_job *job = *at;

        if (job->source.fd < 0 && start_job(job) < 0) {
            *at = job->next;
            if (!job->is_discard && job->generation == engine->generation)
                refuse(engine, job->serial, -EAGAIN, "no process to seal the layer with");
            job_free(job);
            continue;
        }
        running++;
        at = &job->next;
    }
}

static int add_job(struct engine *engine, const struct seal_job *job)
{
    struct seal_job **at = &engine->seals, *copy;
    unsigned count = 0;

    for (; *at; at = &(*at)->next) {
        if (++count >= SEALS_MAX)
            return -EBUSY;
    }
    copy = malloc(sizeof(*copy));
    if (!copy)
        return -ENOMEM;
    *copy = *job;
    copy->source.fd = copy->answer_fd = -1;
    copy->engine = engine;
    copy->generation = engine->generation;
    *at = copy;
    start_jobs(engine);
    return 0;
}

void seal_start(struct engine *engine, const struct launcher_seal *seal)
{
    struct seal_job job = {.folder_fd = engine->folder_fd[FOLDER_LAYERS], .serial = seal->serial};

    furnish_staging_name(seal->key, job.name, sizeof(job.name));
    if (boxes_has_key(engine, seal->key)) {
        refuse(engine, seal->serial, -EBUSY, "the installer's box has not ended yet");
        return;
    }
    if (add_job(engine, &job) < 0)
        refuse(engine, seal->serial, -EBUSY, "too many layers are being sealed");
}

void seal_discard(struct engine *engine, const struct launcher_seal *seal)
{
    struct seal_job job = {.is_discard = true};

    job.folder_fd = engine->folder_fd[seal->is_packages ? FOLDER_PACKAGES : FOLDER_LAYERS];
    if (seal->is_packages)
        str_copy(job.name, sizeof(job.name), seal->key);
    else
        furnish_staging_name(seal->key, job.name, sizeof(job.name));
    if (add_job(engine, &job) < 0)
        log_warning("the folder %s could not be removed, continuing without that", job.name);
}

/* Nobody's: boxes do not outlive their launcher. As jobs, because they are a guest's too. */
void seal_sweep(struct engine *engine)
{
    struct seal_job job = {.is_discard = true, .folder_fd = engine->folder_fd[FOLDER_LAYERS]};
    int copy = openat(job.folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry;

    if (!folder) {
        fd_closep(&copy);
        return;
    }
    while ((entry = readdir(folder))) {
        if (str_starts(entry->d_name, STAGING_PREFIX) &&
            str_copy(job.name, sizeof(job.name), entry->d_name))
            add_job(engine, &job);
    }
    closedir(folder);
}
