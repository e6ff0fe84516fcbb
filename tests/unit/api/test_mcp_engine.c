/*
 * test_mcp_engine.c - what MCP over HTTP asks of the engine, with a real engine and real wardens
 * (session/engine_fixture.h): calls, a conversation's own session, files, cancellation, other
 * tenants.
 */
#include "session/engine_fixture.h"

#include "api/front/auth.h"
#include "api/mcp/mcp_http_private.h"
#include "base/cleanup.h"
#include "tool/call.h"
#include "tool/tool.h"

static struct scene {
    struct engine_fixture *fixture;
    struct mcp_server *server;
    struct mcp_engine *host;
    struct mcp_peer *peer;
    struct tools *tools;
    struct auth auth;
    struct mcp_asker asker;
    char own[LIMIT_NAME + 1];
    json_t *said; /* the last message */
    unsigned count;
    bool is_closing;
} scene;

static void on_send(void *ctx, const char *message, size_t length, int kind)
{
    (void)ctx;
    (void)kind;
    json_decref(scene.said);
    scene.said = json_loadb(message, length, JSON_ALLOW_NUL, NULL);
    assert_non_null(scene.said);
    scene.count++;
}

static int on_call(void *ctx, struct mcp_work *work, const struct tool_row *tool,
                   const char *session, json_t *arguments, struct error *err)
{
    (void)ctx;
    return mcp_engine_ops.call(scene.host, &scene.asker, work, tool, session, arguments, err);
}

static int on_list(void *ctx, struct mcp_work *work, struct error *err)
{
    (void)ctx;
    return mcp_engine_ops.list(scene.host, &scene.asker, work, err);
}

static int on_read(void *ctx, struct mcp_work *work, const char *session, const char *path,
                   size_t maximum, struct error *err)
{
    (void)ctx;
    return mcp_engine_ops.read(scene.host, &scene.asker, work, session, path, maximum, err);
}

static void on_cancel(void *ctx, struct mcp_work *work)
{
    (void)ctx;
    mcp_engine_ops.cancel(scene.host, work, !scene.is_closing);
}

static const struct mcp_ops ops = {on_send, on_call, on_list, on_read, on_cancel, NULL, NULL};

static int open_scene(void **state)
{
    struct error err = {0};

    scene = (struct scene){0};
    fixture_open(state);
    scene.fixture = *state;
    scene.auth = (struct auth){.manager = scene.fixture->manager, .index = scene.fixture->index};
    scene.tools = tools_new(scene.fixture->manager, &scene.fixture->loop.reactor);
    scene.host = mcp_engine_new(scene.fixture->manager, scene.tools, &scene.auth);
    scene.asker =
        (struct mcp_asker){.caller = {.who = {.tenant = "acme", .key = "1"}}, .own = &scene.own};
    assert_int_equal(mcp_server_new(&(struct mcp_settings){.tools = tool_table,
                                                           .tool_count = tool_count,
                                                           .can_install = true},
                                    &scene.server, &err) |
                         mcp_peer_new(scene.server, &ops, NULL, &scene.peer, &err),
                     0);
    return 0;
}

static int close_scene(void **state)
{
    mcp_peer_freep(&scene.peer);
    mcp_server_freep(&scene.server);
    mcp_engine_free(scene.host);
    tools_free(scene.tools);
    json_decref(scene.said);
    return fixture_close(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_scene, close_scene)

/* ---- words ---- */

static void say(const char *method, json_t *params)
{
    CLEANUP(json_decrefp)
    json_t *message = json_pack("{s:s,s:i,s:s,s:o}", "jsonrpc", "2.0", "id", 5, "method", method,
                                "params", params);

    assert_non_null(message);
    mcp_peer_take(scene.peer, message, 1000);
}

static json_t *asked(const char *method, json_t *params)
{
    unsigned before = scene.count;

    say(method, params);
    UNTIL(scene.fixture, scene.count > before);
    return scene.said;
}

static json_t *exec_params(const char *script, const char *session)
{
    return json_pack("{s:s,s:{s:[s,s,s],s:s*},s:{s:i}}", "name", "sandbox_exec", "arguments",
                     "command", "sh", "-c", script, "session", session, "_meta", "progressToken",
                     1);
}

static const char *text_of(json_t *answer)
{
    json_t *content = json_object_get(json_object_get(answer, "result"), "content");
    const char *text = json_string_value(json_object_get(json_array_get(content, 0), "text"));

    return text ? text : "(no text)";
}

static const char *run(const char *script, const char *session)
{
    return text_of(asked("tools/call", exec_params(script, session)));
}

static json_t *read_uri(const char *session, const char *path)
{
    return asked("resources/read",
                 json_pack("{s:o}", "uri", json_sprintf("sandbox://%s/%s", session, path)));
}

static json_t *contents_of(json_t *answer)
{
    return json_array_get(json_object_get(json_object_get(answer, "result"), "contents"), 0);
}

static const char *member(json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));

    return text ? text : "(no text)";
}

