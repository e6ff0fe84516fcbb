/*
 * code_store.c - SANDBOX_STORE_CODE for sessions: the code of a cell, of `python -c` and of a
 * script that a command ran is written down with its result, as the code of a one-shot run is.
 *
 * The text of a script is in the box, so it is read there after the command has ended; if that is
 * not possible any more, the command's words are stored in its place.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "model/text.h"
#include "recipe/recipe.h"
#include "session/account.h"
#include "session/session_private.h"
#include "store/artifact.h"

/* One record whose script is being read. */
struct code_store {
    struct code_store *next;
    struct session *session;
    struct result result;
    const char *language; /* static */
    char *words;          /* the command line, instead of a script that cannot be read */
    uint32_t op;          /* 0: none */
    struct buf text;
};

/* ---- which code a command runs ---- */

static const struct {
    const char *program; /* the beginning of its name */
    const char *language;
    const char *inline_options; /* letters of options whose argument is code */
    const char *value_options;  /* letters of options that have another argument */
    const char *module_options; /* letters after which there is neither code nor script */
} programs[] = {
    {"python", "python", "c", "WX", "m"},  {"pypy", "python", "c", "WX", "m"},
    {"node", "javascript", "ep", "r", ""}, {"bash", "bash", "c", "oO", "s"},
    {"sh", "bash", "c", "o", "s"},         {"dash", "bash", "c", "o", "s"},
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* python, python3 and python3.11, but not python-config. */
static bool is_program(const char *name, const char *program)
{
    size_t length = strlen(program);

    return str_starts(name, program) &&
           strspn(name + length, "0123456789.") == strlen(name + length);
}

bool code_of_command(const char *const *words, struct command_code *ret)
{
    size_t row = 0, at = 1;

    *ret = (struct command_code){0};
    while (row < ARRAY_SIZE(programs) && !is_program(base_name(words[0]), programs[row].program))
        row++;
    if (row == ARRAY_SIZE(programs))
        return false;
    ret->language = programs[row].language;
    for (; words[at] && words[at][0] == '-' && words[at][1]; at++) {
        const char *option = words[at], *last = option + strlen(option) - 1;

        if (option[1] == '-') /* a long option has its argument behind '=' */
            continue;
        if (strpbrk(option + 1, programs[row].module_options))
            return false;
        if (strpbrk(option + 1, programs[row].inline_options)) {
            ret->code = words[at + 1];
            return ret->code != NULL;
        }
        at += strchr(programs[row].value_options, *last) && words[at + 1] ? 1 : 0;
    }
    ret->path = words[at];
    return ret->path && !str_equal(ret->path, "-");
}

/* ---- the record ---- */

/* The session's variables as "K=V": values of secret names are looked for in the output. */
static char **env_of(const struct session *session)
{
    char **list = strv_new();
    const char *name;
    json_t *value;

    json_object_foreach(session->env, name, value)
    {
        CLEANUP(buf_free) struct buf line = BUF_INIT(LIMIT_ARGV_BYTES);

        if (json_is_string(value) &&
            buf_printf(&line, "%s=%s", name, json_string_value(value)) == 0)
            strv_push(&list, buf_text(&line));
    }
    return list;
}

/* Takes over *result and `code`. */
static void write_down(const struct session *session, struct result *result, const char *language,
                       char *code, size_t length)
{
    code_write_owned(session->manager, session->tenant, result, language, code, length,
                     env_of(session));
}

static void finish(struct code_store *store, bool has_text)
{
    struct session *session = store->session;

    for (struct code_store **at = &session->code_stores; *at; at = &(*at)->next) {
        if (*at == store) {
            *at = store->next;
            break;
        }
    }
    if (has_text && store->text.data)
        write_down(session, &store->result, store->language, ptr_take(&store->text.data),
                   store->text.length);
    else if (has_text)
        write_down(session, &store->result, store->language, strdup(""), 0);
    else
        write_down(session, &store->result, store->language, store->words, strlen(store->words));
    if (has_text)
        free(store->words);
    buf_free(&store->text);
    free(store);
}

static size_t on_data(void *ctx, const void *data, size_t length)
{
    struct code_store *store = ctx;

    /* Of a script that is larger than any code may be, the beginning is stored. */
    if (store->text.length + length <= LIMIT_CODE_BYTES)
        buf_append(&store->text, data, length);
    return length;
}

static void on_read(void *ctx, const struct error *err)
{
    finish(ctx, err->num >= 0);
}

static void read_script(struct execution *execution, struct result *result,
                        const struct command_code *code, char *words)
{
    static const struct get_events events = {.data = on_data, .done = on_read};
    struct session *session = execution->session;
    struct code_store *store = calloc(1, sizeof(*store));
    char path[LIMIT_PATH_BYTES + 1];
    struct error err = {0};

    if (!store || !words) {
        free(store);
        result_free(result);
        free(words);
        return;
    }
    *store = (struct code_store){.session = session,
                                 .result = *result,
                                 .language = code->language,
                                 .words = words,
                                 .next = session->code_stores,
                                 .text = BUF_INIT(LIMIT_CODE_BYTES)};
    session->code_stores = store;
    if (!session->box ||
        str_format(path, sizeof(path), "%s%s", code->path[0] == '/' ? "" : "/workspace/",
                   code->path) < 0 ||
        box_get(session->box, path, 0, LIMIT_CODE_BYTES, &events, store, &store->op, &err) < 0)
        finish(store, false);
}

/* The words of a command with a blank between them. */
static char *line_of(const struct account *account)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_ARGV_BYTES + 1);

    for (size_t at = 0; at < account->length;) {
        size_t length = strnlen(account->code + at, account->length - at);

        buf_printf(&text, "%s%.*s", at ? " " : "", (int)length, account->code + at);
        at += length + 1;
    }
    return text.data ? ptr_take(&text.data) : strdup("");
}

