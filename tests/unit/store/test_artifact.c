/* test_artifact.c - artifacts on disk: name, mode, content, planted links, full disks. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/limits.h"
#include "base/str.h"
#include "store/artifact.h"

/* A folder of its own for each test, which is the working folder too. */
struct room {
    char path[64];
    int home; /* where the test came from */
    struct result result;
};

static int set_up(void **state)
{
    struct room *room = calloc(1, sizeof(*room));
    struct limits limits = {.output_bytes = 4096, .timeout_ms = 1000, .pids = 4};

    if (!room)
        return -1;
    snprintf(room->path, sizeof(room->path), "/tmp/test_artifact.XXXXXX");
    room->home = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (!mkdtemp(room->path) || chdir(room->path) < 0)
        return -1;
    result_init(&room->result, &limits);
    room->result.runtime = "local";
    *state = room;
    return 0;
}

static void remove_tree(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    while (folder && (entry = readdir(folder))) {
        if (!str_equal(entry->d_name, ".") && !str_equal(entry->d_name, ".."))
            remove_tree(fd, entry->d_name);
    }
    if (folder)
        closedir(folder);
    unlinkat(dir_fd, name, folder ? AT_REMOVEDIR : 0);
}

static int tear_down(void **state)
{
    struct room *room = *state;

    result_free(&room->result);
    remove_tree(AT_FDCWD, room->path);
    if (fchdir(room->home) < 0)
        return -1;
    close(room->home);
    free(room);
    return 0;
}

static struct artifact artifact_of(struct room *room, const char *code)
{
    return (struct artifact){.folder = "artifacts",
                             .language = "python",
                             .code = code,
                             .code_length = strlen(code),
                             .result = &room->result};
}

static size_t count_entries(const char *path)
{
    DIR *folder = opendir(path);
    struct dirent *entry;
    size_t count = 0;

    assert_non_null(folder);
    while ((entry = readdir(folder)))
        count += !str_equal(entry->d_name, ".") && !str_equal(entry->d_name, "..");
    closedir(folder);
    return count;
}

static json_t *load(const char *path)
{
    json_error_t why;
    json_t *json = json_load_file(path, JSON_ALLOW_NUL, &why);

    if (!json)
        fail_msg("%s: %s", path, why.text);
    return json;
}

