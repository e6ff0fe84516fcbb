/*
 * test_resume.c - hosts that come and go: what a warden keeps for the next one, what it says to
 * it, and what a host may not ask for.
 */
#include "warden/warden_fixture.h"

#define WINDOW ((uint64_t)WIRE_STREAM_WINDOW)

static void give_hello(struct warden_fixture *fixture, uint32_t generation)
{
    give(fixture, FRAME_HELLO, generation, NULL, 0);
}

static void give_resume(struct warden_fixture *fixture, uint32_t id, uint64_t out, uint64_t err)
{
    struct message_resume resume = {.offset = {out, err}};
    uint8_t payload[8 * MESSAGE_STREAMS];

    give(fixture, FRAME_RESUME, id, payload,
         (size_t)message_resume_pack(&resume, payload, sizeof(payload)));
}

static struct message_inventory take_inventory(struct warden_fixture *fixture, uint32_t id,
                                               uint32_t generation)
{
    struct frame frame = take(fixture, FRAME_INVENTORY, id);
    struct message_inventory inventory;

    assert_int_equal(message_inventory_unpack(&frame, &inventory), 0);
    assert_int_equal(inventory.generation, generation);
    return inventory;
}

/* Returns the highest id. */
static uint32_t take_welcome(struct warden_fixture *fixture, uint32_t generation)
{
    struct frame frame = take(fixture, FRAME_WELCOME, generation);
    uint32_t highest;

    assert_int_equal(message_number_unpack(&frame, &highest), 0);
    return highest;
}

/* HELLO with everything dropped that comes before its answer; one command is there. */
static struct message_inventory greet(struct warden_fixture *fixture, uint32_t id,
                                      uint32_t generation)
{
    struct message_inventory inventory;
    struct frame frame;

    give_hello(fixture, generation);
    do {
        assert_true(take_any(fixture, &frame));
    } while (frame.type != FRAME_INVENTORY);
    assert_int_equal(frame.id, id);
    assert_int_equal(message_inventory_unpack(&frame, &inventory), 0);
    assert_int_equal(inventory.generation, generation);
    take_welcome(fixture, generation);
    return inventory;
}

/* Whatever the warden had to say before comes before the answer to this. */
static void check_silence(struct warden_fixture *fixture, uint32_t id)
{
    give_path(fixture, FRAME_GET, id, "/workspace/no-such-file");
    take(fixture, FRAME_DONE, id);
}

static void test_kept_until_forgotten(void **state)
{
    struct warden_fixture *fixture = *state;
    struct message_inventory inventory;
    struct ended first = {0}, again;
    struct frame frame;

    start(fixture, 7, EXEC_KEEP, "echo hello; echo oops >&2; exit 3", "");
    take(fixture, FRAME_STARTED, 7);
    do {
        assert_true(take_any(fixture, &frame)); /* nothing of it is acknowledged */
    } while (frame.type == FRAME_OUTPUT);
    assert_int_equal(frame.type, FRAME_EXITED);
    assert_int_equal(message_exited_unpack(&frame, &first.exited), 0);
    assert_int_equal(first.exited.exit_code, 3);
    assert_true(first.exited.max_rss_bytes > 0 && first.exited.cpu_us < 60000000);
    give_hello(fixture, 100);
    inventory = take_inventory(fixture, 7, 100);
    assert_int_equal(inventory.flags, INVENTORY_STARTED | INVENTORY_EXITED);
    assert_true(inventory.start_ns > 0);
    assert_true(inventory.acked[0] == 0 && inventory.read[0] == 6);
    assert_true(inventory.acked[1] == 0 && inventory.read[1] == 5);
    assert_int_equal(take_welcome(fixture, 100), 7);
    check_silence(fixture, 8);
    give_resume(fixture, 7, 0, 0);
    finish(fixture, 7, &again);
    assert_false(again.was_started); /* the inventory said it */
    assert_string_equal(again.text[1], "hello\n");
    assert_string_equal(again.text[2], "oops\n");
    assert_memory_equal(&again.exited, &first.exited, sizeof(first.exited));
    inventory = greet(fixture, 7, 101); /* it stays, and what was acknowledged is gone */
    assert_true(inventory.acked[0] == 6 && inventory.acked[1] == 5);
    give_resume(fixture, 7, 6, 5);
    take(fixture, FRAME_EXITED, 7);
    give(fixture, FRAME_FORGET, 7, NULL, 0);
    give(fixture, FRAME_FORGET, 7, NULL, 0); /* twice does no harm */
    give_hello(fixture, 102);
    assert_int_equal(take_welcome(fixture, 102), 8);
}

