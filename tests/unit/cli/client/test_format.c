/* test_format.c - sizes, spans and times as people say them; keys of a terminal. */
#include <errno.h>
#include <string.h>

#include "unit.h"

#include "base/cleanup.h"
#include "base/limits.h"
#include "cli/client/format.h"
#include "cli/client/keys.h"
#include "cli/client/progress_line.h"
#include "cli/client/transfer.h"

static void expect_bytes(uint64_t bytes, const char *wanted)
{
    char text[FORMAT_SIZE];

    format_bytes(bytes, text);
    assert_string_equal(text, wanted);
}

static void test_sizes(void **state)
{
    (void)state;
    expect_bytes(0, "0 B");
    expect_bytes(1023, "1023 B");
    expect_bytes(1024, "1.0 KB");
    expect_bytes(1536, "1.5 KB");
    expect_bytes(MIB - 1, "1.0 MB");
    expect_bytes(5 * GIB, "5.0 GB");
    expect_bytes(UINT64_MAX, "16384.0 PB");
}

static void expect_span(int64_t seconds, const char *wanted)
{
    char text[FORMAT_SIZE];

    format_span(seconds, text);
    assert_string_equal(text, wanted);
}

static void test_spans(void **state)
{
    (void)state;
    expect_span(-5, "0s");
    expect_span(119, "119s");
    expect_span(120, "2m");
    expect_span(7199, "119m");
    expect_span(7200, "2h");
    expect_span(2 * 86400, "2d");
}

static void expect_when(const char *time, int64_t now_s, const char *wanted)
{
    char text[FORMAT_SIZE];

    format_when(time, now_s, text);
    assert_string_equal(text, wanted);
}

static void test_times(void **state)
{
    static const char *const bad[] = {
        "",
        "yesterday",
        "2026-11-15",
        "2026-11-15T08:15:04",
        "2026-11-15T08:15:04+01:00",
        "2026-13-15T08:15:04Z",
        "2026-11-32T08:15:04Z",
        "2026-11-15T25:15:04Z",
        "2026-11-15T08:15:04.Zz",
    };
    int64_t seconds = 0;

    (void)state;
    assert_int_equal(format_parse_time("1970-01-01T00:00:00Z", &seconds), 0);
    assert_int_equal(seconds, 0);
    assert_int_equal(format_parse_time("2026-11-15T08:15:04.123Z", &seconds), 0);
    assert_int_equal(seconds, 1794730504);
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_int_equal(format_parse_time(bad[i], &seconds), -EINVAL);
    expect_when("2026-11-15T08:15:04Z", 1794730504, "now");
    expect_when("2026-11-15T08:15:04Z", 1794730504 + 180, "3m ago");
    expect_when("2026-11-15T08:15:04Z", 1794730504 - 10800, "in 3h");
    expect_when("never", 0, "-");
    expect_when(NULL, 0, "-");
}

static void test_ids_are_cut(void **state)
{
    char text[FORMAT_SIZE];

    (void)state;
    format_id("s_0123456789abcdef", FORMAT_ID, text);
    assert_string_equal(text, "s_01234567");
    format_id("short", FORMAT_ID, text);
    assert_string_equal(text, "short");
}

static void test_progress_line(void **state)
{
    char line[200];

    (void)state;
    transfer_line("a.csv", MIB, 4 * (int64_t)MIB, NULL, 1000, line, sizeof(line));
    assert_string_equal(line, "[####............]  25%  1.0 MB of 4.0 MB  1.0 MB/s  a.csv");
    transfer_line("/workspace/a.csv", MIB, -1, NULL, 0, line, sizeof(line));
    assert_string_equal(line, "1.0 MB  0 B/s  a.csv");
    transfer_line("a.csv", 5 * MIB, (int64_t)MIB, NULL, 1000, line, sizeof(line)); /* it grew */
    assert_string_equal(line, "[################] 100%  5.0 MB of 1.0 MB  5.0 MB/s  a.csv");
    transfer_line("a.csv", MIB, 2 * (int64_t)MIB,
                  &(struct transfer_total){
                      .files = 3, .files_total = 12, .bytes = MIB, .bytes_total = 4 * MIB},
                  1000, line, sizeof(line));
    assert_string_equal(
        line, "[########........]  50%  3 of 12 files  2.0 MB of 4.0 MB  2.0 MB/s  a.csv");
}

/* Lines as pip and the installer write them. */
static void test_packages_are_counted(void **state)
{
    static const char *const resolved[][2] = {
        {"making the environment", "making the environment"},
        {"installing castle==1.2 moat==1.0", "[................]  0 of 2 packages  installing "
                                             "castle==1.2 moat==1.0"},
        {"Collecting castle==1.2", "[########........]  1 of 2 packages  Collecting castle==1.2"},
        {"  Downloading x.whl", "[########........]  1 of 2 packages    Downloading x.whl"},
        {"Collecting moat==1.0", "[################]  2 of 2 packages  Collecting moat==1.0"},
    };
    static const char *const unknown[][2] = {
        {"Collecting castle", "1 package  Collecting castle"},
        {"Collecting moat", "2 packages  Collecting moat"},
        {"Installing collected packages: moat, castle",
         "[################]  2 of 2 packages  Installing collected packages: moat, castle"},
    };
    struct package_count first = {0}, second = {0}, known = {.total = 1};
    char text[200];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(resolved); i++) {
        package_count_line(&first, resolved[i][0]);
        package_count_text(&first, resolved[i][0], text, sizeof(text));
        assert_string_equal(text, resolved[i][1]);
    }
    for (size_t i = 0; i < ARRAY_SIZE(unknown); i++) {
        package_count_line(&second, unknown[i][0]);
        package_count_text(&second, unknown[i][0], text, sizeof(text));
        assert_string_equal(text, unknown[i][1]);
    }
    package_count_line(&known, "Collecting a");
    package_count_line(&known, "Collecting b"); /* more than were expected */
    package_count_text(&known, "Collecting b", text, sizeof(text));
    assert_string_equal(text, "2 packages  Collecting b");
}

static void expect_keys(struct keys *keys, const char *typed, enum keys_wish wish,
                        const char *wanted)
{
    CLEANUP(buf_free) struct buf to = BUF_INIT(KIB);

    assert_int_equal(keys_feed(keys, typed, strlen(typed), &to), wish);
    assert_string_equal(buf_text(&to), wanted);
}

static void test_keys(void **state)
{
    struct keys keys = {0};

    (void)state;
    expect_keys(&keys, "ls\r\x03", KEYS_NONE, "ls\r\x03");
    expect_keys(&keys, "a\x1d\x1d", KEYS_NONE, "a\x1d");
    expect_keys(&keys, "\x1dx", KEYS_NONE, "\x1dx");
    expect_keys(&keys, "\x1d", KEYS_NONE, ""); /* cut between the two */
    expect_keys(&keys, "d", KEYS_DETACH, "");
    expect_keys(&keys, "ab\x1dkcd", KEYS_KILL, "ab");
    expect_keys(&keys, "d", KEYS_NONE, "d");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),         cmocka_unit_test(test_spans),
        cmocka_unit_test(test_times),         cmocka_unit_test(test_ids_are_cut),
        cmocka_unit_test(test_progress_line), cmocka_unit_test(test_packages_are_counted),
        cmocka_unit_test(test_keys),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
