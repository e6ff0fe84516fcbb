/*
 * installer.c - runs an installation: makes an installer box, runs the script in it, ends the box,
 * commits its layer; see installer.h.
 *
 * Theory of operation. A job is one installer box; callers that ask for the same inputs at the same
 * time share one job, and the job is cancelled when the last of them has left. As with runs, an
 * event that ends a job only records the reason, and the end is done in a separate turn of the
 * loop: first the box is returned, then its folder is committed (or discarded), then every caller
 * gets done(). Output of the box is used only as text for people: the layer's name, its bytes and
 * files come from the launcher.
 *
 * There are two boxes, one after the other, with the same folder. The first has the network to the
 * index and its passwords, and runs no code of packages. The second compiles and imports the
 * packages, and has neither.
 */
#include "session/installer.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/str.h"
#include "guest_files.h"
#include "session/install_job.h"

#define WATCH_MS 1000
#define FINISH_LEAST_MS 1000 /* least time for the second box, however long the first took */
#define PUT_MAX (LIMIT_TEMPLATE_FILES * 2 + LIMIT_CONFIG_BYTES * 2)

/* ---- the end of a job ---- */

static void installation_unlink(struct installation *installation)
{
    LIST_UNLINK(installation->job->installations, installation);
}

static void job_free(struct install_job *job)
{
    const struct reactor_ops *ops = job->manager->spec.reactor->ops;
    struct provider *provider = job->manager->provider;

    LIST_UNLINK(job->manager->installs, job);
    if (provider && provider->ops->forget)
        provider->ops->forget(provider, job);
    ops->timer_remove(job->turn);
    ops->timer_remove(job->watch);
    pump_stop(&job->pump);
    box_free(job->box);
    while (job->installations) {
        struct installation *next = job->installations->next;

        free(job->installations);
        job->installations = next;
    }
    buf_free(&job->put);
    buf_free(&job->said);
    buf_free(&job->line);
    strv_free(job->last);
    json_decref(job->packages);
    free(job);
}

void installs_free(struct session_manager *manager)
{
    while (manager->installs)
        job_free(manager->installs);
}

/* Calls every caller's done(), then frees the job. */
static void job_tell(struct install_job *job)
{
    struct session_manager *manager = job->manager;
    struct install_end end = {.packages = job->packages,
                              .python = job->python,
                              .bytes = job->bytes,
                              .files = job->files,
                              .ms = clock_now_ms() - job->started_ms,
                              .was_there = job->was_there};

    str_copy(end.layer, sizeof(end.layer), job->made_layer);
    job->state = JOB_TOLD; /* no further caller joins */
    while (job->installations) {
        struct installation *first = job->installations;

        job->installations = first->next;
        first->events->done(first->ctx, job->err.num < 0 ? NULL : &end, &job->err);
        free(first);
    }
    job_free(job);
    session_manager_later(manager); /* session_manager_stop() waits for jobs */
    layers_collect(manager);
}

static json_t *layer_note(const struct install_job *job)
{
    return json_pack("{s:s, s:s, s:s, s:s?, s:s, s:O, s:I, s:I, s:o}", "kind",
                     job->is_template ? "template" : "packages", "inputs", job->inputs, "python",
                     job->python, "template", job->layer[0] ? job->layer : NULL, "interpreter",
                     job->interpreter ? job->interpreter : "", "packages", job->packages, "bytes",
                     (json_int_t)job->bytes, "files", (json_int_t)job->files, "built_at",
                     time_json(session_manager_now_ms()));
}

