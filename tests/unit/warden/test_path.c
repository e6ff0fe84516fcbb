/* test_path.c - names from the host's frames beneath the shares: nothing leads out of them. */
#include "scratch.h"

#include <errno.h>

#include "base/fd.h"
#include "warden/file_op.h"

/* The shares, and a canary beside them. */
struct warden_fixture {
    struct scratch scratch;
    struct sandbox_plan plan;
    struct sandbox sandbox;
};

static int set_up(void **state)
{
    static const char *const names[_SHARE_MAX] = {"desk", "tmp", "home", "data"};
    struct warden_fixture *fixture = calloc(1, sizeof(*fixture));

    if (!fixture)
        return -1;
    scratch_make(&fixture->scratch);
    sandbox_init(&fixture->sandbox, &fixture->plan);
    for (int i = 0; i < _SHARE_MAX; i++)
        fixture->sandbox.share_fd[i] =
            open(scratch_folder(&fixture->scratch, names[i]), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    scratch_write(&fixture->scratch, "canary", "out");
    scratch_write(&fixture->scratch, "desk/file", "in");
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct warden_fixture *fixture = *state;
    char text[8];

    assert_true(scratch_read(scratch_path(&fixture->scratch, "canary"), text, sizeof(text)));
    assert_string_equal(text, "out");
    for (int i = 0; i < _SHARE_MAX; i++)
        close(fixture->sandbox.share_fd[i]);
    scratch_remove(&fixture->scratch);
    free(fixture);
    return 0;
}

static int find(struct warden_fixture *fixture, const char *path, struct place *place)
{
    return place_find(&fixture->sandbox, path, strlen(path), place);
}

static int open_path(struct warden_fixture *fixture, const char *path, int flags)
{
    struct place place;
    int r = find(fixture, path, &place);

    return r < 0 ? r : place_open(&place, flags);
}

/* The errno of an open that has to fail. */
static int refusal(struct warden_fixture *fixture, const char *path)
{
    int fd = open_path(fixture, path, O_RDONLY);

    if (fd >= 0)
        close(fd);
    return fd >= 0 ? 0 : fd;
}

static void test_shares_have_names(void **state)
{
    static const struct {
        const char *path;
        int share;
        const char *name;
    } cases[] = {
        {"/workspace", SHARE_WORKSPACE, "."},
        {"/workspace/", SHARE_WORKSPACE, "."},
        {"/workspace/a/b", SHARE_WORKSPACE, "a/b"},
        {"/workspace///a", SHARE_WORKSPACE, "a"},
        {"/tmp", SHARE_TMP, "."},
        {"/tmp/output/x y", SHARE_TMP, "output/x y"},
        {"/home/user/.profile", SHARE_HOME, ".profile"},
        {"/tmp/..", SHARE_TMP, ".."}, /* refused when it is opened */
        {"/tmp/data", SHARE_DATA, "."},
        {"/tmp/data//x", SHARE_DATA, "x"},
        {"/tmp/database", SHARE_TMP, "database"},
        {"/tmp//data", SHARE_TMP, "data"}, /* the mount is not entered */
    };
    struct warden_fixture *fixture = *state;
    struct place place;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(find(fixture, cases[i].path, &place), 0);
        assert_int_equal(place.share_fd, fixture->sandbox.share_fd[cases[i].share]);
        assert_string_equal(place.name, cases[i].name);
    }
}

static void test_other_names(void **state)
{
    static const char *const names[] = {"/",       "/etc/passwd", "/workspacex", "/tmpx/y",
                                        "/home",   "/home/use",   "workspace/a", "./workspace",
                                        "//tmp/x", "/Tmp"};
    static char path[LIMIT_PATH_BYTES + 2];
    struct warden_fixture *fixture = *state;
    struct place place;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        assert_int_equal(find(fixture, names[i], &place), -EACCES);
    assert_int_equal(find(fixture, "", &place), -ENOENT);
    memset(path, 'n', sizeof(path) - 1);
    memcpy(path, "/tmp/", 5);
    assert_int_equal(find(fixture, path, &place), -ENAMETOOLONG);
    path[LIMIT_PATH_BYTES] = 0;
    assert_int_equal(find(fixture, path, &place), 0);
    assert_int_equal(strlen(place.name), LIMIT_PATH_BYTES - 5);
    assert_int_equal(place_open(&place, O_RDONLY), -ENAMETOOLONG); /* no component is that long */
}

