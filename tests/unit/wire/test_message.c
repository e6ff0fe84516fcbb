/* test_message.c - every message there and back, and cut, stretched or out of range: -EPROTO. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/file_message.h"

/* Unpacks into memory that is thrown away: only the verdict counts. */
static int unpack_any(enum frame_type type, const struct frame *frame)
{
    union {
        struct message_ready ready;
        struct message_fail fail;
        struct message_exec exec;
        struct message_bytes bytes;
        struct message_ack ack;
        struct message_exited exited;
        struct message_inventory inventory;
        struct message_resume resume;
        struct message_size size;
        struct message_kernel kernel;
        struct message_cell cell;
        struct message_started started;
        struct message_listening listening;
        uint16_t port;
        uint32_t number;
    } to;

    switch (type) {
    case FRAME_READY:
        return message_ready_unpack(frame, &to.ready);
    case FRAME_FAILED:
        return message_fail_unpack(frame, &to.fail);
    case FRAME_EXEC:
        return message_exec_unpack(frame, &to.exec);
    case FRAME_OUTPUT:
        return message_bytes_unpack(frame, &to.bytes);
    case FRAME_ACK:
        return message_ack_unpack(frame, &to.ack);
    case FRAME_STARTED:
        return message_started_unpack(frame, &to.started);
    case FRAME_EXITED:
        return message_exited_unpack(frame, &to.exited);
    case FRAME_INVENTORY:
        return message_inventory_unpack(frame, &to.inventory);
    case FRAME_RESUME:
        return message_resume_unpack(frame, &to.resume);
    case FRAME_RESIZE:
        return message_size_unpack(frame, &to.size);
    case FRAME_KERNEL:
        return message_kernel_unpack(frame, &to.kernel);
    case FRAME_CELL:
        return message_cell_unpack(frame, &to.cell);
    case FRAME_CONNECT:
        return message_port_unpack(frame, &to.port);
    case FRAME_LISTENING:
        return message_listening_unpack(frame, &to.listening);
    default:
        return message_number_unpack(frame, &to.number);
    }
}

static struct frame frame_of(const uint8_t *data, ssize_t length)
{
    assert_true(length >= 0);
    return (struct frame){.payload = data, .length = (size_t)length};
}

/*
 * Every shorter payload breaks the protocol, and one byte more does too where the shape is fixed.
 * Each try gets memory of its own, so that a sanitizer sees a read behind it.
 */
static void check_lengths(enum frame_type type, const uint8_t *data, ssize_t whole, ssize_t least)
{
    for (ssize_t length = 0; length <= whole + 1; length++) {
        uint8_t *copy = calloc(1, (size_t)length + (length == 0));
        struct frame frame = {.payload = copy, .length = (size_t)length};
        bool is_good = least < whole ? length >= least : length == whole;

        assert_non_null(copy);
        memcpy(copy, data, (size_t)(length < whole ? length : whole));
        if (least < whole && length == whole + 1)
            copy[whole] = 'x';
        assert_int_equal(unpack_any(type, &frame), is_good ? 0 : -EPROTO);
        free(copy);
    }
}

static void test_ready(void **state)
{
    struct message_ready ready = {.version = WIRE_VERSION,
                                  .layers = 0x3ff,
                                  .missing = 0x80000005,
                                  .descriptors = READY_HAS_EGRESS,
                                  .stage_count = 3};
    struct message_ready back;
    uint8_t data[512];
    struct frame frame;
    ssize_t length;

    (void)state;
    ready.stage_ns[0] = 1;
    ready.stage_ns[2] = UINT32_MAX;
    ready.lack_errno[0] = EPERM;
    ready.lack_errno[2] = ENOSYS;
    ready.lack_errno[31] = EACCES;
    length = message_ready_pack(&ready, data, sizeof(data));
    frame = frame_of(data, length);
    assert_int_equal(message_ready_unpack(&frame, &back), 0);
    assert_memory_equal(&back, &ready, sizeof(ready));
    check_lengths(FRAME_READY, data, length, length);
    assert_int_equal(message_ready_pack(&ready, data, (size_t)length - 1), -EMSGSIZE);

    ready.stage_count = MESSAGE_STAGES_MAX;
    ready.missing = UINT32_MAX;
    length = message_ready_pack(&ready, data, sizeof(data));
    frame = frame_of(data, length);
    assert_int_equal(message_ready_unpack(&frame, &back), 0);
    data[11] = MESSAGE_STAGES_MAX + 1; /* the count of stages */
    assert_int_equal(message_ready_unpack(&frame, &back), -EPROTO);
    data[11] = UINT8_MAX;
    assert_int_equal(message_ready_unpack(&frame, &back), -EPROTO);
    data[11] = MESSAGE_STAGES_MAX;
    data[10] = 1u << READY_FDS_MAX; /* descriptors that nobody knows */
    assert_int_equal(message_ready_unpack(&frame, &back), -EPROTO);
}

