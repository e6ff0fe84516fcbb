/*
 * container_fixture.h - a container without Docker: a process in namespaces and a root that this
 * test makes, which executes the test itself as `bailey warden-inside`. Its host is a box
 * (runtime/box) whose packets two small processes carry to and from its pipes, as a provider host
 * does.
 */
#ifndef BAILEY_TESTS_CONTAINER_FIXTURE_H
#define BAILEY_TESTS_CONTAINER_FIXTURE_H

#include "scratch.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "boxes/boxes_private.h"
#include "boxes/plan_builder.h"
#include "namespaces.h"
#include "runtime/box/box.h"
#include "runtime/box/files.h"
#include "sandbox/sandbox.h"
#include "sys/calls.h"
#include "wire/message.h"

#define NAMESPACES \
    (CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS)
#define DISK_BYTES (32 * MIB)

/* What happened to one call. */
struct seen {
    bool has_started, is_done;
    struct error err;
    struct exec_end end;
    char text[4][2048]; /* by stream */
    char names[512];    /* " name" of each entry */
};

struct container_fixture {
    pid_t pid, to_pid, from_pid; /* the container's first process; the carriers */
    int in_fd, out_fd;
    struct box *box; /* NULL: no such container can be made here */
    struct message_ready ready;
    struct seen seen, kernel;
    uint32_t id, kernel_id;
};

/* ---- the container ---- */

struct recipe {
    int in_fd, out_fd, err_fd;
    const char *hides; /* a share that is not writable; NULL: all are */
    char uid_map[32], gid_map[32];
};

static inline int write_map(const char *name, const char *text)
{
    return fd_write_text_at(AT_FDCWD, name, text);
}

/* The id 1000 of the container is ours outside: the exec then leaves no capability. */
static inline _Noreturn void become_container(const struct recipe *recipe)
{
    static char *const argv[] = {"bailey", WARDEN_INSIDE_WORD, NULL};
    static char *const env[] = {"PATH=/opt/image/bin:/usr/bin:/bin",
                                "LANG=C",
                                "SECRET=1",
                                "REPORT=a b=c",
                                "MPLBACKEND=svg",
                                "BAILEY_TEMPLATE_ENV= REPORT  MPLBACKEND NOT_THERE",
                                "BAILEY_DISK_BYTES=33554432",
                                NULL};
    struct launch_spec spec = {.disk_bytes = DISK_BYTES};
    static struct plan_builder builder;
    struct sandbox sandbox;
    int exe_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

    if (exe_fd < 0 || root_plan(&builder, &spec, NULL) < 0 ||
        write_map("/proc/self/setgroups", "deny") < 0 ||
        write_map("/proc/self/uid_map", recipe->uid_map) < 0 ||
        write_map("/proc/self/gid_map", recipe->gid_map) < 0)
        _exit(2);
    plan_builder_finish(&builder);
    sandbox_init(&sandbox, &builder.plan);
    if (sandbox_enter_root(&sandbox) < 0)
        _exit(2);
    if (recipe->hides && sys_mount("none", recipe->hides, "tmpfs", MS_RDONLY, NULL) < 0)
        _exit(2);
    if (dup2(recipe->in_fd, 0) < 0 || dup2(recipe->out_fd, 1) < 0 || dup2(recipe->err_fd, 2) < 0)
        _exit(2);
    fexecve(exe_fd, argv, env);
    _exit(2);
}

