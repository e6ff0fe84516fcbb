/*
 * test_warden.c - the warden that is no process: frames that it answers without a server, frames
 * that cannot be right, and what it makes of a server's words.
 */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "config/config.h"
#include "runtime/remote/remote_private.h"
#include "sandbox/guest_stage.h"
#include "wire/file_message.h"

static struct config config = {.url = {.address = "http://server:1"}};
static struct remote remote = {.config = &config, .targets = {{.address = "http://server:1"}}};
static struct remote_box *box;

static int begin(void **state)
{
    (void)state;
    box = calloc(1, sizeof(*box));
    box->remote = remote.targets[0].remote = &remote;
    box->target = &remote.targets[0];
    box->args = BUF_INIT(LIMIT_CELL_TEXT);
    box->out = BUF_INIT(16 * MIB);
    return 0;
}

static int begin_plain(void **state)
{
    begin(state);
    return remote_plain_open(box);
}

static int end(void **state)
{
    (void)state;
    remote_warden_free(box);
    free(box);
    return 0;
}

/* A frame of the broker; what the stream says of it. */
static ssize_t give(enum frame_type type, uint32_t id, const void *payload, ssize_t length)
{
    uint8_t data[WIRE_FRAME_MAX];

    assert_true(length >= 0);
    frame_header(data, type, id, (size_t)length);
    if (length > 0)
        memcpy(data + FRAME_HEADER, payload, (size_t)length);
    return remote_stream_ops.write(box, data, FRAME_HEADER + (size_t)length);
}

/* The next frame for the broker; its payload is valid until the next one. */
static bool take(struct frame *ret)
{
    static uint8_t data[WIRE_FRAME_MAX];
    uint32_t length;

    if (remote_stream_ops.read(box, data, FRAME_HEADER) != FRAME_HEADER)
        return false;
    memcpy(&length, data, sizeof(length));
    if (length > FRAME_HEADER)
        assert_int_equal(remote_stream_ops.read(box, data + FRAME_HEADER, length - FRAME_HEADER),
                         length - FRAME_HEADER);
    assert_int_equal(frame_decode(data, length, ret), 0);
    return true;
}

static void expect_number(enum frame_type type, uint32_t id, uint32_t number)
{
    struct frame frame;
    uint32_t found;

    assert_true(take(&frame));
    assert_int_equal(frame.type, type);
    assert_int_equal(frame.id, id);
    assert_int_equal(message_number_unpack(&frame, &found), 0);
    assert_int_equal(found, number);
}

static void expect_no_exec(uint32_t id, unsigned number)
{
    struct message_fail fail;
    struct frame frame;

    assert_true(take(&frame));
    assert_int_equal(frame.type, FRAME_NOEXEC);
    assert_int_equal(frame.id, id);
    assert_int_equal(message_fail_unpack(&frame, &fail), 0);
    assert_int_equal(fail.stage, GUEST_STAGE_EXEC);
    assert_int_equal(fail.error, number);
}

static ssize_t give_path(enum frame_type type, uint32_t id, const char *path)
{
    struct message_path message = {.path = path, .path_length = strlen(path)};
    uint8_t payload[LIMIT_PATH_BYTES + MESSAGE_PATH_HEADER];

    return give(type, id, payload, message_path_pack(&message, payload, sizeof(payload)));
}

static ssize_t give_exec(uint32_t id, uint32_t flags, const void *strings, size_t length)
{
    struct message_exec exec = {.flags = flags, .argc = 1, .args_length = (uint32_t)length};
    uint8_t payload[32];

    assert_true(give(FRAME_ARGS, 0, strings, (ssize_t)length) > 0);
    return give(FRAME_EXEC, id, payload, message_exec_pack(&exec, payload, sizeof(payload)));
}

/* ---- frames ---- */

static void test_another_broker_is_greeted_with_the_highest_id(void **state)
{
    struct message_cell cell = {.kernel = 4};
    uint8_t payload[32];

    (void)state;
    give(FRAME_CELL, 9, payload, message_cell_pack(&cell, payload, sizeof(payload)));
    expect_no_exec(9, ESRCH); /* no such kernel */
    give(FRAME_HELLO, 77, NULL, 0);
    expect_number(FRAME_WELCOME, 77, 9);
}

/* The box stays: only the question is refused. */
static void test_ports_are_not_passed_on(void **state)
{
    uint8_t payload[2];

    (void)state;
    assert_true(give(FRAME_PORTS, 1, NULL, 0) > 0);
    expect_number(FRAME_DONE, 1, ENOTSUP);
    assert_true(give(FRAME_CONNECT, 2, payload, message_port_pack(80, payload, 2)) > 0);
    expect_number(FRAME_DONE, 2, ENOTSUP);
}

static void test_text_that_is_no_utf8_is_refused_and_nothing_is_sent(void **state)
{
    (void)state;
    give_exec(3, 0, "\xff\xfe\0", 4);
    expect_no_exec(3, EILSEQ);
    assert_false(box->is_lost);
}

