/*
 * outputs.c - fetches the files that a session wrote to /tmp/output into output/session_<id>/.
 *
 * One collection at a time: list, compare with the known files, fetch new or changed ones (at most
 * LIMIT_TOOL_OUTPUTS), call done(). Names, sizes and kinds come out of a box and are hostile.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "model/text.h"
#include "session/artifacts.h"
#include "session/output_type.h"
#include "session/session_private.h"
#include "store/output_file.h"

#define OUTPUT_FOLDER "/tmp/output"
#define LIMIT_SAVED 100 /* rows of one collection */
static const char OUTPUT_LATER[] = "too many at once: fetched after the next command";
#define KNOWN_MAX 10000 /* names that are remembered; more are only counted */

struct output {
    char *name;
    uint64_t bytes, time_ns, change_ns;
    uint64_t disk_bytes; /* of the copy that was saved last */
    const struct output_type *type;
    const char *skipped;
    bool is_saved;
    bool is_changed; /* in this collection */
    bool is_late;    /* changed earlier, and is fetched now: not reported as changed again */
    bool is_seen;    /* in this collection */
    bool is_left;    /* above the number that is fetched at once: fetched next time */
    bool is_new;     /* no collection has reported it yet */
    char id[ID_MAX]; /* of the saved copy; empty: none */
    char sha256[SHA256_TEXT];
    const char *mime; /* by content; NULL: unknown */
};

struct request {
    struct request *next;
    void (*done)(void *ctx, const struct session_output *changed, size_t count, uint64_t total,
                 const struct error *err);
    void *ctx;
};

struct outputs {
    struct output *known;
    size_t count, room;
    size_t sorted;        /* how many of them, from the last listing, are sorted by name */
    uint64_t total;       /* regular files in the last listing */
    uint64_t saved_bytes; /* on disk, including files that were deleted in the box */
    char *folder;         /* absolute, for replies */
    struct request *waiting, *current;

    /* the collection that is under way */
    uint32_t call; /* 0: none */
    size_t at;     /* index of the file that is being fetched */
    unsigned fetched;
    struct output_writer writer;
    struct artifact_digest digest;
    int folder_fd;
    int write_error;
    uint64_t seen; /* entries of the listing */
};

static void start_next(struct session *session);

static struct output *add_known(struct outputs *outputs, const char *name);
static void sort_known(struct outputs *outputs);

/* A file that an earlier broker fetched; its ctime decides whether the file changed since. */
static void load_one(void *ctx, const struct index_file *row)
{
    struct output *output = add_known(ctx, row->name);

    if (!output)
        return;
    output->bytes = row->bytes;
    output->time_ns = output->change_ns = row->time_ns;
    output->type = output_type_find(row->name);
    output->is_saved = row->is_fetched;
    output->is_new = false;
    output->is_left = !row->is_fetched && output_type_is_saved(output->type);
    output->disk_bytes = row->is_fetched ? row->bytes : 0;
    ((struct outputs *)ctx)->saved_bytes += output->disk_bytes;
    ((struct outputs *)ctx)->total++;
}

static struct output *find_known(struct outputs *outputs, const char *name);

static void load_id(void *ctx, const struct output_row *row)
{
    struct output *output = find_known(ctx, row->name);

    if (!output || !output->is_saved)
        return;
    str_copy(output->id, sizeof(output->id), row->id);
    str_copy(output->sha256, sizeof(output->sha256), row->sha256);
}

static struct outputs *outputs_of(struct session *session)
{
    struct outputs *outputs = session->outputs;

    if (outputs)
        return outputs;
    outputs = calloc(1, sizeof(*outputs));
    if (!outputs)
        return NULL;
    outputs->folder_fd = -1;
    outputs->writer = OUTPUT_WRITER_INIT;
    session->outputs = outputs;
    if (session->manager->spec.index)
        index_each_file(session->manager->spec.index, session->id, 'o', load_one, outputs, NULL);
    sort_known(outputs);
    if (session->manager->spec.index && outputs->count > 0)
        artifacts_each(session->manager, session->id, load_id, outputs, NULL);
    return outputs;
}