static void test_fail(void **state)
{
    struct message_fail fail = {.stage = 1, .error = UINT16_MAX, .step = 300}, back;
    uint8_t data[16];
    ssize_t length = message_fail_pack(&fail, data, sizeof(data));
    struct frame frame = frame_of(data, length);

    (void)state;
    assert_int_equal(message_fail_unpack(&frame, &back), 0);
    assert_memory_equal(&back, &fail, sizeof(fail));
    check_lengths(FRAME_FAILED, data, length, length);
    assert_int_equal(message_fail_pack(&fail, data, 5), -EMSGSIZE);
}

static int exec_verdict(uint32_t argc, uint32_t envc, uint32_t args_length)
{
    struct message_exec exec = {.argc = argc, .envc = envc, .args_length = args_length}, back;
    uint8_t data[32];
    struct frame frame = frame_of(data, message_exec_pack(&exec, data, sizeof(data)));

    return message_exec_unpack(&frame, &back);
}

static void test_exec(void **state)
{
    struct message_exec exec = {.flags = EXEC_STDIN | EXEC_ENDS_BOX | EXEC_KEEP | EXEC_PTY,
                                .argc = LIMIT_ARGV_COUNT,
                                .envc = LIMIT_ENV_COUNT,
                                .args_length = LIMIT_ARGV_BYTES,
                                .rows = LIMIT_TERMINAL,
                                .columns = LIMIT_TERMINAL};
    struct message_exec back;
    uint8_t data[32];
    ssize_t length = message_exec_pack(&exec, data, sizeof(data));
    struct frame frame = frame_of(data, length);

    (void)state;
    assert_int_equal(message_exec_unpack(&frame, &back), 0);
    assert_memory_equal(&back, &exec, sizeof(exec));
    check_lengths(FRAME_EXEC, data, length, length);
    assert_int_equal(exec_verdict(1, 0, 2), 0);
    assert_int_equal(exec_verdict(0, 0, 2), -EPROTO);
    assert_int_equal(exec_verdict(LIMIT_ARGV_COUNT + 1, 0, 2), -EPROTO);
    assert_int_equal(exec_verdict(UINT32_MAX, 0, 2), -EPROTO);
    assert_int_equal(exec_verdict(1, LIMIT_ENV_COUNT + 1, 2), -EPROTO);
    assert_int_equal(exec_verdict(1, 0, LIMIT_ARGV_BYTES + 1), -EPROTO);
    assert_int_equal(message_exec_pack(&exec, data, (size_t)length - 1), -EMSGSIZE);
    exec.rows = LIMIT_TERMINAL + 1;
    message_exec_pack(&exec, data, sizeof(data));
    assert_int_equal(message_exec_unpack(&frame, &back), -EPROTO);
    exec.rows = 0;
    exec.columns = UINT16_MAX;
    message_exec_pack(&exec, data, sizeof(data));
    assert_int_equal(message_exec_unpack(&frame, &back), -EPROTO);
}

static void test_bytes(void **state)
{
    uint8_t data[MESSAGE_BYTES_HEADER + 3];
    struct message_bytes bytes;
    struct frame frame = {.payload = data, .length = sizeof(data)};

    (void)state;
    message_bytes_header(data, 3, UINT64_C(0x0102030405060708));
    memcpy(data + MESSAGE_BYTES_HEADER, "abc", 3);
    assert_int_equal(message_bytes_unpack(&frame, &bytes), 0);
    assert_int_equal(bytes.stream, 3);
    assert_true(bytes.offset == UINT64_C(0x0102030405060708));
    assert_int_equal(bytes.length, 3);
    assert_ptr_equal(bytes.data, data + MESSAGE_BYTES_HEADER);
    check_lengths(FRAME_OUTPUT, data, sizeof(data), MESSAGE_BYTES_HEADER);
    data[0] = 4; /* there is no such stream */
    assert_int_equal(message_bytes_unpack(&frame, &bytes), -EPROTO);
}

