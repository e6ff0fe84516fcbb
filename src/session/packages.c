/*
 * packages.c - packages installed into a session, until it ends; see installer.h.
 *
 * packages/<session>/ is bound in its box at /bailey/packages. Each installation makes one layer of
 * all packages that were requested for the session so far, so that versions always fit each other,
 * and the folder is made equal to that layer; packages/<session>.json stores the list for the next
 * broker.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/list.h"
#include "base/log.h"
#include "base/str.h"
#include "model/text.h"
#include "observe/audit.h"
#include "session/install_job.h"
#include "session/layer_link.h"
#include "template/requirement.h"

/*
 * One installation into a session: first the installer's job, then the hard links. One at a time:
 * the next one starts with all packages of those before it.
 */
struct package_order {
    struct installation handle; /* first member: this is what the caller holds */
    struct package_order *next; /* a later one */
    struct session *session;
    struct installation *installation; /* NULL: finished or not begun */
    struct layer_link *link;
    struct reactor_timer *turn;
    struct caller caller; /* the caller */
    bool has_begun;
    char **wanted; /* strv: the packages requested by this call */
    char **asked;  /* strv: all requirements of the session afterwards */
    struct install_end end;
    char python[24];
};

/* ---- the session's packages ---- */

static void note_name(const struct session *session, char name[ID_MAX + 8])
{
    str_format(name, ID_MAX + 8, "%s.json", session->id);
}

void packages_load(struct session *session)
{
    CLEANUP(json_decrefpp) json_t *note = NULL;
    json_t *asked, *packages, *item;
    const char *layer;
    char name[ID_MAX + 8];
    size_t i;

    if (session->packages)
        return;
    note_name(session, name);
    note = note_read(session->manager->spec.folders.packages_fd, name);
    if (!note ||
        json_unpack(note, "{s:s, s:o, s:o}", "layer", &layer, "packages", &packages, "asked",
                    &asked) < 0 ||
        !layer_name_is_good(layer) || !json_is_array(packages))
        return;
    str_copy(session->package_layer, sizeof(session->package_layer), layer);
    session->packages = json_incref(packages);
    session->asked_packages = strv_new();
    json_array_foreach(asked, i, item)
    {
        if (session->asked_packages && json_is_string(item))
            strv_push(&session->asked_packages, json_string_value(item));
    }
}

json_t *session_packages_json(struct session *session)
{
    packages_load(session);
    return session->packages ? json_incref(session->packages) : json_array();
}

int packages_prepare(struct session *session, struct error *err)
{
    if (mkdirat(session->manager->spec.folders.packages_fd, session->id, 0755) < 0 &&
        errno != EEXIST)
        return error_errno(err, "making the folder of packages");
    return 0;
}

void packages_remove(struct session *session)
{
    struct session_manager *manager = session->manager;
    char name[ID_MAX + 8];

    note_name(session, name);
    unlinkat(manager->spec.folders.packages_fd, name, 0);
    session_manager_discard(manager, manager->spec.folders.packages_fd, session->id);
    /* A template that was rebuilt meanwhile has another layer now. */
    if (session->package_layer[0] ||
        (session->layer[0] && !templates_name(manager, session->layer)))
        layers_collect(manager);
}

/* ---- the end of an installation ---- */

static void order_free(struct package_order *order)
{
    const struct reactor_ops *ops = order->session->manager->spec.reactor->ops;
    struct package_order *first;

    LIST_UNLINK(order->session->package_orders, order);
    first = order->session->package_orders;
    if (first && !first->has_begun)
        ops->timer_set(first->turn, 0); /* the next one starts */
    if (order->installation)
        installer_cancel(order->installation);
    ops->timer_remove(order->turn);
    layer_link_free(order->link);
    json_decref(order->end.packages);
    json_decref(order->end.added);
    strv_free(order->wanted);
    strv_free(order->asked);
    free(order);
}

static void on_cancel(struct installation *handle)
{
    order_free((struct package_order *)handle);
}

void packages_free(struct session *session)
{
    while (session->package_orders)
        order_free(session->package_orders);
    json_decref(session->packages);
    session->packages = NULL;
    strv_free(session->asked_packages);
    session->asked_packages = NULL;
}

