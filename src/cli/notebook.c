/*
 * notebook.c - reads the code cells of a notebook; see notebook.h.
 *
 * A line of IPython is found by reading the cell as Python's own tokenizer does, as far as strings,
 * comments, brackets and continued lines: '%' cannot begin a statement of Python, and '!' outside
 * of a string is only in "!=".
 */
#include "cli/notebook.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/python_lines.h"

#define OLDEST_FORMAT 4

bool notebook_is(const char *path)
{
    return path && str_ends(path, ".ipynb");
}

/* ---- the file ---- */

static int bad(struct error *err, const char *from, const char *what)
{
    return error_set(err, -EINVAL, ERROR_BAD_INPUT, "'%.200s' %s", from, what);
}

static const char *text_at(json_t *json, const char *object, const char *member)
{
    const char *text = json_string_value(json_object_get(json_object_get(json, object), member));

    return text ? text : "";
}

/* Notebooks name their language in one of two places, and old ones in neither. */
static int check_language(json_t *root, const char *from, struct error *err)
{
    json_t *metadata = json_object_get(root, "metadata");
    const char *language = text_at(metadata, "kernelspec", "language");

    if (!language[0])
        language = text_at(metadata, "language_info", "name");
    if (!language[0] || strncasecmp(language, "python", 6) == 0 ||
        strcasecmp(language, "ipython") == 0)
        return 0;
    return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                     "'%.200s' is a notebook in the language '%.60s'; only notebooks in Python run "
                     "here",
                     from, language);
}

static int check_format(json_t *root, const char *from, struct error *err)
{
    json_t *format = json_object_get(root, "nbformat");

    if (!json_is_array(json_object_get(root, "cells")) &&
        (!json_is_integer(format) || json_integer_value(format) >= OLDEST_FORMAT))
        return bad(err, from, "is JSON, but not a notebook: it has no list of cells");
    if (json_is_integer(format) && json_integer_value(format) < OLDEST_FORMAT)
        return bad(err, from,
                   "is a notebook of a format before 4; convert it with 'jupyter nbconvert --to "
                   "notebook'");
    return 0;
}

/* A cell's source is a string, or a list of lines with their newlines. */
static int cell_text(json_t *cell, struct buf *text)
{
    json_t *source = json_object_get(cell, "source"), *line;
    size_t i;

    if (json_is_string(source))
        return buf_append_text(text, json_string_value(source));
    if (!json_is_array(source))
        return -EINVAL;
    json_array_foreach(source, i, line)
    {
        int r = json_is_string(line) ? buf_append_text(text, json_string_value(line)) : -EINVAL;

        if (r < 0)
            return r;
    }
    return 0;
}

static int add_cell(json_t *cell, const char *from, char ***cells, struct error *err)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_CODE_BYTES);
    size_t number = strv_length(*cells) + 1;
    int r = cell_text(cell, &text);

    if (r == -EINVAL)
        return error_set(err, r, ERROR_BAD_INPUT,
                         "'%.200s' is no valid notebook: cell %zu has no source", from, number);
    if (r == -EFBIG)
        return error_set(err, r, ERROR_TOO_LARGE, "'%.200s': cell %zu is larger than %llu MB", from,
                         number, LIMIT_CODE_BYTES / MIB);
    if (r < 0 || strv_push_n(cells, buf_text(&text), text.length) < 0)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory reading the notebook");
    return 0;
}

int notebook_cells(const struct buf *file, const char *from, char ***ret, struct error *err)
{
    CLEANUP(strv_freep) char **cells = strv_new();
    json_error_t problem;
    json_t *root = json_loadb(buf_text(file), file->length, 0, &problem);
    json_t *cell;
    size_t i;
    int r = 0;

    if (!cells)
        r = error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory reading the notebook");
    else if (!root)
        r = error_set(err, -EINVAL, ERROR_BAD_INPUT,
                      "'%.200s' is no notebook: it is not JSON (line %d: %.100s)", from,
                      problem.line, problem.text);
    if (r == 0)
        r = check_format(root, from, err);
    if (r == 0)
        r = check_language(root, from, err);
    json_array_foreach(json_object_get(root, "cells"), i, cell)
    {
        const char *type = json_string_value(json_object_get(cell, "cell_type"));

        if (r == 0 && str_equal(type, "code"))
            r = add_cell(cell, from, &cells, err);
    }
    if (r == 0 && strv_length(cells) == 0)
        r = bad(err, from, "has no code cell: there is nothing to run");
    json_decref(root);
    if (r == 0)
        *ret = ptr_take(&cells);
    return r;
}

/* ---- lines that only IPython knows ---- */

static int refuse_line(const char *from, size_t cell, size_t number, const char *line,
                       size_t length, struct error *err)
{
    while (length > 0 && isspace((unsigned char)*line)) {
        line++;
        length--;
    }
    return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                     "'%.200s': line %zu of code cell %zu is for IPython, not Python: %.*s; "
                     "'bailey code -s NAME FILE.ipynb' runs lines that begin with ! in Bash; write "
                     "others in Python",
                     from, number, cell, (int)MIN(length, (size_t)60), line);
}

static bool is_matplotlib(const char *line)
{
    line += strspn(line, " \t");
    return str_starts(line, "%matplotlib") && !isalnum((unsigned char)line[11]) && line[11] != '_';
}

static int join_cell(const char *cell, size_t number, const char *from, struct buf *program,
                     struct error *err)
{
    struct python_lines reader = {0};
    int failed = 0;

    for (size_t line = 1; *cell; line++) {
        bool is_foreign;
        size_t length = python_line_read(&reader, cell, &is_foreign);

        if (is_foreign && !is_matplotlib(cell))
            return refuse_line(from, number, line, cell, length, err);
        if (is_foreign)
            failed |= buf_printf(program, "%.*spass\n", (int)strspn(cell, " \t"), cell);
        else
            failed |= buf_printf(program, "%.*s\n", (int)length, cell);
        cell += length + (cell[length] == '\n');
    }
    return failed;
}

int notebook_join(char *const *cells, const char *from, struct buf *program, struct error *err)
{
    bool is_empty = true;
    int failed = 0;

    for (size_t i = 0; cells[i] && failed == 0; i++) {
        is_empty = is_empty && !cells[i][strspn(cells[i], " \t\r\n")];
        failed = buf_printf(program, "%s# code cell %zu\n", i > 0 ? "\n" : "", i + 1);
        if (failed == 0)
            failed = join_cell(cells[i], i + 1, from, program, err);
    }
    if (failed < 0 && err->code)
        return failed;
    if (failed < 0)
        return error_set(err, -EFBIG, ERROR_TOO_LARGE,
                         "the code of '%.200s' is larger than %llu MB, the limit for source code",
                         from, LIMIT_CODE_BYTES / MIB);
    return is_empty ? bad(err, from, "has no code: there is nothing to run") : 0;
}
