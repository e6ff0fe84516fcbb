/*
 * test_box_mounts.c - what a box contains, seen from inside: drivers, a layer, packages,
 * links in the guest's home; and an installer's folder from the box that fills it to the layer that
 * another box has.
 */
#include "scratch.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>

#include "base/folder.h"
#include "base/limits.h"
#include "base/manifest.h"
#include "boxes/boxes_private.h"
#include "boxes/launch.h"
#include "boxes/plan_builder.h"
#include "guest_files.h"
#include "launcher/launcher_private.h"
#include "namespaces.h"
#include "runtime/box/box.h"
#include "sys/calls.h"

#define WARDEN_ID 1879048200
#define GUEST_HOST_ID (WARDEN_ID + 1)

struct fixture {
    struct scratch scratch;
    struct launch_spec spec;
    struct launched launched;
    struct box *box;
    bool is_done;
    struct error err;
    struct exec_end end;
    char text[8192]; /* what the guest printed */
    size_t length;
};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));

    scratch_make(&fixture->scratch);
    assert_int_equal(chmod(fixture->scratch.path, 0755), 0);
    fixture->launched = (struct launched){
        .pid_fd = -1, .channel_fd = -1, .ruleset_fd = -1, .egress_fd = -1, .folder_fd = -1};
    cgroup_init(&fixture->launched.group);
    fixture->spec = (struct launch_spec){
        .memory_bytes = 512 * MIB,
        .disk_bytes = 64 * MIB,
        .pids = 64,
        .minimum = ISOLATION_PROCESS,
        .ids = geteuid() == 0 ? LAUNCH_IDS_PAIR : LAUNCH_IDS_SINGLE,
        .warden_id = WARDEN_ID,
        .guest_id = GUEST_HOST_ID,
    };
    *state = fixture;
    return 0;
}

static void close_box(struct fixture *fixture)
{
    box_free(fixture->box);
    fixture->box = NULL;
    launch_end(&fixture->launched, NULL);
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    close_box(fixture);
    assert_int_equal(folder_remove(AT_FDCWD, fixture->scratch.path), 0);
    free(fixture);
    return 0;
}

static size_t saw_output(void *ctx, enum box_stream stream, const void *data, size_t length)
{
    struct fixture *fixture = ctx;

    (void)stream;
    if (length < sizeof(fixture->text) - fixture->length) {
        memcpy(fixture->text + fixture->length, data, length);
        fixture->length += length;
        fixture->text[fixture->length] = 0;
    }
    return length;
}

static void saw_ended(void *ctx, const struct exec_end *end)
{
    struct fixture *fixture = ctx;

    fixture->end = *end;
    fixture->is_done = true;
}

static void saw_failed(void *ctx, const struct error *err)
{
    struct fixture *fixture = ctx;

    fixture->err = *err;
    fixture->is_done = true;
}

static const struct exec_events exec_events = {
    .output = saw_output, .ended = saw_ended, .failed = saw_failed};

/* False, with the reason: this machine makes no box with namespaces, not even an empty one. */
static bool open_box(struct fixture *fixture)
{
    struct launch_spec plain = fixture->spec;
    struct error err = {0};

    if (!has_namespaces())
        return false;
    if (launch_make(&fixture->spec, &fixture->launched, &err) < 0) {
        plain.layer = plain.packages = plain.staging = NULL;
        plain.stages = STAGING_NONE;
        plain.file_count = 0;
        if (launch_make(&plain, &fixture->launched, NULL) == 0)
            fail_msg("%s", err.text);
        print_message("no box with namespaces can be made here: %s\n", err.text);
        return false;
    }
    assert_int_equal(box_new(fixture->launched.channel_fd, NULL, &fixture->box, &err), 0);
    fixture->launched.channel_fd = -1;
    return true;
}

/* A shell command's exit status; what it printed is in fixture->text. */
static int run(struct fixture *fixture, const char *command)
{
    const char *argv[] = {"/bin/sh", "-c", command, NULL};
    struct exec_spec spec = {.argv = argv, .timeout_ms = 60000};
    uint32_t id;

    fixture->is_done = false;
    fixture->length = 0;
    fixture->text[0] = 0;
    fixture->err = (struct error){0};
    assert_int_equal(box_exec(fixture->box, &spec, &exec_events, fixture, &id, &fixture->err), 0);
    while (!fixture->is_done) {
        struct pollfd poll_fd = {.fd = box_fd(fixture->box),
                                 .events = box_poll_events(fixture->box)};

        assert_int_equal(poll(&poll_fd, 1, 60000), 1);
        assert_int_equal(box_pump(fixture->box, &fixture->err), 0);
    }
    assert_int_equal(fixture->err.num, 0);
    return fixture->end.exit_code;
}