static void test_ack(void **state)
{
    struct message_ack ack = {.stream = 3, .offset = UINT64_MAX}, back;
    uint8_t data[16];
    ssize_t length = message_ack_pack(&ack, data, sizeof(data));
    struct frame frame = frame_of(data, length);

    (void)state;
    assert_int_equal(message_ack_unpack(&frame, &back), 0);
    assert_int_equal(back.stream, 3);
    assert_true(back.offset == UINT64_MAX);
    check_lengths(FRAME_ACK, data, length, length);
    data[0] = 4;
    assert_int_equal(message_ack_unpack(&frame, &back), -EPROTO);
    assert_int_equal(message_ack_pack(&ack, data, 8), -EMSGSIZE);
}

static void test_started_and_numbers(void **state)
{
    uint8_t data[16];
    struct message_started started = {.start_ns = UINT64_MAX - 1}, back;
    ssize_t length = message_started_pack(&started, data, sizeof(data));
    struct frame frame = frame_of(data, length);
    uint32_t number;

    (void)state;
    assert_int_equal(message_started_unpack(&frame, &back), 0);
    assert_true(back.start_ns == UINT64_MAX - 1 && back.flags == 0);
    check_lengths(FRAME_STARTED, data, length, length);
    assert_int_equal(message_started_pack(&started, data, 7), -EMSGSIZE);
    data[8] = 0; /* flags are there when there are some or a pid, and no others than we know */
    frame = frame_of(data, 9);
    assert_int_equal(message_started_unpack(&frame, &back), -EPROTO);
    data[8] = 0x80 | STARTED_FORKED;
    assert_int_equal(message_started_unpack(&frame, &back), -EPROTO);

    started.flags = STARTED_FORKED;
    length = message_started_pack(&started, data, sizeof(data));
    frame = frame_of(data, length);
    assert_int_equal(message_started_unpack(&frame, &back), 0);
    assert_true(back.start_ns == UINT64_MAX - 1 && back.flags == STARTED_FORKED);
    frame = frame_of(data, length + 1);
    assert_int_equal(message_started_unpack(&frame, &back), -EPROTO);
    assert_int_equal(message_started_pack(&started, data, 8), -EMSGSIZE);

    started = (struct message_started){.start_ns = 1, .pid = 4711};
    length = message_started_pack(&started, data, sizeof(data));
    frame = frame_of(data, length);
    assert_int_equal(message_started_unpack(&frame, &back), 0);
    assert_true(back.start_ns == 1 && back.flags == 0 && back.pid == 4711);
    frame = frame_of(data, length - 1);
    assert_int_equal(message_started_unpack(&frame, &back), -EPROTO);
    memset(data + 9, 0xff, 4); /* no pid is that high */
    frame = frame_of(data, length);
    assert_int_equal(message_started_unpack(&frame, &back), -EPROTO);

    length = message_number_pack(UINT32_MAX - 1, data, sizeof(data));
    frame = frame_of(data, length);
    assert_int_equal(message_number_unpack(&frame, &number), 0);
    assert_int_equal(number, UINT32_MAX - 1);
    check_lengths(FRAME_SIGNAL, data, length, length);
    assert_int_equal(message_number_pack(1, data, 3), -EMSGSIZE);
}

static int exited_verdict(int32_t exit_code, uint32_t signal)
{
    struct message_exited exited = {.exit_code = exit_code, .signal = signal}, back;
    uint8_t data[64];
    struct frame frame = frame_of(data, message_exited_pack(&exited, data, sizeof(data)));

    return message_exited_unpack(&frame, &back);
}

