/*
 * remedy.h - what to do about a Docker that cannot be reached as configured. For the provider host
 * and for commands that call Docker themselves. Pure.
 *
 * Runs in: hosts, commands
 */
#ifndef BAILEY_RUNTIME_DOCKER_REMEDY_H
#define BAILEY_RUNTIME_DOCKER_REMEDY_H

#include <stdbool.h>

#include "base/buf.h"

#define DOCKER_WANTS_TLS "it speaks TLS only"

/* A sentence for the TLS numbers of http/client.h, without its full stop; NULL for any other. */
const char *docker_tls_remedy(int num);
/* Whether this is the reply of a TLS server to a plain request. Its errno is -EPROTOTYPE then. */
bool docker_wants_tls(unsigned status, const struct buf *reply);

#endif
