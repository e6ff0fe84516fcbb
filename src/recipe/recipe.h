/*
 * recipe.h - what a one-shot run consists of: the program and its words, its environment, the
 * source in the box, the order of the steps, and what the result says when one of them fails or the
 * program ends.
 *
 * Two callers carry it out: a command that waits (oneshot/oneshot.c) and the broker, on its reactor
 * (session/run.c). They move bytes and wait, each in its own way; what is done, and with which
 * words it is told, is here. Starts nothing and does not block, but for recipe_store().
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_RECIPE_RECIPE_H
#define BAILEY_RECIPE_RECIPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "model/result.h"
#include "runtime/box/box.h"

struct artifact;
struct provider_row;

/* In the order in which they are done; recipe_next() leaves out what a run does not need. */
enum recipe_step {
    RECIPE_FILES,   /* the caller's files are put into the box */
    RECIPE_SOURCE,  /* the code is put into the box, as `path` */
    RECIPE_IMPORTS, /* its imports are checked */
    RECIPE_PROGRAM, /* the program runs, from its start to its end */
    RECIPE_OUTPUT,  /* files in /tmp/output are listed, and fetched on request */
    RECIPE_OVER,
};

struct recipe_spec {
    const struct config *config;
    const char *language; /* "python"; NULL: `arguments` are a command as it is */
    const char *program;  /* with a language: the interpreter, as the box has it */
    const char *name;     /* with a language: of the source in /workspace */
    const char *code;     /* with a language: (pointer, length) */
    size_t code_length;
    const char *const *arguments;                 /* NULL: none */
    const char *const *template_env, *const *env; /* "K=V"; the second wins. NULL: none */
    bool has_input;                               /* standard input is given */
    uint64_t timeout_ms;
};

/* Owns its vectors; config, language and code are borrowed. Zeroed is a valid empty one. */
struct recipe {
    const struct config *config;
    const char *language;
    const char *code;
    size_t code_length;
    char **argv;      /* strv: the program and its words */
    char **env;       /* strv: the template's variables, then the caller's */
    size_t env_given; /* the index of the caller's first */
    char *path;       /* of the source in the box; NULL: there is none */
    bool has_input;   /* else standard input is /dev/null */
    uint64_t timeout_ms;
    bool has_kernel; /* set by the caller: a kernel that came with the box puts the source there */
    bool has_output; /* the program left something in /tmp/output */
};

/* The interpreter of a language in a box that may have a template's layer. */
const char *recipe_program(const char *language, const char *program, bool has_layer);

int recipe_make(struct recipe *recipe, const struct recipe_spec *spec, struct error *err);
void recipe_free(struct recipe *recipe);

/* The name of the source as the interpreter gets it: the first word behind it. */
const char *recipe_name(const struct recipe *recipe);

/* The step behind one that went well. */
enum recipe_step recipe_next(const struct recipe *recipe, enum recipe_step done);

/* RECIPE_PROGRAM as a command; its vectors are the recipe's. */
struct exec_spec recipe_exec(const struct recipe *recipe);

/* ---- what the result says ---- */

/* A new id, and the runtime that is asked for the box. */
void recipe_begin(const struct config *config, struct result *result);

/* The box is one of another provider than `wanted`: the interpreter changes, and the result says
 * why. `program` NULL: it stays. 0 or -ENOMEM. */
int recipe_fall_back(struct recipe *recipe, struct result *result, const char *wanted,
                     const char *why, const char *program);

/* Explains why a file did not get into the box at `path`. Returns err->num. */
int recipe_not_put(const char *path, struct error *err);

/* Explains that a box of this provider lacks the interpreter; false: it does not lack it, or the
 * provider, if there is one, has nothing to say. */
bool recipe_no_interpreter(const struct config *config, const struct provider_row *provider,
                           const char *language, const char *program, struct error *err);

/*
 * Explains why the program did not start in a box that this provider made, with these isolation
 * layers (bits). Returns err->num.
 */
int recipe_not_started(const struct recipe *recipe, const struct provider_row *provider,
                       uint32_t layers, struct error *err);

/* The program has ended. */
void recipe_ended(struct recipe *recipe, struct result *result, const struct exec_end *end);

/* The caller ended the run. Returns -ECANCELED. */
int recipe_cancelled(struct error *err);

/*
 * SANDBOX_STORE_CODE: writes the run down if that says so. A command has no code to store, and a
 * run that was refused for what was asked did not happen. *ret_path is the file, owned by the
 * caller; NULL: none was written. Blocks for the disk.
 */
int recipe_store(const struct config *config, const struct artifact *artifact, char **ret_path,
                 struct error *err);
/* Whether SANDBOX_STORE_CODE keeps code with this result; not where the request was wrong. */
bool recipe_stores(const struct config *config, const struct result *result);

#endif