/* ---- tests ---- */

static void a_conversation_goes_on_in_its_session(void **state)
{
    char first[sizeof(scene.own)];
    const char *told;

    (void)state;
    assert_non_null(strstr(run("echo one > f; echo done", NULL), "done"));
    str_copy(first, sizeof(first), scene.own);
    assert_null(strstr(text_of(scene.said), first)); /* nobody needs it */
    assert_non_null(strstr(run("cat f", NULL), "one"));
    assert_string_equal(scene.own, first);
    /* in place of one that has ended there is a new one, and that is told once */
    mcp_engine_ops.left(scene.host, &scene.asker.caller.who, NULL, first, NULL, NULL);
    UNTIL(scene.fixture, session_manager_session_count(scene.fixture->manager) == 0);
    told = run("cat f || echo none", NULL);
    assert_non_null(strstr(told, "none"));
    assert_non_null(strstr(told, "the earlier session has ended"));
    assert_string_not_equal(scene.own, first);
    assert_null(strstr(run("true", NULL), "the earlier session"));
}

static void without_a_conversation_each_call_has_its_own(void **state)
{
    (void)state;
    scene.asker.own = NULL;
    assert_non_null(strstr(run("echo one > f; echo done", NULL), "done"));
    assert_non_null(strstr(run("cat f || echo none", NULL), "none"));
    assert_int_equal(session_manager_session_count(scene.fixture->manager), 2);
    asked("resources/list", json_object());
    assert_int_equal(
        json_array_size(json_object_get(json_object_get(scene.said, "result"), "resources")), 0);
}

static void files_are_resources(void **state)
{
    json_t *read;

    (void)state;
    run("mkdir -p ../tmp/output/sub; echo a,b > ../tmp/output/sub/t.csv; echo words", NULL);
    read = contents_of(read_uri(scene.own, "sub/t.csv"));
    assert_string_equal(member(read, "text"), "a,b\n");
    assert_string_equal(member(read, "mimeType"), "text/csv");
    read = contents_of(read_uri(scene.own, "tmp/output"));
    assert_string_equal(member(read, "mimeType"), "inode/directory");
    assert_non_null(strstr(member(read, "text"), "sub/\n"));
    read = contents_of(read_uri(scene.own, ".log/1/stdout"));
    assert_string_equal(member(read, "text"), "words\n");
    read = json_object_get(read_uri(scene.own, ".log/9/stdout"), "error");
    assert_int_equal(json_integer_value(json_object_get(read, "code")), -32002);
    read = json_object_get(read_uri(scene.own, "none"), "error");
    assert_int_equal(json_integer_value(json_object_get(read, "code")), -32002);
    asked("resources/list", json_object());
    read = json_array_get(json_object_get(json_object_get(scene.said, "result"), "resources"), 0);
    assert_string_equal(member(read, "name"), "sub/t.csv");
}

static void what_was_saved_outlives_the_session(void **state)
{
    char session[sizeof(scene.own)];

    (void)state;
    run("mkdir -p ../tmp/output; echo kept > ../tmp/output/f.txt", NULL);
    str_copy(session, sizeof(session), scene.own);
    mcp_engine_ops.left(scene.host, &scene.asker.caller.who, NULL, session, NULL, NULL);
    UNTIL(scene.fixture, session_manager_session_count(scene.fixture->manager) == 0);
    assert_string_equal(member(contents_of(read_uri(session, "f.txt")), "text"), "kept\n");
    assert_non_null(json_object_get(read_uri(session, "tmp/f.txt"), "error"));
}

static struct execution *only_execution(const char *session)
{
    struct session *found;
    struct execution *execution;
    struct error err = {0};

