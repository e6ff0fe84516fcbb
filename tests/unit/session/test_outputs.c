/* test_outputs.c - what is left in /tmp/output: only what changed, hostile names, many files. */
#include "engine_fixture.h"

struct collected {
    unsigned done;
    size_t count;
    uint64_t total;
    struct error err;
    struct {
        char name[300];
        bool is_saved;
        char skipped[80];
        uint64_t bytes;
    } output[64];
};

static void on_collected(void *ctx, const struct session_output *changed, size_t count,
                         uint64_t total, const struct error *err)
{
    struct collected *collected = ctx;

    collected->done++;
    collected->count = count;
    collected->total = total;
    collected->err = err ? *err : (struct error){0};
    for (size_t i = 0; i < count && i < 64; i++) {
        snprintf(collected->output[i].name, sizeof(collected->output[i].name), "%s",
                 changed[i].name);
        collected->output[i].is_saved = changed[i].is_saved;
        collected->output[i].bytes = changed[i].bytes;
        snprintf(collected->output[i].skipped, sizeof(collected->output[i].skipped), "%s",
                 changed[i].skipped ? changed[i].skipped : "");
    }
}

static void collect(struct engine_fixture *fixture, struct session *session,
                    struct collected *collected)
{
    memset(collected, 0, sizeof(*collected));
    session_collect(session, on_collected, collected);
    UNTIL(fixture, collected->done);
    assert_int_equal(collected->done, 1);
}

/* A script in the box's /tmp, which is a folder beside its /workspace here. */
static void in_tmp(struct engine_fixture *fixture, struct session *session, const char *script)
{
    struct execution *execution;
    char text[1024];

    snprintf(text, sizeof(text), "set -e; cd ../tmp; %s", script);
    execution = fixture_ran(fixture, session, text, NULL);
    check_output(execution, 2, "");
    assert_int_equal(execution->end.exit_code, 0);
}

static void after(struct engine_fixture *fixture, struct session *session, const char *script,
                  struct collected *collected)
{
    in_tmp(fixture, session, script);
    collect(fixture, session, collected);
}

static size_t find(const struct collected *collected, const char *name)
{
    for (size_t i = 0; i < collected->count && i < 64; i++) {
        if (str_equal(collected->output[i].name, name))
            return i;
    }
    fail_msg("'%s' is not among the outputs", name);
    return 0;
}

static void check_saved(struct engine_fixture *fixture, struct session *session, const char *name,
                        const char *text)
{
    char path[400], data[256];

    snprintf(path, sizeof(path), "output/session_%s/%s", session_id(session), name);
    assert_true(scratch_read(scratch_path(&fixture->scratch, path), data, sizeof(data)));
    assert_string_equal(data, text);
}

static void test_changed_only(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct collected collected;
    struct bus_reader *reader;
    struct bus_event event;
    unsigned pictures = 0;
    json_t *json;

    reader = bus_subscribe(fixture->bus, NULL, session_id(session), 0, NULL, NULL);
    collect(fixture, session, &collected); /* no such folder */
    assert_int_equal(collected.count + collected.total, 0);
    assert_int_equal(collected.err.num, 0);
    after(fixture, session,
          "mkdir -p output/sub; cd output; echo 1 >a.csv; echo 2 >sub/b.txt; echo p >c.png; "
          "echo m >model.bin",
          &collected);
    assert_int_equal(collected.count, 4);
    assert_int_equal(collected.total, 4);
    assert_true(collected.output[find(&collected, "a.csv")].is_saved);
    assert_true(collected.output[find(&collected, "sub/b.txt")].is_saved);
    assert_false(collected.output[find(&collected, "model.bin")].is_saved);
    check_saved(fixture, session, "a.csv", "1\n");
    check_saved(fixture, session, "sub/b.txt", "2\n");
    while (bus_next(reader, &event))
        pictures += event.type == EVENT_VISUALIZATION;
    assert_int_equal(pictures, 1);
    bus_unsubscribe(reader);
    collect(fixture, session, &collected);
    assert_int_equal(collected.count, 0);
    assert_int_equal(collected.total, 4);
    after(fixture, session, "echo new >output/a.csv; rm output/sub/b.txt", &collected);
    assert_int_equal(collected.count, 1);
    assert_int_equal(collected.total, 3);
    check_saved(fixture, session, "a.csv", "new\n");
    check_saved(fixture, session, "sub/b.txt", "2\n"); /* what was saved stays */
    json = session_outputs_json(session);
    assert_int_equal(json_array_size(json_object_get(json, "outputs")), 3);
    json_decref(json);
}

