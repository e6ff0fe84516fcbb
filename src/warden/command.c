/* command.c - one command from its start to EXITED, and what is kept of it then; see command.h. */
#include "warden/command.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/list.h"
#include "sandbox/guest_stage.h"
#include "warden/kernel.h"

struct command *command_by_id(const struct warden *warden, uint32_t id)
{
    for (struct command *command = warden->commands; command; command = command->next) {
        if (command->id == id)
            return command;
    }
    return NULL;
}

struct command *command_new(struct warden *warden, uint32_t id, uint32_t flags)
{
    struct command *command = calloc(1, sizeof(*command));

    if (!command)
        return NULL;
    command->warden = warden;
    command->id = id;
    command->ends_box = flags & EXEC_ENDS_BOX;
    command->keeps = flags & EXEC_KEEP;
    command->is_pty = flags & EXEC_PTY;
    command->exec.fd = -1;
    command->peer_fd = -1;
    in_stream_init(&command->in, command);
    for (int i = 0; i < MESSAGE_STREAMS; i++)
        out_stream_init(&command->out[i], command, i);
    LIST_APPEND(warden->commands, command);
    return command;
}

static void exec_close(struct command *command)
{
    int fd = command->exec.fd;

    if (fd < 0)
        return;
    loop_remove(&command->warden->loop, &command->exec);
    close(fd);
}

void command_free(struct command *command)
{
    struct warden *warden = command->warden;

    LIST_UNLINK(warden->commands, command);
    in_stream_close(&command->in);
    exec_close(command);
    for (int i = 0; i < MESSAGE_STREAMS; i++)
        out_stream_free(&command->out[i]);
    fd_closep(&command->peer_fd);
    buf_free(&command->in.waiting);
    buf_free(&command->text);
    if (command->is_kernel)
        kernel_free(command->kernel);
    free(command);
}

bool command_is_held(const struct command *command)
{
    if (!command->kernel)
        return false;
    return command->is_kernel ? command->kernel->current != NULL
                              : command->kernel->current == command;
}

void command_tell_start(struct command *command)
{
    struct warden *warden = command->warden;
    uint8_t payload[16];

    if (command->is_silent || command->is_start_told)
        return;
    if (command->has_failed) {
        struct message_fail fail = {.stage = command->failure.stage,
                                    .error = command->failure.error};
        ssize_t length = message_fail_pack(&fail, payload, sizeof(payload));

        channel_control(warden, FRAME_NOEXEC, command->id, payload, (size_t)length);
    } else if (command->has_started) {
        struct message_started started = {.start_ns = command->start_ns,
                                          .flags = command->is_forked ? STARTED_FORKED : 0,
                                          .pid = command->is_cell ? 0
                                                                  : (uint32_t)MAX(command->pid, 0)};
        ssize_t length = message_started_pack(&started, payload, sizeof(payload));

        channel_control(warden, FRAME_STARTED, command->id, payload, (size_t)length);
    } else {
        return;
    }
    command->is_start_told = true;
}

void command_failed(struct command *command, uint16_t stage, int negative_errno)
{
    command->has_failed = true;
    command->failure = (struct exec_failure){.stage = stage, .error = (uint16_t)-negative_errno};
    command_tell_start(command);
}