    if (session_manager_find(scene.fixture->manager, session, &found, &err) < 0 ||
        session_find_execution(found, "1", &execution, &err) < 0)
        return NULL;
    return execution;
}

static void progress_has_the_last_line_and_cancelling_kills(void **state)
{
    struct execution *execution;
    unsigned before;

    (void)state;
    say("tools/call", exec_params("echo step one; exec sleep 1000", NULL));
    UNTIL(scene.fixture, only_execution(scene.own));
    execution = only_execution(scene.own);
    UNTIL(scene.fixture, execution_written(execution, 1) > 0);
    mcp_engine_ops.look(scene.host, scene.peer->works);
    mcp_peer_tick(scene.peer, 1000 + MCP_PROGRESS_MS);
    assert_non_null(strstr(member(json_object_get(scene.said, "params"), "message"), "step one"));
    before = scene.count;
    mcp_peer_take(scene.peer, json_object_get(scene.said, "params"),
                  2000); /* nonsense does no harm */
    assert_int_equal(scene.count, before + 1);
    {
        CLEANUP(json_decrefp)
        json_t *cancel = json_pack("{s:s,s:s,s:{s:i}}", "jsonrpc", "2.0", "method",
                                   "notifications/cancelled", "params", "requestId", 5);

        mcp_peer_take(scene.peer, cancel, 3000);
    }
    assert_null(scene.peer->works);
    UNTIL(scene.fixture, execution_has_ended(only_execution(scene.own)));
    assert_int_equal(scene.count, before + 1);
}

/* A session that was made for a call, and which only its answer would have named, goes with it. */
static void who_leaves_takes_along_what_nobody_knows(void **state)
{
    char known[ID_MAX];

    (void)state;
    run("true", NULL);
    str_copy(known, sizeof(known), scene.own);
    scene.asker.own = NULL;
    say("tools/call", exec_params("exec sleep 1000", known));
    say("tools/call", exec_params("exec sleep 1000", NULL));
    UNTIL(scene.fixture, session_manager_session_count(scene.fixture->manager) == 2);
    mcp_peer_freep(&scene.peer);
    assert_int_equal(session_manager_session_count(scene.fixture->manager), 1);
    UNTIL(scene.fixture, execution_has_ended(only_execution(known)));
    assert_int_equal(mcp_peer_new(scene.server, &ops, NULL, &scene.peer, NULL), 0);
    say("tools/call", exec_params("exec sleep 1000", NULL));
    UNTIL(scene.fixture, session_manager_session_count(scene.fixture->manager) == 2);
    scene.is_closing = true; /* a broker that goes leaves its sessions */
    mcp_peer_freep(&scene.peer);
    assert_int_equal(session_manager_session_count(scene.fixture->manager), 2);
}

static void another_tenants_session_is_as_unknown_as_none(void **state)
{
    char session[sizeof(scene.own)], real[400], never[400];
    static char other[LIMIT_NAME + 1];

    (void)state;
    run("mkdir -p ../tmp/output; echo secret > ../tmp/output/f.txt", NULL);
    str_copy(session, sizeof(session), scene.own);
    scene.asker =
        (struct mcp_asker){.caller = {.who = {.tenant = "other", .key = "2"}}, .own = &other};
    str_copy(real, sizeof(real),
             member(json_object_get(read_uri(session, "f.txt"), "error"), "message"));
    str_copy(
        never, sizeof(never),
        member(json_object_get(read_uri("s_00000000000000000000000000000000", "f.txt"), "error"),
               "message"));
    assert_int_equal(strlen(real), strlen(never)); /* but for the id */
    assert_null(strstr(run("cat ../tmp/output/f.txt", session), "secret"));
    mcp_engine_ops.left(scene.host, &scene.asker.caller.who, NULL, session, NULL,
                        NULL); /* not its to end */
    assert_int_equal(session_manager_session_count(scene.fixture->manager), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_conversation_goes_on_in_its_session),
        TEST(without_a_conversation_each_call_has_its_own),
        TEST(files_are_resources),
        TEST(what_was_saved_outlives_the_session),
        TEST(progress_has_the_last_line_and_cancelling_kills),
        TEST(who_leaves_takes_along_what_nobody_knows),
        TEST(another_tenants_session_is_as_unknown_as_none),
    };

    return cmocka_run_group_tests(tests, fixture_reaper, NULL);
}
