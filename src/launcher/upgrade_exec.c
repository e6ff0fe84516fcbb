/*
 * upgrade_exec.c - one launcher executes another, which finds everything again; see upgrade.h.
 * Descriptors keep their numbers: they lose close-on-exec for the moment of the exec, and those
 * that are not named in the handover are closed by it.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "launcher/handover.h"
#include "launcher/launcher_private.h"
#include "launcher/upgrade.h"

static int close_on_exec(int fd, bool closes)
{
    return fd < 0 || fcntl(fd, F_SETFD, closes ? FD_CLOEXEC : 0) == 0 ? 0 : -errno;
}

/* ---- writing the handover ---- */

static int add_box(void *ctx, const struct handover_box *box)
{
    return handover_add_box(ctx, box);
}

static int add_kernel(void *ctx, const struct handover_kernel *kernel)
{
    return handover_add_kernel(ctx, kernel);
}

static int write_all(struct launcher *launcher, const struct handover_launcher *head, int *ret_fd)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(HANDOVER_BYTES_MAX);
    int r = handover_begin(&text, head);

    if (r == 0)
        r = boxes_hand(launcher, add_box, &text);
    if (r == 0)
        r = zygotes_hand_kernels(launcher, add_kernel, &text);
    if (r < 0)
        return r;
    handover_end(&text);
    return hand_bytes("handover", text.data, text.length, ret_fd, NULL);
}

static void fill_head(const struct launcher *launcher, bool is_return, const char *reason,
                      struct handover_launcher *head)
{
    *head = (struct handover_launcher){
        .generation = launcher->generation,
        .next_number = launcher->next_number,
        .next_slot = launcher->next_slot,
        .next_kernel = launcher->next_kernel,
        .former_self_fd = -1,
        .former_engine_fd = -1,
        .is_return = is_return,
    };
    str_copy(head->layer, sizeof(head->layer), launcher->layer);
    str_copy(head->reason, sizeof(head->reason), reason);
}

int upgrade_write(struct launcher *launcher, bool is_return, const char *reason, int *ret_fd)
{
    struct handover_launcher head;

    fill_head(launcher, is_return, reason, &head);
    return write_all(launcher, &head, ret_fd);
}

/* ---- executed ---- */

static int keep_box(void *ctx, const struct handover_box *box)
{
    bool closes = *(const bool *)ctx;
    int r = close_on_exec(box->pid_fd, closes);

    if (r == 0)
        r = close_on_exec(box->channel_fd, closes);
    return r < 0 ? r : close_on_exec(box->ruleset_fd, closes);
}

static int keep_kernel(void *ctx, const struct handover_kernel *kernel)
{
    return close_on_exec(kernel->pid_fd, *(const bool *)ctx);
}

static int keep_all(struct launcher *launcher, bool closes)
{
    int r = boxes_hand(launcher, keep_box, &closes);

    if (r == 0)
        r = zygotes_hand_kernels(launcher, keep_kernel, &closes);
    launcher_close_on_exec(launcher->plan, closes);
    return r;
}

/* Both programs are exchanged with those that are kept for the way back. */
static int replace(const int program_fd[_UPGRADE_PROGRAM_MAX], int handover_fd)
{
    if (dup2(program_fd[UPGRADE_SELF], LAUNCHER_SELF_FD) < 0 ||
        dup2(program_fd[UPGRADE_ENGINE], LAUNCHER_PROGRAM_FD) < 0 ||
        dup2(handover_fd, LAUNCHER_HANDOVER_FD) < 0)
        return -errno;
    return 0;
}

int upgrade_exec(struct launcher *launcher, const int program_fd[_UPGRADE_PROGRAM_MAX],
                 bool is_return, const char *reason)
{
    static char *argv[] = {"bailey", LAUNCHER_INSIDE_WORD, NULL};
    CLEANUP(fd_closep) int self_fd = fcntl(LAUNCHER_SELF_FD, F_DUPFD_CLOEXEC, LAUNCHER_LAST_FD + 1);
    CLEANUP(fd_closep)
    int engine_fd = fcntl(LAUNCHER_PROGRAM_FD, F_DUPFD_CLOEXEC, LAUNCHER_LAST_FD + 1);
    CLEANUP(fd_closep) int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    CLEANUP(fd_closep) int handover_fd = -1;
    struct handover_launcher head;
    int r = self_fd < 0 || engine_fd < 0 || null_fd < 0 ? -errno : 0;

    if (r < 0)
        return r;
    fill_head(launcher, is_return, reason, &head);
    if (!is_return) {
        head.former_self_fd = self_fd;
        head.former_engine_fd = engine_fd;
    }
    r = write_all(launcher, &head, &handover_fd);
    if (r == 0)
        r = keep_all(launcher, false);
    if (r == 0 && !is_return)
        r = close_on_exec(self_fd, false) < 0 || close_on_exec(engine_fd, false) < 0 ? -errno : 0;
    if (r == 0)
        r = replace(program_fd, handover_fd);
    if (r == 0)
        r = hand_exec(LAUNCHER_SELF_FD, argv, environ);
    replace((const int[]){self_fd, engine_fd}, null_fd);
    keep_all(launcher, true);
    return r;
}

/* ---- taken ---- */

bool upgrade_is_taken(void)
{
    return fcntl(LAUNCHER_HANDOVER_FD, F_GET_SEALS) > 0; /* /dev/null has none */
}

static int take_launcher(void *ctx, const struct handover_launcher *head)
{
    struct launcher *launcher = ctx;
    struct upgrade *upgrade = &launcher->upgrade;

    launcher->generation = head->generation;
    launcher->next_number = head->next_number;
    launcher->next_slot = head->next_slot;
    launcher->next_kernel = head->next_kernel;
    launcher->was_ready = true;
    str_copy(launcher->layer, sizeof(launcher->layer), head->layer);
    if (head->is_return) {
        launcher_say(launcher, LAUNCHER_SAYS_KEPT, head->reason);
        return 0;
    }
    upgrade->program_fd[UPGRADE_SELF] = head->former_self_fd;
    upgrade->program_fd[UPGRADE_ENGINE] = head->former_engine_fd;
    upgrade->state = UPGRADE_HOLDING;
    upgrade->at_ms = clock_now_ms() + UPGRADE_HOLD_MS;
    return close_on_exec(head->former_self_fd, true) < 0 ||
                   close_on_exec(head->former_engine_fd, true) < 0
               ? -EBADF
               : 0;
}

static int take_box(void *ctx, const struct handover_box *box)
{
    bool closes = true;
    int r = keep_box(&closes, box);

    return r < 0 ? r : boxes_take(ctx, box);
}

static int take_kernel(void *ctx, const struct handover_kernel *kernel)
{
    bool closes = true;
    int r = keep_kernel(&closes, kernel);

    return r < 0 ? r : zygotes_take_kernel(ctx, kernel);
}

int upgrade_take(struct launcher *launcher, struct error *err)
{
    const struct handover_reader reader = {take_launcher, take_box, take_kernel, launcher};
    CLEANUP(buf_free) struct buf text = BUF_INIT(HANDOVER_BYTES_MAX);
    CLEANUP(fd_closep) int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    int r = buf_read_fd(&text, LAUNCHER_HANDOVER_FD);

    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "reading the handover: %s", strerror(-r));
    r = handover_read(buf_text(&text), text.length, &reader, err);
    /* Read once: it says nothing about the next one. */
    if (r == 0 && (null_fd < 0 || dup3(null_fd, LAUNCHER_HANDOVER_FD, O_CLOEXEC) < 0))
        r = error_errno(err, "closing the handover");
    return r;
}
