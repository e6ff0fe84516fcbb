/* handover.c - boxes and kernels as bytes for the program that takes over; see handover.h. */
#include "launcher/handover.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/isolation.h"
#include "base/limits.h"
#include "base/str.h"
#include "boxes/boxes.h"
#include "wire/fields.h"
#include "wire/frame.h"

#define MAGIC "bailey handover"
#define COUNT_AT (sizeof(MAGIC) + 8)
#define HEAD_BYTES (COUNT_AT + 4)
#define RECORD_HEAD 5
#define RECORD_MAX 4096

enum record { RECORD_LAUNCHER = 1, RECORD_BOX, RECORD_KERNEL };

/* ---- the fields of each record; a number that is a pid or a descriptor is checked below ---- */

#define NUMBER(type, member) FIELD_NUMBER_OF(struct handover_##type, member, 0)
#define UP_TO(type, member, largest) FIELD_NUMBER_OF(struct handover_##type, member, largest)
#define FLAG(type, member) UP_TO(type, member, 1)
#define TEXT(type, member)                                                        \
    {                                                                             \
        .kind = FIELD_BYTES, FIELD_OF(struct handover_##type, member), .width = 2 \
    }

static const struct field launcher_fields[] = {
    NUMBER(launcher, generation),
    NUMBER(launcher, next_number),
    NUMBER(launcher, next_slot),
    NUMBER(launcher, next_kernel),
    TEXT(launcher, layer),
    NUMBER(launcher, former_self_fd),
    NUMBER(launcher, former_engine_fd),
    FLAG(launcher, is_return),
    TEXT(launcher, reason),
};
_Static_assert(_CONTROLLER_MAX == 4, "each controller's group has a row");
static const struct field box_fields[] = {
    NUMBER(box, facts.number),
    TEXT(box, facts.key),
    NUMBER(box, facts.memory_bytes),
    NUMBER(box, facts.disk_bytes),
    NUMBER(box, facts.pids),
    NUMBER(box, facts.cpu_millis),
    NUMBER(box, facts.layers),
    NUMBER(box, facts.missing),
    UP_TO(box, facts.memory_by, _HELD_BY_MAX - 1),
    UP_TO(box, facts.pids_by, _HELD_BY_MAX - 1),
    UP_TO(box, facts.cpu_by, _HELD_BY_MAX - 1),
    UP_TO(box, facts.disk_by, _HELD_BY_MAX - 1),
    UP_TO(box, facts.group, CGROUP_V2),
    NUMBER(box, facts.made_ns),
    TEXT(box, facts.layer),
    NUMBER(box, facts.tier),
    FLAG(box, facts.is_pooled),
    UP_TO(box, slot, LIMIT_BOXES - 1),
    FLAG(box, was_asked),
    FLAG(box, was_prewarmed),
    UP_TO(box, staging, _STAGING_MAX - 1),
    NUMBER(box, pid),
    NUMBER(box, pid_fd),
    NUMBER(box, channel_fd),
    NUMBER(box, ruleset_fd),
    {FIELD_OF(struct handover_box, flavour), .width = 1, .most = CGROUP_V2},
    TEXT(box, group[CONTROLLER_MEMORY]),
    TEXT(box, group[CONTROLLER_PIDS]),
    TEXT(box, group[CONTROLLER_CPU]),
    TEXT(box, group[CONTROLLER_CPUACCT]),
};
static const struct field owner_fields[] = {
    FLAG(box, has_owner),
    UP_TO(box, owner_slot, LIMIT_BOXES - 1),
    TEXT(box, tenant),
};
static const struct field account_fields[] = {TEXT(box, account)};
static const struct field kernel_fields[] = {
    NUMBER(kernel, number),
    NUMBER(kernel, kernel),
    NUMBER(kernel, pid),
    NUMBER(kernel, pid_fd),
};

/* ---- to bytes ---- */

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
    fields_pack(&pack, launcher_fields, ARRAY_SIZE(launcher_fields), launcher);
    return add_record(buf, RECORD_LAUNCHER, &pack);
}

int handover_add_box(struct buf *buf, const struct handover_box *box)
{
    uint8_t data[RECORD_MAX];
    struct pack pack = {.data = data, .capacity = sizeof(data)};

    fields_pack(&pack, box_fields, ARRAY_SIZE(box_fields), box);
    fields_pack(&pack, owner_fields, ARRAY_SIZE(owner_fields), box);
    fields_pack(&pack, account_fields, ARRAY_SIZE(account_fields), box);
    return add_record(buf, RECORD_BOX, &pack);
}

int handover_add_kernel(struct buf *buf, const struct handover_kernel *kernel)
{
    uint8_t data[RECORD_MAX];
    struct pack pack = {.data = data, .capacity = sizeof(data)};

    fields_pack(&pack, kernel_fields, ARRAY_SIZE(kernel_fields), kernel);
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

/* A descriptor that is not a standard stream. */
static bool is_fd(int32_t fd)
{
    return fd >= 3;
}

/* 1 is the launcher itself; 0 and less are groups to kill(2). */
static bool is_pid(int32_t pid)
{
    return pid > 1;
}

static int read_launcher(struct unpack *unpack, const struct handover_reader *reader)
{
    struct handover_launcher launcher = {0};

    if (!fields_unpack(unpack, launcher_fields, ARRAY_SIZE(launcher_fields), &launcher) ||
        !(launcher.former_self_fd == -1 || is_fd(launcher.former_self_fd)) ||
        !(launcher.former_engine_fd == -1 || is_fd(launcher.former_engine_fd)))
        return -EBADMSG;
    return reader->launcher(reader->ctx, &launcher);
}

static int read_box(struct unpack *unpack, const struct handover_reader *reader)
{
    struct handover_box box = {0};

    if (!fields_unpack(unpack, box_fields, ARRAY_SIZE(box_fields), &box))
        return -EBADMSG;
    if (unpack->left > 0 && /* of a version that knows owners */
        !fields_unpack(unpack, owner_fields, ARRAY_SIZE(owner_fields), &box))
        return -EBADMSG;
    if (unpack->left > 0 && /* of a version that divides CPU time */
        !fields_unpack(unpack, account_fields, ARRAY_SIZE(account_fields), &box))
        return -EBADMSG;
    if (box.facts.number == 0 || !box.facts.key[0] || !is_pid(box.pid) || !is_fd(box.pid_fd) ||
        !is_fd(box.channel_fd) || !(box.ruleset_fd == -1 || is_fd(box.ruleset_fd)))
        return -EBADMSG;
    return reader->box(reader->ctx, &box);
}

static int read_kernel(struct unpack *unpack, const struct handover_reader *reader)
{
    struct handover_kernel kernel = {0};

    if (!fields_unpack(unpack, kernel_fields, ARRAY_SIZE(kernel_fields), &kernel) ||
        !is_pid(kernel.pid) || !is_fd(kernel.pid_fd))
        return -EBADMSG;
    return reader->kernel(reader->ctx, &kernel);
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
