/* zygote_stub.c - stands in for what others write: zygotes, layers, the proxy. Goes when they come.
 */
#include <errno.h>

#include "launcher/engine.h"

void zygotes_start(struct engine *engine)
{
    (void)engine;
}

void zygotes_end(struct engine *engine)
{
    (void)engine;
}

int zygotes_kernel(struct engine *engine, struct engine_box *box, uint32_t kernel, uint8_t tier)
{
    (void)engine;
    (void)box;
    (void)kernel;
    (void)tier;
    return -EAGAIN;
}

uint32_t zygotes_serving(struct engine *engine, const char *layer, uint8_t tier)
{
    (void)engine;
    (void)layer;
    (void)tier;
    return 0;
}

void zygotes_each(struct engine *engine,
                  void (*each)(void *ctx, const struct launcher_state *state), void *ctx)
{
    (void)engine;
    (void)each;
    (void)ctx;
}

void egress_add(struct engine *engine, struct engine_box *box)
{
    (void)engine;
    (void)box;
}

void egress_remove(struct engine *engine, uint32_t number)
{
    (void)engine;
    (void)number;
}
