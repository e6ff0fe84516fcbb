/* test_missing.c - which module code did not find, and what may be fetched for it. */
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
#include "config/config.h"
#include "session/missing.h"

static const char *value(const char *text)
{
    static char module[LIMIT_MODULE + 1];

    return missing_from_value(text, strlen(text), module) ? module : NULL;
}

static const char *line(const char *text)
{
    static char module[LIMIT_MODULE + 1];

    return missing_from_stderr(text, strlen(text), module) ? module : NULL;
}

static void test_values(void **state)
{
    static const char *const bad[] = {
        "",
        "x",
        "No module named",
        "No module named '",
        "No module named ''",
        "No module named 'x",
        "No module named 'x' ",
        " No module named 'x'",
        "No module named 'x'; 'x' is not a package",
        "No module named '.x'",
        "No module named 'x.'",
        "No module named 'x..y'",
        "No module named '1x'",
        "No module named 'x.1'",
        "No module named 'x-y'",
        "No module named 'x y'",
        "No module named '--index-url'",
        "No module named 'x'y'",
        "No module named 'x\ny'",
        "No module named 'x/y'",
        "No module named 'x\xc3\xa4'",
        "No module named 'x[y]'",
        "no module named 'x'",
    };
    char text[LIMIT_MODULE + 64];

    (void)state;
    assert_string_equal(value("No module named 'requests'"), "requests");
    assert_string_equal(value("No module named 'a.b_1._C'"), "a.b_1._C");
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
        assert_null(value(bad[i]));
    str_format(text, sizeof(text), "No module named '%0*d'", LIMIT_MODULE, 0);
    memset(strchr(text, '\'') + 1, 'x', LIMIT_MODULE);
    assert_non_null(value(text));
    str_format(text, sizeof(text), "No module named 'x%0*d'", LIMIT_MODULE, 0);
    memset(strchr(text, '\'') + 1, 'x', LIMIT_MODULE + 1);
    assert_null(value(text));
    assert_false(missing_from_value("No module named 'x\0y'", 21, text)); /* a NUL in it */
}

static void test_lines(void **state)
{
    (void)state;
    assert_string_equal(line("ModuleNotFoundError: No module named 'x'"), "x");
    assert_string_equal(line("Traceback\n  File\nModuleNotFoundError: No module named 'x.y'\n"),
                        "x.y");
    assert_null(line(""));
    assert_null(line("\n"));
    assert_null(line("ModuleNotFoundError: "));
    assert_null(line("ModuleNotFoundError: No module named 'x'\n\n"));
    assert_null(line("ModuleNotFoundError: No module named 'x'\nmore"));
    assert_null(line("  ModuleNotFoundError: No module named 'x'"));
    assert_null(line("ImportError: No module named 'x'"));
    assert_null(line("No module named 'x'"));
}

static void test_output(void **state)
{
    static const struct {
        const char *text, *module; /* NULL: none */
    } rows[] = {
        {"ModuleNotFoundError: No module named 'x'\n\nmore\n", "x"},
        {"ModuleNotFoundError: No module named 'x'\nModuleNotFoundError: No module named 'y'\n",
         "y"},
        {"/bailey/bin/python3: No module named pytest\n", "pytest"},
        {"python: No module named a.b\nmake: *** failed\n", "a.b"},
        {"python: No module named x; install it with --index-url\n", NULL},
        {"he said: No module named x\n", NULL},
        {": No module named x\n", NULL},
        {"python: No module named \n", NULL},
        {"  ModuleNotFoundError: No module named 'x'\n", NULL},
        {"\n\n\n", NULL},
        {"", NULL},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        char module[LIMIT_MODULE + 1] = "";

        assert_int_equal(missing_from_output(rows[i].text, strlen(rows[i].text), module),
                         rows[i].module != NULL);
        if (rows[i].module)
            assert_string_equal(module, rows[i].module);
    }
}

