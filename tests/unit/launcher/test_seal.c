/*
 * test_seal.c - what an installer may leave in its folder, and what of it is in the layer: nothing
 * that leads out, nothing that is no file, nobody's but ours, named by its contents.
 */
#include "scratch.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "base/fd.h"
#include "base/folder.h"
#include "base/manifest.h"
#include "launcher/engine.h"

#define BUILD ".build-k"
#define OTHER_ID 1879048201

struct yard {
    struct scratch scratch;
    int layers_fd;
    struct launcher_sealed sealed;
};

static int set_up(void **state)
{
    struct yard *yard = calloc(1, sizeof(*yard));

    scratch_make(&yard->scratch);
    scratch_folder(&yard->scratch, "layers/" BUILD);
    yard->layers_fd =
        open(scratch_path(&yard->scratch, "layers"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(yard->layers_fd >= 0);
    umask(022);
    *state = yard;
    return 0;
}

static int tear_down(void **state)
{
    struct yard *yard = *state;

    close(yard->layers_fd);
    assert_int_equal(folder_remove(AT_FDCWD, yard->scratch.path), 0);
    free(yard);
    return 0;
}

/* The name of something in the folder as it is now. */
static const char *in(struct yard *yard, const char *name)
{
    char path[4096];

    snprintf(path, sizeof(path), "layers/%s/%s", yard->sealed.layer[0] ? yard->sealed.layer : BUILD,
             name);
    return scratch_path(&yard->scratch, path);
}

static void write_in(struct yard *yard, const char *name, const char *text)
{
    char path[4096];

    snprintf(path, sizeof(path), "layers/" BUILD "/%s", name);
    scratch_write(&yard->scratch, path, text);
}

static void folder_in(struct yard *yard, const char *name)
{
    char path[4096];

    snprintf(path, sizeof(path), "layers/" BUILD "/%s", name);
    scratch_folder(&yard->scratch, path);
}

static void seal(struct yard *yard)
{
    struct error err = {0};

    yard->sealed = (struct launcher_sealed){0};
    if (seal_folder(yard->layers_fd, BUILD, geteuid(), &yard->sealed) < 0)
        fail_msg("%s", yard->sealed.error.text);
    assert_int_equal(yard->sealed.error.num, 0);
    assert_int_equal(strlen(yard->sealed.layer), 64);
    assert_int_equal(faccessat(yard->layers_fd, BUILD, F_OK, AT_SYMLINK_NOFOLLOW), -1);
    if (manifest_verify(yard->layers_fd, yard->sealed.layer, NULL, NULL, &err) < 0)
        fail_msg("%s", err.text);
}

static bool is_there(const char *path)
{
    struct stat status;

    return lstat(path, &status) == 0;
}

static mode_t mode_of(const char *path)
{
    struct stat status;

    assert_int_equal(lstat(path, &status), 0);
    return status.st_mode & 07777;
}

static void test_modes_and_owners(void **state)
{
    struct yard *yard = *state;
    struct stat status;
    char text[256];

    folder_in(yard, "lib");
    write_in(yard, "lib/plain", "abc");
    write_in(yard, "lib/program", "#!/bin/sh\n");
    write_in(yard, "lib/root", "");
    write_in(yard, "lib/closed", "secret");
    assert_int_equal(chmod(in(yard, "lib/plain"), 0666), 0);
    assert_int_equal(chmod(in(yard, "lib/program"), 0775), 0);
    assert_int_equal(chmod(in(yard, "lib/closed"), 0400), 0);
    assert_int_equal(symlink("plain", in(yard, "lib/link")), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(in(yard, "lib"), OTHER_ID, OTHER_ID), 0);
        assert_int_equal(chown(in(yard, "lib/plain"), OTHER_ID, OTHER_ID), 0);
        assert_int_equal(lchown(in(yard, "lib/link"), OTHER_ID, OTHER_ID), 0);
        assert_int_equal(chmod(in(yard, "lib/closed"), 0), 0);
    }
    assert_int_equal(chmod(in(yard, "lib/root"), 06755), 0);
    assert_int_equal(chmod(in(yard, "lib"), 03777), 0);
    seal(yard);
    assert_int_equal(mode_of(in(yard, "")), 0755);
    assert_int_equal(mode_of(in(yard, "lib")), 0755);
    assert_int_equal(mode_of(in(yard, "lib/plain")), 0444);
    assert_int_equal(mode_of(in(yard, "lib/program")), 0555);
    assert_int_equal(mode_of(in(yard, "lib/root")), 0555);
    assert_int_equal(mode_of(in(yard, "lib/closed")), 0444);
    assert_int_equal(lstat(in(yard, "lib/link"), &status), 0);
    assert_int_equal(status.st_uid, geteuid());
    assert_int_equal(stat(in(yard, "lib"), &status), 0);
    assert_int_equal(status.st_uid, geteuid());
    assert_int_equal(yard->sealed.files, 4);
    assert_int_equal(yard->sealed.bytes, 3 + 10 + 6);
    snprintf(text, sizeof(text), "layers/%s.manifest", yard->sealed.layer);
    assert_int_equal(mode_of(scratch_path(&yard->scratch, text)), 0444);
}

static void test_links(void **state)
{
    static const struct {
        const char *path, *target;
        bool stays;
    } rows[] = {
        {"lib64", "lib", true},
        {"lib/up", "../file", true},
        {"lib/deep/up", "../../file", true},
        {"lib/here", ".", true},
        {"lib/dangling", "nothing", true},
        {"bin/python", "python3", true},
        {"bin/python3", "/usr/bin/python3", true},
        {"bin/python3.11", "/opt/python/bin/python3.11", true},
        {"lib/dots", "..file", true},
        {"lib/top", "..", true},
        {"out", "..", false},
        {"out2", "../x", false},
        {"lib/out", "../../x", false},
        {"lib/deep/out", "../../..", false},
        {"lib/slashes", "..//..//x", false},
        {"absolute", "/etc/passwd", false},
        {"bin/bash", "/bin/bash", false},
        {"bin/python4", "/usr/bin/../../etc/passwd", false},
        {"lib/python3", "/usr/bin/python3", false},
        {"lib/through", "here/../../x", false}, /* "here" is lib: one up too many */
        {"lib/behind", "deep/..", false},
    };
    struct yard *yard = *state;

    folder_in(yard, "lib/deep");
    folder_in(yard, "bin");
    write_in(yard, "file", "x");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(symlink(rows[i].target, in(yard, rows[i].path)), 0);
    seal(yard);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (is_there(in(yard, rows[i].path)) != rows[i].stays)
            fail_msg("%s -> %s", rows[i].path, rows[i].target);
    }
}

