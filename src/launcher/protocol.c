/* protocol.c - the messages of broker and launcher, as bytes and on their socket; see protocol.h.
 */
#include "launcher/protocol.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/isolation.h"
#include "base/str.h"
#include "boxes/boxes.h"
#include "sandbox/sandbox.h"
#include "sys/packet.h"
#include "wire/fields.h"

/*
 * Words are sent as their index in a table (those of errors in base/error.h): the result is always
 * one of the known words, from any sender. These are the launcher's own stages; those of sandbox/
 * follow by their number.
 */
static const char *const own_stages[] = {NULL, "clone namespaces", "write id maps"};

#define STAGE_COUNT (ARRAY_SIZE(own_stages) + SANDBOX_STAGES_MAX)

static const char *stage_word(size_t number)
{
    return number < ARRAY_SIZE(own_stages)
               ? own_stages[number]
               : sandbox_stage_name((unsigned)(number - ARRAY_SIZE(own_stages)));
}

static uint8_t stage_number(const char *word)
{
    for (size_t i = 0; word && i < STAGE_COUNT; i++) {
        if (str_equal(stage_word(i), word))
            return (uint8_t)i;
    }
    return 0;
}

/* ---- the fields of each message, in the order in which they are sent ---- */

#define DIGITS "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyz"

#define NUMBER(member) FIELD_NUMBER_OF(struct launcher_message, member, 0)
#define UP_TO(member, largest) FIELD_NUMBER_OF(struct launcher_message, member, largest)
#define FLAG(member) UP_TO(member, 1)
#define TEXT(member, letters) FIELD_TEXT_OF(struct launcher_message, member, letters)
#define KEY(member) TEXT(member, LETTERS DIGITS "_") /* it becomes a file's name */
#define HASH(member) TEXT(member, DIGITS "abcdef")   /* it becomes a folder's name */

static const struct field number_fields[] = {NUMBER(number)};
static const struct field layer_fields[] = {HASH(layer)};
static const struct field host_fields[] = {TEXT(host, LETTERS DIGITS "_")};
static const struct field make_fields[] = {
    NUMBER(make.serial),
    KEY(make.key),
    NUMBER(make.memory_bytes),
    NUMBER(make.disk_bytes),
    NUMBER(make.pids),
    NUMBER(make.cpu_millis),
    UP_TO(make.minimum, _ISOLATION_MAX - 1),
    FLAG(make.has_data),
    FLAG(make.has_packages),
    HASH(make.layer),
    NUMBER(make.tier),
    NUMBER(make.kernel),
    UP_TO(make.staging, _STAGING_MAX - 1),
    TEXT(make.tenant, LETTERS DIGITS "-"),
    {.kind = FIELD_BYTES, FIELD_OF(struct launcher_message, make.python), .width = 2},
    {.kind = FIELD_BYTES, FIELD_OF(struct launcher_message, make.node), .width = 2},
};
static const struct field box_fields[] = {
    NUMBER(box.serial),
    NUMBER(box.number),
    KEY(box.key),
    NUMBER(box.memory_bytes),
    NUMBER(box.disk_bytes),
    NUMBER(box.pids),
    NUMBER(box.cpu_millis),
    UP_TO(box.layers, ISOLATION_LAYER_ALL),
    UP_TO(box.missing, ISOLATION_LAYER_ALL),
    UP_TO(box.memory_by, _HELD_BY_MAX - 1),
    UP_TO(box.pids_by, _HELD_BY_MAX - 1),
    UP_TO(box.cpu_by, _HELD_BY_MAX - 1),
    UP_TO(box.disk_by, _HELD_BY_MAX - 1),
    UP_TO(box.group, CGROUP_V2),
    NUMBER(box.made_ns),
    HASH(box.layer),
    NUMBER(box.tier),
    NUMBER(box.kernel),
    FLAG(box.is_pooled),
    FLAG(box.warden_owns_kernel),
};
static const struct field refused_fields[] = {
    NUMBER(refused.serial),
    UP_TO(refused.layers, ISOLATION_LAYER_ALL),
    UP_TO(refused.missing, ISOLATION_LAYER_ALL),
};
static const struct field usage_fields[] = {
    NUMBER(usage.number),
    NUMBER(usage.cpu_us),
    NUMBER(usage.memory_bytes),
    NUMBER(usage.oom_kills),
    FLAG(usage.was_asked),
    UP_TO(usage.why, _WHY_MAX - 1),
    UP_TO(usage.counted, _COUNTED_MAX - 1),
};
static const struct field kernel_fields[] = {
    NUMBER(kernel.number),
    NUMBER(kernel.kernel),
    UP_TO(kernel.tier, TIERS_MAX - 1),
};
static const struct field kernel_made_fields[] = {
    NUMBER(kernel_made.number),
    NUMBER(kernel_made.kernel),
    {.kind = FIELD_ERRNO, FIELD_OF(struct launcher_message, kernel_made.num)},
};
static const struct field kernel_ended_fields[] = {
    NUMBER(kernel_ended.number),        NUMBER(kernel_ended.kernel),
    UP_TO(kernel_ended.status, 0xffff), NUMBER(kernel_ended.cpu_us),
    NUMBER(kernel_ended.max_rss_bytes),
};
static const struct field commit_layer_fields[] = {
    NUMBER(commit_layer.serial),
    KEY(commit_layer.key),
    FLAG(commit_layer.is_packages),
};
static const struct field layer_committed_fields[] = {
    NUMBER(layer_committed.serial), HASH(layer_committed.layer),     NUMBER(layer_committed.bytes),
    NUMBER(layer_committed.files),  FLAG(layer_committed.was_there),
};
static const struct field state_fields[] = {
    HASH(state.layer),       NUMBER(state.tier),         FLAG(state.is_ready),
    NUMBER(state.pid),       NUMBER(state.forks),        NUMBER(state.pooled),
    NUMBER(state.pool_size), NUMBER(state.memory_bytes), NUMBER(state.started_ns),
    NUMBER(state.ready_ns),
};
static const struct field verdict_fields[] = {
    NUMBER(verdict.number),
    FLAG(verdict.is_allowed),
    {.kind = FIELD_NUMBER, FIELD_OF(struct launcher_message, verdict.port), .width = 4},
    TEXT(verdict.host, NULL),
    TEXT(verdict.reason, NULL),
};

