/*
 * test_interpreter.c - finding interpreters, in trees of fake programs below a folder of its own.
 * The fakes begin like ELF programs and would fail if anybody executed them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "config/config.h"
#include "interpreter/language.h"

#define ELF "\177ELF fake"
#define SHIM "#!/usr/bin/env bash\nexec \"/x/.pyenv/libexec/pyenv\" exec \"$program\" \"$@\"\n"

static char folder[] = "/tmp/bailey-find-XXXXXX";
static char start[4096], path_before[8192];
static struct config config;
static struct interpreter found;
static struct error err;

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status;
    (void)type;
    (void)ftw;
    return remove(path);
}

/* "<folder>/<name>", in one of a few places, so that one call may use several */
static const char *at(const char *name)
{
    static char texts[8][512];
    static unsigned int next;
    char *text = texts[next++ % ARRAY_SIZE(texts)];

    str_format(text, sizeof(texts[0]), "%s/%s", folder, name);
    return text;
}

static void put(const char *name, const char *text, mode_t mode)
{
    CLEANUP(fd_closep) int fd = -1;
    char part[512];

    str_copy(part, sizeof(part), at(name));
    for (char *slash = part + strlen(folder); (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        assert_true(mkdir(part, 0755) == 0 || errno == EEXIST);
        *slash = '/';
    }
    fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static void link_to(const char *target, const char *name)
{
    assert_int_equal(symlink(target, at(name)), 0);
}

/* A whole Python: program, link and standard library. */
static void put_python(const char *prefix, const char *version)
{
    char name[256], target[64];

    str_format(name, sizeof(name), "%s/bin/python%s", prefix, version);
    put(name, ELF, 0755);
    str_format(name, sizeof(name), "%s/lib/python%s/os.py", prefix, version);
    put(name, "", 0644);
    str_format(name, sizeof(name), "%s/bin/python3", prefix);
    str_format(target, sizeof(target), "python%s", version);
    link_to(target, name);
}

static void set_path(const char *first, const char *second)
{
    char text[1200];

    str_format(text, sizeof(text), "%s%s%s", at(first), second ? ":" : "",
               second ? at(second) : "");
    setenv("PATH", text, 1);
}

static int set_up(void **state)
{
    (void)state;
    umask(022);
    memcpy(folder + strlen(folder) - 6, "XXXXXX", 6);
    if (!getcwd(start, sizeof(start)) || !mkdtemp(folder) || chdir(folder) < 0)
        return -1;
    str_copy(path_before, sizeof(path_before), getenv("PATH") ? getenv("PATH") : "");
    setenv("HOME", at("home"), 1);
    unsetenv("PYENV_ROOT");
    unsetenv("PYENV_VERSION");
    memset(&config, 0, sizeof(config));
    memset(&found, 0, sizeof(found));
    memset(&err, 0, sizeof(err));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    interpreter_free(&found);
    setenv("PATH", path_before, 1);
    if (chdir(start) < 0)
        return -1;
    return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void finds(const char *path, const char *by, const char *first, const char *second)
{
    interpreter_free(&found);
    if (interpreter_find(language_find("python"), &config, &found, &err) < 0)
        fail_msg("%s", err.text);
    assert_string_equal(found.path, path);
    assert_string_equal(found.found_by, by);
    assert_int_equal(found.bind_count, (first != NULL) + (second != NULL));
    if (first)
        assert_string_equal(found.binds[0], first);
    if (second)
        assert_string_equal(found.binds[1], second);
}

static void fails(const char *expected)
{
    interpreter_free(&found);
    assert_int_equal(interpreter_find(language_find("python"), &config, &found, &err), -ENOENT);
    assert_ptr_equal(err.code, ERROR_NO_INTERPRETER);
    if (!strstr(err.text, expected))
        fail_msg("'%s' is not in '%s'", expected, err.text);
    assert_null(found.path);
    assert_int_equal(found.bind_count, 0);
}

static void bash(void **state)
{
    (void)state;
    if (access("/usr/bin/bash", X_OK) < 0) {
        print_message("skipped: this machine has no /usr/bin/bash\n");
        skip();
    }
    assert_int_equal(interpreter_find(language_find("bash"), &config, &found, &err), 0);
    assert_string_equal(found.path, "/usr/bin/bash");
    assert_int_equal(found.bind_count, 0);
}

static void the_one_of_the_system_needs_no_binds(void **state)
{
    (void)state;
    if (access("/usr/bin/python3", X_OK) < 0) {
        print_message("skipped: this machine has no /usr/bin/python3\n");
        skip();
    }
    setenv("PATH", "/bin:/usr/bin/", 1);
    assert_int_equal(interpreter_find(language_find("python"), &config, &found, &err), 0);
    assert_true(str_starts(found.path, "/usr/bin/python3"));
    assert_int_equal(found.bind_count, 0);
    assert_string_equal(found.found_by, "PATH");
}

static void prefix_of_its_own(void **state)
{
    (void)state;
    put_python("opt/py", "3.12");
    set_path("none", "opt/py/bin");
    finds(at("opt/py/bin/python3.12"), "PATH", at("opt/py"), NULL);
}

static void link_from_elsewhere(void **state)
{
    (void)state;
    put_python("opt/py", "3.12");
    put("tools/x", "", 0644);
    link_to("../opt/py/bin/python3", "tools/python3");
    set_path("tools", NULL);
    finds(at("opt/py/bin/python3.12"), "PATH", at("opt/py"), NULL);
}

static void library_in_lib64(void **state)
{
    (void)state;
    put("py/bin/python3", ELF, 0755);
    put("py/lib64/python3.9/os.py", "", 0644);
    set_path("py/bin", NULL);
    finds(at("py/bin/python3"), "PATH", at("py"), NULL);
}

/* python3 anywhere on PATH comes before python. */
static void python_only_without_python3(void **state)
{
    (void)state;
    put_python("a", "3.10");
    assert_int_equal(rename(at("a/bin/python3"), at("a/bin/python")), 0);
    put_python("b", "3.11");
    set_path("a/bin", "b/bin");
    finds(at("b/bin/python3.11"), "PATH", at("b"), NULL);
    assert_int_equal(unlink(at("b/bin/python3")), 0);
    finds(at("a/bin/python3.10"), "PATH", at("a"), NULL);
}

static void relative_entries_are_passed_over(void **state)
{
    (void)state;
    put_python("a", "3.10");
    setenv("PATH", "a/bin::.", 1);
    fails("no usable Python on this machine; install one (apt-get install python3)");
}

static void what_is_no_program_is_named(void **state)
{
    (void)state;
    put("a/python3", "#!/bin/sh\necho pyenv\n", 0755);
    put("b/python3", ELF, 0644);
    set_path("a", "b");
    fails("a/python3 (a script, not a program)");
    assert_non_null(strstr(err.text, "b/python3 (not executable)"));
    put("a/python3", "text", 0755);
    fails("a/python3 (not a program)");
    assert_int_equal(unlink(at("a/python3")), 0);
    assert_int_equal(mkdir(at("a/python3"), 0755), 0);
    fails("refused: ");
    assert_null(strstr(err.text, "a/python3"));
}

static void prefixes_that_show_too_much(void **state)
{
    (void)state;
    put("nolib/bin/python3", ELF, 0755);
    set_path("nolib/bin", NULL);
    fails("nolib has no lib/python3*/os.py");
    put_python("home", "3.12");
    set_path("home/bin", NULL);
    fails("home contains more than Python");
    put_python("home/.local", "3.12");
    set_path("home/.local/bin", NULL);
    fails(".local contains more than Python");
    put_python("", "3.12"); /* the parent of $HOME */
    set_path("bin", NULL);
    fails("contains more than Python");
    put_python("home/py", "3.12");
    set_path("home/py/bin", NULL);
    finds(at("home/py/bin/python3.12"), "PATH", at("home/py"), NULL);
}

/* A home that is reached through a link is still a home. */
static void home_behind_a_link(void **state)
{
    (void)state;
    put_python("data", "3.12");
    link_to("data", "home");
    set_path("home/bin", NULL);
    fails("contains more than Python");
}

static void a_wrong_one_does_not_hide_a_right_one(void **state)
{
    (void)state;
    put("nolib/bin/python3", ELF, 0755);
    put_python("py", "3.12");
    set_path("nolib/bin", "py/bin");
    finds(at("py/bin/python3.12"), "PATH", at("py"), NULL);
}

static void put_venv(const char *target, const char *home)
{
    char text[600];

    str_format(text, sizeof(text), "version = 3.12.1\nHOME =  %s \ninclude = x\n", home);
    put("venv/pyvenv.cfg", text, 0644);
    put("venv/bin/activate", "", 0644);
    link_to(target, "venv/bin/python");
    link_to("python", "venv/bin/python3");
    set_path("venv/bin", NULL);
}

static void venv_of_a_prefix(void **state)
{
    (void)state;
    put_python("py", "3.12");
    put_venv(at("py/bin/python3.12"), at("py/bin"));
    finds(at("venv/bin/python3"), "venv", at("venv"), at("py"));
}

static void venv_of_the_system(void **state)
{
    (void)state;
    if (access("/usr/bin/python3", X_OK) < 0) {
        print_message("skipped: this machine has no /usr/bin/python3\n");
        skip();
    }
    put_venv("/bin/python3", "/bin");
    finds(at("venv/bin/python3"), "venv", at("venv"), NULL);
}

static void venv_through_a_link_keeps_its_own_path(void **state)
{
    (void)state;
    put_python("py", "3.12");
    put_venv(at("py/bin/python3.12"), at("py/bin"));
    link_to("venv", "current");
    set_path("current/bin", NULL);
    finds(at("venv/bin/python3"), "venv", at("venv"), at("py"));
}

static void venv_inside_of_its_prefix(void **state)
{
    char text[600];

    (void)state;
    put_python("py", "3.12");
    put("py/envs/v/pyvenv.cfg", "", 0644);
    put("py/envs/v/bin/x", "", 0644);
    link_to(at("py/bin/python3"), "py/envs/v/bin/python3");
    set_path("py/envs/v/bin", NULL);
    fails("pyvenv.cfg has no home");
    str_format(text, sizeof(text), "home=%s", at("py/bin"));
    put("py/envs/v/pyvenv.cfg", text, 0644);
    finds(at("py/envs/v/bin/python3"), "venv", at("py"), NULL);
}

static void venv_with_a_copied_program(void **state)
{
    char text[600];

    (void)state;
    put_python("py", "3.12");
    str_format(text, sizeof(text), "home = %s\n", at("py/bin"));
    put("venv/pyvenv.cfg", text, 0644);
    put("venv/bin/python3", ELF, 0755);
    set_path("venv/bin", NULL);
    finds(at("venv/bin/python3"), "venv", at("venv"), at("py"));
}

/* The link names a folder that is a link itself, as those of uv do: that name has to exist too. */
static void venv_whose_prefix_is_a_link(void **state)
{
    (void)state;
    put_python("cpython-3.12.1", "3.12");
    link_to("cpython-3.12.1", "cpython-3.12");
    put_venv(at("cpython-3.12/bin/python3.12"), at("cpython-3.12/bin"));
    finds(at("venv/bin/python3"), "venv", at("venv"), at("cpython-3.12"));
}

static void venv_that_shows_too_much(void **state)
{
    (void)state;
    put_python("py", "3.12");
    put_venv(at("py/bin/python3.12"), at("home/bin"));
    put("home/bin/x", "", 0644);
    fails("home contains more than Python");
    assert_int_equal(unlink(at("venv/pyvenv.cfg")), 0);
    assert_int_equal(rename(at("venv"), at("other")), 0);
    put("home/pyvenv.cfg", "home = /usr/bin\n", 0644);
    put("home/bin/python3", ELF, 0755);
    set_path("home/bin", NULL);
    fails("home contains more than Python");
}

static void venv_in_a_circle(void **state)
{
    (void)state;
    put("venv/pyvenv.cfg", "home = /usr/bin\n", 0644);
    put("venv/bin/x", "", 0644);
    link_to("python3", "venv/bin/python");
    link_to("python", "venv/bin/python3");
    set_path("venv/bin", NULL);
    fails("no usable Python");
}

static void sandbox_python(void **state)
{
    (void)state;
    put_python("a", "3.10");
    put_python("b", "3.12");
    set_path("a/bin", "b/bin");
    config.python = at("b/bin/python3");
    finds(at("b/bin/python3.12"), "SANDBOX_PYTHON", at("b"), NULL);
    config.python = "python3.12";
    finds(at("b/bin/python3.12"), "SANDBOX_PYTHON", at("b"), NULL);
    config.python = "python3.99";
    fails("SANDBOX_PYTHON: no usable Python at 'python3.99'; name another one");
    config.python = at("none");
    fails("no usable Python at '");
    put("script", "#!/bin/sh\n", 0755);
    config.python = at("script");
    fails("script (a script, not a program)");
}

static void put_pyenv(void)
{
    put("pyenv/shims/python3", SHIM, 0755);
    put("pyenv/shims/python3.9", SHIM, 0755);
    put_python("pyenv/versions/3.9.18", "3.9");
    put_python("pyenv/versions/3.11.2", "3.11");
    put_python("pyenv/versions/3.11.12", "3.11");
    put_python("pyenv/versions/3.11.99rc1", "3.11");
    put_python("other", "3.12");
    put("pyenv/version", "3.9.18\n", 0644);
    set_path("pyenv/shims", "other/bin");
}

static void finds_pyenv(const char *version, const char *name)
{
    char path[512], prefix[512];

    str_format(prefix, sizeof(prefix), "%s/%s", at("pyenv/versions"), version);
    str_format(path, sizeof(path), "%s/bin/%s", prefix, name);
    finds(path, "pyenv", prefix, NULL);
}

static void pyenv_versions(void **state)
{
    (void)state;
    put_pyenv();
    finds_pyenv("3.9.18", "python3.9");
    put(".python-version", "# mine\n3.11.2 # exactly\n", 0644);
    finds_pyenv("3.11.2", "python3.11");
    put("deep/er/x", "", 0644);
    assert_int_equal(chdir(at("deep/er")), 0);
    finds_pyenv("3.11.2", "python3.11");
    setenv("PYENV_VERSION", "3.11", 1);
    finds_pyenv("3.11.12", "python3.11");
    setenv("PYENV_VERSION", "4.2:python-3.9.18:3.11", 1);
    finds_pyenv("3.9.18", "python3.9");
    setenv("PYENV_VERSION", "3", 1);
    finds_pyenv("3.11.12", "python3.11");
    config.python = "python3.9";
    setenv("PYENV_VERSION", "3.11:3.9", 1);
    finds(at("pyenv/versions/3.9.18/bin/python3.9"), "SANDBOX_PYTHON", at("pyenv/versions/3.9.18"),
          NULL);
}

static void pyenv_system_goes_on(void **state)
{
    (void)state;
    put_pyenv();
    setenv("PYENV_VERSION", "system", 1);
    finds(at("other/bin/python3.12"), "PATH", at("other"), NULL);
    config.python = at("pyenv/shims/python3");
    finds(at("other/bin/python3.12"), "SANDBOX_PYTHON", at("other"), NULL);
    config.python = NULL;
    unsetenv("PYENV_VERSION");
    assert_int_equal(unlink(at("pyenv/version")), 0);
    finds(at("other/bin/python3.12"), "PATH", at("other"), NULL);
}

static void pyenv_without_the_version(void **state)
{
    (void)state;
    put_pyenv();
    set_path("pyenv/shims", NULL);
    setenv("PYENV_VERSION", "3.99", 1);
    fails("shims/python3 (pyenv has no python3 in version '3.99')");
    set_path("pyenv/shims", "other/bin");
    finds(at("other/bin/python3.12"), "PATH", at("other"), NULL);
}

static void pyenv_root_from_the_environment(void **state)
{
    (void)state;
    put_pyenv();
    put("shims/python3", SHIM, 0755);
    set_path("shims", NULL);
    setenv("PYENV_ROOT", at("pyenv/"), 1);
    finds_pyenv("3.9.18", "python3.9");
}

/* CVE-2022-35861: .python-version of a stranger's folder must not name a path. */
static void pyenv_version_is_no_path(void **state)
{
    (void)state;
    put_pyenv();
    set_path("pyenv/shims", NULL);
    put(".python-version", "../../other\n", 0644);
    fails("pyenv has no python3 in version '../../other'");
    put(".python-version", "..\n", 0644);
    fails("pyenv has no python3");
}

static void pyenv_virtualenv(void **state)
{
    char text[600];

    (void)state;
    put_pyenv();
    str_format(text, sizeof(text), "home = %s\n", at("pyenv/versions/3.9.18/bin"));
    put("pyenv/versions/3.9.18/envs/mine/pyvenv.cfg", text, 0644);
    put("pyenv/versions/3.9.18/envs/mine/bin/x", "", 0644);
    link_to(at("pyenv/versions/3.9.18/bin/python3.9"),
            "pyenv/versions/3.9.18/envs/mine/bin/python3");
    link_to("3.9.18/envs/mine", "pyenv/versions/mine");
    setenv("PYENV_VERSION", "mine", 1);
    finds(at("pyenv/versions/3.9.18/envs/mine/bin/python3"), "pyenv", at("pyenv/versions/3.9.18"),
          NULL);
}

static void root_folder(void **state)
{
    const char *root = at("root");

    (void)state;
    put("root/usr/bin/python3.12", ELF, 0755);
    put("root/etc/x", "", 0644);
    config.root = root;
    fails("no Python in the root folder '");
    link_to("/etc/alternatives/python3", "root/usr/bin/python3");
    fails("no Python in the root folder '");
    put("root/etc/alternatives/x", "", 0644);
    link_to("/usr/bin/python3.12", "root/etc/alternatives/python3");
    finds("/usr/bin/python3", "SANDBOX_ROOT", NULL, NULL);
    config.python = "python3.12";
    finds("/usr/bin/python3.12", "SANDBOX_ROOT", NULL, NULL);
    config.python = "/usr/bin/python3.12";
    finds("/usr/bin/python3.12", "SANDBOX_ROOT", NULL, NULL);
    config.python = "/usr/bin/none";
    fails("no Python in the root folder '");
    assert_int_equal(interpreter_find(language_find("bash"), &config, &found, &err), -ENOENT);
    put("root/bin/bash", ELF, 0755);
    assert_int_equal(interpreter_find(language_find("bash"), &config, &found, &err), 0);
    assert_string_equal(found.path, "/bin/bash");
}

/* A link that leads out of the root folder on the host leads nowhere in it. */
static void root_folder_is_not_left(void **state)
{
    (void)state;
    put("outside/python3", ELF, 0755);
    put("root/usr/bin/x", "", 0644);
    link_to(at("outside/python3"), "root/usr/bin/python3");
    link_to("../../../outside/python3", "root/usr/bin/python");
    config.root = at("root");
    fails("no Python in the root folder '");
    config.root = at("nowhere");
    assert_int_equal(interpreter_find(language_find("python"), &config, &found, &err), -ENOENT);
    assert_non_null(strstr(err.text, "SANDBOX_ROOT: opening the folder"));
}

/* ---- named by a path, as the launcher takes it ---- */

static void adopts(enum interpreter_kind kind, const char *path, const char *bind)
{
    interpreter_free(&found);
    if (interpreter_adopt(kind, path, &found, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(found.bind_count, bind ? 1 : 0);
    if (bind)
        assert_string_equal(found.binds[0], bind);
}

static void refuses(enum interpreter_kind kind, const char *path, const char *why)
{
    interpreter_free(&found);
    assert_true(interpreter_adopt(kind, path, &found, &err) < 0);
    assert_null(found.path); /* written on success only */
    assert_ptr_equal(err.code, ERROR_NO_INTERPRETER);
    assert_non_null(strstr(err.text, interpreter_setting(kind)));
    if (!strstr(err.text, why))
        fail_msg("'%s' does not say '%s'", err.text, why);
}

static void test_a_path_is_taken_as_it_is(void **state)
{
    (void)state;
    put_python("a", "3.12");
    adopts(INTERPRETER_PYTHON, at("a/bin/python3.12"), at("a"));
    adopts(INTERPRETER_PYTHON, at("a/bin/python3"), at("a")); /* a link that the box has too */
    put("n/bin/node", ELF, 0755);
    put("n/include/node/node.h", "", 0644);
    adopts(INTERPRETER_NODE, at("n/bin/node"), at("n"));
}

static void test_a_path_that_no_box_has(void **state)
{
    (void)state;
    put_python("a", "3.12");
    link_to("a/bin/python3.12", "short");
    refuses(INTERPRETER_PYTHON, at("short"), at("a/bin/python3.12")); /* what to name instead */
    refuses(INTERPRETER_PYTHON, at("none"), "no such file");
    refuses(INTERPRETER_PYTHON, "python3", "absolute");
    refuses(INTERPRETER_PYTHON, at("a/bin/../bin/python3"), "absolute");
    refuses(INTERPRETER_PYTHON, "/proc/self/exe", "");
}

static void test_a_path_to_something_else(void **state)
{
    (void)state;
    put("s/bin/python3", "#!/bin/sh\n", 0755);
    refuses(INTERPRETER_PYTHON, at("s/bin/python3"), "script");
    put("w/bin/python3", ELF, 0755); /* its prefix would be shown, and is no Python's */
    put("w/diary", "canary", 0644);
    refuses(INTERPRETER_PYTHON, at("w/bin/python3"), "no lib/python3*/os.py");
    refuses(INTERPRETER_NODE, at("w/bin/python3"), "more than Node.js");
    put("home/bin/python3", ELF, 0755); /* a home folder, whatever is in it */
    put("home/lib/python3.12/os.py", "", 0644);
    refuses(INTERPRETER_PYTHON, at("home/bin/python3"), "more than Python");
    refuses(INTERPRETER_PYTHON, at("home/bin"), "no program");
    refuses(INTERPRETER_PYTHON, "/dev/null", "no program");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_path_is_taken_as_it_is),
        TEST(test_a_path_that_no_box_has),
        TEST(test_a_path_to_something_else),
        TEST(bash),
        TEST(the_one_of_the_system_needs_no_binds),
        TEST(prefix_of_its_own),
        TEST(link_from_elsewhere),
        TEST(library_in_lib64),
        TEST(python_only_without_python3),
        TEST(relative_entries_are_passed_over),
        TEST(what_is_no_program_is_named),
        TEST(prefixes_that_show_too_much),
        TEST(home_behind_a_link),
        TEST(a_wrong_one_does_not_hide_a_right_one),
        TEST(venv_of_a_prefix),
        TEST(venv_of_the_system),
        TEST(venv_through_a_link_keeps_its_own_path),
        TEST(venv_inside_of_its_prefix),
        TEST(venv_with_a_copied_program),
        TEST(venv_whose_prefix_is_a_link),
        TEST(venv_that_shows_too_much),
        TEST(venv_in_a_circle),
        TEST(sandbox_python),
        TEST(pyenv_versions),
        TEST(pyenv_system_goes_on),
        TEST(pyenv_without_the_version),
        TEST(pyenv_root_from_the_environment),
        TEST(pyenv_version_is_no_path),
        TEST(pyenv_virtualenv),
        TEST(root_folder),
        TEST(root_folder_is_not_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
