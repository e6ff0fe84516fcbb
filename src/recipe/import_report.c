/*
 * import_report.c - checks the import check's reply and turns it into a message; see
 * import_report.h.
 */
#include "recipe/import_report.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "guest_files.h"
#include "model/json.h"

/* 100 rows of check_imports.py, each character escaped, fit twice */
#define ANSWER_MAX (256 * KIB)
#define ROWS_MAX 100
#define MODULE_MAX 200 /* bytes of a module's name */
#define WORDS_SIZE 256 /* of text from the code that a message repeats */

static const struct advice {
    const char *module;
    const char *instead;
} advices[] = {
    {"subprocess", "use Python's own libraries in this process"},
    {"os", "pathlib for paths, tempfile for scratch files"},
    {"shutil", "pathlib and open()"},
    {"socket", "the box has no network; work with the data you were given"},
};

static const char general_advice[] =
    "write the code without it, or remove it from SANDBOX_BLOCKED_IMPORTS";

static void json_freep(json_t **json)
{
    json_decref(*json);
}

static int invalid_report(struct error *err, const char *what)
{
    return error_set(err, -EBADMSG, ERROR_ENGINE,
                     "the import check gave no usable answer (%s); the code was not run", what);
}

static const char *advice_for(const char *module)
{
    for (size_t i = 0; i < ARRAY_SIZE(advices); i++) {
        size_t length = strlen(advices[i].module);

        if (str_starts(module, advices[i].module) &&
            (module[length] == '\0' || module[length] == '.'))
            return advices[i].instead;
    }
    return general_advice;
}

/* A copy that is safe for a terminal and a log: one line, no control bytes, cut at a character. */
static const char *tame(char words[WORDS_SIZE], const char *text)
{
    size_t length = strlen(text);
    bool is_cut = length >= WORDS_SIZE - 3;

    length = is_cut ? utf8_floor(text, WORDS_SIZE - 4) : length;
    memcpy(words, text, length);
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)words[i];

        /* C1 control characters are C2 80 to C2 9F in UTF-8 */
        if (c < ' ' || c == 0x7f ||
            (c == 0xc2 && i + 1 < length && (unsigned char)words[i + 1] < 0xa0))
            words[i] = '?';
        if (c == 0xc2 && words[i] == '?')
            words[++i] = '?';
    }
    str_copy(words + length, WORDS_SIZE - length, is_cut ? "..." : "");
    return words;
}

/* Letters, digits, '_', '.' and everything beyond ASCII, as Python allows in a module's name. */
static bool is_module_name(const char *text)
{
    size_t length = strlen(text);

    if (length == 0 || length > MODULE_MAX)
        return false;
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_' || c == '.' || c >= 0x80))
            return false;
    }
    return true;
}

static bool has(char *const *list, const char *text)
{
    for (; *list; list++) {
        if (str_equal(*list, text))
            return true;
    }
    return false;
}

static int add_row(json_t *row, char ***modules, struct buf *message, struct error *err)
{
    const char *module, *written;
    char module_words[WORDS_SIZE], words[WORDS_SIZE];
    json_int_t line;

    /* The format "s" refuses strings with NUL bytes and values that are not strings. */
    if (json_unpack(row, "{s:s, s:I, s:s}", "module", &module, "line", &line, "import", &written) <
            0 ||
        !is_module_name(module) || line < 0 || line > (json_int_t)LIMIT_CODE_BYTES)
        return invalid_report(err, "a row is wrong");
    if (has(*modules, module))
        return 0;
    if (strv_push(modules, module) < 0 ||
        buf_printf(message, "%sline %lld: %s: the module '%s' is blocked. Instead: %s.",
                   message->length > 0 ? "\n" : "", (long long)line, tame(words, written),
                   tame(module_words, module), advice_for(module)) < 0)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "reading the import check: out of memory");
    return 0;
}

