/* kernel.c - a kernel's socket, pipes and end; see kernel.h. */
#include "warden/kernel.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "sys/calls.h"

/* Between the last close(2) of a process and its end; also `exec sh -c 'exit 3'` of a cell, which
 * closes the socket before the shell has begun. */
#define EXIT_PATIENCE_MS 200

static bool is_writing(const struct kernel *kernel)
{
    return kernel->current && kernel->written < kernel->head_length + kernel->current->text.length;
}

/* Bytes that may be read now: what is not an event takes no room. */
static size_t reading_room(const struct kernel *kernel)
{
    const struct command *cell = kernel->current;

    if (!cell || cell->has_exited)
        return SIZE_MAX;
    return out_stream_room(&cell->out[2]);
}

/* A source that wants nothing is taken out: the loop would go on reporting a hung-up socket. */
static void watch_socket(struct kernel *kernel)
{
    struct loop *loop = &kernel->warden->loop;
    uint32_t events = reading_room(kernel) > 0 && !kernel->is_dead ? (uint32_t)EPOLLIN : 0;
    int r = 0;

    if (is_writing(kernel) && !kernel->is_dead)
        events |= EPOLLOUT;
    if (kernel->socket_fd < 0 || events == 0)
        loop_remove(loop, &kernel->socket);
    else if (kernel->socket.fd < 0)
        r = loop_add(loop, &kernel->socket, kernel->socket_fd, events);
    else
        r = loop_change(loop, &kernel->socket, events);
    if (r < 0)
        warden_end(kernel->warden);
}

static void close_socket(struct kernel *kernel)
{
    loop_remove(&kernel->warden->loop, &kernel->socket);
    fd_closep(&kernel->socket_fd);
    kernel->socket_fd = -1;
}

void kernel_pipe_close(struct kernel_pipe *pipe)
{
    loop_remove(&pipe->kernel->warden->loop, &pipe->source);
    fd_closep(&pipe->fd);
    pipe->fd = -1;
}

void kernel_free(struct kernel *kernel)
{
    int fd;

    if (!kernel)
        return;
    fd = kernel->end.fd;
    loop_remove(&kernel->warden->loop, &kernel->end);
    fd_closep(&fd);
    close_socket(kernel);
    for (int i = 0; i < 2; i++)
        kernel_pipe_close(&kernel->pipe[i]);
    free(kernel);
}

