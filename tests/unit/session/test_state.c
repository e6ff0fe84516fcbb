/* test_state.c - the table of states: what may follow what, and nothing else. */
#include "unit.h"

#include <string.h>

#include "session/session_private.h"

static void test_every_step(void **state)
{
    static const bool may[_SESSION_STATE_MAX][_SESSION_STATE_MAX] = {
        [SESSION_NEW] =
            {[SESSION_STARTING] = true, [SESSION_PAUSED] = true, [SESSION_ENDING] = true},
        [SESSION_STARTING] =
            {[SESSION_NEW] = true, [SESSION_READY] = true, [SESSION_ENDING] = true},
        [SESSION_READY] = {[SESSION_PAUSING] = true, [SESSION_ENDING] = true},
        [SESSION_PAUSING] =
            {[SESSION_PAUSED] = true, [SESSION_READY] = true, [SESSION_ENDING] = true},
        [SESSION_PAUSED] =
            {[SESSION_RESUMING] = true, [SESSION_NEW] = true, [SESSION_ENDING] = true},
        [SESSION_RESUMING] =
            {[SESSION_READY] = true, [SESSION_PAUSED] = true, [SESSION_ENDING] = true},
        [SESSION_ENDING] = {[SESSION_ENDED] = true},
    };

    (void)state;
    for (int from = 0; from < _SESSION_STATE_MAX; from++) {
        for (int to = 0; to < _SESSION_STATE_MAX; to++) {
            struct session session = {.state = (enum session_state)from, .id = "s_test"};

            session_become(&session, (enum session_state)to);
            assert_int_equal(session_state(&session), may[from][to] ? to : from);
        }
    }
}

static void test_names(void **state)
{
    (void)state;
    for (int i = 0; i < _SESSION_STATE_MAX; i++)
        assert_true(strlen(session_state_name((enum session_state)i)) > 2);
    assert_string_equal(session_state_name(SESSION_READY), "ready");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_step),
        cmocka_unit_test(test_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
