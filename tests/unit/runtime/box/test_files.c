/* test_files.c - files of a box and what a loss means, the host's side, against wardens good and
 * bad.
 */
#include "runtime/box/fake_warden.h"

#include <sys/stat.h>

#include "runtime/box/box_private.h"

#define WINDOW ((size_t)WIRE_STREAM_WINDOW)

enum { EXEC, PUT, GET, LIST };

static uint32_t start_put(struct fake *fake)
{
    assert_int_equal(box_put(fake->box, &(struct put_spec){.path = "/workspace/a", .mode = 0600},
                             &put_seen, &fake->seen[PUT], &fake->id[PUT], &fake->err),
                     0);
    return fake->id[PUT];
}

static uint32_t start_get(struct fake *fake)
{
    assert_int_equal(
        box_get(fake->box, "/tmp/b", 0, 0, &get_seen, &fake->seen[GET], &fake->id[GET], &fake->err),
        0);
    return fake->id[GET];
}

static uint32_t start_list(struct fake *fake)
{
    assert_int_equal(box_list(fake->box, "/tmp/output", 0, &list_seen, &fake->seen[LIST],
                              &fake->id[LIST], &fake->err),
                     0);
    return fake->id[LIST];
}

static void hear_path(struct fake *fake, enum frame_type type, uint32_t id, const char *name,
                      uint32_t mode)
{
    struct frame frame = hear(fake, type, id);
    struct message_path path;

    assert_int_equal(message_path_unpack(&frame, &path), 0);
    assert_int_equal(path.mode, mode);
    assert_int_equal(path.path_length, strlen(name));
    assert_memory_equal(path.path, name, path.path_length);
}

static void test_put(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_put(fake);
    struct message_bytes bytes;
    struct frame frame;

    hear_path(fake, FRAME_PUT, id, "/workspace/a", 0600);
    assert_int_equal(box_put_data(fake->box, id, "abc", 3), 3);
    frame = hear(fake, FRAME_PUT_DATA, id);
    assert_int_equal(message_bytes_unpack(&frame, &bytes), 0);
    assert_true(bytes.offset == 0 && bytes.length == 3);
    say_ack(fake, id, 0, 3);
    check_alive(fake);
    assert_int_equal(fake->seen[PUT].ready, 1);
    box_put_end(fake->box, id);
    box_put_end(fake->box, id);
    hear(fake, FRAME_PUT_END, id);
    hear_nothing(fake);
    assert_int_equal(box_put_data(fake->box, id, "d", 1), -EPIPE);
    assert_int_equal(fake->seen[PUT].ended, 0);
    say_done(fake, id, 0);
    check_alive(fake);
    assert_int_equal(fake->seen[PUT].ended, 1);
    assert_int_equal(fake->seen[PUT].err.num, 0);
    assert_int_equal(box_put_data(fake->box, id, "d", 1), -EPIPE);
    box_put_end(fake->box, id);
    hear_nothing(fake);
}

static void test_put_window(void **state)
{
    static char data[WIRE_STREAM_WINDOW + 1];
    struct fake *fake = *state;
    uint32_t id = start_put(fake);

    assert_int_equal(box_put_data(fake->box, id, data, sizeof(data)), WINDOW);
    assert_int_equal(box_put_data(fake->box, id, data, sizeof(data)), 0);
    say_ack(fake, id, 0, 1);
    check_alive(fake);
    assert_int_equal(box_put_data(fake->box, id, data, sizeof(data)), 1);
    say_ack(fake, id, 0, WINDOW + 2); /* more than was sent */
    assert_int_equal(fake_pump(fake), -EPIPE);
    assert_int_equal(fake->seen[PUT].ended, 1);
    assert_ptr_equal(fake->seen[PUT].err.code, ERROR_BOX_LOST);
}

/* A put that fails before its end: the caller hears it, the warden still gets the END it awaits. */
static void test_put_fails_early(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_put(fake);

    hear_path(fake, FRAME_PUT, id, "/workspace/a", 0600);
    say_done(fake, id, ENOSPC);
    check_alive(fake);
    assert_int_equal(fake->seen[PUT].ended, 1);
    assert_int_equal(fake->seen[PUT].err.num, -ENOSPC);
    hear(fake, FRAME_PUT_END, id);
    hear_nothing(fake);
    assert_int_equal(box_put_data(fake->box, id, "x", 1), -EPIPE);
    start_get(fake); /* the box lives on */
    check_alive(fake);
}

