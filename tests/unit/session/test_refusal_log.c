/*
 * test_refusal_log.c - refusals in the audit: each has its line, and a flood of them has one with
 * its number, which takes no line from anybody else.
 */
#include "engine_fixture.h"

#include <jansson.h>

#include "base/cleanup.h"
#include "observe/audit.h"
#include "observe/metrics.h"
#include "session/refusal_log.h"

static const struct error quota = {.num = -EDQUOT, .code = ERROR_QUOTA, .quota = "requests"};
static const struct error stranger = {.num = -EACCES, .code = ERROR_UNAUTHORIZED};

static void deny(struct engine_fixture *fixture, const char *tenant, const struct error *err,
                 unsigned times)
{
    struct caller caller = {.request = "req-1"};

    str_copy(caller.who.tenant, sizeof(caller.who.tenant), tenant);
    for (unsigned i = 0; i < times; i++)
        refusal_log_add(fixture->manager,
                        &(struct refusal){.caller = &caller, .err = err, .path = "/v1"});
}

/* Lines of their own that a tenant has ("": nobody's), and how many are told together. */
static unsigned lines_of(struct engine_fixture *fixture, const char *tenant, unsigned *more)
{
    static char text[1 << 20];
    unsigned count = 0;

    *more = 0;
    assert_true(
        scratch_read(scratch_path(&fixture->scratch, "logs/audit.jsonl"), text, sizeof(text)));
    for (const char *at = text, *end; (end = strchr(at, '\n')); at = end + 1) {
        CLEANUP(json_decrefp) json_t *line = json_loadb(at, (size_t)(end - at), 0, NULL);
        const char *whose = json_string_value(json_object_get(line, "tenant"));
        json_t *rest = json_object_get(line, "more");

        assert_string_equal(json_string_value(json_object_get(line, "action")), "denied");
        if (!str_equal(whose ? whose : "", tenant))
            continue;
        if (rest)
            *more += (unsigned)json_integer_value(rest);
        else
            count++;
    }
    return count;
}

static void test_each_has_its_line(void **state)
{
    struct engine_fixture *fixture = *state;
    unsigned more;

    deny(fixture, "acme", &quota, 3);
    deny(fixture, "", &stranger, 2);
    assert_int_equal(lines_of(fixture, "acme", &more), 3);
    assert_int_equal(more, 0);
    assert_int_equal(lines_of(fixture, "", &more), 2);
    assert_int_equal(more, 0);
}

static void test_a_flood_is_told_together(void **state)
{
    struct engine_fixture *fixture = *state;
    unsigned more;

    deny(fixture, "", &stranger, LIMIT_REFUSAL_LINES + 7);
    deny(fixture, "acme", &quota, 1);
    assert_int_equal(lines_of(fixture, "", &more), LIMIT_REFUSAL_LINES);
    assert_int_equal(more, 0); /* the minute is not over */
    assert_int_equal(lines_of(fixture, "acme", &more), 1);
    refusal_log_stop(fixture->manager); /* nor will it be: then it is told now */
    assert_int_equal(lines_of(fixture, "", &more), LIMIT_REFUSAL_LINES);
    assert_int_equal(more, 7);
}

static void test_many_tenants(void **state)
{
    struct engine_fixture *fixture = *state;
    char tenant[16];
    unsigned more;

    for (int i = 0; i < 200; i++) {
        str_format(tenant, sizeof(tenant), "t%d", i);
        deny(fixture, tenant, &quota, 1);
        assert_int_equal(lines_of(fixture, tenant, &more), 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_has_its_line, fixture_open_observed,
                                        fixture_close_observed),
        cmocka_unit_test_setup_teardown(test_a_flood_is_told_together, fixture_open_observed,
                                        fixture_close_observed),
        cmocka_unit_test_setup_teardown(test_many_tenants, fixture_open_observed,
                                        fixture_close_observed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
