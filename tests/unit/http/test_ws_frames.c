/* test_ws_frames.c - frames of a WebSocket: whole, in pieces, and everything a client may not send.
 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "http/ws_frames.h"

#define MESSAGE_MAX 1000

enum { CONTINUED = 0, TEXT = 1, BINARY = 2, CLOSE = 8, PING = 9, PONG = 10, FIN = 0x80 };

static struct ws_frames *frames;
static struct buf heard, said, wire; /* messages, bytes of ours, bytes of the client */
static bool holds;

static void on_message(void *ctx, bool is_text, const void *data, size_t length)
{
    assert_ptr_equal(ctx, &heard);
    buf_printf(&heard, "[%s:%.*s]", is_text ? "text" : "bytes", (int)length, (const char *)data);
    if (holds)
        ws_frames_hold(frames, true);
}

static int set_up(void **state)
{
    static const struct ws_frames_events events = {.message = on_message};

    (void)state;
    heard = said = wire = BUF_INIT(4 * MIB);
    holds = false;
    frames = ws_frames_new(MESSAGE_MAX, &events, &heard);
    return frames ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    ws_frames_free(frames);
    buf_free(&heard);
    buf_free(&said);
    buf_free(&wire);
    return 0;
}

/* A frame of the client, with a length that may be a lie, masked unless told not to be. */
static void put(unsigned first, bool is_masked, uint64_t claimed, const void *data, size_t length)
{
    static const unsigned char mask[4] = {0x12, 0x34, 0x56, 0x78};
    unsigned char head[14] = {(unsigned char)first};
    size_t size = 2;

    if (claimed < 126) {
        head[1] = (unsigned char)claimed;
    } else if (claimed < 65536) {
        head[1] = 126;
        head[size++] = (unsigned char)(claimed >> 8);
        head[size++] = (unsigned char)claimed;
    } else {
        head[1] = 127;
        for (int i = 7; i >= 0; i--)
            head[size++] = (unsigned char)(claimed >> 8 * i);
    }
    if (is_masked) {
        head[1] |= 0x80;
        memcpy(head + size, mask, 4);
        size += 4;
    }
    buf_append(&wire, head, size);
    for (size_t i = 0; i < length; i++) {
        char byte = (char)(((const unsigned char *)data)[i] ^ (is_masked ? mask[i % 4] : 0));

        buf_append(&wire, &byte, 1);
    }
}

static void put_text(unsigned first, const char *text)
{
    put(first, true, strlen(text), text, strlen(text));
}

/* Everything of the wire, `step` bytes at a time. */
static void take(size_t step)
{
    for (size_t at = 0; at < wire.length;) {
        size_t length = MIN(step, wire.length - at);
        ssize_t count = ws_frames_take(frames, wire.data + at, length);

        assert_int_equal(count, length);
        at += (size_t)count;
    }
    buf_clear(&wire);
}

static void give(void)
{
    char block[100];
    ssize_t count;

    while ((count = ws_frames_give(frames, block, sizeof(block))) > 0)
        buf_append(&said, block, (size_t)count);
    assert_int_equal(count, 0);
    assert_false(ws_frames_wants_give(frames));
}

static void assert_said(const void *bytes, size_t length)
{
    give();
    assert_int_equal(said.length, length);
    assert_memory_equal(said.data, bytes, length);
    buf_clear(&said);
}

static void assert_deaf(unsigned status)
{
    assert_true(ws_frames_has_closed(frames));
    assert_true(ws_frames_is_over(frames));
    assert_int_equal(ws_frames_status(frames), status);
    buf_clear(&heard);
    put_text(FIN | TEXT, "too late");
    take(1000);
    give();
    assert_int_equal(heard.length, 0);
    assert_int_equal(said.length, 0);
    assert_int_equal(ws_frames_send(frames, true, "x", 1), -EPIPE);
}

/* The client broke a rule: one close frame with this code, and not a word is heard any more. */
static void assert_closed(unsigned status)
{
    give();
    assert_true(said.length >= 4);
    assert_int_equal((unsigned char)said.data[0], FIN | CLOSE);
    assert_int_equal(said.length, 2 + said.data[1]);
    assert_int_equal((unsigned char)said.data[2] << 8 | (unsigned char)said.data[3], status);
    buf_clear(&said);
    assert_deaf(status);
}