bool session_output_is_newest(struct session *session, const struct output_row *row)
{
    struct outputs *outputs = outputs_of(session);

    for (size_t i = 0; outputs && i < outputs->count; i++)
        if (str_equal(outputs->known[i].id, row->id))
            return true;
    return false;
}

/* Writes a few rows for each collection: files that were skipped are looked at again anyway. */
static void save_one(struct session *session, const struct output *output)
{
    struct index_file row = {
        .kind = 'o',
        .name = output->name,
        .bytes = output->bytes,
        .time_ns = output->change_ns,
        .type = output->type->mime,
        .is_fetched = output->is_saved,
    };
    struct error err = {0};

    str_copy(row.session, sizeof(row.session), session->id);
    if (index_put_file(session->manager->spec.index, &row, &err) < 0)
        log_warning("output '%s' of %s: %s, continuing without its record", output->name,
                    session->id, err.text);
}

void outputs_free(struct session *session)
{
    struct outputs *outputs = session->outputs;

    if (!outputs)
        return;
    for (size_t i = 0; i < outputs->count; i++)
        free(outputs->known[i].name);
    while (outputs->waiting) {
        struct request *request = outputs->waiting;

        outputs->waiting = request->next;
        free(request);
    }
    free(outputs->current);
    output_writer_cancel(&outputs->writer);
    fd_closep(&outputs->folder_fd);
    free(outputs->known);
    free(outputs->folder);
    free(outputs);
    session->outputs = NULL;
}

const char *session_output_folder(struct session *session)
{
    struct outputs *outputs = outputs_of(session);
    CLEANUP(buf_free) struct buf text = BUF_INIT(2 * LIMIT_PATH_BYTES);

    if (!outputs)
        return "";
    if (outputs->folder)
        return outputs->folder;
    /* API tenants do not learn paths of the host: they get the URL. */
    if (str_equal(session->tenant, TENANT_LOCAL)
            ? buf_printf(&text, "%s/session_%s", session->manager->spec.folders.output,
                         session->id) == 0
            : buf_printf(&text, "/v1/sessions/%s/outputs", session->id) == 0)
        outputs->folder = strdup(buf_text(&text));
    return outputs->folder ? outputs->folder : "";
}

static struct session_output view(const struct output *output)
{
    return (struct session_output){
        .name = output->name,
        .bytes = output->bytes,
        .time_ns = output->time_ns,
        .type = output->is_saved && output->mime ? output->mime : output->type->mime,
        .kind = output->type->kind,
        .is_saved = output->is_saved,
        .skipped = output->skipped,
        .is_later = output->skipped == OUTPUT_LATER,
        .id = output->is_saved && output->id[0] ? output->id : NULL,
        .sha256 = output->is_saved && output->id[0] ? output->sha256 : NULL,
    };
}

json_t *session_outputs_json(struct session *session)
{
    struct outputs *outputs = outputs_of(session);
    json_t *list = json_array();

    for (size_t i = 0; outputs && i < outputs->count; i++) {
        struct session_output output = view(&outputs->known[i]);

        json_array_append_new(list, session_output_json(session, &output));
    }
    return json_pack("{s:s, s:I, s:o}", "folder", session_output_folder(session), "total",
                     (json_int_t)(outputs ? outputs->total : 0), "outputs", list);
}

/* ---- the end of a collection ---- */

