/* test_outer.c - marks of containers are found, and count only where a namespace is not the first.
 */
#include "scratch.h"

#include "base/cleanup.h"
#include "sys/outer.h"

#define MASKED                               \
    "22 27 0:21 / /proc rw - proc proc rw\n" \
    "99 22 0:6 /null /proc/kcore rw,nosuid - devtmpfs devtmpfs rw\n"

struct place {
    struct scratch scratch;
    int fd;
};

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof(*place));

    scratch_make(&place->scratch);
    scratch_folder(&place->scratch, "proc/self/ns");
    scratch_folder(&place->scratch, "proc/1");
    scratch_folder(&place->scratch, "run/systemd");
    place->fd = open(place->scratch.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    *state = place;
    return place->fd >= 0 ? 0 : -1;
}

static int tear_down(void **state)
{
    struct place *place = *state;

    close(place->fd);
    scratch_remove(&place->scratch);
    free(place);
    return 0;
}

static void namespace(const struct place *place, const char *name, const char *target)
{
    char path[64];

    snprintf(path, sizeof(path), "proc/self/ns/%s", name);
    unlinkat(place->fd, path, 0);
    assert_int_equal(symlinkat(target, place->fd, path), 0);
}

static void assert_kind(const struct place *place, char *const *env, const char *kind,
                        const char *seen)
{
    struct outer outer;

    outer_find_at(place->fd, env, &outer);
    if (!kind) {
        assert_null(outer.row);
        return;
    }
    assert_non_null(outer.row);
    assert_string_equal(outer.row->kind, kind);
    assert_string_equal(outer.seen, seen);
    assert_null(strchr(outer.row->remedy, '\n'));
}

/* A virtual machine whose disk was made from an image of Docker is no container. */
static void test_first_namespaces(void **state)
{
    struct place *place = *state;
    char *pod[] = {"KUBERNETES_SERVICE_HOST=10.0.0.1", NULL};

    namespace(place, "pid", "pid:[4026531836]");
    namespace(place, "uts", "uts:[4026531838]");
    namespace(place, "ipc", "ipc:[4026531839]");
    namespace(place, "user", "user:[4026531837]");
    namespace(place, "cgroup", "cgroup:[4026531835]");
    scratch_write(&place->scratch, ".dockerenv", "");
    scratch_write(&place->scratch, "proc/self/mountinfo", MASKED);
    assert_kind(place, pod, NULL, NULL);
    namespace(place, "uts", "uts:[4026532001]"); /* docker run --pid=host has this one */
    assert_kind(place, NULL, "docker", "/.dockerenv");
}

static void test_without_a_mark(void **state)
{
    struct place *place = *state;

    namespace(place, "pid", "pid:[4026532001]"); /* unshare --pid */
    scratch_write(&place->scratch, "proc/1/cgroup", "0::/user.slice/session-1.scope\n");
    scratch_write(&place->scratch, "proc/1/environ", "PATH=/bin");
    scratch_write(&place->scratch, "proc/self/mountinfo", "22 27 0:21 / /proc rw - proc proc rw\n");
    assert_kind(place, NULL, NULL, NULL);
}

static void test_marks(void **state)
{
    struct place *place = *state;
    char *podman[] = {"HOME=/", "container=podman", NULL};
    char *empty[] = {"container=", "KUBERNETES_SERVICE_HOST=", NULL};
    char *pod[] = {"KUBERNETES_SERVICE_HOST=10.0.0.1", NULL};

    namespace(place, "pid", "pid:[4026532001]");
    assert_kind(place, NULL, NULL, NULL);
    scratch_write(&place->scratch, "proc/self/mountinfo", MASKED);
    assert_kind(place, empty, "container", "parts of /proc are masked");
    scratch_write(&place->scratch, "run/systemd/container", "systemd-nspawn\n");
    assert_kind(place, NULL, "container", "container=systemd-nspawn in /run/systemd/container");
    scratch_write(&place->scratch, "run/systemd/container", "lxc\n");
    assert_kind(place, NULL, "lxc", "container=lxc in /run/systemd/container");
    scratch_write(&place->scratch, "proc/1/cgroup",
                  "1:name=systemd:/docker/0123\n0::/docker/0123\n");
    assert_kind(place, NULL, "docker", "'/docker/' in /proc/1/cgroup");
    assert_kind(place, podman, "podman", "container=podman in the environment");
    scratch_write(&place->scratch, ".dockerenv", "");
    assert_kind(place, NULL, "docker", "/.dockerenv");
    scratch_write(&place->scratch, "run/.containerenv", "");
    assert_kind(place, NULL, "podman", "/run/.containerenv");
    scratch_folder(&place->scratch, "var/run/secrets/kubernetes.io");
    assert_kind(place, NULL, "kubernetes", "/var/run/secrets/kubernetes.io");
    assert_kind(place, pod, "kubernetes", "KUBERNETES_SERVICE_HOST is set");
}

/* NULs between the variables; one that only ends like the name is another. */
static void test_first_process(void **state)
{
    static const char text[] = "PATH=/bin\0mycontainer=docker\0container=lxc\0HOME=/";
    struct place *place = *state;
    int fd = openat(place->fd, "proc/1/environ", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    namespace(place, "pid", "pid:[4026532001]");
    assert_int_equal(write(fd, text, sizeof(text)), sizeof(text));
    close(fd);
    assert_kind(place, NULL, "lxc", "container=lxc in the first process");
}

static void test_without_proc(void **state)
{
    struct place *place = *state;

    assert_kind(place, NULL, NULL, NULL);
    scratch_write(&place->scratch, ".dockerenv", "");
    assert_kind(place, NULL, "docker", "/.dockerenv");
}

#define WITH_A_PLACE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_PLACE(test_first_namespaces),
        WITH_A_PLACE(test_without_a_mark),
        WITH_A_PLACE(test_marks),
        WITH_A_PLACE(test_first_process),
        WITH_A_PLACE(test_without_proc),
    };

    return cmocka_run_group_tests_name("sys/outer", tests, NULL, NULL);
}
