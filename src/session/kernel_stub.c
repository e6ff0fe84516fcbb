/* kernel_stub.c - stands in for what contexts will do with a kernel's end. Goes when they come. */
#include "session/engine.h"

void engine_kernel_ended(struct engine *engine, const struct kernel_end *end)
{
    (void)engine;
    (void)end;
}