static void test_exited(void **state)
{
    struct message_exited exited = {.exit_code = 255,
                                    .signal = 64,
                                    .flags = EXITED_DISK_FULL | EXITED_MEMORY_WATCHDOG,
                                    .duration_ns = UINT64_MAX,
                                    .out_bytes = 1,
                                    .err_bytes = UINT64_MAX - 1,
                                    .event_bytes = 77,
                                    .cpu_us = 5,
                                    .max_rss_bytes = UINT64_MAX - 2};
    struct message_exited back = {0};
    uint8_t data[64];
    ssize_t length = message_exited_pack(&exited, data, sizeof(data));
    struct frame frame = frame_of(data, length);

    (void)state;
    assert_int_equal(message_exited_unpack(&frame, &back), 0);
    assert_int_equal(back.exit_code, 255);
    assert_int_equal(back.signal, 64);
    assert_int_equal(back.flags, exited.flags);
    assert_true(back.duration_ns == UINT64_MAX);
    assert_true(back.out_bytes == 1 && back.err_bytes == UINT64_MAX - 1);
    assert_true(back.event_bytes == 77);
    assert_true(back.cpu_us == 5 && back.max_rss_bytes == UINT64_MAX - 2);
    check_lengths(FRAME_EXITED, data, length, length);
    assert_int_equal(exited_verdict(-1, 0), -EPROTO);
    assert_int_equal(exited_verdict(256, 0), -EPROTO);
    assert_int_equal(exited_verdict(INT32_MIN, 0), -EPROTO);
    assert_int_equal(exited_verdict(0, 65), -EPROTO);
    assert_int_equal(exited_verdict(0, UINT32_MAX), -EPROTO);
    assert_int_equal(message_exited_pack(&exited, data, (size_t)length - 1), -EMSGSIZE);
}

static void test_inventory(void **state)
{
    struct message_inventory inventory = {.generation = 7,
                                          .flags = INVENTORY_STARTED | INVENTORY_PTY,
                                          .start_ns = UINT64_MAX,
                                          .kernel = UINT32_MAX - 3,
                                          .acked = {1, 2, 3},
                                          .read = {1, UINT64_MAX, 4},
                                          .input_received = 9,
                                          .input_ended = true};
    struct message_inventory back = {0};
    uint8_t data[80];
    ssize_t length = message_inventory_pack(&inventory, data, sizeof(data));
    struct frame frame = frame_of(data, length);

    (void)state;
    assert_int_equal(message_inventory_unpack(&frame, &back), 0);
    assert_int_equal(back.generation, 7);
    assert_int_equal(back.flags, INVENTORY_STARTED | INVENTORY_PTY);
    assert_true(back.start_ns == UINT64_MAX && back.input_received == 9 && back.input_ended);
    assert_true(back.kernel == UINT32_MAX - 3);
    for (int i = 0; i < MESSAGE_STREAMS; i++)
        assert_true(back.acked[i] == inventory.acked[i] && back.read[i] == inventory.read[i]);
    check_lengths(FRAME_INVENTORY, data, length, length);
    assert_int_equal(message_inventory_pack(&inventory, data, (size_t)length - 1), -EMSGSIZE);
    data[length - 1] = 2; /* neither yes nor no */
    assert_int_equal(message_inventory_unpack(&frame, &back), -EPROTO);
    inventory.acked[0] = 2; /* behind what was read */
    message_inventory_pack(&inventory, data, sizeof(data));
    assert_int_equal(message_inventory_unpack(&frame, &back), -EPROTO);
}

static void test_resume_and_size(void **state)
{
    struct message_resume resume = {.offset = {3, UINT64_MAX, 8}}, offsets;
    struct message_size size = {.rows = LIMIT_TERMINAL, .columns = 1}, back;
    uint8_t data[32];
    ssize_t length = message_resume_pack(&resume, data, sizeof(data));
    struct frame frame = frame_of(data, length);

    (void)state;
    assert_int_equal(message_resume_unpack(&frame, &offsets), 0);
    assert_true(offsets.offset[0] == 3 && offsets.offset[1] == UINT64_MAX &&
                offsets.offset[2] == 8);
    check_lengths(FRAME_RESUME, data, length, length);
    assert_int_equal(message_resume_pack(&resume, data, (size_t)length - 1), -EMSGSIZE);

    length = message_size_pack(&size, data, sizeof(data));
    frame = frame_of(data, length);
    assert_int_equal(message_size_unpack(&frame, &back), 0);
    assert_true(back.rows == LIMIT_TERMINAL && back.columns == 1);
    check_lengths(FRAME_RESIZE, data, length, length);
    assert_int_equal(message_size_pack(&size, data, 3), -EMSGSIZE);
    size.columns = LIMIT_TERMINAL + 1;
    message_size_pack(&size, data, sizeof(data));
    assert_int_equal(message_size_unpack(&frame, &back), -EPROTO);
}

