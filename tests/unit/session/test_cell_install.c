/* test_cell_install.c - the event of a missing module is held back, however its bytes come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "engine_fixture.h"

#define ERROR_LINE                                                                \
    "{\"type\":\"error\",\"name\":\"ModuleNotFoundError\",\"value\":\"No module " \
    "named 'x'\",\"traceback\":\"\"}\n"
#define OTHER_LINE "{\"type\":\"error\",\"name\":\"ModuleError\",\"value\":\"\"}\n"
#define SHOWN "{\"type\":\"display\",\"data\":{\"text/plain\":\"1\"}}\n"

/* A cell that nobody sends anywhere. */
static struct execution *cell_of(struct engine_fixture *fixture, const char *language)
{
    struct execution *execution;
    struct session *session;

    assert_int_equal(config_set(&fixture->config, KEY_AUTO_INSTALL, "true", "-", NULL), 0);
    session = fixture_session(fixture, NULL);
    execution = execution_new(session, 1);
    execution->state = EXECUTION_RUNNING;
    execution->argv = strdup("[]");
    execution->flags = EXECUTION_CELL;
    execution->cell = calloc(1, sizeof(*execution->cell));
    assert_non_null(execution->cell);
    str_copy(execution->cell->language, sizeof(execution->cell->language), language);
    session->running++;
    assert_int_equal(cell_install_new(execution), 0);
    return execution;
}

/* In pieces of so many bytes. */
static void feed(struct execution *execution, const char *text, size_t piece)
{
    size_t length = strlen(text);

    for (size_t at = 0; at < length; at += piece)
        assert_int_equal(
            cell_exec_events.output(execution, BOX_EVENTS, text + at, MIN(piece, length - at)),
            MIN(piece, length - at));
}

static void assert_told(const struct execution *execution, const char *text)
{
    char data[4096];
    ssize_t length = execution_read(execution, 3, 0, data, sizeof(data) - 1);

    assert_true(length >= 0);
    data[length] = '\0';
    assert_string_equal(data, text);
}

static void test_held_in_pieces(void **state)
{
    static const size_t pieces[] = {1, 2, 7, 40, 41, 48, 1000};

    for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
        struct execution *execution = cell_of(*state, "python");

        feed(execution, SHOWN OTHER_LINE "\n" SHOWN ERROR_LINE, pieces[i]);
        assert_told(execution, SHOWN OTHER_LINE "\n" SHOWN);
        feed(execution, SHOWN, pieces[i]); /* what comes behind it stays behind it */
        cell_install_flush(execution);
        assert_told(execution, SHOWN OTHER_LINE "\n" SHOWN ERROR_LINE SHOWN);
        feed(execution, ERROR_LINE, pieces[i]);
        assert_told(execution, SHOWN OTHER_LINE "\n" SHOWN ERROR_LINE SHOWN ERROR_LINE);
    }
}

static void test_half_a_line(void **state)
{
    struct execution *execution = cell_of(*state, "python");

    feed(execution, "{\"type\":\"err", 100);
    assert_told(execution, "");
    assert_false(cell_install_begin(execution));
    cell_install_flush(execution);
    assert_told(execution, "{\"type\":\"err");
}

static void test_too_long_to_be_held(void **state)
{
    struct execution *execution = cell_of(*state, "python");
    size_t length = 1 * MIB;
    char *text = malloc(length + 1);

    assert_non_null(text);
    memset(text, 'x', length);
    text[length] = '\0';
    memcpy(text, ERROR_LINE, sizeof(ERROR_LINE) - 2); /* without its end */
    feed(execution, text, 64 * KIB);
    feed(execution, "\n" SHOWN, 100);
    assert_int_equal(execution_written(execution, 3), length + 1 + sizeof(SHOWN) - 1);
    free(text);
}

static void test_where_it_is_not_wanted(void **state)
{
    struct execution *execution = cell_of(*state, "bash");

    assert_null(execution->cell->install);
    feed(execution, ERROR_LINE, 10);
    assert_told(execution, ERROR_LINE);
    assert_false(cell_install_begin(execution));
    assert_false(cell_install_cancel(execution));
    assert_null(execution_install_json(execution));
}

int main(void)
{
#define HERE(test) cmocka_unit_test_setup_teardown(test, fixture_open, fixture_close)
    const struct CMUnitTest tests[] = {
        HERE(test_held_in_pieces),
        HERE(test_half_a_line),
        HERE(test_too_long_to_be_held),
        HERE(test_where_it_is_not_wanted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
