/*
 * test_cell.c - cells of a kernel: their streams and what belongs to which, slow readers, words
 * that are none, scripts, and hosts that come and go.
 */
#include "warden/kernel_fixture.h"

#include "sandbox/guest_stage.h"

#define WINDOW ((uint64_t)WIRE_STREAM_WINDOW)

static void test_order(void **state)
{
    struct warden_fixture *fixture = *state;
    struct ended ended;

    start_kernel(fixture, 1, 0);
    for (uint32_t id = 2; id < 40; id++)
        run_cell(fixture, id, 1, 0, "tell\nerr x\nsay {}");
    for (uint32_t id = 2; id < 40; id++) {
        finish(fixture, id, &ended); /* nothing of another comes in between */
        assert_int_equal(strtol(ended.text[1], NULL, 10), id - 1);
        assert_true(ended.was_started && ended.bytes[2] == 2 && ended.bytes[3] == 3);
    }
}

static void test_input_and_environment(void **state)
{
    static const char text[] = "tellstdin xK=V\0TWO=2"; /* and its NUL */
    struct message_cell cell = {.kernel = 1, .flags = CELL_INPUT, .code_length = 4};
    struct warden_fixture *fixture = *state;
    struct ended ended;

    cell.input_length = 7;
    cell.env_length = 10;
    start_kernel(fixture, 1, 0);
    give(fixture, FRAME_ARGS, 0, text, 4);
    give(fixture, FRAME_ARGS, 0, text + 4, sizeof(text) - 4);
    give_cell(fixture, 2, &cell);
    finish(fixture, 2, &ended);
    assert_true(strncmp(ended.text[1], "1 i 4 ", 6) == 0);
    assert_non_null(strstr(ended.text[1], "[stdin x] [K=V]\n")); /* up to the NUL */
    give_cell(fixture, 3, &(struct message_cell){.kernel = 1});  /* no text at all */
    finish(fixture, 3, &ended);
    give(fixture, FRAME_ARGS, 0, "tell", 4);
    give_cell(fixture, 4,
              &(struct message_cell){.kernel = 1, .flags = CELL_INPUT, .code_length = 4});
    finish(fixture, 4, &ended);
    assert_true(strncmp(ended.text[1], "3 i 4 ", 6) == 0);
}

/* Looked for before the kernel hears of the cell; then it is the kernel's to enter. */
static void test_folder(void **state)
{
    static const char text[] = "tell/tmp\0K=V", wrong[] = "tell/no/such";
    struct message_cell cell = {.kernel = 1, .flags = CELL_FOLDER, .code_length = 4};
    struct message_fail fail;
    struct warden_fixture *fixture = *state;
    struct ended ended;
    struct frame frame;

    start_kernel(fixture, 1, 0);
    give(fixture, FRAME_ARGS, 0, wrong, sizeof(wrong));
    cell.env_length = sizeof(wrong) - 4;
    give_cell(fixture, 2, &cell);
    frame = take(fixture, FRAME_NOEXEC, 2);
    assert_int_equal(message_fail_unpack(&frame, &fail), 0);
    assert_int_equal(fail.stage, GUEST_STAGE_FOLDER);
    assert_int_equal(fail.error, ENOENT);
    give(fixture, FRAME_ARGS, 0, text, sizeof(text));
    cell.env_length = sizeof(text) - 4;
    give_cell(fixture, 3, &cell);
    finish(fixture, 3, &ended);
    assert_true(strncmp(ended.text[1], "1 f 4 ", 6) == 0); /* its first */
    assert_non_null(strstr(ended.text[1], "[/tmp]\n"));    /* up to the NUL */
    cell.flags |= CELL_INPUT;
    give(fixture, FRAME_ARGS, 0, text, sizeof(text));
    give_cell(fixture, 4, &cell);
    finish(fixture, 4, &ended);
    assert_true(strncmp(ended.text[1], "2 if 4 ", 7) == 0);
}

