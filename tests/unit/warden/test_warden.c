/*
 * test_warden.c - a warden driven frame by frame: commands, standard input, kills, files, and hosts
 * that break the protocol.
 */
#include "warden/warden_fixture.h"

#include "sandbox/guest_stage.h"

static void test_runs_a_command(void **state)
{
    struct warden_fixture *fixture = *state;
    char expected[128];
    struct ended ended;

    start(fixture, 1, 0, "echo $K $TWO; pwd; echo oops >&2; exit 7", "");
    finish(fixture, 1, &ended);
    snprintf(expected, sizeof(expected), "exec 2\n%s/work\n", fixture->scratch.path);
    assert_true(ended.was_started);
    assert_string_equal(ended.text[1], expected); /* what the caller sets goes before the box's */
    assert_string_equal(ended.text[2], "oops\n");
    assert_int_equal(ended.exited.exit_code, 7);
    assert_int_equal(ended.exited.signal, 0);
    assert_int_equal(ended.exited.flags, 0);
    start(fixture, 2, 0, "pwd; cat", "/"); /* without standard input it is empty */
    finish(fixture, 2, &ended);
    assert_string_equal(ended.text[1], "/\n");
}

static void test_kill(void **state)
{
    struct warden_fixture *fixture = *state;
    struct ended ended;
    struct frame frame;

    start(fixture, 1, 0, "exec sleep 1000", "");
    take(fixture, FRAME_STARTED, 1);
    give_number(fixture, FRAME_SIGNAL, 1, SIGKILL);
    finish(fixture, 1, &ended);
    assert_int_equal(ended.exited.signal, SIGKILL);
    give_number(fixture, FRAME_SIGNAL, 1, SIGKILL); /* too late, and harmless */
    start(fixture, 2, 0, "trap 'echo got it; exit 3' TERM; echo set; while :; do sleep 0.01; done",
          "");
    take(fixture, FRAME_STARTED, 2);
    take(fixture, FRAME_OUTPUT, 2);
    give_number(fixture, FRAME_SIGNAL, 2,
                SIGTERM); /* to its whole group: sh may tell of sleep's end */
    do {
        assert_true(take_any(fixture, &frame));
    } while (frame.type == FRAME_OUTPUT);
    assert_int_equal(frame.type, FRAME_EXITED);
    assert_int_equal(message_exited_unpack(&frame, &ended.exited), 0);
    assert_int_equal(ended.exited.exit_code, 3);
}

static void test_standard_input(void **state)
{
    struct warden_fixture *fixture = *state;
    struct ended ended;

    start(fixture, 1, EXEC_STDIN, "cat", "");
    give_bytes(fixture, FRAME_STDIN, 1, 0, "one ");
    give_bytes(fixture, FRAME_STDIN, 1, 4, "two");
    give(fixture, FRAME_STDIN_END, 1, NULL, 0);
    finish(fixture, 1, &ended);
    assert_string_equal(ended.text[1], "one two");
    give_bytes(fixture, FRAME_STDIN, 1, 7, "late"); /* it has ended: dropped */
    give(fixture, FRAME_STDIN_END, 1, NULL, 0);
    start(fixture, 2, EXEC_STDIN, "exec <&-; echo closed", ""); /* a guest that reads nothing */
    give_bytes(fixture, FRAME_STDIN, 2, 0, "unread");
    finish(fixture, 2, &ended);
    assert_string_equal(ended.text[1], "closed\n");
}

static void test_program_that_is_not_there(void **state)
{
    static const char args[] = "bailey-no-such-program\0";
    struct message_exec exec = {.argc = 1, .args_length = sizeof(args)};
    struct warden_fixture *fixture = *state;
    struct message_fail fail;
    struct frame frame;
    struct ended ended;

    give(fixture, FRAME_ARGS, 0, args, sizeof(args));
    give_exec(fixture, 1, &exec);
    frame = take(fixture, FRAME_NOEXEC, 1);
    assert_int_equal(message_fail_unpack(&frame, &fail), 0);
    assert_int_equal(fail.error, ENOENT);
    assert_string_equal(guest_stage_name(fail.stage), "execute");
    start(fixture, 2, 0, "true", "/no/such/folder");
    frame = take(fixture, FRAME_NOEXEC, 2);
    assert_int_equal(message_fail_unpack(&frame, &fail), 0);
    assert_int_equal(fail.error, ENOENT);
    assert_string_equal(guest_stage_name(fail.stage), "enter the working folder");
    start(fixture, 3, 0, "echo fine", "");
    finish(fixture, 3, &ended);
    assert_string_equal(ended.text[1], "fine\n");
}