#define ASSERT_SAYS(fixture, command, expected)              \
    do {                                                     \
        assert_int_equal(run(fixture, command), 0);          \
        assert_string_equal((fixture)->text, expected "\n"); \
    } while (0)

static void keep(char *to, size_t size, const char *path)
{
    assert_true(snprintf(to, size, "%s", path) < (int)size);
}

/* ---- without a box ---- */

static const char *env_of(const struct plan_builder *builder, const char *name)
{
    size_t length = strlen(name);

    for (size_t i = 0; builder->env[i]; i++) {
        if (strncmp(builder->env[i], name, length) == 0 && builder->env[i][length] == '=')
            return builder->env[i] + length + 1;
    }
    return NULL;
}

static void plan_builder_of(struct plan_builder *builder, const struct launch_spec *spec)
{
    struct launched launched = {0};

    memset(builder, 0, sizeof(*builder));
    builder->plan.has_namespaces = true;
    builder->plan.share_path[SHARE_HOME] = "/home/user";
    builder->plan.share_path[SHARE_TMP] = "/tmp";
    plan_builder_common(builder, spec, &launched);
    assert_false(builder->is_full);
}

static void test_environment(void **state)
{
    static const char *const proxies[] = {"http_proxy", "https_proxy", "all_proxy",
                                          "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"};
    struct fixture *fixture = *state;
    struct plan_builder *builder = malloc(sizeof(*builder));

    assert_non_null(builder);
    plan_builder_of(builder, &fixture->spec);
    assert_int_equal(strncmp(env_of(builder, "PATH"), "/usr/local/sbin:", 16), 0);
    assert_null(env_of(builder, "VIRTUAL_ENV"));
    assert_null(env_of(builder, "PYTHONPATH"));
    assert_null(env_of(builder, "http_proxy"));

    fixture->spec.layer = "/layer";
    fixture->spec.packages = "/packages";
    plan_builder_of(builder, &fixture->spec);
    assert_int_equal(strncmp(env_of(builder, "PATH"), "/bailey/template/bin:/usr/local/sbin:", 37),
                     0);
    assert_string_equal(env_of(builder, "VIRTUAL_ENV"), "/bailey/template");
    assert_string_equal(env_of(builder, "PYTHONPATH"), "/bailey/packages");
    assert_null(env_of(builder, "HTTPS_PROXY"));

    fixture->spec.layer = fixture->spec.packages = NULL;
    fixture->spec.staging = "/staging";
    fixture->spec.stages = STAGING_TEMPLATE;
    plan_builder_of(builder, &fixture->spec);
    assert_string_equal(env_of(builder, "VIRTUAL_ENV"), "/bailey/template");
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(env_of(builder, proxies[i]), "http://127.0.0.1:3128");
    fixture->spec.stages = STAGING_PACKAGES;
    plan_builder_of(builder, &fixture->spec);
    assert_null(env_of(builder, "VIRTUAL_ENV"));
    assert_string_equal(env_of(builder, "http_proxy"), "http://127.0.0.1:3128");
    /* Where code of packages runs there is no way to the index. */
    for (int stages = STAGING_FINISH_TEMPLATE; stages <= STAGING_FINISH_PACKAGES; stages++) {
        fixture->spec.stages = (enum launch_staging)stages;
        plan_builder_of(builder, &fixture->spec);
        for (size_t i = 0; i < 6; i++)
            assert_null(env_of(builder, proxies[i]));
        assert_int_equal(builder->plan.egress_port, 0);
    }
    fixture->spec.staging = NULL;
    free(builder);
}

/* A private folder of the host cannot have these mounts, and says so. */
static void test_no_namespaces(void **state)
{
    struct fixture *fixture = *state;
    struct plan_builder *builder = calloc(1, sizeof(*builder));
    struct id_plan ids = {.way = IDS_SINGLE};
    struct launched launched = {.folder_fd = -1};
    struct error err = {0};

    fixture->spec.layer = fixture->scratch.path;
    assert_true(private_plan(builder, &fixture->spec, &ids, &launched, &err) < 0);
    assert_ptr_equal(err.code, ERROR_REFUSED);
    assert_non_null(strstr(err.text, "templates need namespaces"));
    assert_string_equal(launched.folder, "");
    free(builder);
}

