/* cell.c - code for a kernel, from CELL to its end; see kernel.h. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "sandbox/guest_stage.h"
#include "warden/kernel.h"

#define CELL_FLAGS (CELL_SCRIPT | CELL_INPUT | CELL_KEEP | CELL_FOLDER)

static void write_head(struct kernel *kernel, const struct command *cell)
{
    const struct message_cell *message = &cell->cell;
    const char *flags[] = {"", "s", "i", "si"}; /* by CELL_SCRIPT and CELL_INPUT */
    const char *folder = message->flags & CELL_FOLDER ? "f" : "";
    const char *others = flags[message->flags & (CELL_SCRIPT | CELL_INPUT)];

    str_format(kernel->head, sizeof(kernel->head), "cell %u %s%s %u %u %u\n", cell->id,
               others[0] || folder[0] ? others : "-", folder, message->code_length,
               message->input_length, message->env_length);
    kernel->head_length = strlen(kernel->head);
    kernel->written = 0;
}

void cell_begin(struct kernel *kernel, struct command *cell)
{
    kernel->current = cell;
    kernel_line_cut(&kernel->line);
    cell->has_started = true;
    cell->start_ns = clock_now_ns();
    cell->cpu_ns = kernel_cpu_ns(kernel);
    write_head(kernel, cell);
    for (int i = 0; i < 2; i++)
        out_stream_borrow(&cell->out[i], &kernel->pipe[i]);
    kernel_write(kernel);
    if (kernel->from_zygote)
        watch_clock(cell->warden);
}

void cell_event(struct command *cell, const char *data, size_t length)
{
    struct out_stream *stream = &cell->out[2];

    cell->end.event_bytes += length; /* also what is dropped: the difference says how much it was */
    out_stream_put(stream, data, MIN((uint64_t)length, LIMIT_CELL_EVENTS - stream->read));
}

/* Cells that are not the current one, or no longer are. */
static void leave_kernel(struct command *cell)
{
    struct kernel *kernel = cell->kernel;

    cell->kernel = NULL;
    buf_free(&cell->text);
    if (kernel && kernel->current == cell) {
        kernel->current = NULL;
        kernel_next(kernel);
    }
}

void cell_settle(struct command *cell)
{
    if (cell->has_exited && cell->kernel && cell->out[0].fd < 0 && cell->out[1].fd < 0)
        leave_kernel(cell);
}

void cell_end(struct command *cell, int status)
{
    struct kernel *kernel = cell->kernel;

    cell->has_exited = true;
    cell->status = status;
    cell->end_ns = clock_now_ns();
    if (!cell->has_started)
        cell->start_ns = cell->end_ns;
    if (kernel && kernel->current == cell) {
        uint64_t cpu_ns = kernel_cpu_ns(kernel);

        if (cpu_ns > cell->cpu_ns && cell->cpu_ns > 0)
            cell->end.cpu_us = (cpu_ns - cell->cpu_ns) / 1000;
        for (int i = 0; i < 2; i++)
            out_stream_stop(&cell->out[i]);
    }
    cell_settle(cell);
}

void cell_lose(struct command *cell)
{
    const struct command *process = cell->kernel->command;
    bool is_script = cell->has_started && cell->cell.flags & CELL_SCRIPT;

    if (!is_script)
        cell->end.flags |= EXITED_KERNEL_DIED;
    cell->end.flags |= process->end.flags & EXITED_STATUS_EXTERNAL;
    if (is_script) /* it had the process for itself */
        cell->end.max_rss_bytes = process->end.max_rss_bytes;
    if (cell->has_started && process->end.cpu_us > cell->cpu_ns / 1000)
        cell->end.cpu_us = process->end.cpu_us - cell->cpu_ns / 1000;
    cell_end(cell, process->status);
}

/* The socket may be read again, and if the kernel has died, to its end. */
void cell_room(struct command *cell)
{
    struct kernel *kernel = cell->kernel;

    if (kernel && kernel->current == cell && !cell->has_exited)
        kernel_go_on(kernel);
}

