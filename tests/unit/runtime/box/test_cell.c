/* test_cell.c - kernels and cells of a box: what is sent for them, how they end, and when. */
#include "runtime/box/cell_fake.h"

#include "base/clock.h"
#include "sandbox/guest_stage.h"

static void test_what_is_sent(void **state)
{
    static const char *const env[] = {"K=V", "TWO=2", NULL};
    struct fake *fake = *state;
    uint32_t kernel = start_kernel(fake, 0);
    struct cell_spec spec = {.kernel = kernel,
                             .code = "print(1)",
                             .code_length = 8,
                             .input = "in",
                             .input_length = 2,
                             .env = env,
                             .is_script = true,
                             .keeps = true};
    struct message_cell cell;
    struct frame frame;

    assert_int_equal(try_cell(fake, 1, &spec), 0);
    frame = hear(fake, FRAME_ARGS, 0);
    assert_int_equal(frame.length, 20);
    assert_memory_equal(frame.payload, "print(1)inK=V\0TWO=2\0", 20);
    frame = hear(fake, FRAME_CELL, fake->id[1]);
    assert_int_equal(message_cell_unpack(&frame, &cell), 0);
    assert_int_equal(cell.kernel, kernel);
    assert_int_equal(cell.flags, CELL_SCRIPT | CELL_INPUT | CELL_KEEP);
    assert_true(cell.code_length == 8 && cell.input_length == 2 && cell.env_length == 10);
    spec = (struct cell_spec){.kernel = kernel, .code = "", .input = ""};
    assert_int_equal(try_cell(fake, 2, &spec), 0);
    frame = hear(fake, FRAME_CELL, fake->id[2]); /* no text, no ARGS */
    assert_int_equal(message_cell_unpack(&frame, &cell), 0);
    assert_int_equal(cell.flags, CELL_INPUT);
    assert_true(cell.code_length == 0 && cell.input_length == 0 && cell.env_length == 0);
    assert_int_equal(box_stdin(fake->box, fake->id[2], "x", 1), -EPIPE);
    assert_int_equal(box_stdin(fake->box, kernel, "x", 1), -EPIPE);
    hear_nothing(fake);
}

/* It goes before the variables; one that is not there is told as for any command. */
static void test_folder(void **state)
{
    static const char *const env[] = {"K=V", NULL};
    struct fake *fake = *state;
    struct cell_spec spec = {.kernel = start_kernel(fake, 0),
                             .code = "1",
                             .code_length = 1,
                             .env = env,
                             .folder = "/tmp"};
    struct message_cell cell;
    struct frame frame;

    assert_int_equal(try_cell(fake, 1, &spec), 0);
    frame = hear(fake, FRAME_ARGS, 0);
    assert_int_equal(frame.length, 10);
    assert_memory_equal(frame.payload, "1/tmp\0K=V\0", 10);
    frame = hear(fake, FRAME_CELL, fake->id[1]);
    assert_int_equal(message_cell_unpack(&frame, &cell), 0);
    assert_int_equal(cell.flags, CELL_FOLDER);
    assert_int_equal(cell.env_length, 9);
    say_fail(fake, fake->id[1], GUEST_STAGE_FOLDER, ENOENT);
    check_alive(fake);
    assert_int_equal(fake->seen[1].failed, 1);
    assert_ptr_equal(fake->seen[1].err.code, ERROR_BAD_INPUT);
    assert_string_equal(fake->seen[1].err.text, "the working folder: No such file or directory");
}

/* More than a frame, and more than the socket takes: it waits in the box, and arrives whole. */
static void test_much_code(void **state)
{
    struct fake *fake = *state;
    uint32_t kernel = start_kernel(fake, 0);
    char *code = malloc(LIMIT_CODE_BYTES);
    struct cell_spec spec = {.kernel = kernel,
                             .code = code,
                             .code_length = LIMIT_CODE_BYTES,
                             .input = code,
                             .input_length = LIMIT_CODE_BYTES};
    size_t have = 0;
    struct frame frame;

    assert_non_null(code);
    for (size_t i = 0; i < LIMIT_CODE_BYTES; i++)
        code[i] = (char)(i * 7 + i / 1000);
    assert_int_equal(try_cell(fake, 1, &spec), 0);
    assert_int_equal(try_cell(fake, 2, &spec), -EAGAIN); /* and the box stands */
    for (;;) {
        check_alive(fake);
        while (hear_any(fake, &frame) && frame.type == FRAME_ARGS) {
            for (size_t i = 0; i < frame.length; i++, have++)
                assert_true((char)frame.payload[i] == code[have % LIMIT_CODE_BYTES]);
        }
        if (frame.type == FRAME_CELL)
            break;
    }
    assert_true(have == 2 * LIMIT_CODE_BYTES && frame.id == fake->id[1]);
    assert_int_equal(try_cell(fake, 2, &spec), 0);
    free(code);
}

