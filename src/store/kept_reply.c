/* kept_reply.c - rows of requests with an Idempotency-Key; see kept_reply.h. */
#include "store/kept_reply.h"

#include "base/cleanup.h"
#include "store/index_private.h"

int kept_reply_begin(struct index *index, const struct kept_reply *row, struct error *err)
{
    struct place place = index_place(index, BEGIN_REPLY);

    index_put_text(&place, row->owner);
    index_put_text(&place, row->key);
    index_put_text(&place, row->request);
    index_put_number(&place, row->created_ms);
    return index_run(&place, err);
}

int kept_reply_end(struct index *index, const struct kept_reply *row, struct error *err)
{
    struct place place = index_place(index, END_REPLY);

    index_put_text(&place, row->owner);
    index_put_text(&place, row->key);
    index_put_number(&place, row->status);
    index_put_text(&place, row->session);
    index_put_text(&place, row->type);
    index_put_bytes(&place, row->data, row->length);
    return index_run(&place, err);
}

int kept_reply_drop(struct index *index, const char *owner, const char *key, struct error *err)
{
    struct place place = index_place(index, DROP_REPLY);

    index_put_text(&place, owner);
    index_put_text(&place, key);
    return index_run(&place, err);
}

struct finding {
    void (*found)(void *ctx, const struct kept_reply *row);
    void *ctx;
};

static void on_row(struct place *place, void *ctx)
{
    const struct finding *finding = ctx;
    struct kept_reply row = {0};

    row.request = index_take_text(place);
    row.created_ms = index_take_number(place);
    row.status = (unsigned)index_take_number(place);
    row.type = index_take_text(place);
    row.data = index_take_bytes(place, &row.length);
    if (row.request)
        finding->found(finding->ctx, &row);
}

int kept_reply_find(struct index *index, const char *owner, const char *key,
                    void (*found)(void *ctx, const struct kept_reply *row), void *ctx,
                    struct error *err)
{
    struct place place = index_place(index, GET_REPLY);
    struct finding finding = {.found = found, .ctx = ctx};

    index_put_text(&place, owner);
    index_put_text(&place, key);
    return index_each_row(&place, on_row, &finding, err);
}

int kept_reply_trim(struct index *index, const char *tenant, const struct kept_reply_bounds *bounds,
                    struct error *err)
{
    const struct {
        enum statement which;
        uint64_t keep;
    } steps[] = {{TRIM_REPLIES, bounds->rows}, {TRIM_REPLY_BYTES, bounds->bytes}};
    struct place place = index_place(index, AGE_REPLIES);
    int r;

    index_put_number(&place, bounds->since_ms);
    r = index_run(&place, err);
    for (size_t i = 0; i < ARRAY_SIZE(steps) && r == 0; i++) {
        place = index_place(index, steps[i].which);
        index_put_text(&place, tenant);
        index_put_number(&place, steps[i].keep);
        r = index_run(&place, err);
    }
    return r;
}