/* The same, where wslay gives no code. */
static void assert_failed(void)
{
    assert_said("\x88\0", 2);
    assert_deaf(1002);
}

static void test_messages(void **state)
{
    char big[MESSAGE_MAX];

    (void)state;
    memset(big, 'x', sizeof(big));
    for (size_t step = 1; step < 4000; step = step * 3 + 1) {
        put_text(FIN | TEXT, "hello");
        put_text(FIN | BINARY, "bytes");
        put_text(FIN | TEXT, "");
        put(FIN | TEXT, true, sizeof(big), big, sizeof(big));
        take(step);
        assert_int_equal(heard.length, strlen("[text:hello][bytes:bytes][text:][text:]") + 1000);
        assert_memory_equal(heard.data, "[text:hello][bytes:bytes][text:][text:xxx", 41);
        buf_clear(&heard);
    }
    assert_false(ws_frames_has_closed(frames));
    assert_int_equal(ws_frames_status(frames), 1006);
}

static void test_fragments_with_control_frames_between(void **state)
{
    (void)state;
    for (size_t step = 1; step < 100; step = step * 3 + 1) {
        put_text(TEXT, "he");
        put_text(FIN | PING, "are you there");
        put_text(CONTINUED, "");
        put_text(CONTINUED, "ll\xc3"); /* a sequence may be cut by fragments */
        put_text(FIN | PONG, "nobody asked");
        put_text(FIN | CONTINUED, "\xa4");
        put_text(FIN | BINARY, "\xff");
        take(step);
        assert_string_equal(buf_text(&heard), "[text:hell\xc3\xa4][bytes:\xff]");
        buf_clear(&heard);
        assert_said("\x8a\x0d"
                    "are you there",
                    15);
    }
}

static void test_unmasked(void **state)
{
    (void)state;
    put(FIN | TEXT, false, 5, "hello", 5);
    take(100);
    assert_int_equal(heard.length, 0);
    assert_closed(1002);
}

static void test_reserved_bits(void **state)
{
    for (unsigned bit = 0x10; bit <= 0x40; bit <<= 1) {
        put_text(FIN | TEXT | bit, "x");
        take(100);
        assert_closed(1002);
        tear_down(state);
        set_up(state);
    }
}

static void test_reserved_opcodes(void **state)
{
    static const unsigned opcodes[] = {3, 4, 5, 6, 7, 11, 12, 13, 14, 15};

    for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
        put_text(FIN | opcodes[i], "x");
        take(100);
        assert_closed(1002);
        tear_down(state);
        set_up(state);
    }
}

static void test_bad_order(void **state)
{
    (void)state;
    put_text(FIN | CONTINUED, "of nothing");
    take(100);
    assert_closed(1002);
    tear_down(state);
    set_up(state);
    put_text(TEXT, "a");
    put_text(FIN | TEXT, "b");
    take(100);
    assert_int_equal(heard.length, 0);
    assert_closed(1002);
}

static void test_bad_control_frames(void **state)
{
    char long_one[126];

    (void)state;
    memset(long_one, 'x', sizeof(long_one));
    put(FIN | PING, true, sizeof(long_one), long_one, sizeof(long_one));
    take(1000);
    assert_failed();
    tear_down(state);
    set_up(state);
    put_text(PING, "in pieces");
    take(1000);
    assert_failed();
}

/* 5 bytes said with 16 or 64 bits of length; a length whose highest bit is set. */
static void test_bad_lengths(void **state)
{
    static const unsigned char longer[] = {0x81, 0xfe, 0, 5, 0, 0, 0, 0};
    static const unsigned char longest[] = {0x81, 0xff, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0};
    static const unsigned char negative[] = {0x81, 0xff, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    static const struct {
        const unsigned char *bytes;
        size_t length;
    } rows[] = {{longer, sizeof(longer)}, {longest, sizeof(longest)}, {negative, sizeof(negative)}};

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        buf_append(&wire, rows[i].bytes, rows[i].length);
        take(100);
        assert_failed();
        tear_down(state);
        set_up(state);
    }
}

