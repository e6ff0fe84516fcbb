/*
 * test_in_a_box.c - file calls into a real box, with a guest in it: datasets that cannot be
 * written, links and modes of the guest's making, trees of any depth, changes as they happen.
 */
#include "runtime/box/real_box.h"

#include <errno.h>
#include <poll.h>

#include "runtime/box/files.h"
#include "wire/file_message.h"

struct room {
    struct scratch scratch;
    struct launched launched;
    struct box *box;
    uint32_t id;
    bool is_done;
    struct error err;
    /* of the last call */
    unsigned entries;
    char names[4096]; /* " name" of each */
    uint32_t mode;
    char text[4096]; /* bytes of a get, or a guest's output */
    size_t length;
    struct exec_end end;
    /* of the watch */
    uint32_t watch;
    bool is_watching, watch_is_done;
    char changes[4096]; /* " name" of each */
    unsigned lost;
};

static int set_up(void **state)
{
    struct room *room = calloc(1, sizeof(*room));

    scratch_make(&room->scratch);
    assert_int_equal(chmod(room->scratch.path, 0755), 0);
    scratch_folder(&room->scratch, "data");
    scratch_write(&room->scratch, "data/a.csv", "a,b\n");
    scratch_write(&room->scratch, "data/program", "#!/bin/sh\necho ran\n");
    assert_int_equal(chmod(scratch_path(&room->scratch, "data/program"), 0755), 0);
    *state = room;
    return real_box_make(scratch_path(&room->scratch, "data"), &room->launched, &room->box);
}

static int tear_down(void **state)
{
    struct room *room = *state;

    box_free(room->box);
    launch_end(&room->launched, NULL);
    scratch_remove(&room->scratch);
    free(room);
    return 0;
}

static void saw_done(void *ctx, const struct error *err)
{
    struct room *room = ctx;

    room->is_done = true;
    room->err = *err;
}

static void saw_entry(void *ctx, const struct box_entry *entry)
{
    struct room *room = ctx;
    size_t used = strlen(room->names);

    room->entries++;
    room->mode = entry->mode;
    snprintf(room->names + used, sizeof(room->names) - used, " %s", entry->name);
}

static size_t saw_data(void *ctx, const void *data, size_t length)
{
    struct room *room = ctx;

    if (length < sizeof(room->text) - room->length) {
        memcpy(room->text + room->length, data, length);
        room->length += length;
        room->text[room->length] = 0;
    }
    return length;
}

static size_t saw_output(void *ctx, enum box_stream stream, const void *data, size_t length)
{
    (void)stream;
    return saw_data(ctx, data, length);
}

static void saw_ended(void *ctx, const struct exec_end *end)
{
    ((struct room *)ctx)->end = *end;
    ((struct room *)ctx)->is_done = true;
}

static void saw_ready(void *ctx)
{
    ((struct room *)ctx)->is_watching = true;
}

static void saw_change(void *ctx, const struct box_change *change)
{
    struct room *room = ctx;
    size_t used = strlen(room->changes);

    room->lost += change->kind == CHANGE_OVERFLOW;
    snprintf(room->changes + used, sizeof(room->changes) - used, " %s", change->name);
}

static void saw_watch_done(void *ctx, const struct error *err)
{
    (void)err;
    ((struct room *)ctx)->watch_is_done = true;
}

static const struct put_events put_events = {.done = saw_done};
static const struct get_events get_events = {.data = saw_data, .done = saw_done};
static const struct list_events list_events = {.entry = saw_entry, .done = saw_done};
static const struct done_events done_events = {.done = saw_done};
static const struct exec_events exec_events = {
    .output = saw_output, .ended = saw_ended, .failed = saw_done};
static const struct watch_events watch_events = {
    .ready = saw_ready, .changed = saw_change, .done = saw_watch_done};

static void pump(struct room *room)
{
    struct pollfd poll_fd = {.fd = box_fd(room->box), .events = box_poll_events(room->box)};

    assert_int_equal(poll(&poll_fd, 1, 60000), 1);
    assert_int_equal(box_pump(room->box, &room->err), 0);
}

/* The errno of a call that was begun with this result. */
static int finish(struct room *room, int begun)
{
    assert_int_equal(begun, 0);
    while (!room->is_done)
        pump(room);
    return -room->err.num;
}

