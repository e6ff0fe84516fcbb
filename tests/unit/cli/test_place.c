/* test_place.c - which server a command is for: options before and after it, and who is refused. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/place.h"

static int set_up(void **state)
{
    (void)state;
    unsetenv(PLACE_URL);
    unsetenv(PLACE_KEY);
    unsetenv(PLACE_KEY_FILE);
    unsetenv(PLACE_CA_FILE);
    return 0;
}

static void test_options_before_the_command(void **state)
{
    char *words[] = {"bailey", "--url", "http://a:1", "--key-file=/k", "run", "--url", "x", NULL};
    char **argv = words;
    struct error err = {0};
    int argc = 7;

    (void)state;
    setenv(PLACE_KEY, "of the environment", 1);
    assert_int_equal(place_take_leading(&argc, &argv, &err), 0);
    assert_int_equal(argc, 4); /* what follows the command is the command's */
    assert_string_equal(argv[0], "bailey");
    assert_string_equal(argv[1], "run");
    assert_string_equal(argv[2], "--url");
    assert_string_equal(place_url(environ), "http://a:1");
    assert_string_equal(getenv(PLACE_KEY_FILE), "/k");
    assert_null(getenv(PLACE_KEY)); /* an option goes over it */
}

static void test_other_words_stay(void **state)
{
    char *words[] = {"bailey", "--help", "--url", "x", NULL};
    char *open_end[] = {"bailey", "--key", NULL};
    char **argv = words;
    struct error err = {0};
    int argc = 4;

    (void)state;
    assert_int_equal(place_take_leading(&argc, &argv, &err), 0);
    assert_int_equal(argc, 4);
    assert_ptr_equal(argv, words);
    assert_null(place_url(environ));
    argv = open_end;
    argc = 2;
    assert_int_equal(place_take_leading(&argc, &argv, &err), -EINVAL);
    assert_non_null(strstr(err.text, "--key needs a value"));
}

static void test_options_after_the_command(void **state)
{
    static const char *const words[] = {"-c", "1", "--url", "http://a:1", "--key=k", NULL};
    struct parsed parsed;
    struct error err = {0};

    (void)state;
    assert_int_equal(options_parse(&run_command, 5, words, &parsed, &err), 0);
    assert_int_equal(place_take(&parsed, &err), 0);
    assert_string_equal(getenv(PLACE_URL), "http://a:1");
    assert_string_equal(getenv(PLACE_KEY), "k");
    parsed_free(&parsed);
}

static void test_every_command_is_for_a_server_or_says_why_not(void **state)
{
    struct error err = {0};

    (void)state;
    setenv(PLACE_URL, "http://a:1", 1);
    for (size_t i = 0; i < command_count; i++) {
        const struct command *command = command_table[i];
        int r = place_check(command, environ, &err);

        assert_int_equal(r, command->reach == REACH_HERE ? -EINVAL : 0);
        if (r < 0 && !strstr(err.text, command->name))
            fail_msg("'%s' does not name %s", err.text, command->name);
        /* bailey-engine has the code of what works there. */
        assert_true(command->reach != REACH_NONE || !command->in_engine);
    }
    setenv(PLACE_URL, "", 1);
    assert_null(place_url(environ));
    assert_int_equal(place_check(&serve_command, environ, &err), 0);
    setenv(PLACE_URL, "a:1", 1);
    assert_int_equal(place_check(&ps_command, environ, &err), -EINVAL);
    assert_non_null(strstr(err.text, "http://HOST:PORT"));
    assert_int_equal(place_check(&version_command, environ, &err), 0);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_options_before_the_command),
        TEST(test_other_words_stay),
        TEST(test_options_after_the_command),
        TEST(test_every_command_is_for_a_server_or_says_why_not),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