/* Without acknowledgement exactly one window comes; the rest waits in the guest's pipe. */
static void test_output_window(void **state)
{
    struct warden_fixture *fixture = *state;
    const uint64_t size = 3 * WIRE_STREAM_WINDOW + 7;
    char script[64];
    uint64_t received = 0;
    struct ended ended;

    snprintf(script, sizeof(script), "head -c %llu /dev/zero", (unsigned long long)size);
    start(fixture, 1, 0, script, "");
    take(fixture, FRAME_STARTED, 1);
    while (received < WIRE_STREAM_WINDOW) {
        struct frame frame = take(fixture, FRAME_OUTPUT, 1);

        received += frame.length - MESSAGE_BYTES_HEADER;
    }
    assert_true(received == WIRE_STREAM_WINDOW);
    start(fixture, 2, 0, "echo meanwhile", ""); /* nobody else is held up */
    finish(fixture, 2, &ended);
    assert_string_equal(ended.text[1], "meanwhile\n");
    give_ack(fixture, 1, 1, received);
    for (;;) {
        struct frame frame;

        assert_true(take_any(fixture, &frame));
        if (frame.type == FRAME_EXITED)
            break;
        assert_int_equal(frame.type, FRAME_OUTPUT);
        received += frame.length - MESSAGE_BYTES_HEADER;
        give_ack(fixture, 1, 1, received);
    }
    assert_true(received == size);
}

/* What a command leaves behind holds its pipes; with it the box's guests end. */
/* With the command everybody goes, and the box too when no output waits. */
static void test_command_that_ends_the_box(void **state)
{
    struct warden_fixture *fixture = *state;
    struct ended ended;
    struct frame frame;

    start(fixture, 1, EXEC_ENDS_BOX, "sleep 1000 & echo left", "");
    finish(fixture, 1, &ended);
    assert_string_equal(ended.text[1], "left\n");
    assert_int_equal(ended.exited.exit_code, 0);
    assert_false(take_any(fixture, &frame));
}

static void test_kill_of_a_command_that_ends_the_box(void **state)
{
    struct warden_fixture *fixture = *state;
    struct ended ended;
    struct frame frame;

    start(fixture, 2, EXEC_ENDS_BOX, "sleep 1000 & sleep 1000", "");
    take(fixture, FRAME_STARTED, 2);
    give_number(fixture, FRAME_SIGNAL, 2, SIGKILL);
    finish(fixture, 2, &ended);
    assert_int_equal(ended.exited.signal, SIGKILL);
    assert_false(take_any(fixture, &frame));
}

static void test_put_and_get(void **state)
{
    struct warden_fixture *fixture = *state;
    struct message_bytes bytes;
    struct frame frame;
    struct ended ended;

    give_path(fixture, FRAME_PUT, 1, "/workspace/in/file");
    give_bytes(fixture, FRAME_PUT_DATA, 1, 0, "by the host");
    give(fixture, FRAME_PUT_END, 1, NULL, 0);
    take(fixture, FRAME_ACK, 1);
    take(fixture, FRAME_DONE, 1);
    start(fixture, 2, 0, "cat in/file; echo ' and the guest' >> in/file", "");
    finish(fixture, 2, &ended);
    assert_string_equal(ended.text[1], "by the host");
    give_path(fixture, FRAME_GET, 3, "/workspace/in/file");
    take(fixture, FRAME_ENTRY, 3); /* its size */
    frame = take(fixture, FRAME_DATA, 3);
    assert_int_equal(message_bytes_unpack(&frame, &bytes), 0);
    assert_int_equal(bytes.length, 26);
    assert_memory_equal(bytes.data, "by the host and the guest\n", 26);
    take(fixture, FRAME_DONE, 3);
}

