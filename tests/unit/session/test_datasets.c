/* test_datasets.c - names, clashes, uploads that are cancelled, folders that are configured. */
#include "engine_fixture.h"

#include <dirent.h>

static void check_name(const char *name, const char *file)
{
    char ret[LIMIT_NAME + 8];
    struct error err = {0};
    int r = dataset_file_name(name, ret, sizeof(ret), &err);

    if (file) {
        assert_int_equal(r, 0);
        assert_string_equal(ret, file);
    } else {
        assert_int_equal(r, -EINVAL);
        assert_string_equal(err.code, ERROR_BAD_INPUT);
    }
}

static void test_names(void **state)
{
    char longest[LIMIT_NAME + 2];

    (void)state;
    memset(longest, 'n', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = 0;
    check_name("sales 2024/q1", "sales_2024_q1.csv");
    check_name("sales.csv", "sales.csv");
    check_name("s.parquet", "s.parquet");
    check_name("my data/s.XLSX", "my_data_s.XLSX");
    check_name("rows.csv.gz", "rows.csv.gz");
    check_name("sales.2024", "sales.2024.csv");
    check_name("a\tb", "a_b.csv");
    check_name("/etc/passwd", "_etc_passwd.csv");
    check_name("\xc3\xa4", "\xc3\xa4.csv");
    check_name("", NULL);
    check_name(".", NULL);
    check_name("../x", NULL);
    check_name("a\nb", NULL);
    check_name("a\x7f", NULL);
    check_name("\xff", NULL);
    check_name("a\xc3", NULL);
    check_name(longest, NULL);
}

static int give(struct session *session, const char *name, const char *text, struct error *err)
{
    struct dataset_upload *upload;
    int r = dataset_begin(session, name, &upload, err);

    if (r < 0)
        return r;
    assert_int_equal(dataset_write(upload, text, strlen(text), err), 0);
    return dataset_end(upload, err);
}

static void check_text(struct engine_fixture *fixture, struct session *session, const char *file,
                       const char *text)
{
    char name[256], data[256];

    snprintf(name, sizeof(name), "data/%s/%s", session_id(session), file);
    assert_true(scratch_read(scratch_path(&fixture->scratch, name), data, sizeof(data)));
    assert_string_equal(data, text);
}

/* Hidden files in data/: uploads that are under way. */
static unsigned count_hidden(struct engine_fixture *fixture)
{
    DIR *folder = opendir(scratch_path(&fixture->scratch, "data"));
    struct dirent *entry;
    unsigned count = 0;

    assert_non_null(folder);
    while ((entry = readdir(folder)))
        count += entry->d_name[0] == '.' && entry->d_name[1] != '.' && entry->d_name[1] != 0;
    closedir(folder);
    return count;
}

static void test_given(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct dataset_upload *slow;
    struct error err = {0};
    json_t *list;

    assert_int_equal(give(session, "a b", "1,2\n", &err), 0);
    check_text(fixture, session, "a_b.csv", "1,2\n");
    assert_int_equal(give(session, "a b", "new\n", &err), 0); /* the same name: a newer one */
    check_text(fixture, session, "a_b.csv", "new\n");
    assert_int_equal(give(session, "a_b", "x", &err), -EEXIST);
    assert_string_equal(err.code, ERROR_DATASET_TAKEN);
    assert_int_equal(dataset_begin(session, "c/d", &slow, &err), 0);
    assert_int_equal(count_hidden(fixture), 1);
    assert_int_equal(give(session, "c_d", "fast", &err), 0);
    assert_int_equal(dataset_end(slow, &err), -EEXIST); /* one that was faster */
    check_text(fixture, session, "c_d.csv", "fast");
    assert_int_equal(dataset_begin(session, "e", &slow, &err), 0);
    dataset_cancel(slow);
    dataset_cancel(NULL);
    assert_int_equal(count_hidden(fixture), 0);
    assert_int_equal(session->uploads, 0);
    list = session_datasets_json(session);
    assert_int_equal(json_array_size(list), 2);
    json_decref(list);
}

static void test_many(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct error err = {0};
    char name[16];

    for (int i = 0; i < LIMIT_DATASETS; i++) {
        snprintf(name, sizeof(name), "d%d", i);
        assert_int_equal(give(session, name, "x", &err), 0);
    }
    assert_int_equal(give(session, "one more", "x", &err), -E2BIG);
    assert_int_equal(give(session, "d7", "y", &err), 0); /* replacing needs no room */
}

static void test_session_ends_in_between(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct dataset_upload *upload, *other;
    struct error err = {0};

    assert_int_equal(dataset_begin(session, "d", &upload, &err), 0);
    assert_int_equal(dataset_begin(session, "e", &other, &err), 0);
    session_end(session, "deleted", NULL, NULL);
    assert_true(dataset_write(upload, "x", 1, &err) < 0);
    assert_string_equal(err.code, ERROR_SESSION_ENDED);
    assert_true(dataset_end(upload, &err) < 0);
    UNTIL(fixture, session_state(session) == SESSION_ENDED);
    dataset_cancel(other);
    assert_true(dataset_begin(session, "f", &upload, &err) < 0);
    UNTIL(fixture, !fixture->manager->is_sweeping);
    assert_int_equal(count_hidden(fixture), 0);
    assert_int_equal(session->uploads, 0);
}

/* An upload keeps its session alive; when it has ended, the idle time counts again. */
static void test_idle_after_upload(void **state)
{
    struct engine_fixture *fixture = *state;
    struct dataset_upload *upload;
    struct session *session;
    struct error err = {0};
    uint64_t begun = clock_now_ms();

    assert_int_equal(session_manager_create(fixture->manager, &(struct session_spec){.idle_ms = 30},
                                            &session, &err),
                     0);
    assert_int_equal(dataset_begin(session, "d", &upload, &err), 0);
    while (clock_now_ms() < begun + 100)
        poll_reactor_turn(&fixture->loop, 10);
    assert_int_equal(session_state(session), SESSION_NEW);
    dataset_cancel(upload);
    UNTIL(fixture, session_state(session) == SESSION_ENDED);
    assert_string_equal(session->reason, "idle");
}

struct given {
    unsigned done;
    struct error err;
};

static void on_done(void *ctx, const struct error *err)
{
    struct given *given = ctx;

    given->done++;
    given->err = *err;
}

static int from_folder_error(struct engine_fixture *fixture, const char *path, const char *code)
{
    struct session *session = fixture_session(fixture, NULL);
    struct dataset_upload *upload;
    struct given given = {0};
    struct error err = {0};
    int r = dataset_from_folder(session, "d", path, on_done, &given, &upload, &err);

    assert_true(r < 0);
    assert_string_equal(err.code, code);
    assert_int_equal(session->uploads, 0);
    return r;
}

static void test_from_folder(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct dataset_upload *upload;
    struct given given = {0};
    struct error err = {0};

    scratch_folder(&fixture->scratch, "given/sub");
    scratch_write(&fixture->scratch, "given/sub/a.csv", "1,2,3\n");
    scratch_write(&fixture->scratch, "secret", "no\n");
    assert_int_equal(symlink("../secret", scratch_path(&fixture->scratch, "given/out.csv")), 0);
    assert_int_equal(
        dataset_from_folder(session, "d", "/given/sub/a.csv", on_done, &given, &upload, &err), 0);
    assert_int_equal(given.done, 0);
    UNTIL(fixture, given.done);
    assert_int_equal(given.err.num, 0);
    check_text(fixture, session, "d.csv", "1,2,3\n");
    from_folder_error(fixture, "/given/none.csv", ERROR_PATH_NOT_FOUND);
    from_folder_error(fixture, "/given/out.csv", ERROR_PATH_NOT_FOUND);
    from_folder_error(fixture, "/given/sub/../../secret", ERROR_PATH_NOT_FOUND);
    from_folder_error(fixture, "/given/sub", ERROR_BAD_INPUT);
    from_folder_error(fixture, "/given", ERROR_BAD_INPUT);
    from_folder_error(fixture, "/givenx/a.csv", ERROR_BAD_INPUT);
    from_folder_error(fixture, "/etc/passwd", ERROR_BAD_INPUT);
}

/* A large one takes many turns, in which others are served; it can be cancelled or overtaken. */
static void test_from_folder_in_steps(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL),
                   *doomed = fixture_session(fixture, NULL);
    struct dataset_upload *upload, *other, *third;
    struct given given = {0}, ended = {0}, cancelled = {0};
    struct error err = {0};
    struct stat status;
    char name[128];
    unsigned turns = 0;
    int fd = open(scratch_path(&fixture->scratch, "given/big.csv"), O_WRONLY | O_CREAT | O_CLOEXEC,
                  0600);

    assert_int_equal(ftruncate(fd, 100 * MIB), 0);
    assert_int_equal(pwrite(fd, "end", 3, 100 * MIB - 3), 3);
    close(fd);
    assert_int_equal(
        dataset_from_folder(session, "d", "/given/big.csv", on_done, &given, &upload, &err), 0);
    assert_int_equal(
        dataset_from_folder(session, "e", "/given/big.csv", on_done, &cancelled, &other, &err), 0);
    assert_int_equal(
        dataset_from_folder(doomed, "d", "/given/big.csv", on_done, &ended, &third, &err), 0);
    for (; turns < 3; turns++)
        poll_reactor_turn(&fixture->loop, 0);
    assert_int_equal(given.done, 0);
    dataset_cancel(other);
    session_end(doomed, "deleted", NULL, NULL);
    UNTIL(fixture, given.done && ended.done);
    assert_int_equal(given.err.num, 0);
    assert_string_equal(ended.err.code, ERROR_SESSION_ENDED);
    assert_int_equal(cancelled.done, 0);
    snprintf(name, sizeof(name), "data/%s/d.csv", session_id(session));
    assert_int_equal(stat(scratch_path(&fixture->scratch, name), &status), 0);
    assert_true(status.st_size == 100 * MIB);
    UNTIL(fixture, !fixture->manager->is_sweeping);
    assert_int_equal(count_hidden(fixture), 0);
}

