/* test_index.c - what is put into the index comes out of it again, in order, after a restart too.
 */
#include "place.h"

#include <errno.h>

#include "base/limits.h"
#include "base/str.h"

static void reopen(struct place *place)
{
    index_close(place->index);
    place->index = NULL;
    open_index(place);
}

static void put_session(struct place *place, const char *id, uint64_t created, uint64_t ended)
{
    struct index_session session = {.env = "{}", .created_ms = created, .ended_ms = ended};
    struct error err = {0};

    str_copy(session.id, sizeof(session.id), id);
    if (index_put_session(place->index, &session, &err) < 0)
        fail_msg("%s", err.text);
}

/* The ids in the order of the calls, with a blank behind each. */
static void add_id(void *ctx, const struct index_session *session)
{
    char *text = ctx;
    size_t length = strlen(text);

    snprintf(text + length, 256 - length, "%s ", session->id);
}

static void assert_sessions(struct place *place, const char *expected)
{
    char text[256] = "";

    assert_int_equal(index_each_session(place->index, add_id, text, NULL), 0);
    assert_string_equal(text, expected);
}

static void add_number(void *ctx, const struct index_execution *execution)
{
    char *text = ctx;
    size_t length = strlen(text);

    snprintf(text + length, 256 - length, "%u ", execution->number);
}

static void add_name(void *ctx, const struct index_file *file)
{
    char *text = ctx;
    size_t length = strlen(text);

    snprintf(text + length, 256 - length, "%s:%d:%llu ", file->name, file->is_fetched,
             (unsigned long long)file->bytes);
}

/* ---- sessions --------------------------------------------------------------------------------
 */

static void check_session(void *ctx, const struct index_session *session)
{
    (*(int *)ctx)++;
    assert_string_equal(session->id, "ses_1");
    assert_string_equal(session->name, "na\"me'; DROP TABLE session; --");
    assert_string_equal(session->env, "{}"); /* it has ended */
    assert_int_equal(session->created_ms, 1);
    assert_int_equal(session->used_ms, 2);
    assert_true(session->expires_ms == UINT64_MAX);
    assert_int_equal(session->idle_ms, 4);
    assert_true(session->next_execution == UINT32_MAX);
    assert_true(session->has_box);
    assert_int_equal(session->ended_ms, 6);
    assert_string_equal(session->reason, "idle");
}

static void test_session_comes_back(void **state)
{
    struct place *place = *state;
    struct index_session session = {.id = "ses_1",
                                    .name = "na\"me'; DROP TABLE session; --",
                                    .env = "{\"A\":\"\xc3\xa9\"}",
                                    .created_ms = 1,
                                    .used_ms = 2,
                                    .expires_ms = UINT64_MAX,
                                    .idle_ms = 4,
                                    .next_execution = UINT32_MAX,
                                    .has_box = true,
                                    .ended_ms = 6,
                                    .reason = "idle"};
    int count = 0;

    assert_int_equal(index_put_session(place->index, &session, NULL), 0);
    assert_int_equal(index_each_session(place->index, check_session, &count, NULL), 0);
    reopen(place);
    assert_int_equal(index_each_session(place->index, check_session, &count, NULL), 0);
    assert_int_equal(count, 2);
}

static void check_bare(void *ctx, const struct index_session *session)
{
    (*(int *)ctx)++;
    assert_null(session->name);
    assert_null(session->reason);
    assert_string_equal(session->env, "{}");
}

static void check_env(void *ctx, const struct index_session *session)
{
    assert_string_equal(session->env, ctx);
}

static void test_the_environment_is_stored_until_the_end(void **state)
{
    static char env[] = "{\"A\":\"\xc3\xa9\"}", none[] = "{}";
    struct index_session session = {.id = "ses_1", .env = env, .created_ms = 1};
    struct place *place = *state;
    struct error err = {0};

    assert_int_equal(index_put_session(place->index, &session, &err), 0);
    assert_int_equal(index_forget(place->index, &err), 0);
    assert_int_equal(index_each_session(place->index, check_env, env, &err), 0);
    session.ended_ms = 2;
    assert_int_equal(index_put_session(place->index, &session, &err), 0);
    assert_int_equal(index_forget(place->index, &err), 0);
    assert_int_equal(index_each_session(place->index, check_env, none, &err), 0);
}

