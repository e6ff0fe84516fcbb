/* container_row.c - rows of containers, their files, and uploaded files; see container_row.h. */
#include "store/container_row.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "store/index_private.h"

static void take_text(struct place *place, char *text, size_t size)
{
    const char *found = index_take_text(place);

    if (!str_copy(text, size, found ? found : ""))
        place->code = SQLITE_CORRUPT;
}

/* A statement with one text as its parameter and no rows. */
static int run_with(struct index *index, enum statement which, const char *text, struct error *err)
{
    struct place place = index_place(index, which);

    index_put_text(&place, text);
    return index_run(&place, err);
}

/* ---- containers ---- */

int container_row_put(struct index *index, const struct container_row *row, struct error *err)
{
    struct place place = index_place(index, PUT_CONTAINER);

    index_put_text(&place, row->id);
    index_put_text(&place, row->session);
    index_put_text(&place, row->tenant);
    index_put_text(&place, row->name);
    index_put_text(&place, row->memory_limit);
    index_put_number(&place, row->created_ms);
    index_put_number(&place, row->used_ms);
    index_put_number(&place, row->minutes);
    index_put_number(&place, row->has_policy);
    index_put_number(&place, row->is_provisional);
    return index_run(&place, err);
}

static void take_container(struct place *place, struct container_row *row)
{
    index_take_id(place, row->id);
    index_take_id(place, row->session);
    take_text(place, row->tenant, sizeof(row->tenant));
    take_text(place, row->name, sizeof(row->name));
    take_text(place, row->memory_limit, sizeof(row->memory_limit));
    row->created_ms = index_take_number(place);
    row->used_ms = index_take_number(place);
    row->minutes = (unsigned)index_take_number(place);
    row->has_policy = index_take_number(place) != 0;
    row->is_provisional = index_take_number(place) != 0;
}

struct got_container {
    struct container_row *row;
    int count;
};

static void get_container(struct place *place, void *ctx)
{
    struct got_container *got = ctx;

    take_container(place, got->row);
    got->count = 1;
}

static int get_one(struct index *index, enum statement which, const char *text,
                   struct container_row *ret, struct error *err)
{
    struct place place = index_place(index, which);
    struct got_container got = {.row = ret};
    int r;

    index_put_text(&place, text);
    r = index_each_row(&place, get_container, &got, err);
    return r < 0 ? r : got.count;
}

int container_row_get(struct index *index, const char *id, struct container_row *ret,
                      struct error *err)
{
    return get_one(index, GET_CONTAINER, id, ret, err);
}

int container_row_of_session(struct index *index, const char *session, struct container_row *ret,
                             struct error *err)
{
    return get_one(index, GET_CONTAINER_OF, session, ret, err);
}

int container_row_drop(struct index *index, const char *id, struct error *err)
{
    return run_with(index, DROP_CONTAINER, id, err);
}

struct container_call {
    void (*each)(void *ctx, const struct container_row *row);
    void *ctx;
};

static void each_container(struct place *place, void *ctx)
{
    struct container_call *call = ctx;
    struct container_row row;

    take_container(place, &row);
    if (place->code == SQLITE_OK)
        call->each(call->ctx, &row);
}

int container_row_each(struct index *index, const char *tenant,
                       void (*each)(void *ctx, const struct container_row *row), void *ctx,
                       struct error *err)
{
    struct container_call call = {.each = each, .ctx = ctx};
    struct place place = index_place(index, EACH_CONTAINER);
    int r = index_check_idle(index, EACH_CONTAINER, err);

    if (r < 0)
        return r;
    index_put_text(&place, tenant);
    return index_each_row(&place, each_container, &call, err);
}

int container_row_drop_provisional(struct index *index, struct error *err)
{
    return index_run_plain(index, DROP_PROVISIONAL, err);
}

/* ---- files of containers ---- */

int container_file_put(struct index *index, const struct container_file *file, struct error *err)
{
    struct place place = index_place(index, PUT_CONTAINER_FILE);

    index_put_text(&place, file->id);
    index_put_text(&place, file->container);
    index_put_text(&place, file->path);
    index_put_number(&place, file->created_ms);
    index_put_number(&place, file->bytes);
    index_put_number(&place, file->change_ns);
    index_put_number(&place, file->seen_ms);
    index_put_number(&place, file->is_users);
    index_put_text(&place, file->upload);
    return index_run(&place, err);
}

int container_file_drop(struct index *index, const char *id, struct error *err)
{
    return run_with(index, DROP_CONTAINER_FILE, id, err);
}

