/* index_context.c - the rows of contexts: which kernels a session has; see index.h. */
#include "store/index_private.h"

int index_put_context(struct index *index, const struct index_context *context, struct error *err)
{
    struct place place = index_place(index, PUT_CONTEXT);

    index_put_text(&place, context->session);
    index_put_number(&place, context->number);
    index_put_text(&place, context->language);
    index_put_text(&place, context->name);
    index_put_text(&place, context->cwd);
    index_put_number(&place, context->is_default);
    index_put_number(&place, context->kernel);
    index_put_number(&place, context->warm);
    index_put_number(&place, context->cells);
    index_put_number(&place, context->started_ms);
    index_put_number(&place, context->used_ms);
    index_put_text(&place, context->note);
    return index_run(&place, err);
}

int index_drop_context(struct index *index, const char *session, uint32_t number, struct error *err)
{
    struct place place = index_place(index, DROP_CONTEXT);

    index_put_text(&place, session);
    index_put_number(&place, number);
    return index_run(&place, err);
}

struct context_call {
    void (*each)(void *ctx, const struct index_context *context);
    void *ctx;
};

static void context_row(struct place *place, void *ctx)
{
    struct context_call *call = ctx;
    struct index_context context = {0};

    index_take_id(place, context.session);
    context.number = (uint32_t)index_take_number(place);
    context.language = index_take_text(place);
    context.name = index_take_text(place);
    context.cwd = index_take_text(place);
    context.is_default = index_take_number(place) != 0;
    context.kernel = (uint32_t)index_take_number(place);
    context.warm = (uint32_t)index_take_number(place);
    context.cells = (uint32_t)index_take_number(place);
    context.started_ms = index_take_number(place);
    context.used_ms = index_take_number(place);
    context.note = index_take_text(place);
    if (place->code == SQLITE_OK)
        call->each(call->ctx, &context);
}

int index_each_context(struct index *index, const char *session,
                       void (*each)(void *ctx, const struct index_context *context), void *ctx,
                       struct error *err)
{
    struct context_call call = {.each = each, .ctx = ctx};
    struct place place = index_place(index, EACH_CONTEXT);
    int r = index_check_idle(index, EACH_CONTEXT, err);

    if (r < 0)
        return r;
    index_put_text(&place, session);
    return index_each_row(&place, context_row, &call, err);
}