static struct room *fresh(struct room *room)
{
    room->is_done = false;
    room->err = (struct error){0};
    room->entries = 0;
    room->names[0] = 0;
    room->text[0] = 0;
    room->length = 0;
    return room;
}

static int put(struct room *room, const char *path, const char *text, bool is_in_place)
{
    struct put_spec spec = {.path = path, .is_in_place = is_in_place};

    fresh(room);
    assert_int_equal(box_put(room->box, &spec, &put_events, room, &room->id, &room->err), 0);
    assert_int_equal(box_put_data(room->box, room->id, text, strlen(text)), (long)strlen(text));
    box_put_end(room->box, room->id);
    return finish(room, 0);
}

static int get(struct room *room, const char *path)
{
    return finish(fresh(room), box_get(room->box, path, 0, 0, &get_events, room, &room->id, NULL));
}

static int list(struct room *room, const char *path)
{
    return finish(fresh(room), box_list(room->box, path, 0, &list_events, room, &room->id, NULL));
}

static int file_status(struct room *room, const char *path)
{
    return finish(fresh(room), box_stat(room->box, path, &list_events, room, &room->id, NULL));
}

static int make_folder(struct room *room, const char *path)
{
    return finish(fresh(room),
                  box_mkdir(room->box, path, 0755, &done_events, room, &room->id, NULL));
}

static int change_mode(struct room *room, const char *path)
{
    return finish(fresh(room),
                  box_chmod(room->box, path, 0666, &done_events, room, &room->id, NULL));
}

static int remove_tree(struct room *room, const char *path)
{
    return finish(fresh(room),
                  box_remove(room->box, path, true, &done_events, room, &room->id, NULL));
}

static int move(struct room *room, const char *from, const char *to)
{
    return finish(fresh(room), box_move(room->box, from, to, &done_events, room, &room->id, NULL));
}

/* A script of the guest's; its exit status, with its output in room->text. */
static int guest(struct room *room, const char *script)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    struct exec_spec spec = {.argv = argv};

    assert_int_equal(
        finish(fresh(room), box_exec(room->box, &spec, &exec_events, room, &room->id, &room->err)),
        0);
    return room->end.exit_code;
}

static void test_datasets(void **state)
{
    struct room *room = *state;

    NEEDS_A_BOX(room);
    assert_int_equal(get(room, "/tmp/data/a.csv"), 0);
    assert_string_equal(room->text, "a,b\n");
    scratch_write(&room->scratch, "data/later.csv", "c\n"); /* just appears */
    assert_int_equal(guest(room, "cat /tmp/data/a.csv /tmp/data/later.csv"), 0);
    assert_string_equal(room->text, "a,b\nc\n");
    assert_int_equal(list(room, "/tmp/data"), 0);
    assert_int_equal(room->entries, 3);
    assert_int_equal(put(room, "/tmp/data/x", "x", false), EROFS);
    assert_int_equal(put(room, "/tmp/data/a.csv", "x", true), EROFS);
    assert_int_equal(put(room, "/tmp/data/new/x", "x", false), EROFS);
    assert_int_equal(make_folder(room, "/tmp/data/new"), EROFS);
    assert_int_equal(change_mode(room, "/tmp/data/a.csv"), EROFS);
    assert_int_equal(remove_tree(room, "/tmp/data/a.csv"), EROFS);
    assert_int_equal(remove_tree(room, "/tmp/data"), EBUSY);
    assert_int_equal(remove_tree(room, "/tmp/./data"), EBUSY);
    assert_int_equal(move(room, "/tmp/data/a.csv", "/tmp/data/b.csv"), EROFS);
    assert_int_equal(move(room, "/tmp/data/a.csv", "/workspace/b.csv"), EROFS);
    assert_int_equal(make_folder(room, "/workspace/new"), 0);
    assert_int_equal(move(room, "/workspace/new", "/tmp/data/new"), EROFS);
    /* Under the mount lies a folder of the box's disk: no name leads there. */
    assert_int_equal(move(room, "/workspace/new", "/tmp/./data/new"), EXDEV);
    assert_int_equal(guest(room, "ln -s data /tmp/link && ln -s ../tmp/data /workspace/link"), 0);
    assert_int_equal(move(room, "/workspace/new", "/tmp/link/new"), EXDEV);
    assert_int_equal(move(room, "/tmp/link/a.csv", "/workspace/a.csv"), EXDEV);
    assert_int_equal(move(room, "/workspace/new", "/tmp/./data"), EBUSY);
    assert_int_not_equal(guest(room, "echo x > /tmp/data/a.csv"), 0);
    assert_non_null(strstr(room->text, "Read-only file system"));
    assert_int_not_equal(guest(room, "rm -rf /tmp/data/a.csv"), 0);
    assert_int_not_equal(guest(room, "mv /tmp/data /tmp/elsewhere"), 0);
    assert_int_not_equal(guest(room, "/tmp/data/program"), 0); /* no program of the guest's */
    assert_null(strstr(room->text, "ran"));
    assert_int_equal(list(room, "/tmp"), 0); /* another mount is named, not entered */
    assert_non_null(strstr(room->names, " data"));
    assert_null(strstr(room->names, "a.csv"));
}

