/*
 * engine_broker.c - the broker as its launcher sees it: started, heard, answered, started again.
 *
 * The broker talks to clients, so it may be anybody's by now: it says numbers, and one that says
 * anything else is ended and started again. While answers wait for it to read, nothing more is read
 * from it; so what waits is bounded by the number of boxes. What it asks for is begun in its order
 * and answered as it is done.
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
#include "launcher/engine.h"
#include "sys/calls.h"

#define PAUSE_FIRST_MS 20
#define PAUSE_MAX_MS 1000
#define GOOD_LIFE_MS 10000 /* one that lived so long is started again at once */
#define MESSAGES_PER_TURN 16

static void on_control(struct loop_source *source, uint32_t events);
static void on_broker_end(struct loop_source *source, uint32_t events);

/* ---- in the child ---- */

/* What `bailey daemon status` shows and an operator may signal. */
static void tell_pids(const struct engine *engine)
{
    char text[24] = "", launcher[24];

    str_format(launcher, sizeof(launcher), "%u", (unsigned)engine->plan->launcher_pid);
    if (readlinkat(ENGINE_OUTER_PROC_FD, "self", text, sizeof(text) - 1) > 0)
        setenv("BAILEY_BROKER_PID", text, 1);
    setenv("BAILEY_LAUNCHER_PID", launcher, 1);
}

static _Noreturn void broker_child(struct engine *engine, int control_fd)
{
    static char *argv[] = {"bailey-engine", "broker", NULL};
    struct fd_move moves[6 + ENGINE_FOLDER_COUNT + ENGINE_DATASETS_MAX + SERVE_LISTEN_MAX] = {
        {STDIN_FILENO, 0},
        {STDOUT_FILENO, 1},
        {STDERR_FILENO, BROKER_LOG_FD},
        {control_fd, LAUNCHER_CONTROL_FD},
        {ENGINE_LISTEN_FD, BROKER_LISTEN_FD},
        {ENGINE_SETTINGS_FD, BROKER_SETTINGS_FD},
    };
    size_t count = 6;
    int program_fd = fcntl(ENGINE_PROGRAM_FD, F_DUPFD_CLOEXEC, 256);
    sigset_t none;
    int r;

    tell_pids(engine);
    sigemptyset(&none);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigprocmask(SIG_SETMASK, &none, NULL);
    for (int i = 0; i < ENGINE_FOLDER_COUNT; i++)
        moves[count++] = (struct fd_move){engine->folder_fd[i], BROKER_FOLDER_FD + i};
    for (int i = 0; i < (int)engine->plan->dataset_count; i++)
        moves[count++] = (struct fd_move){BROKER_DATASET_FD + i, BROKER_DATASET_FD + i};
    for (int i = 0; i < (int)engine->plan->tcp_count; i++)
        moves[count++] = (struct fd_move){BROKER_TCP_FD + i, BROKER_TCP_FD + i};
    lseek(ENGINE_SETTINGS_FD, 0,
          SEEK_SET); /* an earlier one has read it, through the same offset */
    r = setsid() < 0 ? -errno : 0;
    if (r == 0)
        r = hand_off_privileges(engine->plan->broker_id, engine->plan->clears_groups);
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

static void start_failed(struct engine *engine, const char *text)
{
    log_error("%s", text);
    if (!engine->was_ready)
        engine_say(engine, ENGINE_SAYS_FAILED, text);
    engine_finish(engine, 1);
}

/* Growing pauses, so that one that cannot live does not eat the machine. */
static void start_later(struct engine *engine, uint64_t now)
{
    if (now - engine->broker_started_ms >= GOOD_LIFE_MS)
        engine->pause_ms = 0;
    engine->restart_at_ms = now + engine->pause_ms;
    engine->pause_ms =
        engine->pause_ms ? MIN(2 * engine->pause_ms, (uint64_t)PAUSE_MAX_MS) : PAUSE_FIRST_MS;
    if (engine->restart_at_ms == now)
        broker_start(engine);
}

void broker_start(struct engine *engine)
{
    int pair[2], pid_fd = -1;
    pid_t pid;

    engine->restart_at_ms = 0;
    engine->broker_started_ms = clock_now_ms();
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0) {
        start_failed(engine, "no channel to the broker could be made");
        return;
    }
    pid = sys_clone_fork(0, &pid_fd, -1);
    if (pid == 0)
        broker_child(engine, pair[1]);
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        start_failed(engine, "the broker could not be forked");
        return;
    }
    engine->broker_pid = pid;
    engine->generation++;
    engine->has_said_hello = engine->greets_later = false;
    engine->control.ready = on_control;
    engine->broker.ready = on_broker_end;
    if (loop_add(&engine->loop, &engine->control, pair[0], EPOLLIN) < 0 ||
        loop_add(&engine->loop, &engine->broker, pid_fd, EPOLLIN) < 0)
        start_failed(engine, "the broker could not be watched");
}

