/* test_shape.c - what two configurations have to share for one-shot runs to be the same. */
#include "config/shape.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "unit.h"

static const struct shape SHAPE = {.state = "/s", .fingerprint = "f", .layer = "l"};

static const char *difference(const struct shape *shape, enum config_key key, const char *value)
{
    static char name[64];
    CLEANUP(buf_free) struct buf ours = BUF_INIT(64 * 1024);
    CLEANUP(buf_free) struct buf theirs = BUF_INIT(64 * 1024);
    CLEANUP(config_free) struct config config = {0};
    struct error err = {0};
    const char *found;

    assert_int_equal(config_load_text(&config, "", 0, "", (char *const[]){NULL}, &err), 0);
    assert_int_equal(shape_text(&SHAPE, &config, &ours), 0);
    if (value && config_set(&config, key, value, "--flag", &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(shape_text(shape, &config, &theirs), 0);
    found = shape_difference(buf_text(&ours), buf_text(&theirs), name);
    assert_true(found == NULL || found == name);
    return found;
}

static void test_same(void **state)
{
    (void)state;
    assert_null(difference(&SHAPE, 0, NULL));
    /* Of the run itself, or of nothing that it meets. */
    assert_null(difference(&SHAPE, KEY_TIMEOUT, "5"));
    assert_null(difference(&SHAPE, KEY_STORE_CODE, "never"));
    assert_null(difference(&SHAPE, KEY_MAX_SESSIONS, "3"));
}

static void test_different(void **state)
{
    static const struct {
        enum config_key key;
        const char *value, *name;
    } rows[] = {
        {KEY_MEMORY, "2g", "memory"},
        {KEY_DISK, "100m", "disk"},
        {KEY_PIDS, "100", "pids"},
        {KEY_CPUS, "0.5", "cpus"},
        {KEY_MAX_OUTPUT, "11", "output"},
        {KEY_ISOLATION, "strict", "isolation"},
        {KEY_ROOT, "/var", "root"},
        {KEY_WARM, "false", "warm"},
        {KEY_AUTO_INSTALL, "true", "auto_install"},
        {KEY_BLOCK_IMPORTS, "true", "block_imports"},
        {KEY_BLOCKED_IMPORTS, "os", "blocked_imports"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const char *found = difference(&SHAPE, rows[i].key, rows[i].value);

        if (!found || strcmp(found, rows[i].name) != 0)
            fail_msg("%s: %s", rows[i].name, found ? found : "the same");
    }
    assert_string_equal(
        difference(&(struct shape){.state = "/t", .fingerprint = "f", .layer = "l"}, 0, NULL),
        "state");
    assert_string_equal(
        difference(&(struct shape){.state = "/s", .fingerprint = "g", .layer = "l"}, 0, NULL),
        "interpreter");
    assert_string_equal(difference(&(struct shape){.state = "/s", .fingerprint = "f"}, 0, NULL),
                        "layer");
}

/* The other text may be anything. */
static void test_texts(void **state)
{
    char name[64];

    (void)state;
    assert_null(shape_difference("", "", name));
    assert_null(shape_difference("a=1\n", "a=1\n", name));
    assert_string_equal(shape_difference("a=1\nb=2\n", "a=1\n", name), "b");
    assert_string_equal(shape_difference("a=1\n", "a=1\nb=2\n", name), "");
    assert_string_equal(shape_difference("a=1\n", "", name), "a");
    assert_string_equal(shape_difference("a=1\nb=2\n", "b=2\na=1\n", name), "a");
    assert_string_equal(shape_difference("a=1\n", "a=11\n", name), "a");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same),
        cmocka_unit_test(test_different),
        cmocka_unit_test(test_texts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
