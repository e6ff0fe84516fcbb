/* test_freeze.c - FREEZE and THAW: the processes of a box stand still, and go on. */
#include "warden_fixture.h"

#include <stdio.h>

static int done(struct warden_fixture *fixture, uint32_t id)
{
    struct frame frame = take(fixture, FRAME_DONE, id);
    uint32_t number = 1;

    assert_int_equal(message_number_unpack(&frame, &number), 0);
    return (int)number;
}

/* The letter of a process in /proc/PID/stat. */
static char letter(pid_t pid)
{
    char path[64], text[512] = "";
    FILE *file;
    char *at;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "re");
    if (!file)
        return '-';
    at = fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL;
    fclose(file);
    return at ? at[2] : '-';
}

/* Starts a command that writes its pid and that of a child; both wait for nothing that comes. */
static void start_two(struct warden_fixture *fixture, pid_t pids[2], const char *more)
{
    struct ended ended = {0};
    char script[200];

    snprintf(script, sizeof(script), "sleep 1000 & %s echo $$ $!; read line", more);
    start(fixture, 1, EXEC_STDIN, script, "");
    take(fixture, FRAME_STARTED, 1);
    while (!strchr(ended.text[1], '\n')) {
        struct frame frame = take(fixture, FRAME_OUTPUT, 1);

        note_output(fixture, &frame, &ended);
    }
    assert_int_equal(sscanf(ended.text[1], "%d %d", &pids[0], &pids[1]), 2);
}

static void finish_two(struct warden_fixture *fixture)
{
    struct frame frame;

    give_number(fixture, FRAME_SIGNAL, 1, SIGKILL);
    do
        assert_true(take_any(fixture, &frame));
    while (frame.type != FRAME_EXITED);
}

static void test_all_stand_still(void **state)
{
    struct warden_fixture *fixture = *state;
    pid_t pids[2];

    start_two(fixture, pids, "");
    give(fixture, FRAME_FREEZE, 2, NULL, 0);
    assert_int_equal(done(fixture, 2), 0);
    assert_int_equal(letter(pids[0]), 'T');
    assert_int_equal(letter(pids[1]), 'T');
    give(fixture, FRAME_FREEZE, 3, NULL, 0); /* by a host that came later */
    assert_int_equal(done(fixture, 3), 0);
    give(fixture, FRAME_THAW, 4, NULL, 0);
    assert_int_equal(done(fixture, 4), 0);
    assert_int_not_equal(letter(pids[0]), 'T');
    assert_int_not_equal(letter(pids[1]), 'T');
    give(fixture, FRAME_THAW, 5, NULL, 0);
    assert_int_equal(done(fixture, 5), 0);
    finish_two(fixture);
}

static void test_what_was_stopped_stays_so(void **state)
{
    struct warden_fixture *fixture = *state;
    pid_t pids[2];

    start_two(fixture, pids, "kill -STOP $!;");
    while (letter(pids[1]) != 'T') /* the signal is on its way */
        poll(NULL, 0, 1);
    give(fixture, FRAME_FREEZE, 2, NULL, 0);
    assert_int_equal(done(fixture, 2), 0);
    give(fixture, FRAME_THAW, 3, NULL, 0);
    assert_int_equal(done(fixture, 3), 0);
    assert_int_not_equal(letter(pids[0]), 'T');
    assert_int_equal(letter(pids[1]), 'T');
    finish_two(fixture);
}

/* As the kernel does for a timer that a process armed before. */
static void test_what_is_continued_is_stopped_again(void **state)
{
    struct warden_fixture *fixture = *state;
    pid_t pids[2];

    start_two(fixture, pids, "");
    give(fixture, FRAME_FREEZE, 2, NULL, 0);
    assert_int_equal(done(fixture, 2), 0);
    kill(pids[1], SIGCONT);
    assert_int_not_equal(letter(pids[1]), 'T');
    while (letter(pids[1]) != 'T')
        poll(NULL, 0, 1);
    give(fixture, FRAME_THAW, 3, NULL, 0);
    assert_int_equal(done(fixture, 3), 0);
    assert_int_not_equal(letter(pids[1]), 'T');
    finish_two(fixture);
}

static void test_a_box_that_uses_cpu_time_ends(void **state)
{
    struct warden_fixture *fixture = *state;
    struct pollfd end = {.fd = fixture->fd, .events = POLLIN};
    struct frame frame;
    pid_t pids[2];

    start_two(fixture, pids, "while :; do :; done &");
    give(fixture, FRAME_FREEZE, 2, NULL, 0);
    assert_int_equal(done(fixture, 2), 0);
    while (poll(&end, 1, 1) == 0)
        kill(pids[1], SIGCONT);
    while (take_any(fixture, &frame))
        assert_int_equal(frame.type, FRAME_OUTPUT); /* not EXITED: the warden itself has ended */
}

static void test_an_empty_box(void **state)
{
    struct warden_fixture *fixture = *state;

    give(fixture, FRAME_FREEZE, 1, NULL, 0);
    assert_int_equal(done(fixture, 1), 0);
    give(fixture, FRAME_THAW, 2, NULL, 0);
    assert_int_equal(done(fixture, 2), 0);
}

static void say_without_id(struct warden_fixture *fixture)
{
    give(fixture, FRAME_FREEZE, 0, NULL, 0);
}

static void say_with_payload(struct warden_fixture *fixture)
{
    give(fixture, FRAME_THAW, 1, "x", 1);
}

static void test_nonsense(void **state)
{
    (void)state;
    check_breaks(say_without_id);
    check_breaks(say_with_payload);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WITH_A_WARDEN(test_all_stand_still),
        WITH_A_WARDEN(test_what_was_stopped_stays_so),
        WITH_A_WARDEN(test_what_is_continued_is_stopped_again),
        WITH_A_WARDEN(test_a_box_that_uses_cpu_time_ends),
        WITH_A_WARDEN(test_an_empty_box),
        cmocka_unit_test(test_nonsense),
    };

    return cmocka_run_group_tests(tests, become_reaper, NULL);
}
