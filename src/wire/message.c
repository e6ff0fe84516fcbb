/* message.c - what the frames say; see message.h. */
#include "wire/message.h"

#include <errno.h>
#include <string.h>

#include "wire/pack.h"

static ssize_t packed(const struct pack *pack)
{
    return pack->failed ? -EMSGSIZE : (ssize_t)pack->length;
}

static int unpacked(const struct unpack *unpack)
{
    return unpack_done(unpack) ? 0 : -EPROTO;
}

static struct unpack unpack_frame(const struct frame *frame)
{
    return (struct unpack){.data = frame->payload, .left = frame->length};
}

ssize_t message_ready_pack(const struct message_ready *ready, uint8_t *data, size_t size)
{
    struct pack pack = {.data = data, .capacity = size};

    pack_u16(&pack, ready->version);
    pack_u32(&pack, ready->layers);
    pack_u32(&pack, ready->missing);
    pack_u8(&pack, ready->descriptors);
    pack_u8(&pack, ready->stage_count);
    for (unsigned i = 0; i < ready->stage_count; i++)
        pack_u32(&pack, ready->stage_ns[i]);
    for (unsigned i = 0; i < MESSAGE_LACKS_MAX; i++) {
        if (ready->missing & (UINT32_C(1) << i))
            pack_u16(&pack, ready->lack_errno[i]);
    }
    return packed(&pack);
}

int message_ready_unpack(const struct frame *frame, struct message_ready *ret)
{
    struct unpack unpack = unpack_frame(frame);

    memset(ret, 0, sizeof(*ret));
    ret->version = unpack_u16(&unpack);
    ret->layers = unpack_u32(&unpack);
    ret->missing = unpack_u32(&unpack);
    ret->descriptors = unpack_u8(&unpack);
    if (ret->descriptors >= 1u << READY_FDS_MAX)
        return -EPROTO;
    ret->stage_count = unpack_u8(&unpack);
    if (ret->stage_count > MESSAGE_STAGES_MAX)
        return -EPROTO;
    for (unsigned i = 0; i < ret->stage_count; i++)
        ret->stage_ns[i] = unpack_u32(&unpack);
    for (unsigned i = 0; i < MESSAGE_LACKS_MAX; i++) {
        if (ret->missing & (UINT32_C(1) << i))
            ret->lack_errno[i] = unpack_u16(&unpack);
    }
    return unpacked(&unpack);
}

ssize_t message_fail_pack(const struct message_fail *fail, uint8_t *data, size_t size)
{
    struct pack pack = {.data = data, .capacity = size};

    pack_u16(&pack, fail->stage);
    pack_u16(&pack, fail->error);
    pack_u16(&pack, fail->step);
    return packed(&pack);
}

int message_fail_unpack(const struct frame *frame, struct message_fail *ret)
{
    struct unpack unpack = unpack_frame(frame);

    ret->stage = unpack_u16(&unpack);
    ret->error = unpack_u16(&unpack);
    ret->step = unpack_u16(&unpack);
    return unpacked(&unpack);
}

ssize_t message_exec_pack(const struct message_exec *exec, uint8_t *data, size_t size)
{
    struct pack pack = {.data = data, .capacity = size};

    pack_u32(&pack, exec->flags);
    pack_u32(&pack, exec->argc);
    pack_u32(&pack, exec->envc);
    pack_u32(&pack, exec->args_length);
    pack_u16(&pack, exec->rows);
    pack_u16(&pack, exec->columns);
    return packed(&pack);
}

int message_exec_unpack(const struct frame *frame, struct message_exec *ret)
{
    struct unpack unpack = unpack_frame(frame);

    ret->flags = unpack_u32(&unpack);
    ret->argc = unpack_u32(&unpack);
    ret->envc = unpack_u32(&unpack);
    ret->args_length = unpack_u32(&unpack);
    ret->rows = unpack_u16(&unpack);
    ret->columns = unpack_u16(&unpack);
    if (ret->argc == 0 || ret->argc > LIMIT_ARGV_COUNT || ret->envc > LIMIT_ENV_COUNT ||
        ret->args_length > LIMIT_ARGV_BYTES || ret->rows > LIMIT_TERMINAL ||
        ret->columns > LIMIT_TERMINAL)
        return -EPROTO;
    return unpacked(&unpack);
}

void message_bytes_header(uint8_t header[MESSAGE_BYTES_HEADER], uint8_t stream, uint64_t offset)
{
    struct pack pack = {.data = header, .capacity = MESSAGE_BYTES_HEADER};

    pack_u8(&pack, stream);
    pack_u64(&pack, offset);
}

int message_bytes_unpack(const struct frame *frame, struct message_bytes *ret)
{
    struct unpack unpack = unpack_frame(frame);

    ret->stream = unpack_u8(&unpack);
    ret->offset = unpack_u64(&unpack);
    ret->data = unpack_rest(&unpack, &ret->length);
    if (ret->stream > MESSAGE_STREAMS)
        return -EPROTO;
    return unpacked(&unpack);
}

