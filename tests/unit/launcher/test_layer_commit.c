/*
 * test_layer_commit.c - what an installer may leave in its folder, and what of it is in the layer:
 * nothing that leads out, nothing that is no file, nobody's but ours, named by its contents.
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
#include "launcher/launcher_private.h"

#define BUILD ".build-k"
#define OTHER_ID 1879048201

struct fixture {
    struct scratch scratch;
    int layers_fd;
    struct launcher_layer_committed layer_committed;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    scratch_make(&fixture->scratch);
    scratch_folder(&fixture->scratch, "layers/" BUILD);
    fixture->layers_fd =
        open(scratch_path(&fixture->scratch, "layers"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fixture->layers_fd >= 0);
    umask(022);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    close(fixture->layers_fd);
    assert_int_equal(folder_remove(AT_FDCWD, fixture->scratch.path), 0);
    free(fixture);
    return 0;
}

/* The name of something in the folder as it is now. */
static const char *in(struct fixture *fixture, const char *name)
{
    char path[4096];

    snprintf(path, sizeof(path), "layers/%s/%s",
             fixture->layer_committed.layer[0] ? fixture->layer_committed.layer : BUILD, name);
    return scratch_path(&fixture->scratch, path);
}

static void write_in(struct fixture *fixture, const char *name, const char *text)
{
    char path[4096];

    snprintf(path, sizeof(path), "layers/" BUILD "/%s", name);
    scratch_write(&fixture->scratch, path, text);
}

static void folder_in(struct fixture *fixture, const char *name)
{
    char path[4096];

    snprintf(path, sizeof(path), "layers/" BUILD "/%s", name);
    scratch_folder(&fixture->scratch, path);
}

static void commit_layer(struct fixture *fixture)
{
    struct error err = {0};

    fixture->layer_committed = (struct launcher_layer_committed){0};
    if (layer_commit_folder(fixture->layers_fd, BUILD, geteuid(), &fixture->layer_committed) < 0)
        fail_msg("%s", fixture->layer_committed.error.text);
    assert_int_equal(fixture->layer_committed.error.num, 0);
    assert_int_equal(strlen(fixture->layer_committed.layer), 64);
    assert_int_equal(faccessat(fixture->layers_fd, BUILD, F_OK, AT_SYMLINK_NOFOLLOW), -1);
    if (manifest_verify(fixture->layers_fd, fixture->layer_committed.layer, NULL, NULL, &err) < 0)
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
    struct fixture *fixture = *state;
    struct stat status;
    char text[256];

    folder_in(fixture, "lib");
    write_in(fixture, "lib/plain", "abc");
    write_in(fixture, "lib/program", "#!/bin/sh\n");
    write_in(fixture, "lib/root", "");
    write_in(fixture, "lib/closed", "secret");
    assert_int_equal(chmod(in(fixture, "lib/plain"), 0666), 0);
    assert_int_equal(chmod(in(fixture, "lib/program"), 0775), 0);
    assert_int_equal(chmod(in(fixture, "lib/closed"), 0400), 0);
    assert_int_equal(symlink("plain", in(fixture, "lib/link")), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(in(fixture, "lib"), OTHER_ID, OTHER_ID), 0);
        assert_int_equal(chown(in(fixture, "lib/plain"), OTHER_ID, OTHER_ID), 0);
        assert_int_equal(lchown(in(fixture, "lib/link"), OTHER_ID, OTHER_ID), 0);
        assert_int_equal(chmod(in(fixture, "lib/closed"), 0), 0);
    }
    assert_int_equal(chmod(in(fixture, "lib/root"), 06755), 0);
    assert_int_equal(chmod(in(fixture, "lib"), 03777), 0);
    commit_layer(fixture);
    assert_int_equal(mode_of(in(fixture, "")), 0755);
    assert_int_equal(mode_of(in(fixture, "lib")), 0755);
    assert_int_equal(mode_of(in(fixture, "lib/plain")), 0444);
    assert_int_equal(mode_of(in(fixture, "lib/program")), 0555);
    assert_int_equal(mode_of(in(fixture, "lib/root")), 0555);
    assert_int_equal(mode_of(in(fixture, "lib/closed")), 0444);
    assert_int_equal(lstat(in(fixture, "lib/link"), &status), 0);
    assert_int_equal(status.st_uid, geteuid());
    assert_int_equal(stat(in(fixture, "lib"), &status), 0);
    assert_int_equal(status.st_uid, geteuid());
    assert_int_equal(fixture->layer_committed.files, 4);
    assert_int_equal(fixture->layer_committed.bytes, 3 + 10 + 6);
    snprintf(text, sizeof(text), "layers/%s.manifest", fixture->layer_committed.layer);
    assert_int_equal(mode_of(scratch_path(&fixture->scratch, text)), 0444);
}

