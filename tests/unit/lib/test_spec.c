/* test_spec.c - what libbailey sends: the members of a request, and the first error of a
 * description. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "lib/lib_private.h"

static char *text_of(const bailey_spec *spec)
{
    struct error err = {0};
    char *text = NULL;

    assert_int_equal(spec_text(spec, &text, &err), 0);
    return text;
}

static void test_each_setting_is_a_member(void **state)
{
    bailey_spec *spec = bailey_spec_new();
    CLEANUP(freep) char *text = NULL;

    (void)state;
    assert_int_equal(bailey_spec_code(spec, NULL, "a\0b", 3), 0);
    assert_int_equal(bailey_spec_argument(spec, "x"), 0);
    assert_int_equal(bailey_spec_env(spec, "A", "b=c"), 0);
    assert_int_equal(bailey_spec_set(spec, "memory", "64m"), 0);
    assert_int_equal(bailey_spec_set(spec, "timeout", "250ms"), 0);
    assert_int_equal(bailey_spec_set(spec, "idle_timeout", "2m"), 0);
    assert_int_equal(bailey_spec_file(spec, "/h", NULL), 0);
    assert_int_equal(bailey_spec_file(spec, "/h", "b"), 0);
    text = text_of(spec);
    assert_string_equal(text,
                        "{\"code\":\"a\\u0000b\",\"language\":\"python\",\"arguments\":[\"x\"],"
                        "\"env\":{\"A\":\"b=c\"},\"limits\":{\"memory\":\"64m\"},"
                        "\"timeout\":0.25,\"idle_timeout_s\":120.0,"
                        "\"files\":[{\"host\":\"/h\"},{\"host\":\"/h\",\"box\":\"b\"}]}");
    bailey_spec_free(spec);
}

static void test_a_program_replaces_the_one_before(void **state)
{
    bailey_spec *spec = bailey_spec_new();
    CLEANUP(freep) char *text = NULL;

    (void)state;
    bailey_spec_program(spec, (const char *const[]){"a", "b", NULL});
    bailey_spec_program(spec, (const char *const[]){"c", NULL});
    text = text_of(spec);
    assert_string_equal(text, "{\"argv\":[\"c\"]}");
    bailey_spec_free(spec);
}

static void test_a_program_with_code_or_its_arguments_is_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        bailey_spec *spec = bailey_spec_new();
        struct error err = {0};
        char *text = NULL;

        if (i == 0)
            bailey_spec_code(spec, NULL, "1", 1);
        else
            bailey_spec_argument(spec, "x");
        bailey_spec_program(spec, (const char *const[]){"a", NULL});
        assert_int_equal(spec_text(spec, &text, &err), -EINVAL);
        assert_non_null(strstr(err.text, "of code or of a program"));
        bailey_spec_free(spec);
    }
}

static void test_the_first_error_is_what_using_it_fails_with(void **state)
{
    bailey_spec *spec = bailey_spec_new();
    struct error err = {0};
    char *text = NULL;

    (void)state;
    assert_int_equal(bailey_spec_set(spec, "colour", "red"), -EINVAL);
    assert_int_equal(bailey_spec_set(spec, "timeout", "soon"), -EINVAL);
    assert_int_equal(bailey_spec_env(spec, "A=B", "c"), -EINVAL);
    assert_int_equal(bailey_spec_env(spec, "\xff", "c"), -EINVAL);
    assert_int_equal(bailey_spec_stdin(spec, "\xff", 1), -EINVAL);
    assert_int_equal(bailey_spec_program(spec, (const char *const[]){NULL}), -EINVAL);
    assert_int_equal(bailey_spec_set(spec, "memory", "1g"), 0);
    assert_int_equal(spec_text(spec, &text, &err), -EINVAL);
    assert_string_equal(err.text, "colour: there is no such setting");
    assert_ptr_equal(err.code, ERROR_BAD_INPUT);
    bailey_spec_free(spec);
}

static void test_errors_of_a_server_have_number_status_and_code(void **state)
{
    static const struct {
        const char *json;
        unsigned status;
        int number;
        const char *code;
    } rows[] = {
        {"{\"code\":\"session_not_found\",\"message\":\"m\"}", 404, -ENOENT, "session_not_found"},
        {"{\"code\":\"a_later_word\",\"message\":\"m\"}", 422, -EINVAL, "a_later_word"},
        {"{\"code\":\"cancelled\",\"message\":\"m\"}", 0, -ECANCELED, "cancelled"},
        {"{\"code\":7,\"message\":\"m\"}", 599, -EIO, "engine"},
        {"[]", 503, -EAGAIN, "engine"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        json_t *json = json_loads(rows[i].json, 0, NULL);
        struct bailey_error err;

        errors_of_json(&err, rows[i].status, 0, json);
        assert_int_equal(err.number, rows[i].number);
        assert_int_equal(err.status, rows[i].status);
        if (i < 3)
            assert_string_equal(err.code, rows[i].code);
        assert_true(err.code[0] && err.text[0]);
        json_decref(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_setting_is_a_member),
        cmocka_unit_test(test_a_program_replaces_the_one_before),
        cmocka_unit_test(test_a_program_with_code_or_its_arguments_is_refused),
        cmocka_unit_test(test_the_first_error_is_what_using_it_fails_with),
        cmocka_unit_test(test_errors_of_a_server_have_number_status_and_code),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
