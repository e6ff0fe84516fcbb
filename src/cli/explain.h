/*
 * explain.h - what isolated a run and where its time went, as short tables for people. Pure: prints
 * into a buffer.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_EXPLAIN_H
#define BAILEY_CLI_EXPLAIN_H

#include <stdint.h>

#include "base/buf.h"
#include "model/result.h"
#include "oneshot/oneshot.h"

int explain_result(const struct result *result, struct buf *to);
int explain_timing(const struct oneshot_extra *extra, struct buf *to);

/* "30 s", "0.5 s" */
void explain_seconds(uint64_t ms, char *text, size_t size);

#endif
