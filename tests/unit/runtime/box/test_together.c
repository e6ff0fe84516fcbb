/* test_together.c - the real box against the real warden, without namespaces: late frames lose
 * nothing. */
#include "scratch.h"

#include <errno.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/limits.h"
#include "runtime/box/box.h"
#include "runtime/box/files.h"
#include "sandbox/sandbox.h"
#include "warden/warden.h"

struct together {
    struct scratch scratch;
    struct box *box;
    pid_t pid;
    int ends, failed;
    struct error err;
};

static int set_up(void **state)
{
    static const char *const names[_SHARE_MAX] = {"work", "tmp", "home", "data"};
    static const char *const env[] = {"PATH=/usr/bin:/bin", NULL};
    struct together *self = calloc(1, sizeof(*self));
    uint8_t ready[1024];
    int pair[2];

    scratch_make(&self->scratch);
    for (int i = 0; i < _SHARE_MAX; i++)
        scratch_folder(&self->scratch, names[i]);
    socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair);
    self->pid = fork();
    if (self->pid == 0) {
        struct sandbox_plan plan = {.env = env, .watch_disk_bytes = 1 * GIB};
        struct sandbox sandbox;

        sandbox_init(&sandbox, &plan);
        for (int i = 0; i < _SHARE_MAX; i++) {
            plan.share_path[i] = scratch_path(&self->scratch, names[i]);
            sandbox.share_fd[i] = open(plan.share_path[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        }
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        close(pair[0]);
        warden_run(&sandbox, pair[1]);
    }
    close(pair[1]);
    if (recv(pair[0], ready, sizeof(ready), 0) <= 0)
        return -1;
    *state = self;
    return box_new(pair[0], NULL, &self->box, &self->err);
}

static int tear_down(void **state)
{
    struct together *self = *state;

    box_free(self->box);
    waitpid(self->pid, NULL, 0);
    scratch_remove(&self->scratch);
    free(self);
    return 0;
}

static void saw_done(void *ctx, const struct error *err)
{
    struct together *self = ctx;

    self->ends++;
    self->err = *err;
}

static void saw_failed(void *ctx, const struct error *err)
{
    saw_done(ctx, err);
}

static void saw_ended(void *ctx, const struct exec_end *end)
{
    (void)end;
    ((struct together *)ctx)->ends++;
}

static size_t saw_output(void *ctx, enum box_stream stream, const void *data, size_t length)
{
    (void)ctx;
    (void)stream;
    (void)data;
    return length;
}

static void saw_entry(void *ctx, const struct box_entry *entry)
{
    (void)ctx;
    (void)entry;
}

/* Pumps until `ends` calls have ended or the box is lost. */
static int pump(struct together *self, int ends)
{
    int r = 0;

    while (r == 0 && self->ends < ends) {
        struct pollfd poll_fd = {.fd = box_fd(self->box), .events = box_poll_events(self->box)};

        assert_int_equal(poll(&poll_fd, 1, 20000), 1);
        r = box_pump(self->box, &self->err);
    }
    return r;
}

/* A listing behind it shows that the box is still there and has said all it had to say. */
static void check_alive(struct together *self)
{
    static const struct list_events events = {.entry = saw_entry, .done = saw_done};
    uint32_t id;

    assert_int_equal(box_list(self->box, "/tmp", 0, &events, self, &id, &self->err), 0);
    assert_int_equal(pump(self, 2), 0);
    assert_int_equal(self->err.num, 0);
}

/* T1. A put that cannot be, with its bytes right behind it. */
static void test_early_failed_put(void **state)
{
    static const struct put_events events = {.done = saw_done};
    struct together *self = *state;
    uint32_t id;

    assert_int_equal(box_put(self->box, &(struct put_spec){.path = "/etc/x", .mode = 0600}, &events,
                             self, &id, &self->err),
                     0);
    assert_int_equal(box_put_data(self->box, id, "bytes", 5), 5);
    assert_int_equal(pump(self, 1), 0);
    assert_int_equal(self->err.num, -EACCES);
    check_alive(self);
}

/* T2. A program that is not there, with more standard input than its pipe takes. */
static void test_no_exec_with_input(void **state)
{
    static const struct exec_events events = {
        .output = saw_output, .ended = saw_ended, .failed = saw_failed};
    static const char *const argv[] = {"no-such-program", NULL};
    static char input[200000];
    struct exec_spec spec = {.argv = argv, .stdin_open = true};
    struct together *self = *state;
    uint32_t id;

    assert_int_equal(box_exec(self->box, &spec, &events, self, &id, &self->err), 0);
    assert_int_equal(box_stdin(self->box, id, input, sizeof(input)), (long)sizeof(input));
    assert_int_equal(pump(self, 1), 0);
    assert_ptr_equal(self->err.code, ERROR_COMMAND_NOT_FOUND);
    check_alive(self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_early_failed_put, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_no_exec_with_input, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("runtime/box together", tests, NULL, NULL);
}
