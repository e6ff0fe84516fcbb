/*
 * docker.h - Docker's Engine API as the backend of a provider host (host/backend.h).
 *
 * Runs in: hosts, broker, commands
 */
#ifndef BAILEY_RUNTIME_DOCKER_DOCKER_H
#define BAILEY_RUNTIME_DOCKER_DOCKER_H

#include "runtime/host/backend.h"

extern const struct backend_ops docker_ops;

#endif