static void test_frames_that_cannot_be_right_lose_the_box(void **state)
{
    static const struct {
        enum frame_type type;
        uint32_t id;
        const char *payload;
        size_t length;
    } rows[] = {
        {FRAME_EXEC, 1, "short", 5}, {FRAME_CELL, 1, "", 0},     {FRAME_GET, 1, "x", 1},
        {FRAME_OUTPUT, 1, "", 0},    {FRAME_MOVE, 1, "\xff", 1},
    };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        begin(state);
        assert_int_equal(give(rows[i].type, rows[i].id, rows[i].payload, (ssize_t)rows[i].length),
                         -EPROTO);
        assert_true(box->is_lost);
        end(state);
    }
    begin(state);
    /* the strings are longer than the EXEC says */
    assert_true(give(FRAME_ARGS, 0, "more", 4) > 0);
    assert_int_equal(give_exec(1, 0, "true\0\0", 7), -EPROTO);
}

static void test_a_lost_box_ends_its_stream_behind_the_last_frame(void **state)
{
    uint8_t data[64];
    struct frame frame;

    (void)state;
    remote_warden_done(box, 5, -ENOENT);
    remote_box_lose(box, true, "a test wants it");
    assert_true(take(&frame));
    assert_int_equal(frame.type, FRAME_DONE);
    assert_int_equal(remote_stream_ops.read(box, data, sizeof(data)), -EPIPE);
    assert_int_equal(box->box.why, WHY_PROVIDER_GONE);
}

static void test_ready_says_what_the_server_says(void **state)
{
    struct message_ready ready;
    struct frame frame;

    (void)state;
    remote_warden_ready(box, 5);
    assert_true(take(&frame));
    assert_int_equal(message_ready_unpack(&frame, &ready), 0);
    assert_int_equal(ready.layers, 5);
    assert_int_equal(ready.missing & 5, 0);
}

/* ---- a server with POST /execute only ---- */

static void test_a_file_of_a_plain_server_waits_for_its_command(void **state)
{
    uint8_t payload[MESSAGE_BYTES_HEADER + 3] = {0};
    struct message_ack ack;
    struct frame frame;

    (void)state;
    message_bytes_header(payload, 0, 0);
    give_path(FRAME_PUT, 1, "/workspace/a.py");
    give(FRAME_PUT_DATA, 1, payload, sizeof(payload));
    assert_true(take(&frame));
    assert_int_equal(frame.type, FRAME_ACK);
    assert_int_equal(message_ack_unpack(&frame, &ack), 0);
    assert_int_equal(ack.offset, 3);
    give(FRAME_PUT_END, 1, NULL, 0);
    expect_number(FRAME_DONE, 1, 0);
}

static void test_what_a_plain_server_cannot_do_is_refused(void **state)
{
    static const enum frame_type types[] = {FRAME_STAT, FRAME_MKDIR, FRAME_REMOVE, FRAME_CHMOD,
                                            FRAME_WATCH};

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
        give_path(types[i], (uint32_t)i + 1, "/workspace/a");
        expect_number(FRAME_DONE, (uint32_t)i + 1, ENOTSUP);
    }
    give_path(FRAME_PUT, 20, "/home/user/a"); /* it has one folder */
    expect_number(FRAME_DONE, 20, ENOTSUP);
    give(FRAME_FREEZE, 21, NULL, 0);
    expect_number(FRAME_DONE, 21, ENOTSUP);
    give_exec(22, EXEC_STDIN, "cat\0", 5);
    expect_no_exec(22, ENOTSUP);
    give_exec(23, EXEC_PTY, "sh\0", 4);
    expect_no_exec(23, ENOTSUP);
    give_path(FRAME_GET, 24, "/tmp/output/none");
    expect_number(FRAME_DONE, 24, ENOENT);
}

/* ---- what a server says ---- */

static void test_a_server_is_known_by_its_info(void **state)
{
    CLEANUP(json_decrefp)
    json_t *bailey = json_pack("{s:s, s:s}", "version", "1", "runtime", "local");
    CLEANUP(json_decrefp) json_t *other = json_pack("{s:i}", "version", 1);

    (void)state;
    assert_int_equal(remote_target_kind_of(200, bailey), TARGET_BAILEY);
    assert_int_equal(remote_target_kind_of(200, other), TARGET_UNKNOWN);
    assert_int_equal(remote_target_kind_of(200, NULL), TARGET_UNKNOWN);
    assert_int_equal(remote_target_kind_of(404, NULL), TARGET_PLAIN);
    assert_int_equal(remote_target_kind_of(401, NULL), TARGET_UNKNOWN);
    assert_int_equal(remote_target_kind_of(500, bailey), TARGET_UNKNOWN);
}

static void test_an_id_of_a_session_is_checked_before_it_is_part_of_a_path(void **state)
{
    (void)state;
    assert_true(remote_target_is_id("s_0123abc"));
    assert_false(remote_target_is_id(NULL));
    assert_false(remote_target_is_id("")); /* its box would be all sessions */
    assert_false(remote_target_is_id("s_1/../s_2"));
    assert_false(remote_target_is_id("s_1?x"));
    assert_false(remote_target_is_id("s_0123456789012345678901234567890123456789012345678901234"));
}