static void store_command(struct execution *execution, struct result *result)
{
    const struct account *account = execution->account;
    CLEANUP(strv_freep) char **words = strv_new();
    struct command_code code;

    for (size_t at = 0; at < account->length;) {
        size_t length = strnlen(account->code + at, account->length - at);

        strv_push_n(&words, account->code + at, length);
        at += length + 1;
    }
    if (!words || !words[0] || !code_of_command((const char *const *)words, &code)) {
        result_free(result);
    } else if (code.path) {
        read_script(execution, result, &code, line_of(account));
    } else {
        write_down(execution->session, result, code.language, strdup(code.code), strlen(code.code));
    }
}

/* A cell's exception is not part of its output: the record says it in stderr. */
static void note_exception(const struct execution *execution, struct result *result)
{
    CLEANUP(json_decrefp) json_t *cell = execution_cell_json(execution);
    json_t *error = json_object_get(cell, "error");
    const char *name = json_string_value(json_object_get(error, "name"));
    const char *value = json_string_value(json_object_get(error, "value"));

    if (name)
        result_note(result, "%s: %s", name, value ? value : "");
}

void code_store(struct execution *execution)
{
    const struct session *session = execution->session;
    const struct config *config = execution_config(execution); /* the caller's own settings */
    struct account *account = execution->account;
    struct result result;

    if (!account || !account->code || config->store_code == STORE_NEVER)
        return;
    execution_result(execution, config->limits.output_bytes, &result);
    if (!recipe_stores(config, &result)) {
        result_free(&result);
    } else if (account->is_words) {
        store_command(execution, &result);
    } else {
        note_exception(execution, &result);
        write_down(session, &result, execution->cell ? execution->cell->language : "",
                   ptr_take(&account->code), account->length);
    }
}

void code_stores_free(struct session *session)
{
    while (session->code_stores)
        finish(session->code_stores, false);
}