void cell_signal(struct command *cell, int number)
{
    struct kernel *kernel = cell->kernel;

    if (!kernel)
        return;
    if (kernel->current != cell) {
        cell_end(cell, number); /* as wait(2) says that a signal ended it */
        return;
    }
    kernel_read(kernel); /* it may have ended already: the signal is not the next one's */
    if (kernel->current != cell || cell->has_exited)
        return;
    if (number == SIGKILL)
        kernel_kill(kernel);
    else
        kernel_signal(kernel, number);
}

void cell_forget(struct command *cell)
{
    struct kernel *kernel = cell->kernel;

    if (!kernel || kernel->current != cell) {
        command_free(cell);
        return;
    }
    cell->is_forgotten = true;
    cell->is_silent = true;
    for (int i = 0; i < MESSAGE_STREAMS; i++) /* what it still prints is dropped */
        out_stream_rewind(&cell->out[i], cell->out[i].read);
}

/* ---- CELL ---- */

/* How many may wait, and how much they may hold. */
static bool has_room(const struct warden *warden, const struct kernel *kernel)
{
    uint64_t bytes = warden->args.length;
    unsigned count = 0;

    for (const struct command *cell = warden->commands; cell; cell = cell->next) {
        count += cell->is_cell && cell->kernel == kernel;
        bytes += cell->text.length;
    }
    return count < LIMIT_CELLS && bytes <= LIMIT_CELLS_BYTES;
}

/* The first string of the environment; NULL: there is none. */
static const char *folder_of(const struct warden *warden, const struct message_cell *message)
{
    const char *env;

    if (message->env_length == 0)
        return NULL;
    env = warden->args.data + message->code_length + message->input_length;
    return memchr(env, 0, message->env_length) ? env : NULL;
}

/*
 * Does the folder exist that the cell names first? The kernel finds out whether its guest may enter
 * it; changing our own ids to test that would cost more than it gains.
 */
static int folder_look(struct warden *warden, const struct message_cell *message)
{
    int r = chdir(folder_of(warden, message)) < 0 ? -errno : 0;

    if (chdir("/") < 0)
        warden_end(warden); /* nothing here depends on it, but we do not stay inside */
    return r;
}

/* 0, or why the cell cannot be accepted. */
static int cell_accept(struct command *cell, struct command *process, bool is_welcome,
                       uint16_t *stage)
{
    struct warden *warden = cell->warden;
    int r;

    if (!process || !process->is_kernel || !process->kernel || process->is_forgotten)
        return -ESRCH;
    process->is_unnamed = process->is_silent = false; /* this host knows it */
    if (!is_welcome || !has_room(warden, process->kernel))
        return -EAGAIN;
    r = cell->cell.flags & CELL_FOLDER ? folder_look(warden, &cell->cell) : 0;
    if (r < 0) {
        *stage = GUEST_STAGE_FOLDER;
        return r;
    }
    cell->kernel = process->kernel;
    cell->text = warden->args;
    warden->args = BUF_INIT(cell->text.maximum);
    if (process->has_exited)
        cell_lose(cell);
    else
        kernel_next(cell->kernel);
    return 0;
}

void command_cell(struct warden *warden, const struct frame *frame)
{
    struct message_cell message;
    struct command *cell;
    uint16_t stage = GUEST_STAGE_EXEC;
    bool is_welcome;
    int r;

    if (message_cell_unpack(frame, &message) < 0 || frame->id == 0 ||
        (message.flags & ~CELL_FLAGS) || command_by_id(warden, frame->id) ||
        warden->args.length !=
            (size_t)message.code_length + message.input_length + message.env_length ||
        (message.flags & CELL_FOLDER && !folder_of(warden, &message)))
        warden_end(warden);
    is_welcome = command_make_room(warden);
    cell = command_new(warden, frame->id, message.flags & CELL_KEEP ? EXEC_KEEP : 0);
    if (!cell)
        warden_end(warden);
    cell->is_cell = true;
    cell->cell = message;
    r = cell_accept(cell, command_by_id(warden, message.kernel), is_welcome, &stage);
    buf_clear(&warden->args);
    if (r < 0)
        command_refuse(cell, stage, r);
}
