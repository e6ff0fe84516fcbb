/*
 * collect.c - files of /tmp/output back to the caller's folder.
 *
 * Which of them may come is recipe/output.h's to say: the list comes out of a box and is hostile.
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
#include "recipe/output.h"
#include "store/output_file.h"

struct listed {
    struct output_listing listing;
    bool is_done;
};

static void on_entry(void *ctx, const struct box_entry *entry)
{
    output_listing_add(&((struct listed *)ctx)->listing, entry);
}

/* A folder that the guest removed has no files: not an error. */
static void on_listed(void *ctx, const struct error *ignored)
{
    (void)ignored;
    ((struct listed *)ctx)->is_done = true;
}

static int list_outputs(struct drive *drive, struct listed *listed, struct error *err)
{
    static const struct list_events events = {.entry = on_entry, .done = on_listed};
    uint32_t id;
    int r = box_list(drive->box, OUTPUT_FOLDER, 0, &events, listed, &id, err);

    if (r == 0)
        r = drive_until(drive, &listed->is_done, err);
    return r < 0 ? r : output_listing_report(&listed->listing, err);
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
        fetch->write_error =
            -EFBIG; /* no process is left in the box that could have made it longer */
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

static int fetch_all(struct drive *drive, struct output_listing *listing, struct error *err)
{
    CLEANUP(fd_closep) int out_fd = -1;
    char folder[LIMIT_PATH_BYTES + 1], path[2 * LIMIT_PATH_BYTES];

    if (mkdir(drive->shot->out, 0777) < 0 && errno != EEXIST)
        return error_errno(err, "making the folder '%s'", drive->shot->out);
    out_fd = open(drive->shot->out, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (out_fd < 0 || !realpath(drive->shot->out, folder))
        return error_errno(err, "opening the folder '%s'", drive->shot->out);
    for (size_t i = 0; i < listing->count; i++) {
        struct output_entry *file = &listing->entries[i];
        int r;

        if (file->skipped)
            continue;
        r = fetch_file(drive, out_fd, file->name, &file->bytes, err);
        if (r < 0)
            return r;
        str_format(path, sizeof(path), "%s/%s", folder, file->name);
        if (result_add_file(drive->result, file->name, path, file->bytes, NULL) < 0)
            return error_memory(err);
    }
    return 0;
}

static void listed_free(struct listed *listed)
{
    output_listing_free(&listed->listing);
}

int transfer_collect(struct drive *drive, struct error *err)
{
    CLEANUP(listed_free) struct listed listed = {.listing.result = drive->result};
    int r = list_outputs(drive, &listed, err);

    if (r < 0 || !drive->shot->out || listed.listing.count == 0)
        return r;
    return fetch_all(drive, &listed.listing, err);
}