/* Python runs lines of .pth files at every start: only those that pip unpacked stay. */
static void test_start_files(void **state)
{
    static const struct {
        const char *path;
        bool stays;
    } rows[] = {
        {"lib/python3.11/site-packages/listed.pth", true},
        {"lib/python3.11/site-packages/stray.pth", false},
        {"lib/python3.11/site-packages/listed.pth.pth", false},
        {"lib/python3.11/site-packages/isted.pth", false},
        {"lib/python3.11/site-packages/torch/weights.pth", true}, /* not where Python looks */
        {"lib/python3.11/site-packages/plain.py", true},
        {"weights.pth", true},
    };
    struct fixture *fixture = *state;
    struct stat status;

    folder_in(fixture, "lib/python3.11/site-packages/torch");
    folder_in(fixture, "lib/python3.11/site-packages/one-1.0.dist-info");
    folder_in(fixture, "lib/python3.11/site-packages/two-1.0.dist-info");
    write_in(fixture, "lib/python3.11/site-packages/one-1.0.dist-info/RECORD",
             "one.py,sha256=x,1\nxlisted.pth,,\nlisted.pth,sha256=x,3\n");
    assert_int_equal(
        mkfifo(in(fixture, "lib/python3.11/site-packages/two-1.0.dist-info/RECORD"), 0600), 0);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        write_in(fixture, rows[i].path, "import os\n");
    assert_int_equal(symlink("plain.py", in(fixture, "lib/python3.11/site-packages/link.pth")), 0);
    commit_layer(fixture);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if ((lstat(in(fixture, rows[i].path), &status) == 0) != rows[i].stays)
            fail_msg("%s %s", rows[i].path, rows[i].stays ? "is gone" : "stays");
    }
    assert_int_equal(lstat(in(fixture, "lib/python3.11/site-packages/link.pth"), &status), -1);
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
        {"bin/python5", "/etc/passwd", false},
        {"bin/python6", "/usr/bin/bash", false},
        {"bin/python7", "/tmp/python3", false},
        {"bin/python8", "/python3", false},
        {"lib/python3", "/usr/bin/python3", false},
        {"lib/through", "here/../../x", false}, /* "here" is lib: one up too many */
        {"lib/behind", "deep/..", false},
    };
    struct fixture *fixture = *state;

    folder_in(fixture, "lib/deep");
    folder_in(fixture, "bin");
    write_in(fixture, "file", "x");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(symlink(rows[i].target, in(fixture, rows[i].path)), 0);
    commit_layer(fixture);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (is_there(in(fixture, rows[i].path)) != rows[i].stays)
            fail_msg("%s -> %s", rows[i].path, rows[i].target);
    }
}

