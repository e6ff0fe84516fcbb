/*
 * launcher_broker.c - the broker as the launcher's child: started, its messages answered,
 * restarted.
 *
 * The broker talks to clients and may have been taken over: it may send only valid messages, and a
 * broker that sends anything else is ended and started again. While answers wait to be read by it,
 * nothing more is read from it, so the queue is bounded by the number of boxes. Its requests are
 * begun in order and answered as they are done.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "launcher/launcher_private.h"
#include "sys/calls.h"

#define PAUSE_FIRST_MS 20
#define PAUSE_MAX_MS 1000
#define GOOD_LIFE_MS 10000 /* a broker that lived this long is restarted at once */
#define MESSAGES_PER_TURN 16

static void on_control(struct loop_source *source, uint32_t events);
static void on_broker_end(struct loop_source *source, uint32_t events);

/* ---- in the child ---- */

/* Writes the pids that `bailey daemon status` shows and an operator may signal. */
static void tell_pids(const struct launcher *launcher)
{
    char text[24] = "", pid_text[24];

    str_format(pid_text, sizeof(pid_text), "%u", (unsigned)launcher->plan->launcher_pid);
    if (readlinkat(LAUNCHER_OUTER_PROC_FD, "self", text, sizeof(text) - 1) > 0)
        setenv("BAILEY_BROKER_PID", text, 1);
    setenv("BAILEY_LAUNCHER_PID", pid_text, 1);
    if (launcher->takeover.state == TAKEOVER_STARTING)
        setenv(BROKER_IS_FIRST, "1", 1);
}

static _Noreturn void broker_child(struct launcher *launcher, int control_fd)
{
    static char *argv[] = {"bailey-engine", "broker", NULL};
    struct fd_move moves[6 + LAUNCHER_FOLDER_COUNT + LAUNCHER_DATASETS_MAX + BROKER_TCP_MAX] = {
        {STDIN_FILENO, 0},
        {STDOUT_FILENO, 1},
        {STDERR_FILENO, BROKER_LOG_FD},
        {control_fd, LAUNCHER_CONTROL_FD},
        {LAUNCHER_LISTEN_FD, BROKER_LISTEN_FD},
        {LAUNCHER_SETTINGS_FD, BROKER_SETTINGS_FD},
    };
    size_t count = 6;
    int program_fd = fcntl(LAUNCHER_PROGRAM_FD, F_DUPFD_CLOEXEC, 256);
    sigset_t none;
    int r;

    tell_pids(launcher);
    sigemptyset(&none);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int i = 0; i < LAUNCHER_FOLDER_COUNT; i++)
        moves[count++] = (struct fd_move){launcher->folder_fd[i], BROKER_FOLDER_FD + i};
    for (int i = 0; i < (int)launcher->plan->dataset_count; i++)
        moves[count++] = (struct fd_move){BROKER_DATASET_FD + i, BROKER_DATASET_FD + i};
    for (int i = 0; i < (int)launcher->plan->tcp_count; i++)
        moves[count++] = (struct fd_move){BROKER_TCP_FD + i, BROKER_TCP_FD + i};
    lseek(LAUNCHER_SETTINGS_FD, 0,
          SEEK_SET); /* an earlier broker has read it, and they share the offset */
    r = setsid() < 0 ? -errno : 0;
    if (r == 0)
        r = launcher->plan->has_no_namespaces /* it has the launcher's id, which has no rights */
                ? hand_off_privileges(-1, false)
                : hand_off_privileges(launcher->plan->broker_id, launcher->plan->clears_groups);
    if (r == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        r = -errno;
    if (r == 0)
        r = hand_fds(moves, count);
    if (r == 0)
        r = hand_exec(program_fd, argv, environ);
    log_error("starting the broker: %s", strerror(-r));
    _exit(1);
}

/* ---- in the launcher ---- */

static void start_failed(struct launcher *launcher, const char *text)
{
    log_error("%s", text);
    if (!launcher->was_ready)
        launcher_say(launcher, LAUNCHER_SAYS_FAILED, text);
    launcher_finish(launcher, 1);
}

