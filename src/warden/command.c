/*
 * command.c - one command from EXEC to EXITED: its streams, its standard input, its end.
 *
 * A stream is a ring: bytes are read from the guest's pipe while there is room, sent while the
 * channel takes them, and kept until the host has acknowledged them. A full ring blocks the guest's
 * write and nothing else. EXITED follows the last byte of output.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "warden/inside.h"

struct stream {
    struct loop_source source; /* watches the pipe while the ring has room */
    struct command *command;
    uint8_t number;
    int fd;                     /* the guest's pipe; -1 after its end */
    char *ring;                 /* WIRE_STREAM_WINDOW bytes, or NULL before the first */
    uint64_t read, sent, acked; /* offsets: acked <= sent <= read <= acked + window */
};

struct input {
    struct loop_source source; /* the pipe to the guest; fd -1 after its end */
    struct command *command;
    struct buf waiting; /* bytes the guest has not taken yet */
    uint64_t received, taken;
    bool has_end;
};

struct command {
    struct command *next;
    struct warden *warden;
    uint32_t id;
    pid_t pid;
    bool ends_box;
    struct input in;
    struct stream out[2];
    struct loop_source exec;   /* the note of spawn.c */
    uint64_t start_ns, end_ns; /* 0: not yet */
    bool has_failed, has_exited;
    int status;
};

static struct command *command_find(struct warden *warden, uint32_t id)
{
    for (struct command *command = warden->commands; command; command = command->next) {
        if (command->id == id)
            return command;
    }
    return NULL;
}

static void source_close(struct warden *warden, struct loop_source *source)
{
    int fd = source->fd;

    if (fd < 0)
        return;
    loop_remove(&warden->loop, source);
    close(fd);
}

static bool stream_is_full(const struct stream *stream)
{
    return stream->read - stream->acked == WIRE_STREAM_WINDOW;
}

static void stream_close(struct stream *stream)
{
    loop_remove(&stream->command->warden->loop, &stream->source);
    fd_closep(&stream->fd);
    stream->fd = -1;
}

/* A full ring is taken out of the loop, which would go on reporting a hung-up pipe. */
static int stream_watch(struct stream *stream)
{
    struct loop *loop = &stream->command->warden->loop;

    if (stream->fd < 0)
        return 0;
    if (stream_is_full(stream)) {
        loop_remove(loop, &stream->source);
        return 0;
    }
    return stream->source.fd >= 0 ? 0 : loop_add(loop, &stream->source, stream->fd, EPOLLIN);
}

/* Reads what the pipe has and the ring can hold; closes the stream at its end. */
static void stream_read(struct stream *stream)
{
    struct warden *warden = stream->command->warden;

    if (!stream->ring)
        stream->ring = malloc(WIRE_STREAM_WINDOW);
    if (!stream->ring)
        warden_end(warden);
    while (stream->fd >= 0 && !stream_is_full(stream)) {
        size_t start = stream->read % WIRE_STREAM_WINDOW;
        size_t room = WIRE_STREAM_WINDOW - (size_t)(stream->read - stream->acked);
        ssize_t length;

        length =
            read(stream->fd, stream->ring + start, MIN(room, (size_t)WIRE_STREAM_WINDOW - start));
        if (length < 0 && errno == EINTR)
            continue;
        if (length < 0 && errno == EAGAIN)
            break;
        if (length <= 0)
            stream_close(stream);
        else
            stream->read += (uint64_t)length;
    }
    if (stream_watch(stream) < 0)
        warden_end(warden);
}

static void stream_ready(struct loop_source *source, uint32_t events)
{
    (void)events;
    stream_read((struct stream *)source); /* its first member */
}

static bool stream_produce(struct stream *stream)
{
    struct command *command = stream->command;
    bool progress = false;

    while (stream->sent < stream->read) {
        size_t start = stream->sent % WIRE_STREAM_WINDOW;
        size_t length = (size_t)(stream->read - stream->sent);

        length = MIN(length, (size_t)WIRE_STREAM_WINDOW - start);
        length = MIN(length, (size_t)FRAME_DATA_MAX);
        if (!channel_bytes(command->warden, FRAME_OUTPUT, command->id, stream->number, stream->sent,
                           stream->ring + start, length))
            break;
        stream->sent += length;
        progress = true;
    }
    return progress;
}

