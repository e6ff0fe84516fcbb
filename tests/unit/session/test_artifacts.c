/* test_artifacts.c - outputs by id: one for each content, for a time, and nothing left of them. */
#include "engine_fixture.h"

#include "session/artifacts.h"

static void store_path(const struct engine_fixture *fixture, const char *id, char path[600])
{
    snprintf(path, 600, "%s/output/.by-id/%s", fixture->scratch.path, id);
}

static bool has_bytes(const struct engine_fixture *fixture, const char *id)
{
    char path[600];

    store_path(fixture, id, path);
    return access(path, F_OK) == 0;
}

/* A file of the session's folder, as a collection leaves it there. */
static struct output_row save(struct session *session, const char *name, const char *text)
{
    int folder_fd = output_folder(session, true);
    int fd = openat(folder_fd, ".new", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    struct artifact_digest digest;
    struct output_row row;
    struct error err = {0};

    assert_true(folder_fd >= 0 && fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
    assert_int_equal(renameat(folder_fd, ".new", folder_fd, name), 0);
    artifact_begin(&digest);
    for (const char *at = text; *at; at++)
        artifact_add(&digest, at, 1);
    if (artifact_save(session, folder_fd, name, &digest, &row, &err) < 0)
        fail_msg("%s", err.text);
    close(folder_fd);
    return row;
}

static bool is_there(struct engine_fixture *fixture, const char *id)
{
    struct output_row row;
    struct error err = {0};
    int r = artifact_find(fixture->manager, id, &row, &err);

    if (r < 0)
        assert_int_equal(r, -ENOENT);
    return r == 0;
}

static void check_bytes(struct engine_fixture *fixture, const char *id, const char *text)
{
    struct error err = {0};
    int fd = artifact_open(fixture->manager, id, &err);
    char data[64] = "";

    assert_true(fd >= 0);
    assert_int_equal(read(fd, data, sizeof(data) - 1), strlen(text));
    assert_string_equal(data, text);
    close(fd);
}

static void test_an_id_for_each_content(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct output_row first = save(session, "a.txt", "one"), again, other;

    assert_string_equal(first.sha256,
                        "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed");
    assert_string_equal(first.type, "text/plain");
    assert_int_equal(first.bytes, 3);
    again = save(session, "a.txt", "one");
    assert_string_equal(again.id, first.id);
    other = save(session, "a.txt", "two");
    assert_string_not_equal(other.id, first.id);
    check_bytes(fixture, other.id, "two");
    assert_false(is_there(fixture, first.id));
    assert_false(has_bytes(fixture, first.id));
}

static void test_a_kept_one_stays_what_it_was(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct output_row row = save(session, "a.txt", "one"), other;
    struct error err = {0};

    assert_int_equal(artifact_keep(fixture->manager, &row, true, &err), 0);
    other = save(session, "a.txt", "two");
    check_bytes(fixture, row.id, "one");
    session_end(session, "test", NULL, NULL);
    UNTIL(fixture, !is_there(fixture, other.id));
    assert_false(has_bytes(fixture, other.id));
    check_bytes(fixture, row.id, "one");
    fixture_crash(fixture);
    fixture_begin(fixture);
    check_bytes(fixture, row.id, "one");
    assert_int_equal(artifact_remove(fixture->manager, row.id, &err), 0);
    assert_false(is_there(fixture, row.id) || has_bytes(fixture, row.id));
}

/* Nobody asks for it. */
static void test_it_goes_by_itself(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct output_row kept = save(session, "kept.txt", "kept"), row;
    struct error err = {0};

    assert_int_equal(artifact_keep(fixture->manager, &kept, true, &err), 0);
    fixture->config.artifact_ms = 1;
    row = save(session, "a.txt", "one");
    UNTIL(fixture, !has_bytes(fixture, row.id));
    assert_int_equal(output_row_get(fixture->index, row.id, &row, &err), 0);
    assert_true(has_bytes(fixture, kept.id));
    /* Not kept any more: its time begins. */
    kept.expires_ms = 0;
    assert_int_equal(artifact_keep(fixture->manager, &kept, false, &err), 0);
    UNTIL(fixture, !has_bytes(fixture, kept.id));
}

static void test_what_became_due_while_nobody_was_there(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct output_row row = save(session, "a.txt", "one");
    struct error err = {0};
    char stray[600];
    int fd;

    store_path(fixture, "a_0123", stray); /* bytes without a row */
    fd = open(stray, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    fixture_crash(fixture);
    row.expires_ms = 1;
    assert_int_equal(output_row_put(fixture->index, &row, &err), 0);
    fixture_begin(fixture);
    assert_false(has_bytes(fixture, "a_0123"));
    UNTIL(fixture, !has_bytes(fixture, row.id));
}

/* It stays when its session ends, so nobody gets around his quota with it. */
static void test_what_is_kept_is_counted(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session_spec spec = {.tenant = "acme"};
    struct session *session;
    struct output_row row, more;
    struct error err = {0};

    fixture->config.quota.disk_bytes = 5;
    tenants_configure(fixture->manager->tenants, &fixture->config);
    assert_int_equal(session_manager_create(fixture->manager, &spec, &session, &err), 0);
    row = save(session, "a.txt", "one");
    more = save(session, "b.txt", "two");
    assert_int_equal(artifact_keep(fixture->manager, &row, true, &err), 0);
    assert_int_equal(artifact_keep(fixture->manager, &row, true, &err), 0); /* once */
    assert_int_equal(tenant_held(fixture->manager->tenants, "acme", QUOTA_DISK), 3);
    assert_int_equal(artifact_keep(fixture->manager, &more, true, &err), -EDQUOT);
    assert_string_equal(err.code, ERROR_QUOTA);
    assert_false(more.is_kept);
    fixture_crash(fixture);
    fixture_begin(fixture);
    assert_int_equal(tenant_held(fixture->manager->tenants, "acme", QUOTA_DISK), 3);
    assert_int_equal(artifact_keep(fixture->manager, &row, false, &err), 0);
    assert_int_equal(tenant_held(fixture->manager->tenants, "acme", QUOTA_DISK), 0);
    assert_int_equal(artifact_keep(fixture->manager, &row, true, &err), 0);
    assert_int_equal(artifact_remove(fixture->manager, row.id, &err), 0);
    assert_int_equal(artifact_remove(fixture->manager, row.id, &err), 0);
    assert_int_equal(tenant_held(fixture->manager->tenants, "acme", QUOTA_DISK), 0);
}

static void test_ids_that_are_none(void **state)
{
    static const char *const ids[] = {
        "", "a_", "x", "../index/index.db", "a_/x", "a_..", "a_12G", "b_0123456", ".", NULL};
    struct engine_fixture *fixture = *state;
    struct error err = {0};

    for (size_t i = 0; ids[i]; i++) {
        assert_false(is_there(fixture, ids[i]));
        assert_int_equal(artifact_open(fixture->manager, ids[i], &err), -ENOENT);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WITH_ENGINE(test_an_id_for_each_content),
        WITH_ENGINE(test_a_kept_one_stays_what_it_was),
        WITH_ENGINE(test_it_goes_by_itself),
        WITH_ENGINE(test_what_became_due_while_nobody_was_there),
        WITH_ENGINE(test_what_is_kept_is_counted),
        WITH_ENGINE(test_ids_that_are_none),
    };

    return cmocka_run_group_tests(tests, fixture_reaper, NULL);
}
