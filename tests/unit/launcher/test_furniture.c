/*
 * test_furniture.c - what a box is furnished with, seen from inside: drivers, a layer, packages,
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
#include "guest_files.h"
#include "launcher/engine.h"
#include "namespaces.h"
#include "runtime/box/box.h"
#include "sys/calls.h"

#define WARDEN_ID 1879048200
#define GUEST_HOST_ID (WARDEN_ID + 1)

struct yard {
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
    struct yard *yard = calloc(1, sizeof(*yard));

    scratch_make(&yard->scratch);
    assert_int_equal(chmod(yard->scratch.path, 0755), 0);
    yard->launched = (struct launched){
        .pid_fd = -1, .channel_fd = -1, .ruleset_fd = -1, .egress_fd = -1, .folder_fd = -1};
    cgroup_init(&yard->launched.group);
    yard->spec = (struct launch_spec){
        .memory_bytes = 512 * MIB,
        .disk_bytes = 64 * MIB,
        .pids = 64,
        .minimum = ISOLATION_PROCESS,
        .ids = geteuid() == 0 ? LAUNCH_IDS_PAIR : LAUNCH_IDS_SINGLE,
        .warden_id = WARDEN_ID,
        .guest_id = GUEST_HOST_ID,
    };
    *state = yard;
    return 0;
}

static void close_box(struct yard *yard)
{
    box_free(yard->box);
    yard->box = NULL;
    launcher_end(&yard->launched, NULL);
}

static int tear_down(void **state)
{
    struct yard *yard = *state;

    close_box(yard);
    assert_int_equal(folder_remove(AT_FDCWD, yard->scratch.path), 0);
    free(yard);
    return 0;
}

static size_t saw_output(void *ctx, enum box_stream stream, const void *data, size_t length)
{
    struct yard *yard = ctx;

    (void)stream;
    if (length < sizeof(yard->text) - yard->length) {
        memcpy(yard->text + yard->length, data, length);
        yard->length += length;
        yard->text[yard->length] = 0;
    }
    return length;
}

static void saw_ended(void *ctx, const struct exec_end *end)
{
    struct yard *yard = ctx;

    yard->end = *end;
    yard->is_done = true;
}

static void saw_failed(void *ctx, const struct error *err)
{
    struct yard *yard = ctx;

    yard->err = *err;
    yard->is_done = true;
}

static const struct exec_events exec_events = {
    .output = saw_output, .ended = saw_ended, .failed = saw_failed};

/* False, with the reason: this machine makes no box with namespaces, not even an empty one. */
static bool open_box(struct yard *yard)
{
    struct launch_spec plain = yard->spec;
    struct error err = {0};

    if (!has_namespaces())
        return false;
    if (launcher_make(&yard->spec, &yard->launched, &err) < 0) {
        plain.layer = plain.packages = plain.staging = NULL;
        plain.stages = STAGING_NONE;
        plain.file_count = 0;
        if (launcher_make(&plain, &yard->launched, NULL) == 0)
            fail_msg("%s", err.text);
        print_message("no box with namespaces can be made here: %s\n", err.text);
        return false;
    }
    assert_int_equal(box_new(yard->launched.channel_fd, NULL, &yard->box, &err), 0);
    yard->launched.channel_fd = -1;
    return true;
}

/* A shell command's exit status; what it printed is in yard->text. */
static int run(struct yard *yard, const char *command)
{
    const char *argv[] = {"/bin/sh", "-c", command, NULL};
    struct exec_spec spec = {.argv = argv, .timeout_ms = 60000};
    uint32_t id;

    yard->is_done = false;
    yard->length = 0;
    yard->text[0] = 0;
    yard->err = (struct error){0};
    assert_int_equal(box_exec(yard->box, &spec, &exec_events, yard, &id, &yard->err), 0);
    while (!yard->is_done) {
        struct pollfd poll_fd = {.fd = box_fd(yard->box), .events = box_poll_events(yard->box)};

        assert_int_equal(poll(&poll_fd, 1, 60000), 1);
        assert_int_equal(box_pump(yard->box, &yard->err), 0);
    }
    assert_int_equal(yard->err.num, 0);
    return yard->end.exit_code;
}

