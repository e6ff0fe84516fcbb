/* test_port_head.c - the headers of a guest's reply: they stay where they are, whatever their
 * number. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "api/port_head.h"
#include "base/str.h"
#include "http/http_private.h"

#define PATH "/v1/sessions/s_0/ports/3000/x"
#define PREFIX_LENGTH (sizeof("/v1/sessions/s_0/ports/3000") - 1)
#define MOVES 57 /* headers Location, each of which gets the prefix; see `blocks` */

static char path[] = PATH;
static struct http_request http;
static const struct port_call call = {.http = &http, .port = 3000, .skip = 5};

static void add(struct reply_reader *reply, const char *name, const char *value)
{
    reply->headers[reply->header_count++] = (struct reply_header){name, value};
}

static void check(const struct buf *memory, const char *const *headers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_string_equal(headers[i], "Location: /v1/sessions/s_0/ports/3000/y");
    assert_string_equal(headers[count], "Content-Security-Policy: sandbox");
    assert_ptr_equal(headers[0], memory->data);
}

static void test_a_reply_has_room_for_its_headers_and_the_last_nul(void **state)
{
    static struct reply_reader reply;
    struct buf memory = BUF_INIT(0);
    const char *headers[PORT_HEADERS_MAX];

    (void)state;
    add(&reply, "Location", "/y");
    assert_int_equal(port_reply_headers(&call, &reply, &memory, headers), 0);
    check(&memory, headers, 1);
    assert_true(memory.capacity > memory.maximum);
    buf_free(&memory);
}

/* The guest chooses how much of the memory is used: here all of it, by a header that is dropped. */
static void test_headers_that_fill_the_memory_do_not_move_it(void **state)
{
    static struct reply_reader reply;
    static char dropped[2 * KIB];
    struct buf memory = BUF_INIT(0);
    const char *headers[PORT_HEADERS_MAX];
    size_t used = MOVES * (sizeof("Location: /y") + PREFIX_LENGTH), length;
    char *volatile blocks[3]; /* volatile: no compiler leaves them out */

    (void)state;
    length = MOVES * PREFIX_LENGTH - strlen(PATH) - KIB - sizeof("Date: ");
    assert_true(length < sizeof(dropped));
    memset(dropped, 'x', length);
    for (int i = 0; i < MOVES; i++)
        add(&reply, "Location", "/y");
    add(&reply, "Date", dropped);
    /* Memory that cannot grow where it is: of this size malloc() gives not one byte more. */
    for (int i = 0; i < 3; i++)
        blocks[i] = malloc(used);
    free(blocks[1]);
    assert_int_equal(port_reply_headers(&call, &reply, &memory, headers), 0);
    assert_int_equal(memory.length, used);
    assert_int_equal(memory.maximum, used);
    check(&memory, headers, MOVES);
    buf_free(&memory);
    free(blocks[0]);
    free(blocks[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_reply_has_room_for_its_headers_and_the_last_nul),
        cmocka_unit_test(test_headers_that_fill_the_memory_do_not_move_it),
    };

    http.target.path = path;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