static void test_not_kept_without_the_flag(void **state)
{
    struct warden_fixture *fixture = *state;
    struct ended ended;

    start(fixture, 1, 0, "echo gone", "");
    finish(fixture, 1, &ended);
    give_hello(fixture, 5);
    assert_int_equal(take_welcome(fixture, 5), 1);
}

/* Nobody listens: the ring fills, the guest waits, and nothing is lost. */
static void test_output_while_nobody_listens(void **state)
{
    const uint64_t size = 3 * WINDOW + 7;
    struct warden_fixture *fixture = *state;
    struct message_inventory inventory;
    uint32_t generation = 10;
    struct ended ended;
    char script[64];

    snprintf(script, sizeof(script), "head -c %llu /dev/zero; echo end >&2",
             (unsigned long long)size);
    start(fixture, 1, EXEC_KEEP, script, "");
    do {
        inventory = greet(fixture, 1, generation++);
        assert_true(inventory.acked[0] == 0);
    } while (inventory.read[0] < WINDOW);
    assert_true(inventory.read[0] == WINDOW);
    check_silence(fixture, 2);
    assert_true(greet(fixture, 1, generation++).read[0] == WINDOW);
    give_resume(fixture, 1, 0, 0);
    finish(fixture, 1, &ended);
    assert_true(ended.bytes[1] == size);
    assert_string_equal(ended.text[2], "end\n");
}

/* From the middle of what is there: what is before it counts as acknowledged. */
static void test_resume_in_the_middle(void **state)
{
    struct warden_fixture *fixture = *state;
    struct message_inventory inventory;
    struct message_bytes bytes;
    uint32_t generation = 10;
    struct frame frame;

    start(fixture, 1, EXEC_KEEP | EXEC_STDIN, "echo 0123456789; read x", "");
    do {
        inventory = greet(fixture, 1, generation++);
    } while (inventory.read[0] < 11);
    give_resume(fixture, 1, 4, 0);
    frame = take(fixture, FRAME_OUTPUT, 1);
    assert_int_equal(message_bytes_unpack(&frame, &bytes), 0);
    assert_true(bytes.offset == 4 && bytes.length == 7);
    assert_memory_equal(bytes.data, "456789\n", 7);
    inventory = greet(fixture, 1, generation++);
    assert_true(inventory.acked[0] == 4 && inventory.read[0] == 11);
    give_resume(fixture, 1, 11, 0);
    give(fixture, FRAME_STDIN_END, 1, NULL, 0);
    take(fixture, FRAME_EXITED, 1);
}

/* Whatever the inventory did not say about the start comes after RESUME. */
static void test_start_is_told_once(void **state)
{
    struct warden_fixture *fixture = *state;

    for (uint32_t id = 1; id < 40; id++) {
        struct message_inventory inventory;
        struct ended ended;

        start(fixture, id, EXEC_KEEP, "exit 5", "");
        inventory = greet(fixture, id, 1000 + id); /* at any moment of its life */
        give_resume(fixture, id, 0, 0);
        finish(fixture, id, &ended);
        assert_int_equal(ended.was_started, !(inventory.flags & INVENTORY_STARTED));
        assert_int_equal(ended.exited.exit_code, 5);
        give(fixture, FRAME_FORGET, id, NULL, 0);
    }
}