#define ASSERT_SAYS(yard, command, expected)              \
    do {                                                  \
        assert_int_equal(run(yard, command), 0);          \
        assert_string_equal((yard)->text, expected "\n"); \
    } while (0)

static void keep(char *to, size_t size, const char *path)
{
    assert_true(snprintf(to, size, "%s", path) < (int)size);
}

/* ---- without a box ---- */

static const char *env_of(const struct draft *draft, const char *name)
{
    size_t length = strlen(name);

    for (size_t i = 0; draft->env[i]; i++) {
        if (strncmp(draft->env[i], name, length) == 0 && draft->env[i][length] == '=')
            return draft->env[i] + length + 1;
    }
    return NULL;
}

static void draft_of(struct draft *draft, const struct launch_spec *spec)
{
    struct launched launched = {0};

    memset(draft, 0, sizeof(*draft));
    draft->plan.has_namespaces = true;
    draft->plan.share_path[SHARE_HOME] = "/home/user";
    draft->plan.share_path[SHARE_TMP] = "/tmp";
    draft_common(draft, spec, &launched);
    assert_false(draft->is_full);
}

static void test_environment(void **state)
{
    static const char *const proxies[] = {"http_proxy", "https_proxy", "all_proxy",
                                          "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"};
    struct yard *yard = *state;
    struct draft *draft = malloc(sizeof(*draft));

    assert_non_null(draft);
    draft_of(draft, &yard->spec);
    assert_int_equal(strncmp(env_of(draft, "PATH"), "/usr/local/sbin:", 16), 0);
    assert_null(env_of(draft, "VIRTUAL_ENV"));
    assert_null(env_of(draft, "PYTHONPATH"));
    assert_null(env_of(draft, "http_proxy"));

    yard->spec.layer = "/layer";
    yard->spec.packages = "/packages";
    draft_of(draft, &yard->spec);
    assert_int_equal(strncmp(env_of(draft, "PATH"), "/bailey/template/bin:/usr/local/sbin:", 37),
                     0);
    assert_string_equal(env_of(draft, "VIRTUAL_ENV"), "/bailey/template");
    assert_string_equal(env_of(draft, "PYTHONPATH"), "/bailey/packages");
    assert_null(env_of(draft, "HTTPS_PROXY"));

    yard->spec.layer = yard->spec.packages = NULL;
    yard->spec.staging = "/staging";
    yard->spec.stages = STAGING_TEMPLATE;
    draft_of(draft, &yard->spec);
    assert_string_equal(env_of(draft, "VIRTUAL_ENV"), "/bailey/template");
    for (size_t i = 0; i < 6; i++)
        assert_string_equal(env_of(draft, proxies[i]), "http://127.0.0.1:3128");
    yard->spec.stages = STAGING_PACKAGES;
    draft_of(draft, &yard->spec);
    assert_null(env_of(draft, "VIRTUAL_ENV"));
    assert_string_equal(env_of(draft, "http_proxy"), "http://127.0.0.1:3128");
    yard->spec.staging = NULL;
    free(draft);
}

/* A private folder of the host cannot be furnished, and says so. */
static void test_no_namespaces(void **state)
{
    struct yard *yard = *state;
    struct draft *draft = calloc(1, sizeof(*draft));
    struct id_plan ids = {.way = IDS_SINGLE};
    struct launched launched = {.folder_fd = -1};
    struct error err = {0};

    yard->spec.layer = yard->scratch.path;
    assert_true(private_draft(draft, &yard->spec, &ids, &launched, &err) < 0);
    assert_ptr_equal(err.code, ERROR_REFUSED);
    assert_non_null(strstr(err.text, "templates need namespaces"));
    assert_string_equal(launched.folder, "");
    free(draft);
}

/* All that guest/ has but what is handed over as an argument, as often as one asks. */
static void test_drivers(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        size_t count = 0, expected = 0;
        const struct launch_file *files = launcher_drivers(&count);

        for (unsigned j = 0; j < guest_files_count; j++) {
            if (strcmp(guest_files[j].name, "check_imports.py") == 0)
                continue;
            assert_true(expected < count);
            assert_string_equal(files[expected].path + strlen("driver/"), guest_files[j].name);
            assert_ptr_equal(files[expected].text, guest_files[j].data);
            assert_int_equal(files[expected++].length, *guest_files[j].length);
        }
        assert_int_equal(count, expected);
    }
}

