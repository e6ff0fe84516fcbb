/*
 * test_protocol.c - every message there and back, cut, stretched and out of range; descriptors that
 * come along, that must not, and that are too many: none is left open.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/isolation.h"
#include "boxes/boxes.h"
#include "launcher/protocol.h"
#include "open_fds.h"
#include "sandbox/sandbox.h"
#include "sys/packet.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const struct launcher_message samples[] = {
    {.type = LAUNCHER_HELLO, .number = LAUNCHER_VERSION},
    {.type = LAUNCHER_READY},
    {.type = LAUNCHER_MAKE,
     .make = {.serial = 1,
              .key = "session_0123456789abcdef",
              .memory_bytes = 1ULL << 40,
              .disk_bytes = 77,
              .pids = 256,
              .cpu_millis = 1500,
              .minimum = ISOLATION_STRICT,
              .has_data = true,
              .has_packages = true,
              .layer = HASH,
              .tier = 2,
              .kernel = 1,
              .staging = STAGING_PACKAGES,
              .tenant = "acme-2",
              .python = "/home/user/with space/\xc3\xa9/bin/python",
              .node = "/opt/node/bin/node"}},
    {.type = LAUNCHER_END, .number = 4000000000},
    {.type = LAUNCHER_USAGE, .number = 12},
    {.type = LAUNCHER_QUIT},
    {.type = LAUNCHER_KERNEL, .kernel = {.number = 7, .kernel = 8, .tier = 1}},
    {.type = LAUNCHER_COMMIT_LAYER, .commit_layer = {.serial = 3, .key = "i_1"}},
    {.type = LAUNCHER_DISCARD, .commit_layer = {.key = "i_1", .is_packages = true}},
    {.type = LAUNCHER_LOOK},
    {.type = LAUNCHER_DEFAULT, .layer = HASH},
    {.type = LAUNCHER_FORGET, .layer = HASH},
    {.type = LAUNCHER_BOX,
     .box = {.number = 3,
             .key = "k",
             .memory_bytes = 5,
             .layers = ISOLATION_LAYER_ALL,
             .missing = 1,
             .memory_by = HELD_BY_GROUP,
             .disk_by = HELD_BY_TMPFS,
             .group = CGROUP_V2,
             .made_ns = UINT64_MAX,
             .tier = TIER_NONE}},
    {.type = LAUNCHER_WELCOME, .number = 2},
    {.type = LAUNCHER_MADE,
     .box = {.serial = 9,
             .number = 3,
             .key = "abc_9",
             .memory_by = HELD_BY_CONTAINER,
             .kernel = KERNEL_FIRST,
             .warden_owns_kernel = true}},
    {.type = LAUNCHER_REFUSED,
     .refused = {.serial = 5,
                 .error = {.num = -EPERM, .code = ERROR_REFUSED, .text = "because"},
                 .layers = 6,
                 .missing = 8}},
    {.type = LAUNCHER_ENDED,
     .usage = {.number = 1,
               .cpu_us = 2,
               .memory_bytes = 3,
               .oom_kills = 4,
               .was_asked = true,
               .why = WHY_PROVIDER_GONE,
               .counted = COUNTED_SOME}},
    {.type = LAUNCHER_USED, .usage = {.number = 1, .cpu_us = UINT64_MAX}},
    {.type = LAUNCHER_STOPPING, .number = 10000},
    {.type = LAUNCHER_KERNEL_MADE, .kernel_made = {.number = 7, .kernel = 8, .num = -EAGAIN}},
    {.type = LAUNCHER_KERNEL_ENDED,
     .kernel_ended =
         {.number = 7, .kernel = 8, .status = 9, .cpu_us = 10, .max_rss_bytes = UINT64_MAX}},
    {.type = LAUNCHER_LAYER_COMMITTED,
     .layer_committed = {.serial = 3, .layer = HASH, .bytes = 4, .files = 5}},
    {.type = LAUNCHER_STATE,
     .state = {.layer = HASH, .tier = 2, .is_ready = true, .pid = 3, .ready_ns = UINT64_MAX}},
    {.type = LAUNCHER_VERDICT,
     .verdict = {.number = 7, .host = "pypi.org", .port = 443, .reason = "not_listed"}},
    {.type = LAUNCHER_FAILED,
     .failed = {.num = -EACCES, .code = ERROR_REFUSED, .text = "no key: 'bailey key new'"}},
    {.type = LAUNCHER_SETTINGS},
    {.type = LAUNCHER_PROVIDER_HOST, .host = "docker"},
    {.type = LAUNCHER_SPENT, .spent = {.tenant = "acme", .cpu_us = UINT64_MAX}},
};

static size_t pack(const struct launcher_message *message, uint8_t *data)
{
    long length = launcher_message_pack(message, data, LAUNCHER_MESSAGE_MAX);

    assert_true(length > 0 && length <= LAUNCHER_MESSAGE_MAX);
    return (size_t)length;
}

/* Memory that ends with the message: a read behind it is seen by a sanitizer. */
static int unpack_exact(const uint8_t *data, size_t length, struct launcher_message *ret)
{
    uint8_t *copy = malloc(length ? length : 1);
    int r;

    assert_non_null(copy);
    memcpy(copy, data, length);
    r = launcher_message_unpack(copy, length, ret);
    free(copy);
    return r;
}

