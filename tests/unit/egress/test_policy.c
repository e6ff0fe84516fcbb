/* test_policy.c - the lists: read, matched, and what a listed name may stand for. */
#include "unit.h"

#include <string.h>

#include "base/cleanup.h"
#include "egress/policy.h"

#define LIST(text) "{\"policies\": {\"installer\": [" text "]}, \"upstream\": null}"

#define BAD_AUTHORIZATION                                              \
    "{\"policies\": {}, \"upstream\": {\"host\": \"a\", \"port\": 1, " \
    "\"authorization\": \"\\n\"}}"

static struct egress_settings settings;

static const struct policy *read_list(const char *text)
{
    struct error err = {0};

    egress_settings_free(&settings);
    if (egress_settings_read(text, strlen(text), &settings, &err) < 0)
        fail_msg("%s", err.text);
    return &settings.policies[EGRESS_INSTALLER];
}

static const char *match(const struct policy *policy, const char *text, uint16_t port)
{
    const char *reason;
    struct host host;

    assert_int_equal(host_parse(text, strlen(text), &host), 0);
    return policy_match(policy, &host, port, &reason) ? "listed" : reason;
}

static const char *refuses(const struct policy *policy, size_t entry, const char *text,
                           uint16_t port, bool is_own)
{
    struct host host;
    const char *reason;

    assert_int_equal(host_parse(text, strlen(text), &host), 0);
    reason = policy_refuses(policy, &policy->entries[entry], &host.address, port, is_own);
    return reason ? reason : "fine";
}

static void test_matches(void **state)
{
    const struct policy *policy = read_list(
        LIST("{\"host\": \"PyPI.org\", \"port\": 443}, {\"host\": \"*.a.test\", \"port\": 0},"
             "{\"host\": \"10.0.0.5\", \"port\": 80}, {\"host\": \"fd00::1\", \"port\": 0}"));

    (void)state;
    assert_string_equal(match(policy, "pypi.org", 443), "listed");
    assert_string_equal(match(policy, "pypi.org", 80), "port_not_listed");
    assert_string_equal(match(policy, "a.pypi.org", 443), "not_listed");
    assert_string_equal(match(policy, "xpypi.org", 443), "not_listed");
    assert_string_equal(match(policy, "a.test", 1), "not_listed");
    assert_string_equal(match(policy, "b.a.test", 1), "listed");
    assert_string_equal(match(policy, "c.b.a.test", 1), "listed");
    assert_string_equal(match(policy, "ba.test", 1), "not_listed");
    assert_string_equal(match(policy, "10.0.0.5", 80), "listed");
    assert_string_equal(match(policy, "0xa000005", 80), "listed");
    assert_string_equal(match(policy, "10.0.0.6", 80), "not_listed");
    assert_string_equal(match(policy, "[fd00::1]", 9), "listed");
}

static void test_addresses_of_names(void **state)
{
    const struct policy *policy = read_list(
        LIST("{\"host\": \"public.test\", \"port\": 0},"
             "{\"host\": \"private.test\", \"port\": 0, \"private\": true},"
             "{\"host\": \"localhost\", \"port\": 0}, {\"host\": \"10.0.0.5\", \"port\": 80}"));

    (void)state;
    assert_string_equal(refuses(policy, 0, "8.8.8.8", 80, false), "fine");
    assert_string_equal(refuses(policy, 0, "8.8.8.8", 80, true), "own_address");
    assert_string_equal(refuses(policy, 1, "8.8.8.8", 80, true), "fine");
    assert_string_equal(refuses(policy, 0, "10.0.0.5", 80, false), "fine");
    assert_string_equal(refuses(policy, 0, "10.0.0.5", 81, false), "private_address");
    assert_string_equal(refuses(policy, 0, "10.0.0.6", 80, false), "private_address");
    assert_string_equal(refuses(policy, 1, "10.0.0.6", 80, false), "fine");
    assert_string_equal(refuses(policy, 1, "127.0.0.1", 80, true), "loopback_address");
    assert_string_equal(refuses(policy, 1, "169.254.169.254", 80, false), "metadata_address");
    assert_string_equal(refuses(policy, 1, "169.254.0.1", 80, false), "link_local_address");
    assert_string_equal(refuses(policy, 2, "127.0.0.1", 80, true), "fine");
    assert_string_equal(refuses(policy, 2, "10.0.0.6", 80, false), "private_address");
    assert_string_equal(refuses(policy, 3, "10.0.0.5", 80, true), "fine");
}

static void test_upstream_and_patience(void **state)
{
    (void)state;
    read_list("{\"policies\": {}, \"upstream\": {\"host\": \"p.test\", \"port\": 3128, "
              "\"authorization\": \"Basic eA==\"}, \"patience_ms\": {\"head\": 7}}");
    assert_true(settings.upstream.is_set);
    assert_string_equal(settings.upstream.host.name, "p.test");
    assert_string_equal(settings.upstream.authorization, "Basic eA==");
    assert_int_equal(settings.patience.head_ms, 7);
    assert_int_equal(settings.patience.idle_ms, 300000);
}

static void test_malformed(void **state)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{\"policies\": []}",
        LIST("1"),
        LIST("{}"),
        LIST("{\"host\": \"a\"}"),
        LIST("{\"host\": \"a\", \"port\": 65536}"),
        LIST("{\"host\": \"a\", \"port\": -1}"),
        LIST("{\"host\": \"a b\", \"port\": 1}"),
        LIST("{\"host\": \"*.1.2.3.4\", \"port\": 1}"),
        LIST("{\"host\": \"*\", \"port\": 1}"),
        "{\"policies\": {}, \"upstream\": {\"host\": \"a\"}}",
        (BAD_AUTHORIZATION),
        "{\"policies\": {}, \"patience_ms\": {\"head\": 0}}",
        "{\"policies\": {}, \"policies\": {}}",
    };
    struct egress_settings other;
    struct error err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        err = (struct error){0};
        assert_int_equal(egress_settings_read(bad[i], strlen(bad[i]), &other, &err), -22);
        assert_non_null(strstr(err.text, "egress"));
    }
}

static int teardown(void **state)
{
    (void)state;
    egress_settings_free(&settings);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matches),
        cmocka_unit_test(test_addresses_of_names),
        cmocka_unit_test(test_upstream_and_patience),
        cmocka_unit_test(test_malformed),
    };

    return cmocka_run_group_tests(tests, NULL, teardown);
}