/* What an earlier broker left half done is removed by the next. */
static void test_swept(void **state)
{
    struct engine_fixture *fixture = *state;
    char name[64];

    fixture_crash(fixture);
    scratch_write(&fixture->scratch, "data/.s_0123-7", "half an upload");
    scratch_folder(&fixture->scratch, "data/.gone-0/deep/deeper");
    scratch_folder(&fixture->scratch, "logs/.gone-5");
    for (int i = 0; i < 700; i++) {
        snprintf(name, sizeof(name), "logs/.gone-5/%d.out", i);
        scratch_write(&fixture->scratch, name, "x");
    }
    scratch_write(&fixture->scratch, "logs/audit.jsonl", "{}\n");
    assert_int_equal(symlink("../given", scratch_path(&fixture->scratch, "data/.gone-0/link")), 0);
    fixture_begin(fixture);
    UNTIL(fixture, !fixture->manager->is_sweeping);
    assert_int_equal(count_hidden(fixture), 0);
    assert_false(has_file(fixture, "logs/.gone-5"));
    assert_true(has_file(fixture, "logs/audit.jsonl"));
    assert_true(has_file(fixture, "given"));
}

/* A file of many blocks goes in pieces. */
static void test_swept_in_pieces(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct error err = {0};
    char name[128];
    int fd;

    assert_int_equal(give(session, "big", "x", &err), 0);
    snprintf(name, sizeof(name), "data/%s/big.csv", session_id(session));
    fd = open(scratch_path(&fixture->scratch, name), O_WRONLY | O_CLOEXEC);
    if (posix_fallocate(fd, 0, 600 * MIB) != 0) {
        close(fd);
        print_message("no room for a large file\n");
        skip();
    }
    close(fd);
    session_end(session, "deleted", NULL, NULL);
    UNTIL(fixture, session_state(session) == SESSION_ENDED);
    assert_false(has_file(fixture, name));
    assert_true(fixture->manager->is_sweeping);
    UNTIL(fixture, !fixture->manager->is_sweeping);
    assert_int_equal(count_hidden(fixture), 0);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        WITH_ENGINE(test_given),
        WITH_ENGINE(test_many),
        WITH_ENGINE(test_session_ends_in_between),
        WITH_ENGINE(test_idle_after_upload),
        WITH_ENGINE(test_from_folder),
        WITH_ENGINE(test_from_folder_in_steps),
        WITH_ENGINE(test_swept),
        WITH_ENGINE(test_swept_in_pieces),
    };

    return cmocka_run_group_tests(tests, fixture_reaper, NULL);
}
