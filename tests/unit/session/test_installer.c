/*
 * test_installer.c - installations, templates and what nothing names any more, with a box that is a
 * plain process and a script in the place of Python.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/stat.h>

#include "engine_fixture.h"
#include "session/install_job.h"
#include "session/installer.h"
#include "session/layers.h"
#include "session/template.h"

#define ONE "1111111111111111111111111111111111111111111111111111111111111111"
#define TWO "2222222222222222222222222222222222222222222222222222222222222222"

/* What the launcher would do with the folder. */
static struct {
    struct engine_fixture *fixture;
    const char *layer; /* that comes out; NULL: committing fails */
    uint64_t bytes;
    unsigned layer_committed, discarded;
} press;

static struct provider_ops ops;

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(scratch_path(&press.fixture->scratch, name), "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static bool exists(const char *name)
{
    struct stat status;

    return lstat(scratch_path(&press.fixture->scratch, name), &status) == 0;
}

static void make_layer(const char *layer, const char *module)
{
    char name[128];

    snprintf(name, sizeof(name), "layers/%s/pkg", layer);
    scratch_folder(&press.fixture->scratch, name);
    snprintf(name, sizeof(name), "layers/%s/pkg/%s", layer, module);
    write_file(name, "x = 1\n");
}

static void commit_layer(struct provider *provider, const char *key,
                         void (*done)(void *ctx, const struct layer_committed *layer_committed,
                                      const struct error *err),
                         void *ctx)
{
    struct layer_committed layer_committed = {.bytes = press.bytes, .files = 1};
    struct error err = {0};

    (void)provider;
    assert_true(str_starts(key, "i_"));
    press.layer_committed++;
    if (!press.layer) {
        error_set(&err, -EIO, ERROR_ENGINE, "it does not close");
        done(ctx, &layer_committed, &err);
        return;
    }
    make_layer(press.layer, press.layer[0] == '1' ? "one.py" : "two.py");
    str_copy(layer_committed.layer, sizeof(layer_committed.layer), press.layer);
    done(ctx, &layer_committed, &err);
}

static void discard(struct provider *provider, const char *key, bool is_packages)
{
    (void)provider;
    (void)key;
    assert_false(is_packages);
    press.discarded++;
}

/* What install.py would say, by what is asked for. */
static const char script[] =
    "#!/bin/sh\n"
    "order=$(cat install.json)\n"
    "case $5$order in\n"
    "finish*later*) echo 'it breaks' >&2; exit 1 ;;\n"
    "*later*) echo '{\"python\":\"3.11.1\",\"packages\":[]}' ;;\n"
    "finish*) echo '{\"python\":\"9\",\"packages\":[{\"name\":\"A\",\"version\":\"1\"},"
    "{\"name\":\"lie\",\"version\":\"1\"}]}' ;;\n"
    "*good*) echo 'first line' >&2; printf 'second' >&2\n"
    "  echo '{\"python\":\"3.11.1\",\"packages\":[{\"name\":\"Good\",\"version\":\"1.0\"},"
    "{\"name\":\"odd name\",\"version\":\"1\"},7]}' ;;\n"
    "*away*) echo '{\"error\":{\"code\":\"no_network\",\"message\":\"nobody there\"}}'; exit 1 ;;\n"
    "*odd*) echo 'the reason' >&2; echo '{{{' ;;\n"
    "*forged*) echo '{\"error\":{\"code\":\"refused\",\"message\":\"x\"}}' ;;\n"
    "*silent*) exit 3 ;;\n"
    "*slow*) echo begun >&2; exec sleep 1000 ;;\n"
    "esac\n";

static int open_fixture(void **state)
{
    struct engine_fixture *fixture;

    fixture_open(state);
    fixture = *state;
    memset(&press, 0, sizeof(press));
    press.fixture = fixture;
    press.layer = ONE;
    press.bytes = 100;
    write_file("python", script);
    chmod(scratch_path(&fixture->scratch, "python"), 0755);
    fixture->languages[1].program = strdup(scratch_path(&fixture->scratch, "python"));
    fixture->languages[1].fingerprint = "f1";
    ops = fixture_ops;
    ops.commit_layer = commit_layer;
    ops.discard = discard;
    fixture->provider.ops = &ops;
    return 0;
}

static int close_fixture(void **state)
{
    struct engine_fixture *fixture = *state;

    free((char *)fixture->languages[1].program);
    return fixture_close(state);
}

/* ---- somebody who waits ---- */

struct told {
    unsigned done;
    struct error err;
    struct install_end end;
    size_t packages;
    char lines[200];
};

static void on_progress(void *ctx, const char *line)
{
    struct told *told = ctx;

    strncat(told->lines, line, sizeof(told->lines) - strlen(told->lines) - 2);
    strcat(told->lines, "|");
}

static void on_done(void *ctx, const struct install_end *end, const struct error *err)
{
    struct told *told = ctx;

    told->done++;
    told->err = *err;
    assert_int_equal(end == NULL, err->num < 0);
    if (end) {
        told->end = *end;
        told->packages = json_array_size(end->packages);
    }
}

static const struct install_events events = {.progress = on_progress, .done = on_done};

static struct installation *start(struct engine_fixture *fixture, struct told *told,
                                  const char *requirements)
{
    struct install_spec spec = {.requirements = requirements};
    struct installation *installation;
    struct error err = {0};

    *told = (struct told){0};
    if (installer_start(fixture->manager, &spec, &events, told, &installation, &err) < 0)
        fail_msg("%s", err.text);
    return installation;
}

static void install(struct engine_fixture *fixture, struct told *told, const char *requirements)
{
    start(fixture, told, requirements);
    UNTIL(fixture, told->done);
    UNTIL(fixture, session_manager_is_idle(fixture->manager));
}

/* ---- installations ---- */

static void test_good(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told;

    start(fixture, &told, "good");
    assert_false(session_manager_is_idle(fixture->manager));
    UNTIL(fixture, told.done);
    assert_int_equal(told.err.num, 0);
    assert_string_equal(told.end.layer, ONE);
    /* What is no name of a package is passed over, and so is what the second box says. */
    assert_int_equal(told.packages, 1);
    assert_int_equal(fixture->made, 2);
    assert_false(told.end.was_there);
    assert_string_equal(told.lines, "first line|second|");
    assert_int_equal(press.discarded, 0);
    UNTIL(fixture, !exists("layers/" ONE)); /* nobody kept it */
    assert_false(exists("layers/" ONE ".json"));
}

static void test_two_are_one(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told[3];

    start(fixture, &told[0], "good");
    start(fixture, &told[1], "good");
    start(fixture, &told[2], "good too");
    UNTIL(fixture, told[0].done && told[1].done && told[2].done);
    assert_int_equal(fixture->made, 4); /* a box that fetches, and one that finishes */
    assert_string_equal(told[1].end.layer, ONE);
}

/* What was fetched is thrown away when it cannot be finished. */
static void test_fails_when_it_is_finished(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told;

    start(fixture, &told, "later");
    UNTIL(fixture, told.done);
    assert_string_equal(told.err.code, ERROR_INSTALL_FAILED);
    assert_string_equal(told.err.text, "it breaks");
    assert_int_equal(fixture->made, 2);
    assert_int_equal(press.discarded, 1);
    assert_int_equal(press.layer_committed, 0);
    UNTIL(fixture, session_manager_is_idle(fixture->manager));
}

static void test_cancel(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told[2];
    struct installation *first = start(fixture, &told[0], "slow");
    struct installation *second = start(fixture, &told[1], "slow");

    UNTIL(fixture, told[0].lines[0] && told[1].lines[0]);
    installer_cancel(first);
    assert_false(session_manager_is_idle(fixture->manager)); /* the other one still waits */
    installer_cancel(second);
    UNTIL(fixture, session_manager_is_idle(fixture->manager));
    assert_int_equal(told[0].done + told[1].done, 0);
    assert_int_equal(press.discarded, 1);
    assert_int_equal(press.layer_committed, 0);
    assert_null(fixture_find(fixture, 1));
}

static void test_cancel_before_the_box(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told;
    struct installation *installation;

    fixture->holds[ASK_MAKE] = true;
    installation = start(fixture, &told, "good");
    installer_cancel(installation);
    UNTIL(fixture, session_manager_is_idle(fixture->manager));
    assert_int_equal(told.done, 0);
    assert_int_equal(fixture->cancelled, 1);
}

static void fails(struct engine_fixture *fixture, const char *requirements, const char *code,
                  const char *text)
{
    struct told told;

    install(fixture, &told, requirements);
    assert_true(told.err.num < 0);
    assert_ptr_equal(told.err.code, code);
    if (!strstr(told.err.text, text))
        fail_msg("'%s' does not say '%s'", told.err.text, text);
}

static void test_failures(void **state)
{
    struct engine_fixture *fixture = *state;

    fails(fixture, "away", ERROR_NO_NETWORK, "nobody there");
    fails(fixture, "odd", ERROR_INSTALL_FAILED, "the reason");
    fails(fixture, "forged", ERROR_INSTALL_FAILED, "x"); /* no word of ours by the box's choice */
    fails(fixture, "silent", ERROR_INSTALL_FAILED, "");
    assert_int_equal(press.discarded, 4);
    fixture->refuses = true;
    fails(fixture, "good", ERROR_REFUSED, "too weak");
    fixture->refuses = false;
    press.layer = NULL;
    fails(fixture, "good", ERROR_ENGINE, "it does not close");
    press.layer = ONE;
    press.bytes = 2 * GIB;
    fails(fixture, "good", ERROR_TOO_LARGE, "1024 MB");
    UNTIL(fixture, !exists("layers/" ONE));
    fixture->oom_kills = 1;
    fails(fixture, "silent", ERROR_INSTALL_FAILED, "more memory");
}

/* Looks at the size of "slow" until that ends it; returns how many looks that took, at most 9. */
static unsigned looks_until_over(struct install_job *job)
{
    unsigned looks = 0;

    while (looks < 9 && !job->err.code) {
        job_look_at_size(job);
        looks++;
    }
    return looks;
}

static void in_building(char name[300], const struct install_job *job, const char *below)
{
    snprintf(name, 300, "layers/" LAYER_BUILDING "%s%s", job->key, below);
}

/*
 * What other programs write to the disk is not the installation's, also while a part of it cannot
 * be looked into. Here another one writes more than is allowed beside it.
 */
static void test_other_writers_of_the_disk_do_not_count(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told;
    struct installation *installation = start(fixture, &told, "slow");
    struct install_job *job = installation->job;
    static const char text[MIB];
    const char *path = scratch_path(&fixture->scratch, "other");
    char name[300];
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    UNTIL(fixture, told.lines[0]);
    job->bytes_max = MIB / 2;
    job_look_at_size(job); /* its folder is not there */
    assert_null(job->err.code);
    in_building(name, job, "");
    scratch_folder(&fixture->scratch, name);
    for (int depth = 0; depth <= 65; depth++) { /* deeper than it looks */
        strncat(name, "/d", sizeof(name) - strlen(name) - 1);
        scratch_folder(&fixture->scratch, name);
    }
    job_look_at_size(job);
    assert_null(job->err.code);
    assert_int_equal(write(fd, text, sizeof(text)), (ssize_t)sizeof(text));
    assert_int_equal(fsync(fd), 0);
    close(fd);
    job_look_at_size(job);
    assert_null(job->err.code);
    installer_cancel(installation);
    UNTIL(fixture, session_manager_is_idle(fixture->manager));
}

/* A folder that stays hidden ends the installation; one that is hidden for a moment does not. */
static void test_what_stays_hidden_is_refused(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told;
    struct installation *installation = start(fixture, &told, "slow");
    struct install_job *job = installation->job;
    char name[300];

    UNTIL(fixture, told.lines[0]);
    in_building(name, job, "");
    for (int depth = 0; depth <= 65; depth++) { /* the deepest is one too deep */
        scratch_folder(&fixture->scratch, name);
        strncat(name, "/d", sizeof(name) - strlen(name) - 1);
    }
    job_look_at_size(job);
    job_look_at_size(job);
    assert_null(job->err.code);
    name[strlen(name) - strlen("/d")] = '\0'; /* the deepest that was made */
    assert_int_equal(rmdir(scratch_path(&fixture->scratch, name)), 0);
    job_look_at_size(job); /* all of it can be seen now */
    assert_null(job->err.code);
    scratch_folder(&fixture->scratch, name);
    assert_int_equal(looks_until_over(job), 3);
    assert_ptr_equal(job->err.code, ERROR_INSTALL_FAILED);
    assert_non_null(strstr(job->err.text, "cannot be measured"));
    UNTIL(fixture, told.done);
}

static void test_refused_at_once(void **state)
{
    struct engine_fixture *fixture = *state;
    struct install_spec spec = {.requirements = "good"};
    struct installation *installation;
    struct told told = {0};
    struct error err = {0};

    fixture->refuses_now = true;
    assert_true(installer_start(fixture->manager, &spec, &events, &told, &installation, &err) < 0);
    ops.commit_layer = NULL;
    fixture->refuses_now = false;
    err = (struct error){0};
    assert_true(installer_start(fixture->manager, &spec, &events, &told, &installation, &err) < 0);
    assert_ptr_equal(err.code, ERROR_INSTALL_FAILED);
    assert_true(session_manager_is_idle(fixture->manager));
    assert_int_equal(told.done, 0);
}

static void test_freed_under_way(void **state)
{
    struct engine_fixture *fixture = *state;
    struct told told[2];

    start(fixture, &told[0], "slow");
    UNTIL(fixture, told[0].lines[0]);
    scratch_folder(&fixture->scratch, "layers/.build-i_0");
    fixture->holds[ASK_MAKE] = true;
    start(fixture, &told[1], "good");
    fixture_crash(fixture);
    fixture->holds[ASK_MAKE] = false;
    fixture_begin(fixture); /* the next broker ends the box, and has the folder taken away */
    UNTIL(fixture, !fixture_find(fixture, 1));
    assert_int_equal(press.discarded, 1);
    assert_int_equal(told[0].done + told[1].done, 0);
}

/* ---- into a session ---- */

static void test_session(void **state)
{
    static const char *const good[] = {"good", NULL}, *const more[] = {"good==2", "other", NULL};
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, "s");
    struct installation *installation;
    struct told told = {0};
    struct error err = {0};
    char name[128], id[ID_MAX];
    json_t *json;

    str_copy(id, sizeof(id), session_id(session));
    assert_int_equal(session_install(session, NULL, good, &events, &told, &installation, &err), 0);
    UNTIL(fixture, told.done);
    assert_int_equal(told.err.num, 0);
    snprintf(name, sizeof(name), "packages/%s/pkg/one.py", id);
    assert_true(exists(name));
    press.layer = TWO;
    told = (struct told){0};
    assert_int_equal(session_install(session, NULL, more, &events, &told, &installation, &err), 0);
    UNTIL(fixture, told.done);
    assert_false(exists(name)); /* the folder is as the newest layer is */
    snprintf(name, sizeof(name), "packages/%s/pkg/two.py", id);
    assert_true(exists(name));
    UNTIL(fixture, !exists("layers/" ONE));
    assert_true(exists("layers/" TWO));
    fixture_crash(fixture);
    fixture->generation++;
    fixture_begin(fixture);
    UNTIL(fixture, fixture->is_ready);
    assert_int_equal(session_manager_find(fixture->manager, id, &session, &err), 0);
    json = session_packages_json(session);
    assert_int_equal(json_array_size(json), 1);
    json_decref(json);
    assert_true(exists("layers/" TWO));
    session_end(session, "deleted", NULL, NULL);
    UNTIL(fixture, !exists("layers/" TWO) && !exists(name));
}

