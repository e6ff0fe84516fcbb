/* kernel_stub.c - until the warden knows kernels. */
#include "runtime/box/inside.h"
#include <errno.h>
int box_kernel(struct box *box, const struct exec_spec *spec, const struct exec_events *events,
               void *ctx, uint32_t *ret_id, struct error *err)
{ return box_exec(box, spec, events, ctx, ret_id, err); }
int box_kernel_given(struct box *box, uint32_t id, const struct exec_events *events, void *ctx,
                     struct error *err) {(void)box;(void)id;(void)events;(void)ctx; return error_set(err,-ENOSYS,ERROR_ENGINE,"no");}
int box_cell(struct box *box, const struct cell_spec *spec, const struct exec_events *events,
             void *ctx, uint32_t *ret_id, struct error *err){(void)box;(void)spec;(void)events;(void)ctx;(void)ret_id; return error_set(err,-ENOSYS,ERROR_ENGINE,"no");}
int box_adopt_kernel(struct box *box, uint32_t id, const struct exec_events *events, void *ctx,
                     struct error *err){(void)box;(void)id;(void)events;(void)ctx; return error_set(err,-ENOSYS,ERROR_ENGINE,"no");}
