/* test_error.c - the one error shape: numbers, words, texts, cutting. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"

static void set_fills_everything(void **state)
{
    struct error err = {.stage = "left over"};

    (void)state;
    assert_int_equal(error_set(&err, -EINVAL, ERROR_BAD_INPUT, "timeout '%s' of %d", "x", 7),
                     -EINVAL);
    assert_int_equal(err.num, -EINVAL);
    assert_ptr_equal(err.code, ERROR_BAD_INPUT);
    assert_null(err.stage);
    assert_string_equal(err.text, "timeout 'x' of 7");
}

static void set_keeps_errno(void **state)
{
    struct error err;

    (void)state;
    errno = EXDEV;
    error_set(&err, -EINVAL, ERROR_BAD_INPUT, "x");
    assert_int_equal(errno, EXDEV);
}

static void nobody_wants_the_text(void **state)
{
    (void)state;
    assert_int_equal(error_set(NULL, -ENOENT, ERROR_NOT_FOUND, "x"), -ENOENT);
    errno = EACCES;
    assert_int_equal(error_errno(NULL, "x"), -EACCES);
    assert_int_equal(error_stage(NULL, "mount proc", -EPERM), -EPERM);
    error_prefix(NULL, "x");
}

static void errno_is_appended(void **state)
{
    struct error err;

    (void)state;
    errno = ENOENT;
    assert_int_equal(error_errno(&err, "opening '%s'", "a/b"), -ENOENT);
    assert_int_equal(err.num, -ENOENT);
    assert_ptr_equal(err.code, ERROR_ENGINE);
    assert_string_equal(err.text, "opening 'a/b': No such file or directory");
    assert_int_equal(errno, ENOENT);
}

static void no_errno_is_still_a_failure(void **state)
{
    struct error err;

    (void)state;
    errno = 0;
    assert_int_equal(error_errno(&err, "x"), -EIO);
    assert_int_equal(error_stage(&err, "clone", 0), -EIO);
    assert_int_equal(err.num, -EIO);
}

static void unknown_errno_has_a_text(void **state)
{
    struct error err;

    (void)state;
    errno = 4242;
    assert_int_equal(error_errno(&err, "x"), -4242);
    assert_string_equal(err.text, "x: errno 4242");
    assert_string_equal(error_name(4242), "errno 4242");
    assert_string_equal(error_name(EPERM), "EPERM");
    assert_string_equal(error_name(ENOSPC), "ENOSPC");
}

static void memory_has_one_text(void **state)
{
    struct error err = {0};

    (void)state;
    assert_int_equal(error_memory(&err), -ENOMEM);
    assert_int_equal(err.num, -ENOMEM);
    assert_ptr_equal(err.code, ERROR_ENGINE);
    assert_string_equal(err.text, "out of memory");
    assert_int_equal(error_memory(NULL), -ENOMEM);
}

static void stage_reads_like_the_issue_says(void **state)
{
    struct error err;

    (void)state;
    assert_int_equal(error_stage(&err, "mount proc", -EPERM), -EPERM);
    assert_string_equal(err.text, "mount proc: EPERM (Operation not permitted)");
    assert_string_equal(err.stage, "mount proc");
    assert_ptr_equal(err.code, ERROR_BOX_FAILED);

    assert_int_equal(error_stage(&err, "pivot", EINVAL), -EINVAL); /* either sign */
    assert_int_equal(err.num, -EINVAL);
}

static void prefix_keeps_the_facts(void **state)
{
    struct error err;

    (void)state;
    error_stage(&err, "mount proc", -EPERM);
    error_prefix(&err, "making the box");
    assert_string_equal(err.text, "making the box: mount proc: EPERM (Operation not permitted)");
    assert_int_equal(err.num, -EPERM);
    assert_ptr_equal(err.code, ERROR_BOX_FAILED);
    assert_string_equal(err.stage, "mount proc");
}

static void long_texts_are_cut(void **state)
{
    char big[2 * ERROR_TEXT_MAX];
    struct error err;

    (void)state;
    memset(big, 'a', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    error_set(&err, -E2BIG, ERROR_TOO_LARGE, "%s", big);
    assert_int_equal(strlen(err.text), ERROR_TEXT_MAX - 1);
    error_prefix(&err, "p");
    assert_int_equal(strlen(err.text), ERROR_TEXT_MAX - 1);
    assert_memory_equal(err.text, "p: aaa", 6);
    error_prefix(&err, big);
    assert_int_equal(strlen(err.text), ERROR_TEXT_MAX - 1);
    errno = ENOENT;
    error_errno(&err, "%s", big);
    assert_int_equal(strlen(err.text), ERROR_TEXT_MAX - 1);
}

static void words_are_stable_and_different(void **state)
{
    static const struct {
        const char *word, *text;
    } words[] = {
        {ERROR_BAD_INPUT, "bad_input"},
        {ERROR_BAD_CONFIG, "bad_config"},
        {ERROR_NOT_FOUND, "not_found"},
        {ERROR_COMMAND_NOT_FOUND, "command_not_found"},
        {ERROR_NOT_EXECUTABLE, "not_executable"},
        {ERROR_NO_INTERPRETER, "no_interpreter"},
        {ERROR_REFUSED, "refused"},
        {ERROR_BLOCKED_IMPORT, "blocked_import"},
        {ERROR_BOX_FAILED, "box_failed"},
        {ERROR_BOX_LOST, "box_lost"},
        {ERROR_TOO_LARGE, "too_large"},
        {ERROR_CANCELLED, "cancelled"},
        {ERROR_ENGINE, "engine"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        assert_string_equal(words[i].word, words[i].text);
}

static void words_have_numbers(void **state)
{
    unsigned count = 1;

    (void)state;
    /* Programs of two versions may speak to each other: these stay. */
    assert_int_equal(error_code_number(ERROR_BAD_INPUT), 1);
    assert_int_equal(error_code_number(ERROR_REFUSED), 7);
    assert_int_equal(error_code_number(ERROR_ENGINE), 13);
    assert_int_equal(error_code_number(ERROR_NO_NETWORK), 47);
    for (const char *word; (word = error_code_word(count)); count++) {
        assert_int_equal(error_code_number(word), count);
        assert_ptr_equal(error_code_find(word), word);
    }
    assert_true(count > 47 && count < 255);
    assert_null(error_code_word(0));
    assert_null(error_code_word(UINT32_MAX));
    assert_int_equal(error_code_number(NULL), 0);
    assert_int_equal(error_code_number("nobody knows it"), 13);
    assert_ptr_equal(error_code_find("nobody knows it"), ERROR_ENGINE);
    assert_ptr_equal(error_code_find(NULL), ERROR_ENGINE);
    assert_ptr_equal(error_code_find(ERROR_NO_ROUTE), ERROR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_fills_everything),
        cmocka_unit_test(set_keeps_errno),
        cmocka_unit_test(nobody_wants_the_text),
        cmocka_unit_test(errno_is_appended),
        cmocka_unit_test(no_errno_is_still_a_failure),
        cmocka_unit_test(unknown_errno_has_a_text),
        cmocka_unit_test(memory_has_one_text),
        cmocka_unit_test(stage_reads_like_the_issue_says),
        cmocka_unit_test(prefix_keeps_the_facts),
        cmocka_unit_test(long_texts_are_cut),
        cmocka_unit_test(words_are_stable_and_different),
        cmocka_unit_test(words_have_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