/* All that guest/ has but what is handed over as an argument, as often as one asks. */
static void test_drivers(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        size_t count = 0, expected = 0;
        const struct launch_file *files = launch_drivers(&count);

        for (unsigned j = 0; j < guest_files_count; j++) {
            if (strcmp(guest_files[j].name, "check_imports.py") == 0 ||
                strcmp(guest_files[j].name, "pip.py") == 0)
                continue;
            assert_true(expected < count);
            assert_string_equal(files[expected].path + strlen("driver/"), guest_files[j].name);
            assert_ptr_equal(files[expected].text, guest_files[j].data);
            assert_int_equal(files[expected++].length, *guest_files[j].length);
        }
        assert_int_equal(count, expected);
    }
}

static int plan_builder_error(struct fixture *fixture, struct error *err)
{
    struct plan_builder *builder = calloc(1, sizeof(*builder));
    int r;

    memset(err, 0, sizeof(*err));
    assert_non_null(builder);
    r = root_plan(builder, &fixture->spec, err);
    plan_builder_close(builder);
    free(builder);
    return r;
}

static void test_what_cannot_be(void **state)
{
    static const char *const targets[] = {"/bailey", "/bailey/template", "/bailey/packages/x",
                                          "/bailey/driver"};
    struct fixture *fixture = *state;
    struct launch_bind bind = {.host = fixture->scratch.path};
    struct launch_file file = {.path = "../etc/passwd", .text = "x", .length = 1};
    struct error err;

    fixture->spec.binds = &bind;
    fixture->spec.bind_count = 1;
    for (size_t i = 0; i < 4; i++) {
        bind.box = targets[i];
        assert_int_equal(plan_builder_error(fixture, &err), -EINVAL);
        assert_ptr_equal(err.code, ERROR_BAD_INPUT);
    }
    bind.box = "/bailey/templates";
    assert_int_equal(plan_builder_error(fixture, &err), 0);
    fixture->spec.bind_count = 0;
    fixture->spec.files = &file;
    fixture->spec.file_count = 1;
    assert_int_equal(plan_builder_error(fixture, &err), -EINVAL);
    fixture->spec.file_count = 0;
    fixture->spec.layer = "/no/such/layer";
    assert_int_equal(plan_builder_error(fixture, &err), -ENOENT);
    assert_ptr_equal(err.code, ERROR_NOT_FOUND);
    fixture->spec.layer = fixture->scratch.path;
    fixture->spec.staging = fixture->scratch.path;
    fixture->spec.stages = STAGING_TEMPLATE; /* at the layer's own place */
    assert_int_equal(plan_builder_error(fixture, &err), -EINVAL);
}

/* ---- in one ---- */

static void test_ordinary_box(void **state)
{
    struct fixture *fixture = *state;

    if (!open_box(fixture))
        skip();
    ASSERT_SAYS(fixture, "test -e /bailey || echo none; echo ${VIRTUAL_ENV-unset}", "none\nunset");
}

static void test_furnished_box(void **state)
{
    static const char zeros[] = "a\0b";
    struct fixture *fixture = *state;
    struct launch_file files[] = {{"driver/kernel.py", "print(1)\n", 9},
                                  {"driver/more/bytes", zeros, sizeof(zeros)},
                                  {"driver/empty", "", 0}};
    char layer[256], packages[256];

    keep(layer, sizeof(layer), scratch_folder(&fixture->scratch, "layer"));
    keep(packages, sizeof(packages), scratch_folder(&fixture->scratch, "packages"));
    scratch_folder(&fixture->scratch, "layer/bin");
    scratch_write(&fixture->scratch, "layer/bin/greet", "#!/bin/sh\necho hello from the layer\n");
    assert_int_equal(chmod(scratch_path(&fixture->scratch, "layer/bin/greet"), 0555), 0);
    scratch_write(&fixture->scratch, "packages/one.py", "x = 1\n");
    fixture->spec.layer = layer;
    fixture->spec.packages = packages;
    fixture->spec.files = files;
    fixture->spec.file_count = 3;
    if (!open_box(fixture))
        skip();
    ASSERT_SAYS(fixture, "greet", "hello from the layer");
    ASSERT_SAYS(fixture, "echo $PYTHONPATH; cat $PYTHONPATH/one.py", "/bailey/packages\nx = 1");
    ASSERT_SAYS(fixture, "cat /bailey/driver/kernel.py", "print(1)");
    ASSERT_SAYS(fixture, "wc -c < /bailey/driver/more/bytes; wc -c < /bailey/driver/empty", "4\n0");
    for (int i = 0; i < 2; i++) { /* and what comes later appears */
        scratch_write(&fixture->scratch, "packages/later.py", "y = 2\n");
        ASSERT_SAYS(fixture, "cat /bailey/packages/later.py", "y = 2");
    }
    assert_int_not_equal(run(fixture, "touch /bailey/template/x"), 0);
    assert_int_not_equal(run(fixture, "echo x >> /bailey/packages/one.py"), 0);
    assert_int_not_equal(run(fixture, "echo x >> /bailey/driver/kernel.py"), 0);
    assert_int_not_equal(run(fixture, "chmod 0777 /bailey/template/bin/greet"), 0);
    assert_int_not_equal(run(fixture, "rm -f /bailey/driver/kernel.py"), 0);
    assert_int_not_equal(run(fixture, "mkdir /bailey/new"), 0);
    ASSERT_SAYS(fixture,
                "grep -c ' /bailey/\\(template\\|packages\\) ro,nosuid,nodev' "
                "/proc/self/mountinfo || true",
                "2");
}