static void test_failure_is_kept(void **state)
{
    static const char args[] = "bailey-no-such-program\0";
    struct message_exec exec = {.flags = EXEC_KEEP, .argc = 1, .args_length = sizeof(args)};
    struct warden_fixture *fixture = *state;
    struct message_inventory inventory;
    struct message_fail fail;
    struct frame frame;

    give(fixture, FRAME_ARGS, 0, args, sizeof(args));
    give_exec(fixture, 1, &exec);
    take(fixture, FRAME_NOEXEC, 1);
    for (uint32_t generation = 1; generation < 3; generation++) {
        give_hello(fixture, generation);
        inventory = take_inventory(fixture, 1, generation);
        assert_int_equal(inventory.flags, INVENTORY_EXITED);
        assert_true(inventory.start_ns == 0);
        take_welcome(fixture, generation);
        check_silence(fixture, 9);
        give_resume(fixture, 1, 0, 0);
        frame = take(fixture, FRAME_NOEXEC, 1);
        assert_int_equal(message_fail_unpack(&frame, &fail), 0);
        assert_int_equal(fail.error, ENOENT);
    }
    give(fixture, FRAME_FORGET, 1, NULL, 0);
    give_hello(fixture, 3);
    take_welcome(fixture, 3);
}

/* Killed and forgotten in one breath, as a host does with what it does not want. */
static void test_forgotten_while_it_runs(void **state)
{
    struct warden_fixture *fixture = *state;
    struct ended ended;
    struct frame frame;

    start(fixture, 1, EXEC_KEEP, "echo up; exec sleep 1000", "");
    greet(fixture, 1, 1);
    give_number(fixture, FRAME_SIGNAL, 1, SIGKILL);
    give(fixture, FRAME_FORGET, 1, NULL, 0);
    give_hello(fixture, 2);
    take_welcome(fixture, 2); /* it is in no inventory any more */
    start(fixture, 2, 0, "echo fine", "");
    finish(fixture, 2, &ended); /* and no frame of 1 came */
    assert_string_equal(ended.text[1], "fine\n");
    start(fixture, 3, EXEC_ENDS_BOX, "true", "");
    take(fixture, FRAME_STARTED, 3);
    take(fixture, FRAME_EXITED, 3);
    assert_false(take_any(fixture, &frame)); /* its end is no obstacle either */
}

static void test_input_goes_on(void **state)
{
    struct warden_fixture *fixture = *state;
    struct message_inventory inventory;
    struct message_ack ack;
    struct frame frame;
    struct ended ended;

    start(fixture, 1, EXEC_KEEP | EXEC_STDIN, "cat", "");
    give_bytes(fixture, FRAME_STDIN, 1, 0, "one ");
    inventory = greet(fixture, 1, 1);
    assert_true(inventory.input_received == 4 && !inventory.input_ended);
    give_resume(fixture, 1, 0, 0);
    do {
        assert_true(take_any(fixture, &frame)); /* STARTED may come before it */
    } while (frame.type != FRAME_ACK);
    assert_int_equal(message_ack_unpack(&frame, &ack), 0);
    assert_true(ack.stream == 0 && ack.offset <= 4);
    give_bytes(fixture, FRAME_STDIN, 1, 4, "two");
    give(fixture, FRAME_STDIN_END, 1, NULL, 0);
    inventory = greet(fixture, 1, 2);
    assert_true(inventory.input_received == 7 && inventory.input_ended);
    give_resume(fixture, 1, 0, 0);
    finish(fixture, 1, &ended);
    assert_string_equal(ended.text[1], "one two");
}

