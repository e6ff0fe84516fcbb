/* input.c - a command's standard input: bytes of the request, and bytes sent later. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "session/session_private.h"

static int open_file(struct execution *execution, int flags)
{
    CLEANUP(fd_closep) int folder_fd = logs_folder(execution->session, flags & O_CREAT);
    char name[32];
    int fd;

    if (folder_fd < 0)
        return folder_fd;
    str_format(name, sizeof(name), "%u.in", execution->number);
    fd = openat(folder_fd, name, flags | O_NOFOLLOW | O_CLOEXEC, 0600);
    return fd < 0 ? -errno : fd;
}

int input_store(struct execution *execution, const void *data, size_t length, struct error *err)
{
    int fd = open_file(execution, O_RDWR | O_CREAT | O_TRUNC);
    int r = fd < 0 ? fd : fd_write_all(fd, data, length);

    execution->input_fd = fd < 0 ? -1 : fd;
    if (r < 0)
        return error_set(err, r, r == -ENOSPC ? ERROR_DISK_FULL : ERROR_ENGINE,
                         "storing the standard input: %s", strerror(-r));
    return 0;
}

int input_open(struct execution *execution)
{
    int fd = open_file(execution, O_RDONLY);

    if (fd < 0)
        return fd;
    execution->input_fd = fd;
    return 0;
}

void input_push(struct execution *execution)
{
    struct box *box = execution->session->box;
    char data[65536];

    while (execution->input_fd >= 0 && box) {
        ssize_t length = pread(execution->input_fd, data, sizeof(data), (off_t)execution->input_at);
        long taken = length > 0 ? box_stdin(box, execution->call, data, (size_t)length) : 0;

        if (length <= 0 || taken < 0) {
            fd_closep(&execution->input_fd);
            execution->input_fd = -1;
            if (taken >= 0)
                box_stdin_end(box, execution->call);
            return;
        }
        execution->input_at += (uint64_t)taken;
        if (taken < length)
            return; /* stdin_ready() continues */
    }
}

static int check_input(const struct execution *execution, struct error *err)
{
    if (execution_has_ended(execution) || execution->state == EXECUTION_CLOSING)
        return error_set(err, -ESRCH, ERROR_EXECUTION_ENDED, "the command %s.%u has ended",
                         execution->session->id, execution->number);
    if (!(execution->flags & EXECUTION_STDIN) || execution->input_fd >= 0)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "the command was started without an open standard input");
    return 0;
}

long execution_stdin(struct execution *execution, const void *data, size_t length,
                     struct error *err)
{
    int r = check_input(execution, err);
    long taken;

    if (r < 0)
        return r;
    session_touch(execution->session);
    if (execution->state == EXECUTION_WAITING)
        return 0;
    taken = box_stdin(execution->session->box, execution->call, data, length);
    if (taken < 0)
        return error_set(err, (int)taken, ERROR_EXECUTION_ENDED,
                         "the command's input is closed, or the command has ended");
    return taken;
}

void input_remove(struct execution *execution)
{
    CLEANUP(fd_closep) int folder_fd = -1;
    char name[32];

    if (!(execution->flags & EXECUTION_STDIN))
        return;
    folder_fd = logs_folder(execution->session, false);
    str_format(name, sizeof(name), "%u.in", execution->number);
    if (folder_fd >= 0)
        unlinkat(folder_fd, name, 0);
    usage_input_over(execution);
}

void input_tell(struct execution *execution)
{
    struct completion *waiter;

    if (execution->input_called || !execution->input_waiters)
        return; /* called from inside a waiter's callback: the outer call tells the rest */
    execution->users++;
    do {
        execution->input_called = ptr_take(&execution->input_waiters);
        while ((waiter = execution->input_called)) {
            execution->input_called = waiter->next;
            waiter->done(waiter->ctx); /* a waiter that finds no room waits again */
            free(waiter);
        }
    } while (execution->input_waiters && execution_has_ended(execution));
    execution->users--;
}

static void drop_waiter(struct completion **list, const void *ctx)
{
    for (struct completion **at = list; *at;) {
        struct completion *waiter = *at;

        if (waiter->ctx != ctx) {
            at = &waiter->next;
            continue;
        }
        *at = waiter->next;
        free(waiter);
    }
}

