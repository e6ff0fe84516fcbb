/* output.c - what a one-shot run left in /tmp/output; see output.h. */
#include "recipe/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/limits.h"
#include "store/output_file.h"

/* Why it must stay; NULL: it may come out. */
static const char *problem(const struct output_listing *listing, const struct box_entry *entry)
{
    const char *why = output_kind_problem(entry->mode);

    if (!why)
        why = output_name_problem(entry->name);
    if (!why && entry->bytes > listing->result->limits.disk_bytes - listing->bytes)
        why = OUTPUT_SPARSE;
    return why;
}

void output_listing_add(struct output_listing *listing, const struct box_entry *entry)
{
    struct output_entry *entries, *added;

    if (S_ISDIR(entry->mode) || listing->has_no_memory)
        return;
    listing->result->total_output_files++;
    if (listing->count == LIMIT_OUTPUT_FILES)
        return;
    entries = realloc(listing->entries, (listing->count + 1) * sizeof(*entries));
    listing->entries = entries ? entries : listing->entries;
    added = entries ? &entries[listing->count] : NULL;
    if (added)
        *added = (struct output_entry){.name = strdup(entry->name), .bytes = entry->bytes};
    if (!added || !added->name) {
        listing->has_no_memory = true;
        return;
    }
    listing->count++;
    added->skipped = problem(listing, entry);
    if (!added->skipped)
        listing->bytes += entry->bytes;
}

static int compare_entries(const void *a, const void *b)
{
    return strcmp(((const struct output_entry *)a)->name, ((const struct output_entry *)b)->name);
}

static int compare_files(const void *a, const void *b)
{
    return strcmp(((const struct output_file *)a)->name, ((const struct output_file *)b)->name);
}

int output_listing_report(struct output_listing *listing, struct error *err)
{
    struct result *result = listing->result;
    int r = listing->has_no_memory ? -ENOMEM : 0;

    if (listing->count > 1)
        qsort(listing->entries, listing->count, sizeof(*listing->entries), compare_entries);
    for (size_t i = 0; i < listing->count && r == 0; i++) {
        const struct output_entry *entry = &listing->entries[i];

        if (entry->skipped)
            r = result_add_file(result, entry->name, NULL, entry->bytes, entry->skipped);
    }
    if (result->file_count > 1)
        qsort(result->files, result->file_count, sizeof(*result->files), compare_files);
    return r < 0 ? error_memory(err) : 0;
}

void output_listing_free(struct output_listing *listing)
{
    for (size_t i = 0; i < listing->count; i++)
        free(listing->entries[i].name);
    free(listing->entries);
    *listing = (struct output_listing){.result = listing->result};
}
