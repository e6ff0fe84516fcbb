/* handover.c - boxes and kernels as bytes for the program that takes over; see handover.h. */
#include "launcher/handover.h"

#include <errno.h>
#include <string.h>

#include "base/isolation.h"
#include "base/limits.h"
#include "base/str.h"
#include "boxes/boxes.h"
#include "wire/frame.h"
#include "wire/pack.h"

#define MAGIC "bailey handover"
#define COUNT_AT (sizeof(MAGIC) + 8)
#define HEAD_BYTES (COUNT_AT + 4)
#define RECORD_HEAD 5
#define RECORD_MAX 4096

enum record { RECORD_LAUNCHER = 1, RECORD_BOX, RECORD_KERNEL };

/* ---- to bytes ---- */

static void put_text(struct pack *pack, const char *text, size_t size)
{
    size_t length = strnlen(text, size - 1);

    pack_u16(pack, (uint16_t)length);
    pack_bytes(pack, text, length);
}

static void put_number(uint8_t *at, uint32_t value)
{
    struct pack pack = {.data = at, .capacity = 4};

    pack_u32(&pack, value);
}

static int add_record(struct buf *buf, enum record type, const struct pack *fields)
{
    uint8_t head[RECORD_HEAD] = {(uint8_t)type};
    int r;

    if (fields->failed)
        return -EMSGSIZE;
    put_number(head + 1, (uint32_t)fields->length);
    r = buf_append(buf, head, sizeof(head));
    return r < 0 ? r : buf_append(buf, fields->data, fields->length);
}

int handover_begin(struct buf *buf, const struct handover_launcher *launcher)
{
    uint8_t head[HEAD_BYTES] = MAGIC, data[RECORD_MAX];
    struct pack pack = {.data = data, .capacity = sizeof(data)};
    int r;

    put_number(head + sizeof(MAGIC), HANDOVER_VERSION);
    put_number(head + sizeof(MAGIC) + 4, WIRE_VERSION);
    r = buf_append(buf, head, sizeof(head));
    if (r < 0)
        return r;
    pack_u32(&pack, launcher->generation);
    pack_u32(&pack, launcher->next_number);
    pack_u32(&pack, launcher->next_slot);
    pack_u32(&pack, launcher->next_kernel);
    put_text(&pack, launcher->layer, sizeof(launcher->layer));
    pack_u32(&pack, (uint32_t)launcher->former_self_fd);
    pack_u32(&pack, (uint32_t)launcher->former_engine_fd);
    pack_u8(&pack, launcher->is_return);
    put_text(&pack, launcher->reason, sizeof(launcher->reason));
    return add_record(buf, RECORD_LAUNCHER, &pack);
}

static void put_facts(struct pack *pack, const struct launcher_box *facts)
{
    pack_u32(pack, facts->number);
    put_text(pack, facts->key, sizeof(facts->key));
    pack_u64(pack, facts->memory_bytes);
    pack_u64(pack, facts->disk_bytes);
    pack_u32(pack, facts->pids);
    pack_u32(pack, facts->cpu_millis);
    pack_u32(pack, facts->layers);
    pack_u32(pack, facts->missing);
    pack_u8(pack, facts->memory_by);
    pack_u8(pack, facts->pids_by);
    pack_u8(pack, facts->cpu_by);
    pack_u8(pack, facts->disk_by);
    pack_u8(pack, facts->group);
    pack_u64(pack, facts->made_ns);
    put_text(pack, facts->layer, sizeof(facts->layer));
    pack_u8(pack, facts->tier);
    pack_u8(pack, facts->is_pooled);
}

int handover_add_box(struct buf *buf, const struct handover_box *box)
{
    uint8_t data[RECORD_MAX];
    struct pack pack = {.data = data, .capacity = sizeof(data)};

    put_facts(&pack, &box->facts);
    pack_u32(&pack, box->slot);
    pack_u8(&pack, box->was_asked);
    pack_u8(&pack, box->was_prewarmed);
    pack_u8(&pack, box->staging);
    pack_u32(&pack, (uint32_t)box->pid);
    pack_u32(&pack, (uint32_t)box->pid_fd);
    pack_u32(&pack, (uint32_t)box->channel_fd);
    pack_u32(&pack, (uint32_t)box->ruleset_fd);
    pack_u8(&pack, (uint8_t)box->flavour);
    for (int i = 0; i < _CONTROLLER_MAX; i++)
        put_text(&pack, box->group[i], sizeof(box->group[i]));
    pack_u8(&pack, box->has_owner);
    pack_u32(&pack, box->owner_slot);
    put_text(&pack, box->tenant, sizeof(box->tenant));
    return add_record(buf, RECORD_BOX, &pack);
}

