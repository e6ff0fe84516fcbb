/* protocol.c - the messages of broker and launcher as bytes, and their sending; see protocol.h. */
#include "launcher/protocol.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/layer.h"
#include "base/str.h"
#include "launcher/launcher.h"
#include "sandbox/sandbox.h"
#include "wire/pack.h"

/* Words travel as their place in a table: what comes out is one of ours, whoever sent it. */
static const char *const codes[] = {
    NULL,
    ERROR_BAD_INPUT,
    ERROR_BAD_CONFIG,
    ERROR_NOT_FOUND,
    ERROR_COMMAND_NOT_FOUND,
    ERROR_NOT_EXECUTABLE,
    ERROR_NO_INTERPRETER,
    ERROR_REFUSED,
    ERROR_BLOCKED_IMPORT,
    ERROR_BOX_FAILED,
    ERROR_BOX_LOST,
    ERROR_TOO_LARGE,
    ERROR_CANCELLED,
    ERROR_ENGINE,
};

/* Stages of the launcher's own; those of sandbox/ follow by their number. */
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

static uint8_t code_number(const char *word)
{
    for (size_t i = 0; word && i < ARRAY_SIZE(codes); i++) {
        if (str_equal(codes[i], word))
            return (uint8_t)i;
    }
    return word ? (uint8_t)ARRAY_SIZE(codes) - 1 : 0;
}

bool launcher_has_fd(enum launcher_type type)
{
    return type == LAUNCHER_BOX || type == LAUNCHER_MADE;
}

/* ---- to bytes ---- */

static void pack_key(struct pack *pack, const char key[ID_MAX])
{
    size_t length = strnlen(key, ID_MAX);

    pack_u8(pack, (uint8_t)length);
    pack_bytes(pack, key, length);
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
}

static void pack_refused(struct pack *pack, const struct launcher_refused *refused)
{
    const struct error *error = &refused->error;

    pack_u32(pack, refused->serial);
    pack_u32(pack, refused->layers);
    pack_u32(pack, refused->missing);
    pack_u32(pack, (uint32_t)-error->num);
    pack_u8(pack, code_number(error->code));
    pack_u8(pack, stage_number(error->stage));
    pack_bytes(pack, error->text, strnlen(error->text, sizeof(error->text) - 1));
}

static void pack_usage(struct pack *pack, const struct launcher_usage *usage)
{
    pack_u32(pack, usage->number);
    pack_u64(pack, usage->cpu_us);
    pack_u64(pack, usage->memory_bytes);
    pack_u64(pack, usage->oom_kills);
    pack_u8(pack, usage->was_asked);
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
    case _LAUNCHER_TYPE_MAX:
        break;
    }
    return pack.failed ? -EMSGSIZE : (long)pack.length;
}

/* ---- from bytes: each returns whether the values are ones that can be ---- */

static bool unpack_bool(struct unpack *unpack, bool *ret)
{
    uint8_t value = unpack_u8(unpack);

    *ret = value == 1;
    return value <= 1;
}

/* [a-z0-9_]+ and nothing else: it becomes a file's name. */
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
    return unpack_bool(unpack, &make->has_data) && make->minimum < _ISOLATION_MAX;
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
    return ((box->layers | box->missing) & ~LAYER_ALL) == 0 && box->memory_by <= HELD_BY_TMPFS &&
           box->pids_by <= HELD_BY_TMPFS && box->cpu_by <= HELD_BY_TMPFS &&
           box->disk_by <= HELD_BY_TMPFS && box->group <= CGROUP_V2;
}

