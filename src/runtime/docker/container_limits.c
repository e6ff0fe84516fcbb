/*
 * container_limits.c - checks whether the limits that Docker reports are really enforced.
 *
 * Docker passes limits on to the runtime below it, and `inspect` only repeats the request. A
 * runtime other than Docker's own may ignore them (runsc --ignore-cgroups, a virtual machine): the
 * control group that Docker reads its statistics from shows the real limits. Asked once per runtime
 * name, which is part of Docker's configuration; asked again after Docker was gone.
 */
#include <errno.h>

#include "base/isolation.h"
#include "base/log.h"
#include "base/str.h"
#include "runtime/docker/docker_private.h"

/*
 * Docker's statistics wait for its clock, up to a second, so runtimes known to enforce limits are
 * not checked.
 */
static bool is_known(const char *runtime)
{
    return str_equal(runtime, "runc") || str_equal(runtime, "crun") ||
           str_equal(runtime, "io.containerd.runc.v2");
}

bool container_limits_hold(const json_t *stats, uint64_t memory_bytes, uint64_t pids)
{
    json_int_t memory = json_integer_value(json_at(stats, "memory_stats", "limit"));
    json_int_t processes = json_integer_value(json_at(stats, "pids_stats", "limit"));

    /* The kernel counts memory in pages. */
    return memory > 0 && (uint64_t)memory <= memory_bytes && processes > 0 &&
           (uint64_t)processes <= pids;
}

static void take_back(struct host_box *box)
{
    box->seen.has_memory = box->seen.has_pids = box->seen.has_cpu = false;
    box->seen.layers &= ~ISOLATION_LAYER_BIT(ISOLATION_LAYER_CGROUP);
}

static void on_stats(void *ctx, const struct api_reply *reply)
{
    struct container *container = ctx;
    struct host_box *box = &container->box;
    struct docker *docker = container->docker;
    bool holds = reply->err.num == 0 &&
                 container_limits_hold(reply->json, box->make.memory_bytes, box->make.pids + 1ULL);

    container->call = NULL;
    if (reply->err.num == 0)
        docker->prepare.limits = holds ? LIMITS_HOLD : LIMITS_DO_NOT;
    if (!holds) {
        log_warning("docker: the runtime '%s' does not hold the limits of its containers, "
                    "continuing without them",
                    docker->prepare.runtime);
        take_back(box);
    }
    container_checked(container);
}

bool container_limits_ask(struct container *container)
{
    struct host_box *box = &container->box;
    struct docker *docker = container->docker;
    char path[256];
    struct api_request request = {.method = "GET", .path = path};

    if (!box->seen.has_memory || !box->seen.has_pids || docker->prepare.limits == LIMITS_HOLD ||
        is_known(docker->prepare.runtime))
        return false;
    str_format(path, sizeof(path), "/containers/%s/stats?stream=false&one-shot=true", box->name);
    if (docker->prepare.limits == LIMITS_UNKNOWN &&
        api_start(&docker->api, &request, on_stats, container, &container->call) == 0)
        return true;
    take_back(box);
    return false;
}
