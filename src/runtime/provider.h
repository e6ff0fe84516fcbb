/*
 * provider.h - the providers: one row for each value of SANDBOX_TYPE.
 *
 * A provider makes boxes. Everything specific to one provider is a column of its row (registry.c):
 * the settings it checks, its promised error texts, and what its boxes can do. Callers check the
 * capability bits, never the name. A row without `ops` is known but not in this build:
 * provider_find(), the only function that returns rows for making boxes, refuses it, so every door
 * refuses it with the same sentence. The code of a provider is in runtime/NAME/; a provider that
 * runs in its own process also has a row of runtime/host/backend.h.
 *
 * The rows are constants. Pure, any thread.
 *
 * Runs in: broker, commands, hosts, supervisor
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
    PROVIDER_CAN_ZYGOTE = 1 << 0, /* kernels forked from a zygote outside the box */
    PROVIDER_CAN_LAYERS = 1 << 1, /* templates: layers of the host */
    PROVIDER_CAN_BIND_DATASETS =
        1 << 2, /* folders of the host are bound; else files are copied into the box */
    PROVIDER_CAN_INSTALL = 1 << 3,      /* packages installed by an installer box */
    PROVIDER_CAN_TIME_BRINGUP = 1 << 4, /* reports how long each stage of the bring-up took */
    PROVIDER_OWN_FILESYSTEM =
        1 << 5,               /* programs and interpreters are the box's own, not the host's */
    PROVIDER_HOSTED = 1 << 6, /* `bailey-engine host NAME` makes its boxes */
    PROVIDER_STANDS_IN =
        1 << 8, /* makes the boxes of another row where that one cannot; no value of SANDBOX_TYPE */
    PROVIDER_ONE_BOX = 1 << 9,        /* has one box at a time, which one tenant owns */
    PROVIDER_DISK_IS_MEMORY = 1 << 7, /* files copied into a box count against its memory limit */
    PROVIDER_ONLY_MEANT =
        1 << 10, /* it has no default place: it cannot be used unless is_meant() */
};

struct provider_row {
    const char *name;    /* the value of SANDBOX_TYPE, and of meta.runtime */
    const char *runtime; /* PROVIDER_STANDS_IN: meta.runtime, the row that it stands in for */
    const char *title;   /* "Docker": in texts for people */
    const char *help;    /* one line */
    uint32_t can;        /* enum provider_can */
    /* PROVIDER_HOSTED: the variable of the environment that only its host gets; NULL: none. */
    const char *secret;
    /* The promised text for when it does not answer; NULL: it always does. */
    const char *unavailable;
    /* PROVIDER_HOSTED: why its boxes are lost when it stops: "the Docker daemon stopped". */
    const char *gone;
    /* Checks the provider's own settings; may merge keys with the same meaning. NULL: none. */
    int (*check)(struct config *config, struct error *err);
    /*
     * The settings that must be equal for two runs to be the same, "name=value
     * " each. NULL: none.
     */
    int (*shape)(const struct config *config, struct buf *text);
    /* An error for a setting that its boxes cannot apply in a one-shot run. NULL: all can. */
    int (*check_run)(const struct config *config, struct error *err);
    /* PROVIDER_HOSTED: its address, for people; and whether the user may mean it although
     * SANDBOX_TYPE is another: then `bailey doctor` reports on it. is_meant NULL: never. */
    const char *(*place)(const struct config *config);
    bool (*is_meant)(const struct config *config);
    /* PROVIDER_OWN_FILESYSTEM: why the box has no interpreter `program`, and what to do. */
    void (*no_program)(const struct config *config, const char *program, const char *language,
                       struct error *err);
    /* Without PROVIDER_CAN_LAYERS: the error for a requested template. */
    int (*no_template)(const char *name, struct error *err);
    const char *no_install; /* without PROVIDER_CAN_INSTALL: the text that refuses it */
    const char *more_disk;  /* PROVIDER_DISK_IS_MEMORY: which settings to raise */
    /* One box, for a command that waits (runtime/runtime.h). NULL: not in this build. */
    const struct runtime_ops *ops;
};

#define PROVIDERS_MAX 16
#define PROVIDER_LOCAL "local" /* the default, and the one that others fall back to */

/* The row of a name; NULL: unknown. Also returns rows that are not in this build. */
const struct provider_row *provider_known(const char *name);
/* All rows, in the order of the documentation; NULL after the last. */
const struct provider_row *provider_at(size_t index);
/* Their names, NULL after the last. Returns `names`. */
const char *const *provider_names(const char *names[PROVIDERS_MAX + 1]);
/* The names with commas between; only those in this build, or all. Returns `text`. */
#define PROVIDER_LIST_MAX 256
const char *provider_list(bool only_built, char text[PROVIDER_LIST_MAX]);

/* The row that makes boxes of this type, or the one error for a type that is not available. */
int provider_find(const char *name, const struct provider_row **ret, struct error *err);

bool provider_can(const struct provider_row *row, uint32_t bits); /* all of the bits */

/* The name that results and errors have for it; NULL for NULL. */
const char *provider_runtime(const struct provider_row *row);
/* The row that stands in for this one; NULL: none does. */
const struct provider_row *provider_stand_in(const struct provider_row *row);

/* Rows that a build option adds (more_rows.c); NULL after the last. */
extern const struct provider_row *const provider_rows_more[];

#endif