/* With growing pauses, so that a broker that cannot start does not use up the CPU. */
static void start_later(struct launcher *launcher, uint64_t now)
{
    if (now - launcher->broker_started_ms >= GOOD_LIFE_MS)
        launcher->pause_ms = 0;
    launcher->restart_at_ms = now + launcher->pause_ms;
    launcher->pause_ms =
        launcher->pause_ms ? MIN(2 * launcher->pause_ms, (uint64_t)PAUSE_MAX_MS) : PAUSE_FIRST_MS;
    if (launcher->restart_at_ms == now)
        broker_start(launcher);
}

void broker_start(struct launcher *launcher)
{
    int pair[2], pid_fd = -1;
    pid_t pid;

    launcher->restart_at_ms = 0;
    launcher->broker_started_ms = clock_now_ms();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        start_failed(launcher, "no channel to the broker could be made");
        return;
    }
    pid = sys_clone_fork(0, &pid_fd, -1);
    if (pid == 0)
        broker_child(launcher, pair[1]);
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        start_failed(launcher, "the broker could not be forked");
        return;
    }
    launcher->broker_pid = pid;
    launcher->generation++;
    launcher->has_said_hello = launcher->greets_later = false;
    launcher->control.ready = on_control;
    launcher->broker.ready = on_broker_end;
    if (loop_add(&launcher->loop, &launcher->control, pair[0], EPOLLIN) < 0 ||
        loop_add(&launcher->loop, &launcher->broker, pid_fd, EPOLLIN) < 0)
        start_failed(launcher, "the broker could not be watched");
}

void broker_tick(struct launcher *launcher, uint64_t now_ms)
{
    if (launcher->restart_at_ms && now_ms >= launcher->restart_at_ms)
        broker_start(launcher);
}

static void note_free(struct launcher_note *note)
{
    fd_closep(&note->fd);
    free(note);
}

static void hang_up(struct launcher *launcher)
{
    int fd = launcher->control.fd;

    loop_remove(&launcher->loop, &launcher->control);
    fd_closep(&fd);
    while (launcher->notes) {
        struct launcher_note *note = launcher->notes;

        launcher->notes = note->next;
        note_free(note);
    }
    launcher->notes_end = &launcher->notes;
}

/* Kills its process group too, in case that it has children. */
void broker_kill(struct launcher *launcher)
{
    int pid_fd = launcher->broker.fd;

    hang_up(launcher);
    bringups_forget_queue(launcher);
    if (launcher->broker_pid <= 0)
        return;
    kill(-launcher->broker_pid, SIGKILL);
    kill(launcher->broker_pid, SIGKILL);
    while (waitpid(launcher->broker_pid, NULL, 0) < 0 && errno == EINTR)
        ;
    while (waitpid(-launcher->broker_pid, NULL, WNOHANG) > 0)
        ;
    launcher->broker_pid = 0;
    loop_remove(&launcher->loop, &launcher->broker);
    fd_closep(&pid_fd);
}

static void describe_end(const siginfo_t *info, char *text, size_t size)
{
    const char *signal_name = sigdescr_np(info->si_status);

    if (info->si_code == CLD_EXITED)
        str_format(text, size, "status %d", info->si_status);
    else
        str_format(text, size, "signal %d: %s", info->si_status,
                   signal_name ? signal_name : "unknown");
}

