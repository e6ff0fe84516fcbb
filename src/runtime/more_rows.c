/* more_rows.c - no provider besides those of registry.c; see provider.h. A build option puts
 * another file in this one's place. */
#include "runtime/provider.h"

const struct provider_row *const provider_rows_more[] = {NULL};
