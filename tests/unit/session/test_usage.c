/* test_usage.c - tenants and quotas of an engine at work: what is taken is given back once, however
 * it ends, and counted again by the next broker; nobody finds what is another one's. */
#include "engine_fixture.h"

#include "session/installer.h"

#define MEMORY(fixture) ((fixture)->config.limits.memory_bytes)

static void limit(struct engine_fixture *fixture)
{
    tenants_configure(session_manager_tenants(fixture->manager), &fixture->config);
}

static uint64_t held(struct engine_fixture *fixture, const char *tenant, enum quota quota)
{
    return tenant_held(session_manager_tenants(fixture->manager), tenant, quota);
}

static struct session *make(struct engine_fixture *fixture, const char *tenant, const char *name)
{
    struct session_spec spec = {.tenant = tenant, .name = name};
    struct session *session;
    struct error err = {0};

    if (session_manager_create(fixture->manager, &spec, &session, &err) < 0)
        fail_msg("%s", err.text);
    return session;
}

static void assert_quota(int r, const struct error *err, const char *name)
{
    assert_int_equal(r, -EDQUOT);
    assert_ptr_equal(err->code, ERROR_QUOTA);
    assert_string_equal(err->quota, name);
    assert_true(err->retry_s >= 1);
}

static void end(struct engine_fixture *fixture, struct session *session)
{
    session_end(session, "deleted", NULL, NULL);
    UNTIL(fixture, session_state(session) == SESSION_ENDED);
}

static int exec_error(struct session *session, struct error *err)
{
    const char *argv[] = {"true", NULL};
    struct execution *execution;

    return session_exec(session, &(struct execution_spec){.argv = argv}, &execution, err);
}

/* ---- who finds what ---- */

static void assert_not_there(struct engine_fixture *fixture, const char *tenant, const char *word)
{
    struct session *found;
    struct error err = {0}, none = {0};

    for (int with_ended = 0; with_ended < 2; with_ended++) {
        assert_int_equal(
            session_manager_find_of(fixture->manager, tenant, word, with_ended, &found, &err),
            -ENOENT);
        assert_ptr_equal(err.code, ERROR_SESSION_NOT_FOUND);
        /* The words for one that never was, with the same word in them. */
        assert_int_equal(
            session_manager_find_of(fixture->manager, "nobody", word, with_ended, &found, &none),
            -ENOENT);
        assert_string_equal(err.text, none.text);
    }
}

static void test_found_by_its_tenant(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *one = make(fixture, "one", "work"), *two = make(fixture, "two", "work"), *found;
    struct error err = {0};
    char prefix[16];

    snprintf(prefix, sizeof(prefix), "%.12s", session_id(one));
    assert_string_equal(session_tenant(one), "one");
    assert_int_equal(session_manager_find_of(fixture->manager, "one", "work", false, &found, &err),
                     0);
    assert_ptr_equal(found, one);
    assert_int_equal(session_manager_find_of(fixture->manager, "one", prefix, false, &found, &err),
                     0);
    assert_ptr_equal(found, one);
    assert_int_equal(session_manager_find_of(fixture->manager, "two", "work", false, &found, &err),
                     0);
    assert_ptr_equal(found, two);
    assert_not_there(fixture, "two", session_id(one));
    assert_not_there(fixture, "two", session_id(one) + 2);
    assert_not_there(fixture, "two", prefix);
    assert_not_there(fixture, TENANT_LOCAL, session_id(one));
    assert_int_equal(session_manager_session_count_of(fixture->manager, "one"), 1);
    assert_int_equal(session_manager_session_count_of(fixture->manager, "three"), 0);
    assert_int_equal(session_manager_session_count(fixture->manager), 2);
    end(fixture, one);
    assert_not_there(fixture, "two", session_id(one));
    assert_int_equal(session_manager_find_of(fixture->manager, "one", "work", true, &found, &err),
                     0);
}

static void test_the_owner_finds_all(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *one = make(fixture, "one", "work"), *own, *found;
    struct error err = {0};

    assert_int_equal(session_manager_find(fixture->manager, session_id(one), &found, &err), 0);
    assert_int_equal(session_manager_find(fixture->manager, "work", &found, &err), 0);
    assert_ptr_equal(found, one);
    make(fixture, "two", "work");
    assert_true(session_manager_find(fixture->manager, "work", &found, &err) < 0);
    assert_ptr_equal(err.code, ERROR_SESSION_AMBIGUOUS);
    own = make(fixture, NULL, "work"); /* of that name it is the owner's own that is meant */
    assert_string_equal(session_tenant(own), TENANT_LOCAL);
    assert_int_equal(session_manager_find(fixture->manager, "work", &found, &err), 0);
    assert_ptr_equal(found, own);
}

