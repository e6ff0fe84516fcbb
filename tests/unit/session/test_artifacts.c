/* test_artifacts.c - outputs by id: one for each content, for a time, and nothing left of them. */
#include "workshop.h"

#include "session/artifacts.h"

static void store_path(const struct shop *shop, const char *id, char path[600])
{
    snprintf(path, 600, "%s/output/.by-id/%s", shop->scratch.path, id);
}

static bool has_bytes(const struct shop *shop, const char *id)
{
    char path[600];

    store_path(shop, id, path);
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

static bool is_there(struct shop *shop, const char *id)
{
    struct output_row row;
    struct error err = {0};
    int r = artifact_find(shop->engine, id, &row, &err);

    if (r < 0)
        assert_int_equal(r, -ENOENT);
    return r == 0;
}

static void check_bytes(struct shop *shop, const char *id, const char *text)
{
    struct error err = {0};
    int fd = artifact_open(shop->engine, id, &err);
    char data[64] = "";

    assert_true(fd >= 0);
    assert_int_equal(read(fd, data, sizeof(data) - 1), strlen(text));
    assert_string_equal(data, text);
    close(fd);
}

static void test_an_id_for_each_content(void **state)
{
    struct shop *shop = *state;
    struct session *session = shop_session(shop, NULL);
    struct output_row first = save(session, "a.txt", "one"), again, other;

    assert_string_equal(first.sha256,
                        "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed");
    assert_string_equal(first.type, "text/plain");
    assert_int_equal(first.bytes, 3);
    again = save(session, "a.txt", "one");
    assert_string_equal(again.id, first.id);
    other = save(session, "a.txt", "two");
    assert_string_not_equal(other.id, first.id);
    check_bytes(shop, other.id, "two");
    assert_false(is_there(shop, first.id));
    assert_false(has_bytes(shop, first.id));
}

static void test_a_kept_one_stays_what_it_was(void **state)
{
    struct shop *shop = *state;
    struct session *session = shop_session(shop, NULL);
    struct output_row row = save(session, "a.txt", "one"), other;
    struct error err = {0};

    assert_int_equal(artifact_keep(shop->engine, &row, true, &err), 0);
    other = save(session, "a.txt", "two");
    check_bytes(shop, row.id, "one");
    session_end(session, "test", NULL, NULL);
    UNTIL(shop, !is_there(shop, other.id));
    assert_false(has_bytes(shop, other.id));
    check_bytes(shop, row.id, "one");
    shop_crash(shop);
    shop_begin(shop);
    check_bytes(shop, row.id, "one");
    assert_int_equal(artifact_remove(shop->engine, row.id, &err), 0);
    assert_false(is_there(shop, row.id) || has_bytes(shop, row.id));
}

/* Nobody asks for it. */
static void test_it_goes_by_itself(void **state)
{
    struct shop *shop = *state;
    struct session *session = shop_session(shop, NULL);
    struct output_row kept = save(session, "kept.txt", "kept"), row;
    struct error err = {0};

    assert_int_equal(artifact_keep(shop->engine, &kept, true, &err), 0);
    shop->config.artifact_ms = 1;
    row = save(session, "a.txt", "one");
    UNTIL(shop, !has_bytes(shop, row.id));
    assert_int_equal(output_row_get(shop->index, row.id, &row, &err), 0);
    assert_true(has_bytes(shop, kept.id));
    /* Not kept any more: its time begins. */
    kept.expires_ms = 0;
    assert_int_equal(artifact_keep(shop->engine, &kept, false, &err), 0);
    UNTIL(shop, !has_bytes(shop, kept.id));
}

static void test_what_became_due_while_nobody_was_there(void **state)
{
    struct shop *shop = *state;
    struct session *session = shop_session(shop, NULL);
    struct output_row row = save(session, "a.txt", "one");
    struct error err = {0};
    char stray[600];
    int fd;

    store_path(shop, "a_0123", stray); /* bytes without a row */
    fd = open(stray, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
    shop_crash(shop);
    row.expires_ms = 1;
    assert_int_equal(output_row_put(shop->index, &row, &err), 0);
    shop_begin(shop);
    assert_false(has_bytes(shop, "a_0123"));
    UNTIL(shop, !has_bytes(shop, row.id));
}

/* It stays when its session ends, so nobody gets around his quota with it. */
static void test_what_is_kept_is_counted(void **state)
{
    struct shop *shop = *state;
    struct session_spec spec = {.tenant = "acme"};
    struct session *session;
    struct output_row row, more;
    struct error err = {0};

    shop->config.quota.disk_bytes = 5;
    tenants_configure(shop->engine->tenants, &shop->config);
    assert_int_equal(engine_create(shop->engine, &spec, &session, &err), 0);
    row = save(session, "a.txt", "one");
    more = save(session, "b.txt", "two");
    assert_int_equal(artifact_keep(shop->engine, &row, true, &err), 0);
    assert_int_equal(artifact_keep(shop->engine, &row, true, &err), 0); /* once */
    assert_int_equal(tenant_held(shop->engine->tenants, "acme", QUOTA_DISK), 3);
    assert_int_equal(artifact_keep(shop->engine, &more, true, &err), -EDQUOT);
    assert_string_equal(err.code, ERROR_QUOTA);
    assert_false(more.is_kept);
    shop_crash(shop);
    shop_begin(shop);
    assert_int_equal(tenant_held(shop->engine->tenants, "acme", QUOTA_DISK), 3);
    assert_int_equal(artifact_keep(shop->engine, &row, false, &err), 0);
    assert_int_equal(tenant_held(shop->engine->tenants, "acme", QUOTA_DISK), 0);
    assert_int_equal(artifact_keep(shop->engine, &row, true, &err), 0);
    assert_int_equal(artifact_remove(shop->engine, row.id, &err), 0);
    assert_int_equal(artifact_remove(shop->engine, row.id, &err), 0);
    assert_int_equal(tenant_held(shop->engine->tenants, "acme", QUOTA_DISK), 0);
}

static void test_ids_that_are_none(void **state)
{
    static const char *const ids[] = {
        "", "a_", "x", "../index/index.db", "a_/x", "a_..", "a_12G", "b_0123456", ".", NULL};
    struct shop *shop = *state;
    struct error err = {0};

    for (size_t i = 0; ids[i]; i++) {
        assert_false(is_there(shop, ids[i]));
        assert_int_equal(artifact_open(shop->engine, ids[i], &err), -ENOENT);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        IN_A_WORKSHOP(test_an_id_for_each_content),
        IN_A_WORKSHOP(test_a_kept_one_stays_what_it_was),
        IN_A_WORKSHOP(test_it_goes_by_itself),
        IN_A_WORKSHOP(test_what_became_due_while_nobody_was_there),
        IN_A_WORKSHOP(test_what_is_kept_is_counted),
        IN_A_WORKSHOP(test_ids_that_are_none),
    };

    return cmocka_run_group_tests(tests, shop_reaper, NULL);
}