/* Pipes, sockets and (where we may make one) devices are no part of a layer. */
static void test_what_is_no_file(void **state)
{
    struct yard *yard = *state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    write_in(yard, "file", "x");
    assert_int_equal(mkfifo(in(yard, "fifo"), 0644), 0);
    assert_true(snprintf(address.sun_path, sizeof(address.sun_path), "%s", in(yard, "socket")) <
                (int)sizeof(address.sun_path));
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    close(fd);
    if (mknod(in(yard, "device"), S_IFCHR | 0666, 0x103) < 0)
        print_message("no device can be made here: %s\n", strerror(errno));
    seal(yard);
    assert_false(is_there(in(yard, "fifo")));
    assert_false(is_there(in(yard, "socket")));
    assert_false(is_there(in(yard, "device")));
    assert_true(is_there(in(yard, "file")));
    assert_int_equal(yard->sealed.files, 1);
}

/* One owner, one mode: what else a guest may write on a file is gone. */
static void test_attributes(void **state)
{
    struct yard *yard = *state;

    write_in(yard, "file", "x");
    if (setxattr(in(yard, "file"), "user.note", "1", 1, 0) < 0) {
        print_message("no attributes here: %s\n", strerror(errno));
        skip();
    }
    seal(yard);
    assert_int_equal(getxattr(in(yard, "file"), "user.note", NULL, 0), -1);
    assert_int_equal(errno, ENODATA);
}

static void test_strange_names(void **state)
{
    struct yard *yard = *state;
    char first[SHA256_TEXT], name[256];

    memset(name, 'n', 255);
    name[255] = 0;
    write_in(yard, name, "long");
    write_in(yard, "a\nb", "1");
    write_in(yard, "-rf \033[2J", "2");
    write_in(yard, "\377\376", "3");
    seal(yard);
    assert_true(is_there(in(yard, "a\nb")));
    memcpy(first, yard->sealed.layer, sizeof(first));
    /* Names that would read the same if they were not written down carefully. */
    yard->sealed.layer[0] = 0;
    folder_in(yard, "");
    write_in(yard, name, "long");
    write_in(yard, "a\\012b", "1");
    write_in(yard, "-rf \033[2J", "2");
    write_in(yard, "\377\376", "3");
    seal(yard);
    assert_string_not_equal(yard->sealed.layer, first);
}