/* As much as may be, to a kernel that is not reading yet; others go on meanwhile. */
static void test_much_code(void **state)
{
    struct warden_fixture *fixture = *state;
    struct message_cell cell = {.kernel = 1, .code_length = LIMIT_CODE_BYTES};
    char *code = malloc(LIMIT_CODE_BYTES);
    unsigned long sum = 0;
    struct ended ended;
    char wanted[64];

    assert_non_null(code);
    memset(code, 'x', LIMIT_CODE_BYTES);
    memcpy(code, "tell\n", 5);
    for (size_t i = 0; i < LIMIT_CODE_BYTES; i++)
        sum = sum * 31 + (unsigned char)code[i];
    start_kernel(fixture, 1, 0);
    run_cell(fixture, 2, 1, 0, "wait");
    take(fixture, FRAME_STARTED, 2);
    await_output(fixture, 2, 1, "up\n");
    give_args(fixture, code, LIMIT_CODE_BYTES);
    give_cell(fixture, 3, &cell);
    start(fixture, 4, 0, "echo other", "");
    finish(fixture, 4, &ended);
    give_number(fixture, FRAME_SIGNAL, 2, SIGINT);
    take(fixture, FRAME_EXITED, 2);
    finish(fixture, 3, &ended);
    snprintf(wanted, sizeof(wanted), "2 - %llu %lu [] []\n", (unsigned long long)LIMIT_CODE_BYTES,
             sum);
    assert_string_equal(ended.text[1], wanted);
    free(code);
}

/* More waits than a box may hold. */
static void test_too_much_waits(void **state)
{
    struct warden_fixture *fixture = *state;
    struct message_cell cell = {.kernel = 1, .code_length = LIMIT_CODE_BYTES};
    const uint32_t fit = LIMIT_CELLS_BYTES / LIMIT_CODE_BYTES;
    char *code = calloc(1, LIMIT_CODE_BYTES);
    struct ended ended;

    assert_non_null(code);
    memcpy(code, "tell\n", 5);
    start_kernel(fixture, 1, 0);
    run_cell(fixture, 2, 1, 0, "wait");
    take(fixture, FRAME_STARTED, 2);
    await_output(fixture, 2, 1, "up\n");
    for (uint32_t i = 0; i <= fit; i++) {
        give_args(fixture, code, LIMIT_CODE_BYTES);
        give_cell(fixture, 10 + i, &cell);
    }
    take(fixture, FRAME_NOEXEC, 10 + fit);
    give_number(fixture, FRAME_SIGNAL, 2, SIGINT);
    take(fixture, FRAME_EXITED, 2);
    for (uint32_t i = 0; i < fit; i++)
        finish(fixture, 10 + i, &ended);
    free(code);
}

/* A full ring holds the kernel back, and nobody else. */
static void test_slow_reader(void **state)
{
    struct warden_fixture *fixture = *state;
    const uint64_t size = 3 * WINDOW + 12345;
    struct message_bytes bytes;
    struct ended ended;
    struct frame frame;
    uint64_t seen = 0;
    char code[128];

    start_kernel(fixture, 1, 0);
    snprintf(code, sizeof(code), "fill %llu\nerr end", (unsigned long long)size);
    run_cell(fixture, 2, 1, 0, code);
    run_cell(fixture, 3, 1, 0, "out next");
    take(fixture, FRAME_STARTED, 2);
    while (seen < WINDOW) {
        frame = take(fixture, FRAME_OUTPUT, 2);
        assert_int_equal(message_bytes_unpack(&frame, &bytes), 0);
        assert_true(bytes.stream == 1 && bytes.offset == seen);
        seen += bytes.length;
    }
    assert_true(seen == WINDOW);
    start(fixture, 4, 0, "echo other", "");
    finish(fixture, 4, &ended); /* nothing more of 2 comes */
    memset(&ended, 0, sizeof(ended));
    ended.bytes[1] = seen;
    give_ack(fixture, 2, 1, seen);
    do {
        assert_true(take_any(fixture, &frame));
        assert_int_equal(frame.id, 2);
        if (frame.type == FRAME_OUTPUT)
            note_output(fixture, &frame, &ended);
    } while (frame.type == FRAME_OUTPUT);
    assert_int_equal(frame.type, FRAME_EXITED);
    assert_true(ended.bytes[1] == size && ended.bytes[2] == 4);
    finish(fixture, 3, &ended);
    assert_string_equal(ended.text[1], "next\n");
}

