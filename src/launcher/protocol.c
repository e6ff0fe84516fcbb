/* protocol.c - packs and unpacks the messages between broker and launcher; see protocol.h. */
#include "launcher/protocol.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/isolation.h"
#include "base/str.h"
#include "boxes/boxes.h"
#include "sandbox/sandbox.h"
#include "wire/pack.h"

/*
 * Words are sent as their index in a table (those of errors in base/error.h): the result is always
 * one of the known words, whoever sent it. These are the launcher's own stages; those of sandbox/
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

/* ---- packing ---- */

static void pack_key(struct pack *pack, const char key[ID_MAX])
{
    size_t length = strnlen(key, ID_MAX);

    pack_u8(pack, (uint8_t)length);
    pack_bytes(pack, key, length);
}

/* With its length: a hash, a host name, a word. */
static void pack_text(struct pack *pack, const char *text, size_t size)
{
    size_t length = strnlen(text, size - 1);

    pack_u8(pack, (uint8_t)length);
    pack_bytes(pack, text, length);
}

static void pack_error(struct pack *pack, const struct error *error)
{
    pack_u32(pack, (uint32_t)-error->num);
    pack_u8(pack, (uint8_t)error_code_number(error->code));
    pack_u8(pack, stage_number(error->stage));
    pack_bytes(pack, error->text, strnlen(error->text, sizeof(error->text) - 1));
}

static void pack_make(struct pack *pack, const struct launcher_make *make)
{
    pack_u32(pack, make->serial);
    pack_key(pack, make->key);
    pack_u64(pack, make->memory_bytes);
    pack_u64(pack, make->disk_bytes);
    pack_u32(pack, make->pids);
    pack_u32(pack, make->cpu_millis);
    pack_u8(pack, make->minimum);
    pack_u8(pack, make->has_data);
    pack_u8(pack, make->has_packages);
    pack_text(pack, make->layer, sizeof(make->layer));
    pack_u8(pack, make->tier);
    pack_u32(pack, make->kernel);
    pack_u8(pack, make->staging);
    pack_text(pack, make->tenant, sizeof(make->tenant));
}

static void pack_box(struct pack *pack, const struct launcher_box *box)
{
    pack_u32(pack, box->serial);
    pack_u32(pack, box->number);
    pack_key(pack, box->key);
    pack_u64(pack, box->memory_bytes);
    pack_u64(pack, box->disk_bytes);
    pack_u32(pack, box->pids);
    pack_u32(pack, box->cpu_millis);
    pack_u32(pack, box->layers);
    pack_u32(pack, box->missing);
    pack_u8(pack, box->memory_by);
    pack_u8(pack, box->pids_by);
    pack_u8(pack, box->cpu_by);
    pack_u8(pack, box->disk_by);
    pack_u8(pack, box->group);
    pack_u64(pack, box->made_ns);
    pack_text(pack, box->layer, sizeof(box->layer));
    pack_u8(pack, box->tier);
    pack_u32(pack, box->kernel);
    pack_u8(pack, box->is_pooled);
    pack_u8(pack, box->warden_owns_kernel);
}

static void pack_refused(struct pack *pack, const struct launcher_refused *refused)
{
    pack_u32(pack, refused->serial);
    pack_u32(pack, refused->layers);
    pack_u32(pack, refused->missing);
    pack_error(pack, &refused->error);
}

static void pack_usage(struct pack *pack, const struct launcher_usage *usage)
{
    pack_u32(pack, usage->number);
    pack_u64(pack, usage->cpu_us);
    pack_u64(pack, usage->memory_bytes);
    pack_u64(pack, usage->oom_kills);
    pack_u8(pack, usage->was_asked);
    pack_u8(pack, usage->why);
    pack_u8(pack, usage->counted);
}

static void pack_kernel_ended(struct pack *pack, const struct launcher_kernel_ended *ended)
{
    pack_u32(pack, ended->number);
    pack_u32(pack, ended->kernel);
    pack_u32(pack, (uint32_t)ended->status);
    pack_u64(pack, ended->cpu_us);
    pack_u64(pack, ended->max_rss_bytes);
}