/* Files of the layer's home are links in the guest's, whose folders he can write to. */
static void test_home_links(void **state)
{
    struct fixture *fixture = *state;
    char layer[256], name[64];

    keep(layer, sizeof(layer), scratch_folder(&fixture->scratch, "layer"));
    scratch_folder(&fixture->scratch, "layer/home/.cache/matplotlib");
    scratch_write(&fixture->scratch, "layer/home/.cache/matplotlib/fonts.json", "{}\n");
    scratch_write(&fixture->scratch, "layer/home/plain", "text\n");
    assert_int_equal(symlink("/etc/passwd", scratch_path(&fixture->scratch, "layer/home/link")), 0);
    fixture->spec.layer = layer;
    if (!open_box(fixture))
        skip();
    ASSERT_SAYS(fixture, "cat ~/plain; readlink ~/plain", "text\n/bailey/template/home/plain");
    ASSERT_SAYS(fixture, "cd ~/.cache/matplotlib && cat fonts.json && readlink fonts.json",
                "{}\n/bailey/template/home/.cache/matplotlib/fonts.json");
    ASSERT_SAYS(fixture, "test -e ~/link || echo no", "no"); /* only files are shown */
    ASSERT_SAYS(fixture, "echo new > ~/.cache/matplotlib/own && cat ~/.cache/matplotlib/own",
                "new");
    ASSERT_SAYS(fixture, "stat -c %u ~/.cache ~/.cache/matplotlib ~/plain", "1000\n1000\n1000");
    ASSERT_SAYS(fixture, "rm ~/plain && echo own > ~/plain && cat ~/plain", "own");
    close_box(fixture);

    for (int i = 0; i < 100; i++) { /* as many as there may be, and the box still stands */
        snprintf(name, sizeof(name), "layer/home/many%d", i);
        scratch_write(&fixture->scratch, name, "");
    }
    assert_true(open_box(fixture));
    assert_int_equal(run(fixture, "find ~ -mindepth 1 | wc -l"), 0);
    assert_int_equal(strtol(fixture->text, NULL, 10), 64);
}

/* ---- an installer's box ---- */

static void make_staging(struct fixture *fixture, char *path, size_t size)
{
    keep(path, size, scratch_folder(&fixture->scratch, "layers/.build-k"));
    assert_int_equal(chmod(path, 0700), 0);
    if (geteuid() == 0)
        assert_int_equal(chown(path, GUEST_HOST_ID, GUEST_HOST_ID), 0);
    fixture->spec.staging = path;
}

