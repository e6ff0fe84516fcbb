/*
 * code_write.c - writes records of stored code (SANDBOX_STORE_CODE) in a thread, one after the
 * other: making one harmless takes 40 ms for each MiB, and a record is on the disk before it has a
 * name, which takes as long as the disk does.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "base/worker.h"
#include "session/session_private.h"

struct code_write {
    struct session_manager *manager;
    struct artifact artifact;
    struct code_write_spec spec;
    char tenant[64];
    char *path;
    struct error err;
    int r;
};

static void write_it(void *ctx)
{
    struct code_write *write = ctx;

    write->r = artifact_write(&write->artifact, &write->path, &write->err);
}

static void written(void *ctx)
{
    struct code_write *write = ctx;
    struct code_write_spec spec = write->spec;

    if (write->r < 0)
        log_warning("artifact of %s: %s, continuing without it",
                    write->artifact.result->execution_id, write->err.text);
    retention_code(write->manager, write->tenant, write->path);
    free(write->path);
    free(write);
    spec.done(spec.ctx);
}

void code_write(struct session_manager *manager, const char *tenant,
                const struct artifact *artifact, const struct code_write_spec *spec)
{
    struct code_write *write = calloc(1, sizeof(*write));

    if (write) {
        *write = (struct code_write){.manager = manager, .artifact = *artifact, .spec = *spec};
        str_copy(write->tenant, sizeof(write->tenant), tenant);
        write->artifact.folder = manager->spec.folders.artifacts;
        write->artifact.folder_fd = &manager->spec.folders.artifacts_fd;
    }
    if (write && worker_do(manager->writer, write_it, written, write))
        return;
    free(write);
    log_warning("artifact of %s: out of memory, continuing without it",
                artifact->result->execution_id);
    spec->done(spec->ctx);
}

/* ---- a record that has its parts itself ---- */

struct owned {
    struct session_manager *manager;
    struct result result;
    char *code, **env;
    size_t held;
    char tenant[64], language[32], runtime[64]; /* the session may be gone by then */
};

static void owned_done(void *ctx)
{
    struct owned *owned = ctx;

    session_manager_release(owned->manager, owned->tenant, owned->held);
    result_free(&owned->result);
    free(owned->code);
    strv_free(owned->env);
    free(owned);
}

void code_write_owned(struct session_manager *manager, const char *tenant, struct result *result,
                      const char *language, char *code, size_t length, char **env)
{
    struct owned *owned = calloc(1, sizeof(*owned));
    size_t bytes = length + result->out.kept.length + result->err.kept.length;
    struct error err = {0};
    struct artifact artifact;

    if (!owned || !code || session_manager_hold(manager, tenant, bytes, &err) < 0) {
        log_warning("artifact of %s: %s, continuing without it", result->execution_id,
                    err.code ? err.text : "out of memory");
        result_free(result);
        free(code);
        strv_free(env);
        free(owned);
        return;
    }
    *owned = (struct owned){
        .manager = manager, .result = *result, .code = code, .env = env, .held = bytes};
    str_copy(owned->tenant, sizeof(owned->tenant), tenant);
    str_copy(owned->language, sizeof(owned->language), language);
    str_copy(owned->runtime, sizeof(owned->runtime), result->runtime ? result->runtime : "");
    owned->result.runtime = owned->runtime;
    artifact = (struct artifact){.language = owned->language,
                                 .code = code,
                                 .code_length = length,
                                 .env = (const char *const *)env,
                                 .result = &owned->result};
    code_write(manager, tenant, &artifact,
               &(struct code_write_spec){.done = owned_done, .ctx = owned});
}
