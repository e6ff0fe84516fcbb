/*
 * row.c - the provider `clone`, which is only in builds for tests (-Dtest_provider=true): in place
 * of src/runtime/more_rows.c. Its boxes are plain processes in namespaces of their own (box.c),
 * made by a provider host (backend.c), with other capability bits than any provider of the program.
 */
#include <errno.h>
#include <stdlib.h>

#include "config/config.h"
#include "runtime/host/hosted.h"
#include "runtime/provider.h"

static const char *place(const struct config *config)
{
    (void)config;
    return "this machine";
}

/* A daemon of another type has boxes of this one too, if the test says so. */
static bool is_meant(const struct config *config)
{
    (void)config;
    return getenv("BAILEY_TEST_CLONE") != NULL;
}

static int no_template(const char *name, struct error *err)
{
    return error_set(err, -ENOTSUP, ERROR_BAD_INPUT, "template '%.64s': boxes of clone have none",
                     name);
}

static void no_program(const struct config *config, const char *program, const char *language,
                       struct error *err)
{
    (void)config;
    error_set(err, -ENOENT, ERROR_NO_INTERPRETER, "this machine has no %s, which %s code needs",
              program, language);
}

static const struct provider_row clone_row = {
    .name = "clone",
    .title = "clone(2)",
    .help = "namespaces of a process, for tests",
    .can = PROVIDER_HOSTED | PROVIDER_OWN_FILESYSTEM,
    .unavailable = "clone(2) not available",
    .gone = "clone(2) stopped",
    .place = place,
    .is_meant = is_meant,
    .no_template = no_template,
    .no_program = no_program,
    .no_install = "packages cannot be installed into boxes of clone",
    .ops = &hosted_ops,
};

const struct provider_row *const provider_rows_more[] = {&clone_row, NULL};