static void test_session_refused(void **state)
{
    static const char *const wrong[] = {"--index-url=x", NULL}, *const nothing[] = {NULL};
    static const char *const refused_before[] = {"Good_", NULL}, *const bad[] = {"g.o-od", NULL};
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct installation *installation;
    struct told told = {0};
    struct error err = {0};

    assert_true(session_install(session, NULL, wrong, &events, &told, &installation, &err) < 0);
    assert_ptr_equal(err.code, ERROR_BAD_INPUT);
    assert_true(session_install(session, NULL, nothing, &events, &told, &installation, &err) < 0);
    assert_true(
        session_install(session, NULL, refused_before, &events, &told, &installation, &err) < 0);
    strv_free(fixture->config.install_deny);
    fixture->config.install_deny = strv_new();
    strv_push(&fixture->config.install_deny, "G_O.OD");
    assert_true(session_install(session, NULL, bad, &events, &told, &installation, &err) < 0);
    assert_ptr_equal(err.code, ERROR_INSTALL_DENIED);
    assert_int_equal(told.done, 0);
}

static void test_session_ends_meanwhile(void **state)
{
    static const char *const slow[] = {"slow", NULL};
    struct engine_fixture *fixture = *state;
    struct session *session = fixture_session(fixture, NULL);
    struct installation *installation;
    struct told told = {0};
    struct error err = {0};

    assert_int_equal(session_install(session, NULL, slow, &events, &told, &installation, &err), 0);
    UNTIL(fixture, told.lines[0]);
    session_end(session, "deleted", NULL, NULL);
    UNTIL(fixture, told.done);
    assert_ptr_equal(told.err.code, ERROR_SESSION_ENDED);
    UNTIL(fixture, session_manager_is_idle(fixture->manager));
}