ssize_t message_ack_pack(const struct message_ack *ack, uint8_t *data, size_t size)
{
    struct pack pack = {.data = data, .capacity = size};

    pack_u8(&pack, ack->stream);
    pack_u64(&pack, ack->offset);
    return packed(&pack);
}

int message_ack_unpack(const struct frame *frame, struct message_ack *ret)
{
    struct unpack unpack = unpack_frame(frame);

    ret->stream = unpack_u8(&unpack);
    ret->offset = unpack_u64(&unpack);
    if (ret->stream > MESSAGE_STREAMS)
        return -EPROTO;
    return unpacked(&unpack);
}

ssize_t message_started_pack(const struct message_started *started, uint8_t *data, size_t size)
{
    struct pack pack = {.data = data, .capacity = size};

    pack_u64(&pack, started->start_ns);
    if (started->flags || started->pid)
        pack_u8(&pack, started->flags);
    if (started->pid)
        pack_u32(&pack, started->pid);
    return packed(&pack);
}

int message_started_unpack(const struct frame *frame, struct message_started *ret)
{
    struct unpack unpack = unpack_frame(frame);

    ret->start_ns = unpack_u64(&unpack);
    ret->flags = 0;
    ret->pid = 0;
    if (unpack.left > 0)
        ret->flags = unpack_u8(&unpack);
    if (unpack.left > 0) {
        ret->pid = unpack_u32(&unpack);
        if (ret->pid == 0 || ret->pid > INT32_MAX)
            return -EPROTO;
    } else if (frame->length > sizeof(ret->start_ns) && ret->flags == 0) {
        return -EPROTO;
    }
    if (ret->flags & ~STARTED_FORKED)
        return -EPROTO;
    return unpacked(&unpack);
}

ssize_t message_exited_pack(const struct message_exited *exited, uint8_t *data, size_t size)
{
    struct pack pack = {.data = data, .capacity = size};

    pack_u32(&pack, (uint32_t)exited->exit_code);
    pack_u32(&pack, exited->signal);
    pack_u32(&pack, exited->flags);
    pack_u64(&pack, exited->duration_ns);
    pack_u64(&pack, exited->out_bytes);
    pack_u64(&pack, exited->err_bytes);
    pack_u64(&pack, exited->event_bytes);
    pack_u64(&pack, exited->cpu_us);
    pack_u64(&pack, exited->max_rss_bytes);
    return packed(&pack);
}

int message_exited_unpack(const struct frame *frame, struct message_exited *ret)
{
    struct unpack unpack = unpack_frame(frame);

    ret->exit_code = (int32_t)unpack_u32(&unpack);
    ret->signal = unpack_u32(&unpack);
    ret->flags = unpack_u32(&unpack);
    ret->duration_ns = unpack_u64(&unpack);
    ret->out_bytes = unpack_u64(&unpack);
    ret->err_bytes = unpack_u64(&unpack);
    ret->event_bytes = unpack_u64(&unpack);
    ret->cpu_us = unpack_u64(&unpack);
    ret->max_rss_bytes = unpack_u64(&unpack);
    if (ret->signal > 64 || ret->exit_code < 0 || ret->exit_code > 255)
        return -EPROTO;
    return unpacked(&unpack);
}

ssize_t message_inventory_pack(const struct message_inventory *inventory, uint8_t *data,
                               size_t size)
{
    struct pack pack = {.data = data, .capacity = size};

    pack_u32(&pack, inventory->generation);
    pack_u32(&pack, inventory->flags);
    pack_u32(&pack, inventory->kernel);
    pack_u64(&pack, inventory->start_ns);
    for (int i = 0; i < MESSAGE_STREAMS; i++) {
        pack_u64(&pack, inventory->acked[i]);
        pack_u64(&pack, inventory->read[i]);
    }
    pack_u64(&pack, inventory->input_received);
    pack_u8(&pack, inventory->input_ended);
    if (inventory->pid)
        pack_u32(&pack, inventory->pid);
    return packed(&pack);
}

int message_inventory_unpack(const struct frame *frame, struct message_inventory *ret)
{
    struct unpack unpack = unpack_frame(frame);
    uint8_t has_ended;

    ret->generation = unpack_u32(&unpack);
    ret->flags = unpack_u32(&unpack);
    ret->kernel = unpack_u32(&unpack);
    ret->start_ns = unpack_u64(&unpack);
    for (int i = 0; i < MESSAGE_STREAMS; i++) {
        ret->acked[i] = unpack_u64(&unpack);
        ret->read[i] = unpack_u64(&unpack);
    }
    ret->input_received = unpack_u64(&unpack);
    has_ended = unpack_u8(&unpack);
    ret->input_ended = has_ended;
    ret->pid = 0; /* unknown, or of an older warden */
    if (unpack.left > 0) {
        ret->pid = unpack_u32(&unpack);
        if (ret->pid == 0)
            return -EPROTO;
    }
    if (has_ended > 1 || ret->pid > INT32_MAX)
        return -EPROTO;
    for (int i = 0; i < MESSAGE_STREAMS; i++) {
        if (ret->acked[i] > ret->read[i])
            return -EPROTO;
    }
    return unpacked(&unpack);
}