void broker_tick(struct engine *engine, uint64_t now_ms)
{
    if (engine->restart_at_ms && now_ms >= engine->restart_at_ms)
        broker_start(engine);
}

static void note_free(struct engine_note *note)
{
    fd_closep(&note->fd);
    free(note);
}

static void hang_up(struct engine *engine)
{
    int fd = engine->control.fd;

    loop_remove(&engine->loop, &engine->control);
    fd_closep(&fd);
    while (engine->notes) {
        struct engine_note *note = engine->notes;

        engine->notes = note->next;
        note_free(note);
    }
    engine->notes_end = &engine->notes;
}

/* Its own process group goes too, should it have got any children. */
void broker_kill(struct engine *engine)
{
    int pid_fd = engine->broker.fd;

    hang_up(engine);
    makings_forget_queue(engine);
    if (engine->broker_pid <= 0)
        return;
    kill(-engine->broker_pid, SIGKILL);
    kill(engine->broker_pid, SIGKILL);
    while (waitpid(engine->broker_pid, NULL, 0) < 0 && errno == EINTR)
        ;
    while (waitpid(-engine->broker_pid, NULL, WNOHANG) > 0)
        ;
    engine->broker_pid = 0;
    loop_remove(&engine->loop, &engine->broker);
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
    struct engine *engine = CONTAINER_OF(source, struct engine, broker);
    siginfo_t info = {0};
    char text[160], how[64];

    (void)events;
    if (!engine->was_ready && engine->control.fd >= 0)
        on_control(&engine->control, EPOLLIN); /* its last words may say why */
    if (engine->is_over)
        return;
    waitid(P_PID, (id_t)engine->broker_pid, &info, WEXITED | WNOWAIT | WNOHANG);
    broker_kill(engine);
    if (engine->is_stopping) {
        engine_finish(engine, 0);
        return;
    }
    describe_end(&info, how, sizeof(how));
    str_format(text, sizeof(text), "the broker did not start (%s)" SERVE_LOG_SAYS_WHY, how);
    if (!engine->was_ready) {
        start_failed(engine, text);
        return;
    }
    upgrade_failed(engine, text);
    log_warning("the broker ended (%s), starting it again", how);
    start_later(engine, clock_now_ms());
}

/* Its end is seen in the loop, by its pidfd, and logged there. */
static void broker_drop(struct engine *engine)
{
    hang_up(engine);
    if (engine->broker_pid > 0)
        kill(engine->broker_pid, SIGKILL);
}

static void broker_misbehaved(struct engine *engine, const char *how)
{
    log_warning("the broker %s, ending it", how);
    broker_drop(engine);
}

void broker_end(struct engine *engine)
{
    broker_misbehaved(engine, "does not serve");
}

/* ---- messages ---- */

/* Sends what waits, in order; reads requests only when nothing does. */
static void flush(struct engine *engine)
{
    while (engine->notes) {
        struct engine_note *note = engine->notes;
        int r = launcher_send(engine->control.fd, &note->message, note->fd);

        if (r == 0)
            break;
        if (r < 0) {
            hang_up(engine); /* it is gone or going, which its pidfd says */
            return;
        }
        engine->notes = note->next;
        if (!engine->notes)
            engine->notes_end = &engine->notes;
        note_free(note);
    }
    broker_listen(engine);
}

void broker_listen(struct engine *engine)
{
    bool is_deaf = engine->greets_later || upgrade_rests(engine);

    if (engine->control.fd >= 0)
        loop_change(&engine->loop, &engine->control,
                    engine->notes ? EPOLLOUT
                    : is_deaf     ? 0
                                  : EPOLLIN);
}

void broker_send(struct engine *engine, const struct launcher_message *message, int fd)
{
    struct engine_note *note;

    if (engine->control.fd < 0) {
        fd_closep(&fd);
        return;
    }
    note = malloc(sizeof(*note));
    if (!note) {
        fd_closep(&fd);
        broker_misbehaved(engine, "could not be answered for lack of memory");
        return;
    }
    *note = (struct engine_note){.message = *message, .fd = fd};
    *engine->notes_end = note;
    engine->notes_end = &note->next;
    flush(engine);
}

void broker_greet(struct engine *engine)
{
    struct launcher_message welcome = {.type = LAUNCHER_WELCOME, .number = engine->generation};

    engine->greets_later = false;
    boxes_inventory(engine);
    wall_offer(engine);
    broker_send(engine, &welcome, -1);
}