static void pack_layer_committed(struct pack *pack,
                                 const struct launcher_layer_committed *layer_committed)
{
    pack_u32(pack, layer_committed->serial);
    pack_text(pack, layer_committed->layer, sizeof(layer_committed->layer));
    pack_u64(pack, layer_committed->bytes);
    pack_u64(pack, layer_committed->files);
    pack_u8(pack, layer_committed->was_there);
    pack_error(pack, &layer_committed->error);
}

static void pack_state(struct pack *pack, const struct launcher_state *state)
{
    pack_text(pack, state->layer, sizeof(state->layer));
    pack_u8(pack, state->tier);
    pack_u8(pack, state->is_ready);
    pack_u32(pack, state->pid);
    pack_u32(pack, state->forks);
    pack_u32(pack, state->pooled);
    pack_u32(pack, state->pool_size);
    pack_u64(pack, state->memory_bytes);
    pack_u64(pack, state->started_ns);
    pack_u64(pack, state->ready_ns);
}

static void pack_verdict(struct pack *pack, const struct launcher_verdict *verdict)
{
    pack_u32(pack, verdict->number);
    pack_u8(pack, verdict->is_allowed);
    pack_u32(pack, verdict->port);
    pack_text(pack, verdict->host, sizeof(verdict->host));
    pack_text(pack, verdict->reason, sizeof(verdict->reason));
}

/* Messages about kernels, layers and the proxy. */
static void pack_warm(struct pack *pack, const struct launcher_message *message)
{
    switch (message->type) {
    case LAUNCHER_KERNEL:
        pack_u32(pack, message->kernel.number);
        pack_u32(pack, message->kernel.kernel);
        pack_u8(pack, message->kernel.tier);
        break;
    case LAUNCHER_KERNEL_MADE:
        pack_u32(pack, message->kernel_made.number);
        pack_u32(pack, message->kernel_made.kernel);
        pack_u32(pack, (uint32_t)-message->kernel_made.num);
        break;
    case LAUNCHER_KERNEL_ENDED:
        pack_kernel_ended(pack, &message->kernel_ended);
        break;
    case LAUNCHER_COMMIT_LAYER:
    case LAUNCHER_DISCARD:
        pack_u32(pack, message->commit_layer.serial);
        pack_key(pack, message->commit_layer.key);
        pack_u8(pack, message->commit_layer.is_packages);
        break;
    case LAUNCHER_LAYER_COMMITTED:
        pack_layer_committed(pack, &message->layer_committed);
        break;
    case LAUNCHER_DEFAULT:
    case LAUNCHER_FORGET:
        pack_text(pack, message->layer, sizeof(message->layer));
        break;
    case LAUNCHER_STATE:
        pack_state(pack, &message->state);
        break;
    case LAUNCHER_VERDICT:
        pack_verdict(pack, &message->verdict);
        break;
    case LAUNCHER_FAILED:
        pack_error(pack, &message->failed);
        break;
    default:
        break;
    }
}

long launcher_message_pack(const struct launcher_message *message, uint8_t *data, size_t size)
{
    struct pack pack = {.data = data, .capacity = size};

    pack_u8(&pack, (uint8_t)message->type);
    switch (message->type) {
    case LAUNCHER_HELLO:
    case LAUNCHER_END:
    case LAUNCHER_USAGE:
    case LAUNCHER_WELCOME:
    case LAUNCHER_STOPPING:
        pack_u32(&pack, message->number);
        break;
    case LAUNCHER_MAKE:
        pack_make(&pack, &message->make);
        break;
    case LAUNCHER_BOX:
    case LAUNCHER_MADE:
        pack_box(&pack, &message->box);
        break;
    case LAUNCHER_REFUSED:
        pack_refused(&pack, &message->refused);
        break;
    case LAUNCHER_ENDED:
    case LAUNCHER_USED:
        pack_usage(&pack, &message->usage);
        break;
    case LAUNCHER_READY:
    case LAUNCHER_QUIT:
    case LAUNCHER_LOOK:
    case LAUNCHER_SETTINGS:
    case _LAUNCHER_TYPE_MAX:
        break;
    case LAUNCHER_PROVIDER_HOST:
        pack_text(&pack, message->host, sizeof(message->host));
        break;
    default:
        pack_warm(&pack, message);
    }
    return pack.failed ? -EMSGSIZE : (long)pack.length;
}