static void finish(struct session *session, const struct error *err)
{
    struct outputs *outputs = session->outputs;
    struct request *request = ptr_take(&outputs->current);
    CLEANUP(freep) struct session_output *changed = NULL;
    uint64_t quota = session->manager->spec.config->session_quota_bytes;
    size_t count = 0, saved = 0;

    outputs->call = 0;
    output_writer_cancel(&outputs->writer);
    fd_closep(&outputs->folder_fd);
    outputs->folder_fd = -1;
    changed = calloc(outputs->count + 1, sizeof(*changed));
    for (size_t i = 0; changed && i < outputs->count; i++) {
        if (!outputs->known[i].is_changed)
            continue;
        if (!outputs->known[i].is_late)
            changed[count++] = view(&outputs->known[i]);
        if ((!outputs->known[i].skipped || outputs->known[i].is_left) && saved++ < LIMIT_SAVED)
            save_one(session, &outputs->known[i]);
    }
    if (saved > 0 && tenant_keeps(session->manager->tenants, session->tenant))
        artifacts_recount(session->manager,
                          session->tenant); /* the saved file may have replaced another */
    if (request && request->done)
        request->done(request->ctx, changed, count, outputs->total, err->num < 0 ? err : NULL);
    free(request);
    if (session->state < SESSION_ENDING && quota && outputs->saved_bytes > quota)
        session_end(session, "over_quota", NULL, NULL); /* deferred to a separate turn */
    if (session->outputs)
        start_next(session);
    if (session->manager->is_stopping)
        session_manager_later(session->manager);
}

bool outputs_are_collected(const struct session *session)
{
    return session->outputs && (session->outputs->current || session->outputs->waiting);
}

void outputs_fail(struct session *session, const struct error *err)
{
    struct outputs *outputs = session->outputs;

    if (!outputs)
        return;
    while (outputs->current || outputs->waiting) {
        if (!outputs->current) {
            outputs->current = outputs->waiting;
            outputs->waiting = outputs->waiting->next;
        }
        finish(session, err);
    }
}

/* ---- fetching ---- */

static void fetch_next(struct session *session);

static size_t on_data(void *ctx, const void *data, size_t length)
{
    struct session *session = ctx;
    struct outputs *outputs = session->outputs;

    /* The guest may go on writing; a file that is larger than the box's disk is an error. */
    if (outputs->write_error == 0 &&
        length > session->limits.disk_bytes - MIN(outputs->seen, session->limits.disk_bytes))
        outputs->write_error = -EFBIG;
    if (outputs->write_error == 0)
        outputs->write_error = output_writer_write(&outputs->writer, data, length);
    if (outputs->write_error == 0)
        artifact_add(&outputs->digest, data, length);
    outputs->seen += length;
    return length;
}

/* The box is gone, and with it all files that were not fetched yet. */
static bool is_over(const struct session *session, const struct error *err)
{
    return err->num < 0 && (session->state >= SESSION_ENDING || err->code == ERROR_BOX_LOST);
}

/* The file is saved: gives it an id and announces an image on the bus. */
static void on_saved(struct session *session, struct output *output)
{
    struct outputs *outputs = session->outputs;
    struct session_output seen;
    struct output_row row;
    struct error err = {0};

    output->mime = output_sniff(output->name, outputs->digest.head, outputs->digest.head_length);
    output->id[0] = '\0';
    if (artifact_save(session, outputs->folder_fd, output->name, &outputs->digest, &row, &err) <
        0) {
        log_warning("output '%s' of %s: %s, continuing without an id", output->name, session->id,
                    err.text);
    } else {
        str_copy(output->id, sizeof(output->id), row.id);
        str_copy(output->sha256, sizeof(output->sha256), row.sha256);
    }
    seen = view(output);
    output_announce(session, &seen);
}

static void on_fetched(void *ctx, const struct error *err)
{
    struct session *session = ctx;
    struct outputs *outputs = session->outputs;
    struct output *output = &outputs->known[outputs->at];
    int r = err->num < 0 ? err->num : outputs->write_error;

    outputs->call = 0;
    if (is_over(session, err)) {
        output->is_left = true;
        finish(session, err);
        return;
    }
    if (r == 0)
        r = usage_keep(session, &outputs->writer, output->disk_bytes, outputs->seen);
    output_writer_cancel(&outputs->writer);
    if (r == 0) {
        output->is_saved = true;
        output->bytes = outputs->seen;
        outputs->saved_bytes += outputs->seen - output->disk_bytes;
        output->disk_bytes = outputs->seen;
        on_saved(session, output);
    } else {
        output->skipped = usage_why(r);
        output->is_left = true;
        log_warning("output '%s' of %s: %s", output->name, session->id, strerror(-r));
    }
    outputs->at++;
    fetch_next(session);
}

