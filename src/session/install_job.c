/* install_job.c - what goes into an installer box and what comes out of it; see install_job.h. */
#include "session/install_job.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "guest_files.h"
#include "model/json.h"
#include "model/text.h"
#include "template/requirement.h"

#define LAST_LINES 12
#define WORD_MAX 200    /* bytes of a name or version that the box reported */
#define DEPTH_MAX 64u   /* levels of folders that are measured */
#define PARTIAL_LOOKS 3 /* in a row at a folder that cannot be measured, one a second */

/* ---- input of the box ---- */

static json_t *order_json(struct session_manager *manager, const struct install_spec *spec)
{
    json_t *modules = json_array();

    for (const char *const *module = spec->modules; module && *module; module++)
        json_array_append_new(modules, json_string(*module));
    (void)manager;
    return json_pack("{s:s, s:s?, s:s, s:b, s:o, s:O?, s:s?}", "kind",
                     spec->is_template ? "template" : "packages", "layer", spec->layer,
                     "requirements", spec->requirements ? spec->requirements : "", "hashes",
                     spec->has_hashes, "modules", modules, "files", spec->files, "python",
                     spec->python);
}

int install_inputs(struct session_manager *manager, const struct install_spec *spec,
                   char inputs[LAYER_TEXT], struct error *err)
{
    CLEANUP(json_decrefpp) json_t *order = order_json(manager, spec);
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_TEMPLATE_FILES * 2 + 4 * MIB);
    const char *interpreter =
        spec->program ? spec->program : session_manager_language(manager, "python")->fingerprint;
    int r = order ? text_of_json(order, JSON_COMPACT | JSON_SORT_KEYS, &text) : -ENOMEM;

    if (r == 0)
        r = buf_append_text(&text, interpreter ? interpreter : "");
    if (r == 0) /* another script may produce another layer */
        r = buf_append(&text, guest_install_py, guest_install_py_length);
    if (r < 0)
        return error_set(err, r, r == -EFBIG ? ERROR_TOO_LARGE : ERROR_ENGINE,
                         "preparing the list of packages: %s", strerror(-r));
    hash_text(text.data, text.length, inputs);
    return 0;
}

int job_write_order(struct install_job *job, const struct install_spec *spec, struct error *err)
{
    CLEANUP(json_decrefpp) json_t *order = order_json(job->manager, spec);
    int r;

    if (order && !spec->files)
        json_object_set_new(order, "files", json_object());
    r = order ? text_of_json(order, JSON_COMPACT, &job->put) : -ENOMEM;
    return r < 0
               ? error_set(err, r, ERROR_ENGINE, "preparing the list of packages: %s", strerror(-r))
               : 0;
}

/* ---- layers that exist already ---- */

static bool take_note(struct install_job *job, const char *layer)
{
    char name[LAYER_TEXT + 8];
    CLEANUP(json_decrefpp) json_t *note = NULL;
    json_t *packages;
    const char *inputs, *python;
    json_int_t bytes, files;

    layer_describe(layer, "json", name);
    note = note_read(job->manager->spec.folders.layers_fd, name);
    if (!note ||
        json_unpack(note, "{s:s, s:s, s:I, s:I, s:o}", "inputs", &inputs, "python", &python,
                    "bytes", &bytes, "files", &files, "packages", &packages) < 0 ||
        !str_equal(inputs, job->inputs) || !layer_is_there(job->manager, layer))
        return false;
    str_copy(job->made_layer, sizeof(job->made_layer), layer);
    str_copy(job->python, sizeof(job->python), python);
    job->bytes = (uint64_t)bytes;
    job->files = (uint64_t)files;
    job->packages = json_incref(packages);
    return true;
}

bool job_find_layer(struct install_job *job)
{
    int fd = openat(job->manager->spec.folders.layers_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    bool is_found = false;

    if (fd >= 0 && !folder)
        close(fd);
    while (folder && !is_found && (entry = readdir(folder)))
        is_found = layer_name_is_good(entry->d_name) && take_note(job, entry->d_name);
    if (folder)
        closedir(folder);
    return is_found;
}

/* ---- output of the box ---- */

/* One progress line: made harmless, kept among the last lines, sent to the callers. */
static void take_line(struct install_job *job)
{
    char text[INSTALL_LINE + 1];
    size_t length = MIN(job->line.length, (size_t)INSTALL_LINE);

    length = utf8_floor(job->line.data, length);
    memcpy(text, buf_text(&job->line), length);
    text[length] = '\0';
    for (size_t i = 0; i < length; i++) {
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            text[i] = ' ';
    }
    buf_clear(&job->line);
    if (length == 0)
        return;
    if (strv_length(job->last) == LAST_LINES) {
        free(job->last[0]);
        memmove(job->last, job->last + 1, LAST_LINES * sizeof(*job->last));
    }
    strv_push(&job->last, text);
    for (struct installation *at = job->installations, *next; at; at = next) {
        next = at->next; /* the callback may cancel it */
        if (at->events->progress)
            at->events->progress(at->ctx, text);
    }
}

void job_take_lines(struct install_job *job, const char *data, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        if (data[i] == '\n')
            take_line(job);
        else
            buf_append(&job->line, data + i, 1); /* the rest of a long line is cut */
    }
}

/* Without pip's own word for errors: each client of the engine has one. */
static void append_lines(struct buf *all, const char *text)
{
    static const char MARK[] = "ERROR: ";

    for (const char *at = text, *end; *at; at = *end ? end + 1 : end) {
        end = strchrnul(at, '\n');
        if (str_starts(at, MARK))
            at += strlen(MARK);
        buf_printf(all, "%s%.*s", all->length ? "\n" : "", (int)(end - at), at);
    }
}

