/*
 * box_kernel.c - starts Python in a prewarmed box, before the box is given.
 *
 * The provider host acts as the warden's first host here. It asks for a zygote, if the box has
 * enough memory for one, and sends what the broker sends for a kernel (EXEC with EXEC_KERNEL and
 * EXEC_FORK): the warden lets it wait for the zygote, and starts a new interpreter if there is
 * none. The provider host gets STARTED and nothing else: all output belongs to cells, and only the
 * broker sends cells. If the image has no Python its boxes have no kernel. If a kernel dies before
 * the box is given the box is ended too.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "runtime/host/host_private.h"
#include "zygote/zygote.h"

#define PROGRAM "python3"
#define DRIVER HOST_FILES_AT "/driver/kernel.py"
#define ZYGOTE HOST_FILES_AT "/" ZYGOTE_SCRIPT
#define TIERS "/usr/share/bailey/tiers" /* `bailey image build --template` writes it */

static int send_exec(struct host_box *box, enum frame_type type, uint32_t id,
                     const struct message_exec *exec, const char *args)
{
    uint8_t payload[32];
    ssize_t length = message_exec_pack(exec, payload, sizeof(payload));
    int r = length < 0 ? (int)length
                       : host_pump_send(&box->pump, FRAME_ARGS, 0, args, exec->args_length);

    return r < 0 ? r : host_pump_send(&box->pump, type, id, payload, (size_t)length);
}

static const char *program(const struct host_box *box)
{
    return box->host->spec.python ? box->host->spec.python : PROGRAM;
}

/* As many threads as the box has processors, and not more than the host has. */
static unsigned thread_count(const struct host_box *box)
{
    unsigned count = (box->make.cpu_millis + 999) / 1000;
    unsigned cores = box->host->cpu_count;

    return count == 0 || (cores > 0 && count > cores) ? cores : count;
}

static int start_zygote(struct host_box *box)
{
    static const char *const names[] = {ZYGOTE_THREAD_NAMES};
    struct message_exec exec = {.argc = 4};
    unsigned threads = thread_count(box);
    uint64_t tier = MIN(box->make.memory_bytes / LIMIT_ZYGOTE_TIER_MEMORY, UINT64_C(255));
    CLEANUP(buf_free) struct buf args = BUF_INIT(4 * KIB);
    int r = buf_printf(&args, "%s%c" ZYGOTE "%c%u%c" TIERS "%c", program(box), 0, 0, (unsigned)tier,
                       0, 0);

    for (size_t i = 0; i < ARRAY_SIZE(names) && threads > 0 && r == 0; i++, exec.envc++)
        r = buf_printf(&args, "%s=%u%c", names[i], threads, 0);
    if (r == 0)
        r = buf_append(&args, "", 1); /* no working folder of its own */
    exec.args_length = (uint32_t)args.length;
    return r < 0 ? r : send_exec(box, FRAME_ZYGOTE, 0, &exec, args.data);
}

int host_kernel_start(struct host_box *box)
{
    /* argv (it preloads what cells load lazily), no environment, no working folder: each with
     * its NUL. */
    static const char rest[] = DRIVER "\0/workspace\0ahead\0";
    struct message_exec exec = {.flags = EXEC_KERNEL | EXEC_FORK, .argc = 4};
    CLEANUP(buf_free) struct buf args = BUF_INIT(4 * KIB);
    int r = buf_append(&args, program(box), strlen(program(box)) + 1);

    if (r == 0)
        r = buf_append(&args, rest, sizeof(rest));
    if (r < 0)
        return r;
    exec.args_length = (uint32_t)args.length;

    if (box->make.memory_bytes >= LIMIT_ZYGOTE_MEMORY && box->make.pids >= LIMIT_ZYGOTE_PIDS)
        r = start_zygote(box);
    return r < 0 ? r : send_exec(box, FRAME_EXEC, KERNEL_FIRST, &exec, args.data);
}

int host_kernel_frame(struct host_box *box, const struct frame *frame)
{
    if (frame->id != KERNEL_FIRST)
        return -EPROTO;
    switch (frame->type) {
    case FRAME_STARTED:
        box->facts.kernel = KERNEL_FIRST;
        box->facts.warden_owns_kernel = true;
        return 1;
    case FRAME_NOEXEC:
        log_debug("%s: boxes have no " PROGRAM ", continuing without prewarmed kernels",
                  box->host->row->name);
        box->host->spec.has_kernels = false;
        return 1;
    default:
        return -EPROTO;
    }
}
