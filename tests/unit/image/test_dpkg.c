/* test_dpkg.c - stanzas of packages, and what a list of packages needs. */
#include "unit.h"

#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "image/dpkg.h"

#define INSTALLED "Status: install ok installed\n"
#define ALL "Architecture: all\n"

static void read_text(struct dpkg *dpkg, const char *text, bool is_status)
{
    struct error err = {0};

    assert_int_equal(dpkg_read(dpkg, text, strlen(text), is_status, &err), 0);
}

/* The closure of blank-separated names, and what is unknown, as "a b c / d". */
static void assert_closure(const struct dpkg *dpkg, const char *wanted, const char *without,
                           const char *expected)
{
    CLEANUP(strv_freep) char **names = NULL;
    CLEANUP(strv_freep) char **unknown = NULL;
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);
    const char *const want[] = {wanted, NULL}, *const no[] = {without, NULL};
    struct dpkg_need need = {.wanted = want, .without = no};
    struct error err = {0};

    assert_int_equal(dpkg_closure(dpkg, &need, &names, &unknown, &err), 0);
    for (char **name = names; *name; name++)
        assert_int_equal(buf_printf(&text, "%s%s", name == names ? "" : " ", *name), 0);
    for (char **name = unknown; *name; name++)
        assert_int_equal(buf_printf(&text, " / %s", *name), 0);
    assert_string_equal(buf_text(&text), expected);
}

static const char small[] =
    "Package: dpkg\n" INSTALLED "Architecture: amd64\n\n"
    "Package: shell\n" INSTALLED "Architecture: amd64\nPre-Depends: libc (>= 2)\n"
    "Depends: base,\n tools:any | other-tools\nDescription: with\n more lines\n .\n\n"
    "Package: libc\n" INSTALLED "Architecture: amd64\nDepends: shell\n\n" /* a circle */
    "Package: base\n" INSTALLED ALL "Depends: awk, config | config-2.0\n\n"
    "Package: mawk\n" INSTALLED ALL "Provides: other, awk (= 3)\n\n"
    "Package: other-tools\n" INSTALLED ALL "\n"
    "Package: gone\nStatus: deinstall ok config-files\n" ALL "\n"
    "Package: foreign\n" INSTALLED "Architecture: i386\n";

static void test_closure(void **state)
{
    CLEANUP(dpkg_free) struct dpkg dpkg = {0};

    (void)state;
    read_text(&dpkg, small, true);
    assert_string_equal(dpkg.architecture, "amd64");
    assert_closure(&dpkg, "shell", "config", "base libc mawk other-tools shell");
    /* the second of the alternatives is no better known: the first one is asked for */
    assert_closure(&dpkg, "base", "nothing", "base config mawk / config");
    assert_closure(&dpkg, "nothing-here | mawk", "config", "mawk");
    assert_closure(&dpkg, "awk", "mawk", "");
    assert_closure(&dpkg, "gone", "config", "gone / gone");
    assert_closure(&dpkg, "foreign", "config", "foreign / foreign");
}

static void test_stanzas_that_apt_adds(void **state)
{
    CLEANUP(dpkg_free) struct dpkg dpkg = {0};

    (void)state;
    read_text(&dpkg, small, true);
    read_text(&dpkg,
              "Package: config\nArchitecture: amd64\nDepends: mawk\n\n"
              "Package: config\nArchitecture: i386\nDepends: nothing\n\n"
              "Package: libc\nArchitecture: amd64\nDepends: newer\n",
              false);
    assert_false(dpkg_find(&dpkg, "config")->is_installed);
    assert_closure(&dpkg, "base", "nothing", "base config mawk");
    /* what is installed counts, not what could be */
    assert_closure(&dpkg, "libc", "config", "base libc mawk other-tools shell");
}

/* Names become arguments and parts of paths: nothing that could be an option or leave a folder. */
static void test_hostile_names(void **state)
{
    CLEANUP(dpkg_free) struct dpkg dpkg = {0};

    (void)state;
    read_text(&dpkg,
              "Package: dpkg\n" INSTALLED "Architecture: amd64\n\n"
              "Package: ../../etc\n" INSTALLED ALL "\n"
              "Package: ok\n" INSTALLED ALL "Depends: -o, ../x, a/b, Big, |,,| (, fine\n\n"
              "Package\n: nothing\n\n\n\nDepends: x\n",
              true);
    assert_null(dpkg_find(&dpkg, "../../etc"));
    assert_closure(&dpkg, "ok", "config", "fine ok / fine");
    assert_closure(&dpkg, "--option", "config", "");
}

static void test_nothing(void **state)
{
    CLEANUP(dpkg_free) struct dpkg dpkg = {0};

    (void)state;
    read_text(&dpkg, "", true);
    assert_closure(&dpkg, "bash", "config", "bash / bash");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closure),
        cmocka_unit_test(test_stanzas_that_apt_adds),
        cmocka_unit_test(test_hostile_names),
        cmocka_unit_test(test_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