static void test_links_of_the_guest(void **state)
{
    struct room *room = *state;

    NEEDS_A_BOX(room);
    assert_int_equal(guest(room, "cd /tmp && echo in > file && mkdir sub && ln -s file near && "
                                 "ln -s ../file sub/up && ln -s /etc/passwd far && "
                                 "ln -s /proc/self/root root && ln -s /etc folder"),
                     0);
    assert_int_equal(get(room, "/tmp/near"), 0); /* whoever made it, in a sticky folder too */
    assert_string_equal(room->text, "in\n");
    assert_int_equal(get(room, "/tmp/sub/up"), 0);
    assert_int_equal(get(room, "/tmp/far"), EXDEV);
    assert_int_equal(get(room, "/tmp/root/etc/passwd"), EXDEV);
    assert_int_equal(get(room, "/tmp/../etc/passwd"), EXDEV);
    assert_int_equal(get(room, "/proc/1/environ"), EACCES);
    assert_int_equal(put(room, "/tmp/folder/x", "x", false), EXDEV);
    assert_int_equal(put(room, "/tmp/near", "IN", true), 0);
    assert_int_equal(guest(room, "cat /tmp/file"), 0);
    assert_string_equal(room->text, "IN\n");
    assert_int_equal(put(room, "/tmp/far", "mine", true), EXDEV);
    assert_int_equal(put(room, "/tmp/far", "mine", false), 0); /* the link itself is replaced */
    assert_int_equal(guest(room, "cat /tmp/far"), 0);
    assert_string_equal(room->text, "mine");
    assert_int_equal(file_status(room, "/tmp/folder"), 0);
    assert_true(S_ISLNK(room->mode));
    assert_int_equal(change_mode(room, "/tmp/folder"), EXDEV);
    assert_int_equal(remove_tree(room, "/tmp/folder"), 0);
    assert_int_equal(guest(room, "test -e /etc/passwd"), 0);
}

/* What the host makes is the guest's to use. */
static void test_made_for_the_guest(void **state)
{
    struct room *room = *state;

    NEEDS_A_BOX(room);
    assert_int_equal(make_folder(room, "/workspace/a/b"), 0);
    assert_int_equal(put(room, "/workspace/a/b/file", "one", false), 0);
    assert_int_equal(put(room, "/workspace/in/place", "two", true), 0);
    assert_int_equal(guest(room, "cd /workspace && echo more >> a/b/file && echo more >> in/place "
                                 "&& mv a/b/file in/ && rmdir a/b && chmod 700 in/file && "
                                 "mkdir closed && echo secret > closed/x && chmod 0 closed"),
                     0);
    assert_int_equal(put(room, "/workspace/in/file", "new", false), 0);
    assert_int_equal(guest(room, "stat -c '%a %U' /workspace/in/file"), 0);
    assert_string_equal(room->text, "700 user\n"); /* as the file that it replaced */
    assert_int_equal(remove_tree(room, "/workspace/closed"), 0);
    assert_int_equal(remove_tree(room, "/workspace/in"), 0);
    assert_int_equal(remove_tree(room, "/workspace"), EBUSY);
    assert_int_equal(list(room, "/workspace"), 0);
    assert_string_equal(room->names, " a");
    assert_int_equal(put(room, "/workspace/x", "x", false), 0);
    assert_int_equal(move(room, "/workspace/x", "/workspace/a/y"), 0);
    assert_int_equal(move(room, "/workspace/a", "/tmp/b"), 0); /* another mount, the same disk */
    assert_int_equal(move(room, "/tmp/b/y", "/home/user/z"), 0);
    assert_int_equal(move(room, "/tmp/b", "/tmp/output"), 0); /* empty: replaced */
    assert_int_equal(guest(room, "cat /home/user/z && ls -a /workspace"), 0);
    assert_string_equal(room->text, "x.\n..\n");
}

