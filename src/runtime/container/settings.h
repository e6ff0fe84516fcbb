/*
 * settings.h - the columns of the row `container` (runtime/registry.c) that are texts and
 * functions: what a container that is its own only box cannot do. Pure.
 *
 * Runs in: hosts, commands
 */
#ifndef BAILEY_RUNTIME_CONTAINER_SETTINGS_H
#define BAILEY_RUNTIME_CONTAINER_SETTINGS_H

#include "base/error.h"

#define CONTAINER_NO_INSTALL                                                                      \
    "packages cannot be installed into this session: this container gives no namespaces, so the " \
    "session is the container itself, without a network. Install them into the container before " \
    "('pip install' as its own user), or start it so that 'bailey doctor' finds namespaces"

int container_settings_no_template(const char *name, struct error *err);

#endif