static void on_layer_committed(void *ctx, const struct layer_committed *layer_committed,
                               const struct error *err)
{
    struct install_job *job = ctx;
    CLEANUP(json_decrefpp) json_t *note = NULL;
    char name[LAYER_TEXT + 8];

    if (err->num < 0) {
        job->err = *err;
        error_prefix(&job->err, "making a layer of the installed packages");
        job_tell(job);
        return;
    }
    str_copy(job->made_layer, sizeof(job->made_layer), layer_committed->layer);
    job->bytes = layer_committed->bytes;
    job->files = layer_committed->files;
    if (job->bytes > job->bytes_max) {
        job_over_size(job);
        job_tell(job); /* no template or session names the layer, so it will be collected */
        return;
    }
    note = layer_note(job);
    layer_describe(layer_committed->layer, "json", name);
    note_write(job->manager->spec.folders.layers_fd, name, note, &job->err);
    job_tell(job);
}

static int job_make(struct install_job *job, struct error *err);

/* Makes the second box; job->put still has the order. */
static int start_finish(struct install_job *job)
{
    job->is_finishing = true;
    job->put_at = 0;
    job->number = job->call = 0;
    buf_clear(&job->said);
    buf_clear(&job->line);
    return job_make(job, &job->err);
}

static void on_box_gone(void *ctx, const struct box_facts *facts)
{
    struct install_job *job = ctx;
    struct provider *provider = job->manager->provider;

    if (facts)
        usage_cpu(job->manager, job->tenant, facts->usage.cpu_us);
    if (job->err.num < 0 && facts && facts->oom_kills > 0)
        error_set(&job->err, -ENOMEM, ERROR_INSTALL_FAILED,
                  "the installation needed more memory than the box has (%llu MB)",
                  (unsigned long long)(job->memory_bytes / MIB));
    if (job->err.num == 0 && !job->is_finishing && start_finish(job) == 0)
        return;
    if (job->err.num < 0) {
        if (provider->ops->discard)
            provider->ops->discard(provider, job->key, false);
        job_tell(job);
        return;
    }
    job->state = JOB_COMMITTING;
    provider->ops->commit_layer(provider, job->key, on_layer_committed, job);
}

/* In a separate turn: the box must not be freed inside its own callbacks. */
static void on_turn(void *ctx)
{
    struct install_job *job = ctx;
    struct provider *provider = job->manager->provider;

    if (job->state == JOB_THERE) {
        job_tell(job);
        return;
    }
    if (job->state != JOB_OVER)
        return;
    job->state = JOB_ENDING;
    pump_stop(&job->pump);
    if (job->make_serial)
        fair_queue_cancel(job->manager->fair_queue, job->make_serial);
    job->make_serial = 0;
    if (job->box)
        provider->ops->end(provider, job->number, ptr_take(&job->box), on_box_gone, job);
    else
        on_box_gone(job, NULL);
}

void job_over(struct install_job *job, const struct error *err)
{
    if (job->state >= JOB_OVER)
        return;
    if (err)
        job->err = *err;
    job->state = JOB_OVER;
    job->manager->spec.reactor->ops->timer_set(job->watch, UINT64_MAX);
    job->manager->spec.reactor->ops->timer_set(job->turn, 0);
}

static void on_lost(void *ctx, const struct error *err)
{
    job_over(ctx, err);
}

void installs_fail(struct session_manager *manager, const struct error *err)
{
    for (struct install_job *job = manager->installs; job; job = job->next)
        job_over(job, err);
}

void install_box_ended(struct session_manager *manager, uint32_t number)
{
    struct error err = {0};

    error_set(&err, -EPIPE, ERROR_BOX_LOST, "the installer box was lost: its warden is gone");
    for (struct install_job *job = manager->installs; job; job = job->next) {
        if (job->box && job->number == number && job->state != JOB_RUNNING)
            job_over(job, &err); /* else the box reports its loss itself */
    }
}

bool installs_name(const struct session_manager *manager, const char *layer)
{
    for (const struct install_job *job = manager->installs; job; job = job->next) {
        if (str_equal(job->layer, layer) || str_equal(job->made_layer, layer))
            return true;
    }
    return false;
}

