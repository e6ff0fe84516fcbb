/*
 * test_handover.c - what one launcher tells the next: there and back, cut at every byte, with one
 * byte changed, longer than today's reader knows, and of other versions.
 */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "boxes/boxes.h"
#include "launcher/handover.h"

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define HEAD 28 /* magic, version, wire, count */

static const struct handover_launcher launcher_sample = {
    .generation = 7,
    .next_number = 4000000000,
    .next_slot = 3,
    .next_kernel = 9,
    .layer = HASH,
    .former_self_fd = 40,
    .former_engine_fd = -1,
    .is_return = true,
    .reason = "it did not serve",
};

static const struct handover_box box_sample = {
    .facts = {.number = 12,
              .key = "session_0123456789abcdef",
              .memory_bytes = 1ULL << 40,
              .disk_bytes = 77,
              .pids = 256,
              .cpu_millis = 1500,
              .layers = 0x3ff,
              .missing = 1,
              .memory_by = HELD_BY_GROUP,
              .pids_by = HELD_BY_RLIMIT,
              .cpu_by = HELD_BY_AFFINITY,
              .disk_by = HELD_BY_TMPFS,
              .group = CGROUP_V1,
              .made_ns = UINT64_MAX,
              .layer = HASH,
              .tier = 2,
              .is_pooled = true},
    .slot = 5,
    .was_asked = true,
    .was_prewarmed = true,
    .staging = STAGING_PACKAGES,
    .pid = 77,
    .pid_fd = 20,
    .channel_fd = 21,
    .ruleset_fd = -1,
    .flavour = CGROUP_V1,
    .group = {"/sys/fs/cgroup/memory/bailey-1", "/p", ""},
    .has_owner = true,
    .owner_slot = 9,
    .tenant = "acme",
    .account = "acme-2",
};

static const struct handover_kernel kernel_sample = {
    .number = 12, .kernel = 1, .pid = 90, .pid_fd = 23};

struct heard {
    struct handover_launcher launcher;
    struct handover_box box;
    struct handover_kernel kernel;
    int engines, boxes, kernels;
};

static int hear_launcher(void *ctx, const struct handover_launcher *launcher)
{
    struct heard *heard = ctx;

    heard->launcher = *launcher;
    heard->engines++;
    return 0;
}

static int hear_box(void *ctx, const struct handover_box *box)
{
    struct heard *heard = ctx;

    heard->box = *box;
    heard->boxes++;
    return 0;
}

static int hear_kernel(void *ctx, const struct handover_kernel *kernel)
{
    struct heard *heard = ctx;

    heard->kernel = *kernel;
    heard->kernels++;
    return 0;
}

static void fill(struct buf *text)
{
    assert_int_equal(handover_begin(text, &launcher_sample), 0);
    assert_int_equal(handover_add_box(text, &box_sample), 0);
    assert_int_equal(handover_add_box(text, &box_sample), 0);
    assert_int_equal(handover_add_kernel(text, &kernel_sample), 0);
    handover_end(text);
}

static int hear(const void *data, size_t length, struct heard *heard, struct error *err)
{
    struct handover_reader reader = {hear_launcher, hear_box, hear_kernel, heard};

    *heard = (struct heard){0};
    return handover_read(data, length, &reader, err);
}

static void comes_back_as_it_was(void **state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(HANDOVER_BYTES_MAX);
    struct error err = {0};
    struct heard heard;

    (void)state;
    fill(&text);
    assert_int_equal(hear(text.data, text.length, &heard, &err), 0);
    assert_int_equal(heard.engines, 1);
    assert_int_equal(heard.boxes, 2);
    assert_int_equal(heard.kernels, 1);
    assert_memory_equal(&heard.launcher, &launcher_sample, sizeof(launcher_sample));
    assert_memory_equal(&heard.box.facts, &box_sample.facts, sizeof(box_sample.facts));
    assert_int_equal(heard.box.slot, 5);
    assert_int_equal(heard.box.staging, STAGING_PACKAGES);
    assert_int_equal(heard.box.pid, 77);
    assert_int_equal(heard.box.pid_fd, 20);
    assert_int_equal(heard.box.channel_fd, 21);
    assert_int_equal(heard.box.ruleset_fd, -1);
    assert_int_equal(heard.box.flavour, CGROUP_V1);
    assert_string_equal(heard.box.group[0], box_sample.group[0]);
    assert_string_equal(heard.box.group[2], "");
    assert_true(heard.box.has_owner);
    assert_int_equal(heard.box.owner_slot, 9);
    assert_string_equal(heard.box.tenant, "acme");
    assert_string_equal(heard.box.account, "acme-2");
    assert_memory_equal(&heard.kernel, &kernel_sample, sizeof(kernel_sample));
}