static void test_slow_reader_of_events(void **state)
{
    struct warden_fixture *fixture = *state;
    const uint64_t size = 3 * WINDOW + 12345;
    struct message_bytes bytes;
    struct ended ended;
    struct frame frame;
    uint64_t seen = 0;
    char code[128];

    start_kernel(fixture, 1, 0);
    snprintf(code, sizeof(code), "event %llu\nout end", (unsigned long long)size);
    run_cell(fixture, 2, 1, 0, code);
    take(fixture, FRAME_STARTED, 2);
    while (seen < WINDOW) {
        frame = take(fixture, FRAME_OUTPUT, 2);
        assert_int_equal(message_bytes_unpack(&frame, &bytes), 0);
        assert_true(bytes.stream == 3 && bytes.offset == seen);
        seen += bytes.length;
    }
    start(fixture, 4, 0, "echo other", "");
    finish(fixture, 4, &ended);
    memset(&ended, 0, sizeof(ended));
    ended.bytes[3] = seen;
    give_ack(fixture, 2, 3, seen);
    do {
        assert_true(take_any(fixture, &frame));
        if (frame.type == FRAME_OUTPUT)
            note_output(fixture, &frame, &ended);
    } while (frame.type == FRAME_OUTPUT);
    assert_int_equal(frame.type, FRAME_EXITED);
    assert_true(ended.bytes[3] == size && ended.bytes[1] == 4);
}

/* The same, of a kernel that dies with all of it unread. */
static void test_death_behind_a_slow_reader(void **state)
{
    struct warden_fixture *fixture = *state;
    struct ended ended;
    char code[128];

    start_kernel(fixture, 1, 0);
    snprintf(code, sizeof(code), "event %llu\nfill 60000\nevent 5000\nexit 4",
             (unsigned long long)WINDOW);
    run_cell(fixture, 2, 1, CELL_KEEP, code);
    run_cell(fixture, 3, 1, CELL_KEEP, "out never"); /* its end may be told at once, and again */
    start(fixture, 4, 0, "exec sleep 1000", "");
    for (;;) { /* it is told of the start of 4 after all that it can be told of 2 */
        struct frame frame;

        assert_true(take_any(fixture, &frame));
        if (frame.type == FRAME_STARTED && frame.id == 4)
            break;
    }
    give(fixture, FRAME_HELLO, 1, NULL, 0);
    for (;;) {
        struct message_resume resume = {0};
        uint8_t payload[8 * MESSAGE_STREAMS];
        struct frame frame;

        assert_true(take_any(fixture, &frame));
        if (frame.type == FRAME_INVENTORY && (frame.id == 2 || frame.id == 3))
            give(fixture, FRAME_RESUME, frame.id, payload,
                 (size_t)message_resume_pack(&resume, payload, sizeof(payload)));
        if (frame.type == FRAME_WELCOME)
            break;
    }
    memset(&ended, 0, sizeof(ended));
    for (bool has_2 = false, has_3 = false; !has_2 || !has_3;) {
        struct frame frame;

        assert_true(take_any(fixture, &frame));
        if (frame.type == FRAME_OUTPUT)
            note_output(fixture, &frame, &ended);
        has_2 |= frame.type == FRAME_EXITED && frame.id == 2;
        has_3 |= frame.type == FRAME_EXITED && frame.id == 3;
        if (frame.type == FRAME_EXITED) {
            assert_int_equal(message_exited_unpack(&frame, &ended.exited), 0);
            assert_int_equal(ended.exited.exit_code, 4);
            assert_int_equal(ended.exited.flags, EXITED_KERNEL_DIED);
        }
    }
    assert_true(ended.bytes[3] == WINDOW + 5000 && ended.bytes[1] == 60000);
}