static void test_hostile(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct collected collected;
    struct error err = {0};
    char data[8];
    int fd;

    scratch_write(&fixture->scratch, "outside.csv", "secret\n");
    after(fixture, session,
          "mkdir -p output/.hidden output/d; cd output; echo x >good.csv; ln -s /etc/passwd l.csv; "
          "mkfifo f.csv; echo x >.hidden/h.csv; echo x >'new\n\nline.csv'; echo x >bailey.yaml; "
          "ln -s ../.. d/up; truncate -s 1T sparse.csv; printf 'x' >$(printf 'bad\\377.csv')",
          &collected);
    assert_true(collected.output[find(&collected, "good.csv")].is_saved);
    assert_false(collected.output[find(&collected, "l.csv")].is_saved);
    assert_true(collected.output[find(&collected, "l.csv")].skipped[0]);
    assert_true(collected.output[find(&collected, "f.csv")].skipped[0]);
    assert_true(collected.output[find(&collected, ".hidden/h.csv")].skipped[0]);
    assert_true(collected.output[find(&collected, "bailey.yaml")].skipped[0]);
    assert_string_equal(collected.output[find(&collected, "sparse.csv")].skipped,
                        "larger than the box's disk (sparse)");
    json_decref(session_outputs_json(session));
    fd = session_output_open(session, "good.csv", &err);
    assert_true(fd >= 0);
    assert_int_equal(read(fd, data, sizeof(data)), 2);
    close(fd);
    assert_int_equal(session_output_open(session, "none.csv", &err), -ENOENT);
    assert_int_equal(session_output_open(session, "../session_x", &err), -ENOENT);
    assert_int_equal(session_output_open(session, "no/such/folder.csv", &err), -ENOENT);
    assert_int_equal(session_output_open(session, "", &err), -ENOENT);
}

static void test_twenty(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct collected collected;
    unsigned saved = 0;

    after(fixture, session, "mkdir output; cd output; for i in $(seq 30); do echo $i >$i.csv; done",
          &collected);
    assert_int_equal(collected.count, 30);
    for (size_t i = 0; i < collected.count; i++) {
        saved += collected.output[i].is_saved;
        assert_int_not_equal(collected.output[i].is_saved, collected.output[i].skipped[0] != 0);
    }
    assert_int_equal(saved, LIMIT_TOOL_OUTPUTS);
    collect(fixture, session, &collected); /* the rest: fetched, and not reported again */
    assert_int_equal(collected.count, 0);
    check_saved(fixture, session, "9.csv", "9\n");
    collect(fixture, session, &collected);
    assert_int_equal(collected.count, 0);
    assert_int_equal(collected.total, 30);
}

/* More names than are remembered: told in a moment, not after a comparison of each with each. */
static void test_thousands(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct collected collected;

    after(fixture, session,
          "mkdir output; cd output; seq 12000 | sed 's/$/.bin/' | xargs touch; echo x >1.csv",
          &collected);
    assert_int_equal(collected.total, 12001);
    assert_int_equal(collected.count, 10000);
    collect(fixture, session, &collected);
    assert_int_equal(collected.total, 12001);
    assert_int_equal(collected.count, 0);
}

static void test_together(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct collected one = {0}, two = {0}, three = {0};

    in_tmp(fixture, session, "mkdir output; echo x >output/x.csv");
    session_collect(session, on_collected, &one);
    session_collect(session, on_collected, &two);
    session_collect(session, on_collected, &three);
    session_collect_cancel(session, &one);
    session_collect_cancel(session, &two);
    UNTIL(fixture, three.done);
    assert_int_equal(one.done + two.done, 0);
    assert_int_equal(three.count, 0); /* the first one has fetched it */
    check_saved(fixture, session, "x.csv", "x\n");
}

