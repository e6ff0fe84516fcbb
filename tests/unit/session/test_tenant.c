/* test_tenant.c - quotas: taken, given back, refused with their name; tenants apart. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/limits.h"
#include "base/str.h"
#include "config/config.h"
#include "session/tenant.h"

static struct tenants *make(const struct config *config)
{
    struct tenants *tenants = tenants_new(config);

    assert_non_null(tenants);
    return tenants;
}

static int take(struct tenants *tenants, const char *name, enum quota quota, uint64_t amount)
{
    struct error err = {0};
    int r = tenant_take(tenants, name, quota, amount, &err);

    if (r < 0) {
        char quoted[40];

        assert_int_equal(r, -EDQUOT);
        assert_ptr_equal(err.code, ERROR_QUOTA);
        assert_string_equal(err.quota, quota_name(quota));
        assert_true(err.retry_s >= 1);
        snprintf(quoted, sizeof(quoted), "'%s'", quota_name(quota));
        assert_non_null(strstr(err.text, quoted));
        assert_non_null(strstr(err.text, "SANDBOX_QUOTA_"));
    }
    return r;
}

static void test_names(void **state)
{
    static const char *const names[] = {"sessions", "runs",     "cpu",  "memory",
                                        "disk",     "requests", "bytes"};

    (void)state;
    for (int i = 0; i < _QUOTA_MAX; i++)
        assert_string_equal(quota_name((enum quota)i), names[i]);
    assert_string_equal(quota_name(_QUOTA_MAX), "unknown");
}

static void test_held(void **state)
{
    struct config config = {.quota = {.sessions = 2, .memory_bytes = 100}};
    struct tenants *tenants = make(&config);

    (void)state;
    assert_int_equal(take(tenants, "a", QUOTA_SESSIONS, 1), 0);
    assert_int_equal(take(tenants, "a", QUOTA_SESSIONS, 1), 0);
    assert_int_equal(take(tenants, "a", QUOTA_SESSIONS, 1), -EDQUOT);
    assert_int_equal(tenant_held(tenants, "a", QUOTA_SESSIONS), 2);
    assert_int_equal(take(tenants, "b", QUOTA_SESSIONS, 1), 0); /* another one's is another one's */
    tenant_give(tenants, "a", QUOTA_SESSIONS, 1);
    assert_int_equal(take(tenants, "a", QUOTA_SESSIONS, 1), 0);
    /* More than all of it, and numbers that would wrap. */
    assert_int_equal(take(tenants, "a", QUOTA_MEMORY, 101), -EDQUOT);
    assert_int_equal(take(tenants, "a", QUOTA_MEMORY, UINT64_MAX), -EDQUOT);
    assert_int_equal(take(tenants, "a", QUOTA_MEMORY, 60), 0);
    assert_int_equal(take(tenants, "a", QUOTA_MEMORY, 41), -EDQUOT);
    assert_int_equal(take(tenants, "a", QUOTA_MEMORY, 40), 0);
    tenant_give(tenants, "a", QUOTA_MEMORY, 1000); /* never below nothing */
    assert_int_equal(tenant_held(tenants, "a", QUOTA_MEMORY), 0);
    assert_int_equal(tenant_held(tenants, "nobody", QUOTA_MEMORY), 0);
    tenants_free(tenants);
}

static void test_no_limit(void **state)
{
    struct config config = {0};
    struct tenants *tenants = make(&config);

    (void)state;
    for (int i = 0; i < 1000; i++) {
        for (int quota = 0; quota < _QUOTA_MAX; quota++)
            assert_int_equal(take(tenants, "a", (enum quota)quota, 1), 0);
    }
    assert_int_equal(tenant_held(tenants, "a", QUOTA_RUNS), 1000);
    tenants_free(tenants);
}

static void test_local_has_none(void **state)
{
    struct config config = {.quota = {1, 1, 1, 1, 1, 1, 1}};
    struct tenants *tenants = make(&config);

    (void)state;
    for (int i = 0; i < 100; i++) {
        for (int quota = 0; quota < _QUOTA_MAX; quota++)
            assert_int_equal(take(tenants, TENANT_LOCAL, (enum quota)quota, 10), 0);
    }
    tenants_free(tenants);
}

static void test_adopted(void **state)
{
    struct config config = {.quota = {.runs = 1}};
    struct tenants *tenants = make(&config);

    (void)state;
    tenant_hold(tenants, "a", QUOTA_RUNS, 1);
    tenant_hold(tenants, "a", QUOTA_RUNS, 1); /* what runs is not refused */
    assert_int_equal(take(tenants, "a", QUOTA_RUNS, 1), -EDQUOT);
    tenant_give(tenants, "a", QUOTA_RUNS, 1);
    assert_int_equal(take(tenants, "a", QUOTA_RUNS, 1), -EDQUOT);
    tenant_give(tenants, "a", QUOTA_RUNS, 1);
    assert_int_equal(take(tenants, "a", QUOTA_RUNS, 1), 0);
    tenants_free(tenants);
}