static void test_session_one_after_the_other(void **state)
{
    static const char *const slow[] = {"slow", NULL}, *const good[] = {"good", NULL};
    struct session *session = fixture_session(*state, NULL);
    struct installation *first, *second;
    struct told told[2] = {0};

    assert_int_equal(session_install(session, NULL, slow, &events, &told[0], &first, NULL), 0);
    assert_int_equal(session_install(session, NULL, good, &events, &told[1], &second, NULL), 0);
    installer_cancel(first);
    UNTIL(press.fixture, told[1].done && told[1].err.num == 0);
}

static void test_not_too_many(void **state)
{
    static const char *const words[LIMIT_INSTALLS] = {"slow1", "slow2", "slow3", "slow4"};
    struct install_spec spec = {.requirements = "x"};
    struct installation *installation;
    struct told told[LIMIT_INSTALLS];
    struct error err = {0};

    for (int i = 0; i < LIMIT_INSTALLS; i++)
        start(*state, &told[i], words[i]);
    assert_int_equal(
        installer_start(press.fixture->manager, &spec, &events, told, &installation, &err),
        -EAGAIN);
    assert_ptr_equal(err.code, ERROR_INSTALL_FAILED);
}

/* ---- templates ---- */

struct built {
    unsigned done;
    struct error err;
    char layer[65];
};

