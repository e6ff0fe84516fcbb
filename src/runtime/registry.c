/*
 * registry.c - the rows of the providers, and the one error for a type that is not in this build;
 * see provider.h.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "runtime/container/settings.h"
#include "runtime/docker/settings.h"
#include "runtime/host/hosted.h"
#include "runtime/local/local.h"
#include "runtime/provider.h"
#include "runtime/remote/settings.h"

static const struct provider_row rows[] = {
    {
        .name = PROVIDER_LOCAL,
        .title = "this machine",
        .help = "namespaces of this machine's kernel, made by Bailey itself",
        .can = PROVIDER_CAN_ZYGOTE | PROVIDER_CAN_LAYERS | PROVIDER_CAN_BIND_DATASETS |
               PROVIDER_CAN_INSTALL | PROVIDER_CAN_TIME_BRINGUP,
        .ops = &local_ops,
    },
    {
        .name = "docker",
        .title = "Docker",
        .help = "containers of a Docker daemon, with the root file system of an image",
        .can = PROVIDER_OWN_FILESYSTEM | PROVIDER_HOSTED | PROVIDER_DISK_IS_MEMORY,
        .unavailable = DOCKER_UNAVAILABLE,
        .gone = "the Docker daemon stopped",
        .check = docker_settings_check,
        .shape = docker_settings_shape,
        .check_run = docker_settings_check_run,
        .place = docker_settings_place,
        .is_meant = docker_settings_is_meant,
        .no_program = docker_settings_no_program,
        .no_template = docker_settings_no_template,
        .no_install = DOCKER_NO_INSTALL,
        .more_disk = "raise DOCKER_MEMORY_LIMIT, or SANDBOX_DISK_LIMIT",
        .ops = &hosted_ops,
    },
    {
        .name = "container",
        .runtime = PROVIDER_LOCAL,
        .title = "this container",
        .help = "this container itself is the only box, where it gives no namespaces",
        .can = PROVIDER_HOSTED | PROVIDER_STANDS_IN | PROVIDER_ONE_BOX,
        .gone = "the process that makes it ended",
        .no_template = container_settings_no_template,
        .no_install = CONTAINER_NO_INSTALL,
        .ops = &hosted_ops,
    },
    {
        .name = "kubernetes",
        .title = "Kubernetes",
        .help = "pods of an agent-sandbox controller",
    },
    {
        .name = "url",
        .title = "a server",
        .help = "sandboxes of another Bailey, or of a server with POST /execute",
        .can = PROVIDER_OWN_FILESYSTEM | PROVIDER_HOSTED | PROVIDER_ONLY_MEANT,
        .unavailable = REMOTE_UNAVAILABLE,
        .gone = REMOTE_GONE,
        .secret = REMOTE_ENV_KEY,
        .check = remote_settings_check,
        .shape = remote_settings_shape,
        .check_run = remote_settings_check_run,
        .place = remote_settings_place,
        .is_meant = remote_settings_is_meant,
        .no_program = remote_settings_no_program,
        .no_template = remote_settings_no_template,
        .no_install = REMOTE_NO_INSTALL,
        .ops = &hosted_ops,
    },
    {
        .name = "e2b",
        .title = "E2B",
        .help = "sandboxes of E2B, or of a server that speaks its protocol",
    },
};

const struct provider_row *provider_at(size_t index)
{
    if (index < ARRAY_SIZE(rows))
        return &rows[index];
    for (size_t i = 0; provider_rows_more[i]; i++) {
        if (i == index - ARRAY_SIZE(rows))
            return provider_rows_more[i];
    }
    return NULL;
}

const struct provider_row *provider_known(const char *name)
{
    const struct provider_row *row;

    for (size_t i = 0; (row = provider_at(i)); i++) {
        if (str_equal(row->name, name))
            return row;
    }
    return NULL;
}

const char *const *provider_names(const char *names[PROVIDERS_MAX + 1])
{
    const struct provider_row *row;
    size_t count = 0;

    for (size_t i = 0; (row = provider_at(i)) && count < PROVIDERS_MAX; i++) {
        if (!provider_can(row, PROVIDER_STANDS_IN))
            names[count++] = row->name;
    }
    names[count] = NULL;
    return names;
}

const char *provider_list(bool only_built, char text[PROVIDER_LIST_MAX])
{
    const struct provider_row *row;
    size_t length = 0;

    text[0] = 0;
    for (size_t i = 0; (row = provider_at(i)); i++) {
        if ((only_built && !row->ops) || provider_can(row, PROVIDER_STANDS_IN))
            continue;
        if (str_format(text + length, PROVIDER_LIST_MAX - length, "%s%s", length ? ", " : "",
                       row->name) < 0)
            break;
        length += strlen(text + length);
    }
    return text;
}

int provider_find(const char *name, const struct provider_row **ret, struct error *err)
{
    const struct provider_row *row = provider_known(name);
    char list[PROVIDER_LIST_MAX];

    if (!row || !row->ops || provider_can(row, PROVIDER_STANDS_IN))
        return error_set(
            err, -ENOSYS, ERROR_BAD_CONFIG,
            "SANDBOX_TYPE: the runtime '%.64s' is not in this build (there are: %s); choose one of "
            "them",
            name, provider_list(true, list));
    *ret = row;
    return 0;
}

bool provider_can(const struct provider_row *row, uint32_t bits)
{
    return row && (row->can & bits) == bits;
}

const char *provider_runtime(const struct provider_row *row)
{
    return row && row->runtime ? row->runtime : row ? row->name : NULL;
}

const struct provider_row *provider_stand_in(const struct provider_row *row)
{
    const struct provider_row *other;

    for (size_t i = 0; row && (other = provider_at(i)); i++) {
        if (provider_can(other, PROVIDER_STANDS_IN) && str_equal(other->runtime, row->name))
            return other;
    }
    return NULL;
}