/* What is kept is said anew each time, and counts beside what sessions hold. */
static void test_kept(void **state)
{
    struct config config = {.quota = {.disk_bytes = 100}};
    struct tenants *tenants = make(&config);

    (void)state;
    assert_false(tenant_keeps(tenants, "a"));
    assert_int_equal(take(tenants, "a", QUOTA_DISK, 30), 0);
    tenant_keep(tenants, "a", 60);
    tenant_keep(tenants, "a", 60);
    assert_true(tenant_keeps(tenants, "a"));
    assert_false(tenant_keeps(tenants, "b"));
    assert_int_equal(tenant_held(tenants, "a", QUOTA_DISK), 90);
    assert_int_equal(take(tenants, "a", QUOTA_DISK, 11), -EDQUOT);
    tenant_keep(tenants, "a", 20);
    assert_int_equal(take(tenants, "a", QUOTA_DISK, 50), 0);
    tenant_keep(tenants, "a", 0);
    assert_int_equal(tenant_held(tenants, "a", QUOTA_DISK), 80);
    tenants_free(tenants);
}

static void test_hour(void **state)
{
    struct config config = {.quota = {.cpu_seconds = 2, .bytes = 1000}};
    struct tenants *tenants = make(&config);
    struct error err = {0};

    (void)state;
    tenant_used(tenants, "a", QUOTA_CPU, 1999999);
    assert_int_equal(take(tenants, "a", QUOTA_CPU, 0), 0);
    tenant_used(tenants, "a", QUOTA_CPU, 1);
    assert_int_equal(tenant_take(tenants, "a", QUOTA_CPU, 0, &err), -EDQUOT);
    assert_non_null(strstr(err.text, "(2 in an hour)"));
    assert_true(err.retry_s > 60 && err.retry_s <= 3600);
    tenant_used(tenants, "a", QUOTA_BYTES, 1000);
    assert_int_equal(take(tenants, "a", QUOTA_BYTES, 0), -EDQUOT);
    assert_int_equal(take(tenants, "b", QUOTA_BYTES, 0), 0);
    tenants_free(tenants);
}

static void test_requests(void **state)
{
    struct config config = {.quota = {.requests = 1}};
    struct tenants *tenants = make(&config);
    int count = 0;

    (void)state;
    while (tenant_take(tenants, "a", QUOTA_REQUESTS, 1, NULL) == 0)
        count++;
    assert_true(count >= 10); /* the burst, and what came meanwhile */
    assert_true(count < 1000);
    assert_int_equal(take(tenants, "b", QUOTA_REQUESTS, 1), 0);
    tenants_free(tenants);
}

static void test_configured_anew(void **state)
{
    struct config config = {.quota = {.sessions = 1}};
    struct tenants *tenants = make(&config);

    (void)state;
    assert_int_equal(take(tenants, "a", QUOTA_SESSIONS, 1), 0);
    assert_int_equal(take(tenants, "a", QUOTA_SESSIONS, 1), -EDQUOT);
    config.quota.sessions = 2;
    tenants_configure(tenants, &config);
    assert_int_equal(take(tenants, "a", QUOTA_SESSIONS, 1), 0);
    config.quota.sessions = 1; /* what is held stays */
    tenants_configure(tenants, &config);
    tenant_give(tenants, "a", QUOTA_SESSIONS, 1);
    assert_int_equal(take(tenants, "a", QUOTA_SESSIONS, 1), -EDQUOT);
    tenants_free(tenants);
}

/* Too many names share one tenant's quota: nobody gets more by inventing them. */
static void test_crowd(void **state)
{
    struct config config = {.quota = {.sessions = 1}};
    struct tenants *tenants = make(&config);
    char name[TENANT_MAX];

    (void)state;
    for (int i = 0; i < LIMIT_TENANTS; i++) {
        str_format(name, sizeof(name), "t%d", i);
        assert_int_equal(take(tenants, name, QUOTA_SESSIONS, 1), 0);
    }
    assert_int_equal(take(tenants, "one-more", QUOTA_SESSIONS, 1), 0);
    assert_int_equal(take(tenants, "another", QUOTA_SESSIONS, 1), -EDQUOT);
    tenant_give(tenants, "one-more", QUOTA_SESSIONS, 1);
    assert_int_equal(take(tenants, "another", QUOTA_SESSIONS, 1), 0);
    tenants_free(tenants);
}

/* Issue 15 F: one call of another tenant slowed everybody for 30 s after it had ended. */
static void test_others_work(void **state)
{
    struct config config = {0};
    struct tenants *tenants = make(&config);

    (void)state;
    tenant_works(tenants, "a");
    tenant_works(tenants, "a"); /* however much it does itself */
    assert_false(tenants_others_work(tenants, "a"));
    assert_true(tenants_others_work(tenants, "b")); /* which nothing is known of */
    tenant_works(tenants, "b");
    tenant_works(tenants, "b");
    assert_true(tenants_others_work(tenants, "a"));
    tenant_rests(tenants, "b");
    assert_true(tenants_others_work(tenants, "a"));
    tenant_rests(tenants, "b");
    assert_false(tenants_others_work(tenants, "a"));
    tenant_rests(tenants, "b"); /* it had nothing: nothing is counted below zero */
    tenant_works(tenants, "b");
    assert_true(tenants_others_work(tenants, "a"));
    tenants_free(tenants);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_held),
        cmocka_unit_test(test_no_limit),
        cmocka_unit_test(test_local_has_none),
        cmocka_unit_test(test_adopted),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_hour),
        cmocka_unit_test(test_requests),
        cmocka_unit_test(test_configured_anew),
        cmocka_unit_test(test_crowd),
        cmocka_unit_test(test_others_work),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
