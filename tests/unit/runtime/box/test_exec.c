/* test_exec.c - commands in a box, the host's side, against wardens good and bad. */
#include "runtime/box/fake_warden.h"

#include "sandbox/guest_stage.h"

#include <signal.h>

#define WINDOW ((size_t)WIRE_STREAM_WINDOW)
#define ACK_EVERY (WINDOW / 4)

static void test_sends_the_command(void **state)
{
    static const char *const argv[] = {"/bin/echo", "a b", "", NULL};
    static const char *const env[] = {"K=V", NULL};
    static const char expected[] = "/bin/echo\0a b\0\0K=V\0/tmp";
    struct exec_spec spec = {.argv = argv, .env = env, .cwd = "/tmp", .ends_box = true};
    struct fake *fake = *state;
    struct message_exec exec;
    struct frame frame;
    uint32_t id = 0, second = 0;

    assert_int_equal(box_exec(fake->box, &spec, &exec_seen, &fake->seen[0], &id, &fake->err), 0);
    assert_int_not_equal(id, 0);
    frame = hear(fake, FRAME_ARGS, 0);
    assert_int_equal(frame.length, sizeof(expected));
    assert_memory_equal(frame.payload, expected, sizeof(expected));
    frame = hear(fake, FRAME_EXEC, id);
    assert_int_equal(message_exec_unpack(&frame, &exec), 0);
    assert_int_equal(exec.argc, 3);
    assert_int_equal(exec.envc, 1);
    assert_int_equal(exec.args_length, sizeof(expected));
    assert_int_equal(exec.flags, EXEC_ENDS_BOX);
    spec.stdin_open = true;
    spec.ends_box = false;
    assert_int_equal(box_exec(fake->box, &spec, &exec_seen, &fake->seen[1], &second, &fake->err),
                     0);
    assert_int_not_equal(second, id);
    hear(fake, FRAME_ARGS, 0);
    frame = hear(fake, FRAME_EXEC, second);
    assert_int_equal(message_exec_unpack(&frame, &exec), 0);
    assert_int_equal(exec.flags, EXEC_STDIN);
}

static void test_large_arguments_in_pieces(void **state)
{
    struct fake *fake = *state;
    static char large[LIMIT_ARGV_BYTES];
    const char *argv[] = {large, NULL};
    struct exec_spec spec = {.argv = argv};
    size_t total = 0;
    struct frame frame;
    uint32_t id;

    memset(large, 'x', sizeof(large) - 1); /* its NUL fills the limit; the folder's does not fit */
    assert_int_equal(box_exec(fake->box, &spec, &exec_seen, &fake->seen[0], &id, &fake->err),
                     -E2BIG);
    assert_ptr_equal(fake->err.code, ERROR_TOO_LARGE);
    hear_nothing(fake);
    large[sizeof(large) - 2] = 0;
    assert_int_equal(box_exec(fake->box, &spec, &exec_seen, &fake->seen[0], &id, &fake->err), 0);
    while (hear_any(fake, &frame) && frame.type == FRAME_ARGS)
        total += frame.length;
    assert_int_equal(total, LIMIT_ARGV_BYTES);
    assert_int_equal(frame.type, FRAME_EXEC);
}

static void test_refuses_bad_commands(void **state)
{
    struct fake *fake = *state;
    static const char *many[LIMIT_ARGV_COUNT + 2];
    static const char *const none[] = {NULL};
    struct exec_spec spec = {.argv = none};
    uint32_t id;

    assert_int_equal(box_exec(fake->box, &spec, &exec_seen, NULL, &id, &fake->err), -EINVAL);
    assert_ptr_equal(fake->err.code, ERROR_BAD_INPUT);
    for (int i = 0; i < LIMIT_ARGV_COUNT + 1; i++)
        many[i] = "x";
    spec.argv = many;
    assert_int_equal(box_exec(fake->box, &spec, &exec_seen, NULL, &id, &fake->err), -E2BIG);
    hear_nothing(fake);
    assert_true(box_next_deadline_ms(fake->box) == UINT64_MAX);
}