static void test_get(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_get(fake);
    struct message_ack ack;
    struct frame frame;

    hear_path(fake, FRAME_GET, id, "/tmp/b", 0);
    for (int i = 0; i < 4; i++)
        say_bytes(fake, FRAME_DATA, id, 0, (uint64_t)i * 40000, 40000, 'a' + i);
    check_alive(fake);
    assert_int_equal(fake->seen[GET].out[1].length, 160000);
    frame = hear(fake, FRAME_ACK, id);
    assert_int_equal(message_ack_unpack(&frame, &ack), 0);
    assert_true(ack.stream == 0 && ack.offset == 160000); /* a quarter of the window at a time */
    say_done(fake, id, 0);
    check_alive(fake);
    assert_int_equal(fake->seen[GET].ended, 1);
    assert_int_equal(fake->seen[GET].err.num, 0);
    hear_nothing(fake);
}

/* The size is told before the first byte, and no byte more is taken. */
static void test_get_tells_its_size(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_get(fake);

    hear_path(fake, FRAME_GET, id, "/tmp/b", 0);
    say_entry(fake, id, "", 0);
    check_alive(fake);
    assert_int_equal(fake->seen[GET].entries, 1);
    assert_int_equal(fake->seen[GET].bytes, 77);
    say_bytes(fake, FRAME_DATA, id, 0, 0, 77, 'a');
    check_alive(fake);
    say_bytes(fake, FRAME_DATA, id, 0, 77, 1, 'a');
    assert_int_equal(fake_pump(fake), -EPIPE);
    assert_int_equal(fake->seen[GET].out[1].length, 77);
    assert_int_equal(fake->seen[GET].ended, 1);
}

static void test_get_fails(void **state)
{
    struct fake *fake = *state;

    say_done(fake, start_get(fake), EISDIR);
    check_alive(fake);
    assert_int_equal(fake->seen[GET].err.num, -EISDIR);
    fake->seen[GET].ended = 0;
    say_done(fake, start_get(fake), 4095); /* the largest errno there is */
    check_alive(fake);
    assert_int_equal(fake->seen[GET].err.num, -4095);
    fake->seen[GET].ended = 0;
    say_done(fake, start_get(fake), 4096);
    assert_int_equal(fake_pump(fake), -EPIPE);
    assert_int_equal(fake->seen[GET].ended, 1);
}

/* A reader that takes less stops the stream: nothing is acknowledged, nothing is lost. */
static void test_get_is_not_taken(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_get(fake);
    struct message_ack ack;
    struct frame frame;

    hear(fake, FRAME_GET, id);
    fake->seen[GET].takes = 3;
    for (size_t at = 0; at < WINDOW; at += WINDOW / 16)
        say_bytes(fake, FRAME_DATA, id, 0, at, WINDOW / 16, 'a');
    check_alive(fake);
    hear_nothing(fake);
    assert_int_equal(fake->seen[GET].out[1].length, 3);
    box_get_resume(fake->box, id); /* it still takes nothing */
    hear_nothing(fake);
    fake->seen[GET].takes = WINDOW / 2;
    box_get_resume(fake->box, id);
    frame = hear(fake, FRAME_ACK, id);
    assert_int_equal(message_ack_unpack(&frame, &ack), 0);
    assert_true(ack.offset == WINDOW / 2 + 3);
    say_done(fake, id, EIO); /* its end is told behind its last byte */
    check_alive(fake);
    assert_int_equal(fake->seen[GET].ended, 0);
    fake->seen[GET].takes = SIZE_MAX;
    box_get_resume(fake->box, id);
    assert_int_equal(fake->seen[GET].out[1].length, WINDOW);
    assert_int_equal(fake->seen[GET].ended, 1);
    assert_int_equal(fake->seen[GET].err.num, -EIO);
    hear_nothing(fake);
    box_get_resume(fake->box, id);
}

