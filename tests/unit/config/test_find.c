/* test_find.c - which bailey.yaml is read, and which is not trusted; in a folder of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "config/config.h"

static char folder[] = "/tmp/bailey-find-XXXXXX";
static char start[4096];
static char home_variable[128], xdg_variable[128], named_variable[128];
static const char *env[] = {home_variable, NULL, NULL, NULL};

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *ftw)
{
    (void)status;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int set_up(void **state)
{
    (void)state;
    umask(022);
    memcpy(folder + strlen(folder) - 6, "XXXXXX", 6);
    if (!getcwd(start, sizeof(start)) || !mkdtemp(folder) || chdir(folder) < 0)
        return -1;
    str_format(home_variable, sizeof(home_variable), "HOME=%s/home", folder);
    str_format(xdg_variable, sizeof(xdg_variable), "XDG_CONFIG_HOME=%s/xdg", folder);
    str_format(named_variable, sizeof(named_variable), "BAILEY_CONFIG=%s/named.yaml", folder);
    env[1] = env[2] = NULL;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (chdir(start) < 0)
        return -1;
    return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void put(const char *name, const char *text)
{
    CLEANUP(fd_closep) int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    assert_true(fd >= 0);
    assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
}

static void put_pids(const char *name, int pids)
{
    char text[64];

    str_format(text, sizeof(text), "sandbox:\n  pids_limit: %d\n", pids);
    put(name, text);
}

static void loads(const char *file, unsigned int pids, const char *read)
{
    struct error err = {0};
    struct config config;

    if (config_load(&config, file, (char *const *)env, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(config.limits.pids, pids);
    if (read)
        assert_string_equal(config.file, read);
    else
        assert_null(config.file);
    config_free(&config);
}

static void fails(const char *file, int num, const char *expected)
{
    struct error err = {0};
    struct config config;

    assert_int_equal(config_load(&config, file, (char *const *)env, &err), num);
    assert_ptr_equal(err.code, ERROR_BAD_CONFIG);
    if (!strstr(err.text, expected))
        fail_msg("'%s' is not in '%s'", expected, err.text);
    assert_null(config.file);
}

static void skip_with_system_file(void)
{
    if (access("/etc/bailey/bailey.yaml", F_OK) == 0) {
        print_message("skipped: this machine has an /etc/bailey/bailey.yaml\n");
        skip();
    }
}

static void none(void **state)
{
    (void)state;
    skip_with_system_file();
    loads(NULL, 256, NULL);
}

static void order_of_places(void **state)
{
    char in_home[128], in_xdg[128], named[128];

    (void)state;
    str_format(in_home, sizeof(in_home), "%s/home/.config/bailey/bailey.yaml", folder);
    str_format(in_xdg, sizeof(in_xdg), "%s/xdg/bailey/bailey.yaml", folder);
    str_format(named, sizeof(named), "%s/named.yaml", folder);
    assert_int_equal(mkdir("home", 0755), 0);
    assert_int_equal(mkdir("home/.config", 0755), 0);
    assert_int_equal(mkdir("home/.config/bailey", 0755), 0);
    assert_int_equal(mkdir("xdg", 0755), 0);
    assert_int_equal(mkdir("xdg/bailey", 0755), 0);
    put_pids(in_home, 10);
    put_pids(in_xdg, 11);
    put_pids("given.yaml", 14);
    loads(NULL, 10, in_home);
    env[1] = xdg_variable;
    loads(NULL, 11, in_xdg);
    put_pids("bailey.yaml", 12);
    loads(NULL, 12, "bailey.yaml");
    put_pids(named, 13);
    env[2] = named_variable;
    loads(NULL, 13, named);
    loads("given.yaml", 14, "given.yaml");
}

static void relative_xdg_is_ignored(void **state)
{
    (void)state;
    skip_with_system_file();
    assert_int_equal(mkdir("xdg", 0755), 0);
    assert_int_equal(mkdir("xdg/bailey", 0755), 0);
    put_pids("xdg/bailey/bailey.yaml", 11);
    env[1] = "XDG_CONFIG_HOME=xdg";
    loads(NULL, 256, NULL);
}

static void named_one_must_exist(void **state)
{
    (void)state;
    fails("none.yaml", -ENOENT, "none.yaml: No such file");
    env[1] = named_variable;
    fails(NULL, -ENOENT, "named.yaml: No such file");
    env[1] = "BAILEY_CONFIG=";
    put_pids("bailey.yaml", 12);
    loads(NULL, 12, "bailey.yaml");
}

static void others_may_not_write_it(void **state)
{
    (void)state;
    put_pids("bailey.yaml", 12);
    assert_int_equal(chmod("bailey.yaml", 0664), 0);
    fails(NULL, -EPERM, "bailey.yaml: not read, because others may write it; run chmod go-w");
    assert_int_equal(chmod("bailey.yaml", 0646), 0);
    fails(NULL, -EPERM, "others may write it");
    loads("bailey.yaml", 12, "bailey.yaml"); /* who names it has decided */
    assert_int_equal(chmod("bailey.yaml", 0600), 0);
    loads(NULL, 12, "bailey.yaml");
}

