/* index_code.c - rows of stored code; see index.h. */
#include "store/index_private.h"

int index_put_code(struct index *index, const struct index_code *code, struct error *err)
{
    struct place place = index_place(index, PUT_CODE);

    index_put_text(&place, code->name);
    index_put_text(&place, code->tenant);
    index_put_number(&place, code->bytes);
    index_put_number(&place, code->created_ms);
    return index_run(&place, err);
}

int index_drop_code(struct index *index, const char *name, struct error *err)
{
    struct place place = index_place(index, DROP_CODE);

    index_put_text(&place, name);
    return index_run(&place, err);
}

struct listing {
    void (*each)(void *ctx, const struct index_code *code);
    void *ctx;
};

static void on_row(struct place *place, void *ctx)
{
    const struct listing *listing = ctx;
    struct index_code code = {0};

    code.name = index_take_text(place);
    code.tenant = index_take_text(place);
    code.bytes = index_take_number(place);
    code.created_ms = index_take_number(place);
    if (code.name && code.tenant)
        listing->each(listing->ctx, &code);
}

int index_due_code(struct index *index, uint64_t ms,
                   void (*each)(void *ctx, const struct index_code *code), void *ctx,
                   struct error *err)
{
    struct place place = index_place(index, DUE_CODE);
    struct listing listing = {.each = each, .ctx = ctx};

    index_put_number(&place, ms);
    return index_each_row(&place, on_row, &listing, err);
}

int index_sum_code(struct index *index, void (*each)(void *ctx, const struct index_code *code),
                   void *ctx, struct error *err)
{
    struct place place = index_place(index, SUM_CODE);
    struct listing listing = {.each = each, .ctx = ctx};

    return index_each_row(&place, on_row, &listing, err);
}