uint64_t kernel_cpu_ns(const struct kernel *kernel)
{
    /* The clock of a process, as clock_getcpuclockid(3) makes it, without its system call. */
    clockid_t id = (clockid_t)((~(unsigned)kernel->pid << 3) | 2);
    struct timespec time;

    if (kernel->is_dead || clock_gettime(id, &time) < 0)
        return 0;
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* ---- its end ---- */

void kernel_signal(struct kernel *kernel, int number)
{
    if (kernel->is_dead || kernel->pid == 0)
        return;
    if (kill(-kernel->pid, number) == 0)
        return;
    if (kernel->from_zygote)
        sys_pidfd_send_signal(kernel->end.fd, number);
    else
        kill(kernel->pid, number);
}

void kernel_kill(struct kernel *kernel)
{
    if (kernel->pid == 0)
        kernel->is_unwanted = true;
    else if (!kernel->is_dead)
        proc_tree_kill_tree(kernel->warden->sandbox, kernel->pid,
                            kernel->from_zygote ? kernel->end.fd : -1);
}

/* An exiting process closes its descriptors a moment before it is dead. */
static bool ends_by_itself(const struct kernel *kernel)
{
    CLEANUP(fd_closep) int own = kernel->from_zygote ? -1 : sys_pidfd_open(kernel->pid);
    struct pollfd end = {.fd = kernel->from_zygote ? kernel->end.fd : own, .events = POLLIN};

    return end.fd >= 0 && poll(&end, 1, EXIT_PATIENCE_MS) == 1;
}

/*
 * The kernel cannot be reached any more. A script may close descriptors that it does not need;
 * others must not.
 */
static void lose_socket(struct kernel *kernel)
{
    bool is_script = kernel->current && kernel->current->cell.flags & CELL_SCRIPT;
    bool has_all = !is_writing(kernel);

    close_socket(kernel);
    if (!kernel->is_dead && !(is_script && has_all) && !ends_by_itself(kernel))
        kernel_kill(kernel);
}

/* The last output of a dead kernel belongs to its last cell, as far as there is room for it. */
static void reap_kernel(struct kernel *kernel)
{
    while (kernel->left > 0 && kernel->socket_fd >= 0 && kernel->current &&
           !kernel->current->has_exited && reading_room(kernel) > 0)
        kernel_read(kernel);
    if (kernel->left > 0 && kernel->socket_fd >= 0 && kernel->current &&
        !kernel->current->has_exited)
        return; /* cell_room() calls again */
    close_socket(kernel);
    if (kernel->current && !kernel->current->has_exited)
        cell_lose(kernel->current);
    if (kernel->current)
        return; /* its last bytes are in the pipes: kernel_next() calls again */
    for (int i = 0; i < 2; i++) {
        loop_remove(&kernel->warden->loop, &kernel->pipe[i].source);
        if (kernel->pipe[i].fd >= 0) /* processes that it left behind may continue to write */
            drain_take(kernel->warden, fd_take(&kernel->pipe[i].fd));
    }
}

void kernel_go_on(struct kernel *kernel)
{
    if (kernel->is_dead)
        reap_kernel(kernel);
    else
        watch_socket(kernel);
}

void kernel_died(struct kernel *kernel)
{
    struct command *next;
    int left = 0;

    kernel->is_dead = true;
    for (struct command *cell = kernel->warden->commands; cell; cell = next) {
        next = cell->next;
        if (cell->is_cell && cell->kernel == kernel && cell != kernel->current)
            cell_lose(cell);
    }
    if (kernel->socket_fd >= 0 && ioctl(kernel->socket_fd, FIONREAD, &left) == 0 && left > 0)
        kernel->left = (size_t)left;
    loop_remove(&kernel->warden->loop, &kernel->socket);
    reap_kernel(kernel);
}

static void external_end(struct kernel *kernel)
{
    struct command *command = kernel->command;

    command->has_exited = true;
    command->end_ns = clock_now_ns();
    command->end.flags |= EXITED_STATUS_EXTERNAL;
    kernel_died(kernel);
}

static void end_ready(struct loop_source *source, uint32_t events)
{
    struct kernel *kernel = (struct kernel *)((char *)source - offsetof(struct kernel, end));
    int fd = source->fd;

    (void)events;
    loop_remove(&kernel->warden->loop, source);
    close(fd);
    external_end(kernel);
}

/* ---- messages of a kernel ---- */

/* Has it died, though its end has not been processed yet? */
static bool has_died(const struct kernel *kernel)
{
    struct pollfd end = {.fd = kernel->end.fd, .events = POLLIN};
    siginfo_t info = {0};

    if (kernel->is_dead)
        return true;
    if (kernel->from_zygote)
        return poll(&end, 1, 0) == 1;
    return waitid(P_PID, (id_t)kernel->pid, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
}

/*
 * A cell cannot have ended before it was sent, and a dead kernel sends nothing: another process
 * that kept the socket would be speaking for it. A script ends with its process, or by announcing
 * its exit status: the program chooses that status anyway, and the exit of a process that shares
 * its memory with a zygote takes longer than many scripts run.
 */
static bool is_last_word(const struct kernel *kernel, const struct kernel_word *word)
{
    const struct command *cell = kernel->current;
    enum kernel_word_kind kind = cell->cell.flags & CELL_SCRIPT ? KERNEL_EXIT : KERNEL_END;

    return word->kind == kind && word->id == cell->id && !is_writing(kernel) && !has_died(kernel);
}

/* The next cell begins when all of them are handled: they were said before it. */
static void take_words(struct kernel *kernel, const char *data, size_t length)
{
    kernel->is_taking = true;
    while (length > 0) {
        struct command *cell = kernel->current;
        struct kernel_word word;
        size_t taken = kernel_line_feed(&kernel->line, data, length, &word);

        data += taken;
        length -= taken;
        if (!cell || cell->has_exited)
            continue;
        if (word.kind == KERNEL_EVENT)
            cell_event(cell, word.data, word.length);
        else if (is_last_word(kernel, &word))
            cell_end(cell, word.status << 8);
    }
    kernel->is_taking = false;
}

void kernel_read(struct kernel *kernel)
{
    static char data[64 * KIB]; /* one thread */
    size_t room = MIN(reading_room(kernel), sizeof(data));
    ssize_t length;

    if (kernel->is_dead)
        room = MIN(room, kernel->left);
    if (kernel->socket_fd < 0 || room == 0)
        return;
    length = recv(kernel->socket_fd, data, room, MSG_DONTWAIT);
    if (length < 0 && errno == EINTR)
        return;
    if (length < 0 && errno == EAGAIN) {
        kernel->left = 0;
        return;
    }
    if (length <= 0) {
        kernel->left = 0;
        lose_socket(kernel);
        return;
    }
    kernel->left -= MIN(kernel->left, (size_t)length);
    take_words(kernel, data, (size_t)length);
    if (!kernel->is_dead)
        kernel_next(kernel);
    watch_socket(kernel);
}

void kernel_write(struct kernel *kernel)
{
    struct buf *text = kernel->current ? &kernel->current->text : NULL;

    while (kernel->socket_fd >= 0 && is_writing(kernel)) {
        size_t in_head = MIN(kernel->written, kernel->head_length);
        size_t in_text = kernel->written - in_head;
        struct iovec parts[2] = {
            {.iov_base = kernel->head + in_head, .iov_len = kernel->head_length - in_head}};
        struct msghdr message = {.msg_iov = parts, .msg_iovlen = text->length > 0 ? 2 : 1};
        ssize_t length;

        if (text->length > 0)
            parts[1] =
                (struct iovec){.iov_base = text->data + in_text, .iov_len = text->length - in_text};
        length = sendmsg(kernel->socket_fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (length < 0 && errno == EINTR)
            continue;
        if (length < 0 && (errno == EAGAIN || errno == ENOBUFS))
            break;
        if (length < 0) {
            lose_socket(kernel);
            return;
        }
        kernel->written += (size_t)length;
    }
    if (text && !is_writing(kernel))
        buf_free(text);
    watch_socket(kernel);
}

static void socket_ready(struct loop_source *source, uint32_t events)
{
    struct kernel *kernel = (struct kernel *)((char *)source - offsetof(struct kernel, socket));

    if (events & EPOLLOUT)
        kernel_write(kernel);
    kernel_read(kernel);
}

/* Between cells what was printed stays where it is; a pipe that has something is not watched. */
static void pipe_ready(struct loop_source *source, uint32_t events)
{
    struct kernel_pipe *pipe = (struct kernel_pipe *)source; /* its first member */
    struct kernel *kernel = pipe->kernel;
    struct out_stream *stream = kernel->current ? &kernel->current->out[pipe->index] : NULL;

    (void)events;
    if (!stream || stream->pipe != pipe) {
        loop_remove(&kernel->warden->loop, source);
        return;
    }
    out_stream_read(stream);
    kernel_read(kernel); /* the end of the cell is often there already: one turn less */
}

/* ---- its life ---- */

void kernel_next(struct kernel *kernel)
{
    if (kernel->current || kernel->is_taking)
        return;
    if (kernel->is_dead) {
        reap_kernel(kernel);
        return;
    }
    if (kernel->socket_fd < 0 || !kernel->command->has_started)
        return;
    for (struct command *cell = kernel->warden->commands; cell; cell = cell->next) {
        if (cell->is_cell && cell->kernel == kernel) {
            cell_begin(kernel, cell);
            return;
        }
    }
}

void kernel_open(struct command *command, pid_t pid, const int fd[3])
{
    struct warden *warden = command->warden;
    struct kernel *kernel = calloc(1, sizeof(*kernel));

    if (!kernel)
        warden_end(warden);
    *kernel = (struct kernel){
        .warden = warden,
        .command = command,
        .socket_fd = -1,
        .socket = {.fd = -1, .ready = socket_ready},
        .end = {.fd = -1, .ready = end_ready},
    };
    command->kernel = kernel;
    for (int i = 0; i < 2; i++) {
        kernel->pipe[i] = (struct kernel_pipe){
            .source = {.fd = -1, .ready = pipe_ready}, .kernel = kernel, .index = i, .fd = -1};
    }
    if (pid > 0)
        kernel_place(kernel, pid, fd);
}

void kernel_place(struct kernel *kernel, pid_t pid, const int fd[3])
{
    kernel->pid = pid;
    kernel->socket_fd = fd[0];
    for (int i = 0; i < 2; i++) {
        kernel->pipe[i].fd = fd[i + 1];
        fd_set_nonblocking(fd[i + 1], true);
    }
    watch_socket(kernel);
    if (kernel->is_unwanted)
        kernel_kill(kernel);
}

/*
 * As many can live as can be remembered; of ended ones the oldest that no host waits for is
 * forgotten.
 */
bool kernel_make_room(struct warden *warden)
{
    unsigned living = 0, dead = 0;
    struct command *oldest = NULL;

    for (struct command *command = warden->commands; command; command = command->next) {
        if (!command->is_kernel)
            continue;
        living += !command->has_exited;
        dead += command->has_exited;
        if (!oldest && command->has_exited && !(command->kernel && command->kernel->current) &&
            (command->is_end_told || command->is_unnamed))
            oldest = command;
    }
    if (living >= LIMIT_CONTEXTS || (dead >= LIMIT_CONTEXTS && !oldest))
        return false;
    if (dead >= LIMIT_CONTEXTS)
        command_free(oldest);
    return true;
}

/* A process above the limit, or whose id is in use: it is killed without a report. */
static void turn_away(struct warden *warden, int pid_fd)
{
    for (int i = 0; i < 3; i++)
        fd_closep(&warden->given[i]);
    if (pid_fd >= 0)
        sys_pidfd_send_signal(pid_fd, SIGKILL);
    fd_closep(&pid_fd);
}

void kernel_given(struct warden *warden, const struct frame *frame)
{
    struct message_kernel message;
    struct command *command;
    int pid_fd;

    if (message_kernel_unpack(frame, &message) < 0 || frame->id == 0)
        warden_end(warden);
    warden->has_guests = true;
    pid_fd = sys_pidfd_open(message.pid);
    if (command_by_id(warden, frame->id) || !kernel_make_room(warden)) {
        turn_away(warden, pid_fd);
        return;
    }
    command = command_new(warden, frame->id, 0);
    if (!command)
        warden_end(warden);
    command->is_kernel = true;
    command->has_started = command->is_start_told = true; /* the requester knows */
    command->is_unnamed = command->is_silent = true;
    command->start_ns = clock_now_ns();
    kernel_open(command, message.pid, warden->given);
    command->kernel->from_zygote = true;
    for (int i = 0; i < 3; i++)
        warden->given[i] = -1;
    if (pid_fd < 0) { /* it has gone already */
        external_end(command->kernel);
        return;
    }
    if (loop_add(&warden->loop, &command->kernel->end, pid_fd, EPOLLIN) < 0)
        warden_end(warden);
    watch_clock(warden);
}

bool kernel_is_watched(const struct warden *warden)
{
    const struct sandbox_plan *plan = warden->sandbox->plan;

    for (const struct command *command = warden->commands; command; command = command->next) {
        const struct kernel *kernel = command->is_kernel ? command->kernel : NULL;

        if (kernel && kernel->from_zygote && !kernel->is_dead &&
            (kernel->current || plan->watch_memory_bytes || plan->watch_disk_bytes))
            return true;
    }
    return false;
}