static void test_none_is_not_empty(void **state)
{
    struct place *place = *state;
    int count = 0;

    put_session(place, "ses_1", 1, 0);
    assert_int_equal(index_each_session(place->index, check_bare, &count, NULL), 0);
    assert_int_equal(count, 1);
}

static void test_sessions_oldest_first(void **state)
{
    struct place *place = *state;

    put_session(place, "c", 30, 0);
    put_session(place, "a", 20, 0);
    put_session(place, "b", 10, 0);
    assert_sessions(place, "b a c ");
    reopen(place);
    assert_sessions(place, "b a c ");
}

static void test_a_session_put_again_keeps_what_it_has(void **state)
{
    struct place *place = *state;
    struct index_execution execution = {.session = "a", .number = 1, .argv = "[]"};
    struct index_file file = {.session = "a", .kind = 'o', .name = "f"};
    char text[256] = "";

    put_session(place, "a", 1, 0);
    assert_int_equal(index_put_execution(place->index, &execution, NULL), 0);
    assert_int_equal(index_put_file(place->index, &file, NULL), 0);
    put_session(place, "a", 1, 9);
    assert_int_equal(index_each_execution(place->index, "a", add_number, text, NULL), 0);
    assert_int_equal(index_each_file(place->index, "a", 'o', add_name, text, NULL), 0);
    assert_string_equal(text, "1 f:0:0 ");
}

static void test_prune_drops_the_oldest_ended_with_their_rows(void **state)
{
    struct place *place = *state;
    struct index_execution execution = {.session = "old", .number = 1, .argv = "[]"};
    struct index_file file = {.session = "old", .kind = 'd', .name = "f"};
    char text[256] = "";

    put_session(place, "old", 1, 100);
    put_session(place, "live", 2, 0);
    put_session(place, "mid", 3, 200);
    put_session(place, "new", 4, 300);
    assert_int_equal(index_put_execution(place->index, &execution, NULL), 0);
    assert_int_equal(index_put_file(place->index, &file, NULL), 0);
    assert_int_equal(index_prune(place->index, 3, NULL), 0);
    assert_sessions(place, "old live mid new ");
    assert_int_equal(index_prune(place->index, 2, NULL), 0);
    assert_sessions(place, "live mid new ");
    assert_int_equal(index_each_execution(place->index, "old", add_number, text, NULL), 0);
    assert_int_equal(index_each_file(place->index, "old", 'd', add_name, text, NULL), 0);
    assert_string_equal(text, "");
    assert_int_equal(index_prune(place->index, 0, NULL), 0);
    assert_sessions(place, "live ");
}

/* ---- executions and files ---------------------------------------------------------------------
 */

static void check_execution(void *ctx, const struct index_execution *execution)
{
    (*(int *)ctx)++;
    assert_string_equal(execution->session, "a");
    assert_int_equal(execution->number, 7);
    assert_string_equal(execution->argv, "[\"true\"]");
    assert_int_equal(execution->started_ms, 1);
    assert_int_equal(execution->deadline_ms, 2);
    assert_true(execution->flags == 0x80000001);
    assert_int_equal(execution->ended_ms, 3);
    assert_int_equal(execution->exit_code, -1);
    assert_int_equal(execution->signal, 9);
    assert_true(execution->duration_ns == 5000000000);
    assert_int_equal(execution->out_bytes, 6);
    assert_int_equal(execution->err_bytes, 7);
    assert_string_equal(execution->error_code, "box_lost");
    assert_string_equal(execution->error_text, "gone");
    assert_int_equal(execution->cpu_us, 8);
    assert_int_equal(execution->max_rss_bytes, 9);
}

