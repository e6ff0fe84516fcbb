/* start.c - EXEC: the strings of a command, how many there may be, and its guest. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "sandbox/guest_stage.h"
#include "warden/kernel.h"

/* The strings of the ARGS frames as vectors that point into them; the box's own environment first.
 */
struct strings {
    const char **argv, **env;
    const char *cwd;
    char **made; /* those that replaced one of argv, or the last one of cwd; NULL: none */
    size_t made_count;
};

static void strings_free(struct strings *strings)
{
    for (size_t i = 0; i < strings->made_count; i++)
        free(strings->made[i]);
    free(strings->made);
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

static int strings_read(const struct warden *warden, const struct message_exec *exec,
                        const struct buf *args, struct strings *strings)
{
    const char *const *own = warden->sandbox->plan->env;
    const char *at = args->data, *end;
    size_t own_count = 0, env_count = 0;

    if (args->length != exec->args_length || exec->args_length == 0)
        return -EPROTO;
    end = at + args->length;
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

/* Every descriptor finds its owner, also when one of them cannot be watched. */
static int watch_guest(struct command *command, const struct spawned *spawned)
{
    int r = spawned->fd[0] >= 0 ? in_stream_open(&command->in, spawned->fd[0]) : 0;

    for (int i = 0; i < 2 && !command->is_kernel; i++) {
        int added = out_stream_open(&command->out[i], spawned->fd[i + 1]);

        r = r < 0 ? r : added;
    }
    if (command->is_kernel && !command->kernel)
        kernel_open(command, 0, (int[3]){-1, -1, -1});
    if (command->is_kernel)
        kernel_place(command->kernel, spawned->pid,
                     (int[3]){spawned->socket_fd, spawned->fd[1], spawned->fd[2]});
    if (command_watch_exec(command, spawned->exec_fd) < 0 && r == 0)
        r = -ENOMEM;
    return r;
}

/*
 * In a box whose folders have other paths than it promises, an argument that is such a path gets
 * the real one: the guest cannot reach anything else by that name.
 */
static int strings_map(const struct sandbox *sandbox, struct strings *strings, uint32_t argc)
{
    if (!sandbox->plan->own_files)
        return 0;
    strings->made = calloc(argc + 1, sizeof(char *));
    if (!strings->made)
        return -ENOMEM;
    for (uint32_t i = 0; i <= argc; i++) {
        const char **at = i < argc ? &strings->argv[i] : &strings->cwd;
        char *real = *at ? place_real(sandbox, *at) : NULL;

        if (!real)
            continue;
        strings->made[strings->made_count++] = real;
        *at = real;
    }
    return 0;
}

int command_spawn(struct warden *warden, const struct message_exec *exec, const struct buf *args,
                  struct guest_start *start, struct spawned *ret)
{
    CLEANUP(strings_free) struct strings strings = {0};
    struct message_size size = {.rows = exec->rows, .columns = exec->columns};
    int r = strings_read(warden, exec, args, &strings);

    if (r == 0)
        r = strings_map(warden->sandbox, &strings, exec->argc);
    if (r < 0)
        return r;
    start->argv = strings.argv;
    start->env = strings.env;
    start->cwd = strings.cwd;
    r = spawn_guest(warden->sandbox, start, exec->flags & EXEC_STDIN,
                    start->has_terminal ? &size : NULL, !warden->has_guests, ret);
    warden->has_guests = true;
    return r;
}

static int command_start(struct command *command, const struct message_exec *exec,
                         const struct buf *args)
{
    struct warden *warden = command->warden;
    struct guest_start start = {.has_terminal = command->is_pty, .has_socket = command->is_kernel};
    struct spawned spawned;
    int r = command_spawn(warden, exec, args, &start, &spawned);

    if (r < 0)
        return r;
    command->pid = spawned.pid;
    watch_somebody(warden);
    if (command->is_pty)
        command->peer_fd = pty_pair_hold(spawned.fd[1]);
    return watch_guest(command, &spawned);
}

/*
 * Room for one more: as many can run at once as can be kept after their end. Of the latter the
 * oldest is forgotten, but none whose end this host has not been sent: the host waits for it.
 */
bool command_make_room(struct warden *warden)
{
    unsigned running = 0, ended = 0;
    struct command *oldest = NULL;

    for (struct command *command = warden->commands; command; command = command->next) {
        if (command->is_kernel)
            continue; /* they have a limit of their own */
        running += !command->has_exited;
        ended += command->has_exited;
        if (command->is_end_told && !command_is_held(command) &&
            (!oldest || command->end_ns < oldest->end_ns))
            oldest = command;
    }
    if (running >= LIMIT_COMMANDS)
        return false;
    if (ended < LIMIT_COMMANDS)
        return true;
    if (!oldest)
        return false;
    command_free(oldest);
    return true;
}

/* Of those for which there was no room, only as many are kept as an inventory can list. */
static bool may_keep(const struct warden *warden)
{
    unsigned count = 0;

    for (const struct command *command = warden->commands; command; command = command->next)
        count += !command->is_kernel;
    return count <= 2 * LIMIT_COMMANDS;
}

void command_refuse(struct command *command, uint16_t stage, int negative_errno)
{
    struct warden *warden = command->warden;

    command->has_exited = true;
    command->end_ns = clock_now_ns();
    command_failed(command, stage, negative_errno);
    if (!command->keeps || !may_keep(warden))
        command_free(command);
}

void command_start_later(struct command *kernel, const struct message_exec *exec)
{
    struct buf args = kernel->text;
    int r;

    kernel->text = (struct buf){0};
    r = command_start(kernel, exec, &args);
    buf_free(&args);
    if (r == -EPROTO)
        warden_end(kernel->warden);
    if (r == 0)
        return;
    if (kernel->pid > 0)
        kill(kernel->pid, SIGKILL);
    /* Cells may be waiting for it: it is forgotten after them. */
    command_failed(kernel, GUEST_STAGE_STDIO, r);
    kernel->has_exited = true;
    kernel->end_ns = kernel->start_ns = clock_now_ns();
    kernel_died(kernel->kernel);
}

/* A kernel's descriptors are fixed, and it is not a one-shot command. */
static bool flags_make_sense(uint32_t flags)
{
    if (!(flags & EXEC_KERNEL))
        return !(flags & EXEC_FORK);
    return !(flags & (EXEC_STDIN | EXEC_PTY | EXEC_ENDS_BOX));
}

void command_exec(struct warden *warden, const struct frame *frame)
{
    struct message_exec exec;
    struct command *command;
    bool has_room;
    int r;

    if (message_exec_unpack(frame, &exec) < 0 || frame->id == 0 ||
        command_by_id(warden, frame->id) || !flags_make_sense(exec.flags))
        warden_end(warden);
    has_room = exec.flags & EXEC_KERNEL ? kernel_make_room(warden) : command_make_room(warden);
    command = command_new(warden, frame->id, exec.flags);
    if (!command)
        warden_end(warden);
    command->is_kernel = exec.flags & EXEC_KERNEL;
    if (has_room && exec.flags & EXEC_FORK && zygote_take(command, &exec))
        return;
    r = has_room ? command_start(command, &exec, &warden->args) : -EAGAIN;
    buf_clear(&warden->args);
    if (r == -EPROTO)
        warden_end(warden);
    if (r == 0)
        return;
    if (command->pid > 0)
        kill(command->pid, SIGKILL);
    command_refuse(command, has_room ? GUEST_STAGE_STDIO : GUEST_STAGE_EXEC, r);
}
