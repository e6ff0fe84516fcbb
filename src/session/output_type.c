/* output_type.c - kind and MIME type of an output, by its name; see output_type.h. */
#include "session/output_type.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

static const struct output_type types[] = {
    {".csv", "text", "text/csv"},
    {".tsv", "text", "text/tab-separated-values"},
    {".json", "text", "application/json"},
    {".jsonl", "text", "application/jsonl"},
    {".ndjson", "text", "application/x-ndjson"},
    {".txt", "text", "text/plain"},
    {".log", "text", "text/plain"},
    {".md", "text", "text/markdown"},
    {".html", "text", "text/html"},
    {".htm", "text", "text/html"},
    {".xml", "text", "application/xml"},
    {".yaml", "text", "application/yaml"},
    {".yml", "text", "application/yaml"},
    {".ipynb", "text", "application/x-ipynb+json"},
    {".parquet", "data", "application/vnd.apache.parquet"},
    {".arrow", "data", "application/vnd.apache.arrow.file"},
    {".feather", "data", "application/vnd.apache.arrow.file"},
    {".xlsx", "data", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {".pdf", "data", "application/pdf"},
    {".zip", "data", "application/zip"},
    {".webp", "image", "image/webp"},
    {".png", "image", "image/png"},
    {".jpg", "image", "image/jpeg"},
    {".jpeg", "image", "image/jpeg"},
    {".svg", "image", "image/svg+xml"},
};
static const struct output_type unknown = {"", "binary", "application/octet-stream"};

const struct output_type *output_type_find(const char *name)
{
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot && i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcasecmp(dot, types[i].extension) == 0)
            return &types[i];
    }
    return &unknown;
}

bool output_type_is_saved(const struct output_type *type)
{
    return strcmp(type->kind, "binary") != 0;
}
