/*
 * listed.h - the interpreters of SANDBOX_INTERPRETERS, found when `bailey serve` starts: callers
 * can name them for their sessions besides the server's own. Reads a few files of the host.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_LISTED_H
#define BAILEY_CLI_LISTED_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "interpreter/language.h"
#include "supervisor/supervisor.h"

#define LISTED_MAX 8

struct config;
typedef struct json_t json_t;

struct listed {
    size_t count;
    char *named[LISTED_MAX]; /* as configured */
    struct interpreter found[LISTED_MAX];
    struct supervisor_interpreter spec[LISTED_MAX]; /* borrows from `found` */
};

/* An interpreter that is named and not usable is an error: nothing is left out. */
int listed_find(const struct config *config, struct listed *ret, struct error *err);
/* One more, which `found` becomes; false: there is no room for it, and it is freed. */
bool listed_add(struct listed *listed, const char *named, struct interpreter *found);
/* [{"named": PATH, "program": PATH}] for the broker; NULL: no memory. */
json_t *listed_json(const struct listed *listed);
void listed_free(struct listed *listed);

#endif
