/* test_ports.c - connections to a box's ports, against a warden that says anything it likes. */
#include "fake_warden.h"

#include "runtime/box/ports.h"
#include "wire/message.h"

static void saw_room(void *ctx)
{
    ((struct seen *)ctx)->entries++;
}

static const struct port_events port_seen = {
    .opened = saw_started, .data = saw_data, .room = saw_room, .done = saw_done};

static void saw_listed(void *ctx, const uint16_t *ports, size_t count, bool is_cut)
{
    struct seen *seen = ctx;

    seen->entries = (int)count;
    seen->mode = count > 0 ? ports[0] : 0;
    seen->ready = is_cut;
}

static const struct ports_events ports_seen = {.listed = saw_listed, .done = saw_done};

static uint32_t start_port(struct fake *fake, int index)
{
    struct frame frame;
    uint16_t port;

    assert_int_equal(box_port_open(fake->box, 3000, &port_seen, &fake->seen[index],
                                   &fake->id[index], &fake->err),
                     0);
    frame = hear(fake, FRAME_CONNECT, fake->id[index]);
    assert_int_equal(message_port_unpack(&frame, &port), 0);
    assert_int_equal(port, 3000);
    return fake->id[index];
}

static uint32_t start_open_port(struct fake *fake, int index)
{
    uint32_t id = start_port(fake, index);

    say(fake, FRAME_CONNECTED, id, NULL, 0);
    check_alive(fake);
    assert_int_equal(fake->seen[index].started, 1);
    return id;
}

static void test_bytes_both_ways(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_port(fake, 0);
    static char block[2 * WIRE_PORT_WINDOW];
    struct frame frame;
    long taken;

    assert_int_equal(box_port_write(fake->box, id, "x", 1), -EPIPE); /* not yet */
    say(fake, FRAME_CONNECTED, id, NULL, 0);
    check_alive(fake);
    taken = box_port_write(fake->box, id, block, sizeof(block));
    assert_int_equal(taken, WIRE_PORT_WINDOW);
    assert_int_equal(box_port_write(fake->box, id, block, 1), 0);
    while (hear_any(fake, &frame))
        assert_int_equal(frame.type, FRAME_PORT_DATA);
    say_ack(fake, id, 0, 100);
    check_alive(fake);
    assert_int_equal(fake->seen[0].entries, 1);
    assert_int_equal(box_port_write(fake->box, id, block, 200), 100);
    hear(fake, FRAME_PORT_DATA, id);
    box_port_end(fake->box, id);
    hear(fake, FRAME_PORT_END, id);
    assert_int_equal(box_port_write(fake->box, id, "x", 1), -EPIPE);
    say_bytes(fake, FRAME_PORT_DATA, id, 0, 0, 1000, 'a');
    say_done(fake, id, 0);
    check_alive(fake);
    assert_int_equal(fake->seen[0].out[1].length, 1000);
    assert_true(fake->seen[0].ended == 1 && fake->seen[0].err.num == 0);
}

/* The end comes after the last byte was taken, and nothing is acknowledged before. */
static void test_a_slow_reader(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_open_port(fake, 0);

    fake->seen[0].takes = 10;
    say_bytes(fake, FRAME_PORT_DATA, id, 0, 0, WIRE_PORT_WINDOW / 2, 'a');
    say_bytes(fake, FRAME_PORT_DATA, id, 0, WIRE_PORT_WINDOW / 2, WIRE_PORT_WINDOW / 2, 'b');
    say_done(fake, id, ECONNRESET);
    check_alive(fake);
    hear_nothing(fake);
    assert_true(fake->seen[0].out[1].length == 10 && fake->seen[0].ended == 0);
    fake->seen[0].takes = SIZE_MAX;
    box_port_resume(fake->box, id);
    assert_int_equal(fake->seen[0].out[1].length, WIRE_PORT_WINDOW);
    assert_true(fake->seen[0].ended == 1 && fake->seen[0].err.num == -ECONNRESET);
    box_port_resume(fake->box, id); /* it is over */
}

static void test_acknowledging(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_open_port(fake, 0);
    struct message_ack ack;
    struct frame frame;

    say_bytes(fake, FRAME_PORT_DATA, id, 0, 0, WIRE_PORT_WINDOW / 2, 'a');
    check_alive(fake);
    frame = hear(fake, FRAME_ACK, id);
    assert_int_equal(message_ack_unpack(&frame, &ack), 0);
    assert_int_equal(ack.offset, WIRE_PORT_WINDOW / 2);
}