/* More than the window: nobody acknowledged it. */
static void test_get_over_the_window(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_get(fake);

    fake->seen[GET].takes = 0;
    for (size_t at = 0; at < WINDOW; at += WINDOW / 16)
        say_bytes(fake, FRAME_DATA, id, 0, at, WINDOW / 16, 'a');
    check_alive(fake);
    say_bytes(fake, FRAME_DATA, id, 0, WINDOW, 1, 'b');
    assert_int_equal(fake_pump(fake), -EPIPE);
    assert_int_equal(fake->seen[GET].ended, 1);
}

/* An end that is known stays one when the box is lost; its reader is only slow. */
static void test_get_outlives_the_box(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_get(fake);

    fake->seen[GET].takes = 0;
    say_bytes(fake, FRAME_DATA, id, 0, 0, 5, 'a');
    say_done(fake, id, 0);
    close(fake->fd);
    fake->fd = -1;
    assert_int_equal(fake_pump(fake), 0);
    assert_int_equal(box_fd(fake->box), -1);
    fake->seen[GET].takes = SIZE_MAX;
    box_get_resume(fake->box, id);
    assert_int_equal(fake->seen[GET].out[1].length, 5);
    assert_int_equal(fake->seen[GET].ended, 1);
    assert_int_equal(fake->seen[GET].err.num, 0);
    assert_int_equal(fake_pump(fake), -EPIPE);
}

static void test_get_a_part(void **state)
{
    struct fake *fake = *state;
    struct message_path path;
    struct frame frame;

    assert_int_equal(box_get(fake->box, "/tmp/b", 7, 10, &get_seen, &fake->seen[GET],
                             &fake->id[GET], &fake->err),
                     0);
    frame = hear(fake, FRAME_GET, fake->id[GET]);
    assert_int_equal(message_path_unpack(&frame, &path), 0);
    assert_true(path.offset == 7 && path.bytes == 10);
    say_bytes(fake, FRAME_DATA, fake->id[GET], 0, 0, 10, 'a');
    check_alive(fake);
    say_bytes(fake, FRAME_DATA, fake->id[GET], 0, 10, 1, 'a'); /* more than was asked for */
    assert_int_equal(fake_pump(fake), -EPIPE);
    assert_int_equal(fake->seen[GET].out[1].length, 10);
}

static void test_put_spec(void **state)
{
    struct put_spec spec = {
        .path = "/tmp/x", .mode = 0600, .is_in_place = true, .is_new = true, .offset = 99};
    struct fake *fake = *state;
    struct message_path path;
    struct frame frame;

    assert_int_equal(
        box_put(fake->box, &spec, &put_seen, &fake->seen[PUT], &fake->id[PUT], &fake->err), 0);
    frame = hear(fake, FRAME_PUT, fake->id[PUT]);
    assert_int_equal(message_path_unpack(&frame, &path), 0);
    assert_true(path.mode == 0600 && path.offset == 99);
    assert_int_equal(path.flags, PUT_IN_PLACE | PUT_NEW);
}

static void test_list(void **state)
{
    static char longest[LIMIT_PATH_BYTES + 1];
    struct fake *fake = *state;
    uint32_t id = start_list(fake);

    hear_path(fake, FRAME_LIST, id, "/tmp/output", 0);
    say_entry(fake, id, "../x y", 6); /* judged by others */
    check_alive(fake);
    assert_string_equal(fake->seen[LIST].name, "../x y");
    assert_int_equal(fake->seen[LIST].mode, 0100640);
    assert_int_equal(fake->seen[LIST].bytes, 77);
    memset(longest, 'n', sizeof(longest));
    say_entry(fake, id, longest, LIMIT_PATH_BYTES);
    check_alive(fake);
    assert_int_equal(strlen(fake->seen[LIST].name), LIMIT_PATH_BYTES);
    say_done(fake, id, 0);
    check_alive(fake);
    assert_int_equal(fake->seen[LIST].entries, 2);
    assert_int_equal(fake->seen[LIST].ended, 1);
    assert_int_equal(fake->seen[LIST].err.num, 0);
}