/* What the old host had not finished does not stand in the new one's way. */
static void test_half_of_everything(void **state)
{
    struct warden_fixture *fixture = *state;
    struct ended ended;

    give(fixture, FRAME_ARGS, 0, "half a command", 14);
    give_path(fixture, FRAME_PUT, 3, "/workspace/file");
    give_bytes(fixture, FRAME_PUT_DATA, 3, 0, "half a file");
    take(fixture, FRAME_ACK, 3);
    give_hello(fixture, 1);
    assert_int_equal(take_welcome(fixture, 1), 3);
    start(fixture, 4, 0, "ls -A", "");
    finish(fixture, 4, &ended);
    assert_string_equal(ended.text[1], "");
}

/* The socket is full of what the old host never read, and more waits in the warden. */
static void test_full_channel(void **state)
{
    struct warden_fixture *fixture = *state;
    uint32_t count = 3000;
    struct frame frame;
    uint32_t done = 0;

    for (uint32_t id = 1; id <= count; id++)
        give_path(fixture, FRAME_GET, id, "/workspace/no-such-file");
    give_hello(fixture, 1);
    for (;;) {
        assert_true(take_any(fixture, &frame));
        if (frame.type == FRAME_WELCOME)
            break;
        assert_int_equal(frame.type, FRAME_DONE);
        done++;
    }
    assert_true(done <= count); /* what it had not sent when it read the HELLO is dropped */
    check_silence(fixture, count + 1);
}

static void test_limit_of_ended_commands(void **state)
{
    struct warden_fixture *fixture = *state;
    const uint32_t count = LIMIT_COMMANDS + 3;
    struct ended ended;

    for (uint32_t id = 1; id <= count; id++) {
        start(fixture, id, EXEC_KEEP, "exit 1", "");
        finish(fixture, id, &ended);
    }
    give_hello(fixture, 1);
    for (uint32_t id = count - LIMIT_COMMANDS + 1; id <= count; id++)
        take_inventory(fixture, id, 1); /* the oldest are gone */
    assert_int_equal(take_welcome(fixture, 1), count);
    start(fixture, count + 1, 0, "true", ""); /* nobody was told their ends: no room */
    take(fixture, FRAME_NOEXEC, count + 1);
    give(fixture, FRAME_FORGET, count, NULL, 0);
    start(fixture, count + 2, 0, "true", "");
    finish(fixture, count + 2, &ended);
}

static void test_limit_of_running_commands(void **state)
{
    struct warden_fixture *fixture = *state;
    const uint32_t last = LIMIT_COMMANDS + 1;
    struct message_fail fail;
    struct frame frame;
    struct ended ended;

    for (uint32_t id = 1; id < last; id++) {
        start(fixture, id, EXEC_KEEP, "exec sleep 1000", "");
        take(fixture, FRAME_STARTED, id);
    }
    start(fixture, last, EXEC_KEEP, "true", "");
    frame = take(fixture, FRAME_NOEXEC, last);
    assert_int_equal(message_fail_unpack(&frame, &fail), 0);
    assert_int_equal(fail.error, EAGAIN);
    give_number(fixture, FRAME_SIGNAL, 1, SIGKILL);
    finish(fixture, 1, &ended);
    start(fixture, last + 1, EXEC_KEEP, "echo room", "");
    finish(fixture, last + 1, &ended);
    assert_string_equal(ended.text[1], "room\n");
}

/* ---- what a host may not say; each ends the warden ---- */

static void resume_of_nobody(struct warden_fixture *fixture)
{
    give_resume(fixture, 1, 0, 0);
}

static void resume_without_hello(struct warden_fixture *fixture)
{
    start(fixture, 1, EXEC_KEEP, "exec sleep 1000", "");
    give_resume(fixture, 1, 0, 0);
}

static void resume_twice(struct warden_fixture *fixture)
{
    start(fixture, 1, EXEC_KEEP, "exec sleep 1000", "");
    give_hello(fixture, 1);
    give_resume(fixture, 1, 0, 0);
    give_resume(fixture, 1, 0, 0);
}

static void resume_of_what_was_not_written(struct warden_fixture *fixture)
{
    start(fixture, 1, EXEC_KEEP, "exec sleep 1000", "");
    give_hello(fixture, 1);
    give_resume(fixture, 1, 0, 1);
}

