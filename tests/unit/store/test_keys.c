/* test_keys.c - API keys: made, checked, given new secrets, removed; kept over a restart; and an
 * index of the version before keys. */
#include "place.h"

#include <errno.h>
#include <sqlite3.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/str.h"
#include "store/keys.h"

#define NEVER UINT64_MAX

static struct key_row add(struct place *place, const char *tenant, uint32_t scopes,
                          uint64_t expires_ms, char text[KEY_TEXT_MAX])
{
    struct key_row row = {.scopes = scopes, .expires_ms = expires_ms};
    struct error err = {0};

    str_copy(row.tenant, sizeof(row.tenant), tenant);
    str_copy(row.name, sizeof(row.name), "a name");
    if (keys_add(place->index, &row, text, &err) < 0)
        fail_msg("%s", err.text);
    return row;
}

static int check_at(struct place *place, const char *text, uint64_t now_ms, struct principal *ret)
{
    struct error err = {0};
    int r = keys_check(place->index, text, now_ms, ret, &err);

    if (r < 0) {
        assert_int_equal(r, -EACCES);
        assert_ptr_equal(err.code, ERROR_UNAUTHORIZED);
        /* The same words for everything that can be wrong. */
        assert_string_equal(err.text, "this key is not valid: it is unknown, has expired or was "
                                      "changed; 'bailey key new' makes one");
    }
    return r;
}

static int check(struct place *place, const char *text)
{
    struct principal who;

    return check_at(place, text, clock_wall_ms(), &who);
}

static void test_good(void **state)
{
    struct place *place = *state;
    struct principal who;
    char text[KEY_TEXT_MAX];
    struct key_row row = add(place, "acme", SCOPE_BIT(SCOPE_RUN) | SCOPE_BIT(SCOPE_FILES), 0, text);

    assert_true(str_starts(text, KEY_PREFIX));
    assert_memory_equal(text + strlen(KEY_PREFIX), row.id, strlen(row.id));
    assert_true(row.created_ms > 0);
    assert_int_equal(check_at(place, text, clock_wall_ms(), &who), 0);
    assert_string_equal(who.tenant, "acme");
    assert_string_equal(who.key, row.id);
    assert_int_equal(who.scopes, SCOPE_BIT(SCOPE_RUN) | SCOPE_BIT(SCOPE_FILES));
    assert_false(who.is_local);
    index_close(place->index);
    open_index(place);
    assert_int_equal(check(place, text), 0);
}

static void test_bad(void **state)
{
    struct place *place = *state;
    char text[KEY_TEXT_MAX], other[KEY_TEXT_MAX], wrong[KEY_TEXT_MAX + 8];
    const char *dot;

    add(place, "acme", SCOPE_ALL, 0, text);
    add(place, "acme", SCOPE_ALL, 0, other);
    dot = strchr(text, '.');
    assert_int_equal(check(place, NULL), -EACCES);
    assert_int_equal(check(place, ""), -EACCES);
    assert_int_equal(check(place, KEY_PREFIX), -EACCES);
    assert_int_equal(check(place, KEY_PREFIX "."), -EACCES);
    assert_int_equal(check(place, dot), -EACCES);
    assert_int_equal(check(place, text + strlen(KEY_PREFIX)), -EACCES);
    /* Each place of the text counts; nothing may stand behind it. */
    for (size_t i = 0; i < strlen(text); i++) {
        str_copy(wrong, sizeof(wrong), text);
        wrong[i] = wrong[i] == '0' ? '1' : '0';
        assert_int_equal(check(place, wrong), -EACCES);
        wrong[i] = '\0';
        assert_int_equal(check(place, wrong), -EACCES);
    }
    snprintf(wrong, sizeof(wrong), "%s0", text);
    assert_int_equal(check(place, wrong), -EACCES);
    snprintf(wrong, sizeof(wrong), " %s", text);
    assert_int_equal(check(place, wrong), -EACCES);
    /* One's id with the other's secret. */
    snprintf(wrong, sizeof(wrong), "%.*s%s", (int)(dot - text), text, strchr(other, '.'));
    assert_int_equal(check(place, wrong), -EACCES);
    assert_int_equal(check(place, text), 0);
}