static void test_too_many_events(void **state)
{
    struct warden_fixture *fixture = *state;
    const uint64_t more = 100000;
    struct ended ended;
    char code[128];

    start_kernel(fixture, 1, 0);
    snprintf(code, sizeof(code), "event 1000\nevent %llu\nevent 500\nout end",
             (unsigned long long)(LIMIT_CELL_EVENTS + more));
    do_cell(fixture, 2, 1, code, &ended);
    assert_true(ended.bytes[3] == LIMIT_CELL_EVENTS);
    assert_true(ended.exited.event_bytes == LIMIT_CELL_EVENTS + more + 1500);
    assert_string_equal(ended.text[1], "end\n");
    do_cell(fixture, 3, 1, "event 10", &ended);
    assert_true(ended.bytes[3] == 10 && ended.exited.event_bytes == 10);
}

static void test_words_that_are_none(void **state)
{
    struct warden_fixture *fixture = *state;
    struct ended ended;

    start_kernel(fixture, 1, 0);
    do_cell(fixture, 2, 1,
            "say \nsay end\nsay end 2\nsay end 3 0\nsay end 2 2\nsay end 2 0 \nsay END 2 0\n"
            "say end 4294967298 0\nsay  end 2 0\nsay end -2 0\nsay [1]\nsay \"{}\"\n"
            "say end 0000000000000000000000000000000000000002 0\n"
            "say {\"event\": \"end 2 0\"}\nout still here\nstatus 1",
            &ended);
    assert_int_equal(ended.exited.exit_code, 1); /* only the last was its end */
    assert_string_equal(ended.text[1], "still here\n");
    assert_string_equal(ended.text[3], "{\"event\": \"end 2 0\"}\n");
}

/* What is said between cells is dropped; what is printed there belongs to the next. */
static void test_between_cells(void **state)
{
    struct warden_fixture *fixture = *state;
    struct ended ended;
    bool has_between;

    start_kernel(fixture, 1, 0);
    do_cell(fixture, 2, 1, "out one\nafter between", &ended);
    has_between = strstr(ended.text[1], "between");
    assert_string_equal(ended.text[3], "");
    do_cell(fixture, 3, 1, "say and the rest of it}\nout two\nsay {}", &ended);
    assert_string_equal(ended.text[3], "{}\n");
    /* It was printed behind the end, which the warden may have seen late. */
    assert_string_equal(ended.text[1], has_between ? "two\n" : "between\ntwo\n");
    do_cell(fixture, 4, 1, "say {}", &ended);
    assert_string_equal(ended.text[3], "{}\n");
}

/* Who forged its end is not disturbed by it, and neither is the next. */
static void test_forged_end(void **state)
{
    struct warden_fixture *fixture = *state;
    struct ended ended;

    start_kernel(fixture, 1, 0);
    do_cell(fixture, 2, 1, "out a\nsay end 2 0\nout b", &ended);
    assert_int_equal(ended.exited.exit_code, 0);
    do_cell(fixture, 3, 1, "tell", &ended);
    assert_non_null(strstr(ended.text[1], "2 - "));
}

static void test_closed_output(void **state)
{
    struct warden_fixture *fixture = *state;
    struct ended ended;

    start_kernel(fixture, 1, 0);
    do_cell(fixture, 2, 1, "out last\nclose 1\nclose 2\nsay {}", &ended);
    assert_string_equal(ended.text[1], "last\n");
    do_cell(fixture, 3, 1, "say {\"n\": 3}", &ended);
    assert_string_equal(ended.text[3], "{\"n\": 3}\n");
    assert_true(ended.bytes[1] == 0);
}

/* ---- scripts ---- */

static void test_script(void **state)
{
    struct warden_fixture *fixture = *state;
    struct message_exited exited;
    struct ended ended;

    start_kernel(fixture, 1, 0);
    do_cell(fixture, 2, 1, "tell", &ended);
    run_cell(fixture, 3, 1, CELL_SCRIPT, "tell\nsay end 3 0\nclose 3\nout end\nexit 42");
    run_cell(fixture, 4, 1, 0, "out never");
    finish(fixture, 3, &ended);
    assert_int_equal(ended.exited.exit_code, 42);
    assert_int_equal(ended.exited.flags, 0); /* it ended as it should */
    assert_true(strncmp(ended.text[1], "2 s ", 4) == 0 && ended.exited.max_rss_bytes > 0);
    exited = take_exited(fixture, 4);
    assert_int_equal(exited.flags, EXITED_KERNEL_DIED);
    take(fixture, FRAME_EXITED, 1);
}