static void on_broker_end(struct loop_source *source, uint32_t events)
{
    struct launcher *launcher = CONTAINER_OF(source, struct launcher, broker);
    siginfo_t info = {0};
    char text[160], how[64];

    (void)events;
    if (!launcher->was_ready && launcher->control.fd >= 0)
        on_control(&launcher->control, EPOLLIN); /* its last messages may contain the reason */
    if (launcher->is_over)
        return;
    waitid(P_PID, (id_t)launcher->broker_pid, &info, WEXITED | WNOWAIT | WNOHANG);
    broker_kill(launcher);
    if (launcher->is_stopping) {
        launcher_finish(launcher, 0);
        return;
    }
    describe_end(&info, how, sizeof(how));
    str_format(text, sizeof(text), "the broker did not start (%s)" LOG_SAYS_WHY, how);
    if (!launcher->was_ready) {
        start_failed(launcher, text);
        return;
    }
    upgrade_failed(launcher, text);
    if (!takeover_broker_ended(launcher, text))
        log_warning("the broker ended (%s), starting it again", how);
    start_later(launcher, clock_now_ms());
}

/* Its end is handled and logged in the loop, by its pidfd. */
static void broker_drop(struct launcher *launcher)
{
    hang_up(launcher);
    if (launcher->broker_pid > 0)
        kill(launcher->broker_pid, SIGKILL);
}

void broker_renew(struct launcher *launcher)
{
    broker_drop(launcher);
}

static void broker_misbehaved(struct launcher *launcher, const char *how)
{
    log_warning("the broker %s, ending it", how);
    broker_drop(launcher);
}

void broker_end(struct launcher *launcher)
{
    broker_misbehaved(launcher, "does not serve");
}

/* ---- messages ---- */

/* Sends queued messages in order; reads requests only when none is queued. */
static void flush(struct launcher *launcher)
{
    while (launcher->notes) {
        struct launcher_note *note = launcher->notes;
        int r = launcher_send(launcher->control.fd, &note->message, note->fd);

        if (r == 0)
            break;
        if (r < 0) {
            hang_up(launcher); /* it is gone or ending, which its pidfd reports */
            return;
        }
        launcher->notes = note->next;
        if (!launcher->notes)
            launcher->notes_end = &launcher->notes;
        note_free(note);
    }
    broker_listen(launcher);
}

void broker_listen(struct launcher *launcher)
{
    bool is_deaf = launcher->greets_later || upgrade_rests(launcher);

    if (launcher->control.fd >= 0)
        loop_change(&launcher->loop, &launcher->control,
                    launcher->notes ? EPOLLOUT
                    : is_deaf       ? 0
                                    : EPOLLIN);
}

void broker_send(struct launcher *launcher, const struct launcher_message *message, int fd)
{
    struct launcher_note *note;

    if (launcher->control.fd < 0) {
        fd_closep(&fd);
        return;
    }
    note = malloc(sizeof(*note));
    if (!note) {
        fd_closep(&fd);
        broker_misbehaved(launcher, "could not be answered for lack of memory");
        return;
    }
    *note = (struct launcher_note){.message = *message, .fd = fd};
    *launcher->notes_end = note;
    launcher->notes_end = &note->next;
    flush(launcher);
}

void broker_greet(struct launcher *launcher)
{
    struct launcher_message welcome = {.type = LAUNCHER_WELCOME, .number = launcher->generation};

    launcher->greets_later = false;
    boxes_inventory(launcher);
    provider_hosts_offer(launcher);
    broker_send(launcher, &welcome, -1);
}

static void ready(struct launcher *launcher)
{
    if (!launcher->was_ready)
        launcher_say(launcher, LAUNCHER_SAYS_READY, "");
    launcher->was_ready = true;
    zygotes_start(launcher); /* not before: no request needs them */
    upgrade_served(launcher);
    takeover_served(launcher);
}

/* Existing zygotes and boxes of the old layer stay; prewarmed ones are made for the new one. */
static void set_default(struct launcher *launcher, const char *layer)
{
    char before[HASH_TEXT_MAX];

    if (str_equal(launcher->layer, layer))
        return;
    str_copy(before, sizeof(before), launcher->layer);
    str_copy(launcher->layer, sizeof(launcher->layer), layer);
    pool_renew(launcher, before, layer);
    if (launcher->was_ready)
        zygotes_renew(launcher, before, layer);
}