static void test_expiry(void **state)
{
    struct place *place = *state;
    struct principal who;
    char text[KEY_TEXT_MAX];
    uint64_t now = clock_wall_ms();
    unsigned count;

    add(place, "acme", SCOPE_ALL, now + 1000000, text);
    assert_int_equal(check_at(place, text, now + 999999, &who), 0);
    assert_int_equal(check_at(place, text, now + 1000000, &who), -EACCES);
    assert_int_equal(keys_count(place->index, &count, NULL), 0);
    assert_int_equal(count, 1);
    add(place, "acme", SCOPE_ALL, 1, text);
    assert_int_equal(check(place, text), -EACCES);
    assert_int_equal(keys_count(place->index, &count, NULL), 0);
    assert_int_equal(count, 1);
}

static void test_rotation(void **state)
{
    struct place *place = *state;
    struct principal who;
    char first[KEY_TEXT_MAX], second[KEY_TEXT_MAX], third[KEY_TEXT_MAX];
    struct key_row row = add(place, "acme", SCOPE_ALL, 0, first);
    struct error err = {0};

    assert_int_equal(keys_rotate(place->index, row.id, 3600000, second, &err), 0);
    assert_string_not_equal(first, second);
    assert_memory_equal(first, second, strlen(KEY_PREFIX) + strlen(row.id));
    assert_int_equal(check(place, first), 0);
    assert_int_equal(check(place, second), 0);
    assert_int_equal(check_at(place, first, clock_wall_ms() + 3600001, &who), -EACCES);
    assert_int_equal(check_at(place, second, clock_wall_ms() + 3600001, &who), 0);
    assert_int_equal(keys_rotate(place->index, row.id, 0, third, &err), 0);
    assert_int_equal(check(place, first), -EACCES);
    assert_int_equal(check(place, second), -EACCES);
    assert_int_equal(check_at(place, third, clock_wall_ms(), &who), 0);
    assert_string_equal(who.key, row.id);
    assert_int_equal(keys_rotate(place->index, "0123456789abcdef", 0, third, &err), -ENOENT);
    assert_ptr_equal(err.code, ERROR_KEY_NOT_FOUND);
}

/* Who was let in with a text of it is let in again as long as that text is good. */
static void test_checked_again(void **state)
{
    struct place *place = *state;
    uint64_t now = clock_wall_ms();
    struct principal old, new, none = {.key = "0123456789abcdef"};
    char first[KEY_TEXT_MAX], second[KEY_TEXT_MAX], third[KEY_TEXT_MAX];
    struct key_row row = add(place, "acme", SCOPE_ALL, now + 7200000, first);
    struct error err = {0};

    assert_int_equal(check_at(place, first, now, &old), 0);
    assert_int_equal(old.until_ms, now + 7200000);
    assert_true(keys_check_again(place->index, now, &old));
    assert_false(keys_check_again(place->index, now + 7200000, &old));
    assert_int_equal(keys_rotate(place->index, row.id, 3600000, second, &err), 0);
    assert_int_equal(check_at(place, second, now, &new), 0);
    assert_true(keys_check_again(place->index, now, &old));
    assert_in_range(old.until_ms, now + 3600000, now + 3600000 + 60000);
    assert_false(keys_check_again(place->index, old.until_ms, &old));
    assert_true(keys_check_again(place->index, old.until_ms, &new));
    assert_int_equal(keys_rotate(place->index, row.id, 0, third, &err), 0);
    assert_false(keys_check_again(place->index, now, &old));
    assert_false(keys_check_again(place->index, now, &new));
    assert_int_equal(check_at(place, third, now, &new), 0);
    assert_int_equal(keys_remove(place->index, row.id, &err), 0);
    assert_false(keys_check_again(place->index, now, &new));
    assert_false(keys_check_again(place->index, now, &none));
}