static void resume_of_a_third_stream(struct warden_fixture *fixture)
{
    struct message_resume resume = {.offset = {0, 0, 1}};
    uint8_t payload[8 * MESSAGE_STREAMS];

    start(fixture, 1, EXEC_KEEP, "exec sleep 1000", "");
    give_hello(fixture, 1);
    give(fixture, FRAME_RESUME, 1, payload,
         (size_t)message_resume_pack(&resume, payload, sizeof(payload)));
}

static void ack_of_a_third_stream(struct warden_fixture *fixture)
{
    start(fixture, 1, 0, "exec sleep 1000", "");
    give_ack(fixture, 1, 3, 1);
}

static void resume_of_what_was_acknowledged(struct warden_fixture *fixture)
{
    struct ended ended;

    start(fixture, 1, EXEC_KEEP, "echo hello", "");
    finish(fixture, 1, &ended);
    give_hello(fixture, 1);
    give_resume(fixture, 1, 5, 0);
}

static void ack_while_it_is_silent(struct warden_fixture *fixture)
{
    start(fixture, 1, EXEC_KEEP, "echo hello; sleep 1000", "");
    take(fixture, FRAME_STARTED, 1);
    take(fixture, FRAME_OUTPUT, 1);
    give_hello(fixture, 1);
    give_ack(fixture, 1, 1, 6);
}

static void short_resume(struct warden_fixture *fixture)
{
    start(fixture, 1, EXEC_KEEP, "exec sleep 1000", "");
    give_hello(fixture, 1);
    give(fixture, FRAME_RESUME, 1, "12345678901234567890123", 23);
}

static void hello_with_words(struct warden_fixture *fixture)
{
    give(fixture, FRAME_HELLO, 1, "hello", 5);
}

static void forget_with_words(struct warden_fixture *fixture)
{
    give(fixture, FRAME_FORGET, 1, "forget", 6);
}

static void resize_of_a_giant(struct warden_fixture *fixture)
{
    give(fixture, FRAME_RESIZE, 1, "\xff\xff\xff\xff", 4);
}

static void input_behind_its_end(struct warden_fixture *fixture)
{
    start(fixture, 1, EXEC_KEEP | EXEC_STDIN, "exec sleep 1000", "");
    give(fixture, FRAME_STDIN_END, 1, NULL, 0);
    give_bytes(fixture, FRAME_STDIN, 1, 0, "x");
}

static void test_broken_protocol(void **state)
{
    static void (*const ways[])(struct warden_fixture * fixture) = {
        resume_of_nobody,
        resume_without_hello,
        resume_twice,
        resume_of_what_was_not_written,
        resume_of_a_third_stream,
        resume_of_what_was_acknowledged,
        ack_of_a_third_stream,
        ack_while_it_is_silent,
        short_resume,
        hello_with_words,
        forget_with_words,
        resize_of_a_giant,
        input_behind_its_end,
    };

    (void)state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
        check_breaks(ways[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_WARDEN(test_kept_until_forgotten),
        WITH_A_WARDEN(test_not_kept_without_the_flag),
        WITH_A_WARDEN(test_output_while_nobody_listens),
        WITH_A_WARDEN(test_resume_in_the_middle),
        WITH_A_WARDEN(test_start_is_told_once),
        WITH_A_WARDEN(test_failure_is_kept),
        WITH_A_WARDEN(test_forgotten_while_it_runs),
        WITH_A_WARDEN(test_input_goes_on),
        WITH_A_WARDEN(test_half_of_everything),
        WITH_A_WARDEN(test_full_channel),
        WITH_A_WARDEN(test_limit_of_ended_commands),
        WITH_A_WARDEN(test_limit_of_running_commands),
        cmocka_unit_test(test_broken_protocol),
    };

    return cmocka_run_group_tests_name("warden/resume", tests, become_reaper, NULL);
}