/* Requests about kernels and layers. */
static bool answer_warm(struct launcher *launcher, const struct launcher_message *message)
{
    switch (message->type) {
    case LAUNCHER_KERNEL:
        boxes_kernel(launcher, &message->kernel);
        return true;
    case LAUNCHER_COMMIT_LAYER:
        layer_commit_start(launcher, &message->commit_layer);
        return true;
    case LAUNCHER_DISCARD:
        layer_commit_discard(launcher, &message->commit_layer);
        return true;
    case LAUNCHER_LOOK:
        boxes_look(launcher);
        return true;
    case LAUNCHER_DEFAULT:
        set_default(launcher, message->layer);
        return true;
    case LAUNCHER_FORGET:
        pool_forget(launcher, message->layer);
        zygotes_forget(launcher, message->layer);
        return true;
    default:
        return false;
    }
}

/* False: not a message of a broker. */
static bool answer(struct launcher *launcher, const struct launcher_message *message)
{
    if (message->type == LAUNCHER_FAILED) {
        if (launcher->was_ready) { /* a restarted broker failed; its end follows */
            log_error("the broker could not start: %s", message->failed.text);
            takeover_reason(launcher, message->failed.text);
            return true;
        }
        launcher_say(launcher, LAUNCHER_SAYS_FAILED, message->failed.text);
        launcher_finish(launcher, 1);
        return true;
    }
    if (message->type == LAUNCHER_HELLO) {
        if (launcher->has_said_hello || message->number != LAUNCHER_VERSION)
            return false;
        launcher->has_said_hello = true;
        /* Each box is listed once: requests of the earlier broker must be done first. */
        launcher->greets_later = bringups_of_others(launcher);
        if (!launcher->greets_later)
            broker_greet(launcher);
        return true;
    }
    if (!launcher->has_said_hello)
        return false;
    switch (message->type) {
    case LAUNCHER_READY:
        ready(launcher);
        return true;
    case LAUNCHER_MAKE:
        boxes_make(launcher, &message->make);
        return true;
    case LAUNCHER_END:
        boxes_end(launcher, message->number);
        return true;
    case LAUNCHER_USAGE:
        boxes_usage(launcher, message->number);
        return true;
    case LAUNCHER_QUIT:
        launcher_finish(launcher, 0);
        return true;
    case LAUNCHER_SETTINGS:
        return true; /* stored by on_control() */
    default:
        return answer_warm(launcher, message);
    }
}

/* The launcher does not parse it; it only checks that it is readable and sealed. */
static void keep_settings(int fd)
{
    static const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    struct stat status;

    if ((fcntl(fd, F_GET_SEALS) & seals) != seals || fstat(fd, &status) < 0 ||
        status.st_size > SETTINGS_BYTES_MAX || dup3(fd, LAUNCHER_SETTINGS_FD, O_CLOEXEC) < 0)
        log_warning("the broker's new settings cannot be kept, continuing without them in its "
                    "successor");
}

static void on_control(struct loop_source *source, uint32_t events)
{
    struct launcher *launcher = CONTAINER_OF(source, struct launcher, control);

    if (events & EPOLLOUT)
        flush(launcher);
    if (upgrade_rests(launcher)) {
        if (events & EPOLLHUP)
            broker_drop(launcher);
        return;
    }
    for (int i = 0; i < MESSAGES_PER_TURN && !launcher->notes && source->fd >= 0; i++) {
        struct launcher_message message;
        int fd = -1;
        int r = launcher_receive(source->fd, &message, &fd);

        if (r == 0)
            return;
        if (r > 0 && message.type == LAUNCHER_SETTINGS && launcher->has_said_hello)
            keep_settings(fd);
        fd_closep(&fd);
        if (r == -EPIPE) {
            broker_drop(launcher);
            return;
        }
        if (r < 0 || !answer(launcher, &message)) {
            broker_misbehaved(launcher, "sent an invalid message");
            return;
        }
        if (launcher->is_over)
            return;
        if (launcher->greets_later) {
            loop_change(&launcher->loop, &launcher->control, 0);
            return;
        }
    }
}