static void nothing_less_is_taken(void **state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(HANDOVER_BYTES_MAX);
    struct error err = {0};
    struct heard heard;

    (void)state;
    fill(&text);
    for (size_t length = 0; length < text.length; length++) {
        /* A block of exactly this size: a sanitizer sees who reads behind it. */
        CLEANUP(freep) char *cut = malloc(length ? length : 1);

        memcpy(cut, text.data, length);
        assert_true(hear(cut, length, &heard, &err) < 0);
    }
    assert_int_equal(buf_append(&text, "x", 1), 0);
    assert_int_equal(hear(text.data, text.length, &heard, &err), -EBADMSG);
}

static void any_byte_may_be_wrong(void **state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(HANDOVER_BYTES_MAX);
    struct error err = {0};
    struct heard heard;

    (void)state;
    fill(&text);
    for (size_t i = 0; i < text.length; i++) {
        for (int bit = 0; bit < 8; bit++) {
            text.data[i] = (char)(text.data[i] ^ (1 << bit));
            if (hear(text.data, text.length, &heard, &err) == 0) {
                assert_true(heard.box.slot < LIMIT_BOXES && heard.box.owner_slot < LIMIT_BOXES);
                assert_true(heard.box.pid > 1 && heard.box.pid_fd >= 3);
                assert_true(heard.kernel.pid > 1 && heard.kernel.pid_fd >= 3);
            }
            text.data[i] = (char)(text.data[i] ^ (1 << bit));
        }
    }
}

static void later_fields_are_passed_over(void **state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(HANDOVER_BYTES_MAX);
    CLEANUP(buf_free) struct buf longer = BUF_INIT(HANDOVER_BYTES_MAX);
    struct error err = {0};
    struct heard heard;
    uint8_t size[4];
    uint32_t length;

    (void)state;
    assert_int_equal(handover_begin(&text, &launcher_sample), 0);
    handover_end(&text);
    length = (uint32_t)(text.length - HEAD - 5 + 3);
    for (int i = 0; i < 4; i++)
        size[i] = (uint8_t)(length >> (8 * i));
    assert_int_equal(buf_append(&longer, text.data, HEAD + 1), 0);
    assert_int_equal(buf_append(&longer, size, sizeof(size)), 0);
    assert_int_equal(buf_append(&longer, text.data + HEAD + 5, text.length - HEAD - 5), 0);
    assert_int_equal(buf_append(&longer, "new", 3), 0);
    assert_int_equal(hear(longer.data, longer.length, &heard, &err), 0);
    assert_int_equal(heard.launcher.generation, 7);
    longer.data[HEAD] = 99; /* of a type that nobody knows */
    assert_true(hear(longer.data, longer.length, &heard, &err) < 0);
}

/* Of a version that did not divide CPU time: its record ends before the account. */
static void earlier_boxes_have_no_account(void **state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(HANDOVER_BYTES_MAX);
    struct handover_box box = box_sample;
    struct error err = {0};
    struct heard heard;
    size_t at;

    (void)state;
    box.account[0] = 0; /* two bytes, its length */
    assert_int_equal(handover_begin(&text, &launcher_sample), 0);
    at = text.length + 1;
    assert_int_equal(handover_add_box(&text, &box), 0);
    text.length -= 2;
    for (size_t i = 0, size = text.length - at - 4; i < 4; i++)
        text.data[at + i] = (char)(size >> (8 * i));
    handover_end(&text);
    assert_int_equal(hear(text.data, text.length, &heard, &err), 0);
    assert_int_equal(heard.boxes, 1);
    assert_string_equal(heard.box.tenant, "acme");
    assert_string_equal(heard.box.account, "");
}

static void other_versions_are_refused_with_words(void **state)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(HANDOVER_BYTES_MAX);
    struct error err = {0};
    struct heard heard;

    (void)state;
    fill(&text);
    text.data[16]++;
    assert_int_equal(hear(text.data, text.length, &heard, &err), -EPROTONOSUPPORT);
    assert_non_null(strstr(err.text, "version 2"));
    text.data[16]--;
    text.data[20]++;
    assert_int_equal(hear(text.data, text.length, &heard, &err), -EPROTONOSUPPORT);
    assert_non_null(strstr(err.text, "wire"));
    assert_int_equal(heard.boxes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comes_back_as_it_was),
        cmocka_unit_test(nothing_less_is_taken),
        cmocka_unit_test(any_byte_may_be_wrong),
        cmocka_unit_test(later_fields_are_passed_over),
        cmocka_unit_test(earlier_boxes_have_no_account),
        cmocka_unit_test(other_versions_are_refused_with_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
