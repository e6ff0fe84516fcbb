/*
 * test_races.c - a guest that swaps a folder for a link out of the share, again and again, while
 * the host's file calls go on (docs/security.md, attacks 4, 5, 7): nothing outside is touched, and
 * nothing of it is told.
 */
#include "warden/file_fixture.h"

#include <linux/fs.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define ROUNDS 1500

struct race {
    pid_t pid;
    unsigned done[_FRAME_TYPE_MAX], refused[_FRAME_TYPE_MAX];
};

/* "swap" is a folder of ours or a link to the folder outside, which changes as fast as it can. */
static void race_start(struct warden_fixture *fixture, struct race *race)
{
    scratch_folder(&fixture->scratch, "outside/sub");
    scratch_write(&fixture->scratch, "outside/file", "out");
    scratch_write(&fixture->scratch, "outside/sub/file", "out");
    assert_int_equal(chmod(scratch_path(&fixture->scratch, "outside/file"), 0604), 0);
    scratch_folder(&fixture->scratch, "tmp/swap/sub");
    assert_int_equal(symlinkat("../outside", fixture->tmp_fd, "other"), 0);
    memset(race, 0, sizeof(*race));
    race->pid = fork();
    if (race->pid != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when the test fails */
    for (;;)
        syscall(SYS_renameat2, fixture->tmp_fd, "swap", fixture->tmp_fd, "other", RENAME_EXCHANGE);
}

static void race_end(struct warden_fixture *fixture, struct race *race)
{
    assert_int_equal(kill(race->pid, SIGKILL), 0);
    assert_int_equal(waitpid(race->pid, NULL, 0), race->pid);
    check_text(fixture, "outside/file", "out");
    check_text(fixture, "outside/sub/file", "out");
    assert_int_equal(count_in(fixture, "outside"), 2);
    assert_int_equal(count_in(fixture, "outside/sub"), 1);
    assert_int_equal(mode_of(fixture, "outside/file"), 0604);
}

/* Takes frames until the operation is done; bytes and names of the outside must not be in them. */
static void finish(struct warden_fixture *fixture, struct race *race, enum frame_type type,
                   uint32_t id)
{
    struct message_path entry;
    struct message_bytes bytes;
    struct frame frame;
    uint32_t number;

    for (;;) {
        assert_true(take_any(fixture, &frame));
        if (frame.type == FRAME_ACK)
            continue; /* of a put that failed early: they come behind its DONE */
        assert_int_equal(frame.id, id);
        if (frame.type == FRAME_DONE)
            break;
        if (frame.type == FRAME_DATA) {
            assert_int_equal(message_bytes_unpack(&frame, &bytes), 0);
            assert_memory_equal(bytes.data, "in", 2);
        } else if (frame.type == FRAME_ENTRY) {
            assert_int_equal(message_path_unpack(&frame, &entry), 0);
            assert_true((entry.mode & 07777) != 0604);
        }
    }
    assert_int_equal(message_number_unpack(&frame, &number), 0);
    if (number == 0)
        race->done[type]++;
    else
        race->refused[type]++;
}

static void put(struct warden_fixture *fixture, struct race *race, uint32_t id, const char *path,
                uint32_t flags)
{
    give_flags(fixture, FRAME_PUT, id, path, flags);
    if (fixture->warden.files && flags & PUT_IN_PLACE)
        turn(fixture);
    give_data(fixture, id, 0, "in");
    give(fixture, FRAME_PUT_END, id, NULL, 0);
    finish(fixture, race, FRAME_PUT, id);
}

/* Some went where they should and some were refused, or there was no race. */
static bool is_race(const struct race *race)
{
    return race->done[FRAME_PUT] > 0 && race->refused[FRAME_PUT] > 0;
}

static void test_swapped_folder(void **state)
{
    static const enum frame_type types[] = {FRAME_GET,   FRAME_LIST,  FRAME_STAT,
                                            FRAME_MKDIR, FRAME_CHMOD, FRAME_REMOVE};
    static const char *const names[] = {"/tmp/swap/file", "/tmp/swap/sub/file", "/tmp/swap/sub",
                                        "/tmp/swap/a/../file"};
    struct warden_fixture *fixture = *state;
    struct race race;
    uint32_t id = 1;

    race_start(fixture, &race);
    for (unsigned i = 0; i < ROUNDS || (!is_race(&race) && i < 100 * ROUNDS); i++) {
        const char *name = names[i % 4];
        enum frame_type type = types[i % 6];

        put(fixture, &race, id++, name, 0);
        put(fixture, &race, id++, name, PUT_IN_PLACE);
        give_message(
            fixture, type, id, name,
            (struct message_path){.mode = 0777, .flags = type == FRAME_REMOVE ? REMOVE_TREE : 0});
        finish(fixture, &race, type, id++);
        give_move(fixture, id, name, "/tmp/swap/moved");
        finish(fixture, &race, FRAME_MOVE, id++);
    }
    race_end(fixture, &race);
    assert_true(is_race(&race));
}

/* The tree that is removed and the link change places. */
static void test_swapped_tree(void **state)
{
    struct warden_fixture *fixture = *state;
    struct race race;

    race_start(fixture, &race);
    for (uint32_t id = 1; id <= ROUNDS; id++) {
        mkdirat(fixture->tmp_fd, "swap", 0700); /* whichever went last time */
        mkdirat(fixture->tmp_fd, "swap/sub", 0700);
        if (!is_there(fixture, "tmp/other"))
            (void)!symlinkat("../outside", fixture->tmp_fd, "other");
        give_flags(fixture, FRAME_REMOVE, id, id % 2 ? "/tmp/swap" : "/tmp/other", REMOVE_TREE);
        finish(fixture, &race, FRAME_REMOVE, id);
    }
    race_end(fixture, &race);
    assert_true(race.done[FRAME_REMOVE] > 0);
}

/* A watch of the tree while it happens: the names of the outside are not in it. */
static void test_swapped_while_watched(void **state)
{
    struct warden_fixture *fixture = *state;
    struct message_changed changed;
    unsigned heard = 0;
    struct race race;
    struct frame frame;

    race_start(fixture, &race);
    give_flags(fixture, FRAME_WATCH, 1, "/tmp", WATCH_TREE);
    take(fixture, FRAME_ENTRY, 1);
    while (heard < ROUNDS) {
        turn(fixture);
        if (recv(fixture->fd, fixture->data, sizeof(fixture->data), MSG_DONTWAIT | MSG_PEEK) <= 0)
            continue;
        frame = take(fixture, FRAME_CHANGED, 1);
        assert_int_equal(message_changed_unpack(&frame, &changed), 0);
        assert_null(memmem(changed.path, changed.path_length, "file", 4));
        heard++;
    }
    give(fixture, FRAME_CANCEL, 1, NULL, 0);
    race_end(fixture, &race);
    while (take_any(fixture, &frame) && frame.type != FRAME_DONE)
        ;
    assert_int_equal(frame.type, FRAME_DONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WARDEN(test_swapped_folder),
        WITH_WARDEN(test_swapped_tree),
        WITH_WARDEN(test_swapped_while_watched),
    };

    return cmocka_run_group_tests_name("warden/races", tests, NULL, NULL);
}
