/* more_backends.c - no backend besides those of backends.c; see host/backend.h. A build option puts
 * another file in this one's place. */
#include "runtime/host/backend.h"

const struct backend_row *const backend_rows_more[] = {NULL};
