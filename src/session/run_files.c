/*
 * run_files.c - what a one-shot run brings along and takes home: packages that an installer box
 * fetches before, files put into /workspace, files of /tmp/output that come with the result.
 *
 * One after the other, in the run's own box. Names and sizes of what comes home are a guest's word:
 * no more is kept than was asked for, whatever a listing says.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "recipe/output.h"
#include "session/install_job.h"
#include "session/run_private.h"
#include "template/requirement.h"

#define UNREADABLE "could not be read"
#define INPUT_PATH 300

struct run_files_input {
    char *name;
    struct buf data;
};

struct run_files {
    char **requirements; /* strv; NULL: none */
    struct run_files_input *files;
    size_t count, at;
    size_t sent; /* of files[at] */

    void (*fetched)(void *ctx, const char *name, const void *data, size_t length);
    uint64_t left; /* bytes that may still come home */
    char **names;  /* strv: what is fetched */
    size_t name_at;
    unsigned over;   /* files that do not come home */
    uint32_t get;    /* under way */
    struct buf data; /* of it */
    bool is_over;    /* it has more than may be kept */
};

/* ---- its own life ---- */

static int copy_files(struct run_files *run_files, const struct run_spec *spec)
{
    int r = 0;

    run_files->files = calloc(spec->file_count + 1, sizeof(*run_files->files));
    if (!run_files->files)
        return -ENOMEM;
    for (size_t i = 0; i < spec->file_count && r == 0; i++) {
        struct run_files_input *file = &run_files->files[run_files->count++];

        file->data.maximum = spec->files[i].length;
        file->name = strdup(spec->files[i].name);
        r = file->name ? buf_append(&file->data, spec->files[i].data, spec->files[i].length)
                       : -ENOMEM;
    }
    return r;
}

static int check_requirements(const struct run *run, const char *const *requirements,
                              struct error *err)
{
    const struct config *config = run->manager->spec.config;
    char name[LIMIT_REQUIREMENT + 1];
    size_t count = 0;

    for (; requirements[count]; count++) {
        int r = requirement_parse(requirements[count], name, err);

        if (r < 0)
            return r;
        if (!requirement_is_allowed(name, config->install_allow, config->install_deny))
            return requirement_denied(name, err);
    }
    if (count > LIMIT_PACKAGES)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "requirements: at most %d packages can be installed at once",
                         LIMIT_PACKAGES);
    if (count > 0 && !str_equal(run->language->name, "python"))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "requirements: packages can be installed for Python only");
    return 0;
}

int run_files_new(struct run *run, const struct run_spec *spec, struct error *err)
{
    bool has_requirements = spec->requirements && spec->requirements[0];
    struct run_files *run_files;
    int r = has_requirements ? check_requirements(run, spec->requirements, err) : 0;

    if (r < 0 || (!has_requirements && spec->file_count == 0 && !spec->fetched))
        return r;
    run_files = calloc(1, sizeof(*run_files));
    if (!run_files)
        return error_memory(err);
    run->run_files = run_files;
    *run_files = (struct run_files){.fetched = spec->fetched, .left = spec->fetch_bytes};
    run_files->data.maximum = spec->fetch_bytes;
    run_files->names = strv_new();
    r = copy_files(run_files, spec);
    if (r == 0 && has_requirements)
        run_files->requirements = strv_copy(spec->requirements);
    if (r < 0 || !run_files->names || (has_requirements && !run_files->requirements))
        return error_memory(err);
    return 0;
}

void run_files_free(struct run *run)
{
    struct run_files *run_files = ptr_take(&run->run_files);

    if (!run_files)
        return;
    for (size_t i = 0; i < run_files->count; i++) {
        free(run_files->files[i].name);
        buf_free(&run_files->files[i].data);
    }
    free(run_files->files);
    strv_free(run_files->requirements);
    strv_free(run_files->names);
    buf_free(&run_files->data);
    free(run_files);
}

/* ---- packages ---- */

bool run_files_needs(const struct run *run)
{
    return run->run_files && run->run_files->requirements;
}

char **run_files_requirements(const struct run *run)
{
    return run->run_files ? run->run_files->requirements : NULL;
}

static void on_installed(void *ctx, const struct install_end *end, const struct error *err)
{
    struct run *run = ctx;
    struct install_end told = end ? *end : (struct install_end){0};
    struct error failure = *err;
    int r = failure.num;

    run->installation = NULL;
    told.added = told.packages;
    run_install_audit(run, (const char *const *)run->run_files->requirements, &told, err);
    if (r < 0) {
        run_over(run, &failure);
        return;
    }
    run->install = json_pack("{s:O?}", "requirements", end->packages);
    if (json_array_size(end->packages) == 0) {
        r = run_make(run, &failure); /* the template has them all */
    } else {
        r = run_link_start(run, end, &failure);
        if (r == 0)
            layers_remember(run->manager, end->layer, end->bytes);
        run->manager->spec.reactor->ops->timer_set(run->timer, 0);
    }
    if (r < 0)
        run_over(run, &failure);
}

