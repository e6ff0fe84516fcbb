/* recipe.c - what a one-shot run consists of, and what its result says; see recipe.h. */
#include "recipe/recipe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/id.h"
#include "base/limits.h"
#include "base/str.h"
#include "interpreter/language.h"
#include "runtime/outcome.h"
#include "runtime/provider.h"
#include "store/artifact.h"

#define TEMPLATE_PYTHON "/bailey/template/bin/python" /* docs/design, "Warm Python" */
#define NAME_MAX_BYTES 255

static bool is_python(const char *language)
{
    return language && str_equal(language, "python");
}

/* ---- what it consists of ---- */

const char *recipe_program(const char *language, const char *program, bool has_layer)
{
    return has_layer && is_python(language) ? TEMPLATE_PYTHON : program;
}

/* The interpreter and its script. */
static int begin_argv(struct recipe *recipe, const struct recipe_spec *spec, struct error *err)
{
    /* A name that begins like an option would be taken for one. */
    bool is_like_option = spec->name[0] == '-';
    char name[NAME_MAX_BYTES + 1];

    if (str_format(name, sizeof(name), "%s%s", is_like_option ? "./" : "", spec->name) < 0)
        return error_set(err, -ENAMETOOLONG, ERROR_BAD_INPUT, "the file's name is too long");
    if (asprintf(&recipe->path, "/workspace/%s", spec->name) < 0)
        recipe->path = NULL;
    if (!recipe->path || strv_push(&recipe->argv, spec->program) < 0 ||
        strv_push(&recipe->argv, name) < 0)
        return error_memory(err);
    return 0;
}

static bool is_set(const char *variable, const char *const *env)
{
    size_t length = strcspn(variable, "=") + 1;

    for (; env && *env; env++) {
        if (strncmp(*env, variable, length) == 0)
            return true;
    }
    return false;
}

static int add_all(char ***list, const char *const *words)
{
    int r = 0;

    for (; words && *words && r == 0; words++)
        r = strv_push(list, *words);
    return r;
}

static int make_env(struct recipe *recipe, const struct recipe_spec *spec)
{
    const char *const *given = spec->template_env;
    int r = 0;

    for (; given && *given && r == 0; given++) {
        if (is_set(*given, spec->env))
            continue;
        r = strv_push(&recipe->env, *given);
        recipe->env_given++;
    }
    return r < 0 ? r : add_all(&recipe->env, spec->env);
}

int recipe_make(struct recipe *recipe, const struct recipe_spec *spec, struct error *err)
{
    int r = 0;

    *recipe = (struct recipe){.config = spec->config,
                              .language = spec->language,
                              .code = spec->code,
                              .code_length = spec->code_length,
                              .argv = strv_new(),
                              .env = strv_new(),
                              .has_input = spec->has_input,
                              .timeout_ms = spec->timeout_ms};
    if (!recipe->argv || !recipe->env)
        return error_memory(err);
    if (spec->language)
        r = begin_argv(recipe, spec, err);
    if (r < 0)
        return r;
    r = add_all(&recipe->argv, spec->arguments);
    if (r == 0)
        r = make_env(recipe, spec);
    return r < 0 ? error_set(err, r, ERROR_ENGINE, "out of memory") : 0;
}

void recipe_free(struct recipe *recipe)
{
    strv_free(recipe->argv);
    strv_free(recipe->env);
    free(recipe->path);
    *recipe = (struct recipe){0};
}

const char *recipe_name(const struct recipe *recipe)
{
    return recipe->path ? recipe->argv[1] : NULL;
}

/* ---- its order ---- */

static bool is_needed(const struct recipe *recipe, enum recipe_step step)
{
    switch (step) {
    case RECIPE_SOURCE:
        return recipe->path && !recipe->has_kernel;
    case RECIPE_IMPORTS:
        return recipe->config->block_imports && is_python(recipe->language);
    case RECIPE_OUTPUT:
        return recipe->has_output;
    case RECIPE_FILES:
    case RECIPE_PROGRAM:
    case RECIPE_OVER:
        break;
    }
    return true;
}

enum recipe_step recipe_next(const struct recipe *recipe, enum recipe_step done)
{
    enum recipe_step step = done;

    do
        step = step == RECIPE_OVER ? step : step + 1;
    while (!is_needed(recipe, step));
    return step;
}

struct exec_spec recipe_exec(const struct recipe *recipe)
{
    return (struct exec_spec){
        .argv = (const char *const *)recipe->argv,
        .env = (const char *const *)recipe->env,
        .stdin_open = recipe->has_input,
        .ends_box = true,
        .timeout_ms = recipe->timeout_ms,
    };
}

