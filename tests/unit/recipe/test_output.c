/* test_output.c - what a run left in /tmp/output: counted, sorted, and only harmless files come
 * out. */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "recipe/output.h"
#include "store/output_file.h"

static const struct limits limits = {.disk_bytes = 100};

static void add(struct output_listing *listing, const char *name, uint32_t mode, uint64_t bytes)
{
    output_listing_add(listing, &(struct box_entry){.name = name, .mode = mode, .bytes = bytes});
}

static void report(struct output_listing *listing)
{
    struct error err = {0};

    if (output_listing_report(listing, &err) < 0)
        fail_msg("%s", err.text);
}

static void what_may_come_out(void **state)
{
    CLEANUP(result_free) struct result result;
    CLEANUP(output_listing_free) struct output_listing listing = {.result = &result};

    (void)state;
    result_init(&result, &limits);
    add(&listing, "folder", S_IFDIR | 0755, 0);
    add(&listing, "z", S_IFREG | 0644, 60);
    add(&listing, "over", S_IFREG | 0644, 41); /* more than the disk can have with z */
    add(&listing, "link", S_IFLNK | 0777, 1);
    add(&listing, "../escape", S_IFREG | 0644, 1);
    add(&listing, "a", S_IFREG | 0644, 40);
    report(&listing);
    assert_int_equal(result.total_output_files, 5);
    assert_int_equal(listing.count, 5);
    assert_string_equal(listing.entries[1].name, "a");
    assert_null(listing.entries[1].skipped);
    assert_string_equal(listing.entries[4].name, "z");
    assert_null(listing.entries[4].skipped);
    assert_int_equal(result.file_count, 3);
    assert_string_equal(result.files[0].name, "../escape");
    assert_string_equal(result.files[1].name, "link");
    assert_string_equal(result.files[2].name, "over");
    assert_string_equal(result.files[2].skipped, OUTPUT_SPARSE);
}

static void of_very_many_the_first(void **state)
{
    CLEANUP(result_free) struct result result;
    CLEANUP(output_listing_free) struct output_listing listing = {.result = &result};
    char name[32];

    (void)state;
    result_init(&result, &limits);
    for (unsigned i = 0; i < LIMIT_OUTPUT_FILES + 5; i++) {
        snprintf(name, sizeof(name), "%04u", i);
        add(&listing, name, S_IFREG | 0644, 0);
    }
    report(&listing);
    assert_int_equal(listing.count, LIMIT_OUTPUT_FILES);
    assert_int_equal(result.total_output_files, LIMIT_OUTPUT_FILES + 5);
    assert_int_equal(result.file_count, 0);
}

static void nothing(void **state)
{
    CLEANUP(result_free) struct result result;
    CLEANUP(output_listing_free) struct output_listing listing = {.result = &result};

    (void)state;
    result_init(&result, &limits);
    report(&listing);
    assert_int_equal(result.total_output_files, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_may_come_out),
        cmocka_unit_test(of_very_many_the_first),
        cmocka_unit_test(nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