static int add_rows(json_t *rows, char ***modules, struct buf *message, struct error *err)
{
    size_t i;
    json_t *row;

    if (!json_is_array(rows) || json_array_size(rows) > ROWS_MAX)
        return invalid_report(err, "no list");
    json_array_foreach(rows, i, row)
    {
        int r = add_row(row, modules, message, err);

        if (r < 0)
            return r;
    }
    return 0;
}

static int describe_syntax_error(json_t *syntax, struct buf *message, struct error *err)
{
    char words[WORDS_SIZE];
    const char *text;
    json_int_t line;
    int r;

    if (json_unpack(syntax, "{s:I, s:s}", "line", &line, "message", &text) < 0 || line < 0 ||
        line > (json_int_t)LIMIT_CODE_BYTES)
        return invalid_report(err, "syntax_error has the wrong members");
    if (line > 0)
        r = buf_printf(message, "line %lld: syntax error: %s", (long long)line, tame(words, text));
    else
        r = buf_printf(message, "syntax error: %s", tame(words, text));
    return r < 0 ? error_set(err, r, ERROR_ENGINE, "reading the import check: out of memory") : 0;
}

int import_report_parse(const char *json, size_t length, char ***ret_modules, struct buf *message,
                        struct error *err)
{
    CLEANUP(json_freep) json_t *root = NULL;
    CLEANUP(strv_freep) char **modules = strv_new();
    char words[WORDS_SIZE];
    json_t *failure, *syntax;
    int r;

    buf_clear(message);
    if (!modules)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "reading the import check: out of memory");
    if (length > ANSWER_MAX)
        return invalid_report(err, "too long");
    root = json_parse(json, length, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(root))
        return invalid_report(err, "no JSON object");
    failure = json_object_get(root, "error");
    if (failure)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "the code could not be checked for blocked imports: %s",
                         json_is_string(failure) ? tame(words, json_string_value(failure)) : "?");
    r = add_rows(json_object_get(root, "blocked"), &modules, message, err);
    if (r < 0)
        return r;
    syntax = json_object_get(root, "syntax_error");
    if (!syntax || (!json_is_null(syntax) && modules[0]))
        return invalid_report(err, "syntax_error is missing, or imports is beside it");
    r = json_is_null(syntax) ? 0 : describe_syntax_error(syntax, message, err);
    if (r < 0)
        return r;
    r = (int)strv_length(modules);
    *ret_modules = ptr_take(&modules);
    return r;
}

void import_line_add(struct buf *line, const void *data, size_t length)
{
    if (buf_append(line, data, length) < 0)
        buf_append_text(line, "!"); /* cut: it will not parse */
}

int import_line_judge(const struct buf *line, char ***ret_modules, struct error *err)
{
    CLEANUP(buf_free) struct buf message = BUF_INIT(IMPORT_REPORT_MAX);
    CLEANUP(strv_freep) char **modules = NULL;
    int r = import_report_parse(buf_text(line), line->length, &modules, &message, err);

    if (r <= 0)
        return r;
    *ret_modules = ptr_take(&modules);
    return error_set(err, -EPERM, ERROR_BLOCKED_IMPORT, "%s", buf_text(&message));
}

int import_checker_make(struct import_checker *checker, const char *program, const char *script,
                        char *const *blocked, struct error *err)
{
    int r;

    *checker = (struct import_checker){.code = BUF_INIT(LIMIT_CONFIG_BYTES),
                                       .blocked = BUF_INIT(LIMIT_CONFIG_BYTES)};
    r = buf_append(&checker->code, guest_check_imports_py, guest_check_imports_py_length);
    for (; blocked && *blocked && r == 0; blocked++)
        r = buf_printf(&checker->blocked, "%s%s", checker->blocked.length ? "," : "", *blocked);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "the list of blocked imports is too long");
    /* Isolated mode without site: no file of the guest is loaded before the checker. */
    memcpy(checker->argv,
           (const char *[]){program, "-I", "-S", "-c", buf_text(&checker->code), script,
                            buf_text(&checker->blocked), NULL},
           sizeof(checker->argv));
    return 0;
}

void import_checker_free(struct import_checker *checker)
{
    buf_free(&checker->code);
    buf_free(&checker->blocked);
}