static void test_cancelling(void **state)
{
    struct fake *fake = *state;
    uint32_t id = start_open_port(fake, 0);

    fake->seen[0].takes = 0;
    say_bytes(fake, FRAME_PORT_DATA, id, 0, 0, 10, 'a');
    check_alive(fake);
    box_cancel(fake->box, id);
    hear(fake, FRAME_CANCEL, id);
    say_bytes(fake, FRAME_PORT_DATA, id, 0, 10, 10, 'a'); /* was on its way */
    say_done(fake, id, ECANCELED);
    check_alive(fake);
    assert_int_equal(fake->seen[0].ended, 0);
}

static void test_a_limit_of_connections(void **state)
{
    struct fake *fake = *state;
    uint32_t id;

    for (int i = 0; i < LIMIT_PORT_STREAMS; i++)
        start_port(fake, 0);
    assert_int_equal(box_port_open(fake->box, 1, &port_seen, &fake->seen[1], &id, &fake->err),
                     -EAGAIN);
    hear_nothing(fake);
}

static void test_the_list(void **state)
{
    static struct message_listening listening = {.ports = {80, 3000}, .count = 2, .is_cut = true};
    struct fake *fake = *state;
    uint8_t payload[16];

    assert_int_equal(box_ports(fake->box, &ports_seen, &fake->seen[0], &fake->id[0], &fake->err),
                     0);
    hear(fake, FRAME_PORTS, fake->id[0]);
    say(fake, FRAME_LISTENING, fake->id[0], payload,
        (size_t)message_listening_pack(&listening, payload, sizeof(payload)));
    say_done(fake, fake->id[0], 0);
    check_alive(fake);
    assert_true(fake->seen[0].entries == 2 && fake->seen[0].mode == 80 && fake->seen[0].ready == 1);
    assert_int_equal(fake->seen[0].ended, 1);
}

/* Frames that a warden must not send: each loses the box. */
static void lie(struct fake *fake, int number)
{
    uint32_t id = number < 4 ? start_port(fake, 0) : start_open_port(fake, 0);
    uint8_t payload[16] = {0};

    switch (number) {
    case 0:
        say_bytes(fake, FRAME_PORT_DATA, id, 0, 0, 1, 'a'); /* before it is connected */
        break;
    case 1:
        say_done(fake, id, 0); /* a good end before the beginning */
        break;
    case 2:
        say(fake, FRAME_CONNECTED, id, "x", 1);
        break;
    case 3:
        say(fake, FRAME_LISTENING, id, payload, 3);
        break;
    case 4:
        say(fake, FRAME_CONNECTED, id, NULL, 0); /* again */
        break;
    case 5:
        say_bytes(fake, FRAME_PORT_DATA, id, 0, 1, 1, 'a'); /* a gap */
        break;
    case 6:
        say_bytes(fake, FRAME_PORT_DATA, id, 1, 0, 1, 'a'); /* another stream */
        break;
    case 7:
        say_bytes(fake, FRAME_PORT_DATA, id, 0, 0, 0, 'a'); /* nothing */
        break;
    case 8:
        fake->seen[0].takes = 0; /* more than the window */
        say_bytes(fake, FRAME_PORT_DATA, id, 0, 0, 60000, 'a');
        say_bytes(fake, FRAME_PORT_DATA, id, 0, 60000, 60000, 'a');
        break;
    case 9:
        say_ack(fake, id, 0, 1); /* of what was not sent */
        break;
    case 10:
        say_done(fake, id, 5000);
        break;
    default:
        say_bytes(fake, FRAME_DATA, id, 0, 0, 1, 'a'); /* of a file */
        break;
    }
}

static void test_lies(void **state)
{
    (void)state;
    for (int i = 0; i <= 11; i++) {
        void *own = NULL;
        struct fake *fake;

        assert_int_equal(fake_set_up(&own), 0);
        fake = own;
        lie(fake, i);
        check_lost(fake, 1);
        fake_tear_down(&own);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bytes_both_ways, fake_set_up, fake_tear_down),
        cmocka_unit_test_setup_teardown(test_a_slow_reader, fake_set_up, fake_tear_down),
        cmocka_unit_test_setup_teardown(test_acknowledging, fake_set_up, fake_tear_down),
        cmocka_unit_test_setup_teardown(test_cancelling, fake_set_up, fake_tear_down),
        cmocka_unit_test_setup_teardown(test_a_limit_of_connections, fake_set_up, fake_tear_down),
        cmocka_unit_test_setup_teardown(test_the_list, fake_set_up, fake_tear_down),
        cmocka_unit_test(test_lies),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
