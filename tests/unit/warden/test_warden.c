/*
 * test_warden.c - a whole warden in a process of its own, without namespaces, filters or Landlock,
 * driven frame by frame: commands, standard input, kills, files, and hosts that break the protocol.
 *
 * The plan must say that there are no namespaces: a warden that ends its box would otherwise kill
 * everybody it can.
 */
#include "scratch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/guest_stage.h"
#include "warden/inside.h"
#include "warden/warden.h"
#include "wire/file_message.h"

#define PATIENCE_MS 60000 /* a warden that says nothing for so long has failed */

struct room {
    struct scratch scratch;
    int fd; /* the host's end */
    pid_t pid;
    uint8_t data[WIRE_FRAME_MAX];
};

static _Noreturn void run_warden(struct room *room, int fd)
{
    static const char *const names[_SHARE_MAX] = {"work", "tmp", "home"};
    static const char *const env[] = {"PATH=/usr/bin:/bin", "K=box", "TWO=2", NULL};
    struct sandbox_plan plan = {.has_namespaces = false, .env = env, .watch_disk_bytes = 1 * GIB};
    struct sandbox sandbox;
    static char paths[_SHARE_MAX][128];

    sandbox_init(&sandbox, &plan);
    for (int i = 0; i < _SHARE_MAX; i++) {
        snprintf(paths[i], sizeof(paths[i]), "%s/%s", room->scratch.path, names[i]);
        plan.share_path[i] = paths[i];
        sandbox.share_fd[i] = open(paths[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    close(room->fd);
    warden_run(&sandbox, fd);
}

static bool take_any(struct room *room, struct frame *frame)
{
    struct pollfd poll_fd = {.fd = room->fd, .events = POLLIN};
    ssize_t length;

    assert_int_equal(poll(&poll_fd, 1, PATIENCE_MS), 1);
    length = recv(room->fd, room->data, sizeof(room->data), 0);
    if (length <= 0)
        return false;
    assert_int_equal(frame_decode(room->data, (size_t)length, frame), 0);
    return true;
}

static struct frame take(struct room *room, enum frame_type type, uint32_t id)
{
    struct frame frame;

    assert_true(take_any(room, &frame));
    assert_int_equal(frame.type, type);
    assert_int_equal(frame.id, id);
    return frame;
}

static int set_up(void **state)
{
    struct room *room = calloc(1, sizeof(*room));
    struct message_ready ready;
    struct frame frame;
    int pair[2];

    if (!room || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
        return -1;
    scratch_make(&room->scratch);
    scratch_folder(&room->scratch, "work");
    scratch_folder(&room->scratch, "tmp");
    scratch_folder(&room->scratch, "home");
    room->fd = pair[0];
    room->pid = fork();
    if (room->pid == 0)
        run_warden(room, pair[1]);
    close(pair[1]);
    *state = room;
    frame = take(room, FRAME_READY, 0);
    assert_int_equal(message_ready_unpack(&frame, &ready), 0);
    assert_int_equal(ready.version, WIRE_VERSION);
    assert_int_equal(ready.layers, 0);
    return 0;
}

static void check_ended(struct room *room)
{
    int status = -1;

    assert_int_equal(waitpid(room->pid, &status, 0), room->pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int tear_down(void **state)
{
    struct room *room = *state;

    close(room->fd);
    if (room->pid > 0)
        check_ended(room); /* the host hung up */
    scratch_remove(&room->scratch);
    free(room);
    return 0;
}

static void give(struct room *room, enum frame_type type, uint32_t id, const void *payload,
                 size_t length)
{
    static uint8_t data[WIRE_FRAME_MAX];

    frame_header(data, type, id, length);
    if (length > 0)
        memcpy(data + FRAME_HEADER, payload, length);
    assert_int_equal(send(room->fd, data, FRAME_HEADER + length, MSG_NOSIGNAL),
                     (ssize_t)(FRAME_HEADER + length));
}

static void give_number(struct room *room, enum frame_type type, uint32_t id, uint32_t number)
{
    uint8_t payload[4];

    give(room, type, id, payload, (size_t)message_number_pack(number, payload, 4));
}

static void give_bytes(struct room *room, enum frame_type type, uint32_t id, uint64_t offset,
                       const char *text)
{
    uint8_t payload[256];

    message_bytes_header(payload, 0, offset);
    memcpy(payload + MESSAGE_BYTES_HEADER, text, strlen(text));
    give(room, type, id, payload, MESSAGE_BYTES_HEADER + strlen(text));
}

static void give_path(struct room *room, enum frame_type type, uint32_t id, const char *path)
{
    struct message_path message = {.mode = 0644, .path = path, .path_length = strlen(path)};
    uint8_t payload[256];

    give(room, type, id, payload, (size_t)message_path_pack(&message, payload, sizeof(payload)));
}

static void give_ack(struct room *room, uint32_t id, uint8_t stream, uint64_t offset)
{
    struct message_ack ack = {.stream = stream, .offset = offset};
    uint8_t payload[9];

    give(room, FRAME_ACK, id, payload, (size_t)message_ack_pack(&ack, payload, sizeof(payload)));
}

static void give_exec(struct room *room, uint32_t id, const struct message_exec *exec)
{
    uint8_t payload[32];

    give(room, FRAME_EXEC, id, payload, (size_t)message_exec_pack(exec, payload, sizeof(payload)));
}

/* sh -c SCRIPT, with K=exec in its environment, in the folder `cwd`. */
static void start(struct room *room, uint32_t id, uint32_t flags, const char *script,
                  const char *cwd)
{
    struct message_exec exec = {.flags = flags, .argc = 3, .envc = 1};
    char args[512];
    int length = snprintf(args, sizeof(args), "sh%c-c%c%s%cK=exec%c%s", 0, 0, script, 0, 0, cwd);

    exec.args_length = (uint32_t)length + 1;
    give(room, FRAME_ARGS, 0, args, exec.args_length);
    give_exec(room, id, &exec);
}

/* How a command ended, and what it wrote. */
struct ended {
    struct message_exited exited;
    bool was_started;
    uint64_t bytes[3];
    char text[3][256]; /* the beginning */
};

static void note_output(struct room *room, const struct frame *frame, struct ended *ended)
{
    struct message_bytes bytes;
    uint64_t *seen;

    assert_int_equal(message_bytes_unpack(frame, &bytes), 0);
    assert_in_range(bytes.stream, 1, 2);
    seen = &ended->bytes[bytes.stream];
    assert_true(bytes.offset == *seen);
    if (*seen + bytes.length < sizeof(ended->text[0]))
        memcpy(ended->text[bytes.stream] + *seen, bytes.data, bytes.length);
    *seen += bytes.length;
    give_ack(room, frame->id, bytes.stream, *seen);
}

static void finish(struct room *room, uint32_t id, struct ended *ended)
{
    struct frame frame;

    memset(ended, 0, sizeof(*ended));
    for (;;) {
        assert_true(take_any(room, &frame));
        if (frame.type == FRAME_ACK)
            continue; /* of standard input */
        assert_int_equal(frame.id, id);
        if (frame.type == FRAME_OUTPUT)
            note_output(room, &frame, ended);
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

static void test_runs_a_command(void **state)
{
    struct room *room = *state;
    char expected[128];
    struct ended ended;

    start(room, 1, 0, "echo $K $TWO; pwd; echo oops >&2; exit 7", "");
    finish(room, 1, &ended);
    snprintf(expected, sizeof(expected), "exec 2\n%s/work\n", room->scratch.path);
    assert_true(ended.was_started);
    assert_string_equal(ended.text[1], expected); /* what the caller sets goes before the box's */
    assert_string_equal(ended.text[2], "oops\n");
    assert_int_equal(ended.exited.exit_code, 7);
    assert_int_equal(ended.exited.signal, 0);
    assert_int_equal(ended.exited.flags, 0);
    start(room, 2, 0, "pwd; cat", "/"); /* without standard input it is empty */
    finish(room, 2, &ended);
    assert_string_equal(ended.text[1], "/\n");
}

static void test_kill(void **state)
{
    struct room *room = *state;
    struct ended ended;

    start(room, 1, 0, "exec sleep 1000", "");
    take(room, FRAME_STARTED, 1);
    give_number(room, FRAME_SIGNAL, 1, SIGKILL);
    finish(room, 1, &ended);
    assert_int_equal(ended.exited.signal, SIGKILL);
    give_number(room, FRAME_SIGNAL, 1, SIGKILL); /* too late, and harmless */
    start(room, 2, 0, "trap 'echo got it; exit 3' TERM; echo set; while :; do sleep 0.01; done",
          "");
    take(room, FRAME_STARTED, 2);
    take(room, FRAME_OUTPUT, 2);
    give_number(room, FRAME_SIGNAL, 2, SIGTERM);
    take(room, FRAME_OUTPUT, 2);
    take(room, FRAME_EXITED, 2);
}

static void test_standard_input(void **state)
{
    struct room *room = *state;
    struct ended ended;

    start(room, 1, EXEC_STDIN, "cat", "");
    give_bytes(room, FRAME_STDIN, 1, 0, "one ");
    give_bytes(room, FRAME_STDIN, 1, 4, "two");
    give(room, FRAME_STDIN_END, 1, NULL, 0);
    finish(room, 1, &ended);
    assert_string_equal(ended.text[1], "one two");
    give_bytes(room, FRAME_STDIN, 1, 7, "late"); /* it has ended: dropped */
    give(room, FRAME_STDIN_END, 1, NULL, 0);
    start(room, 2, EXEC_STDIN, "exec <&-; echo closed", ""); /* a guest that reads nothing */
    give_bytes(room, FRAME_STDIN, 2, 0, "unread");
    finish(room, 2, &ended);
    assert_string_equal(ended.text[1], "closed\n");
}

static void test_program_that_is_not_there(void **state)
{
    static const char args[] = "bailey-no-such-program\0";
    struct message_exec exec = {.argc = 1, .args_length = sizeof(args)};
    struct room *room = *state;
    struct message_fail fail;
    struct frame frame;
    struct ended ended;

    give(room, FRAME_ARGS, 0, args, sizeof(args));
    give_exec(room, 1, &exec);
    frame = take(room, FRAME_NOEXEC, 1);
    assert_int_equal(message_fail_unpack(&frame, &fail), 0);
    assert_int_equal(fail.error, ENOENT);
    assert_string_equal(guest_stage_name(fail.stage), "execute");
    start(room, 2, 0, "true", "/no/such/folder");
    frame = take(room, FRAME_NOEXEC, 2);
    assert_int_equal(message_fail_unpack(&frame, &fail), 0);
    assert_int_equal(fail.error, ENOENT);
    assert_string_equal(guest_stage_name(fail.stage), "enter the working folder");
    start(room, 3, 0, "echo fine", "");
    finish(room, 3, &ended);
    assert_string_equal(ended.text[1], "fine\n");
}

/* Without acknowledgement exactly one window comes; the rest waits in the guest's pipe. */
static void test_output_window(void **state)
{
    struct room *room = *state;
    const uint64_t size = 3 * WIRE_STREAM_WINDOW + 7;
    char script[64];
    uint64_t received = 0;
    struct ended ended;

    snprintf(script, sizeof(script), "head -c %llu /dev/zero", (unsigned long long)size);
    start(room, 1, 0, script, "");
    take(room, FRAME_STARTED, 1);
    while (received < WIRE_STREAM_WINDOW) {
        struct frame frame = take(room, FRAME_OUTPUT, 1);

        received += frame.length - MESSAGE_BYTES_HEADER;
    }
    assert_true(received == WIRE_STREAM_WINDOW);
    start(room, 2, 0, "echo meanwhile", ""); /* nobody else is held up */
    finish(room, 2, &ended);
    assert_string_equal(ended.text[1], "meanwhile\n");
    give_ack(room, 1, 1, received);
    for (;;) {
        struct frame frame;

        assert_true(take_any(room, &frame));
        if (frame.type == FRAME_EXITED)
            break;
        assert_int_equal(frame.type, FRAME_OUTPUT);
        received += frame.length - MESSAGE_BYTES_HEADER;
        give_ack(room, 1, 1, received);
    }
    assert_true(received == size);
}

/* What a command leaves behind holds its pipes; with it the box's guests end. */
/* With the command everybody goes, and the box too when no output waits. */
static void test_command_that_ends_the_box(void **state)
{
    struct room *room = *state;
    struct ended ended;
    struct frame frame;

    start(room, 1, EXEC_ENDS_BOX, "sleep 1000 & echo left", "");
    finish(room, 1, &ended);
    assert_string_equal(ended.text[1], "left\n");
    assert_int_equal(ended.exited.exit_code, 0);
    assert_false(take_any(room, &frame));
}

static void test_kill_of_a_command_that_ends_the_box(void **state)
{
    struct room *room = *state;
    struct ended ended;
    struct frame frame;

    start(room, 2, EXEC_ENDS_BOX, "sleep 1000 & sleep 1000", "");
    take(room, FRAME_STARTED, 2);
    give_number(room, FRAME_SIGNAL, 2, SIGKILL);
    finish(room, 2, &ended);
    assert_int_equal(ended.exited.signal, SIGKILL);
    assert_false(take_any(room, &frame));
}

static void test_put_and_get(void **state)
{
    struct room *room = *state;
    struct message_bytes bytes;
    struct frame frame;
    struct ended ended;

    give_path(room, FRAME_PUT, 1, "/workspace/in/file");
    give_bytes(room, FRAME_PUT_DATA, 1, 0, "by the host");
    give(room, FRAME_PUT_END, 1, NULL, 0);
    take(room, FRAME_ACK, 1);
    take(room, FRAME_DONE, 1);
    start(room, 2, 0, "cat in/file; echo ' and the guest' >> in/file", "");
    finish(room, 2, &ended);
    assert_string_equal(ended.text[1], "by the host");
    give_path(room, FRAME_GET, 3, "/workspace/in/file");
    frame = take(room, FRAME_DATA, 3);
    assert_int_equal(message_bytes_unpack(&frame, &bytes), 0);
    assert_int_equal(bytes.length, 26);
    assert_memory_equal(bytes.data, "by the host and the guest\n", 26);
    take(room, FRAME_DONE, 3);
}

/* When the host hangs up nobody is left, not even those who left their session. */
static void test_hang_up_ends_everybody(void **state)
{
    struct room *room = *state;
    char text[32];
    struct frame frame;
    pid_t guest;

    start(room, 1, 0, "setsid sh -c 'echo $$ > pid; echo up; exec sleep 1000' & wait", "");
    take(room, FRAME_STARTED, 1);
    frame = take(room, FRAME_OUTPUT, 1);
    assert_int_equal(frame.length, MESSAGE_BYTES_HEADER + 3);
    assert_true(scratch_read(scratch_path(&room->scratch, "work/pid"), text, sizeof(text)));
    guest = (pid_t)strtol(text, NULL, 10);
    assert_true(guest > 1);
    close(room->fd);
    room->fd = -1;
    check_ended(room);
    room->pid = 0;
    /* Neither alive nor left to us, who are the next reaper: the warden has buried it. */
    assert_int_equal(waitpid(guest, NULL, 0), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(kill(guest, 0), -1);
    assert_int_equal(errno, ESRCH);
}

/* ---- what a host may not say; each ends the warden ---- */

static void exec_of_id_0(struct room *room)
{
    start(room, 0, 0, "true", "");
}

static void exec_twice(struct room *room)
{
    start(room, 5, 0, "exec sleep 1000", "");
    start(room, 5, 0, "true", "");
}

static void exec_too_few_strings(struct room *room)
{
    give(room, FRAME_ARGS, 0, "a\0b", 4);
    give_exec(room, 1, &(struct message_exec){.argc = 2, .args_length = 4});
}

static void exec_too_many_strings(struct room *room)
{
    give(room, FRAME_ARGS, 0, "a\0b\0c", 6);
    give_exec(room, 1, &(struct message_exec){.argc = 1, .args_length = 6});
}

static void exec_without_last_nul(struct room *room)
{
    give(room, FRAME_ARGS, 0, "a\0b", 3);
    give_exec(room, 1, &(struct message_exec){.argc = 1, .args_length = 3});
}

static void args_without_end(struct room *room)
{
    static char data[FRAME_PAYLOAD_MAX];

    for (size_t i = 0; i <= LIMIT_ARGV_BYTES / sizeof(data); i++)
        give(room, FRAME_ARGS, 0, data, sizeof(data));
}

static void frame_of_a_warden(struct room *room)
{
    give(room, FRAME_EXITED, 1, NULL, 0);
}

static void go_again(struct room *room)
{
    give_number(room, FRAME_GO, 0, 0);
}

static void no_frame(struct room *room)
{
    assert_int_equal(send(room->fd, "hello", 5, MSG_NOSIGNAL), 5);
}

static void too_large_a_frame(struct room *room)
{
    static uint8_t data[WIRE_FRAME_MAX + 1];

    frame_header(data, FRAME_ARGS, 0, WIRE_FRAME_MAX - FRAME_HEADER);
    assert_int_equal(send(room->fd, data, sizeof(data), MSG_NOSIGNAL), (ssize_t)sizeof(data));
}

static void signal_that_is_none(struct room *room)
{
    give_number(room, FRAME_SIGNAL, 1, 65);
}

static void ack_of_nothing(struct room *room)
{
    start(room, 1, 0, "exec sleep 1000", "");
    give_ack(room, 1, 1, 1);
}

static void stdin_with_a_hole(struct room *room)
{
    start(room, 1, EXEC_STDIN, "exec sleep 1000", "");
    give_bytes(room, FRAME_STDIN, 1, 1, "x");
}

static void data_for_no_put(struct room *room)
{
    give_bytes(room, FRAME_PUT_DATA, 9, 0, "x");
}

static void data_with_a_hole(struct room *room)
{
    give_path(room, FRAME_PUT, 1, "/tmp/x");
    give_bytes(room, FRAME_PUT_DATA, 1, 1, "x");
}

static void end_of_no_put(struct room *room)
{
    give(room, FRAME_PUT_END, 9, NULL, 0);
}

static void path_with_nul(struct room *room)
{
    struct message_path message = {.path = "/tmp/\0x", .path_length = 7};
    uint8_t payload[64];

    give(room, FRAME_GET, 1, payload,
         (size_t)message_path_pack(&message, payload, sizeof(payload)));
}

static void test_broken_protocol(void **state)
{
    static void (*const ways[])(struct room * room) = {
        exec_of_id_0,
        exec_twice,
        exec_too_few_strings,
        exec_too_many_strings,
        exec_without_last_nul,
        args_without_end,
        frame_of_a_warden,
        go_again,
        no_frame,
        too_large_a_frame,
        signal_that_is_none,
        ack_of_nothing,
        stdin_with_a_hole,
        data_for_no_put,
        data_with_a_hole,
        end_of_no_put,
        path_with_nul,
    };

    (void)state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        void *one = NULL;
        struct room *room;
        struct frame frame;

        assert_int_equal(set_up(&one), 0);
        room = one;
        ways[i](room);
        while (take_any(room, &frame))
            ;
        check_ended(room);
        room->pid = 0;
        tear_down(&one);
    }
}

static int become_reaper(void **state)
{
    (void)state;
    return prctl(PR_SET_CHILD_SUBREAPER, 1);
}

#define WITH_A_WARDEN(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_WARDEN(test_runs_a_command),
        WITH_A_WARDEN(test_kill),
        WITH_A_WARDEN(test_standard_input),
        WITH_A_WARDEN(test_program_that_is_not_there),
        WITH_A_WARDEN(test_output_window),
        WITH_A_WARDEN(test_command_that_ends_the_box),
        WITH_A_WARDEN(test_kill_of_a_command_that_ends_the_box),

        WITH_A_WARDEN(test_put_and_get),
        WITH_A_WARDEN(test_hang_up_ends_everybody),
        cmocka_unit_test(test_broken_protocol),
    };

    return cmocka_run_group_tests_name("warden", tests, become_reaper, NULL);
}
