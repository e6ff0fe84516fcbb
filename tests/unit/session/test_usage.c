/* test_usage.c - tenants and quotas of an engine at work: what is taken is given back once, however
 * it ends, and counted again by the next broker; nobody finds what is another one's. */
#include "workshop.h"

#include "session/installer.h"

#define MEMORY(shop) ((shop)->config.limits.memory_bytes)

static void limit(struct shop *shop)
{
    tenants_configure(engine_tenants(shop->engine), &shop->config);
}

static uint64_t held(struct shop *shop, const char *tenant, enum quota quota)
{
    return tenant_held(engine_tenants(shop->engine), tenant, quota);
}

static struct session *make(struct shop *shop, const char *tenant, const char *name)
{
    struct session_spec spec = {.tenant = tenant, .name = name};
    struct session *session;
    struct error err = {0};

    if (engine_create(shop->engine, &spec, &session, &err) < 0)
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

static void end(struct shop *shop, struct session *session)
{
    session_end(session, "deleted", NULL, NULL);
    UNTIL(shop, session_state(session) == SESSION_ENDED);
}

static int exec_error(struct session *session, struct error *err)
{
    const char *argv[] = {"true", NULL};
    struct execution *execution;

    return session_exec(session, &(struct execution_spec){.argv = argv}, &execution, err);
}

/* ---- who finds what ---- */

static void assert_not_there(struct shop *shop, const char *tenant, const char *word)
{
    struct session *found;
    struct error err = {0}, none = {0};

    for (int with_ended = 0; with_ended < 2; with_ended++) {
        assert_int_equal(engine_find_of(shop->engine, tenant, word, with_ended, &found, &err),
                         -ENOENT);
        assert_ptr_equal(err.code, ERROR_SESSION_NOT_FOUND);
        /* The words for one that never was, with the same word in them. */
        assert_int_equal(engine_find_of(shop->engine, "nobody", word, with_ended, &found, &none),
                         -ENOENT);
        assert_string_equal(err.text, none.text);
    }
}

static void test_found_by_its_tenant(void **state)
{
    struct shop *shop = *state;
    struct session *one = make(shop, "one", "work"), *two = make(shop, "two", "work"), *found;
    struct error err = {0};
    char prefix[16];

    snprintf(prefix, sizeof(prefix), "%.12s", session_id(one));
    assert_string_equal(session_tenant(one), "one");
    assert_int_equal(engine_find_of(shop->engine, "one", "work", false, &found, &err), 0);
    assert_ptr_equal(found, one);
    assert_int_equal(engine_find_of(shop->engine, "one", prefix, false, &found, &err), 0);
    assert_ptr_equal(found, one);
    assert_int_equal(engine_find_of(shop->engine, "two", "work", false, &found, &err), 0);
    assert_ptr_equal(found, two);
    assert_not_there(shop, "two", session_id(one));
    assert_not_there(shop, "two", session_id(one) + 2);
    assert_not_there(shop, "two", prefix);
    assert_not_there(shop, TENANT_LOCAL, session_id(one));
    assert_int_equal(engine_session_count_of(shop->engine, "one"), 1);
    assert_int_equal(engine_session_count_of(shop->engine, "three"), 0);
    assert_int_equal(engine_session_count(shop->engine), 2);
    end(shop, one);
    assert_not_there(shop, "two", session_id(one));
    assert_int_equal(engine_find_of(shop->engine, "one", "work", true, &found, &err), 0);
}

static void test_the_owner_finds_all(void **state)
{
    struct shop *shop = *state;
    struct session *one = make(shop, "one", "work"), *own, *found;
    struct error err = {0};

    assert_int_equal(engine_find(shop->engine, session_id(one), &found, &err), 0);
    assert_int_equal(engine_find(shop->engine, "work", &found, &err), 0);
    assert_ptr_equal(found, one);
    make(shop, "two", "work");
    assert_true(engine_find(shop->engine, "work", &found, &err) < 0);
    assert_ptr_equal(err.code, ERROR_SESSION_AMBIGUOUS);
    own = make(shop, NULL, "work"); /* of that name it is the owner's own that is meant */
    assert_string_equal(session_tenant(own), TENANT_LOCAL);
    assert_int_equal(engine_find(shop->engine, "work", &found, &err), 0);
    assert_ptr_equal(found, own);
}

static void test_names_of_a_tenant(void **state)
{
    struct shop *shop = *state;
    struct session_spec spec = {.tenant = "one", .name = "work"};
    struct session *session;
    struct error err = {0};

    make(shop, "one", "work");
    assert_true(engine_create(shop->engine, &spec, &session, &err) < 0);
    assert_ptr_equal(err.code, ERROR_NAME_TAKEN);
    make(shop, "two", "work");
}

/* ---- quotas ---- */

static void test_sessions(void **state)
{
    struct shop *shop = *state;
    struct session_spec spec = {.tenant = "one"};
    struct session *session, *other;
    struct error err = {0};

    shop->config.quota.sessions = 1;
    limit(shop);
    session = make(shop, "one", NULL);
    assert_quota(engine_create(shop->engine, &spec, &other, &err), &err, "sessions");
    assert_int_equal(engine_session_count(shop->engine), 1);
    make(shop, "two", NULL);
    make(shop, NULL, NULL);
    make(shop, NULL, NULL); /* the owner has what the machine has */
    end(shop, session);
    assert_int_equal(held(shop, "one", QUOTA_SESSIONS), 0);
    make(shop, "one", NULL);
}

static void test_runs_at_once(void **state)
{
    struct shop *shop = *state;
    struct session *session = make(shop, "one", NULL), *other = make(shop, "two", NULL);
    struct execution *execution;
    struct error err = {0};

    shop->config.quota.runs = 1;
    limit(shop);
    execution = shop_exec(session, "cat", &(struct execution_spec){.stdin_open = true});
    assert_quota(exec_error(session, &err), &err, "runs");
    shop_ran(shop, other, "true", NULL);
    UNTIL(shop, execution->state == EXECUTION_RUNNING);
    assert_int_equal(execution_stdin_end(execution, &err), 0);
    UNTIL(shop, execution_has_ended(execution));
    assert_int_equal(held(shop, "one", QUOTA_RUNS), 0);
    shop_ran(shop, session, "true", NULL);
    /* One that runs when its session ends gives it back too. */
    shop_exec(session, "sleep 1000", NULL);
    assert_int_equal(held(shop, "one", QUOTA_RUNS), 1);
    end(shop, session);
    assert_int_equal(held(shop, "one", QUOTA_RUNS), 0);
}

static void test_memory(void **state)
{
    struct shop *shop = *state;
    struct session *one = make(shop, "one", NULL), *two = make(shop, "one", NULL);
    struct error err = {0};

    shop->config.quota.memory_bytes = MEMORY(shop) * 3 / 2;
    limit(shop);
    assert_int_equal(held(shop, "one", QUOTA_MEMORY), 0); /* no box yet */
    shop_ran(shop, one, "true", NULL);
    assert_int_equal(held(shop, "one", QUOTA_MEMORY), MEMORY(shop));
    assert_quota(exec_error(two, &err), &err, "memory");
    assert_int_equal(held(shop, "one", QUOTA_RUNS), 0);
    shop_ran(shop, one, "true", NULL); /* its box is there */
    end(shop, one);
    assert_int_equal(held(shop, "one", QUOTA_MEMORY), 0);
    shop_ran(shop, two, "true", NULL);
}

static void test_a_box_that_does_not_come(void **state)
{
    struct shop *shop = *state;
    struct session *session = make(shop, "one", NULL);

    shop->refuses = true;
    shop_ran(shop, session, "true", NULL);
    assert_int_equal(held(shop, "one", QUOTA_MEMORY), 0);
    assert_int_equal(held(shop, "one", QUOTA_RUNS), 0);
    shop->refuses = false;
    shop_ran(shop, session, "true", NULL);
    assert_int_equal(held(shop, "one", QUOTA_MEMORY), MEMORY(shop));
}

static void test_cpu(void **state)
{
    struct shop *shop = *state;
    struct session *session = make(shop, "one", NULL);
    struct error err = {0};

    shop->config.quota.cpu_seconds = 1;
    limit(shop);
    shop_ran(shop, session, "true", NULL);
    tenant_used(engine_tenants(shop->engine), "one", QUOTA_CPU, 1000000);
    assert_quota(exec_error(session, &err), &err, "cpu");
    assert_true(err.retry_s > 1);
    shop_ran(shop, make(shop, "two", NULL), "true", NULL);
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
    struct shop *shop = *state;
    struct session *session = make(shop, "one", NULL), *other = make(shop, "one", NULL);
    struct error err = {0};

    shop->config.quota.disk_bytes = 100;
    limit(shop);
    assert_int_equal(give(session, "a", 60, &err), 0);
    assert_quota(give(other, "a", 41, &err), &err, "disk");
    assert_int_equal(held(shop, "one", QUOTA_DISK), 60);
    assert_int_equal(give(other, "a", 40, &err), 0);
    assert_int_equal(held(shop, "one", QUOTA_DISK), 100);
    end(shop, session);
    assert_int_equal(held(shop, "one", QUOTA_DISK), 40);
    assert_int_equal(give(other, "a", 50, &err), 0); /* in place of the one before */
    assert_int_equal(held(shop, "one", QUOTA_DISK), 50);
    assert_int_equal(give(make(shop, "two", NULL), "a", 64, &err), 0);
}

static void on_done(void *ctx, struct result *result)
{
    ++*(unsigned *)ctx;
    result_free(result);
}

static int start_run(struct shop *shop, const char *tenant, const char *code, unsigned *done,
                     struct run **ret, struct error *err)
{
    struct run_spec spec = {
        .tenant = tenant, .language = "bash", .code = code, .code_length = strlen(code)};

