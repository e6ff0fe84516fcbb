/*
 * test_changes.c - stat, mkdir, move, remove, chmod, watch and cancel of a box, the host's side,
 * against wardens good and bad.
 */
#include "runtime/box/fake_warden.h"

#include <sys/stat.h>

#include "runtime/box/box_private.h"

/* What a watch told, beside what fake_warden.h writes down. */
struct told {
    struct seen seen;
    int changes;
    unsigned kind;
    bool is_folder;
};

static void saw_change(void *ctx, const struct box_change *change)
{
    struct told *told = ctx;

    told->changes++;
    told->kind = change->kind;
    told->is_folder = change->is_folder;
    strncpy(told->seen.name, change->name, sizeof(told->seen.name) - 1);
}

static const struct done_events done_seen = {.done = saw_done};
static const struct watch_events watch_seen = {
    .ready = saw_ready, .changed = saw_change, .done = saw_done};

static void say_changed(struct fake *fake, uint32_t id, unsigned kind, const char *name)
{
    struct message_changed changed = {
        .kind = (uint8_t)kind, .is_folder = true, .path = name, .path_length = strlen(name)};
    uint8_t payload[64];

    say(fake, FRAME_CHANGED, id, payload,
        (size_t)message_changed_pack(&changed, payload, sizeof(payload)));
}

static uint32_t start_watch(struct fake *fake, struct told *told)
{
    uint32_t id = 0;

    memset(told, 0, sizeof(*told));
    assert_int_equal(box_watch(fake->box, "/tmp", true, &watch_seen, told, &id, &fake->err), 0);
    hear(fake, FRAME_WATCH, id);
    return id;
}

static uint32_t start_stat(struct fake *fake)
{
    uint32_t id = 0;

    assert_int_equal(box_stat(fake->box, "/tmp/x", &list_seen, &fake->seen[0], &id, &fake->err), 0);
    hear(fake, FRAME_STAT, id);
    return id;
}

static struct message_path hear_path(struct fake *fake, enum frame_type type, uint32_t id)
{
    struct frame frame = hear(fake, type, id);
    struct message_path path;

    assert_int_equal(message_path_unpack(&frame, &path), 0);
    assert_int_equal(path.path_length, 6);
    assert_memory_equal(path.path, "/tmp/x", 6);
    return path;
}

static void end(struct fake *fake, uint32_t id, uint32_t number)
{
    int before = fake->seen[0].ended;

    say_done(fake, id, number);
    check_alive(fake);
    assert_int_equal(fake->seen[0].ended, before + 1);
    assert_int_equal(fake->seen[0].err.num, -(int)number);
}

static void test_calls(void **state)
{
    struct fake *fake = *state;
    struct message_move move;
    struct frame frame;
    uint32_t id = 0;

    assert_int_equal(
        box_mkdir(fake->box, "/tmp/x", 0750, &done_seen, &fake->seen[0], &id, &fake->err), 0);
    assert_int_equal(hear_path(fake, FRAME_MKDIR, id).mode, 0750);
    end(fake, id, 0);
    assert_int_equal(
        box_remove(fake->box, "/tmp/x", true, &done_seen, &fake->seen[0], &id, &fake->err), 0);
    assert_int_equal(hear_path(fake, FRAME_REMOVE, id).flags, REMOVE_TREE);
    end(fake, id, EBUSY);
    assert_int_equal(
        box_remove(fake->box, "/tmp/x", false, &done_seen, &fake->seen[0], &id, &fake->err), 0);
    assert_int_equal(hear_path(fake, FRAME_REMOVE, id).flags, 0);
    end(fake, id, 0);
    assert_int_equal(
        box_chmod(fake->box, "/tmp/x", 0700, &done_seen, &fake->seen[0], &id, &fake->err), 0);
    assert_int_equal(hear_path(fake, FRAME_CHMOD, id).mode, 0700);
    end(fake, id, EROFS);
    assert_int_equal(
        box_move(fake->box, "/tmp/x", "/tmp/yy", &done_seen, &fake->seen[0], &id, &fake->err), 0);
    frame = hear(fake, FRAME_MOVE, id);
    assert_int_equal(message_move_unpack(&frame, &move), 0);
    assert_true(move.from_length == 6 && move.to_length == 7);
    assert_memory_equal(move.from, "/tmp/x/tmp/yy", 13);
    end(fake, id, EXDEV);
    assert_int_equal(box_list(fake->box, "/tmp/x", 3, &list_seen, &fake->seen[0], &id, &fake->err),
                     0);
    assert_int_equal(hear_path(fake, FRAME_LIST, id).depth, 3);
    end(fake, id, 0);
    hear_nothing(fake);
}