static void test_name_mode_and_content(void **state)
{
    struct room *room = *state;
    struct artifact artifact = artifact_of(room, "abc");
    struct error err = {0};
    struct stat st;
    char *path = NULL;
    json_t *json, *again;
    int day, clock, millis, used = 0;

    capture_add(&room->result.out, "Hello\n", 6, 4096);
    assert_int_equal(artifact_write(&artifact, &path, &err), 0);
    assert_true(str_starts(path, room->path));
    assert_true(str_starts(path + strlen(room->path), "/artifacts/executions/"));
    /* SHA-256 of "abc" begins ba7816bf8f01 */
    assert_int_equal(sscanf(strrchr(path, '/'), "/%8dT%6d.%3dZ_ba7816bf8f01.json%n", &day, &clock,
                            &millis, &used),
                     3);
    assert_int_equal(used, strlen(strrchr(path, '/')));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(stat("artifacts/executions", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    assert_int_equal(count_entries("artifacts/executions"), 1);
    json = load(path);
    assert_string_equal(json_string_value(json_object_get(json, "code")), "abc");
    assert_string_equal(json_string_value(json_object_get(json, "language")), "python");
    assert_int_equal(json_object_size(json_object_get(json, "env")), 0);
    assert_non_null(strchr(json_string_value(json_object_get(json, "time")), 'T'));
    assert_true(json_is_string(json_object_get(json, "engine_version")));
    again = result_to_json(&room->result);
    assert_true(json_equal(json_object_get(json, "result"), again));
    json_decref(again);
    json_decref(json);
    free(path);
}

static void test_the_mode_does_not_depend_on_the_umask(void **state)
{
    static const mode_t masks[] = {0, 0377};
    struct room *room = *state;
    struct artifact artifact = artifact_of(room, "abc");
    struct stat st;

    mkdir("artifacts", 0700);
    mkdir("artifacts/executions", 0700);
    for (size_t i = 0; i < 2; i++) {
        mode_t before = umask(masks[i]);
        char *path = NULL;

        assert_int_equal(artifact_write(&artifact, &path, NULL), 0);
        umask(before);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        free(path);
    }
}

static void test_equal_runs_get_files_of_their_own(void **state)
{
    struct room *room = *state;
    struct artifact artifact = artifact_of(room, "x");

    for (int i = 0; i < 20; i++) {
        char *path = NULL;

        assert_int_equal(artifact_write(&artifact, &path, NULL), 0);
        free(path);
    }
    assert_int_equal(count_entries("artifacts/executions"), 20);
}

/* Of code over 1 MiB the beginning is stored, and the record says so. */
static void test_long_code_is_cut_and_says_so(void **state)
{
    struct room *room = *state;
    size_t length = LIMIT_STORED_CODE + 1000;
    char *code = malloc(length + 1), *path = NULL;
    struct artifact artifact;
    json_t *json;

    assert_non_null(code);
    memset(code, 'x', length);
    code[length] = 0;
    artifact = artifact_of(room, code);
    assert_int_equal(artifact_write(&artifact, &path, NULL), 0);
    json = load(path);
    assert_int_equal(json_string_length(json_object_get(json, "code")), LIMIT_STORED_CODE);
    assert_true(json_is_true(json_object_get(json, "code_truncated")));
    assert_int_equal(json_integer_value(json_object_get(json, "code_bytes")), length);
    json_decref(json);
    free(path);
    artifact.code_length = LIMIT_STORED_CODE;
    assert_int_equal(artifact_write(&artifact, &path, NULL), 0);
    json = load(path);
    assert_null(json_object_get(json, "code_truncated"));
    assert_null(json_object_get(json, "code_bytes"));
    json_decref(json);
    free(path);
    free(code);
}

static void test_secrets_are_gone(void **state)
{
    static const char code[] =
        "import os\nAPI_KEY = 'literal-1'\nprint(\"plain-looking-41\")\0\xff";
    static const char *const env[] = {"MY_API_KEY=plain-looking-41",  "CITY=Ulm", "PASSWORD=ab",
                                      "NOTE=sk-abcdef0123456789abcd", "EMPTY",    NULL};
    struct room *room = *state;
    struct artifact artifact = artifact_of(room, code);
    char *path = NULL;
    json_t *json, *variables, *result;

    artifact.code_length = sizeof(code) - 1;
    artifact.env = env;
    capture_add(&room->result.out, "value plain-looking-41\n", 23, 4096);
    error_set(&room->result.error, -EINVAL, ERROR_BAD_INPUT, "password: hunter2");
    assert_int_equal(artifact_write(&artifact, &path, NULL), 0);
    json = load(path);
    variables = json_object_get(json, "env");
    result = json_object_get(json, "result");
    assert_string_equal(json_string_value(json_object_get(json, "code")),
                        "import os\nAPI_KEY = '[redacted]'\nprint(\"[redacted]\")");
    assert_int_equal(json_string_length(json_object_get(json, "code")),
                     strlen("import os\nAPI_KEY = '[redacted]'\nprint(\"[redacted]\")") + 4);
    assert_string_equal(json_string_value(json_object_get(variables, "MY_API_KEY")), "[redacted]");
    assert_string_equal(json_string_value(json_object_get(variables, "PASSWORD")), "[redacted]");
    assert_string_equal(json_string_value(json_object_get(variables, "NOTE")), "[redacted]");
    assert_string_equal(json_string_value(json_object_get(variables, "CITY")), "Ulm");
    assert_string_equal(json_string_value(json_object_get(variables, "EMPTY")), "");
    assert_string_equal(json_string_value(json_object_get(result, "stdout")), "value [redacted]\n");
    assert_string_equal(json_string_value(json_object_get(
                            json_object_get(json_object_get(result, "meta"), "error"), "message")),
                        "password: [redacted]");
    json_decref(json);
    free(path);
}

static void test_an_absolute_folder(void **state)
{
    struct room *room = *state;
    struct artifact artifact = artifact_of(room, "x");
    char folder[128], expected[192], *path = NULL;

    /* Links above the folder are the operator's; slashes do not matter. */
    assert_int_equal(mkdir("real", 0755), 0);
    assert_int_equal(symlink("real", "link"), 0);
    snprintf(folder, sizeof(folder), "%s/link//new/kept/", room->path);
    snprintf(expected, sizeof(expected), "%s/link//new/kept/executions/", room->path);
    artifact.folder = folder;
    assert_int_equal(artifact_write(&artifact, &path, NULL), 0);
    assert_true(str_starts(path, expected));
    assert_int_equal(access(path, R_OK), 0);
    assert_int_equal(count_entries("real/new/kept/executions"), 1);
    free(path);
}

/* Attack 7: the place where the engine writes is a link to somewhere else. */
static void test_planted_links_are_not_followed(void **state)
{
    static const char *const places[] = {"artifacts", "artifacts/executions"};
    struct room *room = *state;
    struct artifact artifact = artifact_of(room, "x");

    assert_int_equal(mkdir("outside", 0755), 0);
    for (size_t i = 0; i < 2; i++) {
        char target[128], *path = NULL;
        struct error err = {0};

        if (i == 1)
            assert_int_equal(mkdir("artifacts", 0755), 0);
        snprintf(target, sizeof(target), "%s/outside", room->path);
        assert_int_equal(symlink(target, places[i]), 0);
        assert_true(artifact_write(&artifact, &path, &err) < 0);
        assert_null(path);
        assert_non_null(strstr(err.text, "not a folder"));
        assert_int_equal(count_entries("outside"), 0);
        assert_int_equal(unlink(places[i]), 0);
    }
}

static void test_a_file_in_the_way(void **state)
{
    struct room *room = *state;
    struct artifact artifact = artifact_of(room, "x");
    struct error err = {0};
    char *path = NULL;

    close(open("artifacts", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    assert_int_equal(artifact_write(&artifact, &path, &err), -ENOTDIR);
    assert_non_null(strstr(err.text, "'artifacts'"));
    assert_ptr_equal(err.code, ERROR_ENGINE);
}

/* Runs `body` in a child, because what it does to the process cannot be undone. */
static void in_child(void (*body)(struct room *room), struct room *room)
{
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        body(room);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("skipped: this process may not have a system call filter\n");
        skip();
    }
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#define CHILD_CHECK(claim)            \
    do {                              \
        if (!(claim))                 \
            _exit(__LINE__ % 70 + 1); \
    } while (0)

/* No more room: a file of more than 16 bytes cannot be written. */
static void write_on_a_full_disk(struct room *room)
{
    struct artifact artifact = artifact_of(room, "x");
    struct error err = {0};
    char *path = NULL;

    signal(SIGXFSZ, SIG_IGN);
    CHILD_CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){16, 16}) == 0);
    CHILD_CHECK(artifact_write(&artifact, &path, &err) == -EFBIG);
    CHILD_CHECK(path == NULL);
    CHILD_CHECK(strstr(err.text, "artifacts/executions") && strstr(err.text, "too large"));
}

static void test_a_full_disk_leaves_nothing(void **state)
{
    in_child(write_on_a_full_disk, *state);
    assert_int_equal(count_entries("artifacts/executions"), 0);
}

/* openat() with O_TMPFILE fails from here on, as on file systems that do not have it. */
static void deny_tmpfile(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE & ~O_DIRECTORY, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
        _exit(77);
}

static void write_without_tmpfile(struct room *room)
{
    struct artifact artifact = artifact_of(room, "x");
    char *path = NULL;
    struct stat st;

    deny_tmpfile();
    CHILD_CHECK(openat(AT_FDCWD, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600) < 0);
    CHILD_CHECK(errno == EOPNOTSUPP);
    for (int i = 0; i < 5; i++) {
        CHILD_CHECK(artifact_write(&artifact, &path, NULL) == 0);
        CHILD_CHECK(stat(path, &st) == 0 && (st.st_mode & 07777) == 0600);
        free(path);
        path = NULL;
    }
    write_on_a_full_disk(room);
}

static void test_without_tmpfile(void **state)
{
    in_child(write_without_tmpfile, *state);
    assert_int_equal(count_entries("artifacts/executions"), 5);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_name_mode_and_content),
        TEST(test_the_mode_does_not_depend_on_the_umask),
        TEST(test_equal_runs_get_files_of_their_own),
        TEST(test_long_code_is_cut_and_says_so),
        TEST(test_secrets_are_gone),
        TEST(test_an_absolute_folder),
        TEST(test_planted_links_are_not_followed),
        TEST(test_a_file_in_the_way),
        TEST(test_a_full_disk_leaves_nothing),
        TEST(test_without_tmpfile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