static void test_refused(void **state)
{
    static const char *const argv[] = {"python", NULL};
    struct exec_spec exec = {.argv = argv, .is_pty = true};
    struct fake *fake = *state;
    uint32_t kernel = start_kernel(fake, 0), plain = start_exec(fake, 1, 0);
    static char much[LIMIT_ARGV_BYTES + 1];
    const char *const env[] = {much, NULL};
    struct cell_spec spec = {.kernel = kernel, .code = "x", .code_length = 1};

    memset(much, 'x', LIMIT_ARGV_BYTES);
    assert_int_equal(box_kernel(fake->box, &exec, &exec_seen, NULL, &fake->id[2], &fake->err),
                     -EINVAL);
    spec.env = env;
    assert_int_equal(try_cell(fake, 2, &spec), -E2BIG);
    spec.env = NULL;
    spec.code_length = LIMIT_CODE_BYTES + 1;
    assert_int_equal(try_cell(fake, 2, &spec), -E2BIG);
    spec.code_length = 1;
    spec.kernel = plain;
    assert_int_equal(try_cell(fake, 2, &spec), -ESRCH);
    spec.kernel = 99;
    assert_int_equal(try_cell(fake, 2, &spec), -ESRCH);
    assert_int_equal(box_kernel_given(fake->box, plain, false, &exec_seen, NULL, &fake->err),
                     -EEXIST);
    assert_int_equal(box_kernel_given(fake->box, 0, false, &exec_seen, NULL, &fake->err), -EINVAL);
    say_exited(fake, kernel, &(struct message_exited){.exit_code = 3});
    check_alive(fake);
    assert_int_equal(fake->seen[0].ended, 1);
    spec.kernel = kernel;
    assert_int_equal(try_cell(fake, 2, &spec), -ESRCH);
    hear_nothing(fake);
}

static void test_streams(void **state)
{
    struct fake *fake = *state;
    uint32_t kernel = start_kernel(fake, 0), id;
    const size_t part = 60000, parts = WIRE_STREAM_WINDOW / 4 / part + 1;
    struct message_ack ack;
    struct frame frame;

    say_started(fake, kernel);
    id = start_cell(fake, 1, kernel, 0);
    say_started(fake, id);
    say_bytes(fake, FRAME_OUTPUT, id, 1, 0, 3, 'o');
    say_bytes(fake, FRAME_OUTPUT, id, 2, 0, 2, 'e');
    for (size_t i = 0; i < parts; i++)
        say_bytes(fake, FRAME_OUTPUT, id, 3, i * part, part, '{');
    check_alive(fake);
    frame = hear(fake, FRAME_ACK, id);
    assert_int_equal(message_ack_unpack(&frame, &ack), 0);
    assert_true(ack.stream == 3 && ack.offset == parts * part);
    fake->seen[1].takes = 0; /* slow: the end waits for it */
    say_bytes(fake, FRAME_OUTPUT, id, 3, parts * part, 5, '}');
    say_exited(fake, id,
               &(struct message_exited){.exit_code = 1,
                                        .out_bytes = 3,
                                        .err_bytes = 2,
                                        .event_bytes = parts * part + 5,
                                        .cpu_us = 7});
    check_alive(fake);
    assert_int_equal(fake->seen[1].ended, 0);
    fake->seen[1].takes = SIZE_MAX;
    box_resume(fake->box, id, BOX_EVENTS);
    assert_int_equal(fake->seen[1].ended, 1);
    assert_int_equal(fake->seen[1].end.exit_code, 1);
    assert_false(fake->seen[1].end.kernel_died || fake->seen[1].end.status_external);
    assert_true(fake->seen[1].end.events_dropped == 0 && fake->seen[1].end.usage.cpu_us == 7);
    assert_string_equal(buf_text(&fake->seen[1].out[1]), "ooo");
    assert_string_equal(buf_text(&fake->seen[1].out[2]), "ee");
    assert_int_equal(fake->seen[1].out[3].length, parts * part + 5);
    assert_int_equal(fake->seen[0].ended, 0);
    assert_false(box_is_busy(fake->box)); /* a kernel that waits is no work */
}

