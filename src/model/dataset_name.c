/* dataset_name.c - the endings of data files; see dataset_name.h. */
#include "model/dataset_name.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

static const char *const extensions[] = {
    ".csv",    ".tsv",  ".parquet", ".pq",   ".arrow", ".feather", ".ipc",    ".orc",
    ".avro",   ".xlsx", ".xls",     ".ods",  ".json",  ".jsonl",   ".ndjson", ".xml",
    ".html",   ".yaml", ".yml",     ".toml", ".txt",   ".log",     ".md",     ".sqlite",
    ".db",     ".h5",   ".hdf5",    ".nc",   ".npy",   ".npz",     ".pkl",    ".pickle",
    ".joblib", ".mat",  ".sav",     ".dta",  ".zip",   ".gz",      ".bz2",    ".xz",
    ".zst",    ".tar",  ".tgz",     ".pdf",  ".png",   ".jpg",     ".jpeg",   ".svg",
    ".webp",   ".gif",  ".ipynb",   ".py",   ".sql",   ".geojson", ".duckdb"};

const char *dataset_extension(const char *name)
{
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot && i < ARRAY_SIZE(extensions); i++) {
        if (strcasecmp(dot, extensions[i]) == 0 && dot != name)
            return dot;
    }
    return NULL;
}

const char *dataset_extension_of_file(const char *name, const char *file)
{
    const char *own = dataset_extension(name), *extension = dataset_extension(file);

    return own || !extension || strcasecmp(extension, ".csv") == 0 ? "" : extension;
}
