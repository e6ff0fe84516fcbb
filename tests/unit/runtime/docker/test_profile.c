/*
 * test_profile.c - the profile for Docker says of every call what the table of our own filters
 * says: it is read here as Docker and runc read it, and asked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "runtime/docker/profile.h"
#include "sandbox/filter_table.h"

#define ARGUMENTS 6

static int read_profile(void **state)
{
    json_error_t error;

    *state = json_loads(docker_seccomp_profile(), JSON_REJECT_DUPLICATES, &error);
    return *state ? 0 : -1;
}

static int drop_profile(void **state)
{
    json_decref(*state);
    return 0;
}

static const char *text_of(const json_t *object, const char *name)
{
    return json_string_value(json_object_get(object, name));
}

static uint64_t number_of(const json_t *object, const char *name)
{
    assert_true(json_is_integer(json_object_get(object, name)));
    return (uint64_t)json_integer_value(json_object_get(object, name));
}

static bool has_name(const json_t *entry, const char *name)
{
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(entry, "names"), i,
                       one) if (strcmp(json_string_value(one), name) == 0) return true;
    return false;
}

static bool condition_holds(const json_t *condition, const uint64_t args[ARGUMENTS])
{
    uint64_t index = number_of(condition, "index");
    uint64_t value = number_of(condition, "value");

    assert_in_range(index, 0, ARGUMENTS - 1);
    if (strcmp(text_of(condition, "op"), "SCMP_CMP_EQ") == 0)
        return args[index] == value;
    assert_string_equal(text_of(condition, "op"), "SCMP_CMP_MASKED_EQ");
    return (args[index] & value) == number_of(condition, "valueTwo");
}

/* runc makes alternatives of two conditions on one argument: there must be none. */
static bool all_hold(const json_t *conditions, const uint64_t args[ARGUMENTS])
{
    bool seen[ARGUMENTS] = {false}, holds = true;
    json_t *condition;
    size_t i;

    json_array_foreach(conditions, i, condition)
    {
        holds &= condition_holds(condition, args);
        assert_false(seen[number_of(condition, "index")]);
        seen[number_of(condition, "index")] = true;
    }
    return holds;
}

/* 0, or the errno; of several entries one at most may apply, or the order would count. */
static int profile_answer(const json_t *profile, const char *name, const uint64_t args[ARGUMENTS])
{
    int answer = (int)number_of(profile, "defaultErrnoRet");
    unsigned applied = 0;
    json_t *entry;
    size_t i;

    json_array_foreach(json_object_get(profile, "syscalls"), i, entry)
    {
        if (!has_name(entry, name) || !all_hold(json_object_get(entry, "args"), args))
            continue;
        applied++;
        answer = 0;
        if (strcmp(text_of(entry, "action"), "SCMP_ACT_ALLOW") != 0)
            answer = (int)number_of(entry, "errnoRet");
    }
    assert_true(applied <= 1);
    return answer;
}

static int table_answer(const struct filter_row *row, const uint64_t args[ARGUMENTS])
{
    for (const struct filter_rule *rule = row->rules; rule && rule->test != FILTER_TEST_END;
         rule++) {
        uint32_t word = (uint32_t)(args[rule->word / 2] >> (rule->word & 1 ? 32 : 0)) & rule->mask;
        bool is_one = false;

        for (unsigned i = 0; i < rule->count; i++)
            is_one |= word == rule->values[i];
        if (is_one == (rule->test == FILTER_TEST_IS))
            return rule->action;
    }
    return row->action;
}

/* Allowed or not is what counts: which errno is the inner filters' to say. */
static void compare(const json_t *profile, const struct filter_row *row,
                    const uint64_t args[ARGUMENTS])
{
    bool wanted = table_answer(row, args) == FILTER_ALLOW;

    if ((profile_answer(profile, row->name, args) == 0) != wanted)
        fail_msg("%s(%llx, %llx, %llx) should be %s", row->name, (unsigned long long)args[0],
                 (unsigned long long)args[1], (unsigned long long)args[2],
                 wanted ? "allowed" : "denied");
}

/* Around a value that a rule speaks of: itself, and all that differ from it in one bit. */
static void compare_around(const json_t *profile, const struct filter_row *row,
                           uint64_t args[ARGUMENTS], unsigned argument, uint64_t value)
{
    uint64_t before = args[argument];

    for (int bit = -1; bit < 64; bit++) {
        args[argument] = bit < 0 ? value : value ^ (UINT64_C(1) << bit);
        compare(profile, row, args);
    }
    args[argument] = before;
}

/* With the other arguments as another rule lets them pass, so that this one decides. */
static void set_passing(const struct filter_row *row, uint64_t args[ARGUMENTS])
{
    memset(args, 0, ARGUMENTS * sizeof(args[0]));
    for (const struct filter_rule *rule = row->rules; rule && rule->test != FILTER_TEST_END; rule++)
        if (rule->test == FILTER_TEST_IS_NOT)
            args[rule->word / 2] |= (uint64_t)rule->values[0] << (rule->word & 1 ? 32 : 0);
}

static void test_says_what_the_table_says(void **state)
{
    for (size_t i = 0; i < ARRAY_SIZE(filter_table); i++) {
        const struct filter_row *row = &filter_table[i];
        uint64_t args[ARGUMENTS];

        if (!(row->profiles & FILTER_WARDEN))
            continue;
        set_passing(row, args);
        assert_int_equal(table_answer(row, args), row->action);
        assert_int_equal(profile_answer(*state, row->name, args), row->action);
        for (const struct filter_rule *rule = row->rules; rule && rule->test != FILTER_TEST_END;
             rule++)
            for (unsigned j = 0; j < rule->count; j++)
                compare_around(*state, row, args, rule->word / 2,
                               (uint64_t)rule->values[j] << (rule->word & 1 ? 32 : 0));
    }
}

static bool is_in_table(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(filter_table); i++)
        if (filter_table[i].profiles & FILTER_WARDEN && strcmp(filter_table[i].name, name) == 0)
            return true;
    return false;
}

static void test_names_nothing_else(void **state)
{
    static const uint64_t none[ARGUMENTS];
    json_t *entry, *name;
    size_t i, j;

    json_array_foreach(json_object_get(*state, "syscalls"), i, entry)
    {
        const char *action = text_of(entry, "action");

        assert_true(strcmp(action, "SCMP_ACT_ALLOW") == 0 || strcmp(action, "SCMP_ACT_ERRNO") == 0);
        assert_true(json_array_size(json_object_get(entry, "names")) > 0);
        json_array_foreach(json_object_get(entry, "names"), j, name)
            assert_true(is_in_table(json_string_value(name)));
    }
    assert_string_equal(text_of(*state, "defaultAction"), "SCMP_ACT_ERRNO");
    assert_int_equal(profile_answer(*state, "a call of tomorrow", none), FILTER_NOSYS);
}

/* Other calling conventions of a machine are killed, as by our own filters. */
static void test_one_architecture_at_a_time(void **state)
{
    json_t *row;
    size_t i;

    assert_null(json_object_get(*state, "architectures")); /* Docker takes one or the other */
    assert_int_equal(json_array_size(json_object_get(*state, "archMap")), 2);
    json_array_foreach(json_object_get(*state, "archMap"), i, row)
    {
        assert_non_null(text_of(row, "architecture"));
        assert_int_equal(json_array_size(json_object_get(row, "subArchitectures")), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_says_what_the_table_says),
        cmocka_unit_test(test_names_nothing_else),
        cmocka_unit_test(test_one_architecture_at_a_time),
    };

    return cmocka_run_group_tests(tests, read_profile, drop_profile);
}
