/*
 * collect.c - files of /tmp/output back to the caller's folder.
 *
 * The list comes out of a box and is hostile; store/output_file.h says what is done about it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "oneshot/transfer.h"
#include "store/output_file.h"

#define OUTPUT_FOLDER "/tmp/output"

struct found {
    char *name;
    uint64_t bytes;
    const char *skipped; /* static; NULL: to be fetched */
};

struct listing {
    uint64_t disk_bytes; /* the box's limit: more than that cannot be real */
    uint64_t bytes;      /* of what will be fetched */
    struct found *files;
    size_t count;
    uint64_t total;
    bool is_done;
    bool has_no_memory;
    struct error error;
};

static void listing_free(struct listing *listing)
{
    for (size_t i = 0; i < listing->count; i++)
        free(listing->files[i].name);
    free(listing->files);
}

static void on_entry(void *ctx, const struct box_entry *entry)
{
    struct listing *listing = ctx;
    struct found *files;

    if (S_ISDIR(entry->mode) || listing->has_no_memory)
        return;
    listing->total++;
    if (listing->count == LIMIT_OUTPUT_FILES)
        return;
    files = realloc(listing->files, (listing->count + 1) * sizeof(*files));
    listing->files = files ? files : listing->files;
    if (files)
        files[listing->count] = (struct found){.name = strdup(entry->name), .bytes = entry->bytes};
    if (!files || !files[listing->count].name) {
        listing->has_no_memory = true;
        return;
    }
    files[listing->count].skipped = output_kind_problem(entry->mode);
    if (!files[listing->count].skipped)
        files[listing->count].skipped = output_name_problem(entry->name);
    if (!files[listing->count].skipped && entry->bytes > listing->disk_bytes - listing->bytes)
        files[listing->count].skipped = OUTPUT_SPARSE;
    if (!files[listing->count].skipped)
        listing->bytes += entry->bytes;
    listing->count++;
}

static void on_listed(void *ctx, const struct error *err)
{
    struct listing *listing = ctx;

    listing->error = *err;
    listing->is_done = true;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(((const struct found *)a)->name, ((const struct found *)b)->name);
}

static int list_outputs(struct drive *drive, struct listing *listing, struct error *err)
{
    static const struct list_events events = {.entry = on_entry, .done = on_listed};
    uint32_t id;
    int r = box_list(drive->box, OUTPUT_FOLDER, 0, &events, listing, &id, err);

    if (r == 0)
        r = drive_until(drive, &listing->is_done, err);
    if (r < 0)
        return r;
    if (listing->has_no_memory)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    if (listing->count > 1)
        qsort(listing->files, listing->count, sizeof(*listing->files), compare_names);
    return 0; /* a folder that the guest removed has no files: not an error */
}

struct fetch {
    struct output_writer writer;
    uint64_t bytes, expected;
    int write_error;
    bool is_done;
    struct error error;
};

static size_t on_data(void *ctx, const void *data, size_t length)
{
    struct fetch *fetch = ctx;

    if (fetch->write_error == 0 && length > fetch->expected - fetch->bytes)
        fetch->write_error = -EFBIG; /* nobody is left in the box who could have made it longer */
    /* After a failed write the rest is taken and dropped: the box has other files to give. */
    if (fetch->write_error == 0)
        fetch->write_error = output_writer_write(&fetch->writer, data, length);
    fetch->bytes += length;
    return length;
}

static void on_fetched(void *ctx, const struct error *err)
{
    struct fetch *fetch = ctx;

    fetch->error = *err;
    fetch->is_done = true;
}

static int fetch_bytes(struct drive *drive, const char *name, struct fetch *fetch,
                       struct error *err)
{
    static const struct get_events events = {.data = on_data, .done = on_fetched};
    char path[LIMIT_PATH_BYTES + 32];
    uint32_t id;
    int r = str_format(path, sizeof(path), OUTPUT_FOLDER "/%s", name);

    if (r == 0)
        r = box_get(drive->box, path, 0, 0, &events, fetch, &id, err);
    if (r == 0)
        r = drive_until(drive, &fetch->is_done, err);
    if (r < 0)
        return r;
    if (fetch->write_error < 0)
        return error_set(err, fetch->write_error, ERROR_ENGINE, "writing '%s' to %s: %s", name,
                         drive->shot->out, strerror(-fetch->write_error));
    if (fetch->error.num < 0)
        return error_set(err, fetch->error.num, fetch->error.code, "reading '%s' from the box: %s",
                         name, fetch->error.text);
    return 0;
}

/* One file: temporary name, bytes, then in its place. Nothing half written is ever seen. */
static int fetch_file(struct drive *drive, int out_fd, const char *name, uint64_t *bytes,
                      struct error *err)
{
    struct fetch fetch = {.writer = OUTPUT_WRITER_INIT, .expected = *bytes};
    int r = output_writer_begin(&fetch.writer, out_fd, name, 0666);

    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "creating '%s' in %s: %s", name, drive->shot->out,
                         strerror(-r));
    r = fetch_bytes(drive, name, &fetch, err);
    if (r < 0) {
        output_writer_cancel(&fetch.writer);
    } else {
        r = output_writer_end(&fetch.writer);
        if (r < 0)
            error_set(err, r, ERROR_ENGINE, "writing '%s' to %s: %s", name, drive->shot->out,
                      strerror(-r));
    }
    *bytes = fetch.bytes;
    return r;
}

static int fetch_all(struct drive *drive, struct listing *listing, struct error *err)
{
    CLEANUP(fd_closep) int out_fd = -1;
    char folder[LIMIT_PATH_BYTES + 1], path[2 * LIMIT_PATH_BYTES];

    if (mkdir(drive->shot->out, 0777) < 0 && errno != EEXIST)
        return error_errno(err, "making the folder '%s'", drive->shot->out);
    out_fd = open(drive->shot->out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (out_fd < 0 || !realpath(drive->shot->out, folder))
        return error_errno(err, "opening the folder '%s'", drive->shot->out);
    for (size_t i = 0; i < listing->count; i++) {
        struct found *file = &listing->files[i];
        int r;

        if (file->skipped)
            continue;
        r = fetch_file(drive, out_fd, file->name, &file->bytes, err);
        if (r < 0)
            return r;
        str_format(path, sizeof(path), "%s/%s", folder, file->name);
        if (result_add_file(drive->result, file->name, path, file->bytes, NULL) < 0)
            return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    }
    return 0;
}

int transfer_collect(struct drive *drive, struct error *err)
{
    CLEANUP(listing_free)
    struct listing listing = {
        .disk_bytes = drive->result->limits.disk_bytes,
    };
    int r = list_outputs(drive, &listing, err);

    if (r < 0)
        return r;
    drive->result->total_output_files = listing.total;
    for (size_t i = 0; i < listing.count; i++) {
        const struct found *file = &listing.files[i];

        if (file->skipped &&
            result_add_file(drive->result, file->name, NULL, file->bytes, file->skipped) < 0)
            return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
    }
    return drive->shot->out && listing.count > 0 ? fetch_all(drive, &listing, err) : 0;
}
