/* input.c - a command's standard input: bytes of the request, and bytes sent later. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "base/worker.h"
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

/* ---- storing it ---- */

#define INPUT_AT_ONCE (256 * KIB) /* 15 MiB keep the loop for 40 ms */
/*
 * Bytes that wait for the thread when one more is given to it: they are in memory besides what
 * their tenant holds. Each came with a request, which takes longer to read than to store, so that
 * there are more only if the disk is slow: then the loop stores it.
 */
#define INPUT_WAITING LIMIT_REQUEST_JSON

/* A long one that is being written by a thread; the command starts afterwards. */
struct input_write {
    struct session_manager *manager;
    struct execution *execution; /* NULL: it is gone */
    json_t *keeper;              /* has the bytes */
    int fd;                      /* of our own: the execution may be gone first */
    int r;
};

static int store_error(int r, struct error *err)
{
    return error_set(err, r, r == -ENOSPC ? ERROR_DISK_FULL : ERROR_ENGINE,
                     "storing the standard input: %s", strerror(-r));
}

static void write_it(void *ctx)
{
    struct input_write *write = ctx;

    write->r = fd_write_all(write->fd, json_string_value(write->keeper),
                            json_string_length(write->keeper));
}

static void on_written(void *ctx)
{
    CLEANUP(freep) struct input_write *write = ctx;
    struct execution *execution = write->execution;
    struct error err = {0};

    write->manager->input_waiting -= json_string_length(write->keeper);
    json_decref(write->keeper);
    fd_closep(&write->fd);
    if (!execution)
        return;
    execution->input_write = NULL;
    if (execution_has_ended(execution))
        return;
    if (write->r < 0) {
        store_error(write->r, &err);
        execution_fail(execution, &err);
    } else {
        execution_ask_box(execution);
    }
}

/* Not by fallocate(), which takes as long as writing does on some file systems. */
static bool has_room(int fd, size_t length)
{
    struct statvfs disk;

    return fstatvfs(fd, &disk) < 0 || (uint64_t)disk.f_bavail * disk.f_frsize >= length;
}

/* A full disk is the request's own error; one that fills meanwhile is the command's. */
static int write_later(struct execution *execution, const struct execution_spec *spec,
                       struct error *err)
{
    struct session_manager *manager = execution->session->manager;
    CLEANUP(freep) struct input_write *write = calloc(1, sizeof(*write));

    if (!write)
        return error_memory(err);
    if (!has_room(execution->input_fd, spec->input_length))
        return store_error(-ENOSPC, err);
    *write = (struct input_write){.manager = manager,
                                  .execution = execution,
                                  .keeper = json_incref(spec->keeper),
                                  .fd = fcntl(execution->input_fd, F_DUPFD_CLOEXEC, 3)};
    if (write->fd < 0 || !worker_do(manager->input_writer, write_it, on_written, write)) {
        fd_closep(&write->fd);
        json_decref(write->keeper);
        return error_memory(err);
    }
    manager->input_waiting += spec->input_length;
    execution->input_write = ptr_take(&write);
    return 0;
}

int input_store(struct execution *execution, const struct execution_spec *spec, struct error *err)
{
    int fd = open_file(execution, O_RDWR | O_CREAT | O_TRUNC), r;

    if (fd < 0)
        return store_error(fd, err);
    execution->input_fd = fd;
    if (spec->keeper && spec->input_length > INPUT_AT_ONCE &&
        execution->session->manager->input_waiting <= INPUT_WAITING)
        return write_later(execution, spec, err);
    r = fd_write_all(fd, spec->input, spec->input_length);
    return r < 0 ? store_error(r, err) : 0;
}

void input_write_leave(struct execution *execution)
{
    struct input_write *write = ptr_take(&execution->input_write);

    if (write)
        write->execution = NULL;
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

static int check_input(struct execution *execution, struct error *err)
{
    if (execution_has_ended(execution) || execution->state == EXECUTION_CLOSING)
        return error_set(err, -ESRCH, ERROR_EXECUTION_ENDED, "the command %s.%u has ended",
                         execution->session->id, execution->number);
    if (!(execution->flags & EXECUTION_STDIN) || execution->input_fd >= 0)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "the command was started without an open standard input");
    return session_check_pause(execution->session, err);
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
    int r;

    if (execution_has_ended(execution) || execution->state == EXECUTION_CLOSING)
        return error_set(err, -ESRCH, ERROR_EXECUTION_ENDED, "the command %s.%u has ended",
                         execution->session->id, execution->number);
    r = session_check_pause(execution->session, err);
    if (r < 0)
        return r;
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
    int r;

    if (execution_has_ended(execution))
        return error_set(err, -ESRCH, ERROR_EXECUTION_ENDED, "the command has ended");
    if (!(execution->flags & EXECUTION_PTY))
        return error_set(err, -ENOTTY, ERROR_NOT_A_TERMINAL,
                         "the command does not run on a terminal; start it with \"pty\"");
    if (rows == 0 || columns == 0 || rows > LIMIT_TERMINAL || columns > LIMIT_TERMINAL)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "rows and columns: 1 to %d",
                         LIMIT_TERMINAL);
    r = session_check_pause(execution->session, err);
    if (r < 0)
        return r;
    if (execution->call && execution->session->box) {
        box_resize(execution->session->box, execution->call, rows, columns);
    } else {
        execution->rows = rows;
        execution->columns = columns;
    }
    return 0;
}

/* ---- finding executions ---- */

uint32_t execution_pid(const struct execution *execution)
{
    return execution->pid;
}

bool execution_has_started(const struct execution *execution)
{
    return execution->flags & EXECUTION_STARTED || execution->state == EXECUTION_RUNNING;
}

bool execution_is_pty(const struct execution *execution)
{
    return execution->flags & EXECUTION_PTY;
}

uint64_t execution_ended_ms(const struct execution *execution)
{
    return execution->ended_ms;
}

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