static void test_end_while_collecting(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct collected one = {0}, two = {0}, late = {0};
    char name[128];

    in_tmp(fixture, session,
           "mkdir output; head -c 64M /dev/zero >output/x.csv; echo >output/y.csv");
    session_collect(session, on_collected, &one);
    session_collect(session, on_collected, &two);
    snprintf(name, sizeof(name), "output/session_%s", session_id(session));
    UNTIL(fixture, has_file(fixture, name)); /* it is being fetched */
    assert_int_equal(one.done, 0);
    session_end(session, "deleted", NULL, NULL);
    UNTIL(fixture, session_state(session) == SESSION_ENDED);
    assert_int_equal(one.done, 1);
    assert_int_equal(two.done, 1);
    assert_string_equal(one.err.code, ERROR_SESSION_ENDED);
    assert_string_equal(two.err.code, ERROR_SESSION_ENDED);
    session_collect(session, on_collected, &late);
    assert_string_equal(late.err.code, ERROR_SESSION_ENDED);
    assert_int_equal(late.count, 0);
    assert_int_equal(rmdir(scratch_path(&fixture->scratch, name)), 0); /* nothing half is left */
}

static void test_box_lost_while_collecting(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL),
                   *waits = fixture_session(fixture, NULL);
    struct collected one = {0}, two = {0};
    char name[128];

    in_tmp(fixture, session, "mkdir output; head -c 64M /dev/zero >output/x.csv");
    session_collect(session, on_collected, &one);
    snprintf(name, sizeof(name), "output/session_%s", session_id(session));
    UNTIL(fixture, has_file(fixture, name));
    kill(fixture_find(fixture, session->number)->pid, SIGKILL);
    UNTIL(fixture, one.done);
    assert_true(one.err.num < 0);
    fixture->refuses = true;
    session_collect(waits, on_collected, &two);
    UNTIL(fixture, two.done);
    assert_string_equal(two.err.code, ERROR_REFUSED);
}

/* What an earlier broker has fetched is not fetched again, and what changed since is. */
static void test_next_broker(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, "s");
    struct collected collected;
    struct error err = {0};

    after(fixture, session, "mkdir output; for i in c a b; do echo $i >output/$i.csv; done",
          &collected);
    assert_int_equal(collected.count, 3);
    fixture_crash(fixture);
    fixture_begin(fixture);
    assert_int_equal(session_manager_find(fixture->manager, "s", &session, &err), 0);
    collect(fixture, session, &collected);
    assert_int_equal(collected.count, 0);
    assert_int_equal(collected.total, 3);
    after(fixture, session, "echo new >output/b.csv", &collected);
    assert_int_equal(collected.count, 1);
    check_saved(fixture, session, "b.csv", "new\n");
}

/* A file that cannot be stored is said to be so, and is tried again. */
static void test_cannot_store(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct collected collected;
    char name[128];

    snprintf(name, sizeof(name), "output/session_%s", session_id(session));
    scratch_write(&fixture->scratch, name, "in the way");
    after(fixture, session, "mkdir output; echo x >output/x.csv; echo y >output/y.csv", &collected);
    assert_int_equal(collected.count, 2);
    assert_string_equal(collected.output[0].skipped, "could not be stored");
    assert_int_equal(unlink(scratch_path(&fixture->scratch, name)), 0);
    collect(fixture, session, &collected);
    assert_int_equal(collected.count, 0); /* they were reported the first time */
    check_saved(fixture, session, "x.csv", "x\n");
    check_saved(fixture, session, "y.csv", "y\n");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        WITH_ENGINE(test_changed_only),
        WITH_ENGINE(test_hostile),
        WITH_ENGINE(test_twenty),
        WITH_ENGINE(test_thousands),
        WITH_ENGINE(test_together),
        WITH_ENGINE(test_end_while_collecting),
        WITH_ENGINE(test_box_lost_while_collecting),
        WITH_ENGINE(test_cannot_store),
        WITH_ENGINE(test_next_broker),
    };

    return cmocka_run_group_tests(tests, fixture_reaper, NULL);
}
