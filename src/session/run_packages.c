/*
 * run_packages.c - packages that the pip of a one-shot run's box asks for (SANDBOX_AUTO_INSTALL);
 * see guest_install.c, which reads the requests. As packages.c for sessions, but nothing is kept:
 * packages/<key> is removed with the run.
 *
 * A folder for packages and a watch cost each run some of its milliseconds. So a box has them only
 * where the code has the word "pip" or files come along. That is a guess for speed: a box
 * without them is as closed as one without the setting, and its pip says what is possible.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "session/install_job.h"
#include "session/run_private.h"
#include "template/requirement.h"

/* One request: first the installer's job, then the hard links. */
struct run_order {
    struct installation handle; /* first member: this is what guest_install.c holds */
    struct run *run;
    struct installation *installation; /* NULL: finished */
    struct layer_link *link;
    struct reactor_timer *turn;
    char **wanted; /* strv: the packages of this request */
    char **asked;  /* strv: all requirements of the run afterwards */
    struct install_end end;
};

bool run_packages_wanted(const struct run *run, const struct run_spec *spec)
{
    const struct config *config = run_config(run);

    return config->auto_install && config_can(config, PROVIDER_CAN_INSTALL) &&
           (spec->file_count > 0 || memmem(spec->code, spec->code_length, "pip", 3));
}

int run_packages_folder(struct run *run, struct error *err)
{
    if (run->hears_pip && mkdirat(run->manager->spec.folders.packages_fd, run->key, 0755) < 0 &&
        errno != EEXIST)
        return error_errno(err, "making the folder of packages");
    return 0;
}

static void order_free(struct run_order *order)
{
    if (order->installation)
        installer_cancel(order->installation);
    if (order->turn)
        order->run->manager->spec.reactor->ops->timer_remove(order->turn);
    layer_link_free(order->link);
    json_decref(order->end.packages);
    json_decref(order->end.added);
    strv_free(order->wanted);
    strv_free(order->asked);
    free(order);
}

static void on_cancel(struct installation *handle)
{
    order_free((struct run_order *)handle);
}

static void order_tell(struct run_order *order, const struct error *err)
{
    const struct install_events *events = order->handle.events;
    void *ctx = order->handle.ctx;
    struct install_end end = order->end;
    struct run *run = order->run;
    struct error copy = *err;

    if (copy.num == 0) {
        end.added = requirement_added(run->packages, end.packages);
        json_decref(run->packages);
        run->packages = json_incref(end.packages);
        strv_free(run->asked);
        run->asked = ptr_take(&order->asked);
        layers_remember(run->manager, end.layer, end.bytes);
    }
    run_install_audit(run, (const char *const *)order->wanted, &end, err);
    order->end.packages = NULL;
    order_free(order);
    events->done(ctx, copy.num < 0 ? NULL : &end, &copy);
    json_decref(end.packages);
    json_decref(end.added);
}

static void on_turn(void *ctx)
{
    struct run_order *order = ctx;
    struct error err = {0};

    if (layer_link_step(order->link, &err) > 0)
        order->run->manager->spec.reactor->ops->timer_set(order->turn, 0);
    else
        order_tell(order, &err);
}

static void on_installed(void *ctx, const struct install_end *end, const struct error *err)
{
    struct run_order *order = ctx;
    struct run *run = order->run;
    const struct session_folders *folders = &run->manager->spec.folders;
    struct error failure = *err;

    order->installation = NULL;
    if (failure.num == 0) {
        order->end = *end;
        order->end.packages = json_incref(end->packages);
        order->end.added = NULL;
        order->end.python = NULL;
        /* From here on the run names the layer, so it is not collected. */
        str_copy(run->package_layer, sizeof(run->package_layer), end->layer);
        layer_link_start(folders->layers_fd, end->layer, folders->packages_fd, run->key,
                         &order->link, &failure);
    }
    if (failure.num < 0)
        order_tell(order, &failure);
    else
        run->manager->spec.reactor->ops->timer_set(order->turn, 0);
}

/* What the run has already and what is wanted now are resolved together. */
static int all_requirements(struct run *run, const char *const *wanted, char ***ret)
{
    CLEANUP(strv_freep) char **all = strv_new();
    char **before = run->asked;
    char name[LIMIT_REQUIREMENT + 1];
    int r = all ? 0 : -ENOMEM;

    if (!before)
        before = run->is_again && run->wanted[0] ? run->wanted : run_files_requirements(run);
    for (; before && *before && r == 0; before++) {
        if (requirement_parse(*before, name, NULL) < 0 || !requirement_is_among(name, wanted))
            r = strv_push(&all, *before);
    }
    for (; *wanted && r == 0; wanted++)
        r = strv_push(&all, *wanted);
    if (r == 0)
        *ret = ptr_take(&all);
    return r;
}

static int order_begin(struct run_order *order, struct error *err)
{
    static const struct install_events events = {.done = on_installed};
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_CONFIG_BYTES);
    struct run *run = order->run;
    struct install_spec spec = {.tenant = run->tenant, .layer = run->layer[0] ? run->layer : NULL};
    int r = all_requirements(run, (const char *const *)order->wanted, &order->asked);

    for (char **at = order->asked; at && *at && r == 0; at++)
        r = buf_printf(&text, "%s\n", *at);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "preparing the list of packages: %s", strerror(-r));
    if (strv_length(order->asked) > LIMIT_SESSION_PACKAGES)
        return error_set(err, -E2BIG, ERROR_TOO_LARGE, "a run can request at most %d packages",
                         LIMIT_SESSION_PACKAGES);
    spec.requirements = buf_text(&text);
    r = installer_start(run->manager, &spec, &events, order, &order->installation, err);
    if (r < 0)
        order->installation = NULL;
    return r;
}

int run_packages_install(struct run *run, const char *const *packages,
                         const struct install_events *events, void *ctx, struct installation **ret,
                         struct error *err)
{
    struct run_order *order;
    int r = install_check(run->manager, packages, err);

    if (r < 0)
        return r;
    order = calloc(1, sizeof(*order));
    if (!order)
        return error_memory(err);
    order->run = run;
    order->turn = reactor_timer(run->manager->spec.reactor, on_turn, order);
    order->wanted = strv_copy(packages);
    order->handle = (struct installation){.cancel = on_cancel, .events = events, .ctx = ctx};
    r = order->turn && order->wanted ? order_begin(order, err) : error_memory(err);
    if (r < 0) {
        order_free(order);
        return r;
    }
    *ret = &order->handle;
    return 0;
}

void run_packages_free(struct run *run)
{
    guest_install_free(ptr_take(&run->guest_install));
    json_decref(ptr_take(&run->packages));
    strv_free(ptr_take(&run->asked));
}