void install_audit(struct session_manager *manager, const struct asked_install *asked,
                   const struct install_end *end, const struct error *err)
{
    bool is_ok = err->num == 0;
    const char *code = is_ok ? NULL : err->code ? err->code : ERROR_ENGINE;
    json_t *names = json_array(), *fields;

    for (const char *const *word = asked->wanted; word && *word; word++)
        json_array_append_new(names, text_to_json(*word, strlen(*word)));
    fields = json_pack("{s:s, s:s*, s:o, s:s, s:s*, s:O*, s:I}", "tenant", asked->tenant,
                       "session_id", asked->session, "packages", names, "result",
                       is_ok                                   ? "ok"
                       : str_equal(code, ERROR_INSTALL_DENIED) ? "refused"
                                                               : "error",
                       "error", code, "installed", is_ok ? end->added : NULL, "duration_ms",
                       is_ok ? (json_int_t)end->ms : 0);
    if (asked->caller)
        caller_describe(asked->caller, fields);
    if (fields)
        audit_write(manager->spec.audit, "install", fields);
}

static void order_tell(struct package_order *order, const struct error *err)
{
    const struct install_events *events = order->handle.events;
    void *ctx = order->handle.ctx;
    struct install_end end = order->end;
    struct error copy = *err;

    install_audit(order->session->manager,
                  &(struct asked_install){.caller = &order->caller,
                                          .tenant = order->session->tenant,
                                          .session = order->session->id,
                                          .wanted = (const char *const *)order->wanted},
                  &end, err);
    order->end.packages = order->end.added = NULL;
    order_free(order);
    events->done(ctx, copy.num < 0 ? NULL : &end, &copy);
    json_decref(end.packages);
    json_decref(end.added);
}

/* Fails every installation under way: the session ends. */
void packages_fail(struct session *session, const struct error *err)
{
    while (session->package_orders)
        order_tell(session->package_orders, err);
}

/* ---- the links ---- */

static int remember(struct package_order *order, struct error *err)
{
    struct session *session = order->session;
    json_t *asked = json_array();
    CLEANUP(json_decrefpp) json_t *note = NULL;
    char name[ID_MAX + 8];

    for (char **at = order->asked; *at; at++)
        json_array_append_new(asked, json_string(*at));
    note = json_pack("{s:s, s:O, s:o}", "layer", order->end.layer, "packages", order->end.packages,
                     "asked", asked);
    note_name(session, name);
    return note_write(session->manager->spec.folders.packages_fd, name, note, err);
}

static void keep(struct package_order *order)
{
    struct session *session = order->session;

    usage_packages(session, order->end.bytes);
    order->end.added = requirement_added(session->packages, order->end.packages);
    str_copy(session->package_layer, sizeof(session->package_layer), order->end.layer);
    json_decref(session->packages);
    session->packages = json_incref(order->end.packages);
    strv_free(session->asked_packages);
    session->asked_packages = ptr_take(&order->asked);
}

static int order_begin(struct package_order *order, struct error *err);

static void on_turn(void *ctx)
{
    struct package_order *order = ctx;
    struct error err = {0};
    int r;

    if (!order->has_begun) { /* it has waited for another installation */
        if (order_begin(order, &err) < 0)
            order_tell(order, &err);
        return;
    }
    r = layer_link_step(order->link, &err);
    if (r > 0) {
        order->session->manager->spec.reactor->ops->timer_set(order->turn, 0);
        return;
    }
    if (r == 0)
        r = remember(order, &err);
    if (r == 0)
        keep(order);
    session_touch(order->session);
    order_tell(order, &err);
}

static void on_installed(void *ctx, const struct install_end *end, const struct error *err)
{
    struct package_order *order = ctx;
    struct session *session = order->session;
    const struct session_folders *folders = &session->manager->spec.folders;
    struct error failure = *err;

    order->installation = NULL;
    if (failure.num == 0) {
        order->end = *end;
        order->end.packages = json_incref(end->packages);
        str_copy(order->python, sizeof(order->python), end->python);
        order->end.python = order->python;
        /* From here on the session names the layer, so it is not collected. */
        str_copy(session->package_layer, sizeof(session->package_layer), end->layer);
        if (packages_prepare(session, &failure) == 0)
            layer_link_start(folders->layers_fd, end->layer, folders->packages_fd, session->id,
                             &order->link, &failure);
    }
    if (failure.num < 0)
        order_tell(order, &failure);
    else
        session->manager->spec.reactor->ops->timer_set(order->turn, 0);
}

static void on_progress(void *ctx, const char *line)
{
    struct package_order *order = ctx;

    if (order->handle.events->progress)
        order->handle.events->progress(order->handle.ctx, line);
}

/* ---- the start of an installation ---- */

int install_check(const struct session_manager *manager, const char *const *packages,
                  struct error *err)
{
    const struct config *config = manager->spec.config;
    char name[LIMIT_REQUIREMENT + 1];
    size_t count = 0;