/*
 * docs/security.md, attacks 10: a tree deeper than any name, with folders that are closed to their
 * owner. (Landlock looks at every folder above for each that the guest makes: a deeper one takes it
 * minutes.)
 */
static void test_deep_tree(void **state)
{
    static const char script[] = "python3 -c 'import os\n"
                                 "os.chdir(\"/tmp\")\n"
                                 "for i in range(3000):\n"
                                 "    os.mkdir(\"d\"); os.chdir(\"d\")\n"
                                 "    if i % 100 == 0: os.chmod(\".\", 0o300)\n'";
    struct room *room = *state;
    uint32_t id;

    NEEDS_A_BOX(room);
    if (guest(room, "command -v python3") != 0) {
        print_message("no python3 here to make the tree\n");
        skip();
    }
    assert_int_equal(guest(room, script), 0);
    fresh(room);
    assert_int_equal(box_remove(room->box, "/tmp/d", true, &done_events, room, &id, NULL), 0);
    assert_int_equal(finish(room, 0), 0);
    assert_int_equal(file_status(room, "/tmp/d"), ENOENT);
    assert_int_equal(guest(room, "ls /tmp | wc -l"), 0);
    assert_string_equal(room->text, "2\n"); /* data, output */
}

static void test_watch(void **state)
{
    struct room *room = *state;

    NEEDS_A_BOX(room);
    fresh(room);
    assert_int_equal(
        box_watch(room->box, "/workspace", true, &watch_events, room, &room->watch, NULL), 0);
    while (!room->is_watching)
        pump(room);
    assert_int_equal(guest(room, "cd /workspace && mkdir -p n/m && echo x > n/m/file"), 0);
    while (!strstr(room->changes, " n/m/file"))
        pump(room);
    assert_int_equal(guest(room, "ln -s /etc /workspace/out && ls /workspace/out > /dev/null"), 0);
    while (!strstr(room->changes, " out"))
        pump(room);
    assert_null(strstr(room->changes, "passwd"));
    box_cancel(room->box, room->watch);
    room->changes[0] = 0;
    assert_int_equal(guest(room, "touch /workspace/later"), 0);
    assert_int_equal(file_status(room, "/workspace/later"), 0);
    assert_string_equal(room->changes, ""); /* nobody is told any more */
    assert_false(room->watch_is_done);
}

/* The host's folder of datasets can be watched too. */
static void test_watch_of_datasets(void **state)
{
    struct room *room = *state;

    NEEDS_A_BOX(room);
    fresh(room);
    assert_int_equal(
        box_watch(room->box, "/tmp/data", false, &watch_events, room, &room->watch, NULL), 0);
    while (!room->is_watching)
        pump(room);
    scratch_write(&room->scratch, "data/late.csv", "x");
    while (!strstr(room->changes, " late.csv"))
        pump(room);
}

#define WITH_A_BOX(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static int run(const char *name)
{
    const struct CMUnitTest tests[] = {
        WITH_A_BOX(test_datasets),
        WITH_A_BOX(test_links_of_the_guest),
        WITH_A_BOX(test_made_for_the_guest),
        WITH_A_BOX(test_deep_tree),
        WITH_A_BOX(test_watch),
        WITH_A_BOX(test_watch_of_datasets),
    };

    return _cmocka_run_group_tests(name, tests, sizeof(tests) / sizeof(tests[0]), NULL, NULL);
}

int main(void)
{
    return real_box_main(run, "runtime/box in a box", "runtime/box in a box of one id");
}