static bool unpack_refused(struct unpack *unpack, struct launcher_refused *refused)
{
    struct error *error = &refused->error;
    uint32_t number;
    uint8_t code, stage;
    const void *text;
    size_t length;

    refused->serial = unpack_u32(unpack);
    refused->layers = unpack_u32(unpack);
    refused->missing = unpack_u32(unpack);
    number = unpack_u32(unpack);
    code = unpack_u8(unpack);
    stage = unpack_u8(unpack);
    text = unpack_rest(unpack, &length);
    if (unpack->failed || ((refused->layers | refused->missing) & ~LAYER_ALL) != 0 || number == 0 ||
        number > 4095 || code == 0 || code >= ARRAY_SIZE(codes) || stage >= STAGE_COUNT ||
        length >= sizeof(error->text) || memchr(text, 0, length))
        return false;
    /* "unknown stage" has no number of its own: nothing says it. */
    if (stage != stage_number(stage_word(stage)))
        return false;
    error->num = -(int)number;
    error->code = codes[code];
    error->stage = stage_word(stage);
    memcpy(error->text, text, length);
    error->text[length] = 0;
    return true;
}

static bool unpack_usage(struct unpack *unpack, struct launcher_usage *usage)
{
    usage->number = unpack_u32(unpack);
    usage->cpu_us = unpack_u64(unpack);
    usage->memory_bytes = unpack_u64(unpack);
    usage->oom_kills = unpack_u64(unpack);
    return unpack_bool(unpack, &usage->was_asked);
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
        return true;
    case _LAUNCHER_TYPE_MAX:
        break;
    }
    return false;
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

/* ---- the socket ---- */

/* Room for one; what the kernel could still put behind it (alignment) is taken and closed. */
union control {
    struct cmsghdr align;
    char space[CMSG_SPACE(sizeof(int))];
};

int launcher_send(int fd, const struct launcher_message *message, int with_fd)
{
    uint8_t data[LAUNCHER_MESSAGE_MAX];
    union control control = {0};
    long length = launcher_message_pack(message, data, sizeof(data));
    struct iovec part = {.iov_base = data, .iov_len = (size_t)length};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t sent;

    if (length < 0)
        return (int)length;
    if (with_fd >= 0) {
        header.msg_control = &control;
        header.msg_controllen = CMSG_SPACE(sizeof(int));
        control.align.cmsg_level = SOL_SOCKET;
        control.align.cmsg_type = SCM_RIGHTS;
        control.align.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.align), &with_fd, sizeof(int));
    }
    do
        sent = sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return 1;
    /* ETOOMANYREFS: descriptors in flight count for the user; they go when the peer reads. */
    if (errno == EAGAIN || errno == ENOBUFS || errno == ETOOMANYREFS)
        return 0;
    return errno == ECONNRESET ? -EPIPE : -errno;
}

/* The one descriptor, or -1 with *ret_extra set when there were more: those are closed. */
static int take_fds(struct msghdr *header, bool *ret_extra)
{
    int kept = -1;

    for (struct cmsghdr *part = CMSG_FIRSTHDR(header); part; part = CMSG_NXTHDR(header, part)) {
        size_t count;

        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS)
            continue;
        count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(fd));
            if (kept < 0) {
                kept = fd;
            } else {
                close(fd);
                *ret_extra = true;
            }
        }
    }
    return kept;
}

int launcher_receive(int fd, struct launcher_message *ret, int *ret_fd)
{
    CLEANUP(fd_closep) int came = -1;
    uint8_t data[LAUNCHER_MESSAGE_MAX];
    union control control;
    struct iovec part = {.iov_base = data, .iov_len = sizeof(data)};
    struct msghdr header = {.msg_iov = &part,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = sizeof(control)};
    struct launcher_message message;
    bool has_extra = false;
    ssize_t length;

    do
        length = recvmsg(fd, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (length < 0 && errno == EINTR);
    if (length < 0 && errno == EAGAIN)
        return 0;
    if (length < 0)
        return errno == ECONNRESET ? -EPIPE : -errno;
    came = take_fds(&header, &has_extra);
    if (length == 0 && came < 0)
        return -EPIPE;
    if (has_extra || header.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
        return -EPROTO;
    if (launcher_message_unpack(data, (size_t)length, &message) < 0 ||
        launcher_has_fd(message.type) != (came >= 0))
        return -EPROTO;
    *ret = message;
    *ret_fd = fd_take(&came);
    return 1;
}
