/* cell_fake.h - kernels and cells of a box whose warden is the test (fake_warden.h). */
#ifndef BAILEY_TESTS_CELL_FAKE_H
#define BAILEY_TESTS_CELL_FAKE_H

#include "runtime/box/fake_warden.h"

#include <signal.h>

#include "runtime/box/box_private.h"

static inline struct call *call_of(struct fake *fake, uint32_t id)
{
    return box_call(fake->box, id, CALL_EXEC);
}

static inline uint32_t start_kernel(struct fake *fake, int index)
{
    static const char *const argv[] = {"python", NULL};
    struct exec_spec spec = {.argv = argv};
    struct message_exec exec;
    struct frame frame;

    assert_int_equal(
        box_kernel(fake->box, &spec, &exec_seen, &fake->seen[index], &fake->id[index], &fake->err),
        0);
    hear(fake, FRAME_ARGS, 0);
    frame = hear(fake, FRAME_EXEC, fake->id[index]);
    assert_int_equal(message_exec_unpack(&frame, &exec), 0);
    assert_int_equal(exec.flags, EXEC_KERNEL);
    return fake->id[index];
}

static inline uint32_t take_kernel(struct fake *fake, int index, uint32_t id)
{
    fake->id[index] = id;
    assert_int_equal(
        box_kernel_given(fake->box, id, false, &exec_seen, &fake->seen[index], &fake->err), 0);
    hear_nothing(fake);
    return id;
}

static inline int try_cell(struct fake *fake, int index, const struct cell_spec *spec)
{
    return box_cell(fake->box, spec, &exec_seen, &fake->seen[index], &fake->id[index], &fake->err);
}

static inline uint32_t start_cell(struct fake *fake, int index, uint32_t kernel,
                                  uint64_t timeout_ms)
{
    struct cell_spec spec = {
        .kernel = kernel, .code = "code", .code_length = 4, .timeout_ms = timeout_ms};

    assert_int_equal(try_cell(fake, index, &spec), 0);
    hear(fake, FRAME_ARGS, 0);
    hear(fake, FRAME_CELL, fake->id[index]);
    return fake->id[index];
}

static inline void hear_signal(struct fake *fake, uint32_t id, uint32_t wanted)
{
    struct frame frame = hear(fake, FRAME_SIGNAL, id);
    uint32_t number = 0;

    assert_int_equal(message_number_unpack(&frame, &number), 0);
    assert_int_equal(number, wanted);
}

#define WITH_A_FAKE(test) cmocka_unit_test_setup_teardown(test, fake_set_up, fake_tear_down)

#endif
