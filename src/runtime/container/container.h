/*
 * container.h - the container that the engine runs in as the only box, as the backend of a provider
 * host (host/backend.h).
 *
 * Runs in: hosts, commands
 */
#ifndef BAILEY_RUNTIME_CONTAINER_CONTAINER_H
#define BAILEY_RUNTIME_CONTAINER_CONTAINER_H

#include "runtime/host/backend.h"

extern const struct backend_ops container_ops;

#endif