void execution_stdin_wait(struct execution *execution, void (*ready)(void *ctx), void *ctx)
{
    struct completion **at = &execution->input_waiters;
    struct completion *waiter;

    drop_waiter(&execution->input_called, ctx);
    drop_waiter(at, ctx); /* one callback per ctx, even if it waits twice */
    waiter = ready ? calloc(1, sizeof(*waiter)) : NULL;
    if (!waiter)
        return;
    while (*at)
        at = &(*at)->next;
    *waiter = (struct completion){.done = ready, .ctx = ctx};
    *at = waiter;
}

int execution_stdin_end(struct execution *execution, struct error *err)
{
    int r = check_input(execution, err);

    if (r < 0)
        return r;
    if (execution->session->box && execution->call)
        box_stdin_end(execution->session->box, execution->call);
    else
        execution->ends_input = true;
    return 0;
}

int execution_signal(struct execution *execution, int signal, struct error *err)
{
    struct error cancelled = {0};

    if (execution_has_ended(execution) || execution->state == EXECUTION_CLOSING)
        return error_set(err, -ESRCH, ERROR_EXECUTION_ENDED, "the command %s.%u has ended",
                         execution->session->id, execution->number);
    session_touch(execution->session);
    if (cell_install_cancel(execution))
        return 0;
    execution->was_killed |= signal == SIGKILL;
    if (execution->state != EXECUTION_WAITING) {
        box_signal(execution->session->box, execution->call, signal);
        return 0;
    }
    session_box_cancel(execution->session, execution);
    error_set(&cancelled, -ECANCELED, ERROR_CANCELLED, "the command was ended before it began");
    execution_fail(execution, &cancelled); /* this also removes a cell from its queue */
    return 0;
}

int execution_resize(struct execution *execution, unsigned rows, unsigned columns,
                     struct error *err)
{
    if (execution_has_ended(execution))
        return error_set(err, -ESRCH, ERROR_EXECUTION_ENDED, "the command has ended");
    if (!(execution->flags & EXECUTION_PTY))
        return error_set(err, -ENOTTY, ERROR_NOT_A_TERMINAL,
                         "the command does not run on a terminal; start it with \"pty\"");
    if (rows == 0 || columns == 0 || rows > LIMIT_TERMINAL || columns > LIMIT_TERMINAL)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "rows and columns: 1 to %d",
                         LIMIT_TERMINAL);
    if (execution->call && execution->session->box) {
        box_resize(execution->session->box, execution->call, rows, columns);
    } else {
        execution->rows = rows;
        execution->columns = columns;
    }
    return 0;
}

/* ---- finding executions ---- */

uint32_t execution_number(const struct execution *execution)
{
    return execution->number;
}

struct session *execution_session(const struct execution *execution)
{
    return execution->session;
}

bool execution_is_background(const struct execution *execution)
{
    return execution->flags & EXECUTION_BACKGROUND;
}

void execution_set_background(struct execution *execution)
{
    execution->flags |= EXECUTION_BACKGROUND;
    if (!execution_has_ended(execution) && execution->call)
        execution_save(execution);
}

int session_find_execution(struct session *session, const char *word, struct execution **ret,
                           struct error *err)
{
    const char *dot = strrchr(word, '.');
    uint64_t number;

    if (dot && strncmp(word, session->id, (size_t)(dot - word)) != 0)
        dot = word + strlen(word); /* the id of another session: no number is read */
    if (str_to_u64(dot ? dot + (*dot == '.') : word, &number) == 0) {
        for (struct execution *at = session->executions; at; at = at->next) {
            if (at->number == number) {
                *ret = at;
                return 0;
            }
        }
    }
    return error_set(err, -ENOENT, ERROR_EXECUTION_NOT_FOUND,
                     "the session %s has no execution '%.64s'", session->id, word);
}

struct execution *session_find_command(struct session *session, json_t *argv, uint64_t since_ms,
                                       uint32_t after)
{
    for (struct execution *at = session->oldest; at; at = at->previous) {
        CLEANUP(json_decrefp) json_t *words = NULL;

        if (at->cell || at->number <= after || (at->started_ms && at->started_ms < since_ms))
            continue;
        words = execution_words(at);
        if (json_equal(words, argv))
            return at;
    }
    return NULL;
}

void session_each_execution(struct session *session,
                            void (*each)(void *ctx, struct execution *execution), void *ctx)
{
    struct execution *next;

    for (struct execution *at = session->executions; at; at = next) {
        next = at->next;
        each(ctx, at);
    }
}
