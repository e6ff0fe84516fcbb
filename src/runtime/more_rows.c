/*
 * more_rows.c - the empty list of further providers; see provider.h. A build option replaces this
 * file by another.
 */
#include "runtime/provider.h"

const struct provider_row *const provider_rows_more[] = {NULL};