/* A listing without end is cut at the ceiling. */
static void test_list_without_end(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_list(fake);

    fake->box->calls->entries = LIMIT_LIST_ENTRIES - 1;
    say_entry(fake, id, "last", 4);
    check_alive(fake);
    say_entry(fake, id, "more", 4);
    assert_int_equal(fake_pump(fake), -EPIPE);
    assert_int_equal(fake->seen[LIST].entries, 1);
    assert_int_equal(fake->seen[LIST].ended, 1);
}

/* ---- what a warden may not say about files; all three are pending ---- */

static void data_with_a_hole(struct fake *fake)
{
    say_bytes(fake, FRAME_DATA, fake->id[GET], 0, 1, 1, 'x');
}

static void data_without_bytes(struct fake *fake)
{
    say_bytes(fake, FRAME_DATA, fake->id[GET], 0, 0, 0, 0);
}

static void data_on_a_stream(struct fake *fake)
{
    say_bytes(fake, FRAME_DATA, fake->id[GET], 1, 0, 1, 'x');
}

static void data_for_put(struct fake *fake)
{
    say_bytes(fake, FRAME_DATA, fake->id[PUT], 0, 0, 1, 'x');
}

static void data_for_list(struct fake *fake)
{
    say_bytes(fake, FRAME_DATA, fake->id[LIST], 0, 0, 1, 'x');
}

static void output_for_get(struct fake *fake)
{
    say_bytes(fake, FRAME_OUTPUT, fake->id[GET], 1, 0, 1, 'x');
}

static void entry_for_get(struct fake *fake)
{
    say_entry(fake, fake->id[GET], "x", 1);
}

static void size_twice(struct fake *fake)
{
    say_entry(fake, fake->id[GET], "", 0);
    say_entry(fake, fake->id[GET], "", 0);
}

static void size_after_bytes(struct fake *fake)
{
    say_bytes(fake, FRAME_DATA, fake->id[GET], 0, 0, 1, 'x');
    say_entry(fake, fake->id[GET], "", 0);
}

static void entry_without_name(struct fake *fake)
{
    say_entry(fake, fake->id[LIST], "", 0);
}

static void entry_with_nul(struct fake *fake)
{
    say_entry(fake, fake->id[LIST], "a\0b", 3);
}

static void entry_too_long(struct fake *fake)
{
    static char name[LIMIT_PATH_BYTES + 1];

    memset(name, 'n', sizeof(name));
    say_entry(fake, fake->id[LIST], name, sizeof(name));
}

static void entry_cut(struct fake *fake)
{
    static const uint8_t zeros[MESSAGE_PATH_HEADER - 1];

    say(fake, FRAME_ENTRY, fake->id[LIST], zeros, sizeof(zeros));
}

static void ack_for_get(struct fake *fake)
{
    say_ack(fake, fake->id[GET], 0, 0);
}

static void ack_for_list(struct fake *fake)
{
    say_ack(fake, fake->id[LIST], 0, 0);
}

static void ack_beyond(struct fake *fake)
{
    say_ack(fake, fake->id[PUT], 0, 1);
}

static void exited_for_put(struct fake *fake)
{
    say_exited(fake, fake->id[PUT], &(struct message_exited){0});
}

static void started_for_list(struct fake *fake)
{
    say_started(fake, fake->id[LIST]);
}

static void done_cut(struct fake *fake)
{
    say(fake, FRAME_DONE, fake->id[PUT], "123", 3);
}

static void done_for_nobody(struct fake *fake)
{
    say_done(fake, fake->id[LIST] + 1, 0);
}

static void go_away(struct fake *fake)
{
    close(fake->fd);
    fake->fd = -1;
}

/* Exec, put, get and list are pending: a loss fails each of them exactly once. */
static void test_broken_protocol(void **state)
{
    static void (*const ways[])(struct fake * fake) = {
        data_with_a_hole, data_without_bytes, data_on_a_stream,   data_for_put,   data_for_list,
        output_for_get,   entry_for_get,      entry_without_name, entry_with_nul, entry_too_long,
        entry_cut,        ack_for_get,        ack_for_list,       ack_beyond,     exited_for_put,
        size_twice,       size_after_bytes,   started_for_list,   done_cut,       done_for_nobody,
        go_away,
    };

    (void)state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        void *one = NULL;
        struct fake *fake;

        assert_int_equal(fake_set_up(&one), 0);
        fake = one;
        start_exec(fake, EXEC, 0);
        start_put(fake);
        start_get(fake);
        start_list(fake);
        ways[i](fake);
        check_lost(fake, 4);
        fake_tear_down(&one);
    }
}