static void test_there_and_back(void **state)
{
    uint8_t first[LAUNCHER_MESSAGE_MAX], second[LAUNCHER_MESSAGE_MAX];

    (void)state;
    assert_int_equal(ARRAY_SIZE(samples), _LAUNCHER_TYPE_MAX - 1);
    for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
        struct launcher_message message;
        size_t length = pack(&samples[i], first);

        assert_int_equal(samples[i].type, i + 1);
        assert_int_equal(unpack_exact(first, length, &message), 0);
        assert_int_equal(message.type, samples[i].type);
        assert_int_equal(pack(&message, second), length);
        assert_memory_equal(first, second, length);
    }
}

static void test_words_come_back_as_ours(void **state)
{
    struct launcher_message message = samples[LAUNCHER_REFUSED - 1];
    uint8_t data[LAUNCHER_MESSAGE_MAX];

    (void)state;
    message.refused.error.stage = sandbox_stage_name(3);
    memset(message.refused.error.text, 'x', ERROR_TEXT_MAX - 1);
    assert_int_equal(unpack_exact(data, pack(&message, data), &message), 0);
    assert_ptr_equal(message.refused.error.code, ERROR_REFUSED);
    assert_string_equal(message.refused.error.stage, sandbox_stage_name(3));
    assert_int_equal(strlen(message.refused.error.text), ERROR_TEXT_MAX - 1);
    message.refused.error.stage = "no stage of ours";
    assert_int_equal(unpack_exact(data, pack(&message, data), &message), 0);
    assert_null(message.refused.error.stage);
    message.refused.error.stage = "write id maps";
    assert_int_equal(unpack_exact(data, pack(&message, data), &message), 0);
    assert_string_equal(message.refused.error.stage, "write id maps");
    for (unsigned i = 1; error_code_word(i); i++) {
        message.refused.error.code = error_code_word(i);
        assert_int_equal(unpack_exact(data, pack(&message, data), &message), 0);
        assert_ptr_equal(message.refused.error.code, error_code_word(i));
    }
    message.refused.error.code = "no code of ours";
    assert_int_equal(unpack_exact(data, pack(&message, data), &message), 0);
    assert_ptr_equal(message.refused.error.code, ERROR_ENGINE);
}

/* The text of these is what is left: shorter and longer ones are other texts. 0: it is whole. */
static size_t open_end(const struct launcher_message *message)
{
    if (message->type == LAUNCHER_FAILED)
        return 6;
    return message->type == LAUNCHER_REFUSED || message->type == LAUNCHER_LAYER_COMMITTED ? 18 : 0;
}