static void test_happy_path(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_exec(fake, 0, 0);
    struct seen *seen = &fake->seen[0];
    struct message_exited exited = {.exit_code = 3,
                                    .flags = EXITED_DISK_FULL,
                                    .duration_ns = 5,
                                    .out_bytes = 4,
                                    .err_bytes = 1};

    assert_int_equal(box_poll_events(fake->box), POLLIN);
    say_started(fake, id);
    say_bytes(fake, FRAME_OUTPUT, id, 1, 0, 3, 'o');
    say_bytes(fake, FRAME_OUTPUT, id, 2, 0, 1, 'e');
    say_bytes(fake, FRAME_OUTPUT, id, 1, 3, 1, 'O');
    check_alive(fake);
    assert_int_equal(seen->started, 1);
    assert_int_equal(seen->ended, 0);
    say_exited(fake, id, &exited);
    check_alive(fake);
    assert_int_equal(seen->ended, 1);
    assert_int_equal(seen->failed, 0);
    assert_string_equal(buf_text(&seen->out[1]), "oooO");
    assert_string_equal(buf_text(&seen->out[2]), "e");
    assert_int_equal(seen->end.exit_code, 3);
    assert_int_equal(seen->end.signal, 0);
    assert_true(seen->end.disk_full && !seen->end.memory_watchdog && !seen->end.timed_out);
    assert_true(seen->end.duration_ns == 5);
    hear_nothing(fake); /* so little needs no acknowledgement */
    assert_int_equal(box_stdin(fake->box, id, "x", 1), -EPIPE); /* it is over */
    box_stdin_end(fake->box, id);
    box_signal(fake->box, id, SIGKILL);
    box_resume(fake->box, id, BOX_STDOUT);
    hear_nothing(fake);
    check_alive(fake);
}

static void test_signal_and_watchdog(void **state)
{
    struct fake *fake = *state;
    struct message_exited exited = {.signal = SIGKILL, .flags = EXITED_MEMORY_WATCHDOG};

    start_exec(fake, 0, 0);
    say_exited(fake, fake->id[0], &exited);
    check_alive(fake);
    assert_int_equal(fake->seen[0].end.signal, SIGKILL);
    assert_true(fake->seen[0].end.memory_watchdog);
}

/* Bytes that are not taken wait; the end waits behind them; acknowledged is only what was taken. */
static void test_slow_reader(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_exec(fake, 0, 0);
    struct message_exited exited = {.out_bytes = 30};
    struct seen *seen = &fake->seen[0];

    seen->takes = 7;
    say_bytes(fake, FRAME_OUTPUT, id, 1, 0, 10, 'a');
    say_bytes(fake, FRAME_OUTPUT, id, 1, 10, 20, 'b');
    say_exited(fake, id, &exited);
    check_alive(fake);
    assert_int_equal(seen->out[1].length, 7);
    assert_int_equal(seen->ended, 0);
    box_resume(fake->box, id, BOX_STDOUT); /* still nothing taken */
    assert_int_equal(seen->ended, 0);
    seen->takes = 13;
    box_resume(fake->box, id, BOX_STDOUT);
    assert_int_equal(seen->out[1].length, 20);
    assert_int_equal(seen->ended, 0);
    box_resume(fake->box, id, BOX_STDERR); /* the other stream has nothing */
    box_resume(fake->box, id, BOX_STDIN);  /* no stream of output */
    box_resume(fake->box, id + 1, BOX_STDOUT);
    assert_int_equal(seen->ended, 0);
    seen->takes = SIZE_MAX;
    box_resume(fake->box, id, BOX_STDOUT);
    assert_string_equal(buf_text(&seen->out[1]), "aaaaaaaaaabbbbbbbbbbbbbbbbbbbb");
    assert_int_equal(seen->ended, 1);
    box_resume(fake->box, id, BOX_STDOUT);
    assert_int_equal(seen->ended, 1);
}

static void say_much(struct fake *fake, uint8_t stream, uint64_t *offset, size_t length)
{
    while (length > 0) {
        size_t part = length < FRAME_DATA_MAX ? length : FRAME_DATA_MAX;

        say_bytes(fake, FRAME_OUTPUT, fake->id[0], stream, *offset, part, 'x');
        check_alive(fake);
        *offset += part;
        length -= part;
    }
}

static void hear_ack(struct fake *fake, uint8_t stream, uint64_t offset)
{
    struct frame frame = hear(fake, FRAME_ACK, fake->id[0]);
    struct message_ack ack;

    assert_int_equal(message_ack_unpack(&frame, &ack), 0);
    assert_int_equal(ack.stream, stream);
    assert_true(ack.offset == offset);
}