/* The host's ends of its standard streams; err_fd is the caller's. */
static inline pid_t start_container(int err_fd, const char *hides, int *ret_in, int *ret_out)
{
    struct recipe recipe = {.err_fd = err_fd, .hides = hides};
    CLEANUP(fd_closep) int pid_fd = -1;
    int in[2], out[2];
    pid_t pid;

    assert_true(pipe2(in, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    recipe.in_fd = in[0];
    recipe.out_fd = out[1];
    snprintf(recipe.uid_map, sizeof(recipe.uid_map), "1000 %u 1", geteuid());
    snprintf(recipe.gid_map, sizeof(recipe.gid_map), "1000 %u 1", getegid());
    pid = sys_clone_fork(NAMESPACES, &pid_fd, -1);
    if (pid == 0)
        become_container(&recipe);
    close(in[0]);
    close(out[1]);
    *ret_in = in[1];
    *ret_out = out[0];
    return pid;
}

/* ---- the provider host ---- */

static inline _Noreturn void carry_in(int socket_fd, int in_fd)
{
    static uint8_t data[WIRE_FRAME_MAX];
    ssize_t length;

    while ((length = recv(socket_fd, data, sizeof(data), 0)) > 0)
        if (fd_write_all(in_fd, data, (size_t)length) < 0)
            break;
    _exit(0);
}

static inline _Noreturn void carry_out(struct frame_stream *stream, int out_fd, int socket_fd)
{
    static uint8_t data[4096];
    ssize_t length;

    while ((length = read(out_fd, data, sizeof(data))) > 0) {
        for (size_t at = 0; at < (size_t)length;) {
            struct frame frame;
            int r;

            at += frame_stream_feed(stream, data + at, (size_t)length - at);
            r = frame_stream_next(stream, &frame);
            if (r < 0 || (r == 1 && send(socket_fd, stream->data, stream->have, MSG_NOSIGNAL) < 0))
                _exit(1);
        }
    }
    _exit(0);
}

/* READY is the provider host's own; what comes behind it is the box's. */
static inline int await_ready(int out_fd, struct message_ready *ret)
{
    static struct frame_stream stream;
    struct frame frame;
    uint8_t byte;

    stream.have = 0;
    while (read(out_fd, &byte, 1) == 1) {
        frame_stream_feed(&stream, &byte, 1);
        if (frame_stream_next(&stream, &frame) == 1)
            return frame.type == FRAME_READY ? message_ready_unpack(&frame, ret) : -EPROTO;
    }
    return -EPIPE;
}

static inline pid_t start_carrier(struct container_fixture *fixture, int socket_fd, int box_fd,
                                  bool is_in)
{
    static struct frame_stream stream;
    pid_t pid = fork();

    if (pid != 0)
        return pid;
    close(box_fd);
    close(is_in ? fixture->out_fd : fixture->in_fd);
    if (is_in)
        carry_in(socket_fd, fixture->in_fd);
    carry_out(&stream, fixture->out_fd, socket_fd);
}

static inline int set_up(void **state)
{
    struct container_fixture *fixture = calloc(1, sizeof(*fixture));
    int pair[2];

    if (!fixture || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    *state = fixture;
    if (!has_namespaces()) {
        fixture->in_fd = fixture->out_fd = -1;
        close(pair[0]);
        close(pair[1]);
        return 0;
    }
    fixture->pid = start_container(2, NULL, &fixture->in_fd, &fixture->out_fd);
    if (fixture->pid < 0 || await_ready(fixture->out_fd, &fixture->ready) < 0) {
        print_message("no container can be made here\n");
        close(pair[0]);
        close(pair[1]);
        return 0;
    }
    fixture->to_pid = start_carrier(fixture, pair[1], pair[0], true);
    fixture->from_pid = start_carrier(fixture, pair[1], pair[0], false);
    close(pair[1]);
    assert_true(fixture->to_pid > 0 && fixture->from_pid > 0);
    return box_new(pair[0], NULL, &fixture->box, NULL);
}

/* End of file is all that the container is told. */
static inline int tear_down(void **state)
{
    struct container_fixture *fixture = *state;
    const pid_t pids[] = {fixture->to_pid, fixture->pid, fixture->from_pid};

    box_free(fixture->box);
    close(fixture->in_fd);
    for (size_t i = 0; i < ARRAY_SIZE(pids); i++) {
        int status = 0;

        if (pids[i] <= 0)
            continue;
        assert_int_equal(waitpid(pids[i], &status, __WALL), pids[i]);
        assert_true(!fixture->box || status == 0);
    }
    close(fixture->out_fd);
    free(fixture);
    return 0;
}

#define NEEDS_A_BOX(fixture) \
    do {                     \
        if (!(fixture)->box) \
            skip();          \
    } while (0)

#endif