static void test_cut_and_stretched(void **state)
{
    uint8_t data[LAUNCHER_MESSAGE_MAX + 1] = {0};
    struct launcher_message message;

    (void)state;
    assert_int_equal(unpack_exact(data, 0, &message), -EPROTO);
    for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
        size_t length = pack(&samples[i], data);

        if (open_end(&samples[i])) {
            assert_int_equal(unpack_exact(data, open_end(&samples[i]), &message), -EPROTO);
            continue;
        }
        data[length] = 0;
        assert_int_equal(unpack_exact(data, length + 1, &message), -EPROTO);
        for (size_t cut = 0; cut < length; cut++)
            assert_int_equal(unpack_exact(data, cut, &message), -EPROTO);
    }
}

static void test_out_of_range(void **state)
{
    static const struct {
        enum launcher_type type;
        size_t at;
        uint8_t byte;
    } rows[] = {
        {LAUNCHER_HELLO, 0, 0},
        {LAUNCHER_HELLO, 0, _LAUNCHER_TYPE_MAX},
        {LAUNCHER_HELLO, 0, 255},
        {LAUNCHER_MAKE, 5, 0},   /* no key */
        {LAUNCHER_MAKE, 5, 48},  /* one that leaves no room for its end */
        {LAUNCHER_MAKE, 6, '/'}, /* not a letter of keys */
        {LAUNCHER_MAKE, 6, '.'},
        {LAUNCHER_MAKE, 6, 'A'},
        {LAUNCHER_MAKE, 6, 0},
        {LAUNCHER_MAKE, 54, _ISOLATION_MAX},
        {LAUNCHER_MAKE, 55, 2},   /* has_data */
        {LAUNCHER_BOX, 37, 0xff}, /* layers that there are not */
        {LAUNCHER_BOX, 43, _HELD_BY_MAX},
        {LAUNCHER_BOX, 47, CGROUP_V2 + 1},
        {LAUNCHER_REFUSED, 13, 0},   /* an error that is none */
        {LAUNCHER_REFUSED, 16, 1},   /* one that is no errno */
        {LAUNCHER_REFUSED, 17, 0},   /* no code */
        {LAUNCHER_REFUSED, 17, 200}, /* nor that */
        {LAUNCHER_REFUSED, 18, 200}, /* no stage */
        {LAUNCHER_REFUSED, 18, 34},  /* behind the last stage */
        {LAUNCHER_REFUSED, 19, 0},   /* a text with an end inside */
        {LAUNCHER_ENDED, 29, 2},     /* was_asked */
        {LAUNCHER_ENDED, 30, _WHY_MAX},
        {LAUNCHER_DEFAULT, 1, 63}, /* not as long as a hash */
        {LAUNCHER_FORGET, 2, '/'},
        {LAUNCHER_FAILED, 1, 0},    /* an error that is none */
        {LAUNCHER_FAILED, 9, 0x1b}, /* a text that a terminal obeys */
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        uint8_t data[LAUNCHER_MESSAGE_MAX];
        struct launcher_message message;
        size_t length = pack(&samples[rows[i].type - 1], data);

        assert_true(rows[i].at < length);
        assert_int_equal(unpack_exact(data, length, &message), 0);
        data[rows[i].at] = rows[i].byte;
        if (unpack_exact(data, length, &message) != -EPROTO)
            fail_msg("row %zu was taken", i);
    }
}

/* DEFAULT may name none; FORGET may not. */
static void test_no_layer(void **state)
{
    struct launcher_message message = {.type = LAUNCHER_DEFAULT};
    uint8_t data[LAUNCHER_MESSAGE_MAX];

    (void)state;
    assert_int_equal(unpack_exact(data, pack(&message, data), &message), 0);
    assert_string_equal(message.layer, "");
    message.type = LAUNCHER_FORGET;
    assert_int_equal(unpack_exact(data, pack(&message, data), &message), -EPROTO);
}

static void test_too_small(void **state)
{
    uint8_t data[8];

    (void)state;
    assert_int_equal(launcher_message_pack(&samples[LAUNCHER_MAKE - 1], data, sizeof(data)),
                     -EMSGSIZE);
}

/* ---- over a socket ---- */