int run_files_install(struct run *run, struct error *err)
{
    static const struct install_events events = {.done = on_installed};
    CLEANUP(buf_free)
    struct buf text = BUF_INIT((size_t)LIMIT_PACKAGES * (LIMIT_REQUIREMENT + 2));
    struct install_spec spec = {.tenant = run->tenant,
                                .layer = run->layer[0] ? run->layer : NULL,
                                .timeout_ms = run->result.limits.timeout_ms,
                                .program =
                                    session_manager_other_python(run->manager, run_config(run))};
    int r = 0;

    for (char **at = run->run_files->requirements; *at && r == 0; at++)
        r = buf_printf(&text, "%s\n", *at);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "requirements: %s", strerror(-r));
    spec.requirements = buf_text(&text);
    r = installer_start(run->manager, &spec, &events, run, &run->installation, err);
    if (r < 0) {
        run->installation = NULL;
        run_install_audit(run, (const char *const *)run->run_files->requirements, NULL, err);
    }
    return r;
}

/* ---- files on their way in ---- */

static void put_next(struct run *run);

/* Of the file that is on its way. */
static int input_path(const struct run_files *run_files, char path[INPUT_PATH])
{
    return str_format(path, INPUT_PATH, "/workspace/%s", run_files->files[run_files->at].name);
}

static void on_put(void *ctx, const struct error *err)
{
    struct run *run = ctx;
    struct error told = *err;
    char path[INPUT_PATH];

    if (run->is_over)
        return;
    if (told.num == 0) {
        run->run_files->at++;
        put_next(run);
        return;
    }
    input_path(run->run_files, path);
    recipe_not_put(path, &told);
    run_over(run, &told);
}

static void push_file(void *ctx)
{
    struct run *run = ctx;
    struct run_files *run_files = run->run_files;
    const struct buf *data = &run_files->files[run_files->at].data;

    while (run_files->sent < data->length) {
        long taken = box_put_data(run->box, run->call, buf_text(data) + run_files->sent,
                                  data->length - run_files->sent);

        if (taken <= 0)
            return;
        run_files->sent += (size_t)taken;
    }
    box_put_end(run->box, run->call);
}

static void put_next(struct run *run)
{
    static const struct put_events events = {.done = on_put, .more = push_file};
    struct run_files *run_files = run->run_files;
    struct put_spec put = {.mode = 0644};
    char path[INPUT_PATH];
    struct error err = {0};

    if (!run_files || run_files->at == run_files->count) {
        run_step_done(run, RECIPE_FILES);
        return;
    }
    run_files->sent = 0;
    put.path = path;
    if (input_path(run_files, path) < 0) {
        error_set(&err, -ENAMETOOLONG, ERROR_BAD_INPUT, "files: a name is too long");
        run_over(run, &err);
    } else if (box_put(run->box, &put, &events, run, &run->call, &err) < 0) {
        run_over(run, &err);
    } else {
        push_file(run);
    }
}

void run_files_put(struct run *run)
{
    if (run->run_files)
        run->run_files->at = 0;
    put_next(run);
}

/* ---- files on their way home ---- */

/* It stays in the box, and the result says so; of very many only the first are named. */
static void leave_file(struct run *run, const char *name, uint64_t bytes, const char *why)
{
    if (run->run_files->over++ < LIMIT_OUTPUT_FILES)
        result_add_file(&run->result, name, NULL, bytes, why);
}

bool run_files_entry(struct run *run, const struct box_entry *entry)
{
    struct run_files *run_files = run->run_files;

    if (!run_files || !run_files->fetched)
        return false;
    if (!S_ISREG(entry->mode) || !entry->name[0] || strchr(entry->name, '/'))
        return true;
    if (entry->bytes > run_files->left || strv_length(run_files->names) == LIMIT_OUTPUT_FILES ||
        strv_push(&run_files->names, entry->name) < 0)
        leave_file(run, entry->name, entry->bytes, RUN_FILE_OVER);
    return true;
}

static size_t on_data(void *ctx, const void *data, size_t length)
{
    struct run_files *run_files = ((struct run *)ctx)->run_files;

    /* The file may have grown since it was listed. */
    if (length > run_files->left - run_files->data.length ||
        buf_append(&run_files->data, data, length) < 0)
        run_files->is_over = true;
    return length;
}

static bool get_next(struct run *run);

static void on_got(void *ctx, const struct error *err)
{
    struct run *run = ctx;
    struct run_files *run_files = run->run_files;
    const char *name = run_files->names[run_files->name_at++];

    run_files->get = 0;
    if (err->num == 0 && !run_files->is_over && run->done) {
        run_files->fetched(run->ctx, name, buf_text(&run_files->data), run_files->data.length);
        run_files->left -= run_files->data.length;
    } else {
        leave_file(run, name, run_files->data.length,
                   run_files->is_over ? RUN_FILE_OVER : UNREADABLE);
    }
    if (!run->is_over && !get_next(run))
        run_listed(run);
}

static bool get_next(struct run *run)
{
    static const struct get_events events = {.data = on_data, .done = on_got};
    struct run_files *run_files = run->run_files;

    for (; run_files->names[run_files->name_at]; run_files->name_at++) {
        const char *name = run_files->names[run_files->name_at];
        char path[LIMIT_PATH_BYTES + 1];
        struct error err = {0};

        buf_clear(&run_files->data);
        run_files->is_over = false;
        if (str_format(path, sizeof(path), OUTPUT_FOLDER "/%s", name) == 0 &&
            box_get(run->box, path, 0, 0, &events, run, &run_files->get, &err) == 0)
            return true;
        leave_file(run, name, 0, UNREADABLE);
    }
    return false;
}

bool run_files_fetch(struct run *run)
{
    return run->run_files && run->run_files->fetched && get_next(run);
}

void run_files_leave(struct run *run)
{
    struct run_files *run_files = run->run_files;

    if (run_files && run_files->get && run->box)
        box_cancel(run->box, run_files->get);
    if (run_files)
        run_files->get = 0;
}