void installer_cancel(struct installation *installation)
{
    struct install_job *job = installation->job;
    struct error err = {0};

    if (installation->cancel) {
        installation->cancel(installation);
        return;
    }
    installation_unlink(installation);
    free(installation);
    if (job->installations || job->state == JOB_TOLD)
        return;
    error_set(&err, -ECANCELED, ERROR_CANCELLED, "the installation was ended by its caller");
    job_over(job, &err);
}

/* ---- the script ---- */

static size_t on_output(void *ctx, enum box_stream stream, const void *data, size_t length)
{
    struct install_job *job = ctx;

    if (stream == BOX_STDERR)
        job_take_lines(job, data, length);
    else if (stream == BOX_STDOUT && buf_append(&job->said, data, length) < 0)
        buf_append_text(&job->said, "!"); /* too much output: makes it unparsable */
    return length;
}

static void on_ended(void *ctx, const struct exec_end *end)
{
    struct install_job *job = ctx;

    if (end->timed_out)
        error_set(&job->err, -ETIMEDOUT, ERROR_INSTALL_FAILED,
                  "the installation took longer than %g s; SANDBOX_INSTALL_TIMEOUT allows more",
                  (double)job->timeout_ms / 1000);
    else if (end->disk_full)
        error_set(&job->err, -ENOSPC, ERROR_TOO_LARGE,
                  "the installer box has no room left for what is fetched");
    else
        job_read_answer(job, end);
    job_over(job, job->err.num < 0 ? &job->err : NULL);
}

static void on_failed(void *ctx, const struct error *err)
{
    job_over(ctx, err);
}

static const struct exec_events exec_events = {
    .output = on_output, .ended = on_ended, .failed = on_failed};

static void start_script(struct install_job *job)
{
    CLEANUP(buf_free) struct buf script = BUF_INIT(LIMIT_ARGV_BYTES / 2);
    /* pip's settings of this host are a file that only boxes with network have: the first entry
     * is for those boxes alone. */
    static const char *const env[] = {"PIP_CONFIG_FILE=/bailey/pip/pip.conf", "HOME=/tmp",
                                      "TMPDIR=/tmp", "PYTHONUTF8=1", NULL};
    const struct session_language *python = session_manager_language(job->manager, "python");
    const char *own = python->here ? python->here : python->program;
    const char *argv[] = {job->program[0] ? job->program : own, "-I", "-S", "-c", NULL, NULL, NULL};
    struct exec_spec spec = {.argv = argv,
                             .env = env + job->is_finishing,
                             .ends_box = true,
                             .timeout_ms = job->timeout_ms};
    uint64_t now_ms = clock_now_ms();
    struct error err = {0};
    int r = buf_append(&script, guest_install_py, guest_install_py_length);

    argv[4] = buf_text(&script);
    argv[5] = job->is_finishing ? "finish" : "fetch";
    if (!job->is_finishing)
        job->script_ms = now_ms;
    else /* both boxes share one timeout */
        spec.timeout_ms = job->timeout_ms > now_ms - job->script_ms + FINISH_LEAST_MS
                              ? job->timeout_ms - (now_ms - job->script_ms)
                              : FINISH_LEAST_MS;
    if (r < 0)
        r = error_memory(&err);
    else
        r = box_exec(job->box, &spec, &exec_events, job, &job->call, &err);
    if (r < 0) {
        job_over(job, &err);
        return;
    }
    job->state = JOB_RUNNING;
    job->manager->spec.reactor->ops->timer_set(job->watch, WATCH_MS);
}

static void on_watch(void *ctx)
{
    struct install_job *job = ctx;

    if (job->state != JOB_RUNNING)
        return;
    job_look_at_size(job);
    if (job->state == JOB_RUNNING)
        job->manager->spec.reactor->ops->timer_set(job->watch, WATCH_MS);
}

/* ---- the order, written into the box ---- */

static void on_put(void *ctx, const struct error *err)
{
    struct install_job *job = ctx;

    if (job->is_finishing)
        buf_free(&job->put);
    if (err->num < 0)
        job_over(job, err);
    else
        start_script(job);
}

