/* source.c - reads and checks the code of a run before anything is made for it. */
#include "cli/source.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/notebook.h"
#include "config/config.h"

static int check_code(const struct buf *code, const char *from, struct error *err)
{
    const char *nul = code->length > 0 ? memchr(code->data, 0, code->length) : NULL;
    size_t at = 0;

    if (nul)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "%.200s has a NUL byte at offset %zu and is not source code; give a text "
                         "file in UTF-8",
                         from, (size_t)(nul - code->data));
    while (at < code->length && isspace((unsigned char)code->data[at]))
        at++;
    if (at == code->length)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "nothing to run: %.200s is empty; give some code, for example "
                         "bailey run -c \"print('Hello')\"",
                         from);
    return 0;
}

/* Pictures among its outputs make a notebook large, its code seldom. */
static uint64_t size_limit(const char *path)
{
    return notebook_is(path) ? LIMIT_NOTEBOOK_BYTES : LIMIT_CODE_BYTES;
}

static int too_large(const char *from, struct error *err)
{
    if (notebook_is(from))
        return error_set(err, -EFBIG, ERROR_TOO_LARGE,
                         "%.200s is larger than %llu MB; remove its outputs, for example with "
                         "'jupyter nbconvert --clear-output'",
                         from, LIMIT_NOTEBOOK_BYTES / MIB);
    return error_set(err, -EFBIG, ERROR_TOO_LARGE,
                     "%.200s is larger than %llu MB, the limit for source code; put data in a file "
                     "and pass it with --file",
                     from, LIMIT_CODE_BYTES / MIB);
}

static int open_failed(const char *path, int num, struct error *err)
{
    switch (num) {
    case ENOENT:
    case ENOTDIR:
        return error_set(err, -num, ERROR_NOT_FOUND,
                         "there is no file '%.200s'; check the name, or give code with -c CODE",
                         path);
    case EACCES:
    case EPERM:
        return error_set(err, -num, ERROR_BAD_INPUT,
                         "this user may not read '%.200s'; change its permissions (chmod u+r) or "
                         "run as another user",
                         path);
    default:
        return error_set(err, -num, ERROR_BAD_INPUT, "opening '%.200s': %s", path, strerror(num));
    }
}

static int check_kind(int fd, const char *path, struct source *source, struct error *err)
{
    const char *slash = strrchr(path, '/');
    struct stat status;

    if (fstat(fd, &status) < 0)
        return error_errno(err, "reading '%.200s'", path);
    if (S_ISDIR(status.st_mode))
        return error_set(err, -EISDIR, ERROR_BAD_INPUT,
                         "'%.200s' is a folder; name the file in it that should run", path);
    if (S_ISREG(status.st_mode)) {
        /* A notebook's program is not the notebook: it gets the name of code without a file. */
        source->name = notebook_is(path) ? NULL : slash ? slash + 1 : path;
        return (uint64_t)status.st_size > size_limit(path) ? too_large(path, err) : 0;
    }
    if (S_ISFIFO(status.st_mode))
        return 0;
    return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                     "'%.200s' is neither a file nor a pipe; use - to read standard input", path);
}

int source_read(struct source *source, const char *path, struct error *err)
{
    bool is_stdin = str_equal(path, "-");
    const char *from = is_stdin ? "standard input" : path;
    CLEANUP(fd_closep) int opened = -1;
    int result;

    *source = (struct source){.code = BUF_INIT(size_limit(path))};
    if (!is_stdin) {
        if (!path[0])
            return open_failed(path, ENOENT, err);
        opened = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        if (opened < 0)
            return open_failed(path, errno, err);
        result = check_kind(opened, path, source, err);
        if (result < 0)
            return result;
    }
    result = buf_read_fd(&source->code, is_stdin ? STDIN_FILENO : opened);
    if (result == -EFBIG)
        return too_large(from, err);
    if (result == -EISDIR)
        return error_set(err, result, ERROR_BAD_INPUT,
                         "standard input is a folder; give it a file");
    if (result < 0)
        return error_set(err, result, ERROR_BAD_INPUT, "reading %.200s: %s", from,
                         strerror(-result));
    return check_code(&source->code, from, err);
}

int source_join_notebook(struct source *source, const char *from, struct error *err)
{
    CLEANUP(buf_free) struct buf program = BUF_INIT(LIMIT_CODE_BYTES);
    CLEANUP(strv_freep) char **cells = NULL;
    int result = notebook_cells(&source->code, from, &cells, err);

    if (result == 0)
        result = notebook_join(cells, from, &program, err);
    if (result < 0)
        return result;
    buf_free(&source->code);
    source->code = program;
    program = (struct buf){0};
    return 0;
}

int source_from_text(struct source *source, const char *code, struct error *err)
{
    int result;

    *source = (struct source){.code = BUF_INIT(LIMIT_CODE_BYTES)};
    result = buf_append_text(&source->code, code);
    if (result == -EFBIG)
        return too_large("the code behind -c", err);
    if (result < 0)
        return error_set(err, result, ERROR_ENGINE, "out of memory keeping the code");
    return check_code(&source->code, "the code behind -c", err);
}