static void test_names_of_a_tenant(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session_spec spec = {.tenant = "one", .name = "work"};
    struct session *session;
    struct error err = {0};

    make(fixture, "one", "work");
    assert_true(session_manager_create(fixture->manager, &spec, &session, &err) < 0);
    assert_ptr_equal(err.code, ERROR_NAME_TAKEN);
    make(fixture, "two", "work");
}

/* ---- quotas ---- */

static void test_sessions(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session_spec spec = {.tenant = "one"};
    struct session *session, *other;
    struct error err = {0};

    fixture->config.quota.sessions = 1;
    limit(fixture);
    session = make(fixture, "one", NULL);
    assert_quota(session_manager_create(fixture->manager, &spec, &other, &err), &err, "sessions");
    assert_int_equal(session_manager_session_count(fixture->manager), 1);
    make(fixture, "two", NULL);
    make(fixture, NULL, NULL);
    make(fixture, NULL, NULL); /* the owner has what the machine has */
    end(fixture, session);
    assert_int_equal(held(fixture, "one", QUOTA_SESSIONS), 0);
    make(fixture, "one", NULL);
}

static void test_runs_at_once(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = make(fixture, "one", NULL), *other = make(fixture, "two", NULL);
    struct execution *execution;
    struct error err = {0};

    fixture->config.quota.runs = 1;
    limit(fixture);
    execution = fixture_exec(session, "cat", &(struct execution_spec){.stdin_open = true});
    assert_quota(exec_error(session, &err), &err, "runs");
    fixture_ran(fixture, other, "true", NULL);
    UNTIL(fixture, execution->state == EXECUTION_RUNNING);
    assert_int_equal(execution_stdin_end(execution, &err), 0);
    UNTIL(fixture, execution_has_ended(execution));
    assert_int_equal(held(fixture, "one", QUOTA_RUNS), 0);
    fixture_ran(fixture, session, "true", NULL);
    /* One that runs when its session ends gives it back too. */
    fixture_exec(session, "sleep 1000", NULL);
    assert_int_equal(held(fixture, "one", QUOTA_RUNS), 1);
    end(fixture, session);
    assert_int_equal(held(fixture, "one", QUOTA_RUNS), 0);
}

static void test_memory(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *one = make(fixture, "one", NULL), *two = make(fixture, "one", NULL);
    struct error err = {0};

    fixture->config.quota.memory_bytes = MEMORY(fixture) * 3 / 2;
    limit(fixture);
    assert_int_equal(held(fixture, "one", QUOTA_MEMORY), 0); /* no box yet */
    fixture_ran(fixture, one, "true", NULL);
    assert_int_equal(held(fixture, "one", QUOTA_MEMORY), MEMORY(fixture));
    assert_quota(exec_error(two, &err), &err, "memory");
    assert_int_equal(held(fixture, "one", QUOTA_RUNS), 0);
    fixture_ran(fixture, one, "true", NULL); /* its box is there */
    end(fixture, one);
    assert_int_equal(held(fixture, "one", QUOTA_MEMORY), 0);
    fixture_ran(fixture, two, "true", NULL);
}

static void test_a_box_that_does_not_come(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = make(fixture, "one", NULL);

    fixture->refuses = true;
    fixture_ran(fixture, session, "true", NULL);
    assert_int_equal(held(fixture, "one", QUOTA_MEMORY), 0);
    assert_int_equal(held(fixture, "one", QUOTA_RUNS), 0);
    fixture->refuses = false;
    fixture_ran(fixture, session, "true", NULL);
    assert_int_equal(held(fixture, "one", QUOTA_MEMORY), MEMORY(fixture));
}

static void test_cpu(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = make(fixture, "one", NULL);
    struct error err = {0};

    fixture->config.quota.cpu_seconds = 1;
    limit(fixture);
    fixture_ran(fixture, session, "true", NULL);
    tenant_used(session_manager_tenants(fixture->manager), "one", QUOTA_CPU, 1000000);
    assert_quota(exec_error(session, &err), &err, "cpu");
    assert_true(err.retry_s > 1);
    fixture_ran(fixture, make(fixture, "two", NULL), "true", NULL);
}

static int give(struct session *session, const char *name, size_t length, struct error *err)
{
    static const char data[64];
    struct dataset_upload *upload;
    int r = dataset_begin(session, name, &upload, err);

    assert_int_equal(r, 0);
    r = dataset_write(upload, data, length, err);
    if (r < 0) {
        dataset_cancel(upload);
        return r;
    }
    return dataset_end(upload, err);
}