    for (; packages[count]; count++) {
        int r = requirement_parse(packages[count], name, err);

        if (r < 0)
            return r;
        if (!requirement_is_allowed(name, config->install_allow, config->install_deny))
            return requirement_denied(name, err);
    }
    if (count == 0 || count > LIMIT_PACKAGES)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "1 to %d packages can be installed at once",
                         LIMIT_PACKAGES);
    return 0;
}

static const char *installed_version(const struct session *session, const char *name)
{
    char other[LIMIT_REQUIREMENT + 1];
    json_t *item;
    size_t i;

    json_array_foreach(session->packages, i, item)
    {
        const char *text = json_string_value(json_object_get(item, "name"));

        if (text && requirement_normalise(text, strlen(text), other) && str_equal(other, name))
            return json_string_value(json_object_get(item, "version"));
    }
    return NULL;
}

/* The session's requirements stay as they are, except those requested again; then the new ones. */
static int all_requirements(struct session *session, const char *const *packages, char ***ret)
{
    CLEANUP(strv_freep) char **all = strv_new();
    int r = all ? 0 : -ENOMEM;

    packages_load(session);
    for (char **at = session->asked_packages; at && *at && r == 0; at++) {
        char name[LIMIT_REQUIREMENT + 1], pinned[2 * LIMIT_REQUIREMENT + 8];
        const char *version;

        if (requirement_parse(*at, name, NULL) < 0 || requirement_is_among(name, packages))
            continue;
        version = installed_version(session, name);
        str_format(pinned, sizeof(pinned), "%s%s%s", version ? name : *at, version ? "==" : "",
                   version ? version : "");
        r = strv_push(&all, pinned);
    }
    for (; *packages && r == 0; packages++)
        r = strv_push(&all, *packages);
    if (r == 0)
        *ret = ptr_take(&all);
    return r;
}

static struct package_order *order_new(struct session *session, const struct caller *caller,
                                       const char *const *packages)
{
    struct package_order *order = calloc(1, sizeof(*order));

    if (!order)
        return NULL;
    order->session = session;
    order->caller = caller ? *caller : caller_engine;
    order->turn = reactor_timer(session->manager->spec.reactor, on_turn, order);
    order->wanted = strv_copy(packages);
    LIST_APPEND(session->package_orders, order);
    if (order->turn && order->wanted)
        return order;
    order_free(order);
    return NULL;
}

/* Starts the installer with all requirements of the session. */
static int order_begin(struct package_order *order, struct error *err)
{
    static const struct install_events own_events = {.progress = on_progress, .done = on_installed};
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_CONFIG_BYTES);
    struct session *session = order->session;
    struct install_spec spec = {.tenant = session->tenant};
    struct session_template found_template = {0};
    int r = all_requirements(session, (const char *const *)order->wanted, &order->asked);

    order->has_begun = true;
    for (char **at = order->asked; at && *at && r == 0; at++)
        r = buf_printf(&text, "%s\n", *at);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "preparing the list of packages: %s", strerror(-r));
    if (strv_length(order->asked) > LIMIT_SESSION_PACKAGES)
        return error_set(err, -E2BIG, ERROR_TOO_LARGE,
                         "a session can request at most %d packages; make a template of them",
                         LIMIT_SESSION_PACKAGES);
    if (!session->layer[0])
        r = session_manager_template_of(session->manager, session_config(session),
                                        session->template_name, &found_template, err);
    spec.requirements = buf_text(&text);
    spec.program = session_manager_other_python(session->manager, session_config(session));
    spec.layer = session->layer[0] ? session->layer : found_template.layer;
    if (r == 0)
        r = installer_start(session->manager, &spec, &own_events, order, &order->installation, err);
    if (r < 0)
        order->installation = NULL;
    return r;
}

int session_install(struct session *session, const struct caller *caller,
                    const char *const *packages, const struct install_events *events, void *ctx,
                    struct installation **ret, struct error *err)
{
    struct package_order *order;
    int r = session->state >= SESSION_ENDING ? session_ended_error(session, err)
                                             : install_check(session->manager, packages, err);

    if (r == 0)
        r = usage_data(session, 1, err); /* the size is not known yet */
    if (r < 0)
        return r;
    usage_data_over(session, 1);
    session_touch(session);
    order = order_new(session, caller, packages);
    if (!order)
        return error_memory(err);
    order->handle = (struct installation){.cancel = on_cancel, .events = events, .ctx = ctx};
    if (order == session->package_orders)
        r = order_begin(order, err);
    if (r < 0) {
        order_free(order);
        return r;
    }
    *ret = &order->handle;
    return 0;
}
