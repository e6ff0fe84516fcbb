/* test_terminal.c - commands on a terminal of their own: its size, its keys, its end. */
#include "warden/warden_fixture.h"

static void start_on_terminal(struct warden_fixture *fixture, uint32_t id, uint32_t flags,
                              const char *script)
{
    struct message_exec exec = {
        .flags = EXEC_PTY | flags, .argc = 3, .envc = 1, .rows = 30, .columns = 100};
    char args[512];
    int length = snprintf(args, sizeof(args), "sh%c-c%c%s%cTERM=dumb%c", 0, 0, script, 0, 0);

    exec.args_length = (uint32_t)length + 1;
    give(fixture, FRAME_ARGS, 0, args, exec.args_length);
    give_exec(fixture, id, &exec);
    take(fixture, FRAME_STARTED, id);
}

static void give_size(struct warden_fixture *fixture, uint32_t id, uint16_t rows, uint16_t columns)
{
    struct message_size size = {.rows = rows, .columns = columns};
    uint8_t payload[4];

    give(fixture, FRAME_RESIZE, id, payload, (size_t)message_size_pack(&size, payload, 4));
}

/* Takes output, all of it on stream 1, until it holds `text`. */
static void await_text(struct warden_fixture *fixture, uint32_t id, const char *text)
{
    char all[1024] = "";
    size_t have = 0;

    while (!strstr(all, text)) {
        struct frame frame;
        struct message_bytes bytes;

        assert_true(take_any(fixture, &frame));
        if (frame.type == FRAME_ACK)
            continue; /* of the keys */
        assert_true(frame.type == FRAME_OUTPUT && frame.id == id);
        assert_int_equal(message_bytes_unpack(&frame, &bytes), 0);
        assert_int_equal(bytes.stream, 1);
        assert_true(bytes.length < sizeof(all) - have);
        memcpy(all + have, bytes.data, bytes.length);
        have += bytes.length;
    }
}

static void await_exit(struct warden_fixture *fixture, uint32_t id, int code)
{
    struct message_exited exited;
    struct frame frame;

    do {
        assert_true(take_any(fixture, &frame));
    } while (frame.type == FRAME_OUTPUT || frame.type == FRAME_ACK);
    assert_true(frame.type == FRAME_EXITED && frame.id == id);
    assert_int_equal(message_exited_unpack(&frame, &exited), 0);
    assert_int_equal(exited.signal, 0);
    assert_int_equal(exited.exit_code, code);
    assert_true(exited.err_bytes == 0);
}

static void test_is_a_terminal(void **state)
{
    struct warden_fixture *fixture = *state;
    struct ended ended;

    start_on_terminal(fixture, 1, 0,
                      "test -t 0 && test -t 1 && test -t 2 && tty && stty size && "
                      "echo controlling > /dev/tty; echo oops >&2; exit 3");
    finish(fixture, 1, &ended);
    assert_int_equal(ended.exited.exit_code, 3);
    assert_true(strncmp(ended.text[1], "/dev/pts/", 9) == 0);
    assert_non_null(strstr(ended.text[1], "\r\n30 100\r\ncontrolling\r\noops\r\n"));
    assert_true(ended.bytes[2] == 0);
}

static void test_resize(void **state)
{
    struct warden_fixture *fixture = *state;

    start_on_terminal(fixture, 1, 0, "trap 'echo; stty size' WINCH; stty size; read a; exit 0");
    await_text(fixture, 1, "30 100\r\n");
    give_size(fixture, 1, 7, 9);
    await_text(fixture, 1, "7 9\r\n"); /* it was told, too */
    give_bytes(fixture, FRAME_STDIN, 1, 0, "\n");
    await_exit(fixture, 1, 0);
    give_size(fixture, 1, 8, 8); /* too late, and harmless */
    start(fixture, 2, 0, "exit 0", "");
    give_size(fixture, 2, 8, 8); /* it has none */
    take(fixture, FRAME_STARTED, 2);
    await_exit(fixture, 2, 0);
}

static void test_keys(void **state)
{
    struct warden_fixture *fixture = *state;

    start_on_terminal(fixture, 1, 0, "trap 'echo got it; exit 4' INT; echo up; read a; exit 1");
    await_text(fixture, 1, "up\r\n");
    give_bytes(fixture, FRAME_STDIN, 1, 0, "abc\x03");
    await_text(fixture, 1, "got it\r\n");
    await_exit(fixture, 1, 4);
}