/* The same contents have the same name, whoever wrote them when. */
static void test_was_there(void **state)
{
    struct yard *yard = *state;
    char first[SHA256_TEXT], path[256];
    struct stat before, after;

    folder_in(yard, "a");
    write_in(yard, "a/b", "text");
    seal(yard);
    assert_false(yard->sealed.was_there);
    memcpy(first, yard->sealed.layer, sizeof(first));
    snprintf(path, sizeof(path), "layers/%s.manifest", first);
    assert_int_equal(stat(scratch_path(&yard->scratch, path), &before), 0);
    yard->sealed.layer[0] = 0;
    folder_in(yard, "a");
    write_in(yard, "a/b", "text");
    assert_int_equal(chmod(in(yard, "a/b"), 0600), 0);
    seal(yard);
    assert_true(yard->sealed.was_there);
    assert_string_equal(yard->sealed.layer, first);
    assert_int_equal(stat(scratch_path(&yard->scratch, path), &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    yard->sealed.layer[0] = 0;
    folder_in(yard, "a");
    write_in(yard, "a/b", "tex");
    seal(yard);
    assert_false(yard->sealed.was_there);
    assert_string_not_equal(yard->sealed.layer, first);
}

static void test_hard_links(void **state)
{
    struct yard *yard = *state;

    write_in(yard, "one", "12345");
    assert_int_equal(link(in(yard, "one"), in(yard, "two")), 0);
    seal(yard);
    assert_int_equal(yard->sealed.bytes, 5);
    assert_int_equal(yard->sealed.files, 2);
}

/* A failure leaves no layer, and what is left can be taken away. */
static void test_too_deep(void **state)
{
    struct yard *yard = *state;
    char path[1024] = "d";
    int r;

    for (int i = 0; i < 100; i++)
        strcat(path, "/d");
    folder_in(yard, path);
    r = seal_folder(yard->layers_fd, BUILD, geteuid(), &yard->sealed);
    assert_int_equal(r, -ELOOP);
    assert_int_equal(yard->sealed.error.num, -ELOOP);
    assert_ptr_equal(yard->sealed.error.code, ERROR_TOO_LARGE);
    assert_string_equal(yard->sealed.layer, "");
    assert_int_equal(folder_remove(yard->layers_fd, BUILD), 0);
}

static void test_no_folder(void **state)
{
    struct yard *yard = *state;

    assert_int_equal(seal_folder(yard->layers_fd, ".build-none", 0, &yard->sealed), -ENOENT);
    assert_int_equal(symlink("/etc", scratch_path(&yard->scratch, "layers/.build-link")), 0);
    assert_true(seal_folder(yard->layers_fd, ".build-link", 0, &yard->sealed) < 0);
    assert_int_equal(access("/etc/passwd", F_OK), 0);
}

/* ---- the walls of the child ---- */

static int try_walls(struct yard *yard, int ends[2])
{
    int other = open(yard->scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct launcher_sealed sealed = {0};

    if (seal_confine(yard->layers_fd, ends[1]) < 0)
        return 1;
    if (fcntl(other, F_GETFD) >= 0 || fcntl(ends[0], F_GETFD) >= 0)
        return 2;
    if (open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 || fork() >= 0 ||
        socket(AF_UNIX, SOCK_STREAM, 0) >= 0 || unlinkat(AT_FDCWD, yard->scratch.path, 0) == 0)
        return 3;
    /* fchmodat2(2), which glibc 2.39 and later try first: they go on without it after ENOSYS. */
    if (syscall(452, yard->layers_fd, BUILD, 0700, AT_SYMLINK_NOFOLLOW) >= 0 || errno != ENOSYS)
        return 6;
    if (seal_folder(yard->layers_fd, BUILD, geteuid(), &sealed) < 0)
        return 4;
    return fd_write_all(ends[1], sealed.layer, 64) < 0 ? 5 : 0;
}

static void test_walls(void **state)
{
    struct yard *yard = *state;
    char hash[SHA256_TEXT] = "";
    int ends[2], status;
    pid_t pid;

    if (geteuid() != 0) {
        print_message("the walls are for the engine's root\n");
        skip();
    }
    folder_in(yard, "a/b");
    write_in(yard, "a/b/c", "text");
    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0)
        _exit(try_walls(yard, ends));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_false(is_there(scratch_path(&yard->scratch, "layers/" BUILD)));
    assert_int_equal(read(ends[0], hash, 64), 64);
    memcpy(yard->sealed.layer, hash, sizeof(hash));
    assert_true(is_there(in(yard, "a/b/c")));
    close(ends[0]);
    close(ends[1]);
}

#define IN_A_YARD(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_YARD(test_modes_and_owners), IN_A_YARD(test_links),
        IN_A_YARD(test_what_is_no_file),  IN_A_YARD(test_attributes),
        IN_A_YARD(test_strange_names),    IN_A_YARD(test_was_there),
        IN_A_YARD(test_hard_links),       IN_A_YARD(test_too_deep),
        IN_A_YARD(test_no_folder),        IN_A_YARD(test_walls),
    };

    return cmocka_run_group_tests_name("launcher/seal", tests, NULL, NULL);
}