ssize_t message_resume_pack(const struct message_resume *resume, uint8_t *data, size_t size)
{
    struct pack pack = {.data = data, .capacity = size};

    for (int i = 0; i < MESSAGE_STREAMS; i++)
        pack_u64(&pack, resume->offset[i]);
    return packed(&pack);
}

int message_resume_unpack(const struct frame *frame, struct message_resume *ret)
{
    struct unpack unpack = unpack_frame(frame);

    for (int i = 0; i < MESSAGE_STREAMS; i++)
        ret->offset[i] = unpack_u64(&unpack);
    return unpacked(&unpack);
}

ssize_t message_size_pack(const struct message_size *terminal, uint8_t *data, size_t size)
{
    struct pack pack = {.data = data, .capacity = size};

    pack_u16(&pack, terminal->rows);
    pack_u16(&pack, terminal->columns);
    return packed(&pack);
}

int message_size_unpack(const struct frame *frame, struct message_size *ret)
{
    struct unpack unpack = unpack_frame(frame);

    ret->rows = unpack_u16(&unpack);
    ret->columns = unpack_u16(&unpack);
    if (ret->rows > LIMIT_TERMINAL || ret->columns > LIMIT_TERMINAL)
        return -EPROTO;
    return unpacked(&unpack);
}

ssize_t message_number_pack(uint32_t number, uint8_t *data, size_t size)
{
    struct pack pack = {.data = data, .capacity = size};

    pack_u32(&pack, number);
    return packed(&pack);
}

int message_number_unpack(const struct frame *frame, uint32_t *ret)
{
    struct unpack unpack = unpack_frame(frame);

    *ret = unpack_u32(&unpack);
    return unpacked(&unpack);
}

ssize_t message_kernel_pack(const struct message_kernel *kernel, uint8_t *data, size_t size)
{
    struct pack pack = {.data = data, .capacity = size};

    pack_u32(&pack, (uint32_t)kernel->pid);
    return packed(&pack);
}

int message_kernel_unpack(const struct frame *frame, struct message_kernel *ret)
{
    struct unpack unpack = unpack_frame(frame);

    ret->pid = (int32_t)unpack_u32(&unpack);
    if (ret->pid <= 1)
        return -EPROTO;
    return unpacked(&unpack);
}

ssize_t message_cell_pack(const struct message_cell *cell, uint8_t *data, size_t size)
{
    struct pack pack = {.data = data, .capacity = size};

    pack_u32(&pack, cell->kernel);
    pack_u32(&pack, cell->flags);
    pack_u32(&pack, cell->code_length);
    pack_u32(&pack, cell->input_length);
    pack_u32(&pack, cell->env_length);
    return packed(&pack);
}

int message_cell_unpack(const struct frame *frame, struct message_cell *ret)
{
    struct unpack unpack = unpack_frame(frame);

    ret->kernel = unpack_u32(&unpack);
    ret->flags = unpack_u32(&unpack);
    ret->code_length = unpack_u32(&unpack);
    ret->input_length = unpack_u32(&unpack);
    ret->env_length = unpack_u32(&unpack);
    if (ret->code_length > LIMIT_CODE_BYTES || ret->input_length > LIMIT_CODE_BYTES ||
        ret->env_length > LIMIT_ARGV_BYTES)
        return -EPROTO;
    return unpacked(&unpack);
}

ssize_t message_port_pack(uint16_t port, uint8_t *data, size_t size)
{
    struct pack pack = {.data = data, .capacity = size};

    pack_u16(&pack, port);
    return packed(&pack);
}

int message_port_unpack(const struct frame *frame, uint16_t *ret)
{
    struct unpack unpack = unpack_frame(frame);

    *ret = unpack_u16(&unpack);
    return *ret == 0 ? -EPROTO : unpacked(&unpack);
}

ssize_t message_listening_pack(const struct message_listening *listening, uint8_t *data,
                               size_t size)
{
    struct pack pack = {.data = data, .capacity = size};

    pack_u8(&pack, listening->is_cut);
    pack_u16(&pack, listening->count);
    for (unsigned i = 0; i < listening->count; i++)
        pack_u16(&pack, listening->ports[i]);
    return packed(&pack);
}

int message_listening_unpack(const struct frame *frame, struct message_listening *ret)
{
    struct unpack unpack = unpack_frame(frame);
    uint8_t is_cut = unpack_u8(&unpack);
    unsigned before = 0;

    ret->is_cut = is_cut;
    ret->count = unpack_u16(&unpack);
    if (is_cut > 1 || ret->count > LIMIT_LISTED_PORTS)
        return -EPROTO;
    for (unsigned i = 0; i < ret->count; i++) {
        ret->ports[i] = unpack_u16(&unpack);
        if (ret->ports[i] <= before)
            return -EPROTO;
        before = ret->ports[i];
    }
    return unpacked(&unpack);
}