static const struct get_events get_events = {.data = on_data, .done = on_fetched};

static int fetch_one(struct session *session, struct output *output, struct error *err)
{
    struct outputs *outputs = session->outputs;
    char path[LIMIT_PATH_BYTES + 32];
    int r;

    if (outputs->folder_fd < 0)
        outputs->folder_fd = output_folder(session, true);
    if (outputs->folder_fd < 0)
        return outputs->folder_fd;
    r = output_writer_begin(&outputs->writer, outputs->folder_fd, output->name, 0644);
    if (r < 0)
        return r;
    artifact_begin(&outputs->digest);
    outputs->seen = 0;
    outputs->write_error = 0;
    str_format(path, sizeof(path), OUTPUT_FOLDER "/%s", output->name);
    return box_get(session->box, path, 0, 0, &get_events, session, &outputs->call, err);
}

static void fetch_next(struct session *session)
{
    struct outputs *outputs = session->outputs;
    struct error err = {0};

    for (; outputs->at < outputs->count; outputs->at++) {
        struct output *output = &outputs->known[outputs->at];
        int r;

        if (!output->is_changed || output->skipped || !output_type_is_saved(output->type))
            continue;
        if (outputs->fetched == LIMIT_TOOL_OUTPUTS) {
            output->skipped = OUTPUT_LATER;
            output->is_left = true;
            continue;
        }
        outputs->fetched++;
        r = fetch_one(session, output, &err);
        if (r == 0)
            return; /* on_fetched() continues */
        output_writer_cancel(&outputs->writer);
        output->skipped = r == -ENOSPC ? "no space in the state folder" : "could not be stored";
        output->is_left = true;
    }
    err = (struct error){0};
    finish(session, &err);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct output *)a)->name, ((const struct output *)b)->name);
}

static void sort_known(struct outputs *outputs)
{
    if (outputs->count > 1)
        qsort(outputs->known, outputs->count, sizeof(*outputs->known), compare_names);
    outputs->sorted = outputs->count;
}

/*
 * Searches only the files of the last listing: a name that appears twice in one listing, which a
 * correct warden never sends, is then recorded twice until the next listing.
 */
static struct output *find_known(struct outputs *outputs, const char *name)
{
    struct output key = {.name = (char *)name};

    return outputs->sorted == 0 ? NULL
                                : bsearch(&key, outputs->known, outputs->sorted,
                                          sizeof(*outputs->known), compare_names);
}

static struct output *add_known(struct outputs *outputs, const char *name)
{
    struct output *known = outputs->known;

    if (outputs->count == KNOWN_MAX)
        return NULL;
    if (outputs->count == outputs->room) {
        known = realloc(known, (2 * outputs->room + 16) * sizeof(*known));
        if (!known)
            return NULL;
        outputs->room = 2 * outputs->room + 16;
        outputs->known = known;
    }
    known[outputs->count] = (struct output){.name = strdup(name), .is_new = true};
    return known[outputs->count].name ? &known[outputs->count++] : NULL;
}