/* The time, then end of file: it runs. The time and a failure, or a failure alone: it does not. */
static void exec_ready(struct loop_source *source, uint32_t events)
{
    struct command *command = (struct command *)((char *)source - offsetof(struct command, exec));
    uint8_t data[sizeof(uint64_t) + sizeof(struct exec_failure)];
    struct exec_failure failure;
    ssize_t length;

    (void)events;
    length = read(source->fd, data, sizeof(data));
    if (length < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (length == sizeof(uint64_t) && command->start_ns == 0) {
        memcpy(&command->start_ns, data, sizeof(uint64_t));
        exec_ready(source, events); /* usually the end of file is there too */
        return;
    }
    /* The host was faster than the exec: it ended by that, and its status says so. */
    if (length == 0 && command->start_ns == 0 && command->was_signalled && !command->is_kernel)
        command->start_ns = clock_now_ns();
    if (length == 0 && command->start_ns != 0) {
        command->has_started = true;
        command_tell_start(command);
        if (command->is_kernel)
            kernel_next(command->kernel);
    } else if (length >= (ssize_t)sizeof(failure)) {
        memcpy(&failure, data + length - (ssize_t)sizeof(failure), sizeof(failure));
        command_failed(command, failure.stage, -(int)failure.error);
    } else {
        /*
         * It died before the exec, by a signal that we did not send: there is nothing more to learn
         * here.
         */
        command_failed(command, GUEST_STAGE_STDIO, -ECHILD);
    }
    exec_close(command);
}

int command_watch_exec(struct command *command, int fd)
{
    int r;

    command->exec.ready = exec_ready;
    r = loop_add(&command->warden->loop, &command->exec, fd, EPOLLIN);
    if (r < 0)
        close(fd);
    return r;
}

void command_exited(struct warden *warden, pid_t pid, int status, const struct rusage *usage)
{
    for (struct command *command = warden->commands; command; command = command->next) {
        if (command->pid != pid || command->has_exited)
            continue;
        command->end_ns = clock_now_ns();
        command->has_exited = true;
        fd_closep(&command->peer_fd);
        command->status = status;
        command->end.cpu_us =
            (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000000 +
            (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
        command->end.max_rss_bytes = (uint64_t)usage->ru_maxrss * KIB;
        if (command->exec.fd >= 0)
            exec_ready(&command->exec, 0);
        if (command->start_ns == 0)
            command->start_ns = command->end_ns;
        if (command->ends_box)
            proc_tree_kill(warden->sandbox);
        if (command->is_kernel)
            kernel_died(command->kernel);
        return;
    }
}

/* What is true at its end, determined once: a later host gets the same answer. */
static void note_end(struct command *command)
{
    struct warden *warden = command->warden;
    struct message_exited *end = &command->end;

    if (command->has_facts)
        return;
    command->has_facts = true;
    end->duration_ns = command->end_ns - command->start_ns;
    end->out_bytes = command->out[0].read;
    end->err_bytes = command->out[1].read;
    if (WIFSIGNALED(command->status))
        end->signal = (uint32_t)WTERMSIG(command->status);
    else
        end->exit_code = WEXITSTATUS(command->status);
    if (warden->disk_was_full || watch_disk_full(warden))
        end->flags |= EXITED_DISK_FULL;
    if (warden->watchdog_fired)
        end->flags |= EXITED_MEMORY_WATCHDOG;
    if (file_has_output(warden->sandbox))
        end->flags |= EXITED_HAS_OUTPUT;
    if (command->is_kernel)
        return; /* the same happened to its cell, which says it */
    warden->disk_was_full = false;
    warden->watchdog_fired = false;
}

static void report_exit(struct command *command)
{
    struct warden *warden = command->warden;
    uint8_t payload[64];
    ssize_t length = message_exited_pack(&command->end, payload, sizeof(payload));

    channel_control(warden, FRAME_EXITED, command->id, payload, (size_t)length);
    /*
     * No process is left and nothing is to be fetched: the box need not wait for the host to end
     * it.
     */
    if (command->ends_box && !(command->end.flags & EXITED_HAS_OUTPUT) && channel_is_clear(warden))
        warden_end(warden);
}

/* Takes what a command that has ended wrote; true when all of it is sent. */
static bool finish_streams(struct command *command)
{
    for (int i = 0; i < MESSAGE_STREAMS; i++) {
        struct out_stream *stream = &command->out[i];

        /*
         * The pipe may stay open forever, in an orphan or on its way through a socket that is never
         * read; what was written is in it.
         */
        if (stream->fd >= 0 && !command->is_cell &&
            (!command->ends_box || command->warden->is_alone)) {
            out_stream_read(stream);
            if (stream->fd >= 0 && !out_stream_is_full(stream) && command->keeps &&
                !command->is_pty)
                out_stream_let_go(stream);
            else if (stream->fd >= 0 && !out_stream_is_full(stream))
                out_stream_close(stream);
        }
        out_stream_produce(stream);
        if (!out_stream_is_done(stream) && !command->is_silent)
            return false;
    }
    if (command->out[0].fd < 0 && command->out[1].fd < 0)
        note_end(
            command); /* also while no host is connected: later it might not be true any more */
    return out_stream_is_done(&command->out[0]) && out_stream_is_done(&command->out[1]) &&
           out_stream_is_done(&command->out[2]);
}

/* A kernel's end is reported after those of its cells. */
static bool has_cells(const struct command *kernel)
{
    for (const struct command *cell = kernel->next; cell; cell = cell->next) {
        if (cell->is_cell && cell->cell.kernel == kernel->id && !cell->is_silent &&
            !cell->is_end_told)
            return true;
    }
    return false;
}

/* Reports the end when nothing else is left to report; true if it did. */
static bool command_finish(struct command *command)
{
    if (!command->has_exited || command->exec.fd >= 0 || command->is_end_told ||
        command_is_held(command) || (command->is_kernel && has_cells(command)))
        return false;
    if (!command->is_forgotten) {
        if (!command->has_failed && !finish_streams(command))
            return false;
        if (command->is_silent)
            return false;
        if (!command->has_failed)
            report_exit(command);
    }
    command->is_end_told = true;
    if (command->keeps && !command->is_forgotten)
        in_stream_close(&command->in);
    else
        command_free(command);
    return true;
}

bool command_is_ending(const struct warden *warden)
{
    for (const struct command *command = warden->commands; command; command = command->next) {
        if (command->has_exited && command->ends_box)
            return true;
    }
    return false;
}

/* A cell's first frame follows the last one of the previous cell; true if it may send now. */
static bool has_turn(struct command *cell)
{
    if (!cell->is_cell || cell->is_start_told || !cell->has_started || cell->is_silent)
        return true;
    for (const struct command *other = cell->warden->commands; other != cell; other = other->next) {
        if (other->is_cell && other->cell.kernel == cell->cell.kernel && !other->is_silent &&
            !other->is_end_told)
            return false;
    }
    command_tell_start(cell);
    return true;
}

bool command_produce(struct warden *warden)
{
    struct command *next;
    bool progress = false;

    for (struct command *command = warden->commands; command; command = next) {
        next = command->next;
        if (!has_turn(command))
            continue;
        for (int i = 0; i < MESSAGE_STREAMS; i++)
            progress |= out_stream_produce(&command->out[i]);
        progress |= command_finish(command);
    }
    return progress;
}

bool command_ack(struct warden *warden, uint32_t id, const struct message_ack *ack)
{
    struct command *command = command_by_id(warden, id);
    struct out_stream *stream;

    if (!command)
        return false;
    if (ack->stream == 0)
        return true;
    stream = &command->out[ack->stream - 1];
    if (ack->offset < stream->acked || ack->offset > stream->sent)
        warden_end(warden); /* a host that acknowledges what it never got */
    out_stream_acknowledge(stream, ack->offset);
    return true;
}

/* A command that was just forked may not have its own process group yet. */
static void signal_group(const struct command *command, int number)
{
    if (kill(-command->pid, number) < 0)
        kill(command->pid, number);
}

void command_signal(struct warden *warden, const struct frame *frame)
{
    struct command *command = command_by_id(warden, frame->id);
    uint32_t number;

    if (message_number_unpack(frame, &number) < 0 || number > 64)
        warden_end(warden);
    if (!command || command->has_exited)
        return;
    command->was_signalled |= number != 0;
    if (command->is_cell)
        cell_signal(command, (int)number);
    else if (command->is_kernel && number != SIGKILL)
        kernel_signal(command->kernel, (int)number);
    else if (command->is_kernel)
        kernel_kill(command->kernel);
    else if (number != SIGKILL)
        signal_group(command, (int)number);
    else if (command->ends_box)
        proc_tree_kill(warden->sandbox);
    else
        proc_tree_kill_tree(warden->sandbox, command->pid, -1);
}

void command_resize(struct warden *warden, const struct frame *frame)
{
    struct command *command = command_by_id(warden, frame->id);
    struct message_size size;

    if (message_size_unpack(frame, &size) < 0)
        warden_end(warden);
    if (command && command->is_pty && command->out[0].fd >= 0)
        pty_pair_resize(
            command->out[0].fd,
            &size); /* fails when the terminal was hung up; then no process looks at it */
}
