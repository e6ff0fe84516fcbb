/*
 * run_retry.c - a one-shot run whose program lacks a module: the package is fetched by an installer
 * box, and the program runs a second time, in a box that has it (SANDBOX_AUTO_INSTALL).
 *
 * What the program says is a hint and no more (missing.h). The first box is gone before anything is
 * fetched; packages/<key> is made of links into the layer, bound in the second box and removed with
 * the run. Nothing of the first time is in the result, unless there is no second.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "observe/metrics.h"
#include "session/run_private.h"

static void fail(struct run *run, const struct error *err)
{
    if (!run->install)
        run->install = missing_failed(run->module, err);
    run->wanted[0] = NULL;
}

void run_install_audit(const struct run *run, const char *const *wanted,
                       const struct install_end *end, const struct error *err)
{
    install_audit(run->manager,
                  &(struct asked_install){.caller = run->account ? &run->account->caller : NULL,
                                          .tenant = run->tenant,
                                          .wanted = wanted},
                  end, err);
}

/* ---- is it worth it? ---- */

static void on_looked(void *ctx, bool is_there)
{
    struct run *run = ctx;
    struct error err = {0};

    run->look = NULL;
    if (is_there) {
        local_module_error(run->module, &err);
        fail(run, &err);
    }
    run_step_done(run, RECIPE_PROGRAM);
}

bool run_look(struct run *run)
{
    const struct config *config = run_config(run);
    const struct result *result = &run->result;
    struct error err = {0};

    if (!config->auto_install || !config_can(config, PROVIDER_CAN_INSTALL) || run->is_again ||
        !run->done || run->manager->is_stopping || !str_equal(run->language->name, "python") ||
        result->exit_code != 1 || result->signal || result->timed_out || result->oom_killed ||
        result->err.is_truncated ||
        !missing_from_stderr(buf_text(&result->err.kept), result->err.kept.length, run->module))
        return false;
    if (missing_package(run->module, config->install_allow, config->install_deny, run->package,
                        &err) < 0) {
        if (err.code == ERROR_INSTALL_DENIED)
            run_install_audit(run, (const char *const[]){run->module, NULL}, NULL, &err);
        fail(run, &err);
        return false;
    }
    run->wanted[0] = run->package;
    return local_module_look(run->box, run->module, on_looked, run, &run->look, &err) == 0;
}

/* ---- the second time ---- */

/* Everything that the first time left is forgotten, but for who asked and the result's id. */
static void begin_again(struct run *run)
{
    char id[ID_MAX];
    const char *runtime = run->result.runtime, *warm = run->result.warm;
    struct limits limits = run->result.limits;
    struct error err = {0};

    str_copy(id, sizeof(id), run->result.execution_id);
    result_free(&run->result);
    result_init(&run->result, &limits);
    str_copy(run->result.execution_id, sizeof(run->result.execution_id), id);
    run->result.runtime = runtime;
    run->result.warm = warm;
    run->is_again = true;
    if (!run_files_needs(run)) /* else it is the first */
        metrics_add(run->manager->spec.metrics, METRIC_RETRIES, &(const char *){"box"}, 1);
    run->code_sent = run->input_sent = 0;
    run->call = run->kernel = run->number = 0;
    run->recipe.has_kernel = run->recipe.has_output = false;
    run->has_status = run->has_ended = false;
    run->told = (struct usage){0};
    run->counted_cpu_us = 0;
    if (run_make(run, &err) < 0)
        run_over(run, &err);
}

void run_link(struct run *run)
{
    struct error err = {0};
    int r = layer_link_step(run->link, &err);

    if (r > 0) {
        run->manager->spec.reactor->ops->timer_set(run->timer, 0);
        return;
    }
    layer_link_free(ptr_take(&run->link));
    if (r == 0) {
        begin_again(run);
        return;
    }
    json_decref(ptr_take(&run->install));
    if (!run_files_needs(run))
        fail(run, &err);
    run_over(run, run_files_needs(run) ? &err : NULL);
}

int run_link_start(struct run *run, const struct install_end *end, struct error *err)
{
    const struct session_folders *folders = &run->manager->spec.folders;

    str_copy(run->package_layer, sizeof(run->package_layer), end->layer);
    if (mkdirat(folders->packages_fd, run->key, 0755) < 0 && errno != EEXIST)
        return error_errno(err, "making the folder of packages");
    return layer_link_start(folders->layers_fd, end->layer, folders->packages_fd, run->key,
                            &run->link, err);
}

static int link_layer(struct run *run, const struct install_end *end, struct error *err)
{
    if (json_array_size(end->packages) == 0)
        return error_set(err, -ENOENT, ERROR_INSTALL_FAILED,
                         "the package '%s' is installed, but has no module '%s'", run->package,
                         run->module);
    return run_link_start(run, end, err);
}

static void on_installed(void *ctx, const struct install_end *end, const struct error *err)
{
    struct run *run = ctx;
    struct install_end told = end ? *end : (struct install_end){0};
    struct error failure = *err;

    run->installation = NULL;
    told.added = told.packages;
    run_install_audit(run, (const char *const *)run->wanted, &told, err);
    if (failure.num == 0 && link_layer(run, end, &failure) == 0) {
        layers_remember(run->manager, end->layer, end->bytes);
        run->install = missing_installed(run->package, end->packages);
        run->manager->spec.reactor->ops->timer_set(run->timer, 0);
        return;
    }
    fail(run, &failure);
    run_over(run, NULL);
}

bool run_install(struct run *run)
{
    static const struct install_events events = {.done = on_installed};
    char line[LIMIT_REQUIREMENT + 2];
    struct install_spec spec = {.tenant = run->tenant,
                                .requirements = line,
                                .layer = run->layer[0] ? run->layer : NULL,
                                .program =
                                    session_manager_other_python(run->manager, run_config(run))};
    struct error err = {0};

    if (!run->wanted[0] || run->is_again || run->install || !run->done || run->result.error.code)
        return false;
    str_format(line, sizeof(line), "%s\n", run->package);
    if (installer_start(run->manager, &spec, &events, run, &run->installation, &err) < 0) {
        run->installation = NULL;
        run_install_audit(run, (const char *const *)run->wanted, NULL, &err);
        fail(run, &err);
        return false;
    }
    run->is_over = false;
    return true;
}

/* ---- the end ---- */

void run_leave(struct run *run)
{
    struct session_manager *manager = run->manager;
    bool had_layer;

    run_list_leave(run);
    local_module_leave(ptr_take(&run->look));
    if (run->installation)
        installer_cancel(ptr_take(&run->installation));
    layer_link_free(ptr_take(&run->link));
    json_decref(ptr_take(&run->install));
    if (!run->package_layer[0] && !run->hears_pip)
        return;
    session_manager_discard(manager, manager->spec.folders.packages_fd, run->key);
    had_layer = run->package_layer[0];
    run->package_layer[0] = '\0';
    if (had_layer)
        layers_collect(manager);
}

bool runs_name(const struct session_manager *manager, const char *layer)
{
    for (const struct run *run = manager->runs; run; run = run->next) {
        if (str_equal(run->layer, layer) || str_equal(run->package_layer, layer))
            return true;
    }
    return false;
}
