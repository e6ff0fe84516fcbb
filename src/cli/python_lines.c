/*
 * python_lines.c - reads source lines as Python's own tokenizer does, as far as strings, comments,
 * brackets and continued lines; see python_lines.h.
 *
 * '%' cannot begin a statement of Python, and '!' outside of a string is only in "!=": so lines of
 * IPython are told apart.
 */
#include "cli/python_lines.h"

#include <ctype.h>
#include <string.h>

/* A character of an open string. Returns how many bytes were read. */
static size_t read_string(struct python_lines *reader, const char *at)
{
    if (at[0] == '\\' && at[1])
        return 2;
    if (at[0] != reader->quote)
        return 1;
    if (!reader->is_triple || (at[1] == reader->quote && at[2] == reader->quote)) {
        reader->quote = 0;
        return reader->is_triple ? 3 : 1;
    }
    return 1;
}

/* A character outside of strings and comments. Returns how many bytes were read. */
static size_t read_plain(struct python_lines *reader, const char *at)
{
    reader->continues = false;
    if (!isspace((unsigned char)at[0]))
        reader->last = at[0];
    if (at[0] == '\'' || at[0] == '"') {
        reader->quote = at[0];
        reader->is_triple = at[1] == at[0] && at[2] == at[0];
        return reader->is_triple ? 3 : 1;
    }
    if (at[0] == '\\' && at[1] == '\n') {
        reader->continues = true;
        return 1;
    }
    if (strchr("([{", at[0]))
        reader->depth++;
    else if (strchr(")]}", at[0]) && reader->depth > 0)
        reader->depth--;
    return 1;
}

size_t python_line_read(struct python_lines *reader, const char *at, bool *is_foreign)
{
    const char *start = at, *first = at + strspn(at, " \t");
    bool begins = !reader->quote && reader->depth == 0 && !reader->continues;

    *is_foreign = begins && (*first == '%' || *first == '!');
    reader->continues = false;
    reader->last = 0;
    if (*is_foreign)
        return strcspn(at, "\n");
    while (*at && *at != '\n') {
        if (reader->quote) {
            at += read_string(reader, at);
        } else if (*at == '#') {
            at += strcspn(at, "\n");
        } else {
            if (at[0] == '!' && at[1] != '=' && reader->depth == 0)
                *is_foreign = true;
            at += read_plain(reader, at);
        }
    }
    if (!reader->is_triple)
        reader->quote = 0; /* a string that is not closed: Python refuses it */
    return (size_t)(at - start);
}

static bool is_open(const struct python_lines *reader)
{
    return reader->quote || reader->depth > 0 || reader->continues;
}

bool python_is_complete(const char *text)
{
    struct python_lines reader = {0};
    bool has_block = false, is_blank = false;

    while (*text) {
        bool begins = !is_open(&reader), is_foreign;
        const char *first = text + strspn(text, " \t");
        size_t length = python_line_read(&reader, text, &is_foreign);

        is_blank = begins && (*first == '\n' || !*first);
        /* A decorator, and a line that ends in a colon, have more lines after them. */
        if (!is_foreign && !is_open(&reader) && ((begins && *first == '@') || reader.last == ':'))
            has_block = true;
        text += length + (text[length] == '\n');
    }
    return !is_open(&reader) && (!has_block || is_blank);
}
