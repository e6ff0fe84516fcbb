/*
 * warden_fixture.h - a whole warden in a process of its own, without namespaces, filters or
 * Landlock, whose host is the test: it gives any frames it likes and takes those that come.
 *
 * The plan must say that there are no namespaces: a warden that ends its box would otherwise kill
 * everybody it can. The test has to be a subreaper (become_reaper()).
 */
#ifndef BAILEY_TESTS_WARDEN_FIXTURE_H
#define BAILEY_TESTS_WARDEN_FIXTURE_H

#include "scratch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "warden/warden.h"
#include "warden/warden_private.h"
#include "wire/file_message.h"

#define PATIENCE_MS 60000 /* a warden that says nothing for so long has failed */

/* Layers that the sandbox claims to have; set before set_up(). */
static uint32_t fixture_layers;

struct warden_fixture {
    struct scratch scratch;
    int fd; /* the host's end */
    pid_t pid;
    uint8_t data[WIRE_FRAME_MAX];
};

static inline void make_shares(struct scratch *scratch)
{
    scratch_make(scratch);
    scratch_folder(scratch, "work");
    scratch_folder(scratch, "tmp");
    scratch_folder(scratch, "home");
    scratch_folder(scratch, "data");
}

/* In the warden's process, which it is to stay. */
static inline struct sandbox *enter_shares(const struct scratch *scratch)
{
    static const char *const names[_SHARE_MAX] = {"work", "tmp", "home", "data"};
    static const char *const env[] = {"PATH=/usr/bin:/bin", "K=box", "TWO=2", NULL};
    static struct sandbox_plan plan = {
        .has_namespaces = false, .env = env, .watch_disk_bytes = 1 * GIB};
    static struct sandbox sandbox;
    static char paths[_SHARE_MAX][128];

    sandbox_init(&sandbox, &plan);
    for (int i = 0; i < _SHARE_MAX; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/%s", scratch->path, names[i]);
        plan.share_path[i] = paths[i];
        sandbox.share_fd[i] = open(paths[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return &sandbox;
}

static inline _Noreturn void run_warden(struct warden_fixture *fixture, int fd)
{
    struct sandbox *sandbox = enter_shares(&fixture->scratch);

    sandbox->layers = fixture_layers;
    close(fixture->fd);
    warden_run(sandbox, fd);
}

static inline bool take_any(struct warden_fixture *fixture, struct frame *frame)
{
    struct pollfd poll_fd = {.fd = fixture->fd, .events = POLLIN};
    ssize_t length;

    do {
        assert_int_equal(poll(&poll_fd, 1, PATIENCE_MS), 1);
        length = recv(fixture->fd, fixture->data, sizeof(fixture->data), 0);
        /* reset: it ended with frames of ours unread; its own still come */
    } while (length < 0 && errno == ECONNRESET);
    if (length <= 0)
        return false;
    assert_int_equal(frame_decode(fixture->data, (size_t)length, frame), 0);
    return true;
}

static inline struct frame take(struct warden_fixture *fixture, enum frame_type type, uint32_t id)
{
    struct frame frame;

    assert_true(take_any(fixture, &frame));
    assert_int_equal(frame.type, type);
    assert_int_equal(frame.id, id);
    return frame;
}

static inline int set_up(void **state)
{
    struct warden_fixture *fixture = calloc(1, sizeof(*fixture));
    struct message_ready ready;
    struct frame frame;
    int pair[2];

    if (!fixture || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    make_shares(&fixture->scratch);
    fixture->fd = pair[0];
    fixture->pid = fork();
    if (fixture->pid == 0)
        run_warden(fixture, pair[1]);
    close(pair[1]);
    *state = fixture;
    frame = take(fixture, FRAME_READY, 0);
    assert_int_equal(message_ready_unpack(&frame, &ready), 0);
    assert_int_equal(ready.version, WIRE_VERSION);
    assert_int_equal(ready.layers, fixture_layers);
    return 0;
}

static inline void check_ended(struct warden_fixture *fixture)
{
    int status = -1;

    assert_int_equal(waitpid(fixture->pid, &status, 0), fixture->pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static inline int tear_down(void **state)
{
    struct warden_fixture *fixture = *state;

    close(fixture->fd);
    if (fixture->pid > 0)
        check_ended(fixture); /* the host hung up */
    scratch_remove(&fixture->scratch);
    free(fixture);
    return 0;
}

static inline void give(struct warden_fixture *fixture, enum frame_type type, uint32_t id,
                        const void *payload, size_t length)
{
    static uint8_t data[WIRE_FRAME_MAX];

    frame_header(data, type, id, length);
    if (length > 0)
        memcpy(data + FRAME_HEADER, payload, length);
    if (send(fixture->fd, data, FRAME_HEADER + length, MSG_NOSIGNAL) < 0)
        assert_int_equal(errno, EPIPE); /* a box that has ended: what comes out of it says so */
}

static inline void give_number(struct warden_fixture *fixture, enum frame_type type, uint32_t id,
                               uint32_t number)
{
    uint8_t payload[4];

    give(fixture, type, id, payload, (size_t)message_number_pack(number, payload, 4));
}

static inline void give_bytes(struct warden_fixture *fixture, enum frame_type type, uint32_t id,
                              uint64_t offset, const char *text)
{
    uint8_t payload[256];

    message_bytes_header(payload, 0, offset);
    memcpy(payload + MESSAGE_BYTES_HEADER, text, strlen(text));
    give(fixture, type, id, payload, MESSAGE_BYTES_HEADER + strlen(text));
}

static inline void give_path(struct warden_fixture *fixture, enum frame_type type, uint32_t id,
                             const char *path)
{
    struct message_path message = {.mode = 0644, .path = path, .path_length = strlen(path)};
    uint8_t payload[256];

    give(fixture, type, id, payload, (size_t)message_path_pack(&message, payload, sizeof(payload)));
}

static inline void give_ack(struct warden_fixture *fixture, uint32_t id, uint8_t stream,
                            uint64_t offset)
{
    struct message_ack ack = {.stream = stream, .offset = offset};
    uint8_t payload[9];

    give(fixture, FRAME_ACK, id, payload, (size_t)message_ack_pack(&ack, payload, sizeof(payload)));
}

static inline void give_exec(struct warden_fixture *fixture, uint32_t id,
                             const struct message_exec *exec)
{
    uint8_t payload[32];

    give(fixture, FRAME_EXEC, id, payload,
         (size_t)message_exec_pack(exec, payload, sizeof(payload)));
}

/* sh -c SCRIPT, with K=exec in its environment, in the folder `cwd`. */
static inline void start(struct warden_fixture *fixture, uint32_t id, uint32_t flags,
                         const char *script, const char *cwd)
{
    struct message_exec exec = {.flags = flags, .argc = 3, .envc = 1};
    char args[512];
    int length = snprintf(args, sizeof(args), "sh%c-c%c%s%cK=exec%c%s", 0, 0, script, 0, 0, cwd);

    exec.args_length = (uint32_t)length + 1;
    give(fixture, FRAME_ARGS, 0, args, exec.args_length);
    give_exec(fixture, id, &exec);
}

/* How a command ended, and what it wrote. */
struct ended {
    struct message_exited exited;
    bool was_started;
    uint64_t bytes[4];
    char text[4][256]; /* the beginning */
};

static inline void note_output(struct warden_fixture *fixture, const struct frame *frame,
                               struct ended *ended)
{
    struct message_bytes bytes;
    uint64_t *seen;

    assert_int_equal(message_bytes_unpack(frame, &bytes), 0);
    assert_in_range(bytes.stream, 1, MESSAGE_STREAMS);
    seen = &ended->bytes[bytes.stream];
    assert_true(bytes.offset == *seen);
    if (*seen + bytes.length < sizeof(ended->text[0]))
        memcpy(ended->text[bytes.stream] + *seen, bytes.data, bytes.length);
    *seen += bytes.length;
    give_ack(fixture, frame->id, bytes.stream, *seen);
}

static inline void finish(struct warden_fixture *fixture, uint32_t id, struct ended *ended)
{
    struct frame frame;

    memset(ended, 0, sizeof(*ended));
    for (;;) {
        assert_true(take_any(fixture, &frame));
        if (frame.type == FRAME_ACK)
            continue; /* of standard input */
        assert_int_equal(frame.id, id);
        if (frame.type == FRAME_OUTPUT)
            note_output(fixture, &frame, ended);
        else if (frame.type == FRAME_STARTED)
            ended->was_started = true;
        else
            break;
    }
    assert_int_equal(frame.type, FRAME_EXITED);
    assert_int_equal(message_exited_unpack(&frame, &ended->exited), 0);
    assert_true(ended->exited.out_bytes == ended->bytes[1]);
    assert_true(ended->exited.err_bytes == ended->bytes[2]);
}

/* What is said in this way no warden survives. */
static inline void check_breaks(void (*say)(struct warden_fixture *fixture))
{
    void *one = NULL;
    struct warden_fixture *fixture;
    struct frame frame;

    assert_int_equal(set_up(&one), 0);
    fixture = one;
    say(fixture);
    while (take_any(fixture, &frame))
        ;
    check_ended(fixture);
    fixture->pid = 0;
    tear_down(&one);
}

static inline int become_reaper(void **state)
{
    (void)state;
    return prctl(PR_SET_CHILD_SUBREAPER, 1);
}

#define WITH_A_WARDEN(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

#endif
