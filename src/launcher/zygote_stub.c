/* zygote_stub.c - stands in for what others write: the proxy. Goes when it comes. */
#include "launcher/engine.h"

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