static void test_execution_comes_back(void **state)
{
    struct place *place = *state;
    struct index_execution execution = {.session = "a", .number = 7, .argv = "[\"false\"]"};
    int count = 0;

    put_session(place, "a", 1, 0);
    assert_int_equal(index_put_execution(place->index, &execution, NULL), 0);
    execution = (struct index_execution){.session = "a",
                                         .number = 7,
                                         .argv = "[\"true\"]",
                                         .started_ms = 1,
                                         .deadline_ms = 2,
                                         .flags = 0x80000001,
                                         .ended_ms = 3,
                                         .exit_code = -1,
                                         .signal = 9,
                                         .duration_ns = 5000000000,
                                         .out_bytes = 6,
                                         .err_bytes = 7,
                                         .error_code = "box_lost",
                                         .error_text = "gone",
                                         .cpu_us = 8,
                                         .max_rss_bytes = 9};
    assert_int_equal(index_put_execution(place->index, &execution, NULL), 0);
    assert_int_equal(index_each_execution(place->index, "a", check_execution, &count, NULL), 0);
    reopen(place);
    assert_int_equal(index_each_execution(place->index, "a", check_execution, &count, NULL), 0);
    assert_int_equal(count, 2);
}

static void test_words_of_one_execution(void **state)
{
    struct place *place = *state;
    struct index_execution execution = {.session = "a", .number = 7, .argv = "[\"false\"]"};
    char *argv;

    put_session(place, "a", 1, 0);
    assert_int_equal(index_put_execution(place->index, &execution, NULL), 0);
    argv = index_read_argv(place->index, "a", 7);
    assert_string_equal(argv, "[\"false\"]");
    free(argv);
    assert_null(index_read_argv(place->index, "a", 8));
    assert_null(index_read_argv(place->index, "b", 7));
}

static void test_executions_of_one_session_by_number(void **state)
{
    static const uint32_t numbers[] = {10, 2, 1};
    struct place *place = *state;
    char text[256] = "";

    put_session(place, "a", 1, 0);
    put_session(place, "b", 1, 0);
    for (size_t i = 0; i < 3; i++) {
        struct index_execution execution = {.session = "a", .number = numbers[i]};

        assert_int_equal(index_put_execution(place->index, &execution, NULL), 0);
        str_copy(execution.session, sizeof(execution.session), "b");
        assert_int_equal(index_put_execution(place->index, &execution, NULL), 0);
    }
    assert_int_equal(index_each_execution(place->index, "a", add_number, text, NULL), 0);
    assert_string_equal(text, "1 2 10 ");
}

static void test_old_ended_executions_make_room(void **state)
{
    struct place *place = *state;
    struct index_execution execution = {.session = "a", .number = 1, .ended_ms = 5};
    char text[256] = "";

    put_session(place, "a", 1, 0);
    assert_int_equal(index_put_execution(place->index, &execution, NULL), 0);
    execution.number = 2;
    execution.ended_ms = 0; /* it runs: it stays */
    assert_int_equal(index_put_execution(place->index, &execution, NULL), 0);
    execution.number = 3;
    execution.ended_ms = 5;
    assert_int_equal(index_put_execution(place->index, &execution, NULL), 0);
    execution.number = LIMIT_EXECUTIONS + 2;
    assert_int_equal(index_put_execution(place->index, &execution, NULL), 0);
    assert_int_equal(index_each_execution(place->index, "a", add_number, text, NULL), 0);
    assert_string_equal(text, "2 3 1002 ");
}

static void test_rows_need_their_session(void **state)
{
    struct place *place = *state;
    struct index_execution execution = {.session = "a", .number = LIMIT_EXECUTIONS + 2};
    struct index_file file = {.session = "a", .kind = 'o', .name = "f"};
    struct error err = {0};

    assert_int_equal(index_put_execution(place->index, &execution, &err), -ENOENT);
    assert_non_null(strstr(err.text, "no such session"));
    assert_int_equal(index_put_file(place->index, &file, NULL), -ENOENT);
    /* The failed transaction is over. */
    put_session(place, "a", 1, 0);
    assert_int_equal(index_put_execution(place->index, &execution, NULL), 0);
    assert_int_equal(index_put_file(place->index, &file, NULL), 0);
}

