/* backends.c - the rows of providers that have a host process; see host/backend.h. */
#include "base/cleanup.h"
#include "base/str.h"
#include "runtime/container/container.h"
#include "runtime/docker/docker.h"
#include "runtime/docker/doctor.h"
#include "runtime/host/backend.h"
#include "runtime/remote/remote.h"

static const struct backend_row rows[] = {
    {.name = "docker", .ops = &docker_ops, .doctor = docker_doctor},
    {.name = "url", .ops = &remote_ops, .doctor = remote_doctor},
    {.name = "container", .ops = &container_ops},
};

const struct backend_row *backend_find(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        if (str_equal(rows[i].name, name))
            return &rows[i];
    }
    for (size_t i = 0; backend_rows_more[i]; i++) {
        if (str_equal(backend_rows_more[i]->name, name))
            return backend_rows_more[i];
    }
    return NULL;
}
