/* response_row.c - rows of responses; see response_row.h. */
#include "store/response_row.h"

#include "store/index_private.h"

int response_row_put(struct index *index, const struct response_row *row, struct error *err)
{
    struct place place = index_place(index, PUT_RESPONSE);

    index_put_text(&place, row->id);
    index_put_text(&place, row->tenant);
    index_put_number(&place, row->created_ms);
    index_put_text(&place, row->status);
    index_put_text(&place, row->previous);
    index_put_text(&place, row->container);
    index_put_number(&place, row->bytes);
    index_put_text(&place, row->document);
    index_put_text(&place, row->input);
    return index_run(&place, err);
}

struct listing {
    response_each *each;
    void *ctx;
};

static void on_row(struct place *place, void *ctx)
{
    const struct listing *listing = ctx;
    struct response_row row = {0};

    row.id = index_take_text(place);
    row.tenant = index_take_text(place);
    row.created_ms = index_take_number(place);
    row.status = index_take_text(place);
    row.previous = index_take_text(place);
    row.container = index_take_text(place);
    row.bytes = index_take_number(place);
    row.document = index_take_text(place);
    row.input = index_take_text(place);
    if (row.id && row.tenant && row.status && row.document && row.input)
        listing->each(listing->ctx, &row);
}

int response_row_get(struct index *index, const char *tenant, const char *id, response_each *each,
                     void *ctx, struct error *err)
{
    struct place place = index_place(index, GET_RESPONSE);
    struct listing listing = {.each = each, .ctx = ctx};

    index_put_text(&place, id);
    index_put_text(&place, tenant);
    return index_each_row(&place, on_row, &listing, err);
}

int response_row_put_item(struct index *index, const char *response, const char *item,
                          struct error *err)
{
    struct place place = index_place(index, PUT_RESPONSE_ITEM);

    index_put_text(&place, item);
    index_put_text(&place, response);
    return index_run(&place, err);
}

int response_row_of_item(struct index *index, const char *tenant, const char *item,
                         response_each *each, void *ctx, struct error *err)
{
    struct place place = index_place(index, GET_RESPONSE_OF_ITEM);
    struct listing listing = {.each = each, .ctx = ctx};

    index_put_text(&place, tenant);
    index_put_text(&place, item);
    return index_each_row(&place, on_row, &listing, err);
}

int response_row_drop(struct index *index, const char *id, struct error *err)
{
    struct place place = index_place(index, DROP_RESPONSE);

    index_put_text(&place, id);
    return index_run(&place, err);
}

int response_row_oldest(struct index *index, const char *tenant, unsigned most, response_each *each,
                        void *ctx, struct error *err)
{
    struct place place = index_place(index, OLD_RESPONSE);
    struct listing listing = {.each = each, .ctx = ctx};

    index_put_text(&place, tenant);
    index_put_number(&place, most);
    return index_each_row(&place, on_row, &listing, err);
}

int response_row_count(struct index *index, const char *tenant, response_each *each, void *ctx,
                       struct error *err)
{
    struct place place = index_place(index, COUNT_RESPONSE);
    struct listing listing = {.each = each, .ctx = ctx};

    index_put_text(&place, tenant);
    return index_each_row(&place, on_row, &listing, err);
}

int response_row_sum(struct index *index, response_each *each, void *ctx, struct error *err)
{
    struct place place = index_place(index, SUM_RESPONSE);
    struct listing listing = {.each = each, .ctx = ctx};

    return index_each_row(&place, on_row, &listing, err);
}

int response_row_fail_all(struct index *index, struct error *err)
{
    return index_run_plain(index, FAIL_RESPONSE, err);
}
