/*
 * links.c - entries that are symbolic links get what they lead to: its whole path, type, mode and
 * size, as E2B's clients expect it. A link that leads nowhere has no type, and clients hide it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/sandboxes/e2b.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"

#define LINKS_MAX 500 /* of one request, whose targets are asked for */

/* For each argument two texts with their NULs: mode, size and time of the target; its path. */
static const char script[] =
    "for p; do if [ -e \"$p\" ]; then stat -L --printf '%f %s %Y\\0' -- \"$p\"; readlink -f -z -- "
    "\"$p\"; else printf '\\0\\0'; fi; done";

static bool is_link(json_t *entry)
{
    return str_equal(json_string_value(json_object_get(entry, "type")), "FILE_TYPE_SYMLINK");
}

/* The next text of the output; NULL: there is none. */
static const char *next_text(const char **at, const char *end)
{
    const char *text = *at, *stop = text < end ? memchr(text, 0, (size_t)(end - text)) : NULL;

    if (!stop)
        return NULL;
    *at = stop + 1;
    return text;
}

static void fill(json_t *entry, const char *facts, const char *target)
{
    unsigned long long size, seconds;
    unsigned mode;
    char text[24], modified[40], permissions[11];

    if (!facts || sscanf(facts, "%x %llu %llu", &mode, &size, &seconds) != 3 || !target ||
        !target[0]) {
        json_object_set_new(entry, "type", json_string("FILE_TYPE_UNSPECIFIED"));
        return;
    }
    e2b_permissions((mode & 07777) | S_IFLNK, permissions);
    str_format(text, sizeof(text), "%llu", size);
    front_time(seconds * 1000, modified, sizeof(modified));
    json_object_set_new(entry, "type",
                        json_string(S_ISDIR(mode)   ? "FILE_TYPE_DIRECTORY"
                                    : S_ISREG(mode) ? "FILE_TYPE_FILE"
                                                    : "FILE_TYPE_UNSPECIFIED"));
    json_object_set_new(entry, "mode", json_integer(mode & 07777));
    json_object_set_new(entry, "permissions", json_string(permissions));
    json_object_set_new(entry, "size", json_string(text));
    json_object_set_new(entry, "modifiedTime", json_string(modified));
    json_object_set_new(entry, "symlinkTarget", text_to_json(target, strlen(target)));
}

static void on_told(void *ctx, const char *text, size_t length)
{
    struct e2b_file *file = ctx;
    const char *at = text, *end = text + length;
    json_t *entry;
    size_t i;

    json_array_foreach(file->entries, i, entry)
    {
        const char *facts, *target;

        if (!is_link(entry))
            continue;
        facts = next_text(&at, end);
        target = next_text(&at, end);
        fill(entry, facts, target);
    }
    file->resolved(file);
}

/* The paths of the links, after the words of the command; NULL: no memory. */
static const char **words_of(json_t *entries, size_t count)
{
    static const char *const before[] = {"/bin/sh", "-c", script, "sh"};
    const char **words = calloc(ARRAY_SIZE(before) + count + 1, sizeof(*words));
    size_t used = ARRAY_SIZE(before), i;
    json_t *entry;

    if (!words)
        return NULL;
    memcpy(words, before, sizeof(before));
    json_array_foreach(entries, i, entry)
    {
        if (is_link(entry))
            words[used++] = json_string_value(json_object_get(entry, "path"));
    }
    return words;
}

void e2b_links_resolve(struct e2b_file *file, json_t *entries,
                       void (*resolved)(struct e2b_file *file))
{
    CLEANUP(freep) const char **words = NULL;
    struct error err = {0};
    size_t count = 0, i;
    json_t *entry;

    file->op = 0;
    file->entries = entries;
    file->resolved = resolved;
    json_array_foreach(entries, i, entry)
    {
        count += is_link(entry);
    }
    if (count == 0 || count > LINKS_MAX) {
        resolved(file);
        return;
    }
    words = words_of(entries, count);
    if (words)
        file->probe = e2b_probe_new(file->session, &file->caller, words, on_told, file, &err);
    if (!file->probe)
        resolved(file); /* as links, without what they lead to */
}