static void add_id(void *ctx, const struct key_row *row)
{
    char *text = ctx;
    size_t length = strlen(text);

    snprintf(text + length, 256 - length, "%s/%s ", row->tenant, row->name);
}

static void test_list_and_removal(void **state)
{
    struct place *place = *state;
    char text[KEY_TEXT_MAX], other[KEY_TEXT_MAX], list[256] = "";
    struct key_row row = add(place, "one", SCOPE_ALL, 0, text);
    struct error err = {0};

    add(place, "two", SCOPE_ALL, 0, other);
    assert_int_equal(keys_remove(place->index, row.id, &err), 0);
    assert_int_equal(check(place, text), -EACCES);
    assert_int_equal(check(place, other), 0);
    assert_int_equal(keys_remove(place->index, row.id, &err), -ENOENT);
    assert_ptr_equal(err.code, ERROR_KEY_NOT_FOUND);
    assert_int_equal(keys_each(place->index, add_id, list, &err), 0);
    assert_string_equal(list, "two/a name ");
}

static void remember_use(void *ctx, const struct key_row *row)
{
    *(uint64_t *)ctx = row->used_ms;
}

static void test_last_use(void **state)
{
    struct place *place = *state;
    struct principal who;
    char text[KEY_TEXT_MAX];
    uint64_t used = NEVER, before = clock_wall_ms(), now;

    add(place, "acme", SCOPE_ALL, 0, text);
    assert_int_equal(keys_each(place->index, remember_use, &used, NULL), 0);
    assert_int_equal(used, 0);
    now = clock_wall_ms();
    assert_int_equal(check_at(place, text, now, &who), 0);
    assert_int_equal(keys_each(place->index, remember_use, &used, NULL), 0);
    assert_in_range(used, before, now); /* not before it was there */
    now += 600000;
    assert_int_equal(check_at(place, text, now, &who), 0);
    assert_int_equal(keys_each(place->index, remember_use, &used, NULL), 0);
    assert_int_equal(used, now - now % 60000); /* to the minute */
}