static void test_long_paths(void **state)
{
    static char path[LIMIT_PATH_BYTES + 2];
    struct fake *fake = *state;
    uint32_t id;

    memset(path, 'p', sizeof(path) - 1);
    assert_int_equal(box_move(fake->box, path, "/tmp/x", &done_seen, NULL, &id, &fake->err),
                     -ENAMETOOLONG);
    assert_int_equal(box_move(fake->box, "/tmp/x", path, &done_seen, NULL, &id, &fake->err),
                     -ENAMETOOLONG);
    assert_int_equal(box_mkdir(fake->box, path, 0, &done_seen, NULL, &id, &fake->err),
                     -ENAMETOOLONG);
    assert_int_equal(box_watch(fake->box, path, false, &watch_seen, NULL, &id, &fake->err),
                     -ENAMETOOLONG);
    hear_nothing(fake);
    assert_null(fake->box->calls);
}

static void test_stat(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_stat(fake);

    say_entry(fake, id, "", 0);
    check_alive(fake);
    assert_int_equal(fake->seen[0].entries, 1);
    assert_string_equal(fake->seen[0].name, "");
    assert_int_equal(fake->seen[0].mode, 0100640);
    end(fake, id, 0);
    id = start_stat(fake);
    end(fake, id, ENOENT);
}

static void test_watch(void **state)
{
    struct fake *fake = *state;
    struct told told;
    uint32_t id = start_watch(fake, &told);

    say_entry(fake, id, "", 0);
    check_alive(fake);
    assert_int_equal(told.seen.ready, 1);
    say_changed(fake, id, CHANGE_CREATED, "a/b");
    check_alive(fake);
    assert_true(told.changes == 1 && told.kind == CHANGE_CREATED && told.is_folder);
    assert_string_equal(told.seen.name, "a/b");
    say_changed(fake, id, CHANGE_OVERFLOW, "");
    check_alive(fake);
    assert_true(told.changes == 2 && told.kind == CHANGE_OVERFLOW);
    say_done(fake, id, ENOSPC);
    check_alive(fake);
    assert_int_equal(told.seen.ended, 1);
    assert_int_equal(told.seen.err.num, -ENOSPC);
}

/* ---- what a warden may not say; a stat and a watch are pending ---- */

static void stat_twice(struct fake *fake, uint32_t stat, uint32_t watch)
{
    (void)watch;
    say_entry(fake, stat, "", 0);
    say_entry(fake, stat, "", 0);
}

static void stat_of_a_name(struct fake *fake, uint32_t stat, uint32_t watch)
{
    (void)watch;
    say_entry(fake, stat, "x", 1);
}

static void stat_without_entry(struct fake *fake, uint32_t stat, uint32_t watch)
{
    (void)watch;
    say_done(fake, stat, 0);
}

static void watch_succeeds(struct fake *fake, uint32_t stat, uint32_t watch)
{
    (void)stat;
    say_entry(fake, watch, "", 0);
    say_done(fake, watch, 0);
}

static void watch_twice(struct fake *fake, uint32_t stat, uint32_t watch)
{
    (void)stat;
    say_entry(fake, watch, "", 0);
    say_entry(fake, watch, "", 0);
}

static void change_before_it_watches(struct fake *fake, uint32_t stat, uint32_t watch)
{
    (void)stat;
    say_changed(fake, watch, CHANGE_CREATED, "x");
}

static void change_without_name(struct fake *fake, uint32_t stat, uint32_t watch)
{
    (void)stat;
    say_entry(fake, watch, "", 0);
    say_changed(fake, watch, CHANGE_CREATED, "");
}