int handover_add_kernel(struct buf *buf, const struct handover_kernel *kernel)
{
    uint8_t data[RECORD_MAX];
    struct pack pack = {.data = data, .capacity = sizeof(data)};

    pack_u32(&pack, kernel->number);
    pack_u32(&pack, kernel->kernel);
    pack_u32(&pack, (uint32_t)kernel->pid);
    pack_u32(&pack, (uint32_t)kernel->pid_fd);
    return add_record(buf, RECORD_KERNEL, &pack);
}

/* Counted here, so that a writer cannot get it wrong. */
void handover_end(struct buf *buf)
{
    uint8_t *data = (uint8_t *)buf->data;
    uint32_t count = 0;

    for (size_t at = HEAD_BYTES; at < buf->length; count++) {
        struct unpack unpack = {.data = data + at + 1, .left = 4};

        at += RECORD_HEAD + unpack_u32(&unpack);
    }
    put_number(data + COUNT_AT, count);
}

/* ---- from bytes ---- */

static void take_text(struct unpack *unpack, char *text, size_t size)
{
    size_t length = unpack_u16(unpack);

    if (unpack->failed || length >= size || length > unpack->left ||
        memchr(unpack->data, 0, length)) {
        unpack->failed = true;
        return;
    }
    memcpy(text, unpack->data, length);
    text[length] = 0;
    unpack->data += length;
    unpack->left -= length;
}

/* The number of a descriptor that is not a standard stream; `may_miss`: or -1. */
static int32_t take_fd(struct unpack *unpack, bool may_miss)
{
    int32_t fd = (int32_t)unpack_u32(unpack);

    if (fd < 3 && !(may_miss && fd == -1))
        unpack->failed = true;
    return fd;
}

static int32_t take_pid(struct unpack *unpack)
{
    int32_t pid = (int32_t)unpack_u32(unpack);

    if (pid <= 1) /* 1 is the launcher itself; 0 and less are groups to kill(2) */
        unpack->failed = true;
    return pid;
}

static bool take_bool(struct unpack *unpack)
{
    uint8_t value = unpack_u8(unpack);

    if (value > 1)
        unpack->failed = true;
    return value == 1;
}

static int read_launcher(struct unpack *unpack, const struct handover_reader *reader)
{
    struct handover_launcher launcher = {0};

    launcher.generation = unpack_u32(unpack);
    launcher.next_number = unpack_u32(unpack);
    launcher.next_slot = unpack_u32(unpack);
    launcher.next_kernel = unpack_u32(unpack);
    take_text(unpack, launcher.layer, sizeof(launcher.layer));
    launcher.former_self_fd = take_fd(unpack, true);
    launcher.former_engine_fd = take_fd(unpack, true);
    launcher.is_return = take_bool(unpack);
    take_text(unpack, launcher.reason, sizeof(launcher.reason));
    return unpack->failed ? -EBADMSG : reader->launcher(reader->ctx, &launcher);
}

static void take_facts(struct unpack *unpack, struct launcher_box *facts)
{
    facts->number = unpack_u32(unpack);
    take_text(unpack, facts->key, sizeof(facts->key));
    facts->memory_bytes = unpack_u64(unpack);
    facts->disk_bytes = unpack_u64(unpack);
    facts->pids = unpack_u32(unpack);
    facts->cpu_millis = unpack_u32(unpack);
    facts->layers = unpack_u32(unpack);
    facts->missing = unpack_u32(unpack);
    facts->memory_by = unpack_u8(unpack);
    facts->pids_by = unpack_u8(unpack);
    facts->cpu_by = unpack_u8(unpack);
    facts->disk_by = unpack_u8(unpack);
    facts->group = unpack_u8(unpack);
    facts->made_ns = unpack_u64(unpack);
    take_text(unpack, facts->layer, sizeof(facts->layer));
    facts->tier = unpack_u8(unpack);
    facts->is_pooled = take_bool(unpack);
    if (facts->number == 0 || !facts->key[0] || facts->memory_by >= _HELD_BY_MAX ||
        facts->pids_by >= _HELD_BY_MAX || facts->cpu_by >= _HELD_BY_MAX ||
        facts->disk_by >= _HELD_BY_MAX || facts->group > CGROUP_V2)
        unpack->failed = true;
}