static void fail_with_last(struct install_job *job, const char *code, const char *text)
{
    CLEANUP(buf_free) struct buf all = BUF_INIT(ERROR_TEXT_MAX * 4);

    append_lines(&all, text);
    for (char **line = job->last; *line && !text[0]; line++)
        append_lines(&all, *line);
    error_set(&job->err, -EIO, code, "%.*s", ERROR_TEXT_MAX - 64,
              all.length > ERROR_TEXT_MAX - 64 ? all.data + (all.length - (ERROR_TEXT_MAX - 64))
                                               : buf_text(&all));
}

/* A name or a version: printable and short. */
static bool is_word(json_t *value)
{
    const char *text = json_string_value(value);

    if (!text || json_string_length(value) == 0 || json_string_length(value) > WORD_MAX)
        return false;
    for (; *text; text++) {
        if (*text <= ' ' || *text > '~')
            return false;
    }
    return true;
}

static json_t *checked_packages(json_t *list)
{
    json_t *packages = json_array(), *item;
    size_t i;

    json_array_foreach(list, i, item)
    {
        json_t *name = json_object_get(item, "name"), *version = json_object_get(item, "version");

        if (i < LIMIT_TEMPLATE_ROWS * 16 && is_word(name) && is_word(version))
            json_array_append_new(packages,
                                  json_pack("{s:O, s:O}", "name", name, "version", version));
    }
    return packages;
}

/* A denied package is refused as a dependency, too. */
static void check_denied(struct install_job *job)
{
    char *const *deny = job->manager->spec.config->install_deny;
    char name[LIMIT_REQUIREMENT + 1];
    json_t *item;
    size_t i;

    json_array_foreach(job->packages, i, item)
    {
        const char *text = json_string_value(json_object_get(item, "name"));

        if (!job->is_template && text && requirement_normalise(text, strlen(text), name) &&
            !requirement_is_allowed(name, NULL, deny))
            error_set(&job->err, -EPERM, ERROR_INSTALL_DENIED,
                      "the dependency '%s' may not be installed here (SANDBOX_INSTALL_DENY)", name);
    }
}

void job_read_answer(struct install_job *job, const struct exec_end *end)
{
    CLEANUP(json_decrefpp)
    json_t *answer =
        json_parse(buf_text(&job->said), job->said.length, JSON_REJECT_DUPLICATES, NULL);
    json_t *error = json_object_get(answer, "error");
    json_t *python = json_object_get(answer, "python");
    const char *text = json_string_value(json_object_get(error, "message"));
    const char *code = json_string_value(json_object_get(error, "code"));

    if (job->line.length)
        take_line(job);
    if (error || end->exit_code != 0 || end->signal || !is_word(python)) {
        fail_with_last(job,
                       str_equal(code, ERROR_NO_NETWORK) ? ERROR_NO_NETWORK : ERROR_INSTALL_FAILED,
                       text ? text : "");
        return;
    }
    if (job->is_finishing)
        return; /* the package list was reported before any code of packages ran */
    str_copy(job->python, sizeof(job->python), json_string_value(python));
    job->packages = checked_packages(json_object_get(answer, "packages"));
    if (!job->packages)
        error_memory(&job->err);
    else
        check_denied(job);
}

/* ---- the size of the layer ---- */

struct measure {
    uint64_t bytes, files, maximum;
    bool is_partial; /* a folder is closed to the broker, or deeper than it looks */
};

static void measure_folder(int folder_fd, const char *name, unsigned depth, struct measure *measure)
{
    int fd = openat(folder_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    if (!folder) {
        /* Others say nothing about the folder: pip removed it meanwhile, or the broker is short of
         * descriptors or memory. The next look counts it. */
        if (errno == EACCES)
            measure->is_partial = true;
        fd_closep(&fd);
        return;
    }
    while (measure->bytes <= measure->maximum && measure->files <= LIMIT_LAYER_FILES &&
           (entry = readdir(folder))) {
        struct stat status;

        if (str_equal(entry->d_name, ".") || str_equal(entry->d_name, "..") ||
            fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        measure->files++;
        measure->bytes += (uint64_t)status.st_blocks * 512;
        if (S_ISDIR(status.st_mode) && depth < DEPTH_MAX)
            measure_folder(dirfd(folder), entry->d_name, depth + 1, measure);
        else if (S_ISDIR(status.st_mode))
            measure->is_partial = true;
    }
    closedir(folder);
}

void job_over_size(struct install_job *job)
{
    error_set(&job->err, -EFBIG, ERROR_TOO_LARGE,
              "the installation is larger than %llu MB; SANDBOX_INSTALL_SIZE allows more",
              (unsigned long long)(job->bytes_max / MIB));
}

/*
 * The box writes to the host's disk. Only files of this installation are counted: what other
 * programs write to the same disk says nothing about it. A folder that is closed to the broker can
 * hide any amount. pip has such folders for a moment, an installation that keeps one is refused.
 */
void job_look_at_size(struct install_job *job)
{
    struct measure measure = {.maximum = job->bytes_max};
    char name[ID_MAX + 16];

    str_format(name, sizeof(name), LAYER_BUILDING "%s", job->key);
    measure_folder(job->manager->spec.folders.layers_fd, name, 0, &measure);
    job->partial_looks = measure.is_partial ? job->partial_looks + 1 : 0;
    if (measure.bytes > measure.maximum || measure.files > LIMIT_LAYER_FILES)
        job_over_size(job);
    else if (job->partial_looks >= PARTIAL_LOOKS)
        error_set(&job->err, -EACCES, ERROR_INSTALL_FAILED,
                  "the installation has a folder that only its owner may read, or more than %u "
                  "levels of folders, so its size cannot be measured; install another version of "
                  "the package",
                  DEPTH_MAX);
    else
        return;
    job_over(job, &job->err);
}