static void overflow_with_name(struct fake *fake, uint32_t stat, uint32_t watch)
{
    (void)stat;
    say_entry(fake, watch, "", 0);
    say_changed(fake, watch, CHANGE_OVERFLOW, "x");
}

static void change_of_no_kind(struct fake *fake, uint32_t stat, uint32_t watch)
{
    (void)stat;
    say_entry(fake, watch, "", 0);
    say_changed(fake, watch, _CHANGE_KIND_MAX, "x");
}

static void change_for_stat(struct fake *fake, uint32_t stat, uint32_t watch)
{
    (void)watch;
    say_changed(fake, stat, CHANGE_CREATED, "x");
}

static void data_for_watch(struct fake *fake, uint32_t stat, uint32_t watch)
{
    (void)stat;
    say_bytes(fake, FRAME_DATA, watch, 0, 0, 1, 'x');
}

static void test_broken_protocol(void **state)
{
    static void (*const ways[])(struct fake * fake, uint32_t stat, uint32_t watch) = {
        stat_twice,         stat_of_a_name,    stat_without_entry, watch_succeeds,
        watch_twice,        change_for_stat,   data_for_watch,     change_before_it_watches,
        overflow_with_name, change_of_no_kind, change_without_name};

    (void)state;
    for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
        void *one = NULL;
        struct fake *fake;
        struct told told;
        uint32_t stat;

        assert_int_equal(fake_set_up(&one), 0);
        fake = one;
        stat = start_stat(fake);
        ways[i](fake, stat, start_watch(fake, &told));
        check_lost(fake, 1);
        assert_int_equal(told.seen.ended, 1);
        assert_int_equal(told.changes, 0);
        fake_tear_down(&one);
    }
}

/* ---- cancelled calls ---- */

/* Frames that were on their way are no break of the protocol, and nobody hears of them. */
static void test_cancel(void **state)
{
    struct fake *fake = *state;
    struct told told;
    uint32_t watch = start_watch(fake, &told), get = 0, put = 0, list = 0;

    assert_int_equal(box_get(fake->box, "/x", 0, 0, &get_seen, &fake->seen[0], &get, &fake->err),
                     0);
    assert_int_equal(box_put(fake->box, &(struct put_spec){.path = "/x"}, &put_seen, &fake->seen[1],
                             &put, &fake->err),
                     0);
    assert_int_equal(box_list(fake->box, "/x", 0, &list_seen, &fake->seen[2], &list, &fake->err),
                     0);
    assert_int_equal(box_put_data(fake->box, put, "abc", 3), 3);
    for (int i = 0; i < 4; i++) { /* the three of them, and PUT_DATA */
        struct frame frame;

        assert_true(hear_any(fake, &frame));
    }
    for (uint32_t id = watch; id <= list; id++) {
        box_cancel(fake->box, id);
        box_cancel(fake->box, id); /* once is enough */
        hear(fake, FRAME_CANCEL, id);
    }
    hear_nothing(fake);
    assert_int_equal(box_put_data(fake->box, put, "d", 1), -EPIPE);
    box_put_end(fake->box, put);
    box_get_resume(fake->box, get);
    hear_nothing(fake);
    say_entry(fake, watch, "", 0);
    say_changed(fake, watch, CHANGE_CREATED, "x");
    say_bytes(fake, FRAME_DATA, get, 0, 0, 1000, 'x');
    say_ack(fake, put, 0, 3);
    say_entry(fake, list, "x", 1);
    check_alive(fake);
    for (uint32_t id = watch; id <= list; id++)
        say_done(fake, id, ECANCELED);
    check_alive(fake);
    hear_nothing(fake);
    assert_null(fake->box->calls);
    for (int i = 0; i < 3; i++)
        assert_int_equal(fake->seen[i].ended + fake->seen[i].entries + fake->seen[i].ready, 0);
    assert_int_equal(told.seen.ended + told.seen.ready + told.changes, 0);
    box_cancel(fake->box, get); /* it has ended */
    hear_nothing(fake);
    say_done(fake, get, ECANCELED); /* but only once */
    assert_int_equal(fake_pump(fake), -EPIPE);
}