static void test_opens_beneath_only(void **state)
{
    struct warden_fixture *fixture = *state;
    char outside[128];
    int fd = open_path(fixture, "/workspace/file", O_RDONLY);

    assert_true(fd >= 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    assert_int_equal(refusal(fixture, "/workspace/nothing"), -ENOENT);
    assert_int_equal(refusal(fixture, "/workspace/../canary"), -EXDEV);
    assert_int_equal(refusal(fixture, "/workspace/.."), -EXDEV);
    assert_int_equal(refusal(fixture, "/workspace/../desk/file"), -EXDEV); /* out and in again */
    snprintf(outside, sizeof(outside), "%s", scratch_path(&fixture->scratch, "canary"));
    scratch_folder(&fixture->scratch, "desk/sub");
    assert_int_equal(symlinkat(outside, fixture->sandbox.share_fd[0], "absolute"), 0);
    assert_int_equal(symlinkat("../canary", fixture->sandbox.share_fd[0], "escaping"), 0);
    assert_int_equal(symlinkat("../../canary", fixture->sandbox.share_fd[0], "sub/escaping"), 0);
    assert_int_equal(symlinkat("../file", fixture->sandbox.share_fd[0], "sub/inside"), 0);
    assert_int_equal(symlinkat("loop", fixture->sandbox.share_fd[0], "loop"), 0);
    assert_int_equal(symlinkat("/proc/self/root", fixture->sandbox.share_fd[0], "magic"), 0);
    assert_int_equal(refusal(fixture, "/workspace/absolute"), -EXDEV);
    assert_int_equal(refusal(fixture, "/workspace/escaping"), -EXDEV);
    assert_int_equal(refusal(fixture, "/workspace/sub/escaping"), -EXDEV);
    assert_int_equal(refusal(fixture, "/workspace/magic/etc/passwd"), -EXDEV);
    assert_int_equal(refusal(fixture, "/workspace/loop"), -ELOOP);
    assert_int_equal(refusal(fixture, "/workspace/sub/inside"), 0);
    assert_int_equal(refusal(fixture, "/workspace/sub/../file"), 0);
}

/* A fifo without a writer does not hold the warden up. */
static void test_open_does_not_block(void **state)
{
    struct warden_fixture *fixture = *state;

    assert_int_equal(mkfifoat(fixture->sandbox.share_fd[0], "fifo", 0600), 0);
    assert_int_equal(refusal(fixture, "/workspace/fifo"), 0);
}

static int make_parent(struct warden_fixture *fixture, const char *path, char *name)
{
    struct place_parts parts;
    struct place place;
    int fd = -1;
    int r = find(fixture, path, &place);

    if (r == 0)
        r = place_split(&place, &parts);
    if (r == 0)
        r = place_make_folder(&fixture->sandbox, place.share_fd, parts.folder, 0755, &fd);
    if (r < 0) {
        assert_int_equal(fd, -1);
        return r;
    }
    snprintf(name, 256, "%s%s", parts.last, parts.has_slash ? "/" : "");
    return fd;
}

static void check_same(int fd, const char *path)
{
    struct stat by_fd, by_path;

    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &by_fd), 0);
    assert_int_equal(stat(path, &by_path), 0);
    assert_true(by_fd.st_ino == by_path.st_ino && by_fd.st_dev == by_path.st_dev);
    close(fd);
}

static void test_makes_parents(void **state)
{
    struct warden_fixture *fixture = *state;
    char name[256];

    check_same(make_parent(fixture, "/workspace/a", name), scratch_path(&fixture->scratch, "desk"));
    assert_string_equal(name, "a");
    check_same(make_parent(fixture, "/tmp/x/y//z", name),
               scratch_path(&fixture->scratch, "tmp/x/y"));
    assert_string_equal(name, "z");
    check_same(make_parent(fixture, "/tmp/x/y/w", name),
               scratch_path(&fixture->scratch, "tmp/x/y"));
    assert_int_equal(symlinkat("x/y", fixture->sandbox.share_fd[SHARE_TMP], "short"), 0);
    check_same(make_parent(fixture, "/tmp/short/v", name),
               scratch_path(&fixture->scratch, "tmp/x/y"));
    check_same(make_parent(fixture, "/tmp/x/a/", name), scratch_path(&fixture->scratch, "tmp/x"));
    assert_string_equal(name, "a/");
    /* Links between folders of one share, and "..", lead where they lead when the name is read. */
    assert_int_equal(symlinkat("../../q", fixture->sandbox.share_fd[SHARE_TMP], "x/y/aside"), 0);
    scratch_folder(&fixture->scratch, "tmp/q");
    check_same(make_parent(fixture, "/tmp/x/y/aside/new/w", name),
               scratch_path(&fixture->scratch, "tmp/q/new"));
    check_same(make_parent(fixture, "/tmp/x/../q/./w", name),
               scratch_path(&fixture->scratch, "tmp/q"));
    check_same(make_parent(fixture, "/tmp/m/../q/w", name),
               scratch_path(&fixture->scratch, "tmp/q"));
}