static int read_box(struct unpack *unpack, const struct handover_reader *reader)
{
    struct handover_box box = {0};

    take_facts(unpack, &box.facts);
    box.slot = unpack_u32(unpack);
    box.was_asked = take_bool(unpack);
    box.was_prewarmed = take_bool(unpack);
    box.staging = unpack_u8(unpack);
    box.pid = take_pid(unpack);
    box.pid_fd = take_fd(unpack, false);
    box.channel_fd = take_fd(unpack, false);
    box.ruleset_fd = take_fd(unpack, true);
    box.flavour = (enum cgroup_flavour)unpack_u8(unpack);
    for (int i = 0; i < _CONTROLLER_MAX; i++)
        take_text(unpack, box.group[i], sizeof(box.group[i]));
    if (!unpack->failed && unpack->left > 0) { /* of a version that knows owners */
        box.has_owner = take_bool(unpack);
        box.owner_slot = unpack_u32(unpack);
        take_text(unpack, box.tenant, sizeof(box.tenant));
    }
    if (unpack->failed || box.slot >= LIMIT_BOXES || box.owner_slot >= LIMIT_BOXES ||
        box.staging >= _STAGING_MAX || box.flavour > CGROUP_V2)
        return -EBADMSG;
    return reader->box(reader->ctx, &box);
}

static int read_kernel(struct unpack *unpack, const struct handover_reader *reader)
{
    struct handover_kernel kernel = {0};

    kernel.number = unpack_u32(unpack);
    kernel.kernel = unpack_u32(unpack);
    kernel.pid = take_pid(unpack);
    kernel.pid_fd = take_fd(unpack, false);
    return unpack->failed ? -EBADMSG : reader->kernel(reader->ctx, &kernel);
}

static int read_record(uint8_t type, struct unpack *fields, const struct handover_reader *reader)
{
    switch ((enum record)type) {
    case RECORD_LAUNCHER:
        return read_launcher(fields, reader);
    case RECORD_BOX:
        return read_box(fields, reader);
    case RECORD_KERNEL:
        return read_kernel(fields, reader);
    default:
        return -EPROTONOSUPPORT; /* something would be lost */
    }
}

static int read_head(struct unpack *unpack, uint32_t *ret_count, struct error *err)
{
    uint32_t version, wire;

    if (unpack->left < HEAD_BYTES || memcmp(unpack->data, MAGIC, sizeof(MAGIC)) != 0)
        return error_set(err, -EBADMSG, ERROR_ENGINE, "this is no handover");
    unpack->data += sizeof(MAGIC);
    unpack->left -= sizeof(MAGIC);
    version = unpack_u32(unpack);
    wire = unpack_u32(unpack);
    *ret_count = unpack_u32(unpack);
    if (version != HANDOVER_VERSION)
        return error_set(err, -EPROTONOSUPPORT, ERROR_ENGINE,
                         "the handover has version %u, and this program reads %u",
                         (unsigned)version, HANDOVER_VERSION);
    if (wire != WIRE_VERSION)
        return error_set(err, -EPROTONOSUPPORT, ERROR_ENGINE,
                         "live boxes use version %u of the wire protocol, and this program uses %u",
                         (unsigned)wire, WIRE_VERSION);
    return 0;
}

int handover_read(const void *data, size_t length, const struct handover_reader *reader,
                  struct error *err)
{
    struct unpack unpack = {.data = data, .left = length};
    uint32_t count = 0;
    int r = read_head(&unpack, &count, err);

    for (uint32_t i = 0; i < count && r == 0; i++) {
        uint8_t type = unpack_u8(&unpack);
        uint32_t size = unpack_u32(&unpack);
        struct unpack fields = {.data = unpack.data, .left = size};

        if (unpack.failed || size > unpack.left || (type == RECORD_LAUNCHER) != (i == 0))
            return error_set(err, -EBADMSG, ERROR_ENGINE, "record %u of the handover is broken",
                             (unsigned)i);
        unpack.data += size;
        unpack.left -= size;
        r = read_record(type, &fields, reader);
        if (r < 0)
            return error_set(err, r, ERROR_ENGINE, "record %u of the handover: %s", (unsigned)i,
                             strerror(-r));
    }
    if (r == 0 && (count == 0 || unpack.left > 0))
        return error_set(err, -EBADMSG, ERROR_ENGINE, "the handover is not whole");
    return r;
}