/* Pipes, sockets and (where we may make one) devices are no part of a layer. */
static void test_what_is_no_file(void **state)
{
    struct fixture *fixture = *state;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    write_in(fixture, "file", "x");
    assert_int_equal(mkfifo(in(fixture, "fifo"), 0644), 0);
    assert_true(snprintf(address.sun_path, sizeof(address.sun_path), "%s", in(fixture, "socket")) <
                (int)sizeof(address.sun_path));
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    close(fd);
    if (mknod(in(fixture, "device"), S_IFCHR | 0666, 0x103) < 0)
        print_message("no device can be made here: %s\n", strerror(errno));
    commit_layer(fixture);
    assert_false(is_there(in(fixture, "fifo")));
    assert_false(is_there(in(fixture, "socket")));
    assert_false(is_there(in(fixture, "device")));
    assert_true(is_there(in(fixture, "file")));
    assert_int_equal(fixture->layer_committed.files, 1);
}

/* One owner, one mode: what else a guest may write on a file is gone. */
static void test_attributes(void **state)
{
    struct fixture *fixture = *state;

    write_in(fixture, "file", "x");
    if (setxattr(in(fixture, "file"), "user.note", "1", 1, 0) < 0) {
        print_message("no attributes here: %s\n", strerror(errno));
        skip();
    }
    commit_layer(fixture);
    assert_int_equal(getxattr(in(fixture, "file"), "user.note", NULL, 0), -1);
    assert_int_equal(errno, ENODATA);
}

static void test_strange_names(void **state)
{
    struct fixture *fixture = *state;
    char first[SHA256_TEXT], name[256];

    memset(name, 'n', 255);
    name[255] = 0;
    write_in(fixture, name, "long");
    write_in(fixture, "a\nb", "1");
    write_in(fixture, "-rf \033[2J", "2");
    write_in(fixture, "\377\376", "3");
    commit_layer(fixture);
    assert_true(is_there(in(fixture, "a\nb")));
    memcpy(first, fixture->layer_committed.layer, sizeof(first));
    /* Names that would read the same if they were not written down carefully. */
    fixture->layer_committed.layer[0] = 0;
    folder_in(fixture, "");
    write_in(fixture, name, "long");
    write_in(fixture, "a\\012b", "1");
    write_in(fixture, "-rf \033[2J", "2");
    write_in(fixture, "\377\376", "3");
    commit_layer(fixture);
    assert_string_not_equal(fixture->layer_committed.layer, first);
}