static void test_acknowledges(void **state)
{
    struct fake *fake = *state;
    uint64_t out = 0, err = 0;

    start_exec(fake, 0, 0);
    say_much(fake, 1, &out, ACK_EVERY - 1);
    hear_nothing(fake);
    say_much(fake, 1, &out, 1);
    hear_ack(fake, 1, ACK_EVERY);
    say_much(fake, 2, &err, ACK_EVERY);
    hear_ack(fake, 2, ACK_EVERY);
    hear_nothing(fake);
    fake->seen[0].takes = 0;
    say_much(fake, 1, &out, WINDOW);
    hear_nothing(fake); /* nobody took it */
    fake->seen[0].takes = SIZE_MAX;
    box_resume(fake->box, fake->id[0], BOX_STDOUT);
    hear_ack(fake, 1, ACK_EVERY + WINDOW);
    assert_int_equal(fake->seen[0].out[1].length, ACK_EVERY + WINDOW);
    say_much(fake, 1, &out, WINDOW); /* the whole window is open again */
    check_alive(fake);
}

static void test_window_overflow(void **state)
{
    struct fake *fake = *state;
    uint64_t offset = 0;

    start_exec(fake, 0, 0);
    fake->seen[0].takes = 0;
    say_much(fake, 1, &offset, WINDOW);
    say_bytes(fake, FRAME_OUTPUT, fake->id[0], 1, offset, 1, 'x');
    check_lost(fake, 1);
}

/* What a warden may not say about a running command; each loses the box and fails the call once. */
static void say_wrong_offset(struct fake *fake, uint32_t id)
{
    say_bytes(fake, FRAME_OUTPUT, id, 1, 1, 1, 'x');
}

static void say_repeated(struct fake *fake, uint32_t id)
{
    say_bytes(fake, FRAME_OUTPUT, id, 1, 0, 4, 'x');
    say_bytes(fake, FRAME_OUTPUT, id, 1, 0, 4, 'x');
}

static void say_huge_offset(struct fake *fake, uint32_t id)
{
    say_bytes(fake, FRAME_OUTPUT, id, 1, UINT64_MAX, 4, 'x');
}

static void say_output_on_stdin(struct fake *fake, uint32_t id)
{
    say_bytes(fake, FRAME_OUTPUT, id, 0, 0, 4, 'x');
}

static void say_empty_output(struct fake *fake, uint32_t id)
{
    say_bytes(fake, FRAME_OUTPUT, id, 1, 0, 0, 0);
}

static void say_third_stream(struct fake *fake, uint32_t id)
{
    say_bytes(fake, FRAME_OUTPUT, id, 3, 0, 4, 'x');
}

static void say_events_of_a_command(struct fake *fake, uint32_t id)
{
    say_exited(fake, id, &(struct message_exited){.event_bytes = 1});
}

static void say_wrong_count(struct fake *fake, uint32_t id)
{
    say_bytes(fake, FRAME_OUTPUT, id, 1, 0, 4, 'x');
    say_exited(fake, id, &(struct message_exited){.out_bytes = 5});
}

static void say_wrong_count_of_errors(struct fake *fake, uint32_t id)
{
    say_exited(fake, id, &(struct message_exited){.err_bytes = UINT64_MAX});
}

static void say_impossible_exit(struct fake *fake, uint32_t id)
{
    say_exited(fake, id, &(struct message_exited){.exit_code = 256});
}

static void say_unknown_id(struct fake *fake, uint32_t id)
{
    say_started(fake, id + 1);
}

static void say_id_0(struct fake *fake, uint32_t id)
{
    (void)id;
    say_started(fake, 0);
}

static void say_started_twice(struct fake *fake, uint32_t id)
{
    say_started(fake, id);
    say_started(fake, id);
}

static void say_no_exec_after_start(struct fake *fake, uint32_t id)
{
    say_started(fake, id);
    say_fail(fake, id, GUEST_STAGE_EXEC, ENOENT);
}

static void say_short_no_exec(struct fake *fake, uint32_t id)
{
    say(fake, FRAME_NOEXEC, id, "12345", 5);
}

static void say_ready_again(struct fake *fake, uint32_t id)
{
    (void)id;
    say(fake, FRAME_READY, 0, NULL, 0);
}

static void say_host_frame(struct fake *fake, uint32_t id)
{
    say(fake, FRAME_STDIN_END, id, NULL, 0);
}

static void say_done_for_exec(struct fake *fake, uint32_t id)
{
    say_done(fake, id, 0);
}

static void say_data_for_exec(struct fake *fake, uint32_t id)
{
    say_bytes(fake, FRAME_DATA, id, 0, 0, 1, 'x');
}

static void say_ack_beyond(struct fake *fake, uint32_t id)
{
    say_ack(fake, id, 0, 1);
}