static const struct field spent_fields[] = {
    TEXT(spent.tenant, LETTERS DIGITS "-"),
    NUMBER(spent.cpu_us),
};

#define ROW(rows) .fields = rows, .count = ARRAY_SIZE(rows)
#define ERROR_AT(member) .error = offsetof(struct launcher_message, member)

static const struct row {
    const struct field *fields;
    size_t count;
    size_t error; /* where the error is that follows the fields; 0: there is none */
} rows[_LAUNCHER_TYPE_MAX] = {
    [LAUNCHER_HELLO] = {ROW(number_fields)},
    [LAUNCHER_MAKE] = {ROW(make_fields)},
    [LAUNCHER_END] = {ROW(number_fields)},
    [LAUNCHER_USAGE] = {ROW(number_fields)},
    [LAUNCHER_KERNEL] = {ROW(kernel_fields)},
    [LAUNCHER_COMMIT_LAYER] = {ROW(commit_layer_fields)},
    [LAUNCHER_DISCARD] = {ROW(commit_layer_fields)},
    [LAUNCHER_DEFAULT] = {ROW(layer_fields)},
    [LAUNCHER_FORGET] = {ROW(layer_fields)},
    [LAUNCHER_BOX] = {ROW(box_fields)},
    [LAUNCHER_WELCOME] = {ROW(number_fields)},
    [LAUNCHER_MADE] = {ROW(box_fields)},
    [LAUNCHER_REFUSED] = {ROW(refused_fields), ERROR_AT(refused.error)},
    [LAUNCHER_ENDED] = {ROW(usage_fields)},
    [LAUNCHER_USED] = {ROW(usage_fields)},
    [LAUNCHER_STOPPING] = {ROW(number_fields)},
    [LAUNCHER_KERNEL_MADE] = {ROW(kernel_made_fields)},
    [LAUNCHER_KERNEL_ENDED] = {ROW(kernel_ended_fields)},
    [LAUNCHER_LAYER_COMMITTED] = {ROW(layer_committed_fields), ERROR_AT(layer_committed.error)},
    [LAUNCHER_STATE] = {ROW(state_fields)},
    [LAUNCHER_VERDICT] = {ROW(verdict_fields)},
    [LAUNCHER_FAILED] = {ERROR_AT(failed)},
    [LAUNCHER_PROVIDER_HOST] = {ROW(host_fields)},
    [LAUNCHER_SPENT] = {ROW(spent_fields)},
};

/* ---- to bytes ---- */

static void pack_error(struct pack *pack, const struct error *error)
{
    pack_u32(pack, (uint32_t)-error->num);
    pack_u8(pack, (uint8_t)error_code_number(error->code));
    pack_u8(pack, stage_number(error->stage));
    pack_bytes(pack, error->text, strnlen(error->text, sizeof(error->text) - 1));
}

long launcher_message_pack(const struct launcher_message *message, uint8_t *data, size_t size)
{
    struct pack pack = {.data = data, .capacity = size};
    const struct row *row = &rows[message->type];

    pack_u8(&pack, (uint8_t)message->type);
    fields_pack(&pack, row->fields, row->count, message);
    if (row->error)
        pack_error(&pack, (const struct error *)((const char *)message + row->error));
    return pack.failed ? -EMSGSIZE : (long)pack.length;
}

/* ---- from bytes ---- */