static void ready(struct engine *engine)
{
    if (!engine->was_ready)
        engine_say(engine, ENGINE_SAYS_READY, "");
    engine->was_ready = true;
    zygotes_start(engine); /* not before: nobody waits for it */
    upgrade_served(engine);
}

/* What is there of the old one lives on; what is made ahead is made of the new one. */
static void set_default(struct engine *engine, const char *layer)
{
    char before[HASH_TEXT_MAX];

    if (str_equal(engine->layer, layer))
        return;
    str_copy(before, sizeof(before), engine->layer);
    str_copy(engine->layer, sizeof(engine->layer), layer);
    pool_renew(engine, before, layer);
    if (engine->was_ready)
        zygotes_renew(engine, before, layer);
}

/* What concerns kernels and layers. */
static bool answer_warm(struct engine *engine, const struct launcher_message *message)
{
    switch (message->type) {
    case LAUNCHER_KERNEL:
        boxes_kernel(engine, &message->kernel);
        return true;
    case LAUNCHER_SEAL:
        seal_start(engine, &message->seal);
        return true;
    case LAUNCHER_DISCARD:
        seal_discard(engine, &message->seal);
        return true;
    case LAUNCHER_LOOK:
        boxes_look(engine);
        return true;
    case LAUNCHER_DEFAULT:
        set_default(engine, message->layer);
        return true;
    case LAUNCHER_FORGET:
        pool_forget(engine, message->layer);
        zygotes_forget(engine, message->layer);
        return true;
    default:
        return false;
    }
}

/* False: that was nothing a broker says. */
static bool answer(struct engine *engine, const struct launcher_message *message)
{
    if (message->type == LAUNCHER_FAILED) {
        if (engine->was_ready) { /* a later one; its end comes */
            log_error("the broker could not start: %s", message->failed.text);
            return true;
        }
        engine_say(engine, ENGINE_SAYS_FAILED, message->failed.text);
        engine_finish(engine, 1);
        return true;
    }
    if (message->type == LAUNCHER_HELLO) {
        if (engine->has_said_hello || message->number != LAUNCHER_VERSION)
            return false;
        engine->has_said_hello = true;
        /* Each box is shown once: what the one before asked for has to stand, or to have failed. */
        engine->greets_later = makings_of_others(engine);
        if (!engine->greets_later)
            broker_greet(engine);
        return true;
    }
    if (!engine->has_said_hello)
        return false;
    switch (message->type) {
    case LAUNCHER_READY:
        ready(engine);
        return true;
    case LAUNCHER_MAKE:
        boxes_make(engine, &message->make);
        return true;
    case LAUNCHER_END:
        boxes_end(engine, message->number);
        return true;
    case LAUNCHER_USAGE:
        boxes_usage(engine, message->number);
        return true;
    case LAUNCHER_QUIT:
        engine_finish(engine, 0);
        return true;
    case LAUNCHER_SETTINGS:
        return true; /* kept by on_control() */
    default:
        return answer_warm(engine, message);
    }
}

/* Nobody reads it here; that it can be read, and does not change any more, is all that counts. */
static void keep_settings(int fd)
{
    static const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    struct stat status;

    if ((fcntl(fd, F_GET_SEALS) & seals) != seals || fstat(fd, &status) < 0 ||
        status.st_size > SETTINGS_BYTES_MAX || dup3(fd, ENGINE_SETTINGS_FD, O_CLOEXEC) < 0)
        log_warning("the broker's new settings cannot be kept, continuing without them in its "
                    "successor");
}

static void on_control(struct loop_source *source, uint32_t events)
{
    struct engine *engine = CONTAINER_OF(source, struct engine, control);

    if (events & EPOLLOUT)
        flush(engine);
    if (upgrade_rests(engine)) {
        if (events & EPOLLHUP)
            broker_drop(engine);
        return;
    }
    for (int i = 0; i < MESSAGES_PER_TURN && !engine->notes && source->fd >= 0; i++) {
        struct launcher_message message;
        int fd = -1;
        int r = launcher_receive(source->fd, &message, &fd);

        if (r == 0)
            return;
        if (r > 0 && message.type == LAUNCHER_SETTINGS && engine->has_said_hello)
            keep_settings(fd);
        fd_closep(&fd);
        if (r == -EPIPE) {
            broker_drop(engine);
            return;
        }
        if (r < 0 || !answer(engine, &message)) {
            broker_misbehaved(engine, "sent nonsense");
            return;
        }
        if (engine->is_over)
            return;
        if (engine->greets_later) {
            loop_change(&engine->loop, &engine->control, 0);
            return;
        }
    }
}