static void test_too_long(void **state)
{
    static const uint64_t claims[] = {MESSAGE_MAX + 1, 65536, 1ull << 40, INT64_MAX};
    char part[MESSAGE_MAX / 2];

    for (size_t i = 0; i < ARRAY_SIZE(claims); i++) {
        put(FIN | BINARY, true, claims[i], "x", 1); /* refused before it is sent */
        take(100);
        assert_closed(1009);
        tear_down(state);
        set_up(state);
    }
    /* In pieces, each of which would be short enough; with a length that would wrap a sum. */
    memset(part, 'x', sizeof(part));
    put(BINARY, true, sizeof(part), part, sizeof(part));
    put(CONTINUED, true, sizeof(part), part, sizeof(part));
    take(1000);
    assert_false(ws_frames_has_closed(frames));
    put(FIN | CONTINUED, true, INT64_MAX, "x", 1);
    take(1000);
    assert_int_equal(heard.length, 0);
    assert_closed(1009);
}

static void test_bad_utf8(void **state)
{
    static const char *const texts[] = {"\xff", "a\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                        "ab\xe2\x82"};

    for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
        put_text(FIN | TEXT, texts[i]);
        take(100);
        assert_int_equal(heard.length, 0);
        assert_closed(1007);
        tear_down(state);
        set_up(state);
    }
    put_text(TEXT, "\xe2\x82");
    put_text(FIN | CONTINUED, "x");
    take(100);
    assert_int_equal(heard.length, 0);
    assert_closed(1007);
}

static void put_close(unsigned status, const char *reason)
{
    char text[125] = {(char)(status >> 8), (char)status};

    memcpy(text + 2, reason, strlen(reason));
    put(FIN | CLOSE, true, 2 + strlen(reason), text, 2 + strlen(reason));
}

static void test_close_codes(void **state)
{
    static const unsigned good[] = {1000, 1001, 1002, 1003, 1007, 1011, 3000, 4999};
    static const unsigned bad[] = {0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535};

    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        put_close(good[i], "bye");
        take(3);
        assert_true(ws_frames_was_closed(frames));
        assert_closed(good[i]); /* is answered with the same */
        tear_down(state);
        set_up(state);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        put_close(bad[i], "bye");
        take(100);
        give();
        assert_int_equal((unsigned char)said.data[2] << 8 | (unsigned char)said.data[3], 1002);
        assert_true(ws_frames_is_over(frames));
        tear_down(state);
        set_up(state);
    }
}

static void test_close_odd(void **state)
{
    (void)state;
    put_text(FIN | CLOSE, ""); /* without a code */
    take(100);
    assert_said("\x88\0", 2);
    assert_int_equal(ws_frames_status(frames), 1005);
    tear_down(state);
    set_up(state);
    put_text(FIN | CLOSE, "\x03"); /* half a code is none */
    take(100);
    assert_said("\x88\0", 2);
    assert_deaf(1005);
    tear_down(state);
    set_up(state);
    put_close(1000, "\xff"); /* a reason that is no text */
    take(100);
    give();
    assert_int_equal((unsigned char)said.data[2] << 8 | (unsigned char)said.data[3], 1007);
}

static void test_sending(void **state)
{
    char *big = malloc(70000);

    (void)state;
    assert_non_null(big);
    memset(big, 'y', 70000);
    assert_int_equal(ws_frames_send(frames, true, "hi", 2), 0);
    assert_int_equal(ws_frames_send(frames, false, big, 200), 0);
    assert_int_equal(ws_frames_send(frames, false, big, 70000), 0);
    assert_int_equal(ws_frames_send(frames, true, NULL, 0), 0);
    assert_true(ws_frames_waiting(frames) == 70202);
    give();
    assert_int_equal(said.length, 2 + 2 + 4 + 200 + 10 + 70000 + 2);
    assert_memory_equal(said.data, "\x81\x02hi\x82\x7e\x00\xc8y", 9);
    assert_memory_equal(said.data + 208, "\x82\x7f\0\0\0\0\0\x01\x11\x70y", 11);
    assert_true(ws_frames_waiting(frames) == 0);
    free(big);
}