static int draft_error(struct yard *yard, struct error *err)
{
    struct draft *draft = calloc(1, sizeof(*draft));
    int r;

    memset(err, 0, sizeof(*err));
    assert_non_null(draft);
    r = root_draft(draft, &yard->spec, err);
    draft_close(draft);
    free(draft);
    return r;
}

static void test_what_cannot_be(void **state)
{
    static const char *const targets[] = {"/bailey", "/bailey/template", "/bailey/packages/x",
                                          "/bailey/driver"};
    struct yard *yard = *state;
    struct launch_bind bind = {.host = yard->scratch.path};
    struct launch_file file = {.path = "../etc/passwd", .text = "x", .length = 1};
    struct error err;

    yard->spec.binds = &bind;
    yard->spec.bind_count = 1;
    for (size_t i = 0; i < 4; i++) {
        bind.box = targets[i];
        assert_int_equal(draft_error(yard, &err), -EINVAL);
        assert_ptr_equal(err.code, ERROR_BAD_INPUT);
    }
    bind.box = "/bailey/templates";
    assert_int_equal(draft_error(yard, &err), 0);
    yard->spec.bind_count = 0;
    yard->spec.files = &file;
    yard->spec.file_count = 1;
    assert_int_equal(draft_error(yard, &err), -EINVAL);
    yard->spec.file_count = 0;
    yard->spec.layer = "/no/such/layer";
    assert_int_equal(draft_error(yard, &err), -ENOENT);
    assert_ptr_equal(err.code, ERROR_NOT_FOUND);
    yard->spec.layer = yard->scratch.path;
    yard->spec.staging = yard->scratch.path;
    yard->spec.stages = STAGING_TEMPLATE; /* at the layer's own place */
    assert_int_equal(draft_error(yard, &err), -EINVAL);
}

/* ---- in one ---- */

static void test_ordinary_box(void **state)
{
    struct yard *yard = *state;

    if (!open_box(yard))
        skip();
    ASSERT_SAYS(yard, "test -e /bailey || echo none; echo ${VIRTUAL_ENV-unset}", "none\nunset");
}

static void test_furnished_box(void **state)
{
    static const char zeros[] = "a\0b";
    struct yard *yard = *state;
    struct launch_file files[] = {{"driver/kernel.py", "print(1)\n", 9},
                                  {"driver/more/bytes", zeros, sizeof(zeros)},
                                  {"driver/empty", "", 0}};
    char layer[256], packages[256];

    keep(layer, sizeof(layer), scratch_folder(&yard->scratch, "layer"));
    keep(packages, sizeof(packages), scratch_folder(&yard->scratch, "packages"));
    scratch_folder(&yard->scratch, "layer/bin");
    scratch_write(&yard->scratch, "layer/bin/greet", "#!/bin/sh\necho hello from the layer\n");
    assert_int_equal(chmod(scratch_path(&yard->scratch, "layer/bin/greet"), 0555), 0);
    scratch_write(&yard->scratch, "packages/one.py", "x = 1\n");
    yard->spec.layer = layer;
    yard->spec.packages = packages;
    yard->spec.files = files;
    yard->spec.file_count = 3;
    if (!open_box(yard))
        skip();
    ASSERT_SAYS(yard, "greet", "hello from the layer");
    ASSERT_SAYS(yard, "echo $PYTHONPATH; cat $PYTHONPATH/one.py", "/bailey/packages\nx = 1");
    ASSERT_SAYS(yard, "cat /bailey/driver/kernel.py", "print(1)");
    ASSERT_SAYS(yard, "wc -c < /bailey/driver/more/bytes; wc -c < /bailey/driver/empty", "4\n0");
    for (int i = 0; i < 2; i++) { /* and what comes later appears */
        scratch_write(&yard->scratch, "packages/later.py", "y = 2\n");
        ASSERT_SAYS(yard, "cat /bailey/packages/later.py", "y = 2");
    }
    assert_int_not_equal(run(yard, "touch /bailey/template/x"), 0);
    assert_int_not_equal(run(yard, "echo x >> /bailey/packages/one.py"), 0);
    assert_int_not_equal(run(yard, "echo x >> /bailey/driver/kernel.py"), 0);
    assert_int_not_equal(run(yard, "chmod 0777 /bailey/template/bin/greet"), 0);
    assert_int_not_equal(run(yard, "rm -f /bailey/driver/kernel.py"), 0);
    assert_int_not_equal(run(yard, "mkdir /bailey/new"), 0);
    ASSERT_SAYS(yard,
                "grep -c ' /bailey/\\(template\\|packages\\) ro,nosuid,nodev' "
                "/proc/self/mountinfo || true",
                "2");
}

