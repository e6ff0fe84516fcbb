/*
 * document.h - what an artifact says, as JSON text without secrets. Inside of store/ only. No I/O.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_STORE_DOCUMENT_H
#define BAILEY_STORE_DOCUMENT_H

#include "base/error.h"
#include "store/artifact.h"

/*
 * {"code","language","env","result","timestamp","metadata"}, and "time" and "engine_version" for
 * older readers. Every string in it went through redact(), and what was secret in env or in the
 * code is gone wherever it appears. *ret is the caller's to free.
 */
int document_make(const struct artifact *artifact, char **ret, struct error *err);

#endif