static void test_parents_that_are_none(void **state)
{
    struct warden_fixture *fixture = *state;
    char path[400] = "/workspace/", name[256], outside[128];

    assert_int_equal(make_parent(fixture, "/workspace", name), -EBUSY);
    assert_int_equal(make_parent(fixture, "/workspace/", name), -EBUSY);
    assert_int_equal(make_parent(fixture, "/workspace/.", name), -EBUSY);
    assert_int_equal(make_parent(fixture, "/workspace/./", name), -EBUSY);
    assert_int_equal(make_parent(fixture, "/workspace/..", name), -EINVAL);
    assert_int_equal(make_parent(fixture, "/workspace/a/..", name), -EINVAL);
    assert_int_equal(make_parent(fixture, "/workspace/../canary", name), -EXDEV);
    assert_int_equal(make_parent(fixture, "/workspace/a/../../x/y", name), -EXDEV);
    assert_int_equal(make_parent(fixture, "/workspace/file/b", name), -ENOTDIR);
    memset(path + 11, 'l', 256);
    check_same(make_parent(fixture, path, name), scratch_path(&fixture->scratch, "desk"));
    strcat(path, "/x");
    assert_int_equal(make_parent(fixture, path, name), -ENAMETOOLONG); /* 256 bytes are no name */

    snprintf(outside, sizeof(outside), "%s", scratch_folder(&fixture->scratch, "outside"));
    assert_int_equal(symlinkat(outside, fixture->sandbox.share_fd[0], "absolute"), 0);
    assert_int_equal(symlinkat("../outside", fixture->sandbox.share_fd[0], "escaping"), 0);
    assert_int_equal(symlinkat("../new", fixture->sandbox.share_fd[0], "dangling"), 0);
    assert_int_equal(make_parent(fixture, "/workspace/absolute/x", name), -EXDEV);
    assert_int_equal(make_parent(fixture, "/workspace/escaping/deep/x", name), -EXDEV);
    assert_int_equal(make_parent(fixture, "/workspace/dangling/x", name), -EXDEV);
    assert_int_equal(symlinkat("nothing", fixture->sandbox.share_fd[0], "lost"), 0);
    assert_int_equal(make_parent(fixture, "/workspace/lost/x", name), -EEXIST);
    assert_int_equal(access(scratch_path(&fixture->scratch, "new"), F_OK), -1);
    assert_int_equal(access(scratch_path(&fixture->scratch, "outside/deep"), F_OK), -1);
}

/* With an id for the guest, what is made for it belongs to it. */
static void test_new_parents_are_the_guests(void **state)
{
    struct warden_fixture *fixture = *state;
    struct stat status;
    char name[256];

    if (geteuid() != 0) {
        print_message("giving folders away needs root\n");
        skip();
    }
    fixture->plan.has_split = true;
    fixture->plan.guest_id = 1000;
    close(make_parent(fixture, "/home/user/n/m/x", name));
    assert_int_equal(stat(scratch_path(&fixture->scratch, "home/n/m"), &status), 0);
    assert_int_equal(status.st_uid, 1000);
    assert_int_equal(status.st_gid, 1000);
    assert_int_equal(stat(scratch_path(&fixture->scratch, "home"), &status), 0);
    assert_int_equal(status.st_uid, 0); /* what was there stays whose it is */
}

#define WITH_WARDEN(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WARDEN(test_shares_have_names),
        WITH_WARDEN(test_other_names),
        WITH_WARDEN(test_opens_beneath_only),
        WITH_WARDEN(test_open_does_not_block),
        WITH_WARDEN(test_makes_parents),
        WITH_WARDEN(test_parents_that_are_none),
        WITH_WARDEN(test_new_parents_are_the_guests),
    };

    return cmocka_run_group_tests_name("warden/path", tests, NULL, NULL);
}