static void on_built(void *ctx, json_t *template, const struct error *err)
{
    struct built *built = ctx;

    built->done++;
    built->err = *err;
    if (template)
        str_copy(built->layer, sizeof(built->layer),
                 json_string_value(json_object_get(template, "layer")));
}

static void build(struct engine_fixture *fixture, struct built *built, const char *text)
{
    static const struct template_build_events build_events = {.done = on_built};
    json_t *body = json_loads(text, 0, NULL);
    struct template_build *handle;
    struct error err = {0};

    *built = (struct built){0};
    assert_non_null(body);
    if (template_build(fixture->manager, body, &build_events, built, &handle, &err) < 0)
        fail_msg("%s", err.text);
    json_decref(body);
    UNTIL(fixture, built->done);
    UNTIL(fixture, session_manager_is_idle(fixture->manager));
}

#define GOOD                                                                                 \
    "{\"name\":\"mine\",\"packages\":[\"good\"],\"env\":{\"A\":\"b\"},\"tiers\":[{\"name\":" \
    "\"core\","                                                                              \
    "\"modules\":[\"numpy\"]},{\"name\":\"all\",\"modules\":[\"sklearn\"]}]}"

static void test_template(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session_template found;
    struct built built;
    struct error err = {0};

    build(fixture, &built, GOOD);
    assert_int_equal(built.err.num, 0);
    assert_string_equal(built.layer, ONE);
    assert_true(exists("templates/mine.json") && exists("layers/" ONE ".tiers"));
    for (int i = 0; i < 2; i++) { /* and the next broker knows it too */
        assert_int_equal(session_manager_template(fixture->manager, "mine", &found, &err), 0);
        assert_string_equal(found.layer, ONE);
        assert_string_equal(found.env[0], "A=b");
        assert_int_equal(found.tier_count, 3);
        assert_string_equal(found.tier_names[1], "all");
        assert_int_equal(session_manager_tier(fixture->manager, &found, "import os", 9), 0);
        assert_int_equal(session_manager_tier(fixture->manager, &found, "import numpy", 12), 1);
        assert_int_equal(session_manager_tier(fixture->manager, &found, "import sklearn", 14), 2);
        fixture_crash(fixture);
        fixture_begin(fixture);
    }
    assert_true(exists("layers/" ONE));
    fixture->languages[1].fingerprint = "f2";
    assert_true(session_manager_template(fixture->manager, "mine", &found, &err) < 0);
    assert_ptr_equal(err.code, ERROR_TEMPLATE_NOT_BUILT);
    assert_non_null(strstr(err.text, "another Python"));
}

