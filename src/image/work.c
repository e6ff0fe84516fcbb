/* work.c - progress, and programs that are run for an image; see work.h. */
#include "image/work.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"

#define LOOK_MS 200 /* between two questions whether to stop */

void image_tell(const struct image_work *work, const char *stage, uint64_t done, uint64_t total)
{
    if (work->tell)
        work->tell(work->ctx, stage, done, total);
}

int image_check(const struct image_work *work, struct error *err)
{
    if (work->is_stopped && work->is_stopped(work->ctx))
        return error_set(err, -ECANCELED, ERROR_CANCELLED, "interrupted");
    return 0;
}

struct running {
    pid_t pid;
    int output_fd, error_fd; /* its output */
    struct buf errors;
};

static void running_end(struct running *running)
{
    if (running->pid > 0) {
        kill(running->pid, SIGKILL);
        waitpid(running->pid, NULL, 0);
    }
    fd_closep(&running->output_fd);
    fd_closep(&running->error_fd);
    buf_free(&running->errors);
}

static int start(struct running *running, const char *const *argv, const char *folder)
{
    CLEANUP(fd_closep) int output = -1;
    CLEANUP(fd_closep) int errors = -1;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t how;
    sigset_t none;
    int pipes[2], r;

    if (pipe2(pipes, O_CLOEXEC) < 0)
        return -errno;
    running->output_fd = pipes[0];
    output = pipes[1];
    if (pipe2(pipes, O_CLOEXEC) < 0)
        return -errno;
    running->error_fd = pipes[0];
    errors = pipes[1];
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&how);
    posix_spawnattr_setsigmask(&how, &none); /* ours are blocked while an image is made */
    posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSIGMASK);
    r = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    r = r ? r : posix_spawn_file_actions_adddup2(&actions, output, 1);
    r = r ? r : posix_spawn_file_actions_adddup2(&actions, errors, 2);
    if (folder && !r)
        r = posix_spawn_file_actions_addchdir_np(&actions, folder);
    if (!r)
        r = posix_spawnp(&running->pid, argv[0], &actions, &how, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&how);
    return -r;
}

/* What can be read now. 1: there will be more. */
static int take(int *fd, struct buf *to)
{
    char data[16 * KIB];
    ssize_t got = read(*fd, data, sizeof(data));

    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return 1;
    if (got <= 0) {
        fd_closep(fd);
        *fd = -1;
        return 0;
    }
    return !to || buf_append(to, data, (size_t)got) == 0 ? 1 : -EFBIG;
}

static int wait_words(struct running *running, const struct image_work *work, struct buf *output,
                      struct error *err)
{
    while (running->output_fd >= 0 || running->error_fd >= 0) {
        struct pollfd pollers[] = {{.fd = running->output_fd, .events = POLLIN},
                                   {.fd = running->error_fd, .events = POLLIN}};
        int r = image_check(work, err);

        if (r < 0)
            return r;
        if (poll(pollers, 2, LOOK_MS) <= 0)
            continue;
        if (pollers[0].revents && take(&running->output_fd, output) < 0)
            return error_set(err, -EFBIG, ERROR_TOO_LARGE, "its output is too long");
        if (pollers[1].revents)
            (void)take(&running->error_fd, &running->errors); /* the first lines are kept */
    }
    return 0;
}

int image_execute(const struct image_work *work, const char *const *argv, const char *folder,
                  struct buf *output, struct error *err)
{
    CLEANUP(running_end)
    struct running running = {.output_fd = -1, .error_fd = -1, .errors = BUF_INIT(64 * KIB)};
    int status, r = start(&running, argv, folder);

    if (r < 0) {
        running.pid = 0;
        return error_set(err, r, ERROR_ENGINE, "starting %s: %s", argv[0], strerror(-r));
    }
    r = wait_words(&running, work, output, err);
    if (r < 0)
        return r;
    while (waitpid(running.pid, &status, 0) < 0) {
        if (errno != EINTR)
            return error_errno(err, "waiting for %s", argv[0]);
    }
    running.pid = 0;
    r = image_check(work, err); /* Ctrl-C is for both of us */
    if (r == 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
        return error_set(err, -EIO, ERROR_ENGINE, "%s failed: %.*s", argv[0],
                         (int)strcspn(buf_text(&running.errors), "\n"), buf_text(&running.errors));
    return r;
}