static void push(void *ctx)
{
    struct install_job *job = ctx;

    while (job->put_at < job->put.length) {
        long taken = box_put_data(job->box, job->call, job->put.data + job->put_at,
                                  job->put.length - job->put_at);

        if (taken <= 0)
            return;
        job->put_at += (size_t)taken;
    }
    box_put_end(job->box, job->call);
}

static const struct put_events put_events = {.done = on_put, .more = push};

static void on_made(void *ctx, const struct made *made)
{
    struct install_job *job = ctx;
    struct put_spec spec = {.path = "/workspace/install.json"};
    struct error err = {0};
    int r;

    job->make_serial = 0;
    job->number = made->number;
    job->box = made->box;
    if (job->state != JOB_MAKING)
        return; /* cancelled meanwhile: on_turn() returns the box */
    r = pump_start(&job->pump, job->manager->spec.reactor, job->box, on_lost, job);
    if (r < 0)
        error_set(&err, r, ERROR_ENGINE, "out of memory");
    if (r == 0)
        r = box_put(job->box, &spec, &put_events, job, &job->call, &err);
    if (r < 0) {
        job_over(job, &err);
        return;
    }
    job->state = JOB_PUTTING;
    push(job);
}

static void on_refused(void *ctx, const struct error *err, const struct box_facts *facts)
{
    struct install_job *job = ctx;

    (void)facts;
    job->make_serial = 0;
    job_over(job, err);
}

static const struct make_events make_events = {.made = on_made, .refused = on_refused};

/* ---- the start of a job ---- */

static int job_make(struct install_job *job, struct error *err)
{
    const struct config *config = job->manager->spec.config;
    struct provider *provider = job->manager->provider;
    struct make_request request = {
        .key = job->key,
        .limits = config->limits,
        .minimum = config->isolation,
        .layer = job->layer[0] ? job->layer : NULL,
        .staging = job->is_template ? MAKE_INSTALLER_TEMPLATE : MAKE_INSTALLER_PACKAGES,
    };

    str_copy(request.python, sizeof(request.python), job->program);
    if (job->is_finishing)
        request.staging = job->is_template ? MAKE_FINISH_TEMPLATE : MAKE_FINISH_PACKAGES;

    if (!provider->ops->commit_layer)
        return error_set(err, -ENOSYS, ERROR_INSTALL_FAILED,
                         "boxes of this kind (%s) cannot install packages", provider->ops->name);
    request.limits.memory_bytes = MAX(request.limits.memory_bytes, INSTALL_MEMORY);
    request.limits.disk_bytes = MAX(request.limits.disk_bytes, INSTALL_MEMORY / 2);
    job->memory_bytes = request.limits.memory_bytes;
    job->state = JOB_MAKING;
    return fair_queue_make(job->manager->fair_queue, job->tenant, &request, &make_events, job,
                           &job->make_serial, err);
}

static struct install_job *job_new(struct session_manager *manager, const struct install_spec *spec,
                                   const char *inputs)
{
    const struct config *config = manager->spec.config;
    struct install_job *job = calloc(1, sizeof(*job));

    if (!job)
        return NULL;
    job->manager = manager;
    job->is_template = spec->is_template;
    job->timeout_ms = spec->timeout_ms    ? spec->timeout_ms
                      : spec->is_template ? TEMPLATE_PATIENCE_MS
                                          : config->install_timeout_ms;
    job->bytes_max = spec->bytes ? spec->bytes : config->install_bytes;
    str_copy(job->program, sizeof(job->program), spec->program ? spec->program : "");
    if (!spec->program)
        job->interpreter = session_manager_language(manager, "python")->fingerprint;
    job->put = BUF_INIT(PUT_MAX);
    job->said = BUF_INIT(MIB);
    job->line = BUF_INIT(INSTALL_LINE);
    job->started_ms = clock_now_ms();
    str_copy(job->tenant, sizeof(job->tenant), spec->tenant ? spec->tenant : TENANT_LOCAL);
    str_copy(job->inputs, sizeof(job->inputs), inputs);
    str_copy(job->layer, sizeof(job->layer), spec->layer ? spec->layer : "");
    job->turn = reactor_timer(manager->spec.reactor, on_turn, job);
    job->watch = reactor_timer(manager->spec.reactor, on_watch, job);
    job->last = strv_new();
    job->next = manager->installs;
    manager->installs = job;
    if (!job->turn || !job->watch || !job->last || id_make(job->key, "i") < 0) {
        job_free(job);
        return NULL;
    }
    return job;
}

