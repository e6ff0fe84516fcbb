/*
 * settings.h - the columns of Docker's row (runtime/registry.c) that are functions: its settings
 * checked, compared between two runs, and named where a container lacks something.
 *
 * Memory and CPU have two keys: a flag wins, then an explicit DOCKER_*, then an explicit SANDBOX_*,
 * then Docker's default. Both keys, and `limits`, have the winner's value and source after the
 * check, so a process that gets all of them as variables makes the same decision. Pure.
 *
 * Runs in: hosts, broker, commands
 */
#ifndef BAILEY_RUNTIME_DOCKER_SETTINGS_H
#define BAILEY_RUNTIME_DOCKER_SETTINGS_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"

struct config;

#define DOCKER_UNAVAILABLE "Docker daemon not available" /* promised text; a reason follows */
#define DOCKER_NO_INSTALL                                                                          \
    "packages cannot be installed into a container: put them into its image ('bailey image build " \
    "--template NAME', then DOCKER_IMAGE), or set SANDBOX_TYPE=local"

int docker_settings_check(struct config *config, struct error *err);
int docker_settings_shape(const struct config *config, struct buf *text);
int docker_settings_check_run(const struct config *config, struct error *err);
const char *docker_settings_place(const struct config *config);
bool docker_settings_is_meant(
    const struct config *config); /* a socket exists, or one was configured */
int docker_settings_no_template(const char *name, struct error *err);
void docker_settings_no_program(const struct config *config, const char *program,
                                const char *language, struct error *err);

#endif