static void test_kernel(void **state)
{
    struct message_kernel kernel = {.pid = INT32_MAX}, back;
    uint8_t data[8];
    ssize_t length = message_kernel_pack(&kernel, data, sizeof(data));
    struct frame frame = frame_of(data, length);

    (void)state;
    assert_int_equal(message_kernel_unpack(&frame, &back), 0);
    assert_int_equal(back.pid, INT32_MAX);
    check_lengths(FRAME_KERNEL, data, length, length);
    assert_int_equal(message_kernel_pack(&kernel, data, 3), -EMSGSIZE);
    for (int32_t pid = -1; pid <= 1; pid++) { /* everybody, nobody, the warden */
        kernel.pid = pid;
        message_kernel_pack(&kernel, data, sizeof(data));
        assert_int_equal(message_kernel_unpack(&frame, &back), -EPROTO);
    }
}

static int cell_verdict(uint32_t code, uint32_t input, uint32_t env)
{
    struct message_cell cell = {.code_length = code, .input_length = input, .env_length = env};
    uint8_t data[32];
    struct frame frame = frame_of(data, message_cell_pack(&cell, data, sizeof(data)));

    return message_cell_unpack(&frame, &cell);
}

static void test_cell(void **state)
{
    struct message_cell cell = {.kernel = UINT32_MAX,
                                .flags = CELL_SCRIPT | CELL_INPUT | CELL_KEEP,
                                .code_length = LIMIT_CODE_BYTES,
                                .input_length = 1,
                                .env_length = LIMIT_ARGV_BYTES};
    struct message_cell back;
    uint8_t data[32];
    ssize_t length = message_cell_pack(&cell, data, sizeof(data));
    struct frame frame = frame_of(data, length);

    (void)state;
    assert_int_equal(message_cell_unpack(&frame, &back), 0);
    assert_true(back.kernel == UINT32_MAX && back.flags == cell.flags);
    assert_true(back.code_length == LIMIT_CODE_BYTES && back.input_length == 1);
    assert_true(back.env_length == LIMIT_ARGV_BYTES);
    check_lengths(FRAME_CELL, data, length, length);
    assert_int_equal(message_cell_pack(&cell, data, (size_t)length - 1), -EMSGSIZE);
    assert_int_equal(cell_verdict(0, 0, 0), 0);
    assert_int_equal(cell_verdict(LIMIT_CODE_BYTES + 1, 0, 0), -EPROTO);
    assert_int_equal(cell_verdict(0, UINT32_MAX, 0), -EPROTO);
    assert_int_equal(cell_verdict(0, 0, LIMIT_ARGV_BYTES + 1), -EPROTO);
}

static void test_ports(void **state)
{
    static struct message_listening listening = {
        .ports = {1, 80, UINT16_MAX}, .count = 3, .is_cut = true};
    static struct message_listening back;
    uint8_t data[16];
    uint16_t port = 0;
    ssize_t length = message_port_pack(3000, data, sizeof(data));
    struct frame frame = frame_of(data, length);

    (void)state;
    assert_int_equal(message_port_unpack(&frame, &port), 0);
    assert_int_equal(port, 3000);
    check_lengths(FRAME_CONNECT, data, length, length);
    memset(data, 0, 2);
    assert_int_equal(message_port_unpack(&frame, &port), -EPROTO);

    length = message_listening_pack(&listening, data, sizeof(data));
    frame = frame_of(data, length);
    assert_int_equal(message_listening_unpack(&frame, &back), 0);
    assert_true(back.count == 3 && back.is_cut && back.ports[2] == UINT16_MAX);
    check_lengths(FRAME_LISTENING, data, length, length);
    assert_int_equal(message_listening_pack(&listening, data, (size_t)length - 1), -EMSGSIZE);
    data[0] = 2; /* a bool */
    assert_int_equal(message_listening_unpack(&frame, &back), -EPROTO);
    data[0] = 0;
    data[5] = 1; /* the second port: the first one again */
    assert_int_equal(message_listening_unpack(&frame, &back), -EPROTO);
    data[3] = 0; /* no port */
    assert_int_equal(message_listening_unpack(&frame, &back), -EPROTO);
    data[1] = data[2] = 0xff; /* more than fit */
    assert_int_equal(message_listening_unpack(&frame, &back), -EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ready),
        cmocka_unit_test(test_fail),
        cmocka_unit_test(test_exec),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_ack),
        cmocka_unit_test(test_started_and_numbers),
        cmocka_unit_test(test_exited),
        cmocka_unit_test(test_inventory),
        cmocka_unit_test(test_resume_and_size),
        cmocka_unit_test(test_kernel),
        cmocka_unit_test(test_cell),
        cmocka_unit_test(test_ports),
    };

    return cmocka_run_group_tests_name("wire/message", tests, NULL, NULL);
}