void source_free(struct source *source)
{
    buf_free(&source->code);
    source->name = NULL;
}

static int unknown_language(const char *name, struct error *err)
{
    CLEANUP(buf_free) struct buf known = BUF_INIT(256);

    for (size_t i = 0; i < language_count; i++)
        buf_printf(&known, "%s%s", i > 0 ? ", " : "", language_table[i].name);
    return error_set(err, -EINVAL, ERROR_BAD_INPUT, "unknown language '%.60s'; known are: %s", name,
                     buf_text(&known));
}

/* What people write for a name in the table. */
static const char *full_name(const char *name)
{
    static const struct {
        const char *alias, *name;
    } aliases[] = {{"js", "javascript"}, {"node", "javascript"}, {"py", "python"}, {"sh", "bash"}};

    for (size_t i = 0; i < ARRAY_SIZE(aliases); i++) {
        if (str_equal(name, aliases[i].alias))
            return aliases[i].name;
    }
    return name;
}

/* Kinds of files that are not run, by their extension. */
static const struct foreign_row {
    const char *extension, *kind;
    bool is_data;
} foreign_table[] = {
    {".r", "R", false},
    {".rmd", "R Markdown", false},
    {".sql", "SQL", false},
    {".rb", "Ruby", false},
    {".pl", "Perl", false},
    {".go", "Go", false},
    {".rs", "Rust", false},
    {".java", "Java", false},
    {".kt", "Kotlin", false},
    {".scala", "Scala", false},
    {".swift", "Swift", false},
    {".cs", "C#", false},
    {".c", "C", false},
    {".h", "C", false},
    {".cc", "C++", false},
    {".cpp", "C++", false},
    {".hpp", "C++", false},
    {".php", "PHP", false},
    {".lua", "Lua", false},
    {".jl", "Julia", false},
    {".jsx", "JSX", false},
    {".tsx", "TSX", false},
    {".ps1", "PowerShell", false},
    {".html", "HTML", true},
    {".htm", "HTML", true},
    {".css", "CSS", true},
    {".md", "Markdown", true},
    {".csv", "CSV", true},
    {".tsv", "TSV", true},
    {".json", "JSON", true},
    {".jsonl", "JSON Lines", true},
    {".yaml", "YAML", true},
    {".yml", "YAML", true},
    {".xml", "XML", true},
    {".toml", "TOML", true},
    {".parquet", "Parquet", true},
    {".xlsx", "Excel", true},
    {".pdf", "PDF", true},
    {".png", "PNG", true},
    {".jpg", "JPEG", true},
    {".zip", "ZIP", true},
};

/* Extensions of other systems are in capitals too: "a.R", "A.HTM". */
static const struct foreign_row *foreign_find(const char *path)
{
    const char *dot = strrchr(path, '.');

    for (size_t i = 0; dot && i < ARRAY_SIZE(foreign_table); i++)
        if (strcasecmp(dot, foreign_table[i].extension) == 0)
            return &foreign_table[i];
    return NULL;
}

static bool is_typescript(const char *name, const char *path)
{
    if (name)
        return str_equal(name, "typescript") || str_equal(name, "ts");
    return path && (str_ends(path, ".ts") || str_ends(path, ".mts") || str_ends(path, ".cts"));
}

int source_check_kind(const char *name, const char *path, struct error *err)
{
    const struct foreign_row *foreign = path && !name ? foreign_find(path) : NULL;

    if (is_typescript(name, path))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "TypeScript is not in this version (JavaScript is): compile it first");
    if (notebook_is(path) && name && !str_equal(full_name(name), "python"))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "'%.200s' is a notebook, whose cells are Python; leave --language out",
                         path);
    if (foreign && foreign->is_data)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "'%.200s' is %s, not a program; write one that reads it ('bailey run' "
                         "takes --file), or name the language of its contents with --language",
                         path, foreign->kind);
    if (foreign)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "'%.200s' is %s, which bailey does not run; it runs Python, JavaScript "
                         "and Bash (if it is one of these, say so with --language)",
                         path, foreign->kind);
    return 0;
}

int source_language(const char *name, const char *path, const struct config *config,
                    const struct language_row **ret, struct error *err)
{
    const struct language_row *found = NULL;
    int result = source_check_kind(name, path, err);

    if (result < 0)
        return result;
    if (name) {
        found = language_find(full_name(name));
        if (!found)
            return unknown_language(name, err);
    } else if (path) {
        found = language_of_path(path);
    }
    if (!found)
        found = language_find("python");
    if (!found)
        return unknown_language("python", err);

    for (size_t i = 0; i < strv_length(config->languages); i++) {
        if (str_equal(config->languages[i], found->name)) {
            *ret = found;
            return 0;
        }
    }
    return error_set(
        err, -EINVAL, ERROR_BAD_INPUT,
        "language '%s' is not among SANDBOX_SUPPORTED_LANGUAGES (%.100s); add it there",
        found->name, config->values[KEY_LANGUAGES].text ? config->values[KEY_LANGUAGES].text : "");
}