/* The end of the input is a key too: behind a line, and behind half of one. */
static void test_end_of_input(void **state)
{
    struct warden_fixture *fixture = *state;

    start_on_terminal(fixture, 1, 0, "stty -echo; echo up; cat; echo over; exit 5");
    await_text(fixture, 1, "up\r\n");
    give_bytes(fixture, FRAME_STDIN, 1, 0, "line\n");
    await_text(fixture, 1, "line\r\n");
    give(fixture, FRAME_STDIN_END, 1, NULL, 0);
    await_text(fixture, 1, "over\r\n");
    await_exit(fixture, 1, 5);
    start_on_terminal(fixture, 2, 0, "stty -echo; echo up; cat; echo over; exit 6");
    await_text(fixture, 2, "up\r\n");
    give_bytes(fixture, FRAME_STDIN, 2, 0, "half");
    give(fixture, FRAME_STDIN_END, 2, NULL, 0);
    await_text(fixture, 2, "halfover\r\n");
    await_exit(fixture, 2, 6);
}

/* Single keys: no end is invented; the guest sees nothing until somebody hangs up. */
static void test_end_of_input_in_raw_mode(void **state)
{
    struct warden_fixture *fixture = *state;

    start_on_terminal(fixture, 1, 0,
                      "stty raw -echo; echo up; dd bs=1 count=1 2>/dev/null | od -An -c");
    await_text(fixture, 1, "up\n");
    give_bytes(fixture, FRAME_STDIN, 1, 0, "\x04");
    give(fixture, FRAME_STDIN_END, 1, NULL, 0);
    await_text(fixture, 1, "004"); /* the host's byte, not ours */
    await_exit(fixture, 1, 0);
}

/* More than the terminal and the ring hold, at the pace of the reader. */
static void test_flood(void **state)
{
    struct warden_fixture *fixture = *state;
    struct ended ended;

    start_on_terminal(fixture, 1, 0, "stty -opost; head -c 3000000 /dev/zero; exit 1");
    finish(fixture, 1, &ended);
    assert_int_equal(ended.exited.exit_code, 1);
    assert_true(ended.bytes[1] == 3000000);
}

static void test_outlives_its_host(void **state)
{
    struct warden_fixture *fixture = *state;
    struct message_inventory inventory;
    struct message_resume resume = {0};
    uint8_t payload[8 * MESSAGE_STREAMS];
    struct frame frame;

    start_on_terminal(fixture, 1, EXEC_KEEP, "stty -echo; echo up; read a; echo got $a; exit 2");
    await_text(fixture, 1, "up\r\n");
    give(fixture, FRAME_HELLO, 9, NULL, 0);
    frame = take(fixture, FRAME_INVENTORY, 1);
    assert_int_equal(message_inventory_unpack(&frame, &inventory), 0);
    assert_int_equal(inventory.flags, INVENTORY_STARTED | INVENTORY_PTY);
    take(fixture, FRAME_WELCOME, 9);
    give(fixture, FRAME_RESUME, 1, payload,
         (size_t)message_resume_pack(&resume, payload, sizeof(payload)));
    await_text(fixture, 1, "up\r\n");
    give_bytes(fixture, FRAME_STDIN, 1, 0, "this\n");
    await_text(fixture, 1, "got this\r\n");
    await_exit(fixture, 1, 2);
    give(fixture, FRAME_FORGET, 1, NULL, 0);
}

/* Who is left on the terminal when its command ends loses it. */
static void test_left_behind(void **state)
{
    struct warden_fixture *fixture = *state;
    struct ended ended;

    start_on_terminal(fixture, 1, 0,
                      "trap '' HUP; (while echo x; do sleep 0.01; done; echo > hung-up) & exit 0");
    await_exit(fixture, 1, 0);
    start(fixture, 2, 0, "until test -e hung-up; do sleep 0.01; done", "");
    finish(fixture, 2, &ended);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_WARDEN(test_is_a_terminal),
        WITH_A_WARDEN(test_resize),
        WITH_A_WARDEN(test_keys),
        WITH_A_WARDEN(test_end_of_input),
        WITH_A_WARDEN(test_end_of_input_in_raw_mode),
        WITH_A_WARDEN(test_flood),
        WITH_A_WARDEN(test_outlives_its_host),
        WITH_A_WARDEN(test_left_behind),
    };

    return cmocka_run_group_tests_name("warden/terminal", tests, become_reaper, NULL);
}