/* Files of the layer's home are links in the guest's, whose folders he can write to. */
static void test_home_links(void **state)
{
    struct yard *yard = *state;
    char layer[256], name[64];

    keep(layer, sizeof(layer), scratch_folder(&yard->scratch, "layer"));
    scratch_folder(&yard->scratch, "layer/home/.cache/matplotlib");
    scratch_write(&yard->scratch, "layer/home/.cache/matplotlib/fonts.json", "{}\n");
    scratch_write(&yard->scratch, "layer/home/plain", "text\n");
    assert_int_equal(symlink("/etc/passwd", scratch_path(&yard->scratch, "layer/home/link")), 0);
    yard->spec.layer = layer;
    if (!open_box(yard))
        skip();
    ASSERT_SAYS(yard, "cat ~/plain; readlink ~/plain", "text\n/bailey/template/home/plain");
    ASSERT_SAYS(yard, "cd ~/.cache/matplotlib && cat fonts.json && readlink fonts.json",
                "{}\n/bailey/template/home/.cache/matplotlib/fonts.json");
    ASSERT_SAYS(yard, "test -e ~/link || echo no", "no"); /* only files are shown */
    ASSERT_SAYS(yard, "echo new > ~/.cache/matplotlib/own && cat ~/.cache/matplotlib/own", "new");
    ASSERT_SAYS(yard, "stat -c %u ~/.cache ~/.cache/matplotlib ~/plain", "1000\n1000\n1000");
    ASSERT_SAYS(yard, "rm ~/plain && echo own > ~/plain && cat ~/plain", "own");
    close_box(yard);

    for (int i = 0; i < 100; i++) { /* as many as there may be, and the box still stands */
        snprintf(name, sizeof(name), "layer/home/many%d", i);
        scratch_write(&yard->scratch, name, "");
    }
    assert_true(open_box(yard));
    assert_int_equal(run(yard, "find ~ -mindepth 1 | wc -l"), 0);
    assert_int_equal(strtol(yard->text, NULL, 10), 64);
}

/* ---- an installer's box ---- */

static void make_staging(struct yard *yard, char *path, size_t size)
{
    keep(path, size, scratch_folder(&yard->scratch, "layers/.build-k"));
    assert_int_equal(chmod(path, 0700), 0);
    if (geteuid() == 0)
        assert_int_equal(chown(path, GUEST_HOST_ID, GUEST_HOST_ID), 0);
    yard->spec.staging = path;
}