static void test_done_is_told_once(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_get(fake);

    say_done(fake, id, 0);
    say_done(fake, id, 0);
    assert_int_equal(fake_pump(fake), -EPIPE);
    assert_int_equal(fake->seen[GET].ended, 1);
}

static void test_calls_on_a_lost_box(void **state)
{
    static const char *const argv[] = {"true", NULL};
    struct exec_spec spec = {.argv = argv};
    struct fake *fake = *state;
    struct error err = {0};
    uint32_t id = 0;

    go_away(fake);
    assert_int_equal(fake_pump(fake), -EPIPE);
    assert_true(box_exec(fake->box, &spec, &exec_seen, &fake->seen[0], &id, &err) < 0);
    assert_ptr_equal(err.code, ERROR_BOX_LOST);
    assert_true(box_put(fake->box, &(struct put_spec){.path = "/tmp/x"}, &put_seen, &fake->seen[1],
                        &id, &err) < 0);
    assert_true(box_get(fake->box, "/tmp/x", 0, 0, &get_seen, &fake->seen[2], &id, &err) < 0);
    assert_true(box_list(fake->box, "/tmp/x", 0, &list_seen, &fake->seen[3], &id, &err) < 0);
    assert_int_equal(fake_pump(fake), -EPIPE);
    for (int i = 0; i < 4; i++) /* refused at once, not called back */
        assert_int_equal(fake->seen[i].ended + fake->seen[i].failed, 0);
}

static void test_path_too_long(void **state)
{
    static char path[LIMIT_PATH_BYTES + 2];
    struct fake *fake = *state;
    uint32_t id;

    memset(path, 'p', sizeof(path) - 1);
    assert_int_equal(box_get(fake->box, path, 0, 0, &get_seen, &fake->seen[GET], &id, &fake->err),
                     -ENAMETOOLONG);
    hear_nothing(fake);
    path[LIMIT_PATH_BYTES] = 0;
    assert_int_equal(box_get(fake->box, path, 0, 0, &get_seen, &fake->seen[GET], &id, &fake->err),
                     0);
    hear_path(fake, FRAME_GET, id, path, 0);
}

/* Pending calls of a box that is freed are forgotten. */
static void test_free_calls_nobody(void **state)
{
    struct fake *fake = *state;

    start_exec(fake, EXEC, 0);
    fake->seen[EXEC].takes = 0;
    say_bytes(fake, FRAME_OUTPUT, fake->id[EXEC], 1, 0, 9, 'h');
    start_put(fake);
    start_get(fake);
    start_list(fake);
    check_alive(fake);
    box_free(fake->box);
    fake->box = NULL;
    for (int i = 0; i < 4; i++)
        assert_int_equal(fake->seen[i].ended + fake->seen[i].failed, 0);
}

#define WITH_A_FAKE(test) cmocka_unit_test_setup_teardown(test, fake_set_up, fake_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_FAKE(test_put),
        WITH_A_FAKE(test_put_window),
        WITH_A_FAKE(test_put_fails_early),
        WITH_A_FAKE(test_get),
        WITH_A_FAKE(test_get_tells_its_size),
        WITH_A_FAKE(test_get_fails),
        WITH_A_FAKE(test_get_is_not_taken),
        WITH_A_FAKE(test_get_over_the_window),
        WITH_A_FAKE(test_get_outlives_the_box),
        WITH_A_FAKE(test_get_a_part),
        WITH_A_FAKE(test_put_spec),
        WITH_A_FAKE(test_list),
        WITH_A_FAKE(test_list_without_end),
        cmocka_unit_test(test_broken_protocol),
        WITH_A_FAKE(test_done_is_told_once),
        WITH_A_FAKE(test_calls_on_a_lost_box),
        WITH_A_FAKE(test_path_too_long),
        WITH_A_FAKE(test_free_calls_nobody),
    };

    return cmocka_run_group_tests_name("runtime/box/files", tests, NULL, NULL);
}
