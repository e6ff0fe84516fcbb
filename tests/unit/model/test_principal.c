/* test_principal.c - names of scopes and tenants. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "model/principal.h"

static void test_scopes(void **state)
{
    enum scope scope;

    (void)state;
    for (int i = 0; i < _SCOPE_MAX; i++) {
        assert_int_equal(scope_from_name(scope_name((enum scope)i), &scope), 0);
        assert_int_equal(scope, i);
    }
    assert_string_equal(scope_name(SCOPE_ADMIN), "admin");
    assert_string_equal(scope_name(SCOPE_OPERATOR), "operator");
    assert_string_equal(scope_name(_SCOPE_MAX), "unknown");
    assert_int_equal(scope_from_name("root", &scope), -EINVAL);
    assert_int_equal(scope_from_name("", &scope), -EINVAL);
    assert_int_equal(scope_from_name(NULL, &scope), -EINVAL);
    assert_int_equal(SCOPE_ALL, 63);
}

static void test_local(void **state)
{
    (void)state;
    assert_true(principal_local.is_local);
    assert_string_equal(principal_local.tenant, TENANT_LOCAL);
    assert_int_equal(principal_local.scopes, SCOPE_ALL);
    assert_string_equal(principal_local.key, "");
}

static void test_tenants(void **state)
{
    static const char *const good[] = {"a", "acme", "acme-2", "0", "local"};
    static const char *const bad[] = {"", "-a", "A", "a b", "a_b", "a/b", "a.b", "a\n", "\xc3\xa9"};
    char name[TENANT_MAX + 1];

    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
        assert_int_equal(tenant_check(good[i]), 0);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
        assert_int_equal(tenant_check(bad[i]), -EINVAL);
    assert_int_equal(tenant_check(NULL), -EINVAL);
    memset(name, 'a', sizeof(name));
    name[TENANT_MAX - 1] = '\0';
    assert_int_equal(tenant_check(name), 0);
    name[TENANT_MAX - 1] = 'a';
    name[TENANT_MAX] = '\0';
    assert_int_equal(tenant_check(name), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scopes),
        cmocka_unit_test(test_local),
        cmocka_unit_test(test_tenants),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