static void seal(struct yard *yard, char *layer, size_t size)
{
    int fd = open(scratch_path(&yard->scratch, "layers"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct launcher_sealed sealed = {0};
    struct error err = {0};
    int r = seal_folder(fd, ".build-k", geteuid(), &sealed);

    if (r < 0)
        fail_msg("%s", sealed.error.text);
    assert_int_equal(manifest_verify(fd, sealed.layer, NULL, NULL, &err), 0);
    snprintf(layer, size, "%s/layers/%s", yard->scratch.path, sealed.layer);
    close(fd);
}

static void test_installer_box(void **state)
{
    struct yard *yard = *state;
    char staging[256], layer[256];

    make_staging(yard, staging, sizeof(staging));
    yard->spec.stages = STAGING_PACKAGES;
    if (!open_box(yard))
        skip();
    ASSERT_SAYS(yard, "mkdir /bailey/packages/p && echo x > /bailey/packages/p/m.py && echo done",
                "done");
    assert_int_not_equal(run(yard, "touch /bailey/x"), 0);
    ASSERT_SAYS(yard, "stat -c %u /bailey/packages", "1000");
    ASSERT_SAYS(yard, "grep -c '/bailey/packages rw,nosuid,nodev' /proc/self/mountinfo || true",
                "1");
    /* Its way out: we listen on port 3128 (0C38) of its loopback, in state 0A. */
    assert_true(yard->launched.egress_fd >= 0);
    ASSERT_SAYS(yard, "grep -c '0100007F:0C38 00000000:0000 0A' /proc/net/tcp || true", "1");
    ASSERT_SAYS(yard, "echo $https_proxy", "http://127.0.0.1:3128");
    close_box(yard);
    seal(yard, layer, sizeof(layer));
    assert_int_equal(access(staging, F_OK), -1);

    yard->spec.staging = NULL;
    yard->spec.stages = STAGING_NONE;
    yard->spec.packages = layer;
    assert_true(open_box(yard));
    ASSERT_SAYS(yard, "cat /bailey/packages/p/m.py", "x");
    assert_int_equal(yard->launched.egress_fd, -1);
    ASSERT_SAYS(yard, "grep -c 0C38 /proc/net/tcp || true", "0");
}

/* An installer may fill its folder, not the disk that is everybody's. */
static void test_small_disk(void **state)
{
    struct yard *yard = *state;
    char staging[256];

    make_staging(yard, staging, sizeof(staging));
    if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 ||
        sys_mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        sys_mount("small", staging, "tmpfs", 0, "size=64m,mode=0777") < 0) {
        print_message("no small disk can be made here: %s\n", strerror(errno));
        skip();
    }
    yard->spec.stages = STAGING_PACKAGES;
    if (open_box(yard)) {
        run(yard, "echo x > /bailey/packages/x && exec sleep 60");
        assert_int_equal(yard->end.signal, SIGKILL);
        assert_true(yard->end.disk_full);
        assert_false(yard->end.timed_out);
        close_box(yard);
    }
    assert_int_equal(sys_umount2(staging, MNT_DETACH), 0);
}

/* A virtual environment made at the path it will have works from there. */
static void test_venv(void **state)
{
    struct yard *yard = *state;
    char staging[256], layer[256];

    if (access("/usr/bin/python3", X_OK) < 0) {
        print_message("there is no /usr/bin/python3\n");
        skip();
    }
    make_staging(yard, staging, sizeof(staging));
    yard->spec.stages = STAGING_TEMPLATE;
    if (!open_box(yard))
        skip();
    if (run(yard, "/usr/bin/python3 -m venv --without-pip /bailey/template") != 0) {
        print_message("python3 makes no environment here: %s\n", yard->text);
        skip();
    }
    ASSERT_SAYS(yard,
                "set -e; cd /bailey/template; mkdir -p home/.cache; echo c > home/.cache/c;"
                "d=$(python -c 'import site; print(site.getsitepackages()[0])');"
                "echo 'def hello(): return \"hi\"' > $d/greeting.py; ln -s /etc/passwd evil;"
                "python -m compileall -q $d; echo ok",
                "ok");
    close_box(yard);
    seal(yard, layer, sizeof(layer));

    yard->spec.staging = NULL;
    yard->spec.stages = STAGING_NONE;
    yard->spec.layer = layer;
    assert_true(open_box(yard));
    ASSERT_SAYS(yard, "python -c 'import sys, greeting; print(sys.prefix, greeting.hello())'",
                "/bailey/template hi");
    ASSERT_SAYS(yard, "python -c 'import greeting; print(greeting.__cached__ is not None)'",
                "True");
    ASSERT_SAYS(yard, "cat ~/.cache/c; test -e /bailey/template/evil || echo no evil",
                "c\nno evil");
    assert_int_not_equal(run(yard, "touch /bailey/template/lib/x"), 0);
}

#define IN_A_YARD(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_YARD(test_environment),   cmocka_unit_test(test_drivers),
        IN_A_YARD(test_no_namespaces), IN_A_YARD(test_what_cannot_be),
        IN_A_YARD(test_ordinary_box),  IN_A_YARD(test_furnished_box),
        IN_A_YARD(test_home_links),    IN_A_YARD(test_installer_box),
        IN_A_YARD(test_venv),          IN_A_YARD(test_small_disk),
    };

    return cmocka_run_group_tests_name("launcher/furniture", tests, NULL, NULL);
}