static void command_free(struct command *command)
{
    struct warden *warden = command->warden;

    for (struct command **at = &warden->commands; *at; at = &(*at)->next) {
        if (*at == command) {
            *at = command->next;
            break;
        }
    }
    source_close(warden, &command->in.source);
    source_close(warden, &command->exec);
    for (int i = 0; i < 2; i++) {
        stream_close(&command->out[i]);
        free(command->out[i].ring);
    }
    buf_free(&command->in.waiting);
    free(command);
}

/* Is everything that was written sent, and will nothing more come? */
static bool stream_is_done(const struct stream *stream)
{
    return stream->fd < 0 && stream->sent == stream->read;
}

static void report_exit(struct command *command)
{
    struct warden *warden = command->warden;
    struct message_exited exited = {
        .duration_ns = command->end_ns - command->start_ns,
        .out_bytes = command->out[0].read,
        .err_bytes = command->out[1].read,
    };
    uint8_t payload[64];
    ssize_t length;

    if (WIFSIGNALED(command->status))
        exited.signal = (uint32_t)WTERMSIG(command->status);
    else
        exited.exit_code = WEXITSTATUS(command->status);
    if (warden->disk_was_full || watch_disk_full(warden))
        exited.flags |= EXITED_DISK_FULL;
    if (warden->watchdog_fired)
        exited.flags |= EXITED_MEMORY_WATCHDOG;
    if (file_has_output(warden->sandbox))
        exited.flags |= EXITED_HAS_OUTPUT;
    warden->disk_was_full = false;
    warden->watchdog_fired = false;
    length = message_exited_pack(&exited, payload, sizeof(payload));
    channel_control(warden, FRAME_EXITED, command->id, payload, (size_t)length);
    /* Nobody is left and nothing is to be fetched: the end need not wait for the host to ask. */
    if (command->ends_box && !(exited.flags & EXITED_HAS_OUTPUT) && warden->control.length == 0)
        warden_end(warden);
}