static void on_entry(void *ctx, const struct box_entry *entry)
{
    struct session *session = ctx;
    struct outputs *outputs = session->outputs;
    struct output *output;
    bool is_same;

    if (S_ISDIR(entry->mode))
        return;
    if (S_ISREG(entry->mode))
        outputs->total++;
    output = find_known(outputs, entry->name);
    if (!output)
        output = add_known(outputs, entry->name);
    if (!output)
        return;
    output->is_seen = true;
    is_same =
        !output->is_new && output->change_ns == entry->change_ns && output->bytes == entry->bytes;
    if (is_same && !output->is_left)
        return;
    output->is_changed = true;
    output->is_late = is_same;
    output->is_new = false;
    output->is_left = false;
    output->is_saved = false;
    output->time_ns = entry->time_ns;
    output->change_ns = entry->change_ns;
    output->bytes = entry->bytes;
    output->type = output_type_find(entry->name);
    output->skipped = output_kind_problem(entry->mode);
    if (!output->skipped)
        output->skipped = output_name_problem(entry->name);
    if (!output->skipped && entry->bytes > session->limits.disk_bytes)
        output->skipped = "larger than the box's disk (sparse)";
}

/* The listing was incomplete: files that were new in it are forgotten. */
static void forget_unsorted(struct outputs *outputs)
{
    while (outputs->count > outputs->sorted)
        free(outputs->known[--outputs->count].name);
}

static void on_listed(void *ctx, const struct error *err)
{
    struct session *session = ctx;
    struct outputs *outputs = session->outputs;
    size_t kept = 0;

    outputs->call = 0;
    if (is_over(session, err) ||
        (err->num < 0 && err->num != -ENOENT && err->num != -ENOTDIR && err->num != -E2BIG)) {
        forget_unsorted(outputs);
        finish(session, err);
        return;
    }
    /* Files that are gone in the box are forgotten here; a saved copy stays on disk. */
    for (size_t i = 0; i < outputs->count; i++) {
        if (outputs->known[i].is_seen)
            outputs->known[kept++] = outputs->known[i];
        else
            free(outputs->known[i].name);
    }
    outputs->count = kept;
    sort_known(outputs);
    outputs->at = 0;
    outputs->fetched = 0;
    fetch_next(session);
}

static const struct list_events list_events = {.entry = on_entry, .done = on_listed};

static void on_box(void *ctx, struct box *box, const struct error *err)
{
    struct session *session = ctx;
    struct outputs *outputs = session->outputs;
    struct error own = {0};

    if (!box) {
        finish(session, err);
        return;
    }
    outputs->total = 0;
    if (box_list(box, OUTPUT_FOLDER, 0, &list_events, session, &outputs->call, &own) < 0)
        finish(session, &own);
}

static void start_next(struct session *session)
{
    struct outputs *outputs = session->outputs;

    if (outputs->current || !outputs->waiting)
        return;
    outputs->current = outputs->waiting;
    outputs->waiting = outputs->waiting->next;
    for (size_t i = 0; i < outputs->count; i++)
        outputs->known[i].is_seen = outputs->known[i].is_changed = false;
    session_box(session, on_box, session);
}

bool session_has_output(struct session *session, const struct execution *execution)
{
    const struct outputs *outputs = outputs_of(session); /* also rows of an earlier broker */

    return execution->state != EXECUTION_EXITED || execution->end.has_output || !outputs ||
           outputs->count > 0;
}

void session_collect(struct session *session,
                     void (*done)(void *ctx, const struct session_output *changed, size_t count,
                                  uint64_t total, const struct error *err),
                     void *ctx)
{
    struct outputs *outputs = outputs_of(session);
    struct request *request = outputs ? calloc(1, sizeof(*request)) : NULL;
    struct request **end = outputs ? &outputs->waiting : NULL;
    struct error err = {0};

    if (!request) {
        error_memory(&err);
        done(ctx, NULL, 0, 0, &err);
        return;
    }
    *request = (struct request){.done = done, .ctx = ctx};
    while (*end)
        end = &(*end)->next;
    *end = request;
    start_next(session);
}

void session_collect_cancel(struct session *session, void *ctx)
{
    struct outputs *outputs = session->outputs;

    if (!outputs)
        return;
    if (outputs->current && outputs->current->ctx == ctx)
        outputs->current->done = NULL; /* the collection goes on, to update the known files */
    for (struct request *at = outputs->waiting; at; at = at->next) {
        if (at->ctx == ctx)
            at->done = NULL;
    }
}