static bool file_has(struct place *place, const char *name, const char *text)
{
    char path[600];
    struct stat status;
    char *data;
    bool is_there;
    int fd;

    snprintf(path, sizeof(path), "%s/%s", place->scratch.path, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    assert_int_equal(fstat(fd, &status), 0);
    data = malloc((size_t)status.st_size + 1);
    assert_non_null(data);
    assert_int_equal(read(fd, data, (size_t)status.st_size), status.st_size);
    is_there = memmem(data, (size_t)status.st_size, text, strlen(text));
    free(data);
    close(fd);
    return is_there;
}

static void test_no_secret_on_disk(void **state)
{
    struct place *place = *state;
    char text[KEY_TEXT_MAX];
    struct key_row row = add(place, "acme", SCOPE_ALL, 0, text);

    index_close(place->index);
    place->index = NULL;
    assert_true(file_has(place, "index.db", row.id) || file_has(place, "index.db-wal", row.id));
    assert_false(file_has(place, "index.db", strchr(text, '.') + 1));
    assert_false(file_has(place, "index.db-wal", strchr(text, '.') + 1));
    open_index(place);
}

/* ---- a file of version 2 ---- */

/* As version 2 made it: what the migration has to find. */
static const char version_2[] =
    "PRAGMA application_id = 0x424c5931; PRAGMA user_version = 2;"
    "CREATE TABLE session (id TEXT PRIMARY KEY NOT NULL, name TEXT, env TEXT NOT NULL,"
    " created_ms INTEGER NOT NULL, used_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL,"
    " idle_ms INTEGER NOT NULL, next_execution INTEGER NOT NULL, has_box INTEGER NOT NULL,"
    " ended_ms INTEGER NOT NULL, reason TEXT, template TEXT);"
    "CREATE INDEX session_by_age ON session (created_ms, id);"
    "CREATE INDEX session_by_end ON session (ended_ms, created_ms) WHERE ended_ms <> 0;"
    "CREATE TABLE execution (session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,"
    " number INTEGER NOT NULL, call INTEGER NOT NULL, argv TEXT NOT NULL,"
    " started_ms INTEGER NOT NULL, deadline_ms INTEGER NOT NULL, flags INTEGER NOT NULL,"
    " ended_ms INTEGER NOT NULL, exit_code INTEGER NOT NULL, signal INTEGER NOT NULL,"
    " duration_ns INTEGER NOT NULL, out_bytes INTEGER NOT NULL, err_bytes INTEGER NOT NULL,"
    " error_code TEXT, error_text TEXT, cpu_us INTEGER NOT NULL, max_rss_bytes INTEGER NOT NULL,"
    " event_bytes INTEGER NOT NULL DEFAULT 0, cell TEXT, out_data BLOB, err_data BLOB,"
    " event_data BLOB, PRIMARY KEY (session, number));"
    "CREATE TABLE file (session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,"
    " kind INTEGER NOT NULL, name TEXT NOT NULL, bytes INTEGER NOT NULL, time_ns INTEGER NOT NULL,"
    " type TEXT, is_fetched INTEGER NOT NULL, PRIMARY KEY (session, kind, name));"
    "CREATE TABLE context (session TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,"
    " number INTEGER NOT NULL, language TEXT NOT NULL, name TEXT, cwd TEXT,"
    " is_default INTEGER NOT NULL, kernel INTEGER NOT NULL, warm INTEGER NOT NULL,"
    " cells INTEGER NOT NULL, started_ms INTEGER NOT NULL, used_ms INTEGER NOT NULL, note TEXT,"
    " PRIMARY KEY (session, number)) WITHOUT ROWID;"
    "INSERT INTO session VALUES ('s_old', 'mine', '{}', 5, 6, 7, 8, 9, 1, 0, NULL, 'data');"
    "INSERT INTO execution VALUES ('s_old', 3, 4, '[\"ls\"]', 10, 0, 0, 11, 0, 0, 12, 2, 0, NULL,"
    " NULL, 13, 14, 0, NULL, x'6869', NULL, NULL);";

static void make_version_2(struct place *place)
{
    char path[600], *why = NULL;
    sqlite3 *sql;

    snprintf(path, sizeof(path), "%s/index.db", place->scratch.path);
    assert_int_equal(sqlite3_open(path, &sql), SQLITE_OK);
    if (sqlite3_exec(sql, version_2, NULL, NULL, &why) != SQLITE_OK)
        fail_msg("%s", why);
    assert_int_equal(sqlite3_close(sql), SQLITE_OK);
}

static void look_at_session(void *ctx, const struct index_session *session)
{
    ++*(int *)ctx;
    assert_string_equal(session->id, "s_old");
    assert_string_equal(session->name, "mine");
    assert_string_equal(session->template_name, "data");
    assert_string_equal(session->tenant, TENANT_LOCAL);
    assert_int_equal(session->next_execution, 9);
}

static void test_migration(void **state)
{
    struct place *place = *state;
    char text[KEY_TEXT_MAX], data[8] = "";
    int count = 0;

    make_version_2(place);
    open_index(place);
    assert_int_equal(index_each_session(place->index, look_at_session, &count, NULL), 0);
    assert_int_equal(count, 1);
    assert_int_equal(index_read_output(place->index, "s_old", 3, 1, 0, data, sizeof(data)), 2);
    assert_string_equal(data, "hi");
    add(place, "acme", SCOPE_ALL, 0, text);
    assert_int_equal(check(place, text), 0);
    index_close(place->index);
    open_index(place); /* once is enough */
    assert_int_equal(check(place, text), 0);
    assert_int_equal(index_each_session(place->index, look_at_session, &count, NULL), 0);
    assert_int_equal(count, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, place_open, place_remove)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_good),
        TEST(test_bad),
        TEST(test_expiry),
        TEST(test_rotation),
        TEST(test_checked_again),
        TEST(test_list_and_removal),
        TEST(test_last_use),
        TEST(test_no_secret_on_disk),
        cmocka_unit_test_setup_teardown(test_migration, place_make, place_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
