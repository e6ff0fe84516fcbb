/* test_isolation.c - levels that layers add up to, what is lacking, names. */
#include "unit.h"

#include <string.h>

#include "base/isolation.h"
#include "base/str.h"

#define WALLS                                                                                     \
    (ISOLATION_LAYER_BIT(ISOLATION_LAYER_USERNS) | ISOLATION_LAYER_BIT(ISOLATION_LAYER_MOUNTNS) | \
     ISOLATION_LAYER_BIT(ISOLATION_LAYER_PIDNS) | ISOLATION_LAYER_BIT(ISOLATION_LAYER_NETNS))
#define SECCOMP ISOLATION_LAYER_BIT(ISOLATION_LAYER_SECCOMP)
#define LANDLOCK ISOLATION_LAYER_BIT(ISOLATION_LAYER_LANDLOCK)
#define PROC ISOLATION_LAYER_BIT(ISOLATION_LAYER_PROC)
#define OVERLAY ISOLATION_LAYER_BIT(ISOLATION_LAYER_OVERLAY)

static void the_table_is_whole(void **state)
{
    (void)state;
    for (int i = 0; i < _ISOLATION_LAYER_MAX; i++) {
        assert_true(strlen(isolation_layer_table[i].name) > 0);
        assert_true(strlen(isolation_layer_table[i].what) > 0);
        assert_true(strlen(isolation_layer_table[i].remedy) > 0);
        assert_int_equal(isolation_layer_table[i].strict,
                         i != ISOLATION_LAYER_PROC && i != ISOLATION_LAYER_OVERLAY);
        for (int j = 0; j < i; j++)
            assert_false(str_equal(isolation_layer_table[i].name, isolation_layer_table[j].name));
    }
}

static void names_both_ways(void **state)
{
    (void)state;
    assert_string_equal(isolation_name(ISOLATION_PROCESS), "process");
    assert_string_equal(isolation_name(ISOLATION_STANDARD), "standard");
    assert_string_equal(isolation_name(ISOLATION_STRICT), "strict");
    assert_string_equal(isolation_name(_ISOLATION_INVALID), "invalid");
    assert_string_equal(isolation_name(_ISOLATION_MAX), "invalid");
    for (int i = 0; i < _ISOLATION_MAX; i++)
        assert_int_equal(isolation_from_name(isolation_name((enum isolation)i)), i);
    assert_int_equal(isolation_from_name("Strict"), _ISOLATION_INVALID);
    assert_int_equal(isolation_from_name(""), _ISOLATION_INVALID);
    assert_int_equal(isolation_from_name(NULL), _ISOLATION_INVALID);
}

static void strict_needs_every_strict_layer(void **state)
{
    (void)state;
    assert_int_equal(isolation_of_layers(ISOLATION_LAYER_ALL), ISOLATION_STRICT);
    assert_int_equal(isolation_of_layers(ISOLATION_LAYER_ALL & ~PROC), ISOLATION_STRICT);
    for (int i = 0; i < _ISOLATION_LAYER_MAX; i++) {
        if (isolation_layer_table[i].strict)
            assert_true(isolation_of_layers(ISOLATION_LAYER_ALL & ~ISOLATION_LAYER_BIT(i)) <
                        ISOLATION_STRICT);
    }
}

static void standard_needs_seccomp_and_a_wall(void **state)
{
    (void)state;
    assert_int_equal(isolation_of_layers(SECCOMP | LANDLOCK), ISOLATION_STANDARD);
    assert_int_equal(isolation_of_layers(SECCOMP | WALLS), ISOLATION_STANDARD);
    assert_int_equal(isolation_of_layers(ISOLATION_LAYER_ALL & ~LANDLOCK), ISOLATION_STANDARD);
    assert_int_equal(isolation_of_layers(ISOLATION_LAYER_ALL & ~SECCOMP), ISOLATION_PROCESS);
    assert_int_equal(isolation_of_layers(SECCOMP), ISOLATION_PROCESS);
    assert_int_equal(isolation_of_layers(LANDLOCK), ISOLATION_PROCESS);
    assert_int_equal(isolation_of_layers(WALLS), ISOLATION_PROCESS);
    assert_int_equal(isolation_of_layers(0), ISOLATION_PROCESS);
    for (int i = 0; i < _ISOLATION_LAYER_MAX; i++) {
        if (WALLS & ISOLATION_LAYER_BIT(i))
            assert_int_equal(isolation_of_layers((SECCOMP | WALLS) & ~ISOLATION_LAYER_BIT(i)),
                             ISOLATION_PROCESS);
    }
}