static void test_script_of_a_given_kernel(void **state)
{
    struct warden_fixture *fixture = *state;
    pid_t pid = give_kernel(fixture, 1);
    struct ended ended;
    int status;

    run_cell(fixture, 2, 1, CELL_SCRIPT, "out hello\nexit 5");
    finish(fixture, 2, &ended);
    assert_string_equal(ended.text[1], "hello\n");
    assert_int_equal(ended.exited.exit_code, 0);
    assert_int_equal(ended.exited.flags, EXITED_STATUS_EXTERNAL);
    take(fixture, FRAME_EXITED, 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WEXITSTATUS(status), 5); /* whoever made it knows */
}

/* Its own word, before its process has ended; which nobody needs to wait for. */
static void test_script_says_its_exit(void **state)
{
    struct warden_fixture *fixture = *state;
    pid_t pid = give_kernel(fixture, 1);
    struct ended ended;
    int status;

    run_cell(fixture, 2, 1, CELL_SCRIPT,
             "out hello\nsay end 2 0\nsay exit 3 4\nsay exit 2 256\nsay exit 2 7");
    finish(fixture, 2, &ended);
    assert_string_equal(ended.text[1], "hello\n");
    assert_int_equal(ended.exited.exit_code, 7);
    assert_int_equal(ended.exited.flags, 0);
    assert_int_equal(waitpid(pid, &status, WNOHANG), 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    take(fixture, FRAME_EXITED, 1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
}

static void test_a_cell_has_no_exit(void **state)
{
    struct warden_fixture *fixture = *state;
    struct ended ended;

    start_kernel(fixture, 1, 0);
    do_cell(fixture, 2, 1, "say exit 2 7\nout on", &ended);
    assert_string_equal(ended.text[1], "on\n");
    assert_int_equal(ended.exited.exit_code, 0);
}

/* ---- hosts that come and go ---- */

static struct message_inventory take_inventory(struct warden_fixture *fixture, uint32_t id,
                                               uint32_t generation)
{
    struct message_inventory inventory;
    struct frame frame = take(fixture, FRAME_INVENTORY, id);

    assert_int_equal(message_inventory_unpack(&frame, &inventory), 0);
    assert_int_equal(inventory.generation, generation);
    return inventory;
}

static void give_resume(struct warden_fixture *fixture, uint32_t id)
{
    struct message_resume resume = {0};
    uint8_t payload[8 * MESSAGE_STREAMS];

    give(fixture, FRAME_RESUME, id, payload,
         (size_t)message_resume_pack(&resume, payload, sizeof(payload)));
}

static void test_hello(void **state)
{
    struct warden_fixture *fixture = *state;
    pid_t pid = give_kernel(fixture, 2);
    struct message_inventory inventory;
    struct ended ended;

    start_kernel(fixture, 1, 0);
    run_cell(fixture, 3, 1, CELL_KEEP, "out one\nsay {\"n\": 1}\nwait");
    take(fixture, FRAME_STARTED, 3);
    for (uint64_t seen = 0; seen < 16;) { /* "one\nup\n" and the event, none acknowledged */
        struct message_bytes bytes;
        struct frame frame = take(fixture, FRAME_OUTPUT, 3);

        assert_int_equal(message_bytes_unpack(&frame, &bytes), 0);
        seen += bytes.length;
    }
    run_cell(fixture, 4, 1, CELL_KEEP, "tell");
    give(fixture, FRAME_HELLO, 77, NULL, 0);
    inventory = take_inventory(fixture, 2, 77);
    assert_int_equal(inventory.flags, INVENTORY_STARTED | INVENTORY_KERNEL | INVENTORY_GIVEN);
    inventory = take_inventory(fixture, 1, 77);
    assert_int_equal(inventory.flags, INVENTORY_STARTED | INVENTORY_KERNEL);
    assert_int_equal(inventory.kernel, 0);
    inventory = take_inventory(fixture, 3, 77);
    assert_int_equal(inventory.flags, INVENTORY_STARTED | INVENTORY_CELL);
    assert_true(inventory.kernel == 1 && inventory.read[0] == 7 && inventory.read[2] == 9);
    inventory = take_inventory(fixture, 4, 77);
    assert_int_equal(inventory.flags, INVENTORY_CELL);
    take(fixture, FRAME_WELCOME, 77);
    give_number(fixture, FRAME_SIGNAL, 3, SIGINT); /* both go on while nobody listens */
    start(fixture, 5, 0, "echo fine", "");
    finish(fixture, 5, &ended);
    give_resume(fixture, 4);
    finish(fixture, 4, &ended);
    assert_true(strncmp(ended.text[1], "2 - ", 4) == 0 && ended.was_started);
    give_resume(fixture, 3);
    finish(fixture, 3, &ended);
    assert_string_equal(ended.text[1], "one\nup\n");
    assert_string_equal(ended.text[3], "{\"n\": 1}\n");
    assert_int_equal(ended.exited.exit_code, 1);
    give_resume(fixture, 1); /* a kernel says no more than its end */
    give_number(fixture, FRAME_SIGNAL, 1, SIGTERM);
    assert_int_equal(take_exited(fixture, 1).signal, SIGTERM);
    give_number(fixture, FRAME_SIGNAL, 2, SIGKILL); /* nobody asked for it: nobody hears of it */
    give(fixture, FRAME_FORGET, 2, NULL, 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    start(fixture, 6, 0, "echo fine", "");
    finish(fixture, 6, &ended);
}

/* A cell that nobody wants any more holds its kernel up no longer than it runs. */
static void test_forgotten(void **state)
{
    struct warden_fixture *fixture = *state;
    struct ended ended;
    char code[128];

    start_kernel(fixture, 1, 0);
    snprintf(code, sizeof(code), "wait\nfill %llu\nevent %llu", (unsigned long long)(3 * WINDOW),
             (unsigned long long)(3 * WINDOW));
    run_cell(fixture, 2, 1, CELL_KEEP, code);
    take(fixture, FRAME_STARTED, 2);
    await_output(fixture, 2, 1, "up\n");
    run_cell(fixture, 3, 1, CELL_KEEP, "out never");
    run_cell(fixture, 4, 1, 0, "tell");
    give_number(fixture, FRAME_SIGNAL, 2, SIGINT);
    give(fixture, FRAME_FORGET, 2, NULL, 0);
    give(fixture, FRAME_FORGET, 3, NULL, 0); /* it waited, and waits no more */
    for (;;) {
        struct frame frame;

        assert_true(take_any(fixture, &frame)); /* what of 2 came before it was forgotten */
        if (frame.id == 4 && frame.type == FRAME_STARTED)
            break;
        assert_int_equal(frame.id, 2);
    }
    finish(fixture, 4, &ended);
    assert_true(strncmp(ended.text[1], "2 - ", 4) == 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        WITH_A_WARDEN(test_order),
        WITH_A_WARDEN(test_input_and_environment),
        WITH_A_WARDEN(test_folder),
        WITH_A_WARDEN(test_much_code),
        WITH_A_WARDEN(test_too_much_waits),
        WITH_A_WARDEN(test_slow_reader),
        WITH_A_WARDEN(test_slow_reader_of_events),
        WITH_A_WARDEN(test_death_behind_a_slow_reader),
        WITH_A_WARDEN(test_too_many_events),
        WITH_A_WARDEN(test_words_that_are_none),
        WITH_A_WARDEN(test_between_cells),
        WITH_A_WARDEN(test_forged_end),
        WITH_A_WARDEN(test_closed_output),
        WITH_A_WARDEN(test_script),
        WITH_A_WARDEN(test_script_of_a_given_kernel),
        WITH_A_WARDEN(test_script_says_its_exit),
        WITH_A_WARDEN(test_a_cell_has_no_exit),
        WITH_A_WARDEN(test_hello),
        WITH_A_WARDEN(test_forgotten),
    };

    TINY_MAIN(argc, argv);
    return cmocka_run_group_tests_name("warden/cell", tests, become_reaper, NULL);
}