static void it_belongs_to_the_caller(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("skipped: giving a file away needs root\n");
        skip();
    }
    put_pids("bailey.yaml", 12);
    assert_int_equal(chown("bailey.yaml", 4242, 4242), 0);
    fails(NULL, -EPERM, "bailey.yaml: not read, because it belongs to another user");
    loads("bailey.yaml", 12, "bailey.yaml");
}

static void a_link_here_is_refused(void **state)
{
    (void)state;
    put_pids("other.yaml", 12);
    assert_int_equal(symlink("other.yaml", "bailey.yaml"), 0);
    fails(NULL, -EPERM, "because it is a symbolic link");
    assert_int_equal(unlink("bailey.yaml"), 0);
    assert_int_equal(symlink("nowhere", "bailey.yaml"), 0);
    fails(NULL, -EPERM, "because it is a symbolic link");
}

static void only_regular_files(void **state)
{
    (void)state;
    assert_int_equal(mkfifo("bailey.yaml", 0600), 0);
    fails(NULL, -EINVAL, "bailey.yaml: not a regular file");
    fails("bailey.yaml", -EINVAL, "not a regular file");
    assert_int_equal(unlink("bailey.yaml"), 0);
    assert_int_equal(mkdir("bailey.yaml", 0700), 0);
    fails(NULL, -EINVAL, "not a regular file");
}

/* Who may not search the working folder, or the home folder, has no file there, and no error. */
static void unreachable_is_none(void **state)
{
    (void)state;
    skip_with_system_file();
    if (geteuid() != 0) {
        print_message("skipped: becoming somebody else needs root\n");
        skip();
    }
    put_pids("bailey.yaml", 12);
    assert_int_equal(seteuid(65534), 0); /* the folder is root's and 0700 */
    loads(NULL, 256, NULL);
    assert_int_equal(seteuid(0), 0);
}

static void unreadable_is_an_error(void **state)
{
    bool was_root = geteuid() == 0;

    (void)state;
    put_pids("bailey.yaml", 12);
    assert_int_equal(chmod("bailey.yaml", 0), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    if (was_root)
        assert_int_equal(seteuid(65534), 0);
    fails(NULL, -EACCES, "bailey.yaml: Permission denied");
    if (was_root)
        assert_int_equal(seteuid(0), 0);
}

static void too_large(void **state)
{
    CLEANUP(fd_closep) int fd = open("bailey.yaml", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    (void)state;
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, LIMIT_CONFIG_BYTES + 1), 0);
    fails(NULL, -EFBIG, "bailey.yaml: larger than 1024 KB");
}

static void errors_name_file_and_line(void **state)
{
    (void)state;
    put("bailey.yaml", "sandbox:\n  memory_limit: 12x\n");
    fails(NULL, -EINVAL, "bailey.yaml:2: sandbox.memory_limit: '12x' is not a size");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(none),
        TEST(order_of_places),
        TEST(relative_xdg_is_ignored),
        TEST(named_one_must_exist),
        TEST(others_may_not_write_it),
        TEST(it_belongs_to_the_caller),
        TEST(a_link_here_is_refused),
        TEST(only_regular_files),
        TEST(unreachable_is_none),
        TEST(unreadable_is_an_error),
        TEST(too_large),
        TEST(errors_name_file_and_line),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
