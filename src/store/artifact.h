/*
 * artifact.h - executions kept on disk: artifacts/executions/<timestamp>_<hash>.json.
 *
 * Written atomically with mode 0600 beneath a folder the caller names; values of secret-looking
 * variables and tokens are redacted. Blocks for the disk. Called by tool/ and cli/.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_STORE_ARTIFACT_H
#define BAILEY_STORE_ARTIFACT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "model/result.h"

struct artifact {
    const char *folder;   /* "artifacts" in the working folder: executions/ is made in it */
    const int *folder_fd; /* the folder itself, opened; its name is then only for the path */
    const char *language; /* "python" */
    const char *code;     /* (pointer, length): may hold any byte */
    size_t code_length;
    const char *const *env; /* "K=V" given by the caller; NULL: none */
    const struct result *result;
};

/* *ret_path is the file's absolute path, owned by the caller. */
int artifact_write(const struct artifact *artifact, char **ret_path, struct error *err);

/*
 * Replaces what looks like a secret in text by "[redacted]": values of NAME=value, NAME: value,
 * "NAME": "value" whose name contains KEY, TOKEN, SECRET, PASSWORD, PASSWD, CREDENTIAL, AUTH, and
 * well-known token shapes (sk-..., ghp_..., AKIA..., xox?-..., bly_..., eyJ... JWTs, PEM private
 * keys, Bearer ...). Takes linear time and keeps the lines and valid UTF-8. `ret` is cleared first
 * and has its own maximum: four times the length is always enough (-EFBIG, -ENOMEM).
 */
int redact(const char *text, size_t length, struct buf *ret);

#endif
