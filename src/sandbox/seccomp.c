/* seccomp.c - installs the filters that tools/gen-filter made at build time. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "sandbox/filter.h"
#include "sandbox/stage.h"
#include "sys/calls.h"

static int put_on(const struct filter *filter)
{
    struct sock_fprog program = {
        .len = filter->length,
        .filter = (struct sock_filter *)filter->code,
    };

    return sys_seccomp(SECCOMP_SET_MODE_FILTER, 0, &program) < 0 ? -errno : 0;
}

static bool is_refusal(int r)
{
    return r == -ENOSYS || r == -EINVAL || r == -EPERM || r == -EACCES;
}

/* The last stage: from here on the warden can do only what its own table allows. */
int stage_warden_filter(struct sandbox *sandbox)
{
    int r = put_on(sandbox->plan->warden_filter);

    if (is_refusal(r)) {
        sandbox_lack(sandbox, ISOLATION_LAYER_SECCOMP, r);
        return 0;
    }
    if (r < 0)
        return r;
    sandbox_have(sandbox, ISOLATION_LAYER_SECCOMP);
    return 0;
}

/*
 * Must be the last step before exec. Never skipped if the warden has its own filter: a guest is
 * never less restricted.
 */
int guest_filter(const struct sandbox *sandbox, const struct guest_start *start)
{
    (void)start;
    if (!(sandbox->layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_SECCOMP)))
        return 0;
    return put_on(sandbox->plan->guest_filter);
}

int sandbox_zygote_filter(bool has_one_id, bool *ret_is_on)
{
    int r = put_on(has_one_id ? &filter_zygote_one_id : &filter_zygote);

    *ret_is_on = r == 0;
    return is_refusal(r) ? 0 : r;
}