/* ---- unpacking: each returns whether the values are possible ---- */

static bool unpack_bool(struct unpack *unpack, bool *ret)
{
    uint8_t value = unpack_u8(unpack);

    *ret = value == 1;
    return value <= 1;
}

/* Only [a-z0-9_]+: it becomes a file name. */
static bool unpack_key(struct unpack *unpack, char key[ID_MAX])
{
    size_t length = unpack_u8(unpack);

    if (length == 0 || length >= ID_MAX)
        return false;
    for (size_t i = 0; i < length; i++) {
        char byte = (char)unpack_u8(unpack);

        if (!((byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte == '_'))
            return false;
        key[i] = byte;
    }
    key[length] = 0;
    return true;
}

static bool unpack_text(struct unpack *unpack, char *text, size_t size)
{
    size_t length = unpack_u8(unpack);

    if (length >= size)
        return false;
    for (size_t i = 0; i < length; i++) {
        text[i] = (char)unpack_u8(unpack);
        if (text[i] < ' ' || text[i] > '~')
            return false;
    }
    text[length] = 0;
    return true;
}

/* A SHA-256, or empty: it becomes a folder's name. */
static bool unpack_hash(struct unpack *unpack, char hash[HASH_TEXT_MAX])
{
    if (!unpack_text(unpack, hash, HASH_TEXT_MAX))
        return false;
    return hash[0] == 0 || (strlen(hash) == HASH_TEXT_MAX - 1 &&
                            strspn(hash, "0123456789abcdef") == HASH_TEXT_MAX - 1);
}

static bool unpack_host(struct unpack *unpack, char host[HOST_NAME_BYTES])
{
    return unpack_text(unpack, host, HOST_NAME_BYTES) &&
           strspn(host, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(host);
}

static bool is_tier(uint8_t tier)
{
    return tier < TIERS_MAX || tier == TIER_NONE;
}

/* `is_needed`: number 0 is no error, and one is required. */
static bool unpack_error(struct unpack *unpack, bool is_needed, struct error *error)
{
    uint32_t number = unpack_u32(unpack);
    uint8_t code = unpack_u8(unpack), stage = unpack_u8(unpack);
    size_t length;
    const void *text = unpack_rest(unpack, &length);

    if (unpack->failed || (number == 0 && is_needed) || number > 4095 ||
        (code == 0) != (number == 0) || (code != 0 && !error_code_word(code)) ||
        stage >= STAGE_COUNT || length >= sizeof(error->text) || memchr(text, 0, length))
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

static bool unpack_make(struct unpack *unpack, struct launcher_make *make)
{
    make->serial = unpack_u32(unpack);
    if (!unpack_key(unpack, make->key))
        return false;
    make->memory_bytes = unpack_u64(unpack);
    make->disk_bytes = unpack_u64(unpack);
    make->pids = unpack_u32(unpack);
    make->cpu_millis = unpack_u32(unpack);
    make->minimum = unpack_u8(unpack);
    if (!unpack_bool(unpack, &make->has_data) || !unpack_bool(unpack, &make->has_packages) ||
        !unpack_hash(unpack, make->layer))
        return false;
    make->tier = unpack_u8(unpack);
    make->kernel = unpack_u32(unpack);
    make->staging = unpack_u8(unpack);
    if (!unpack_text(unpack, make->tenant, sizeof(make->tenant)) ||
        strspn(make->tenant, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(make->tenant))
        return false;
    return make->minimum < _ISOLATION_MAX && is_tier(make->tier) && make->staging < _STAGING_MAX &&
           (make->tier == TIER_NONE) == (make->kernel == 0);
}

static bool unpack_box(struct unpack *unpack, struct launcher_box *box)
{
    box->serial = unpack_u32(unpack);
    box->number = unpack_u32(unpack);
    if (!unpack_key(unpack, box->key))
        return false;
    box->memory_bytes = unpack_u64(unpack);
    box->disk_bytes = unpack_u64(unpack);
    box->pids = unpack_u32(unpack);
    box->cpu_millis = unpack_u32(unpack);
    box->layers = unpack_u32(unpack);
    box->missing = unpack_u32(unpack);
    box->memory_by = unpack_u8(unpack);
    box->pids_by = unpack_u8(unpack);
    box->cpu_by = unpack_u8(unpack);
    box->disk_by = unpack_u8(unpack);
    box->group = unpack_u8(unpack);
    box->made_ns = unpack_u64(unpack);
    if (!unpack_hash(unpack, box->layer))
        return false;
    box->tier = unpack_u8(unpack);
    box->kernel = unpack_u32(unpack);
    if (!unpack_bool(unpack, &box->is_pooled) || !unpack_bool(unpack, &box->warden_owns_kernel) ||
        !is_tier(box->tier) || (box->warden_owns_kernel && box->kernel == 0))
        return false;
    return ((box->layers | box->missing) & ~ISOLATION_LAYER_ALL) == 0 &&
           box->memory_by < _HELD_BY_MAX && box->pids_by < _HELD_BY_MAX &&
           box->cpu_by < _HELD_BY_MAX && box->disk_by < _HELD_BY_MAX && box->group <= CGROUP_V2;
}

static bool unpack_refused(struct unpack *unpack, struct launcher_refused *refused)
{
    refused->serial = unpack_u32(unpack);
    refused->layers = unpack_u32(unpack);
    refused->missing = unpack_u32(unpack);
    return ((refused->layers | refused->missing) & ~ISOLATION_LAYER_ALL) == 0 &&
           unpack_error(unpack, true, &refused->error);
}

static bool unpack_usage(struct unpack *unpack, struct launcher_usage *usage)
{
    usage->number = unpack_u32(unpack);
    usage->cpu_us = unpack_u64(unpack);
    usage->memory_bytes = unpack_u64(unpack);
    usage->oom_kills = unpack_u64(unpack);
    if (!unpack_bool(unpack, &usage->was_asked))
        return false;
    usage->why = unpack_u8(unpack);
    usage->counted = unpack_u8(unpack);
    return usage->why < _WHY_MAX && usage->counted < _COUNTED_MAX;
}

static bool unpack_kernel_made(struct unpack *unpack, struct launcher_kernel_made *made)
{
    uint32_t number;

    made->number = unpack_u32(unpack);
    made->kernel = unpack_u32(unpack);
    number = unpack_u32(unpack);
    made->num = -(int32_t)number;
    return number <= 4095;
}

static bool unpack_kernel_ended(struct unpack *unpack, struct launcher_kernel_ended *ended)
{
    ended->number = unpack_u32(unpack);
    ended->kernel = unpack_u32(unpack);
    ended->status = (int32_t)unpack_u32(unpack);
    ended->cpu_us = unpack_u64(unpack);
    ended->max_rss_bytes = unpack_u64(unpack);
    return ended->status >= 0 && ended->status <= 0xffff;
}

static bool unpack_layer_committed(struct unpack *unpack,
                                   struct launcher_layer_committed *layer_committed)
{
    layer_committed->serial = unpack_u32(unpack);
    if (!unpack_hash(unpack, layer_committed->layer))
        return false;
    layer_committed->bytes = unpack_u64(unpack);
    layer_committed->files = unpack_u64(unpack);
    return unpack_bool(unpack, &layer_committed->was_there) &&
           unpack_error(unpack, layer_committed->layer[0] == 0, &layer_committed->error);
}

static bool unpack_state(struct unpack *unpack, struct launcher_state *state)
{
    if (!unpack_hash(unpack, state->layer))
        return false;
    state->tier = unpack_u8(unpack);
    if (!unpack_bool(unpack, &state->is_ready))
        return false;
    state->pid = unpack_u32(unpack);
    state->forks = unpack_u32(unpack);
    state->pooled = unpack_u32(unpack);
    state->pool_size = unpack_u32(unpack);
    state->memory_bytes = unpack_u64(unpack);
    state->started_ns = unpack_u64(unpack);
    state->ready_ns = unpack_u64(unpack);
    return state->tier < TIERS_MAX || state->tier == STATE_END;
}

static bool unpack_verdict(struct unpack *unpack, struct launcher_verdict *verdict)
{
    uint32_t port;

    verdict->number = unpack_u32(unpack);
    if (!unpack_bool(unpack, &verdict->is_allowed))
        return false;
    port = unpack_u32(unpack);
    verdict->port = (uint16_t)port;
    return port <= UINT16_MAX && unpack_text(unpack, verdict->host, sizeof(verdict->host)) &&
           unpack_text(unpack, verdict->reason, sizeof(verdict->reason));
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

static bool unpack_warm(struct unpack *unpack, struct launcher_message *message)
{
    switch (message->type) {
    case LAUNCHER_KERNEL:
        message->kernel.number = unpack_u32(unpack);
        message->kernel.kernel = unpack_u32(unpack);
        message->kernel.tier = unpack_u8(unpack);
        return message->kernel.tier < TIERS_MAX && message->kernel.kernel != 0;
    case LAUNCHER_KERNEL_MADE:
        return unpack_kernel_made(unpack, &message->kernel_made);
    case LAUNCHER_KERNEL_ENDED:
        return unpack_kernel_ended(unpack, &message->kernel_ended);
    case LAUNCHER_COMMIT_LAYER:
    case LAUNCHER_DISCARD:
        message->commit_layer.serial = unpack_u32(unpack);
        return unpack_key(unpack, message->commit_layer.key) &&
               unpack_bool(unpack, &message->commit_layer.is_packages);
    case LAUNCHER_LAYER_COMMITTED:
        return unpack_layer_committed(unpack, &message->layer_committed);
    case LAUNCHER_DEFAULT:
        return unpack_hash(unpack, message->layer);
    case LAUNCHER_FORGET:
        return unpack_hash(unpack, message->layer) && message->layer[0];
    case LAUNCHER_STATE:
        return unpack_state(unpack, &message->state);
    case LAUNCHER_VERDICT:
        return unpack_verdict(unpack, &message->verdict);
    case LAUNCHER_FAILED:
        return unpack_error(unpack, true, &message->failed) && is_plain(message->failed.text);
    default:
        return false;
    }
}

static bool unpack_fields(struct unpack *unpack, struct launcher_message *message)
{
    switch (message->type) {
    case LAUNCHER_HELLO:
    case LAUNCHER_END:
    case LAUNCHER_USAGE:
    case LAUNCHER_WELCOME:
    case LAUNCHER_STOPPING:
        message->number = unpack_u32(unpack);
        return true;
    case LAUNCHER_MAKE:
        return unpack_make(unpack, &message->make);
    case LAUNCHER_BOX:
    case LAUNCHER_MADE:
        return unpack_box(unpack, &message->box);
    case LAUNCHER_REFUSED:
        return unpack_refused(unpack, &message->refused);
    case LAUNCHER_ENDED:
    case LAUNCHER_USED:
        return unpack_usage(unpack, &message->usage);
    case LAUNCHER_READY:
    case LAUNCHER_QUIT:
    case LAUNCHER_LOOK:
    case LAUNCHER_SETTINGS:
        return true;
    case LAUNCHER_PROVIDER_HOST:
        return unpack_host(unpack, message->host);
    case _LAUNCHER_TYPE_MAX:
        return false;
    default:
        return unpack_warm(unpack, message);
    }
}

int launcher_message_unpack(const uint8_t *data, size_t length, struct launcher_message *ret)
{
    struct unpack unpack = {.data = data, .left = length};
    struct launcher_message message;
    uint8_t type = unpack_u8(&unpack);

    if (type == 0 || type >= _LAUNCHER_TYPE_MAX)
        return -EPROTO;
    memset(&message, 0, sizeof(message));
    message.type = type;
    if (!unpack_fields(&unpack, &message) || !unpack_done(&unpack))
        return -EPROTO;
    *ret = message;
    return 0;
}
