/* test_template.c - what a template.yaml may say, and what is said about one that is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "template/requirement.h"
#include "template/template.h"

static void good(const char *text)
{
    struct error err = {0};
    json_t *json = NULL;

    if (template_read(text, strlen(text), "t.yaml", &json, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(json);
}

static void bad(const char *text, const char *expected)
{
    struct error err = {0};
    json_t *json = NULL;

    assert_int_equal(template_read(text, strlen(text), "t.yaml", &json, &err), -EINVAL);
    assert_null(json);
    assert_ptr_equal(err.code, ERROR_BAD_INPUT);
    if (!strstr(err.text, expected))
        fail_msg("'%s' does not say '%s'", err.text, expected);
}

static void test_good(void **state)
{
    (void)state;
    good("name: a");
    good("name: a-b_9\ndescription: what it is\npython: '3.12'\npackages: [numpy, 'polars>=1,<3']\n"
         "tiers:\n  - name: core\n    modules: [numpy, a.b]\nenv: {A: b, C_1: ''}\n"
         "files:\n  - {path: x/y.txt, from: y.txt}\nwarm_up: [matplotlib.pyplot]\n");
    good("name: a\nlock: requirements.lock\npython: /usr/bin/python3.11");
}

static void test_bad(void **state)
{
    (void)state;
    bad("[]", "is a mapping");
    bad("description: x", "'name' is missing");
    bad("name: A", "t.yaml:1: 'name' has to be made of");
    bad("name: python", "nothing to build");
    bad("name: a\n\npakages: [x]",
        "t.yaml:3: 'pakages' is unknown here (did you mean 'packages'?)");
    bad("name: a\nquite_else: 1", "t.yaml:2: 'quite_else' is unknown here");
    bad("name: a\npython: 3.12", "t.yaml:2: 'python' has to be text; put it in quotes");
    bad("name: a\npython: three", "has to be a version");
    bad("name: a\npackages: numpy", "has to be a list");
    bad("name: a\npackages: ['-e .']", "t.yaml:2: 'packages' has");
    bad("name: a\npackages: ['a @ https://x']", "not the name of a package");
    bad("name: a\npackages: []\nlock: x", "a lock names all packages");
    bad("name: a\nlock: ../x", "below the template's folder");
    bad("name: a\nlock: /etc/passwd", "below the template's folder");
    bad("name: a\ntiers: [core]", "{name, modules}");
    bad("name: a\ntiers:\n  - name: x\n    moduls: [a]", "t.yaml:4: 'moduls' is unknown");
    bad("name: a\ntiers: [{name: x, modules: [a]}, {name: x, modules: [b]}]", "'x' twice");
    bad("name: a\nwarm_up: ['os; print(1)']", "none of modules");
    bad("name: a\nenv: {1A: x}", "not a name of a variable");
    bad("name: a\nenv:\n  A: 1", "t.yaml:3: 'A' has to be text");
    bad("name: a\nfiles: [{path: ../x, from: y}]", "without '..'");
    bad("name: a\nfiles: [{path: x}]", "{path, from}");
    bad("name: a\nname: b", "duplicate key");
    bad("name: [", "t.yaml:");
}

static void wire(const char *text, const char *expected)
{
    json_t *body = json_loads(text, JSON_ALLOW_NUL, NULL);
    struct error err = {0};

    assert_non_null(body);
    if (expected) {
        assert_true(template_check(body, &err) < 0);
        assert_non_null(strstr(err.text, expected));
    } else {
        assert_int_equal(template_check(body, &err), 0);
    }
    json_decref(body);
}

static void test_wire(void **state)
{
    (void)state;
    wire(
        "{\"name\":\"a\",\"lock\":\"numpy==2.1 --hash=sha256:00\\n\",\"files\":{\"a/b\":\"aGk=\"}}",
        NULL);
    wire("{\"name\":\"a\",\"files\":{\"../b\":\"aGk=\"}}", "not a relative path");
    wire("{\"name\":\"a\",\"files\":{\"b\":1}}", "base64");
    wire("{\"name\":\"a\",\"files\":[]}", "mapping");
    wire("{\"name\":\"a\\u0000b\"}", "NUL");
    wire("{\"name\":\"a\",\"tiers\":[{\"name\":\"x\",\"modules\":[\"a\"]},1]}", "{name, modules}");
    wire("[]", "mapping");
}

static void requirement(const char *text, const char *expected)
{
    char name[LIMIT_REQUIREMENT + 1] = "";
    struct error err = {0};
    int r = requirement_parse(text, name, &err);

    if (!expected) {
        assert_int_equal(r, -EINVAL);
        return;
    }
    if (r < 0)
        fail_msg("%s", err.text);
    assert_string_equal(name, expected);
}

static void test_requirements(void **state)
{
    (void)state;
    requirement("requests", "requests");
    requirement("Foo__Bar.baz", "foo-bar-baz");
    requirement("numpy==2.1", "numpy");
    requirement("numpy >= 2, < 3", "numpy");
    requirement("polars[excel, plot]~=1.0", "polars");
    requirement("a===1.0+local", "a");
    requirement("", NULL);
    requirement("-r x", NULL);
    requirement("--index-url=x", NULL);
    requirement("a-", NULL);
    requirement("a b", NULL);
    requirement("a==", NULL);
    requirement("a=1", NULL);
    requirement("a[b", NULL);
    requirement("a[]", NULL);
    requirement("a ; python_version < '3'", NULL);
    requirement("a @ file:///etc/passwd", NULL);
    requirement("./a", NULL);
    requirement("a\n--extra-index-url x", NULL);
}

static void test_lists(void **state)
{
    char *nothing[] = {NULL}, *some[] = {"Requests", "lx_ml", NULL};

    (void)state;
    assert_true(requirement_is_allowed("requests", NULL, NULL));
    assert_true(requirement_is_allowed("requests", nothing, nothing));
    assert_true(requirement_is_allowed("lx-ml", some, nothing));
    assert_false(requirement_is_allowed("numpy", some, nothing));
    assert_false(requirement_is_allowed("requests", nothing, some));
    assert_false(requirement_is_allowed("requests", some, some));
}

static void test_a_requirement_is_found_however_it_is_written(void **state)
{
    const char *list[] = {"Requests>=2", "./no-package", "lx_ml[fast]", NULL};

    (void)state;
    assert_true(requirement_is_among("requests", list));
    assert_true(requirement_is_among("lx-ml", list));
    assert_false(requirement_is_among("numpy", list));
}

static void test_a_new_version_counts_as_added(void **state)
{
    json_t *before = json_pack("[{s:s, s:s}, {s:s, s:s}]", "name", "a", "version", "1", "name", "b",
                               "version", "1");
    json_t *now = json_pack("[{s:s, s:s}, {s:s, s:s}]", "name", "a", "version", "1", "name", "b",
                            "version", "2");
    json_t *added = requirement_added(before, now), *all = requirement_added(NULL, now);

    (void)state;
    assert_int_equal(json_array_size(added), 1);
    assert_true(json_equal(json_array_get(added, 0), json_array_get(now, 1)));
    assert_true(json_equal(all, now));
    json_decref(before);
    json_decref(now);
    json_decref(added);
    json_decref(all);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_bad),
        cmocka_unit_test(test_wire),
        cmocka_unit_test(test_requirements),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_a_requirement_is_found_however_it_is_written),
        cmocka_unit_test(test_a_new_version_counts_as_added),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