/* A put that failed while the cancel was on its way: no END follows, the warden has dropped it. */
static void test_cancel_meets_done(void **state)
{
    struct fake *fake = *state;
    uint32_t id = 0;

    assert_int_equal(box_put(fake->box, &(struct put_spec){.path = "/x"}, &put_seen, &fake->seen[0],
                             &id, &fake->err),
                     0);
    hear(fake, FRAME_PUT, id);
    say_done(fake, id, ENOSPC);
    box_cancel(fake->box, id);
    hear(fake, FRAME_CANCEL, id);
    check_alive(fake);
    hear_nothing(fake);
    assert_int_equal(fake->seen[0].ended, 0);
}

/* A warden goes on where it was told to stop: its window still counts. */
static void test_cancelled_get_has_a_window(void **state)
{
    struct fake *fake = *state;
    const size_t window = WIRE_STREAM_WINDOW;
    uint32_t id = 0;

    assert_int_equal(box_get(fake->box, "/x", 0, 0, &get_seen, &fake->seen[0], &id, &fake->err), 0);
    box_cancel(fake->box, id);
    for (size_t at = 0; at < window; at += window / 16)
        say_bytes(fake, FRAME_DATA, id, 0, at, window / 16, 'a');
    check_alive(fake);
    say_bytes(fake, FRAME_DATA, id, 0, window, 1, 'b');
    assert_int_equal(fake_pump(fake), -EPIPE);
    assert_int_equal(fake->seen[0].ended, 0); /* not even of the loss */
}

/* A get whose end is known and whose reader loses interest. */
static void test_cancel_of_held_bytes(void **state)
{
    struct fake *fake = *state;
    uint32_t id = 0;

    assert_int_equal(box_get(fake->box, "/x", 0, 0, &get_seen, &fake->seen[0], &id, &fake->err), 0);
    hear(fake, FRAME_GET, id);
    fake->seen[0].takes = 0;
    say_bytes(fake, FRAME_DATA, id, 0, 0, 9, 'a');
    say_done(fake, id, 0);
    check_alive(fake);
    box_cancel(fake->box, id);
    assert_null(fake->box->calls);
    hear_nothing(fake); /* the warden knows nothing of it any more */
    assert_int_equal(fake->seen[0].ended, 0);
}

/* Cancelled from inside its own callback. */
struct self {
    struct box *box;
    uint32_t id;
    int calls;
};

static size_t cancels_itself(void *ctx, const void *data, size_t length)
{
    struct self *self = ctx;

    (void)data;
    self->calls++;
    if (self->calls == 2)
        box_cancel(self->box, self->id);
    return length / 2;
}

static void is_not_called(void *ctx, const struct error *err)
{
    (void)err;
    ((struct self *)ctx)->calls += 1000;
}

static void test_cancel_in_a_callback(void **state)
{
    static const struct get_events events = {.data = cancels_itself, .done = is_not_called};
    struct fake *fake = *state;

    for (int is_done = 0; is_done < 2; is_done++) {
        struct self self = {.box = fake->box};

        assert_int_equal(box_get(fake->box, "/x", 0, 0, &events, &self, &self.id, &fake->err), 0);
        hear(fake, FRAME_GET, self.id);
        say_bytes(fake, FRAME_DATA, self.id, 0, 0, 100, 'a');
        if (is_done)
            say_done(fake, self.id, 0);
        check_alive(fake);
        box_get_resume(fake->box, self.id); /* the second call */
        assert_int_equal(self.calls, 2);
        if (!is_done) {
            hear(fake, FRAME_CANCEL, self.id);
            say_done(fake, self.id, ECANCELED);
            check_alive(fake);
        }
        assert_null(fake->box->calls);
        assert_int_equal(self.calls, 2);
    }
    hear_nothing(fake);
}

/* A loss in which one callback cancels what the others wait for. */
static void cancels_all(void *ctx, const struct error *err)
{
    struct self *self = ctx;

    assert_ptr_equal(err->code, ERROR_BOX_LOST);
    self->calls++;
    for (uint32_t id = 1; id <= 8; id++)
        box_cancel(self->box, id);
}