/* Limits installers: code with many missing modules must not fill the machine with them. */
static int check_count(const struct session_manager *manager, const struct install_spec *spec,
                       struct error *err)
{
    unsigned count = 0;

    for (const struct install_job *job = manager->installs; job; job = job->next)
        count += !job->is_template;
    if (spec->is_template || count < LIMIT_INSTALLS)
        return 0;
    return error_set(err, -EAGAIN, ERROR_INSTALL_FAILED,
                     "%u installations are under way, which is the most at once; try again when "
                     "one has ended",
                     count);
}

static struct install_job *find_running(struct session_manager *manager, const char *inputs)
{
    for (struct install_job *job = manager->installs; job; job = job->next) {
        if (job->state < JOB_OVER && str_equal(job->inputs, inputs))
            return job;
    }
    return NULL;
}

/* A new job, or a job whose layer exists already; NULL with err. */
static struct install_job *job_begin(struct session_manager *manager,
                                     const struct install_spec *spec, const char *inputs,
                                     struct error *err)
{
    struct install_job *job = job_new(manager, spec, inputs);
    int r = -ENOMEM;

    if (!job) {
        error_set(err, r, ERROR_ENGINE, "out of memory");
        return NULL;
    }
    /* A template without hashes is always built, to get the newest versions. What lies at the path
     * of another Python than the daemon's may have changed without notice. */
    if ((!spec->is_template || spec->has_hashes) && !spec->program && job_find_layer(job)) {
        job->state = JOB_THERE;
        job->was_there = true;
        manager->spec.reactor->ops->timer_set(job->turn, 0);
        return job;
    }
    r = job_write_order(job, spec, err);
    if (r == 0)
        r = job_make(job, err);
    if (r == 0)
        return job;
    job_free(job);
    return NULL;
}

int installer_start(struct session_manager *manager, const struct install_spec *spec,
                    const struct install_events *events, void *ctx, struct installation **ret,
                    struct error *err)
{
    const struct session_language *python = session_manager_language(manager, "python");
    struct installation *installation;
    struct install_job *job;
    char inputs[LAYER_TEXT];
    int r;

    if (config_no_install(manager->spec.config))
        return error_set(err, -ENOTSUP, ERROR_INSTALL_FAILED, "%s",
                         config_no_install(manager->spec.config));
    if (!python || (!python->program && !spec->program))
        return error_set(err, -ENOENT, ERROR_NO_INTERPRETER, "%s",
                         python && python->missing ? python->missing : "there is no Python");
    if (manager->is_stopping)
        return error_set(err, -ESHUTDOWN, ERROR_SHUTTING_DOWN, "the daemon is stopping");
    r = install_inputs(manager, spec, inputs, err);
    if (r < 0)
        return r;
    installation = calloc(1, sizeof(*installation));
    if (!installation)
        return error_memory(err);
    job = find_running(manager, inputs);
    if (!job && check_count(manager, spec, err) == 0)
        job = job_begin(manager, spec, inputs, err);
    if (!job) {
        free(installation);
        return err && err->num < 0 ? err->num : -ENOMEM;
    }
    *installation =
        (struct installation){.next = job->installations, .job = job, .events = events, .ctx = ctx};
    job->installations = installation;
    *ret = installation;
    return 0;
}