/* The same contents have the same name, whoever wrote them when. */
static void test_was_there(void **state)
{
    struct fixture *fixture = *state;
    char first[SHA256_TEXT], path[256];
    struct stat before, after;

    folder_in(fixture, "a");
    write_in(fixture, "a/b", "text");
    commit_layer(fixture);
    assert_false(fixture->layer_committed.was_there);
    memcpy(first, fixture->layer_committed.layer, sizeof(first));
    snprintf(path, sizeof(path), "layers/%s.manifest", first);
    assert_int_equal(stat(scratch_path(&fixture->scratch, path), &before), 0);
    fixture->layer_committed.layer[0] = 0;
    folder_in(fixture, "a");
    write_in(fixture, "a/b", "text");
    assert_int_equal(chmod(in(fixture, "a/b"), 0600), 0);
    commit_layer(fixture);
    assert_true(fixture->layer_committed.was_there);
    assert_string_equal(fixture->layer_committed.layer, first);
    assert_int_equal(stat(scratch_path(&fixture->scratch, path), &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    fixture->layer_committed.layer[0] = 0;
    folder_in(fixture, "a");
    write_in(fixture, "a/b", "tex");
    commit_layer(fixture);
    assert_false(fixture->layer_committed.was_there);
    assert_string_not_equal(fixture->layer_committed.layer, first);
}

static void test_hard_links(void **state)
{
    struct fixture *fixture = *state;

    write_in(fixture, "one", "12345");
    assert_int_equal(link(in(fixture, "one"), in(fixture, "two")), 0);
    commit_layer(fixture);
    assert_int_equal(fixture->layer_committed.bytes, 5);
    assert_int_equal(fixture->layer_committed.files, 2);
}

/* A failure leaves no layer, and what is left can be taken away. */
static void test_too_deep(void **state)
{
    struct fixture *fixture = *state;
    char path[1024] = "d";
    int r;

    for (int i = 0; i < 100; i++)
        strcat(path, "/d");
    folder_in(fixture, path);
    r = layer_commit_folder(fixture->layers_fd, BUILD, geteuid(), &fixture->layer_committed);
    assert_int_equal(r, -ELOOP);
    assert_int_equal(fixture->layer_committed.error.num, -ELOOP);
    assert_ptr_equal(fixture->layer_committed.error.code, ERROR_TOO_LARGE);
    assert_string_equal(fixture->layer_committed.layer, "");
    assert_int_equal(folder_remove(fixture->layers_fd, BUILD), 0);
}

static void test_no_folder(void **state)
{
    struct fixture *fixture = *state;

    assert_int_equal(
        layer_commit_folder(fixture->layers_fd, ".build-none", 0, &fixture->layer_committed),
        -ENOENT);
    assert_int_equal(symlink("/etc", scratch_path(&fixture->scratch, "layers/.build-link")), 0);
    assert_true(
        layer_commit_folder(fixture->layers_fd, ".build-link", 0, &fixture->layer_committed) < 0);
    assert_int_equal(access("/etc/passwd", F_OK), 0);
}

/* ---- the walls of the child ---- */

static int try_walls(struct fixture *fixture, int ends[2])
{
    int other = open(fixture->scratch.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct launcher_layer_committed layer_committed = {0};

    if (layer_commit_confine(fixture->layers_fd, ends[1]) < 0)
        return 1;
    if (fcntl(other, F_GETFD) >= 0 || fcntl(ends[0], F_GETFD) >= 0)
        return 2;
    if (open("/etc/passwd", O_RDONLY | O_CLOEXEC) >= 0 || fork() >= 0 ||
        socket(AF_UNIX, SOCK_STREAM, 0) >= 0 || unlinkat(AT_FDCWD, fixture->scratch.path, 0) == 0)
        return 3;
    /* fchmodat2(2), which glibc 2.39 and later try first: they go on without it after ENOSYS. */
    if (syscall(452, fixture->layers_fd, BUILD, 0700, AT_SYMLINK_NOFOLLOW) >= 0 || errno != ENOSYS)
        return 6;
    if (layer_commit_folder(fixture->layers_fd, BUILD, geteuid(), &layer_committed) < 0)
        return 4;
    return fd_write_all(ends[1], layer_committed.layer, 64) < 0 ? 5 : 0;
}

static void test_walls(void **state)
{
    struct fixture *fixture = *state;
    char hash[SHA256_TEXT] = "";
    int ends[2], status;
    pid_t pid;

    if (geteuid() != 0) {
        print_message("the walls are for the engine's root\n");
        skip();
    }
    folder_in(fixture, "a/b");
    write_in(fixture, "a/b/c", "text");
    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0)
        _exit(try_walls(fixture, ends));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_false(is_there(scratch_path(&fixture->scratch, "layers/" BUILD)));
    assert_int_equal(read(ends[0], hash, 64), 64);
    memcpy(fixture->layer_committed.layer, hash, sizeof(hash));
    assert_true(is_there(in(fixture, "a/b/c")));
    close(ends[0]);
    close(ends[1]);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_modes_and_owners),
        WITH_FIXTURE(test_links),
        WITH_FIXTURE(test_start_files),
        WITH_FIXTURE(test_what_is_no_file),
        WITH_FIXTURE(test_attributes),
        WITH_FIXTURE(test_strange_names),
        WITH_FIXTURE(test_was_there),
        WITH_FIXTURE(test_hard_links),
        WITH_FIXTURE(test_too_deep),
        WITH_FIXTURE(test_no_folder),
        WITH_FIXTURE(test_walls),
    };

    return cmocka_run_group_tests_name("launcher/layer_commit", tests, NULL, NULL);
}