static void test_files_by_kind_and_name(void **state)
{
    struct place *place = *state;
    struct index_file file = {.session = "a", .kind = 'o', .name = "z/\xff.csv", .bytes = 1};
    char text[256] = "";

    put_session(place, "a", 1, 0);
    assert_int_equal(index_put_file(place->index, &file, NULL), 0);
    file.name = "b.png";
    file.bytes = UINT64_MAX;
    assert_int_equal(index_put_file(place->index, &file, NULL), 0);
    file.kind = 'd';
    assert_int_equal(index_put_file(place->index, &file, NULL), 0);
    file = (struct index_file){
        .session = "a", .kind = 'o', .name = "z/\xff.csv", .bytes = 2, .is_fetched = true};
    assert_int_equal(index_put_file(place->index, &file, NULL), 0);
    reopen(place);
    assert_int_equal(index_each_file(place->index, "a", 'o', add_name, text, NULL), 0);
    assert_string_equal(text, "b.png:0:18446744073709551615 z/\xff.csv:1:2 ");
    file.name = NULL;
    assert_int_equal(index_put_file(place->index, &file, NULL), -EINVAL);
}

/* ---- calls from inside of a call --------------------------------------------------------------
 */

struct inner {
    struct place *place;
    char text[256];
    int again;
};

static void use_index(void *ctx, const struct index_session *session)
{
    struct inner *inner = ctx;
    struct index_execution execution = {.number = LIMIT_EXECUTIONS + 1};
    char ignored[256] = "";

    str_copy(execution.session, sizeof(execution.session), session->id);
    assert_int_equal(index_put_execution(inner->place->index, &execution, NULL), 0);
    assert_int_equal(
        index_each_execution(inner->place->index, session->id, add_number, inner->text, NULL), 0);
    inner->again = index_each_session(inner->place->index, add_id, ignored, NULL);
}

static void test_each_may_use_the_index(void **state)
{
    struct inner inner = {.place = *state};

    put_session(inner.place, "a", 1, 0);
    put_session(inner.place, "b", 2, 0);
    assert_int_equal(index_each_session(inner.place->index, use_index, &inner, NULL), 0);
    assert_string_equal(inner.text, "1001 1001 ");
    assert_int_equal(inner.again, -EBUSY);
    assert_sessions(inner.place, "a b ");
}

/* ---- the file ---------------------------------------------------------------------------------
 */