static void lacking_is_what_would_help(void **state)
{
    (void)state;
    assert_int_equal(isolation_lacking(0, ISOLATION_PROCESS), 0);
    assert_int_equal(isolation_lacking(SECCOMP | LANDLOCK, ISOLATION_STANDARD), 0);
    assert_int_equal(isolation_lacking(ISOLATION_LAYER_ALL & ~PROC, ISOLATION_STRICT), 0);
    assert_int_equal(isolation_lacking(ISOLATION_LAYER_ALL & ~LANDLOCK, ISOLATION_STRICT),
                     LANDLOCK);
    assert_int_equal(isolation_lacking(LANDLOCK, ISOLATION_STANDARD), SECCOMP);
    assert_int_equal(isolation_lacking(WALLS, ISOLATION_STANDARD), SECCOMP);
    assert_int_equal(isolation_lacking(SECCOMP, ISOLATION_STANDARD), WALLS | LANDLOCK);
    assert_int_equal(
        isolation_lacking((SECCOMP | WALLS) & ~ISOLATION_LAYER_BIT(ISOLATION_LAYER_NETNS),
                          ISOLATION_STANDARD),
        ISOLATION_LAYER_BIT(ISOLATION_LAYER_NETNS) | LANDLOCK);
    assert_int_equal(isolation_lacking(0, ISOLATION_STRICT),
                     ISOLATION_LAYER_ALL & ~PROC & ~OVERLAY);
}

/* For every mask: nothing is lacking exactly when the level is reached, and all of it reaches it.
 */
static void lacking_agrees_with_the_level(void **state)
{
    (void)state;
    for (uint32_t mask = 0; mask <= ISOLATION_LAYER_ALL; mask++) {
        for (int i = 0; i < _ISOLATION_MAX; i++) {
            enum isolation wanted = (enum isolation)i;
            uint32_t lacking = isolation_lacking(mask, wanted);

            if ((lacking == 0) != (isolation_of_layers(mask) >= wanted) || (lacking & mask) ||
                isolation_of_layers(mask | lacking) < wanted)
                fail_msg("mask %x, level %s, lacking %x", mask, isolation_name(wanted), lacking);
        }
    }
}

static void lists_names_in_order(void **state)
{
    char text[256], small[12];

    (void)state;
    isolation_layer_list(ISOLATION_LAYER_BIT(ISOLATION_LAYER_CGROUP) | LANDLOCK, text,
                         sizeof(text));
    assert_string_equal(text, "landlock, cgroup");
    isolation_layer_list(0, text, sizeof(text));
    assert_string_equal(text, "");
    isolation_layer_list(ISOLATION_LAYER_ALL, text, sizeof(text));
    assert_string_equal(text, "userns, mountns, pidns, netns, ipcns, utsns, cgroupns, seccomp, "
                              "landlock, cgroup, no_new_privs, caps, uid_split, proc, overlay");
    isolation_layer_list(ISOLATION_LAYER_ALL, small, sizeof(small));
    assert_string_equal(small, "userns, mou");
    small[0] = 'x';
    isolation_layer_list(ISOLATION_LAYER_ALL, small, 0);
    assert_int_equal(small[0], 'x');
    isolation_layer_list(ISOLATION_LAYER_ALL, small, 1);
    assert_string_equal(small, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_whole),
        cmocka_unit_test(names_both_ways),
        cmocka_unit_test(strict_needs_every_strict_layer),
        cmocka_unit_test(standard_needs_seccomp_and_a_wall),
        cmocka_unit_test(lacking_is_what_would_help),
        cmocka_unit_test(lacking_agrees_with_the_level),
        cmocka_unit_test(lists_names_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