/* Our close frame comes behind what waits; the client's messages are not heard any more. */
static void test_closing(void **state)
{
    (void)state;
    ws_frames_send(frames, true, "hi", 2);
    ws_frames_close(frames, 1001, "bye");
    ws_frames_close(frames, 1002, "only the first counts");
    assert_int_equal(ws_frames_send(frames, true, "x", 1), -EPIPE);
    put_text(FIN | TEXT, "hello");
    take(100);
    assert_said("\x81\x02hi\x88\x05\x03\xe9"
                "bye",
                11);
    assert_int_equal(heard.length, 0);
    assert_false(ws_frames_is_over(frames));
    put_close(1001, "");
    take(100);
    assert_true(ws_frames_is_over(frames));
    assert_int_equal(ws_frames_status(frames), 1001);
    give();
    assert_int_equal(said.length, 0);
}

static void test_long_reason(void **state)
{
    char reason[300];

    (void)state;
    for (size_t i = 0; i + 2 < sizeof(reason); i += 2)
        memcpy(reason + i, "\xc3\xa4", 3);
    ws_frames_close(frames, 1008, reason);
    give();
    assert_int_equal(said.length, 2 + 2 + 122); /* whole letters only */
}

/* A client that pings and never reads is not read either; its messages are not lost. */
static void test_ping_flood(void **state)
{
    ssize_t count;

    (void)state;
    for (int i = 0; i < 100000; i++)
        put_text(FIN | PING, "");
    put_text(FIN | TEXT, "at last");
    count = ws_frames_take(frames, wire.data, wire.length);
    assert_true(ws_frames_is_full(frames));
    assert_true(count > 0 && count < 10000);
    while ((size_t)count < wire.length) {
        ssize_t more;

        buf_consume(&wire, (size_t)count);
        give();
        more = ws_frames_take(frames, wire.data, wire.length);
        assert_true(more > 0);
        count = more;
    }
    give();
    assert_int_equal(said.length, 200000);
    assert_string_equal(buf_text(&heard), "[text:at last]");
}

/* Who holds gets no more than what was taken in the last 4 KiB. */
static void test_hold(void **state)
{
    ssize_t count;
    char half[600];

    (void)state;
    memset(half, 'x', sizeof(half));
    holds = true;
    for (int i = 0; i < 100; i++)
        put(FIN | BINARY, true, sizeof(half), half, sizeof(half));
    count = ws_frames_take(frames, wire.data, wire.length);
    assert_true(count > 0 && count < 10000);
    assert_true(heard.length < 10000);
    assert_int_equal(ws_frames_take(frames, wire.data + count, 100), 0);
    holds = false;
    ws_frames_hold(frames, false);
    assert_int_equal(ws_frames_take(frames, wire.data + count, wire.length - (size_t)count),
                     wire.length - (size_t)count);
    assert_int_equal(heard.length, 100 * (600 + strlen("[bytes:]")));
}

/* A message in a million pieces costs no more than its bytes. */
static void test_tiny_fragments(void **state)
{
    (void)state;
    put_text(BINARY, "");
    for (int i = 0; i < 100000; i++)
        put_text(CONTINUED, "");
    for (int i = 0; i < MESSAGE_MAX; i++)
        put_text(CONTINUED, "z");
    put_text(FIN | CONTINUED, "");
    take(4096);
    assert_int_equal(heard.length, MESSAGE_MAX + strlen("[bytes:]"));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_messages),
        TEST(test_fragments_with_control_frames_between),
        TEST(test_unmasked),
        TEST(test_reserved_bits),
        TEST(test_reserved_opcodes),
        TEST(test_bad_order),
        TEST(test_bad_control_frames),
        TEST(test_bad_lengths),
        TEST(test_too_long),
        TEST(test_bad_utf8),
        TEST(test_close_codes),
        TEST(test_close_odd),
        TEST(test_sending),
        TEST(test_closing),
        TEST(test_long_reason),
        TEST(test_ping_flood),
        TEST(test_hold),
        TEST(test_tiny_fragments),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
