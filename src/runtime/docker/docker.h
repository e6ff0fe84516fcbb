/*
 * docker.h - the runtime `docker` of a one-shot run: one container, made by a provider host of its
 * own.
 *
 * The provider host is the program bailey-engine (box_spec.engine), started for this box and gone
 * with it: whatever happens to us, it sees the end of its rendezvous socket and removes the
 * container. Needs no HTTP library in this program. Blocks for the bring-up; ends early when
 * box_spec.cancel_fd says so.
 *
 * Runs in: hosts, commands
 */
#ifndef BAILEY_RUNTIME_DOCKER_DOCKER_H
#define BAILEY_RUNTIME_DOCKER_DOCKER_H

#include "runtime/runtime.h"

extern const struct runtime_ops docker_ops;

#endif