static void test_kernel_dies(void **state)
{
    struct message_exited exited = {.signal = SIGSEGV, .flags = EXITED_KERNEL_DIED};
    struct fake *fake = *state;
    uint32_t kernel = start_kernel(fake, 0), first, second, late;

    first = start_cell(fake, 1, kernel, 0);
    second = start_cell(fake, 2, kernel, 0);
    late = start_cell(fake, 3, kernel, 0);
    say_started(fake, first);
    say_exited(fake, first, &exited);
    say_exited(fake, second, &exited); /* it never ran */
    exited.flags = 0;
    say_exited(fake, kernel, &exited);
    say_fail(fake, late, GUEST_STAGE_EXEC, ESRCH); /* it came too late */
    check_alive(fake);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(fake->seen[i].ended, 1);
        assert_int_equal(fake->seen[i].end.signal, SIGSEGV);
        assert_int_equal(fake->seen[i].end.kernel_died, i > 0);
    }
    assert_int_equal(fake->seen[3].ended, 1);
    assert_true(fake->seen[3].end.kernel_died && fake->seen[3].end.status_external);
}

static void test_given(void **state)
{
    struct fake *fake = *state;
    uint32_t kernel = take_kernel(fake, 0, 1), cell;
    struct message_exited exited = {.flags = EXITED_STATUS_EXTERNAL | EXITED_KERNEL_DIED};

    assert_int_equal(box_next_id(fake->box), 2);
    cell = start_cell(fake, 1, kernel, 0);
    say_started(fake, cell);
    say_exited(fake, cell, &exited);
    exited.flags = EXITED_STATUS_EXTERNAL;
    say_exited(fake, kernel, &exited);
    check_alive(fake);
    assert_true(fake->seen[1].end.status_external && fake->seen[1].end.kernel_died);
    assert_true(fake->seen[0].end.status_external && !fake->seen[0].end.kernel_died);
    kernel = take_kernel(fake, 2, box_next_id(fake->box));
    box_signal(fake->box, kernel, SIGKILL); /* the warden is told who asks */
    hear(fake, FRAME_RESUME, kernel);
    hear_signal(fake, kernel, SIGKILL);
    box_signal(fake->box, kernel, SIGKILL);
    hear_signal(fake, kernel, SIGKILL);
    box_forget(fake->box, kernel); /* it is there: its end is awaited */
    hear_nothing(fake);
    kernel = take_kernel(fake, 3, box_next_id(fake->box));
    box_forget(fake->box, kernel); /* the provider had none */
    hear(fake, FRAME_FORGET, kernel);
    assert_null(call_of(fake, kernel));
    assert_int_equal(fake->seen[3].ended + fake->seen[3].failed, 0);
}

static void test_signal_of_one_that_waits(void **state)
{
    struct fake *fake = *state;
    uint32_t kernel = start_kernel(fake, 0), first = start_cell(fake, 1, kernel, 0);
    uint32_t second = start_cell(fake, 2, kernel, 0);

    say_started(fake, first);
    check_alive(fake);
    box_signal(fake->box, second, SIGINT);
    hear_signal(fake, second, SIGINT);
    say_exited(fake, second, &(struct message_exited){.signal = SIGINT});
    check_alive(fake);
    assert_int_equal(fake->seen[2].end.signal, SIGINT);
    assert_int_equal(fake->seen[2].started, 0);
    assert_int_equal(fake->seen[1].ended, 0);
}

static void test_too_many(void **state)
{
    struct fake *fake = *state;
    uint32_t kernel = start_kernel(fake, 0), cell = start_cell(fake, 1, kernel, 0);

    say_fail(fake, cell, GUEST_STAGE_EXEC, EAGAIN);
    check_alive(fake);
    assert_int_equal(fake->seen[1].failed, 1);
    assert_ptr_equal(fake->seen[1].err.code, ERROR_TOO_LARGE);
}

/* ---- deadlines ---- */

static void test_deadline(void **state)
{
    struct fake *fake = *state;
    uint32_t kernel = start_kernel(fake, 0), id = start_cell(fake, 1, kernel, 60000);
    uint64_t before = clock_now_ms();

    say_started(fake, kernel);
    say_started(fake, id);
    check_alive(fake);
    assert_in_range(box_next_deadline_ms(fake->box), before + 60000, clock_now_ms() + 60000);
    call_of(fake, id)->deadline_ms = 1; /* long ago */
    check_alive(fake);
    hear_signal(fake, id, SIGINT);
    assert_in_range(box_next_deadline_ms(fake->box), before + CELL_GRACE_MS / 2,
                    clock_now_ms() + CELL_GRACE_MS / 2);
    check_alive(fake);
    hear_nothing(fake);
    call_of(fake, id)->grace_deadline_ms = 1;
    check_alive(fake);
    hear_signal(fake, id, SIGINT); /* it may not have heard the first */
    assert_in_range(box_next_deadline_ms(fake->box), before + CELL_GRACE_MS / 2,
                    clock_now_ms() + CELL_GRACE_MS / 2);
    call_of(fake, id)->grace_deadline_ms = 1;
    check_alive(fake);
    hear_signal(fake, id, SIGKILL);
    say_exited(fake, id, &(struct message_exited){.signal = SIGKILL, .flags = EXITED_KERNEL_DIED});
    check_alive(fake);
    assert_true(fake->seen[1].end.timed_out && fake->seen[1].end.kernel_died);
    assert_true(box_next_deadline_ms(fake->box) == UINT64_MAX);
}