static void commit_layer(struct fixture *fixture, char *layer, size_t size)
{
    int fd = open(scratch_path(&fixture->scratch, "layers"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct launcher_layer_committed layer_committed = {0};
    struct error err = {0};
    int r = layer_commit_folder(fd, ".build-k", geteuid(), &layer_committed);

    if (r < 0)
        fail_msg("%s", layer_committed.error.text);
    assert_int_equal(manifest_verify(fd, layer_committed.layer, NULL, NULL, &err), 0);
    snprintf(layer, size, "%s/layers/%s", fixture->scratch.path, layer_committed.layer);
    close(fd);
}

static void test_installer_box(void **state)
{
    struct fixture *fixture = *state;
    char staging[256], layer[256];

    make_staging(fixture, staging, sizeof(staging));
    fixture->spec.stages = STAGING_PACKAGES;
    if (!open_box(fixture))
        skip();
    ASSERT_SAYS(fixture,
                "mkdir /bailey/packages/p && echo x > /bailey/packages/p/m.py && echo done",
                "done");
    assert_int_not_equal(run(fixture, "touch /bailey/x"), 0);
    ASSERT_SAYS(fixture, "stat -c %u /bailey/packages", "1000");
    ASSERT_SAYS(fixture, "grep -c '/bailey/packages rw,nosuid,nodev' /proc/self/mountinfo || true",
                "1");
    /* Its way out: we listen on port 3128 (0C38) of its loopback, in state 0A. */
    assert_true(fixture->launched.egress_fd >= 0);
    ASSERT_SAYS(fixture, "grep -c '0100007F:0C38 00000000:0000 0A' /proc/net/tcp || true", "1");
    ASSERT_SAYS(fixture, "echo $https_proxy", "http://127.0.0.1:3128");
    close_box(fixture);
    commit_layer(fixture, layer, sizeof(layer));
    assert_int_equal(access(staging, F_OK), -1);

    fixture->spec.staging = NULL;
    fixture->spec.stages = STAGING_NONE;
    fixture->spec.packages = layer;
    assert_true(open_box(fixture));
    ASSERT_SAYS(fixture, "cat /bailey/packages/p/m.py", "x");
    assert_int_equal(fixture->launched.egress_fd, -1);
    ASSERT_SAYS(fixture, "grep -c 0C38 /proc/net/tcp || true", "0");
}

/* An installer may fill its folder, not the disk that is everybody's. */
static void test_small_disk(void **state)
{
    struct fixture *fixture = *state;
    char staging[256];

    make_staging(fixture, staging, sizeof(staging));
    if (geteuid() != 0) {
        print_message("mounting a small disk needs root\n");
        skip();
    }
    if (unshare(CLONE_NEWNS) < 0 || sys_mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        sys_mount("small", staging, "tmpfs", 0, "size=64m,mode=0777") < 0) {
        print_message("no small disk can be made here: %s\n", strerror(errno));
        skip();
    }
    fixture->spec.stages = STAGING_PACKAGES;
    if (open_box(fixture)) {
        run(fixture, "echo x > /bailey/packages/x && exec sleep 60");
        assert_int_equal(fixture->end.signal, SIGKILL);
        assert_true(fixture->end.disk_full);
        assert_false(fixture->end.timed_out);
        close_box(fixture);
    }
    assert_int_equal(sys_umount2(staging, MNT_DETACH), 0);
}

/* A virtual environment made at the path it will have works from there. */
static void test_venv(void **state)
{
    struct fixture *fixture = *state;
    char staging[256], layer[256];

    if (access("/usr/bin/python3", X_OK) < 0) {
        print_message("there is no /usr/bin/python3\n");
        skip();
    }
    make_staging(fixture, staging, sizeof(staging));
    fixture->spec.stages = STAGING_TEMPLATE;
    if (!open_box(fixture))
        skip();
    if (run(fixture, "/usr/bin/python3 -m venv --without-pip /bailey/template") != 0) {
        print_message("python3 makes no environment here: %s\n", fixture->text);
        skip();
    }
    ASSERT_SAYS(fixture,
                "set -e; cd /bailey/template; mkdir -p home/.cache; echo c > home/.cache/c;"
                "d=$(python -c 'import site; print(site.getsitepackages()[0])');"
                "echo 'def hello(): return \"hi\"' > $d/greeting.py; ln -s /etc/passwd evil;"
                "python -m compileall -q $d; echo ok",
                "ok");
    close_box(fixture);
    commit_layer(fixture, layer, sizeof(layer));

    fixture->spec.staging = NULL;
    fixture->spec.stages = STAGING_NONE;
    fixture->spec.layer = layer;
    assert_true(open_box(fixture));
    ASSERT_SAYS(fixture, "python -c 'import sys, greeting; print(sys.prefix, greeting.hello())'",
                "/bailey/template hi");
    ASSERT_SAYS(fixture, "python -c 'import greeting; print(greeting.__cached__ is not None)'",
                "True");
    ASSERT_SAYS(fixture, "cat ~/.cache/c; test -e /bailey/template/evil || echo no evil",
                "c\nno evil");
    assert_int_not_equal(run(fixture, "touch /bailey/template/lib/x"), 0);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FIXTURE(test_environment),   cmocka_unit_test(test_drivers),
        WITH_FIXTURE(test_no_namespaces), WITH_FIXTURE(test_what_cannot_be),
        WITH_FIXTURE(test_ordinary_box),  WITH_FIXTURE(test_furnished_box),
        WITH_FIXTURE(test_home_links),    WITH_FIXTURE(test_installer_box),
        WITH_FIXTURE(test_venv),          WITH_FIXTURE(test_small_disk),
    };

    return cmocka_run_group_tests_name("boxes/box_mounts", tests, NULL, NULL);
}
