/* output_sniff.c - the MIME type of an output by its first bytes; see output_sniff.h. */
#include "session/output_sniff.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "session/output_type.h"

#define BINARY "application/octet-stream"
#define PLAIN "text/plain"

/* Signatures at the start of a file. */
static const struct {
    const char *bytes;
    size_t length;
    const char *type;
} magics[] = {
    {"\x89PNG\r\n\x1a\n", 8, "image/png"},
    {"\xff\xd8\xff", 3, "image/jpeg"},
    {"GIF87a", 6, "image/gif"},
    {"GIF89a", 6, "image/gif"},
    {"%PDF-", 5, "application/pdf"},
    {"\x1f\x8b", 2, "application/gzip"},
    {"PK\x03\x04", 4, "application/zip"},
    {"PAR1", 4, "application/vnd.apache.parquet"},
    {"ARROW1", 6, "application/vnd.apache.arrow.file"},
    {"SQLite format 3", 16, "application/vnd.sqlite3"},
};

/* Formats that are zip archives: the file name decides. */
static const struct {
    const char *extension, *type;
} archives[] = {
    {".xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {".docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    {".pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
};

/* UTF-8 without control characters that text does not have; the last character may be cut. */
static bool is_text(const unsigned char *head, size_t length)
{
    size_t at = 0;

    while (at < length) {
        int step = utf8_length(head + at, length - at);

        if (head[at] < 0x20 && !strchr("\t\n\v\f\r\033", head[at]))
            return false;
        if (head[at] == 0 || head[at] == 0x7f)
            return false;
        if (step <= 0)
            return length - at < 4 && step < 0;
        at += (size_t)step;
    }
    return true;
}

static bool has_word(const char *head, size_t length, const char *word)
{
    size_t size = strlen(word);

    for (size_t at = 0; at + size <= length; at++)
        if (strncasecmp(head + at, word, size) == 0)
            return true;
    return false;
}

/* A browser would treat these as a page or an image, whatever the file name says. */
static const char *sniff_markup(const char *head, size_t length)
{
    size_t at = 0;

    if (length >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0)
        at = 3;
    while (at < length && strchr(" \t\r\n\f", head[at]) && head[at])
        at++;
    if (at == length || head[at] != '<')
        return NULL;
    if (has_word(head + at, length - at, "<svg"))
        return "image/svg+xml";
    if (has_word(head + at, length - at, "<html") ||
        has_word(head + at, length - at, "<!doctype h") ||
        has_word(head + at, length - at, "<script") || has_word(head + at, length - at, "<body"))
        return "text/html";
    return length - at >= 5 && memcmp(head + at, "<?xml", 5) == 0 ? "application/xml" : NULL;
}

static const char *sniff_archive(const char *name)
{
    const char *dot = strrchr(name, '.');

    for (size_t i = 0; dot && i < ARRAY_SIZE(archives); i++)
        if (strcasecmp(dot, archives[i].extension) == 0)
            return archives[i].type;
    return NULL;
}

const char *output_sniff(const char *name, const void *head, size_t length)
{
    const char *bytes = head;
    const struct output_type *named = output_type_find(name);
    const char *type;

    length = MIN(length, (size_t)OUTPUT_SNIFF_BYTES);
    for (size_t i = 0; i < ARRAY_SIZE(magics); i++) {
        if (length < magics[i].length || memcmp(bytes, magics[i].bytes, magics[i].length) != 0)
            continue;
        type = str_equal(magics[i].type, "application/zip") ? sniff_archive(name) : NULL;
        return type ? type : magics[i].type;
    }
    if (length >= 12 && memcmp(bytes, "RIFF", 4) == 0 && memcmp(bytes + 8, "WEBP", 4) == 0)
        return "image/webp";
    if (!is_text(head, length))
        return BINARY;
    type = sniff_markup(bytes, length);
    if (type)
        return type;
    /* Text: the name may say which kind of text, but not that it is an image. */
    return str_equal(named->kind, "text") ? named->mime : PLAIN;
}