static void test_deadline_and_a_good_end(void **state)
{
    struct fake *fake = *state;
    uint32_t kernel = start_kernel(fake, 0), id = start_cell(fake, 1, kernel, 60000);

    say_started(fake, kernel);
    say_started(fake, id);
    check_alive(fake);
    call_of(fake, id)->deadline_ms = 1;
    check_alive(fake);
    hear_signal(fake, id, SIGINT);
    say_exited(fake, id, &(struct message_exited){.exit_code = 1});
    check_alive(fake);
    assert_true(fake->seen[1].end.timed_out && !fake->seen[1].end.kernel_died);
    hear_nothing(fake);
}

static void test_deadline_of_a_script(void **state)
{
    struct fake *fake = *state;
    uint32_t kernel = start_kernel(fake, 0);
    struct cell_spec spec = {
        .kernel = kernel, .code = "x", .code_length = 1, .timeout_ms = 9, .is_script = true};

    assert_int_equal(try_cell(fake, 1, &spec), 0);
    hear(fake, FRAME_ARGS, 0);
    hear(fake, FRAME_CELL, fake->id[1]);
    say_started(fake, fake->id[1]);
    check_alive(fake);
    call_of(fake, fake->id[1])->deadline_ms = 1;
    check_alive(fake);
    hear_signal(fake, fake->id[1], SIGKILL);
    say_exited(fake, fake->id[1], &(struct message_exited){.signal = SIGKILL});
    check_alive(fake);
    assert_true(fake->seen[1].end.timed_out && !fake->seen[1].end.kernel_died);
}

/* Only the first in the queue has to be started; the others wait for it, however long. */
static void test_start_deadline(void **state)
{
    struct fake *fake = *state;
    uint32_t kernel = start_kernel(fake, 0), first = start_cell(fake, 1, kernel, 0);
    uint32_t second = start_cell(fake, 2, kernel, 0);

    say_started(fake, kernel);
    check_alive(fake);
    assert_true(call_of(fake, first)->start_deadline_ms > 0);
    assert_true(call_of(fake, second)->start_deadline_ms == 0);
    say_started(fake, first);
    check_alive(fake);
    assert_true(box_next_deadline_ms(fake->box) == UINT64_MAX);
    say_exited(fake, first, &(struct message_exited){0});
    check_alive(fake);
    assert_true(call_of(fake, second)->start_deadline_ms > 0);
    call_of(fake, second)->start_deadline_ms = 1;
    assert_int_equal(fake_pump(fake), -EPIPE);
    assert_int_equal(fake->seen[2].failed, 1);
}

/* The end of a kernel is told behind those of its cells: slow readers of theirs are ours too. */
static void test_kill_with_slow_reader(void **state)
{
    struct fake *fake = *state;
    uint32_t kernel = start_kernel(fake, 0), id = start_cell(fake, 1, kernel, 0);

    say_started(fake, kernel);
    say_started(fake, id);
    fake->seen[1].takes = 0;
    say_bytes(fake, FRAME_OUTPUT, id, 3, 0, 5, 'x');
    check_alive(fake);
    box_signal(fake->box, kernel, SIGKILL);
    call_of(fake, kernel)->kill_deadline_ms = 1;
    check_alive(fake);
    fake->seen[1].takes = SIZE_MAX;
    box_resume(fake->box, id, BOX_EVENTS);
    call_of(fake, kernel)->kill_deadline_ms = 1;
    assert_int_equal(fake_pump(fake), -EPIPE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_FAKE(test_what_is_sent),
        WITH_A_FAKE(test_folder),
        WITH_A_FAKE(test_much_code),
        WITH_A_FAKE(test_refused),
        WITH_A_FAKE(test_streams),
        WITH_A_FAKE(test_kernel_dies),
        WITH_A_FAKE(test_given),
        WITH_A_FAKE(test_signal_of_one_that_waits),
        WITH_A_FAKE(test_too_many),
        WITH_A_FAKE(test_deadline),
        WITH_A_FAKE(test_deadline_and_a_good_end),
        WITH_A_FAKE(test_deadline_of_a_script),
        WITH_A_FAKE(test_start_deadline),
        WITH_A_FAKE(test_kill_with_slow_reader),
    };

    return cmocka_run_group_tests_name("runtime/box/cell", tests, NULL, NULL);
}
