/*
 * metadata.c - metadata of files: the headers X-Metadata-KEY of an upload; see e2b.h.
 *
 * E2B keeps them in extended attributes of the file. The disks of local boxes refuse those, so they
 * are kept beside the files, in the notes of the sandbox: {"files":{PATH:{KEY:VALUE}}}. A file that
 * is moved or removed by these calls takes them along; what the guest itself moves loses them.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/sandboxes/e2b.h"
#include "base/cleanup.h"
#include "base/str.h"

#define PREFIX "X-Metadata-"
#define KEY_MAX 246    /* bytes, as E2B has it */
#define ALL_MAX 4096   /* of keys and values of a file */
#define FILES_MAX 1000 /* files of a sandbox that have metadata */
#define SUM_MAX \
    (256 * KIB) /* of paths, keys and values of all of them: notes are stored as a whole */

json_t *e2b_metadata_of(struct session *session, const char *path)
{
    return json_object_get(json_object_get(session_notes(session), "files"), path);
}

/* ---- from headers ---- */

struct reading {
    json_t *metadata;
    size_t bytes;
    struct error *err;
    int result;
};

static bool is_printable(const char *text)
{
    for (; *text; text++)
        if (*text < 0x20 || *text > 0x7e)
            return false;
    return true;
}

static void on_header(void *ctx, const char *name, const char *value)
{
    struct reading *reading = ctx;
    size_t before = strlen(PREFIX), length = strlen(name);
    char key[KEY_MAX + 1];

    if (reading->result < 0 || strncasecmp(name, PREFIX, before) != 0)
        return;
    length -= before;
    reading->bytes += length + strlen(value);
    if (length == 0 || length > KEY_MAX || reading->bytes > ALL_MAX || !is_printable(value)) {
        reading->result =
            error_set(reading->err, -EINVAL, ERROR_BAD_INPUT,
                      "metadata: keys of 1 to %d bytes, printable ASCII, at most %d bytes together",
                      KEY_MAX, ALL_MAX);
        return;
    }
    for (size_t i = 0; i <= length; i++)
        key[i] = (char)tolower((unsigned char)name[before + i]);
    json_object_set_new(reading->metadata, key, json_string(value));
}

int e2b_metadata_read(const struct http_request *http, json_t **ret, struct error *err)
{
    CLEANUP(json_decrefp) json_t *metadata = json_object();
    struct reading reading = {.metadata = metadata, .err = err};

    http_header_each(http, on_header, &reading);
    if (reading.result < 0)
        return reading.result;
    if (json_object_size(metadata) > 0)
        *ret = json_incref(metadata);
    return 0;
}

/* ---- kept ---- */

static size_t size_of(const char *path, json_t *metadata)
{
    size_t bytes = strlen(path);
    const char *key;
    json_t *value;

    json_object_foreach(metadata, key, value)
    {
        bytes += strlen(key) + json_string_length(value);
    }
    return bytes;
}

/* Whether `files` have room for one more; its earlier metadata does not count. */
static bool has_room(json_t *files, const char *path, json_t *metadata)
{
    size_t bytes = size_of(path, metadata), count = 1;
    const char *other;
    json_t *theirs;

    json_object_foreach(files, other, theirs)
    {
        if (str_equal(other, path))
            continue;
        bytes += size_of(other, theirs);
        count++;
    }
    return count <= FILES_MAX && bytes <= SUM_MAX;
}

/* The notes with other files; takes `files` over. */
static int keep(struct session *session, json_t *files, struct error *err)
{
    json_t *notes = session_notes(session) ? json_copy(session_notes(session)) : json_object();

    if (!notes || json_object_set_new(notes, "files", files) < 0) {
        json_decref(notes);
        return error_memory(err);
    }
    return session_set_notes(session, notes, err);
}

static json_t *copy_of_files(const struct session *session)
{
    json_t *files = json_object_get(session_notes(session), "files");

    return files ? json_copy(files) : json_object();
}

int e2b_metadata_set(struct session *session, const char *path, json_t *metadata, struct error *err)
{
    json_t *files;

    if (!metadata && !e2b_metadata_of(session, path))
        return 0;
    files = copy_of_files(session);
    if (metadata && !has_room(files, path, metadata)) {
        json_decref(metadata);
        json_decref(files);
        return error_set(err, -ENOSPC, ERROR_DISK_FULL,
                         "metadata: the files of this sandbox have as much as it may have: %d "
                         "files, %llu KB in all",
                         FILES_MAX, SUM_MAX / KIB);
    }
    if (metadata)
        json_object_set_new_nocheck(files, path, metadata);
    else
        json_object_del(files, path);
    return keep(session, files, err);
}

/* Whether `path` is `top` or below it. */
static bool is_below(const char *path, const char *top)
{
    size_t length = strlen(top);

    return str_starts(path, top) && (path[length] == '/' || path[length] == '\0');
}

void e2b_metadata_moved(struct session *session, const char *from, const char *to)
{
    json_t *files = json_object_get(session_notes(session), "files"), *after, *metadata;
    struct error ignored = {0};
    bool is_changed = false;
    const char *path;

    if (!files)
        return;
    after = json_object();
    json_object_foreach(files, path, metadata)
    {
        char moved[2 * LIMIT_PATH_BYTES];

        if (to && is_below(path, to) && !is_below(path, from)) {
            is_changed = true; /* it was replaced */
            continue;
        }
        if (!is_below(path, from)) {
            json_object_set(after, path, metadata);
            continue;
        }
        is_changed = true;
        str_format(moved, sizeof(moved), "%s%s", to ? to : "", path + strlen(from));
        if (to)
            json_object_set_nocheck(after, moved, metadata);
    }
    if (is_changed)
        (void)keep(session, after, &ignored); /* the file itself was moved: no reason to fail */
    else
        json_decref(after);
}