static void test_cancel_while_it_is_lost(void **state)
{
    static const struct done_events events = {.done = cancels_all};
    struct fake *fake = *state;
    struct self self = {.box = fake->box};

    for (int i = 0; i < 4; i++)
        assert_int_equal(box_mkdir(fake->box, "/x", 0, &events, &self, &self.id, &fake->err), 0);
    close(fake->fd);
    fake->fd = -1;
    assert_int_equal(fake_pump(fake), -EPIPE);
    assert_int_equal(self.calls, 1); /* the others were not interested any more */
    assert_null(fake->box->calls);
}

/* The caller gives the box up: every call has failed, also one whose last bytes nobody took. */
static void test_box_is_given_up(void **state)
{
    struct error why = {.num = -ESHUTDOWN, .code = ERROR_CANCELLED};
    struct fake *fake = *state;
    struct self self = {.box = fake->box};
    uint32_t get = 0, cancelled = 0;

    assert_int_equal(box_get(fake->box, "/x", 0, 0, &get_seen, &fake->seen[0], &get, &fake->err),
                     0);
    assert_int_equal(
        box_mkdir(fake->box, "/x", 0, &done_seen, &fake->seen[1], &cancelled, &fake->err), 0);
    assert_int_equal(
        box_mkdir(fake->box, "/x", 0, &done_seen, &fake->seen[2], &self.id, &fake->err), 0);
    fake->seen[0].takes = 0;
    say_bytes(fake, FRAME_DATA, get, 0, 0, 9, 'a');
    say_done(fake, get, 0);
    check_alive(fake);
    box_cancel(fake->box, cancelled);
    box_fail(fake->box, &why);
    assert_null(fake->box->calls);
    assert_int_equal(fake->seen[0].ended, 1);
    assert_int_equal(fake->seen[0].err.num, -ESHUTDOWN);
    assert_int_equal(fake->seen[1].ended, 0); /* nobody was interested */
    assert_int_equal(fake->seen[2].ended, 1);
}

/* As many as the warden takes; cancelled ones count until it has said that they are over. */
static void test_too_many(void **state)
{
    struct fake *fake = *state;
    struct frame frame;
    uint32_t first = 0, id = 0;

    for (int i = 0; i < LIMIT_FILE_OPS; i++) {
        assert_int_equal(box_mkdir(fake->box, "/x", 0, &done_seen, &fake->seen[0], &id, &fake->err),
                         0);
        first = first ? first : id;
        assert_true(hear_any(fake, &frame));
    }
    assert_int_equal(box_mkdir(fake->box, "/x", 0, &done_seen, NULL, &id, &fake->err), -EAGAIN);
    box_cancel(fake->box, first);
    hear(fake, FRAME_CANCEL, first);
    assert_int_equal(box_mkdir(fake->box, "/x", 0, &done_seen, NULL, &id, &fake->err), -EAGAIN);
    say_done(fake, first, ECANCELED);
    check_alive(fake);
    assert_int_equal(box_mkdir(fake->box, "/x", 0, &done_seen, NULL, &id, &fake->err), 0);
}

#define WITH_A_FAKE(test) cmocka_unit_test_setup_teardown(test, fake_set_up, fake_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_A_FAKE(test_calls),
        WITH_A_FAKE(test_long_paths),
        WITH_A_FAKE(test_stat),
        WITH_A_FAKE(test_watch),
        cmocka_unit_test(test_broken_protocol),
        WITH_A_FAKE(test_cancel),
        WITH_A_FAKE(test_cancel_meets_done),
        WITH_A_FAKE(test_cancelled_get_has_a_window),
        WITH_A_FAKE(test_cancel_of_held_bytes),
        WITH_A_FAKE(test_cancel_in_a_callback),
        WITH_A_FAKE(test_cancel_while_it_is_lost),
        WITH_A_FAKE(test_box_is_given_up),
        WITH_A_FAKE(test_too_many),
    };

    return cmocka_run_group_tests_name("runtime/box/changes", tests, NULL, NULL);
}