/* When the host hangs up nobody is left, not even those who left their session. */
static void test_hang_up_ends_everybody(void **state)
{
    struct warden_fixture *fixture = *state;
    char text[32];
    struct frame frame;
    pid_t guest;

    start(fixture, 1, 0, "setsid sh -c 'echo $$ > pid; echo up; exec sleep 1000' & wait", "");
    take(fixture, FRAME_STARTED, 1);
    frame = take(fixture, FRAME_OUTPUT, 1);
    assert_int_equal(frame.length, MESSAGE_BYTES_HEADER + 3);
    assert_true(scratch_read(scratch_path(&fixture->scratch, "work/pid"), text, sizeof(text)));
    guest = (pid_t)strtol(text, NULL, 10);
    assert_true(guest > 1);
    close(fixture->fd);
    fixture->fd = -1;
    check_ended(fixture);
    fixture->pid = 0;
    /* Neither alive nor left to us, who are the next reaper: the warden has reaped it. */
    assert_int_equal(waitpid(guest, NULL, 0), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(kill(guest, 0), -1);
    assert_int_equal(errno, ESRCH);
}

/* ---- what a host may not say; each ends the warden ---- */

static void exec_of_id_0(struct warden_fixture *fixture)
{
    start(fixture, 0, 0, "true", "");
}

static void exec_twice(struct warden_fixture *fixture)
{
    start(fixture, 5, 0, "exec sleep 1000", "");
    start(fixture, 5, 0, "true", "");
}

static void exec_too_few_strings(struct warden_fixture *fixture)
{
    give(fixture, FRAME_ARGS, 0, "a\0b", 4);
    give_exec(fixture, 1, &(struct message_exec){.argc = 2, .args_length = 4});
}

static void exec_too_many_strings(struct warden_fixture *fixture)
{
    give(fixture, FRAME_ARGS, 0, "a\0b\0c", 6);
    give_exec(fixture, 1, &(struct message_exec){.argc = 1, .args_length = 6});
}

static void exec_without_last_nul(struct warden_fixture *fixture)
{
    give(fixture, FRAME_ARGS, 0, "a\0b", 3);
    give_exec(fixture, 1, &(struct message_exec){.argc = 1, .args_length = 3});
}

static void args_without_end(struct warden_fixture *fixture)
{
    static char data[FRAME_PAYLOAD_MAX];

    for (size_t i = 0; i <= LIMIT_CELL_TEXT / sizeof(data); i++)
        give(fixture, FRAME_ARGS, 0, data, sizeof(data));
}

static void frame_of_a_warden(struct warden_fixture *fixture)
{
    give(fixture, FRAME_EXITED, 1, NULL, 0);
}

static void go_again(struct warden_fixture *fixture)
{
    give_number(fixture, FRAME_GO, 0, 0);
}

static void no_frame(struct warden_fixture *fixture)
{
    assert_int_equal(send(fixture->fd, "hello", 5, MSG_NOSIGNAL), 5);
}

static void too_large_a_frame(struct warden_fixture *fixture)
{
    static uint8_t data[WIRE_FRAME_MAX + 1];

    frame_header(data, FRAME_ARGS, 0, WIRE_FRAME_MAX - FRAME_HEADER);
    assert_int_equal(send(fixture->fd, data, sizeof(data), MSG_NOSIGNAL), (ssize_t)sizeof(data));
}

static void signal_that_is_none(struct warden_fixture *fixture)
{
    give_number(fixture, FRAME_SIGNAL, 1, 65);
}

static void ack_of_nothing(struct warden_fixture *fixture)
{
    start(fixture, 1, 0, "exec sleep 1000", "");
    give_ack(fixture, 1, 1, 1);
}

static void stdin_with_a_hole(struct warden_fixture *fixture)
{
    start(fixture, 1, EXEC_STDIN, "exec sleep 1000", "");
    give_bytes(fixture, FRAME_STDIN, 1, 1, "x");
}

static void data_for_no_put(struct warden_fixture *fixture)
{
    give_bytes(fixture, FRAME_PUT_DATA, 9, 0, "x");
}

static void data_with_a_hole(struct warden_fixture *fixture)
{
    give_path(fixture, FRAME_PUT, 1, "/tmp/x");
    give_bytes(fixture, FRAME_PUT_DATA, 1, 1, "x");
}

static void end_of_no_put(struct warden_fixture *fixture)
{
    give(fixture, FRAME_PUT_END, 9, NULL, 0);
}

static void path_with_nul(struct warden_fixture *fixture)
{
    struct message_path message = {.path = "/tmp/\0x", .path_length = 7};
    uint8_t payload[64];

    give(fixture, FRAME_GET, 1, payload,
         (size_t)message_path_pack(&message, payload, sizeof(payload)));
}

static void test_broken_protocol(void **state)
{
    static void (*const ways[])(struct warden_fixture * fixture) = {
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
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        check_breaks(ways[i]);
}

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