static void test_disk(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = make(fixture, "one", NULL), *other = make(fixture, "one", NULL);
    struct error err = {0};

    fixture->config.quota.disk_bytes = 100;
    limit(fixture);
    assert_int_equal(give(session, "a", 60, &err), 0);
    assert_quota(give(other, "a", 41, &err), &err, "disk");
    assert_int_equal(held(fixture, "one", QUOTA_DISK), 60);
    assert_int_equal(give(other, "a", 40, &err), 0);
    assert_int_equal(held(fixture, "one", QUOTA_DISK), 100);
    end(fixture, session);
    assert_int_equal(held(fixture, "one", QUOTA_DISK), 40);
    assert_int_equal(give(other, "a", 50, &err), 0); /* in place of the one before */
    assert_int_equal(held(fixture, "one", QUOTA_DISK), 50);
    assert_int_equal(give(make(fixture, "two", NULL), "a", 64, &err), 0);
}

static void on_done(void *ctx, struct result *result)
{
    ++*(unsigned *)ctx;
    result_free(result);
}

static int start_run(struct engine_fixture *fixture, const char *tenant, const char *code,
                     unsigned *done, struct run **ret, struct error *err)
{
    struct run_spec spec = {
        .tenant = tenant, .language = "bash", .code = code, .code_length = strlen(code)};

    return session_manager_run(fixture->manager, &spec, on_done, done, ret, err);
}

static void test_one_shot_runs(void **state)
{
    struct engine_fixture *fixture = *state;
    struct error err = {0};
    struct run *run, *other;
    unsigned done = 0;

    fixture->config.quota.runs = 1;
    limit(fixture);
    assert_int_equal(start_run(fixture, "one", "sleep 1000", &done, &run, &err), 0);
    assert_string_equal(session_manager_run_tenant(run), "one");
    assert_int_equal(held(fixture, "one", QUOTA_MEMORY), MEMORY(fixture));
    assert_quota(start_run(fixture, "one", "true", &done, &other, &err), &err, "runs");
    assert_int_equal(held(fixture, "one", QUOTA_MEMORY), MEMORY(fixture));
    assert_int_equal(start_run(fixture, "two", "true", &done, &other, &err), 0);
    UNTIL(fixture, done == 1);
    session_manager_run_cancel(run);
    UNTIL(fixture, session_manager_is_idle(fixture->manager));
    assert_int_equal(held(fixture, "one", QUOTA_RUNS), 0);
    assert_int_equal(held(fixture, "one", QUOTA_MEMORY), 0);
    assert_int_equal(start_run(fixture, "one", "true", &done, &run, &err), 0);
    UNTIL(fixture, done == 2);
}

/* ---- the queue ---- */

static void test_queue_is_full(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session;
    struct error err = {0};

    fixture->config.queue = 1;
    fixture->holds[ASK_MAKE] = true;
    for (int i = 0; i < LIMIT_MAKES_AT_ONCE + 1; i++)
        fixture_exec(make(fixture, "one", NULL), "true", NULL);
    assert_int_equal(session_manager_queue_depth(fixture->manager), 1);
    session = make(fixture, "one", NULL);
    assert_int_equal(exec_error(session, &err), -EBUSY);
    assert_ptr_equal(err.code, ERROR_BUSY);
    assert_null(session->executions); /* it was not begun */
    assert_int_equal(held(fixture, "one", QUOTA_RUNS), LIMIT_MAKES_AT_ONCE + 1);
    fixture_let_go(fixture, ASK_MAKE);
    UNTIL(fixture, held(fixture, "one", QUOTA_RUNS) == 0);
    fixture_ran(fixture, session, "true", NULL);
}

static void never_commits(struct provider *provider, const char *key,
                          void (*done)(void *ctx, const struct layer_committed *layer_committed,
                                       const struct error *err),
                          void *ctx)
{
    (void)provider;
    (void)key;
    (void)done;
    (void)ctx;
    fail_msg("nothing was installed");
}

static void on_installed(void *ctx, const struct install_end *end, const struct error *err)
{
    (void)ctx;
    (void)end;
    (void)err;
}

/* A flood of one tenant's boxes holds up its own installers, and nobody else's. */
static void test_an_installer_waits_in_its_tenants_line(void **state)
{
    static const struct install_events events = {.done = on_installed};
    static struct provider_ops ops;
    struct engine_fixture *fixture = *state;
    struct install_spec spec = {.tenant = "one", .requirements = "x"};
    struct installation *installation;
    struct error err = {0};

    ops = *fixture->provider.ops;
    ops.commit_layer = never_commits;
    fixture->provider.ops = &ops;
    fixture->config.queue = 8; /* of which one tenant may have seven */
    fixture->holds[ASK_MAKE] = true;
    for (int i = 0; i < LIMIT_MAKES_AT_ONCE + 7; i++)
        fixture_exec(make(fixture, "one", NULL), "true", NULL);
    assert_int_equal(session_manager_queue_depth(fixture->manager), 7);
    assert_int_equal(installer_start(fixture->manager, &spec, &events, NULL, &installation, &err),
                     -EBUSY);
    assert_ptr_equal(err.code, ERROR_BUSY);
    spec.tenant = "two";
    assert_int_equal(installer_start(fixture->manager, &spec, &events, NULL, &installation, &err),
                     0);
    /* That tenant has had nothing yet: its box is asked for before those that wait. */
    assert_int_equal(session_manager_queue_depth(fixture->manager), 7);
    installer_cancel(installation);
}

