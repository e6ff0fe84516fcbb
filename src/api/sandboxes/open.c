/* open.c - opens and closes what a door of sandboxes keeps between calls; see e2b.h. */
#include <stdlib.h>
#include <string.h>

#include "api/sandboxes/e2b.h"
#include "store/output_row.h"

#define SECRET "e2b" /* name of the secret that tokens are made with */

int e2b_open(struct front *front, const struct e2b_wire *wire, void **ret, struct error *err)
{
    struct e2b *e2b = calloc(1, sizeof(*e2b));

    *ret = e2b;
    if (!e2b)
        return error_memory(err);
    e2b->front = front;
    e2b->wire = wire;
    return index_secret(front->auth.index, SECRET, e2b->secret, err);
}

void e2b_close(void *door)
{
    struct e2b *e2b = door;

    e2b_watchers_free(e2b);
    e2b_processes_free(e2b);
    explicit_bzero(e2b->secret, sizeof(e2b->secret));
    free(e2b);
}