struct file_call {
    void (*each)(void *ctx, const struct container_file *file);
    void *ctx;
};

static void each_file(struct place *place, void *ctx)
{
    struct file_call *call = ctx;
    struct container_file file = {0};

    index_take_id(place, file.id);
    index_take_id(place, file.container);
    file.path = index_take_text(place);
    file.created_ms = index_take_number(place);
    file.bytes = index_take_number(place);
    file.change_ns = index_take_number(place);
    file.seen_ms = index_take_number(place);
    file.is_users = index_take_number(place) != 0;
    index_take_id(place, file.upload);
    if (place->code == SQLITE_OK && file.path)
        call->each(call->ctx, &file);
}

int container_file_rows(struct index *index, const char *container,
                        void (*each)(void *ctx, const struct container_file *file), void *ctx,
                        struct error *err)
{
    struct file_call call = {.each = each, .ctx = ctx};
    struct place place = index_place(index, EACH_CONTAINER_FILE);
    int r = index_check_idle(index, EACH_CONTAINER_FILE, err);

    if (r < 0)
        return r;
    index_put_text(&place, container);
    return index_each_row(&place, each_file, &call, err);
}

int container_rows_begin(struct index *index, struct error *err)
{
    return index_run_plain(index, BEGIN, err);
}

int container_rows_end(struct index *index, struct error *err)
{
    int r = index_run_plain(index, COMMIT, err);

    if (r < 0)
        index_run_plain(index, ROLLBACK, NULL);
    return r;
}

/* ---- uploaded files ---- */

int upload_row_put(struct index *index, const struct upload_row *row, struct error *err)
{
    struct place place = index_place(index, PUT_UPLOAD);

    index_put_text(&place, row->id);
    index_put_text(&place, row->tenant);
    index_put_text(&place, row->filename);
    index_put_text(&place, row->purpose);
    index_put_number(&place, row->bytes);
    index_put_number(&place, row->created_ms);
    index_put_number(&place, row->expires_ms);
    return index_run(&place, err);
}

static void take_upload(struct place *place, struct upload_row *row)
{
    index_take_id(place, row->id);
    take_text(place, row->tenant, sizeof(row->tenant));
    take_text(place, row->filename, sizeof(row->filename));
    take_text(place, row->purpose, sizeof(row->purpose));
    row->bytes = index_take_number(place);
    row->created_ms = index_take_number(place);
    row->expires_ms = index_take_number(place);
}

struct got_upload {
    struct upload_row *row;
    int count;
};

static void get_upload(struct place *place, void *ctx)
{
    struct got_upload *got = ctx;

    take_upload(place, got->row);
    got->count = 1;
}

int upload_row_get(struct index *index, const char *id, struct upload_row *ret, struct error *err)
{
    struct place place = index_place(index, GET_UPLOAD);
    struct got_upload got = {.row = ret};
    int r;

    index_put_text(&place, id);
    r = index_each_row(&place, get_upload, &got, err);
    return r < 0 ? r : got.count;
}

int upload_row_drop(struct index *index, const char *id, struct error *err)
{
    return run_with(index, DROP_UPLOAD, id, err);
}

struct upload_call {
    void (*each)(void *ctx, const struct upload_row *row);
    void *ctx;
};

static void each_upload(struct place *place, void *ctx)
{
    struct upload_call *call = ctx;
    struct upload_row row;

    take_upload(place, &row);
    if (place->code == SQLITE_OK)
        call->each(call->ctx, &row);
}

int upload_row_each(struct index *index, const char *tenant,
                    void (*each)(void *ctx, const struct upload_row *row), void *ctx,
                    struct error *err)
{
    struct upload_call call = {.each = each, .ctx = ctx};
    enum statement which = tenant ? EACH_UPLOAD : ALL_UPLOADS;
    struct place place = index_place(index, which);
    int r = index_check_idle(index, which, err);

    if (r < 0)
        return r;
    if (tenant)
        index_put_text(&place, tenant);
    return index_each_row(&place, each_upload, &call, err);
}

static void take_count(struct place *place, void *ctx)
{
    *(uint64_t *)ctx = index_take_number(place);
}

int upload_row_count(struct index *index, const char *tenant, uint64_t *ret, struct error *err)
{
    struct place place = index_place(index, COUNT_UPLOADS);

    *ret = 0;
    index_put_text(&place, tenant);
    return index_each_row(&place, take_count, ret, err);
}