/* ---- what the result says ---- */

void recipe_begin(const struct config *config, struct result *result)
{
    result->runtime = config->type;
    id_make(result->execution_id, "exec");
}

int recipe_fall_back(struct recipe *recipe, struct result *result, const char *wanted,
                     const char *why, const char *program)
{
    char *copy = program ? strdup(program) : NULL;

    if (program && !copy)
        return -ENOMEM;
    if (copy) {
        free(recipe->argv[0]);
        recipe->argv[0] = copy;
    }
    result_set_fallback(result, wanted, why);
    return 0;
}

int recipe_not_put(const char *path, struct error *err)
{
    char prefix[LIMIT_PATH_BYTES + 32];

    if (err->num == -ENOSPC)
        return error_set(err, -ENOSPC, ERROR_TOO_LARGE,
                         "copying in '%s': the box's disk is full; give it more with --disk", path);
    if (err->code == ERROR_ENGINE) /* the warden's answer about this file, not about the box */
        err->code = ERROR_BAD_INPUT;
    str_format(prefix, sizeof(prefix), "copying in '%s'", path);
    error_prefix(err, prefix);
    return err->num;
}

bool recipe_no_interpreter(const struct config *config, const struct provider_row *provider,
                           const char *language, const char *program, struct error *err)
{
    const struct language_row *row = language_find(language);

    if (!provider || !provider->no_program || err->code != ERROR_COMMAND_NOT_FOUND)
        return false;
    provider->no_program(config, program, row ? row->title : language, err);
    return true;
}

/* The first folder on the way to `path` that others than its owner may not enter. */
static bool find_closed_folder(const char *path, char *folder, size_t size)
{
    for (const char *end = strchr(path, '/'); end; end = strchr(end + 1, '/')) {
        struct stat status;

        if (end == path || str_format(folder, size, "%.*s", (int)(end - path), path) < 0)
            continue;
        if (stat(folder, &status) == 0 && !(status.st_mode & S_IXOTH))
            return true;
    }
    return false;
}

/*
 * Without a mount namespace an interpreter cannot be shown past a folder that only its owner
 * enters: root's guest has an id of its own. The folder may be on the way to the program, or to
 * what it is a link to.
 */
static void explain_closed_folder(const char *program, const char *language, struct error *err)
{
    CLEANUP(freep) char *target = realpath(program, NULL);
    const char *other =
        is_python(language) ? "SANDBOX_PYTHON=/usr/bin/python3" : "SANDBOX_NODE=/usr/bin/node";
    char folder[LIMIT_PATH_BYTES];

    if (find_closed_folder(program, folder, sizeof(folder)) ||
        (target && find_closed_folder(target, folder, sizeof(folder))))
        error_set(
            err, -EACCES, ERROR_NO_INTERPRETER,
            "%.200s: the guest's id may not enter the folder '%.200s', and without namespaces "
            "the program cannot be shown anywhere else; let others enter it "
            "(chmod o+x '%.200s'), or name another program with %s",
            program, folder, folder, other);
}

int recipe_not_started(const struct recipe *recipe, const struct provider_row *provider,
                       uint32_t layers, struct error *err)
{
    const char *program = recipe->argv[0];

    if (err->code == ERROR_COMMAND_NOT_FOUND || err->code == ERROR_NOT_EXECUTABLE)
        error_prefix(err, program);
    if (!recipe->language)
        return err->num;
    recipe_no_interpreter(recipe->config, provider, recipe->language, program, err);
    if (err->num == -EACCES && !(layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_MOUNTNS)))
        explain_closed_folder(program, recipe->language, err);
    return err->num;
}

void recipe_ended(struct recipe *recipe, struct result *result, const struct exec_end *end)
{
    outcome_end(result, end);
    recipe->has_output = end->has_output;
}

int recipe_cancelled(struct error *err)
{
    return error_set(err, -ECANCELED, ERROR_CANCELLED, "the run was ended by its caller");
}

/* Was it the request that was wrong, so that there is no execution to keep? */
static bool is_callers_fault(const char *code)
{
    return code == ERROR_BAD_INPUT || code == ERROR_BAD_CONFIG || code == ERROR_NOT_FOUND ||
           code == ERROR_NO_INTERPRETER || code == ERROR_TOO_LARGE;
}

int recipe_store(const struct config *config, const struct artifact *artifact, char **ret_path,
                 struct error *err)
{
    if (!artifact->language || is_callers_fault(artifact->result->error.code) ||
        !config_stores(config, artifact->result))
        return 0;
    return artifact_write(artifact, ret_path, err);
}