static void test_mode_and_no_shared_memory_file(void **state)
{
    struct place *place = *state;
    struct stat st;

    put_session(place, "a", 1, 0);
    assert_int_equal(stat(scratch_path(&place->scratch, "index.db"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(stat(scratch_path(&place->scratch, "index.db-wal"), &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_int_equal(stat(scratch_path(&place->scratch, "index.db-shm"), &st), -1);
    /* A clean end leaves one file. */
    index_close(place->index);
    place->index = NULL;
    assert_int_equal(stat(scratch_path(&place->scratch, "index.db-wal"), &st), -1);
    index_close(NULL);
}

static void test_the_callers_descriptor_is_not_needed_later(void **state)
{
    struct place *place = *state;
    int fd = fcntl(place->folder_fd, F_DUPFD_CLOEXEC, 3);

    index_close(place->index);
    place->index = NULL;
    assert_int_equal(index_open(fd, &place->index, NULL), 0);
    close(fd);
    put_session(place, "a", 1, 0);
    assert_sessions(place, "a ");
}

static void test_the_folder_may_be_renamed(void **state)
{
    struct place *place = *state;
    char moved[sizeof(place->scratch.path) + 8];

    snprintf(moved, sizeof(moved), "%s.moved", place->scratch.path);
    assert_int_equal(rename(place->scratch.path, moved), 0);
    put_session(place, "a", 1, 0);
    reopen(place);
    assert_sessions(place, "a ");
    assert_int_equal(rename(moved, place->scratch.path), 0);
}

/* Short output is in the row: read by offset, not listed, gone when it is dropped. */
static void output_row(void *ctx, const struct index_execution *execution)
{
    struct index_execution *seen = ctx;

    *seen = *execution;
    assert_string_equal(execution->cell, "{\"context\":\"c1\"}");
}

static void test_output_in_the_row(void **state)
{
    struct place *place = *state;
    struct index_execution execution = {
        .number = 1,
        .call = 4,
        .argv = "[]",
        .out_bytes = 5,
        .event_bytes = 3,
        .ended_ms = 1,
        .cell = "{\"context\":\"c1\"}",
        .data = {{"a\0b\nc", 5}, {NULL, 0}, {"{}\n", 3}},
    };
    struct index_execution seen = {0};
    struct error err = {0};
    char data[8];

    put_session(place, "s_1", 1, 0);
    str_copy(execution.session, sizeof(execution.session), "s_1");
    assert_int_equal(index_put_execution(place->index, &execution, &err), 0);
    reopen(place);
    assert_int_equal(index_read_output(place->index, "s_1", 1, 1, 0, data, 8), 5);
    assert_memory_equal(data, "a\0b\nc", 5);
    assert_int_equal(index_read_output(place->index, "s_1", 1, 1, 3, data, 1), 1);
    assert_memory_equal(data, "\n", 1);
    assert_int_equal(index_read_output(place->index, "s_1", 1, 1, 5, data, 8), 0);
    assert_int_equal(index_read_output(place->index, "s_1", 1, 2, 0, data, 8), -ENOENT);
    assert_int_equal(index_read_output(place->index, "s_1", 1, 3, 0, data, 8), 3);
    assert_int_equal(index_read_output(place->index, "s_1", 2, 1, 0, data, 8), -ENOENT);
    assert_int_equal(index_each_execution(place->index, "s_1", output_row, &seen, &err), 0);
    assert_true(seen.has_data[0] && !seen.has_data[1] && seen.has_data[2]);
    assert_int_equal(seen.event_bytes, 3);
    assert_int_equal(index_drop_outputs(place->index, "s_1", &err), 0);
    assert_int_equal(index_read_output(place->index, "s_1", 1, 1, 0, data, 8), -ENOENT);
}

static void context_row(void *ctx, const struct index_context *context)
{
    char *text = ctx;
    size_t length = strlen(text);

    str_format(text + length, 256 - length, "%u:%s:%s:%s:%d:%u:%u:%u:%s ", context->number,
               context->language, context->name ? context->name : "-",
               context->cwd ? context->cwd : "-", context->is_default, context->kernel,
               context->warm, context->cells, context->note ? context->note : "-");
}

static void test_contexts(void **state)
{
    struct place *place = *state;
    struct index_context context = {.session = "s_1", .number = 2, .language = "bash"};
    struct error err = {0};
    char text[256] = "";

    assert_int_equal(index_put_context(place->index, &context, &err), -ENOENT);
    put_session(place, "s_1", 1, 0);
    assert_int_equal(index_put_context(place->index, &context, &err), 0);
    context = (struct index_context){.session = "s_1",
                                     .number = 1,
                                     .language = "python",
                                     .name = "n",
                                     .cwd = "/tmp",
                                     .is_default = true,
                                     .kernel = 7,
                                     .warm = 2,
                                     .cells = 3,
                                     .note = "gone"};
    assert_int_equal(index_put_context(place->index, &context, &err), 0);
    context.cells = 4;
    assert_int_equal(index_put_context(place->index, &context, &err), 0);
    reopen(place);
    assert_int_equal(index_each_context(place->index, "s_1", context_row, text, &err), 0);
    assert_string_equal(text, "1:python:n:/tmp:1:7:2:4:gone 2:bash:-:-:0:0:0:0:- ");
    assert_int_equal(index_drop_context(place->index, "s_1", 2, &err), 0);
    put_session(place, "s_1", 1, 5);
    assert_int_equal(index_prune(place->index, 0, &err), 0); /* with all of its rows */
    text[0] = '\0';
    assert_int_equal(index_each_context(place->index, "s_1", context_row, text, &err), 0);
    assert_string_equal(text, "");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, place_open, place_remove)
    const struct CMUnitTest tests[] = {
        TEST(test_session_comes_back),
        TEST(test_none_is_not_empty),
        TEST(test_the_environment_is_stored_until_the_end),
        TEST(test_sessions_oldest_first),
        TEST(test_a_session_put_again_keeps_what_it_has),
        TEST(test_prune_drops_the_oldest_ended_with_their_rows),
        TEST(test_execution_comes_back),
        TEST(test_words_of_one_execution),
        TEST(test_executions_of_one_session_by_number),
        TEST(test_old_ended_executions_make_room),
        TEST(test_rows_need_their_session),
        TEST(test_output_in_the_row),
        TEST(test_contexts),
        TEST(test_files_by_kind_and_name),
        TEST(test_each_may_use_the_index),
        TEST(test_mode_and_no_shared_memory_file),
        TEST(test_the_callers_descriptor_is_not_needed_later),
        TEST(test_the_folder_may_be_renamed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