/* Number 0: there is no error. */
static bool unpack_error(struct unpack *unpack, struct error *error)
{
    uint32_t number = unpack_u32(unpack);
    uint8_t code = unpack_u8(unpack), stage = unpack_u8(unpack);
    size_t length;
    const void *text = unpack_rest(unpack, &length);

    if (unpack->failed || number > 4095 || (code == 0) != (number == 0) ||
        (code != 0 && !error_code_word(code)) || stage >= STAGE_COUNT ||
        length >= sizeof(error->text) || memchr(text, 0, length))
        return false;
    /* "unknown stage" has no number: no message contains it. */
    if (stage != stage_number(stage_word(stage)))
        return false;
    error->num = -(int)number;
    error->code = error_code_word(code);
    error->stage = stage_word(stage);
    memcpy(error->text, text, length);
    error->text[length] = 0;
    return true;
}

static bool is_tier(uint8_t tier)
{
    return tier < TIERS_MAX || tier == TIER_NONE;
}

/* A SHA-256, or nothing. */
static bool is_layer(const char *hash)
{
    return hash[0] == 0 || strlen(hash) == HASH_TEXT_MAX - 1;
}

/* Shown on the terminal of the user who started the daemon. */
static bool is_plain(const char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            return false;
    }
    return true;
}

/* What the rows of the fields cannot say. */
static bool is_possible(const struct launcher_message *message)
{
    const struct launcher_make *make = &message->make;
    const struct launcher_box *box = &message->box;

    switch (message->type) {
    case LAUNCHER_MAKE:
        return make->key[0] && is_layer(make->layer) && is_tier(make->tier) &&
               (make->tier == TIER_NONE) == (make->kernel == 0);
    case LAUNCHER_BOX:
    case LAUNCHER_MADE:
        return box->key[0] && is_layer(box->layer) && is_tier(box->tier) &&
               (box->kernel != 0 || !box->warden_owns_kernel);
    case LAUNCHER_REFUSED:
        return message->refused.error.num != 0;
    case LAUNCHER_KERNEL:
        return message->kernel.kernel != 0;
    case LAUNCHER_COMMIT_LAYER:
    case LAUNCHER_DISCARD:
        return message->commit_layer.key[0];
    case LAUNCHER_LAYER_COMMITTED:
        return is_layer(message->layer_committed.layer) &&
               (message->layer_committed.layer[0] || message->layer_committed.error.num != 0);
    case LAUNCHER_DEFAULT:
        return is_layer(message->layer);
    case LAUNCHER_FORGET:
        return message->layer[0] && is_layer(message->layer);
    case LAUNCHER_STATE:
        return is_layer(message->state.layer) &&
               (message->state.tier < TIERS_MAX || message->state.tier == STATE_END);
    case LAUNCHER_SPENT:
        return message->spent.tenant[0];
    case LAUNCHER_FAILED:
        return message->failed.num != 0 && is_plain(message->failed.text);
    default:
        return true;
    }
}

int launcher_message_unpack(const uint8_t *data, size_t length, struct launcher_message *ret)
{
    struct unpack unpack = {.data = data, .left = length};
    struct launcher_message message;
    uint8_t type = unpack_u8(&unpack);
    const struct row *row;

    if (type == 0 || type >= _LAUNCHER_TYPE_MAX)
        return -EPROTO;
    memset(&message, 0, sizeof(message));
    message.type = type;
    row = &rows[type];
    if (!fields_unpack(&unpack, row->fields, row->count, &message) ||
        (row->error && !unpack_error(&unpack, (struct error *)((char *)&message + row->error))) ||
        !unpack_done(&unpack) || !is_possible(&message))
        return -EPROTO;
    *ret = message;
    return 0;
}

/* ---- on the socket ---- */

bool launcher_has_fd(enum launcher_type type)
{
    return type == LAUNCHER_BOX || type == LAUNCHER_MADE || type == LAUNCHER_SETTINGS ||
           type == LAUNCHER_PROVIDER_HOST;
}

int launcher_send(int fd, const struct launcher_message *message, int with_fd)
{
    uint8_t data[LAUNCHER_MESSAGE_MAX];
    long length = launcher_message_pack(message, data, sizeof(data));

    return length < 0 ? (int)length : packet_offer(fd, data, (size_t)length, with_fd);
}

int launcher_receive(int fd, struct launcher_message *ret, int *ret_fd)
{
    CLEANUP(fd_closep) int came = -1;
    uint8_t data[LAUNCHER_MESSAGE_MAX];
    ssize_t length = packet_take(fd, data, sizeof(data), &came);
    struct launcher_message message;

    if (length <= 0)
        return (int)length;
    if (launcher_message_unpack(data, (size_t)length, &message) < 0 ||
        launcher_has_fd(message.type) != (came >= 0))
        return -EPROTO;
    *ret = message;
    *ret_fd = fd_take(&came);
    return 1;
}