static void say_ack_of_output(struct fake *fake, uint32_t id)
{
    say_ack(fake, id, 1, 0);
}

static void say_ack_backwards(struct fake *fake, uint32_t id)
{
    assert_int_equal(box_stdin(fake->box, id, "abc", 3), 3);
    say_ack(fake, id, 0, 2);
    say_ack(fake, id, 0, 1);
}

static void say_nonsense(struct fake *fake, uint32_t id)
{
    (void)id;
    assert_int_equal(send(fake->fd, "hello", 5, 0), 5);
}

static void say_more_than_a_frame(struct fake *fake, uint32_t id)
{
    static uint8_t data[WIRE_FRAME_MAX + 1];

    frame_header(data, FRAME_OUTPUT, id, sizeof(data) - FRAME_HEADER);
    assert_int_equal(send(fake->fd, data, sizeof(data), 0), (ssize_t)sizeof(data));
}

static void say_goodbye(struct fake *fake, uint32_t id)
{
    (void)id;
    close(fake->fd);
    fake->fd = -1;
}

static void test_broken_protocol(void **state)
{
    static void (*const ways[])(struct fake * fake, uint32_t id) = {
        say_wrong_offset,
        say_repeated,
        say_huge_offset,
        say_output_on_stdin,
        say_empty_output,
        say_third_stream,
        say_events_of_a_command,
        say_wrong_count,
        say_wrong_count_of_errors,
        say_impossible_exit,
        say_unknown_id,
        say_id_0,
        say_started_twice,
        say_no_exec_after_start,
        say_short_no_exec,
        say_ready_again,
        say_host_frame,
        say_done_for_exec,
        say_data_for_exec,
        say_ack_beyond,
        say_ack_of_output,
        say_ack_backwards,
        say_nonsense,
        say_more_than_a_frame,
        say_goodbye,
    };

    (void)state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        void *one = NULL;
        struct fake *fake;

        assert_int_equal(fake_set_up(&one), 0);
        fake = one;
        ways[i](fake, start_exec(fake, 0, 0));
        check_lost(fake, 1);
        fake_tear_down(&one);
    }
}

static void test_frames_after_the_exit(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_exec(fake, 0, 0);

    say_exited(fake, id, &(struct message_exited){0});
    check_alive(fake);
    assert_int_equal(fake->seen[0].ended, 1);
    say_bytes(fake, FRAME_OUTPUT, id, 1, 0, 1, 'x');
    assert_int_equal(fake_pump(fake), -EPIPE);
    assert_int_equal(fake->seen[0].ended + fake->seen[0].failed, 1); /* and not told again */
}

/* The same while the end is known and waits for a slow reader. */
static void test_frames_after_a_held_exit(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_exec(fake, 0, 0);

    fake->seen[0].takes = 0;
    say_bytes(fake, FRAME_OUTPUT, id, 1, 0, 1, 'x');
    say_exited(fake, id, &(struct message_exited){.out_bytes = 1});
    check_alive(fake);
    say_exited(fake, id, &(struct message_exited){.out_bytes = 1});
    assert_int_equal(fake_pump(fake), 0); /* lost, but for the end that is still to be told */
    assert_int_equal(box_fd(fake->box), -1);
    fake->seen[0].takes = SIZE_MAX;
    box_resume(fake->box, id, BOX_STDOUT);
    assert_int_equal(fake->seen[0].ended, 1);
    assert_int_equal(fake_pump(fake), -EPIPE);
    assert_int_equal(fake->seen[0].failed, 0);
}

