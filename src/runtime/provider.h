/*
 * provider.h - the providers: one row for each value of SANDBOX_TYPE.
 *
 * A provider makes boxes. Everything that is particular to one is a column of its row (registry.c):
 * the settings it checks, the sentences it promises, and what its boxes can do. Callers ask the
 * capability bits, never the name. A row without `ops` is known and not in this build: the only
 * function that hands out rows for making boxes, provider_find(), refuses it, so every door does
 * with one sentence. The code of a provider lies in runtime/NAME/; what runs in a process of its
 * own is a row of runtime/host/backend.h besides.
 *
 * The rows are constants. Pure, any thread.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_RUNTIME_PROVIDER_H
#define BAILEY_RUNTIME_PROVIDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

struct config;
struct runtime_ops;

/* What boxes of a provider can do, and what they need. */
enum provider_can {
    PROVIDER_CAN_ZYGOTE = 1 << 0,        /* kernels forked from a zygote outside of the box */
    PROVIDER_CAN_LAYERS = 1 << 1,        /* templates: layers of this machine */
    PROVIDER_CAN_BIND_DATASETS = 1 << 2, /* folders of this machine; else files are copied in */
    PROVIDER_CAN_INSTALL = 1 << 3,       /* packages that an installer box fetched */
    PROVIDER_CAN_TIME_BRINGUP = 1 << 4,  /* tells how long each stage of the bring-up took */
    PROVIDER_OWN_FILESYSTEM = 1 << 5,    /* programs and interpreters are the box's, not ours */
    PROVIDER_HOSTED = 1 << 6,            /* `bailey-engine host NAME` makes its boxes */
    PROVIDER_DISK_IS_MEMORY = 1 << 7,    /* what is copied into a box uses up its memory limit */
};

struct provider_row {
    const char *name;  /* the value of SANDBOX_TYPE, and of meta.runtime */
    const char *title; /* "Docker": in sentences for people */
    const char *help;  /* one line */
    uint32_t can;      /* enum provider_can */
    /* The promised sentence for when it does not answer; NULL: it always does. */
    const char *unavailable;
    /* PROVIDER_HOSTED: why its boxes were lost with it: "the Docker daemon stopped". */
    const char *gone;
    /* Checks the settings that are its own; may settle keys that mean the same. NULL: none. */
    int (*check)(struct config *config, struct error *err);
    /* The settings that two runs must agree in, "name=value\n" each. NULL: none. */
    int (*shape)(const struct config *config, struct buf *text);
    /* An error for a setting that its boxes cannot follow in a one-shot run. NULL: all can. */
    int (*check_run)(const struct config *config, struct error *err);
    /* PROVIDER_HOSTED: where it is, for people; and whether somebody could mean it though
     * SANDBOX_TYPE is another: `bailey doctor` reports on it then. is_meant NULL: never. */
    const char *(*place)(const struct config *config);
    bool (*is_meant)(const struct config *config);
    /* PROVIDER_OWN_FILESYSTEM: why the box has no interpreter `program`, and what to do. */
    void (*no_program)(const struct config *config, const char *program, const char *language,
                       struct error *err);
    /* Without PROVIDER_CAN_LAYERS: the error for a template that somebody asks for. */
    int (*no_template)(const char *name, struct error *err);
    const char *no_install; /* without PROVIDER_CAN_INSTALL: the sentence that refuses it */
    const char *more_disk;  /* PROVIDER_DISK_IS_MEMORY: which settings to raise */
    /* One box, for a command that waits (runtime/runtime.h). NULL: not in this build. */
    const struct runtime_ops *ops;
};

#define PROVIDERS_MAX 16
#define PROVIDER_LOCAL "local" /* the default, and the one that others fall back to */

/* The row of a name; NULL: nobody knows it. Also of those that are not in this build. */
const struct provider_row *provider_known(const char *name);
/* All rows, in the order of the documentation; NULL behind the last. */
const struct provider_row *provider_at(size_t index);
/* Their names, NULL behind the last. Returns `names`. */
const char *const *provider_names(const char *names[PROVIDERS_MAX + 1]);
/* The names with commas between; only those in this build, or all. Returns `text`. */
#define PROVIDER_LIST_MAX 256
const char *provider_list(bool only_built, char text[PROVIDER_LIST_MAX]);

/* The row that makes boxes of this type, or the one error for a type that cannot. */
int provider_find(const char *name, const struct provider_row **ret, struct error *err);

bool provider_can(const struct provider_row *row, uint32_t bits); /* all of them */

/* Rows that a build option adds (more_rows.c); NULL behind the last. */
extern const struct provider_row *const provider_rows_more[];

#endif