/* `parts`: what the hint contains, or not if it begins with '!'; none: there is no hint. */
static void test_hints(void **state)
{
    static char *deny[] = {"six", NULL};
    struct config local = {.type = "local", .install_deny = deny};
    struct config automatic = {.type = "local", .auto_install = true};
    struct config docker = {.type = "docker"};
    const struct {
        struct missing_hint hint;
        const char *parts[5];
    } rows[] = {
        {{.module = "yaml", .config = &local},
         {"'yaml'", "[\"pyyaml\"]", "to this session", "AUTO_INSTALL=true"}},
        {{.module = "yaml", .config = &automatic}, {"[\"pyyaml\"]", "!AUTO_INSTALL"}},
        {{.module = "yaml", .config = &local, .place = MISSING_IN_RUN},
         {"sandbox_install", "not to a fresh sandbox"}},
        {{.module = "yaml", .config = &local, .place = MISSING_ALONE},
         {"bailey install -s SESSION pyyaml", "!AUTO_INSTALL", "!sandbox_install"}},
        {{.module = "yaml", .config = &local, .template = "data"},
         {"template 'data' has it", "SANDBOX_TEMPLATE=data", "pyyaml"}},
        {{.module = "six", .config = &local},
         {"may not be installed", "!sandbox_install", "!AUTO_INSTALL"}},
        {{.module = "six", .config = &local, .template = "data"},
         {"SANDBOX_TEMPLATE=data", "may not be installed"}},
        {{.module = "yaml", .config = &docker},
         {"It cannot be installed", "DOCKER_IMAGE", "!sandbox_install"}},
        {{.module = "pip", .config = &local}, {"use the command pip", "[\"NAME\"]", "!is missing"}},
        {{.module = "tkinter", .config = &local}, {NULL}},
        {{.module = "pandas.nothing", .config = &local}, {NULL}},
        {{.module = "google", .config = &local}, {NULL}},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        CLEANUP(buf_free) struct buf text = BUF_INIT(KIB);

        assert_int_equal(missing_hint(&rows[i].hint, &text), rows[i].parts[0] != NULL);
        for (const char *const *part = rows[i].parts; *part; part++) {
            bool is_wanted = **part != '!';

            if (is_wanted != (strstr(buf_text(&text), *part + !is_wanted) != NULL))
                fail_msg("row %zu, '%s': %s", i, *part, buf_text(&text));
        }
    }
}

static const char *package(const char *module, char *const *allow, char *const *deny,
                           const char *code)
{
    static char name[LIMIT_REQUIREMENT + 1];
    static char text[ERROR_TEXT_MAX];
    struct error err = {0};

    if (missing_package(module, allow, deny, name, &err) == 0) {
        assert_null(code);
        return name;
    }
    assert_ptr_equal(err.code, code);
    str_copy(text, sizeof(text), err.text);
    return text;
}

static void test_packages(void **state)
{
    char *allow[] = {"Scikit.Learn", "six", NULL}, *deny[] = {"SIX", NULL};

    (void)state;
    assert_string_equal(package("requests", NULL, NULL, NULL), "requests");
    assert_string_equal(package("typing_extensions", NULL, NULL, NULL), "typing-extensions");
    assert_string_equal(package("sklearn", NULL, NULL, NULL), "scikit-learn");
    assert_string_equal(package("PIL", NULL, NULL, NULL), "pillow");
    assert_string_equal(package("google.protobuf", NULL, NULL, NULL), "protobuf");
    assert_string_equal(package("sklearn", allow, NULL, NULL), "scikit-learn");
    assert_non_null(strstr(package("requests", allow, NULL, ERROR_INSTALL_DENIED), "requests"));
    assert_non_null(strstr(package("six", allow, deny, ERROR_INSTALL_DENIED), "six"));
    assert_non_null(strstr(package("six", NULL, deny, ERROR_INSTALL_DENIED), "SANDBOX_INSTALL_"));
}

static void test_what_nobody_looks_for(void **state)
{
    static const struct {
        const char *module, *why;
    } rows[] = {
        {"tkinter", "standard library"},
        {"distutils.core", "standard library"},
        {"imp", "standard library"},
        {"json.nothing", "standard library"},
        {"pandas.nothing", "in the installed package"},
        {"sklearn.nothing", "in the installed package"},
        {"google", "many packages"},
        {"google.nothing", "in the installed package"},
        {"_private", "cannot be"},
        {"name_", "cannot be"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        assert_non_null(
            strstr(package(rows[i].module, NULL, NULL, ERROR_INSTALL_FAILED), rows[i].why));
}

static void test_the_standard_library(void **state)
{
    (void)state;
    assert_true(missing_is_standard("abc"));
    assert_true(missing_is_standard("os"));
    assert_true(missing_is_standard("cProfile"));
    assert_true(missing_is_standard("zoneinfo"));
    assert_false(missing_is_standard("requests"));
    assert_false(missing_is_standard(""));
}

static const char *note(json_t *json)
{
    return json_string_value(json_object_get(json, "install_note"));
}

static void test_what_a_result_says(void **state)
{
    json_t *added = json_pack("[{s:s, s:s}, {s:s, s:s}]", "name", "idna", "version", "3", "name",
                              "Foo_Bar", "version", "2.32");
    json_t *json = missing_installed("foo-bar", added);
    struct error err = {0};

    (void)state;
    assert_string_equal(note(json), "installed foo-bar 2.32 and ran the code again");
    assert_true(json_equal(json_object_get(json, "installed"), added));
    json_decref(json);
    json = missing_installed("other", added);
    assert_string_equal(note(json), "installed other and ran the code again");
    json_decref(json);
    json_decref(added);
    error_set(&err, -EIO, ERROR_NO_NETWORK, "nobody \xff there");
    json = missing_failed("x.y", &err);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(json, "install_error"), "code")),
        "no_network");
    assert_true(str_starts(note(json), "the module 'x.y' is missing and was not installed: "));
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_output),
        cmocka_unit_test(test_hints),
        cmocka_unit_test(test_packages),
        cmocka_unit_test(test_what_nobody_looks_for),
        cmocka_unit_test(test_the_standard_library),
        cmocka_unit_test(test_what_a_result_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
