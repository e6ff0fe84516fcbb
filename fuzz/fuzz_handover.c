/*
 * fuzz_handover.c - any bytes as what a launcher hands over: refused, or numbers that a launcher
 * can use as they are: pids that are one process, descriptors that are nobody's standard stream.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "boxes/boxes.h"
#include "launcher/handover.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
    if (!is_true)
        abort();
}

static int hear_launcher(void *ctx, const struct handover_launcher *launcher)
{
    check((*(int *)ctx)++ == 0);
    check(strnlen(launcher->layer, sizeof(launcher->layer)) < sizeof(launcher->layer));
    check(strnlen(launcher->reason, sizeof(launcher->reason)) < sizeof(launcher->reason));
    check(launcher->former_self_fd == -1 || launcher->former_self_fd >= 3);
    return 0;
}

static int hear_box(void *ctx, const struct handover_box *box)
{
    check((*(int *)ctx)++ > 0);
    check(box->pid > 1 && box->pid_fd >= 3 && box->channel_fd >= 3);
    check(box->ruleset_fd == -1 || box->ruleset_fd >= 3);
    check(box->slot < LIMIT_BOXES && box->facts.number > 0 && box->facts.key[0]);
    check(box->staging < _STAGING_MAX);
    for (int i = 0; i < _CONTROLLER_MAX; i++)
        check(strnlen(box->group[i], CGROUP_PATH_MAX) < CGROUP_PATH_MAX);
    return 0;
}

static int hear_kernel(void *ctx, const struct handover_kernel *kernel)
{
    check((*(int *)ctx)++ > 0);
    check(kernel->pid > 1 && kernel->pid_fd >= 3);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int heard = 0;
    struct handover_reader reader = {hear_launcher, hear_box, hear_kernel, &heard};
    struct error err = {0};

    if (handover_read(data, size, &reader, &err) == 0)
        check(heard > 0);
    else
        check(err.text[0]);
    return 0;
}