    return engine_run(shop->engine, &spec, on_done, done, ret, err);
}

static void test_one_shot_runs(void **state)
{
    struct shop *shop = *state;
    struct error err = {0};
    struct run *run, *other;
    unsigned done = 0;

    shop->config.quota.runs = 1;
    limit(shop);
    assert_int_equal(start_run(shop, "one", "sleep 1000", &done, &run, &err), 0);
    assert_string_equal(engine_run_tenant(run), "one");
    assert_int_equal(held(shop, "one", QUOTA_MEMORY), MEMORY(shop));
    assert_quota(start_run(shop, "one", "true", &done, &other, &err), &err, "runs");
    assert_int_equal(held(shop, "one", QUOTA_MEMORY), MEMORY(shop));
    assert_int_equal(start_run(shop, "two", "true", &done, &other, &err), 0);
    UNTIL(shop, done == 1);
    engine_run_cancel(run);
    UNTIL(shop, engine_is_idle(shop->engine));
    assert_int_equal(held(shop, "one", QUOTA_RUNS), 0);
    assert_int_equal(held(shop, "one", QUOTA_MEMORY), 0);
    assert_int_equal(start_run(shop, "one", "true", &done, &run, &err), 0);
    UNTIL(shop, done == 2);
}

/* ---- the queue ---- */

static void test_queue_is_full(void **state)
{
    struct shop *shop = *state;
    struct session *session;
    struct error err = {0};

    shop->config.queue = 1;
    shop->holds[ASK_MAKE] = true;
    for (int i = 0; i < LIMIT_MAKES_AT_ONCE + 1; i++)
        shop_exec(make(shop, "one", NULL), "true", NULL);
    assert_int_equal(engine_queue_depth(shop->engine), 1);
    session = make(shop, "one", NULL);
    assert_int_equal(exec_error(session, &err), -EBUSY);
    assert_ptr_equal(err.code, ERROR_BUSY);
    assert_null(session->executions); /* it was not begun */
    assert_int_equal(held(shop, "one", QUOTA_RUNS), LIMIT_MAKES_AT_ONCE + 1);
    shop_let_go(shop, ASK_MAKE);
    UNTIL(shop, held(shop, "one", QUOTA_RUNS) == 0);
    shop_ran(shop, session, "true", NULL);
}

static void
never_seal(struct maker *maker, const char *key,
           void (*done)(void *ctx, const struct sealed *sealed, const struct error *err), void *ctx)
{
    (void)maker;
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
    static struct maker_ops ops;
    struct shop *shop = *state;
    struct install_spec spec = {.tenant = "one", .requirements = "x"};
    struct installation *installation;
    struct error err = {0};

    ops = *shop->maker.ops;
    ops.seal = never_seal;
    shop->maker.ops = &ops;
    shop->config.queue = 8; /* of which one tenant may have seven */
    shop->holds[ASK_MAKE] = true;
    for (int i = 0; i < LIMIT_MAKES_AT_ONCE + 7; i++)
        shop_exec(make(shop, "one", NULL), "true", NULL);
    assert_int_equal(engine_queue_depth(shop->engine), 7);
    assert_int_equal(installer_start(shop->engine, &spec, &events, NULL, &installation, &err),
                     -EBUSY);
    assert_ptr_equal(err.code, ERROR_BUSY);
    spec.tenant = "two";
    assert_int_equal(installer_start(shop->engine, &spec, &events, NULL, &installation, &err), 0);
    assert_int_equal(engine_queue_depth(shop->engine), 8);
    installer_cancel(installation);
}

/* ---- the next broker ---- */

static void test_counted_again(void **state)
{
    struct shop *shop = *state;
    struct session *session = make(shop, "one", "work");
    struct execution *execution;
    struct error err = {0};
    char id[ID_MAX];

    str_copy(id, sizeof(id), session_id(session));
    assert_int_equal(give(session, "a", 60, &err), 0);
    shop_exec(session, "while [ ! -e go ]; do sleep 0.05; done", NULL);
    make(shop, "two", NULL);
    UNTIL(shop, session->running == 1 && session_state(session) == SESSION_READY);
    shop_crash(shop);
    shop->config.quota.sessions = 1;
    shop->config.quota.runs = 1;
    shop_begin(shop);
    assert_int_equal(held(shop, "one", QUOTA_SESSIONS), 1);
    assert_int_equal(held(shop, "one", QUOTA_RUNS), 1);
    assert_int_equal(held(shop, "one", QUOTA_MEMORY), MEMORY(shop));
    assert_int_equal(held(shop, "one", QUOTA_DISK), 60);
    assert_int_equal(engine_find_of(shop->engine, "one", "work", false, &session, &err), 0);
    assert_not_there(shop, "two", id);
    assert_quota(exec_error(session, &err), &err, "runs");
    assert_int_equal(session_find_execution(session, "1", &execution, &err), 0);
    assert_int_equal(execution_signal(execution, SIGKILL, &err), 0);
    UNTIL(shop, execution_has_ended(execution));
    assert_int_equal(held(shop, "one", QUOTA_RUNS), 0);
    end(shop, session);
    assert_int_equal(held(shop, "one", QUOTA_SESSIONS), 0);
    assert_int_equal(held(shop, "one", QUOTA_MEMORY), 0);
    assert_int_equal(held(shop, "one", QUOTA_DISK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_WORKSHOP(test_found_by_its_tenant),
        IN_A_WORKSHOP(test_the_owner_finds_all),
        IN_A_WORKSHOP(test_names_of_a_tenant),
        IN_A_WORKSHOP(test_sessions),
        IN_A_WORKSHOP(test_runs_at_once),
        IN_A_WORKSHOP(test_memory),
        IN_A_WORKSHOP(test_a_box_that_does_not_come),
        IN_A_WORKSHOP(test_cpu),
        IN_A_WORKSHOP(test_disk),
        IN_A_WORKSHOP(test_one_shot_runs),
        IN_A_WORKSHOP(test_queue_is_full),
        IN_A_WORKSHOP(test_an_installer_waits_in_its_tenants_line),
        IN_A_WORKSHOP(test_counted_again),
    };

    return cmocka_run_group_tests(tests, shop_reaper, NULL);
}