static void test_a_refusal_keeps_its_code_and_its_words(void **state)
{
    CLEANUP(json_decrefp)
    json_t *full = json_pack("{s:{s:s, s:s}}", "error", "code", "disk_full", "message", "no room");
    struct error err = {0};

    (void)state;
    remote_refused(&remote.targets[0], 507, full, &err);
    assert_ptr_equal(err.code, ERROR_DISK_FULL);
    assert_string_equal(err.text, "no room");
    assert_int_equal(remote_result_errno(&err), -ENOSPC);
    remote_refused(&remote.targets[0], 502, NULL, &err); /* not of a Bailey */
    assert_non_null(strstr(err.text, "http://server:1 answered with HTTP status 502"));
    remote_refused(&remote.targets[0], 403, NULL, &err); /* of a proxy */
    assert_non_null(strstr(err.text, "HTTP status 403"));
    remote_refused(&remote.targets[0], 401, NULL, &err);
    assert_ptr_equal(err.code, ERROR_PROVIDER_UNAVAILABLE);
    assert_string_equal(err.provider, "url");
    assert_non_null(strstr(err.text, "SANDBOX_URL_KEY"));
}

static struct remote_run *a_run(enum run_kind kind)
{
    struct remote_run *run = calloc(1, sizeof(*run));

    run->box = box;
    run->kind = kind;
    run->is_started = true;
    return run;
}

static void test_an_end_is_what_the_result_says(void **state)
{
    struct remote_run *run = a_run(RUN_COMMAND);
    CLEANUP(json_decrefp)
    json_t *result =
        json_pack("{s:i, s:f, s:{s:b, s:i, s:{s:i, s:i}}}", "exit_code", 137, "duration", 0.5,
                  "meta", "disk_full", 1, "signal", 9, "usage", "cpu_ms", 7, "max_rss_bytes", 4096);

    (void)state;
    remote_result_read(run, result);
    assert_true(run->is_over && !run->has_failed);
    assert_int_equal(run->exited.signal, 9);
    assert_int_equal(run->exited.exit_code, 0);
    assert_true(run->exited.flags & EXITED_DISK_FULL);
    assert_int_equal(run->exited.duration_ns, 500000000);
    assert_int_equal(run->exited.cpu_us, 7000);
    assert_int_equal(run->exited.max_rss_bytes, 4096);
    free(run);
}

static void test_a_cell_whose_kernel_died_says_so(void **state)
{
    struct remote_run *run = a_run(RUN_CELL);
    CLEANUP(json_decrefp)
    json_t *result = json_pack("{s:i, s:{s:b}}", "exit_code", 0, "meta", "kernel_lost", 1);

    (void)state;
    remote_result_read(run, result);
    assert_true(run->exited.flags & EXITED_KERNEL_DIED);
    free(run);
}

static void test_a_result_of_nonsense_is_an_end(void **state)
{
    struct remote_run *run = a_run(RUN_COMMAND);
    CLEANUP(json_decrefp)
    json_t *result = json_pack("{s:s, s:i, s:{s:i, s:s}}", "exit_code", "x", "duration", -5, "meta",
                               "signal", 100000, "usage", "none");

    (void)state;
    remote_result_read(run, result);
    assert_true(run->is_over);
    assert_int_equal(run->exited.signal, 0);
    assert_int_equal(run->exited.duration_ns, 0);
    json_object_set_new(result, "duration", json_real(1e300));
    remote_result_read(run, result);
    assert_int_equal(run->exited.duration_ns, 1000000000000000000);
    free(run);
}

#define WITH(test_) cmocka_unit_test_setup_teardown(test_, begin, end)
#define PLAIN(test_) cmocka_unit_test_setup_teardown(test_, begin_plain, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH(test_another_broker_is_greeted_with_the_highest_id),
        WITH(test_ports_are_not_passed_on),
        WITH(test_text_that_is_no_utf8_is_refused_and_nothing_is_sent),
        cmocka_unit_test_teardown(test_frames_that_cannot_be_right_lose_the_box, end),
        WITH(test_a_lost_box_ends_its_stream_behind_the_last_frame),
        WITH(test_ready_says_what_the_server_says),
        PLAIN(test_a_file_of_a_plain_server_waits_for_its_command),
        PLAIN(test_what_a_plain_server_cannot_do_is_refused),
        cmocka_unit_test(test_a_server_is_known_by_its_info),
        cmocka_unit_test(test_an_id_of_a_session_is_checked_before_it_is_part_of_a_path),
        cmocka_unit_test(test_a_refusal_keeps_its_code_and_its_words),
        WITH(test_an_end_is_what_the_result_says),
        WITH(test_a_cell_whose_kernel_died_says_so),
        WITH(test_a_result_of_nonsense_is_an_end),
    };

    return cmocka_run_group_tests_name("runtime/remote/warden", tests, NULL, NULL);
}