static void test_no_exec(void **state)
{
    static const struct {
        uint16_t stage, error;
        const char *code;
    } cases[] = {
        {GUEST_STAGE_EXEC, ENOENT, ERROR_COMMAND_NOT_FOUND},
        {GUEST_STAGE_EXEC, EACCES, ERROR_NOT_EXECUTABLE},
        {GUEST_STAGE_EXEC, ENOEXEC, ERROR_NOT_EXECUTABLE},
        {GUEST_STAGE_EXEC, EISDIR, ERROR_NOT_EXECUTABLE},
        {GUEST_STAGE_EXEC, EPERM, ERROR_NOT_EXECUTABLE},
        {GUEST_STAGE_EXEC, ENOMEM, ERROR_BOX_FAILED},
        {GUEST_STAGE_EXEC, ELOOP, ERROR_BOX_FAILED},
        {GUEST_STAGE_FOLDER, ENOENT, ERROR_BAD_INPUT},
        {GUEST_STAGE_FOLDER, EACCES, ERROR_BAD_INPUT},
        {GUEST_STAGE_FILTER, ENOENT, ERROR_BOX_FAILED},
        {0, ECHILD, ERROR_BOX_FAILED},
        {65535, EIO, ERROR_BOX_FAILED},
    };
    struct fake *fake = *state;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t id = start_exec(fake, 0, 0);

        memset(&fake->seen[0].err, 0, sizeof(struct error));
        fake->seen[0].failed = 0;
        say_fail(fake, id, cases[i].stage, cases[i].error);
        check_alive(fake);
        assert_int_equal(fake->seen[0].failed, 1);
        assert_int_equal(fake->seen[0].err.num, -cases[i].error);
        assert_ptr_equal(fake->seen[0].err.code, cases[i].code);
    }
    say_fail(fake, start_exec(fake, 1, 0), GUEST_STAGE_EXEC, 0); /* not even an errno */
    check_alive(fake);
    assert_int_equal(fake->seen[1].err.num, -EIO);
}

static void test_stdin_window(void **state)
{
    static char data[2 * WIRE_STREAM_WINDOW];
    struct fake *fake = *state;
    uint32_t id = start_exec(fake, 0, 0);
    uint64_t offset = 0;
    struct frame frame;

    memset(data, 'i', sizeof(data));
    assert_int_equal(box_stdin(fake->box, id, data, sizeof(data)), WINDOW);
    assert_int_equal(box_stdin(fake->box, id, data, 1), 0); /* full */
    while (offset < WINDOW) {
        struct message_bytes bytes;

        fake_pump(fake); /* what the socket did not take at once */
        while (hear_any(fake, &frame)) {
            assert_int_equal(frame.type, FRAME_STDIN);
            assert_int_equal(message_bytes_unpack(&frame, &bytes), 0);
            assert_true(bytes.stream == 0 && bytes.offset == offset);
            offset += bytes.length;
        }
    }
    assert_true(offset == WINDOW);
    say_ack(fake, id, 0, 10);
    check_alive(fake);
    assert_int_equal(fake->seen[0].ready, 1);
    assert_int_equal(box_stdin(fake->box, id, data, sizeof(data)), 10);
    hear(fake, FRAME_STDIN, id);
    box_stdin_end(fake->box, id);
    hear(fake, FRAME_STDIN_END, id);
    box_stdin_end(fake->box, id); /* said once */
    hear_nothing(fake);
    assert_int_equal(box_stdin(fake->box, id, data, 1), -EPIPE);
    assert_int_equal(box_stdin(fake->box, id + 1, data, 1), -EPIPE); /* no such command */
}

static void test_two_commands(void **state)
{
    struct fake *fake = *state;
    uint32_t first = start_exec(fake, 0, 0), second = start_exec(fake, 1, 0);

    say_bytes(fake, FRAME_OUTPUT, second, 1, 0, 2, '2');
    say_bytes(fake, FRAME_OUTPUT, first, 1, 0, 1, '1');
    say_exited(fake, second, &(struct message_exited){.exit_code = 2, .out_bytes = 2});
    say_exited(fake, first, &(struct message_exited){.exit_code = 1, .out_bytes = 1});
    check_alive(fake);
    assert_string_equal(buf_text(&fake->seen[0].out[1]), "1");
    assert_string_equal(buf_text(&fake->seen[1].out[1]), "22");
    assert_int_equal(fake->seen[0].end.exit_code, 1);
    assert_int_equal(fake->seen[1].end.exit_code, 2);
}

#define WITH_A_FAKE(test) cmocka_unit_test_setup_teardown(test, fake_set_up, fake_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_FAKE(test_sends_the_command),
        WITH_A_FAKE(test_large_arguments_in_pieces),
        WITH_A_FAKE(test_refuses_bad_commands),
        WITH_A_FAKE(test_happy_path),
        WITH_A_FAKE(test_signal_and_watchdog),
        WITH_A_FAKE(test_slow_reader),
        WITH_A_FAKE(test_acknowledges),
        WITH_A_FAKE(test_window_overflow),
        cmocka_unit_test(test_broken_protocol),
        WITH_A_FAKE(test_frames_after_the_exit),
        WITH_A_FAKE(test_frames_after_a_held_exit),
        WITH_A_FAKE(test_no_exec),
        WITH_A_FAKE(test_stdin_window),
        WITH_A_FAKE(test_two_commands),
    };

    return cmocka_run_group_tests_name("runtime/box/exec", tests, NULL, NULL);
}
