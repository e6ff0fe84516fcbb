/* output_row.c - rows of outputs and secrets; see output_row.h. */
#include "store/output_row.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "store/index_private.h"

int output_row_put(struct index *index, const struct output_row *row, struct error *err)
{
    struct place place = index_place(index, PUT_OUTPUT_ROW);

    index_put_text(&place, row->id);
    index_put_text(&place, row->session);
    index_put_text(&place, row->tenant);
    index_put_text(&place, row->name);
    index_put_text(&place, row->type);
    index_put_text(&place, row->sha256);
    index_put_number(&place, row->bytes);
    index_put_number(&place, row->created_ms);
    index_put_number(&place, row->expires_ms);
    index_put_number(&place, row->is_kept);
    return index_run(&place, err);
}

static void take_text(struct place *place, char *text, size_t size)
{
    const char *found = index_take_text(place);

    if (!str_copy(text, size, found ? found : ""))
        place->code = SQLITE_CORRUPT;
}

static void take_row(struct place *place, struct output_row *row)
{
    index_take_id(place, row->id);
    index_take_id(place, row->session);
    take_text(place, row->tenant, sizeof(row->tenant));
    take_text(place, row->name, sizeof(row->name));
    take_text(place, row->type, sizeof(row->type));
    take_text(place, row->sha256, sizeof(row->sha256));
    row->bytes = index_take_number(place);
    row->created_ms = index_take_number(place);
    row->expires_ms = index_take_number(place);
    row->is_kept = index_take_number(place) != 0;
}

struct getting {
    struct output_row *row;
    int count;
};

static void get_row(struct place *place, void *ctx)
{
    struct getting *getting = ctx;

    take_row(place, getting->row);
    getting->count = 1;
}

int output_row_get(struct index *index, const char *id, struct output_row *ret, struct error *err)
{
    struct place place = index_place(index, GET_OUTPUT_ROW);
    struct getting getting = {.row = ret};
    int r;

    index_put_text(&place, id);
    r = index_each_row(&place, get_row, &getting, err);
    return r < 0 ? r : getting.count;
}

int output_row_drop(struct index *index, const char *id, struct error *err)
{
    struct place place = index_place(index, DROP_OUTPUT_ROW);

    index_put_text(&place, id);
    return index_run(&place, err);
}

struct output_call {
    void (*each)(void *ctx, const struct output_row *row);
    void *ctx;
};

static void each_row(struct place *place, void *ctx)
{
    struct output_call *call = ctx;
    struct output_row row;

    take_row(place, &row);
    if (place->code == SQLITE_OK)
        call->each(call->ctx, &row);
}

int output_row_each(struct index *index, const char *session,
                    void (*each)(void *ctx, const struct output_row *row), void *ctx,
                    struct error *err)
{
    struct output_call call = {.each = each, .ctx = ctx};
    struct place place = index_place(index, EACH_OUTPUT_ROW);
    int r = index_check_idle(index, EACH_OUTPUT_ROW, err);

    if (r < 0)
        return r;
    index_put_text(&place, session);
    return index_each_row(&place, each_row, &call, err);
}

int output_row_due(struct index *index, uint64_t now_ms,
                   void (*each)(void *ctx, const struct output_row *row), void *ctx,
                   struct error *err)
{
    struct output_call call = {.each = each, .ctx = ctx};
    struct place place = index_place(index, DUE_OUTPUT_ROW);
    int r = index_check_idle(index, DUE_OUTPUT_ROW, err);

    if (r < 0)
        return r;
    index_put_number(&place, now_ms);
    return index_each_row(&place, each_row, &call, err);
}

int output_row_list(struct index *index, const struct output_filter *filter,
                    void (*each)(void *ctx, const struct output_row *row), void *ctx,
                    struct error *err)
{
    struct output_call call = {.each = each, .ctx = ctx};
    enum statement which = filter->tenant ? LIST_OUTPUT_ROW_OF : LIST_OUTPUT_ROW;
    struct place place = index_place(index, which);
    int r = index_check_idle(index, which, err);

    if (r < 0)
        return r;
    if (filter->tenant)
        index_put_text(&place, filter->tenant);
    index_put_number(&place, filter->only_kept);
    index_put_number(&place, filter->now_ms);
    index_put_number(&place, filter->maximum);
    return index_each_row(&place, each_row, &call, err);
}

int output_row_kept(struct index *index, const char *tenant,
                    void (*each)(void *ctx, const struct output_row *row), void *ctx,
                    struct error *err)
{
    struct output_call call = {.each = each, .ctx = ctx};
    struct place place = index_place(index, KEPT_OUTPUT_ROW);
    int r = index_check_idle(index, KEPT_OUTPUT_ROW, err);

    if (r < 0)
        return r;
    index_put_text(&place, tenant ? tenant : "");
    return index_each_row(&place, each_row, &call, err);
}

static void take_time(struct place *place, void *ctx)
{
    *(uint64_t *)ctx = index_take_number(place);
}

int output_row_next(struct index *index, uint64_t *ret_ms, struct error *err)
{
    struct place place = index_place(index, NEXT_OUTPUT_ROW);

    *ret_ms = UINT64_MAX;
    return index_each_row(&place, take_time, ret_ms, err);
}

/* ---- secrets ---- */

static void take_secret(struct place *place, void *ctx)
{
    take_text(place, ctx, SHA256_TEXT);
}

static int get_secret(struct index *index, const char *name, char text[SHA256_TEXT],
                      struct error *err)
{
    struct place place = index_place(index, GET_SECRET);

    text[0] = '\0';
    index_put_text(&place, name);
    return index_each_row(&place, take_secret, text, err);
}

static int make_secret(struct index *index, const char *name, char text[SHA256_TEXT],
                       struct error *err)
{
    struct place place = index_place(index, PUT_SECRET);
    uint8_t bytes[SHA256_BYTES];

    if (getrandom(bytes, sizeof(bytes), 0) != (ssize_t)sizeof(bytes))
        return error_errno(err, "random numbers for a secret");
    sha256_text(bytes, text);
    explicit_bzero(bytes, sizeof(bytes));
    index_put_text(&place, name);
    index_put_text(&place, text);
    return index_run(&place, err);
}

int index_secret(struct index *index, const char *name, uint8_t secret[SHA256_BYTES],
                 struct error *err)
{
    char text[SHA256_TEXT];
    int r = get_secret(index, name, text, err);

    if (r == 0 && !text[0])
        r = make_secret(index, name, text, err);
    /* What is signed with is the hash of the text, so that its shape does not matter. */
    if (r == 0)
        sha256(text, strlen(text), secret);
    explicit_bzero(text, sizeof(text));
    return r;
}