/* Frees the command once nothing is left to tell; true when it is gone. */
static bool command_finish(struct command *command)
{
    if (!command->has_exited || command->exec.fd >= 0)
        return false;
    if (!command->has_failed) {
        for (int i = 0; i < 2; i++) {
            /* The pipe may stay open for ever, in an orphan or on its way through a socket that
             * nobody reads; what was written is in it. */
            if (command->out[i].fd >= 0 && (!command->ends_box || command->warden->is_alone)) {
                stream_read(&command->out[i]);
                if (command->out[i].fd >= 0 && !stream_is_full(&command->out[i]))
                    stream_close(&command->out[i]);
            }
            stream_produce(&command->out[i]);
            if (!stream_is_done(&command->out[i]))
                return false;
        }
        report_exit(command);
    }
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

bool command_produce(struct warden *warden)
{
    struct command *next;
    bool progress = false;

    for (struct command *command = warden->commands; command; command = next) {
        next = command->next;
        progress |= stream_produce(&command->out[0]);
        progress |= stream_produce(&command->out[1]);
        progress |= command_finish(command);
    }
    return progress;
}

bool command_ack(struct warden *warden, uint32_t id, const struct message_ack *ack)
{
    struct command *command = command_find(warden, id);
    struct stream *stream;

    if (!command)
        return false;
    if (ack->stream == 0)
        return true;
    stream = &command->out[ack->stream - 1];
    if (ack->offset < stream->acked || ack->offset > stream->sent)
        warden_end(warden); /* a host that acknowledges what it never got */
    stream->acked = ack->offset;
    if (stream->fd >= 0)
        stream_read(stream);
    return true;
}

static void exec_failed(struct command *command, const struct exec_failure *failure)
{
    struct message_fail fail = {.stage = failure->stage, .error = failure->error};
    uint8_t payload[8];
    ssize_t length = message_fail_pack(&fail, payload, sizeof(payload));

    command->has_failed = true;
    channel_control(command->warden, FRAME_NOEXEC, command->id, payload, (size_t)length);
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
    if (length == 0 && command->start_ns != 0) {
        uint8_t payload[8];

        message_started_pack(command->start_ns, payload, sizeof(payload));
        channel_control(command->warden, FRAME_STARTED, command->id, payload, sizeof(payload));
    } else if (length >= (ssize_t)sizeof(failure)) {
        memcpy(&failure, data + length - (ssize_t)sizeof(failure), sizeof(failure));
        exec_failed(command, &failure);
    } else {
        /* It died before the exec, by a signal: nothing more to learn here. */
        failure = (struct exec_failure){.error = ECHILD};
        exec_failed(command, &failure);
    }
    source_close(command->warden, source);
}

void command_exited(struct warden *warden, pid_t pid, int status)
{
    for (struct command *command = warden->commands; command; command = command->next) {
        if (command->pid != pid || command->has_exited)
            continue;
        command->end_ns = clock_now_ns();
        command->has_exited = true;
        command->status = status;
        if (command->exec.fd >= 0)
            exec_ready(&command->exec, 0);
        if (command->start_ns == 0)
            command->start_ns = command->end_ns;
        if (command->ends_box)
            crowd_kill(warden->sandbox);
        return;
    }
}

/* Hands waiting bytes to the guest; acknowledges what it took. */
static void input_write(struct input *input)
{
    struct command *command = input->command;
    uint64_t before = input->taken;

    while (input->source.fd >= 0 && input->waiting.length > 0) {
        ssize_t length = write(input->source.fd, input->waiting.data, input->waiting.length);

        if (length < 0 && errno == EINTR)
            continue;
        if (length < 0 && errno == EAGAIN)
            break;
        if (length < 0) { /* the guest reads no more; what comes is dropped */
            source_close(command->warden, &input->source);
            break;
        }
        buf_consume(&input->waiting, (size_t)length);
        input->taken += (uint64_t)length;
    }
    if (input->source.fd < 0) {
        buf_clear(&input->waiting);
        input->taken = input->received;
    }
    if (input->taken != before)
        channel_ack(command->warden, command->id, 0, input->taken);
    if (input->source.fd >= 0 && input->waiting.length == 0 && input->has_end)
        source_close(command->warden, &input->source);
    loop_change(&command->warden->loop, &input->source,
                input->waiting.length > 0 ? (uint32_t)EPOLLOUT : 0);
}

static void input_ready(struct loop_source *source, uint32_t events)
{
    struct input *input = (struct input *)source; /* its first member */

    if (events & EPOLLERR)
        source_close(input->command->warden, source);
    input_write(input);
}

void command_stdin(struct warden *warden, const struct frame *frame)
{
    struct command *command = command_find(warden, frame->id);
    struct message_bytes bytes;

    if (message_bytes_unpack(frame, &bytes) < 0)
        warden_end(warden);
    if (!command)
        return; /* it has ended meanwhile */
    if (bytes.offset != command->in.received ||
        buf_append(&command->in.waiting, bytes.data, bytes.length) < 0)
        warden_end(warden);
    command->in.received += bytes.length;
    input_write(&command->in);
}

void command_stdin_end(struct warden *warden, uint32_t id)
{
    struct command *command = command_find(warden, id);

    if (!command)
        return;
    command->in.has_end = true;
    input_write(&command->in);
}

void command_signal(struct warden *warden, const struct frame *frame)
{
    struct command *command = command_find(warden, frame->id);
    uint32_t number;

    if (message_number_unpack(frame, &number) < 0 || number > 64)
        warden_end(warden);
    if (!command || command->has_exited)
        return;
    if (number == SIGKILL && command->ends_box)
        crowd_kill(warden->sandbox);
    else
        kill(command->pid, (int)number);
}

static int watch_pipes(struct command *command, const struct spawned *spawned)
{
    struct loop *loop = &command->warden->loop;
    int r = 0;

    command->exec.ready = exec_ready;
    command->in.source.ready = input_ready;
    if (spawned->fd[0] >= 0)
        r = loop_add(loop, &command->in.source, spawned->fd[0], 0);
    for (int i = 0; i < 2 && r == 0; i++) {
        command->out[i].source.ready = stream_ready;
        command->out[i].fd = spawned->fd[i + 1];
        r = stream_watch(&command->out[i]);
    }
    return r < 0 ? r : loop_add(loop, &command->exec, spawned->exec_fd, EPOLLIN);
}

/* The strings of the ARGS frames as vectors that point into them; the box's own environment first.
 */
struct strings {
    const char **argv, **env;
    const char *cwd;
};

static void strings_free(struct strings *strings)
{
    free(strings->argv);
    free(strings->env);
}

static bool same_name(const char *a, const char *b)
{
    size_t length = strcspn(a, "=");

    return strncmp(a, b, length) == 0 && b[length] == '=';
}

static void env_add(const char **env, size_t *count, const char *entry)
{
    for (size_t i = 0; i < *count; i++) {
        if (same_name(env[i], entry)) {
            env[i] = entry;
            return;
        }
    }
    env[(*count)++] = entry;
}

static int strings_read(struct warden *warden, const struct message_exec *exec,
                        struct strings *strings)
{
    const char *const *own = warden->sandbox->plan->env;
    const char *at = warden->args.data, *end;
    size_t own_count = 0, env_count = 0;

    if (warden->args.length != exec->args_length || exec->args_length == 0)
        return -EPROTO;
    end = at + warden->args.length;
    if (end[-1] != 0)
        return -EPROTO;
    while (own[own_count])
        own_count++;
    strings->argv = calloc(exec->argc + 1, sizeof(char *));
    strings->env = calloc(own_count + exec->envc + 1, sizeof(char *));
    if (!strings->argv || !strings->env)
        return -ENOMEM;
    for (size_t i = 0; i < own_count; i++)
        env_add(strings->env, &env_count, own[i]);
    for (uint32_t i = 0; i < exec->argc + exec->envc + 1; i++) {
        if (at >= end)
            return -EPROTO;
        if (i < exec->argc)
            strings->argv[i] = at;
        else if (i < exec->argc + exec->envc)
            env_add(strings->env, &env_count, at);
        else
            strings->cwd = *at ? at : NULL;
        at += strlen(at) + 1;
    }
    return at == end ? 0 : -EPROTO;
}

static struct command *command_new(struct warden *warden, uint32_t id, bool ends_box)
{
    struct command *command = calloc(1, sizeof(*command));

    if (!command)
        return NULL;
    command->warden = warden;
    command->id = id;
    command->ends_box = ends_box;
    command->exec.fd = -1;
    command->in.source.fd = -1;
    command->in.command = command;
    command->in.waiting = BUF_INIT(WIRE_STREAM_WINDOW);
    for (int i = 0; i < 2; i++) {
        command->out[i].source.fd = -1;
        command->out[i].fd = -1;
        command->out[i].command = command;
        command->out[i].number = (uint8_t)(i + 1);
    }
    command->next = warden->commands;
    warden->commands = command;
    return command;
}

static int command_start(struct command *command, const struct message_exec *exec)
{
    CLEANUP(strings_free) struct strings strings = {0};
    struct guest_start start = {0};
    struct spawned spawned;
    int r = strings_read(command->warden, exec, &strings);

    if (r < 0)
        return r;
    start.argv = strings.argv;
    start.env = strings.env;
    start.cwd = strings.cwd;
    r = spawn_guest(command->warden->sandbox, &start, exec->flags & EXEC_STDIN,
                    !command->warden->has_guests, &spawned);
    command->warden->has_guests = true;
    if (r < 0)
        return r;
    command->pid = spawned.pid;
    return watch_pipes(command, &spawned);
}

void command_exec(struct warden *warden, const struct frame *frame)
{
    struct message_exec exec;
    struct command *command;
    int r;

    if (message_exec_unpack(frame, &exec) < 0 || frame->id == 0 || command_find(warden, frame->id))
        warden_end(warden);
    command = command_new(warden, frame->id, exec.flags & EXEC_ENDS_BOX);
    if (!command)
        warden_end(warden);
    r = command_start(command, &exec);
    buf_clear(&warden->args);
    if (r == -EPROTO)
        warden_end(warden);
    if (r < 0) {
        struct exec_failure failure = {.error = (uint16_t)-r};

        exec_failed(command, &failure);
        if (command->pid > 0)
            kill(command->pid, SIGKILL);
        command->has_exited = true;
    }
}
