/*
 * more_backends.c - the empty list of further backends; see host/backend.h. A build option replaces
 * this file by another.
 */
#include "runtime/host/backend.h"

const struct backend_row *const backend_rows_more[] = {NULL};