static void test_template_not_there(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session_template found;
    struct error err = {0};

    assert_int_equal(session_manager_template(fixture->manager, NULL, &found, &err), 0);
    assert_string_equal(found.name, "python");
    assert_null(found.layer);
    assert_int_equal(found.tier_count, 1);
    assert_int_equal(session_manager_tier(fixture->manager, &found, "import numpy", 12), 0);
    assert_true(session_manager_template(fixture->manager, "data", &found, &err) < 0);
    assert_ptr_equal(err.code, ERROR_TEMPLATE_NOT_BUILT);
    assert_true(session_manager_template(fixture->manager, "dta", &found, &err) < 0);
    assert_ptr_equal(err.code, ERROR_TEMPLATE_NOT_FOUND);
    assert_non_null(strstr(err.text, "did you mean 'data'?"));
}

static void test_template_that_fails_changes_nothing(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session_template found;
    struct built built;
    struct error err = {0};

    build(fixture, &built, GOOD);
    build(fixture, &built, "{\"name\":\"mine\",\"packages\":[\"away\"]}");
    assert_ptr_equal(built.err.code, ERROR_NO_NETWORK);
    assert_int_equal(session_manager_template(fixture->manager, "mine", &found, &err), 0);
    assert_true(exists("layers/" ONE));
}

