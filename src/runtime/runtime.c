/* runtime.c - the table of runtimes; see runtime.h. */
#include "runtime/runtime.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "runtime/docker/docker.h"
#include "runtime/local/local.h"

static struct runtime runtimes[] = {{.ops = &local_ops}, {.ops = &docker_ops}};

int runtime_find(const char *name, struct runtime **ret, struct error *err)
{
    for (size_t i = 0; i < ARRAY_SIZE(runtimes); i++) {
        if (str_equal(runtimes[i].ops->name, name)) {
            *ret = &runtimes[i];
            return 0;
        }
    }
    return error_set(
        err, -ENOSYS, ERROR_BAD_CONFIG,
        "SANDBOX_TYPE: the runtime '%s' is not in this build (there are: local, docker)", name);
}