static void make_pair(int pair[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
}

static void test_a_descriptor_comes_along(void **state)
{
    struct launcher_message message;
    unsigned before = open_fds();
    int pair[2], fd = -1;

    (void)state;
    make_pair(pair);
    assert_int_equal(launcher_receive(pair[1], &message, &fd), 0);
    assert_int_equal(launcher_send(pair[0], &samples[LAUNCHER_MADE - 1], pair[0]), 1);
    assert_int_equal(launcher_receive(pair[1], &message, &fd), 1);
    assert_int_equal(message.type, LAUNCHER_MADE);
    assert_true(fd > pair[1]);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    assert_int_equal(launcher_send(pair[0], &samples[0], -1), 1);
    assert_int_equal(launcher_receive(pair[1], &message, &fd), 1);
    assert_int_equal(fd, -1);
    close(pair[0]);
    assert_int_equal(launcher_receive(pair[1], &message, &fd), -EPIPE);
    assert_int_equal(launcher_send(pair[1], &samples[0], -1), -EPIPE);
    close(pair[1]);
    assert_int_equal(open_fds(), before);
}

static void test_descriptors_where_they_do_not_belong(void **state)
{
    struct launcher_message message;
    unsigned before = open_fds();
    int pair[2], fd = -1;

    (void)state;
    make_pair(pair);
    assert_int_equal(launcher_send(pair[0], &samples[0], pair[0]), 1);
    assert_int_equal(launcher_receive(pair[1], &message, &fd), -EPROTO);
    assert_int_equal(launcher_send(pair[0], &samples[LAUNCHER_BOX - 1], -1), 1);
    assert_int_equal(launcher_receive(pair[1], &message, &fd), -EPROTO);
    assert_int_equal(fd, -1);
    close(pair[0]);
    close(pair[1]);
    assert_int_equal(open_fds(), before);
}

static void test_hostile_packets_leave_nothing(void **state)
{
    uint8_t data[2 * LAUNCHER_MESSAGE_MAX] = {0};
    size_t length = pack(&samples[LAUNCHER_MADE - 1], data);
    struct launcher_message message;
    unsigned before = open_fds();
    int pair[2], fds[PACKET_FDS_MAX], fd = -1;

    (void)state;
    make_pair(pair);
    for (size_t i = 0; i < PACKET_FDS_MAX; i++)
        fds[i] = pair[0];
    for (size_t count = 2; count <= PACKET_FDS_MAX; count++) { /* more descriptors than one */
        assert_int_equal(packet_send(pair[0], data, length, fds, count, 0), 0);
        assert_int_equal(launcher_receive(pair[1], &message, &fd), -EPROTO);
    }
    assert_int_equal(packet_send(pair[0], data, sizeof(data), fds, 1, 0), 0); /* too long */
    assert_int_equal(launcher_receive(pair[1], &message, &fd), -EPROTO);
    assert_int_equal(packet_send(pair[0], "\377", 1, fds, 1, 0), 0);
    assert_int_equal(launcher_receive(pair[1], &message, &fd), -EPROTO);
    assert_int_equal(fd, -1);
    close(pair[0]);
    close(pair[1]);
    assert_int_equal(open_fds(), before);
}

static void test_a_full_socket_would_block(void **state)
{
    struct launcher_message message;
    int pair[2], fd = -1, sent = 0, r;

    (void)state;
    make_pair(pair);
    while ((r = launcher_send(pair[0], &samples[LAUNCHER_MAKE - 1], -1)) == 1)
        sent++;
    assert_int_equal(r, 0);
    assert_true(sent > 0);
    while (launcher_receive(pair[1], &message, &fd) == 1)
        sent--;
    assert_int_equal(sent, 0);
    close(pair[0]);
    close(pair[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_words_come_back_as_ours),
        cmocka_unit_test(test_cut_and_stretched),
        cmocka_unit_test(test_out_of_range),
        cmocka_unit_test(test_no_layer),
        cmocka_unit_test(test_too_small),
        cmocka_unit_test(test_a_descriptor_comes_along),
        cmocka_unit_test(test_descriptors_where_they_do_not_belong),
        cmocka_unit_test(test_hostile_packets_leave_nothing),
        cmocka_unit_test(test_a_full_socket_would_block),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