/* A hostile or broken record is no template, and takes nobody else's with it. */
static void test_records_that_make_no_sense(void **state)
{
    struct engine_fixture *fixture = *state;
    struct session_template found;
    struct error err = {0};

    write_file("templates/a.json", "{\"name\":\"a\",\"layer\":\"../../etc\"}");
    write_file("templates/b.json", "{\"name\":\"../b\",\"layer\":\"" ONE "\"}");
    write_file("templates/c.json", "{{");
    write_file("templates/d.json", "{\"name\":\"d\",\"layer\":\"" ONE "\",\"tiers\":[1]}");
    write_file("templates/e.json", "{\"name\":\"e\",\"layer\":\"" ONE "\"}");
    make_layer(ONE, "one.py");
    fixture_crash(fixture);
    fixture_begin(fixture);
    assert_int_equal(session_manager_template(fixture->manager, "e", &found, &err), 0);
    for (const char *name = "abcd"; *name; name++) {
        char word[2] = {*name, '\0'};

        assert_true(session_manager_template(fixture->manager, word, &found, &err) < 0);
    }
}

static void test_collected(void **state)
{
    struct engine_fixture *fixture = *state;
    struct built built;
    struct error err = {0};

    build(fixture, &built, GOOD);
    make_layer(TWO, "two.py");
    write_file("layers/" TWO ".json", "{}");
    write_file("layers/" TWO ".manifest", "");
    write_file("layers/something-else", "");
    layers_collect(fixture->manager);
    assert_false(exists("layers/" TWO) || exists("layers/" TWO ".json") ||
                 exists("layers/" TWO ".manifest"));
    assert_true(exists("layers/" ONE) && exists("layers/something-else"));
    assert_int_equal(template_remove(fixture->manager, "mine", &err), 0);
    assert_false(exists("layers/" ONE) || exists("layers/" ONE ".json") ||
                 exists("templates/mine.json"));
    UNTIL(fixture, !exists("layers/.gone-0"));
    assert_true(template_remove(fixture->manager, "mine", &err) < 0);
    assert_ptr_equal(err.code, ERROR_TEMPLATE_NOT_FOUND);
    assert_true(template_remove(fixture->manager, "data", &err) < 0);
    assert_ptr_equal(err.code, ERROR_TEMPLATE_NOT_BUILT);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, open_fixture, close_fixture)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        HERE(test_good),
        HERE(test_two_are_one),
        HERE(test_fails_when_it_is_finished),
        HERE(test_cancel),
        HERE(test_cancel_before_the_box),
        HERE(test_failures),
        HERE(test_other_writers_of_the_disk_do_not_count),
        HERE(test_what_stays_hidden_is_refused),
        HERE(test_refused_at_once),
        HERE(test_freed_under_way),
        HERE(test_session),
        HERE(test_session_refused),
        HERE(test_session_ends_meanwhile),
        HERE(test_session_one_after_the_other),
        HERE(test_not_too_many),
        HERE(test_template),
        HERE(test_template_not_there),
        HERE(test_template_that_fails_changes_nothing),
        HERE(test_records_that_make_no_sense),
        HERE(test_collected),
    };

    return cmocka_run_group_tests(tests, fixture_reaper, NULL);
}