/* ---- the next broker ---- */

static void test_counted_again(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session *session = make(fixture, "one", "work");
    struct execution *execution;
    struct error err = {0};
    char id[ID_MAX];
    uint64_t disk;

    str_copy(id, sizeof(id), session_id(session));
    assert_int_equal(give(session, "a", 60, &err), 0);
    fixture_exec(session, "while [ ! -e go ]; do sleep 0.05; done", NULL);
    make(fixture, "two", NULL);
    UNTIL(fixture, session->running == 1 && session_state(session) == SESSION_READY);
    disk = held(fixture, "one", QUOTA_DISK);
    assert_true(disk > 60); /* the dataset, and the words of the command */
    fixture_crash(fixture);
    fixture->config.quota.sessions = 1;
    fixture->config.quota.runs = 1;
    fixture_begin(fixture);
    assert_int_equal(held(fixture, "one", QUOTA_SESSIONS), 1);
    assert_int_equal(held(fixture, "one", QUOTA_RUNS), 1);
    assert_int_equal(held(fixture, "one", QUOTA_MEMORY), MEMORY(fixture));
    assert_int_equal(held(fixture, "one", QUOTA_DISK), disk);
    assert_int_equal(
        session_manager_find_of(fixture->manager, "one", "work", false, &session, &err), 0);
    assert_not_there(fixture, "two", id);
    assert_quota(exec_error(session, &err), &err, "runs");
    assert_int_equal(session_find_execution(session, "1", &execution, &err), 0);
    assert_int_equal(execution_signal(execution, SIGKILL, &err), 0);
    UNTIL(fixture, execution_has_ended(execution));
    assert_int_equal(held(fixture, "one", QUOTA_RUNS), 0);
    end(fixture, session);
    assert_int_equal(held(fixture, "one", QUOTA_SESSIONS), 0);
    assert_int_equal(held(fixture, "one", QUOTA_MEMORY), 0);
    assert_int_equal(held(fixture, "one", QUOTA_DISK), 0);
}

/* ---- what ages out ---- */

static void count_row(void *ctx, const struct index_code *code)
{
    (void)code;
    ++*(unsigned *)ctx;
}

/* A tenant may store more records than are removed in one turn of the loop: all of them go. */
static void test_all_that_is_too_old_goes_in_slices(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session_manager *manager = fixture->manager;
    struct index *index = manager->spec.index;
    unsigned looks = 1, left = 0;
    struct error err = {0};

    for (int i = 0; i < 3 * INDEX_DUE_CODE; i++) {
        char name[32];

        snprintf(name, sizeof(name), "%d.json", i);
        assert_int_equal(
            index_put_code(
                index,
                &(struct index_code){.name = name, .tenant = "a", .bytes = 1, .created_ms = 1},
                &err),
            0);
    }
    tenant_hold(session_manager_tenants(manager), "a", QUOTA_DISK, 3 * INDEX_DUE_CODE);
    while (retention_look(manager))
        looks++;
    assert_in_range(looks, 3, 4);
    index_due_code(index, UINT64_MAX / 2, count_row, &left, NULL);
    assert_int_equal(left, 0);
    assert_int_equal(held(fixture, "a", QUOTA_DISK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_ENGINE(test_found_by_its_tenant),
        WITH_ENGINE(test_the_owner_finds_all),
        WITH_ENGINE(test_names_of_a_tenant),
        WITH_ENGINE(test_sessions),
        WITH_ENGINE(test_runs_at_once),
        WITH_ENGINE(test_memory),
        WITH_ENGINE(test_a_box_that_does_not_come),
        WITH_ENGINE(test_cpu),
        WITH_ENGINE(test_disk),
        WITH_ENGINE(test_one_shot_runs),
        WITH_ENGINE(test_queue_is_full),
        WITH_ENGINE(test_an_installer_waits_in_its_tenants_line),
        WITH_ENGINE(test_counted_again),
        WITH_ENGINE(test_all_that_is_too_old_goes_in_slices),
    };

    return cmocka_run_group_tests(tests, fixture_reaper, NULL);
}
