/* test_container_row.c - containers, their files and uploaded files in the index. */
#include "place.h"

#include "base/str.h"
#include "store/container_row.h"

static struct container_row row_of(const char *id, const char *session, const char *tenant)
{
    struct container_row row = {.created_ms = 1, .used_ms = 2, .minutes = 20, .has_policy = true};

    str_copy(row.id, sizeof(row.id), id);
    str_copy(row.session, sizeof(row.session), session);
    str_copy(row.tenant, sizeof(row.tenant), tenant);
    str_copy(row.name, sizeof(row.name), "n");
    str_copy(row.memory_limit, sizeof(row.memory_limit), "1g");
    return row;
}

static void put_file(struct index *index, const char *id, const char *container, const char *path)
{
    struct container_file file = {
        .path = path, .created_ms = 3, .bytes = 4, .change_ns = 5, .seen_ms = 6};
    struct error err = {0};

    str_copy(file.id, sizeof(file.id), id);
    str_copy(file.container, sizeof(file.container), container);
    str_copy(file.upload, sizeof(file.upload), path[1] == 'b' ? "file-1" : "");
    assert_int_equal(container_file_put(index, &file, &err), 0);
}

struct heard {
    char text[200];
};

static void add(struct heard *heard, const char *text)
{
    size_t length = strlen(heard->text);

    str_copy(heard->text + length, sizeof(heard->text) - length, text);
}

static void on_row(void *ctx, const struct container_row *row)
{
    struct heard *heard = ctx;

    add(heard, row->id);
}

static void on_file(void *ctx, const struct container_file *file)
{
    struct heard *heard = ctx;

    assert_int_equal(file->bytes, 4);
    assert_int_equal(file->seen_ms, 6);
    assert_string_equal(file->upload, file->path[1] == 'b' ? "file-1" : "");
    add(heard, file->path);
}

static void on_upload(void *ctx, const struct upload_row *row)
{
    struct heard *heard = ctx;

    add(heard, row->filename);
}

static void test_containers(void **state)
{
    struct place *place = *state;
    struct container_row row = row_of("cntr_1", "s_1", "acme"), ret;
    struct heard heard = {""};
    struct error err = {0};

    assert_int_equal(container_row_put(place->index, &row, &err), 0);
    row = row_of("cntr_2", "s_2", "acme");
    row.is_provisional = true;
    assert_int_equal(container_row_put(place->index, &row, &err), 0);
    row = row_of("cntr_3", "s_3", "other");
    assert_int_equal(container_row_put(place->index, &row, &err), 0);
    index_close(place->index);
    open_index(place);
    assert_int_equal(container_row_get(place->index, "cntr_1", &ret, &err), 1);
    assert_string_equal(ret.memory_limit, "1g");
    assert_int_equal(ret.minutes, 20);
    assert_true(ret.has_policy && !ret.is_provisional);
    assert_int_equal(container_row_of_session(place->index, "s_3", &ret, &err), 1);
    assert_string_equal(ret.id, "cntr_3");
    assert_int_equal(container_row_get(place->index, "cntr_9", &ret, &err), 0);
    assert_int_equal(container_row_each(place->index, "acme", on_row, &heard, &err), 0);
    assert_string_equal(heard.text, "cntr_1cntr_2");
    assert_int_equal(container_row_drop_provisional(place->index, &err), 0);
    assert_int_equal(container_row_get(place->index, "cntr_2", &ret, &err), 0);
    assert_int_equal(container_row_get(place->index, "cntr_1", &ret, &err), 1);
}

static void test_files_go_with_their_container(void **state)
{
    struct place *place = *state;
    struct container_row row = row_of("cntr_1", "s_1", "acme");
    struct heard heard = {""};
    struct error err = {0};

    assert_int_equal(container_row_put(place->index, &row, &err), 0);
    put_file(place->index, "cfile_1", "cntr_1", "/b");
    put_file(place->index, "cfile_2", "cntr_1", "/a");
    put_file(place->index, "cfile_1", "cntr_1", "/b"); /* changed: keeps its place */
    assert_int_equal(container_file_rows(place->index, "cntr_1", on_file, &heard, &err), 0);
    assert_string_equal(heard.text, "/b/a");
    assert_int_equal(container_file_drop(place->index, "cfile_1", &err), 0);
    assert_int_equal(container_row_drop(place->index, "cntr_1", &err), 0);
    heard.text[0] = '\0';
    assert_int_equal(container_file_rows(place->index, "cntr_1", on_file, &heard, &err), 0);
    assert_string_equal(heard.text, "");
}

static void test_uploads(void **state)
{
    struct place *place = *state;
    struct upload_row row = {.id = "file-1",
                             .tenant = "acme",
                             .filename = "a.csv",
                             .purpose = "user_data",
                             .bytes = 7,
                             .created_ms = 1,
                             .expires_ms = 9};
    struct upload_row ret;
    struct heard heard = {""};
    struct error err = {0};

    assert_int_equal(upload_row_put(place->index, &row, &err), 0);
    str_copy(row.id, sizeof(row.id), "file-2");
    str_copy(row.tenant, sizeof(row.tenant), "other");
    str_copy(row.filename, sizeof(row.filename), "b.csv");
    assert_int_equal(upload_row_put(place->index, &row, &err), 0);
    assert_int_equal(upload_row_get(place->index, "file-1", &ret, &err), 1);
    assert_string_equal(ret.filename, "a.csv");
    assert_string_equal(ret.purpose, "user_data");
    assert_true(ret.bytes == 7 && ret.expires_ms == 9);
    assert_int_equal(upload_row_each(place->index, "acme", on_upload, &heard, &err), 0);
    assert_string_equal(heard.text, "a.csv");
    assert_int_equal(upload_row_each(place->index, NULL, on_upload, &heard, &err), 0);
    assert_string_equal(heard.text, "a.csva.csvb.csv");
    assert_int_equal(upload_row_drop(place->index, "file-1", &err), 0);
    assert_int_equal(upload_row_get(place->index, "file-1", &ret, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_containers, place_open, place_remove),
        cmocka_unit_test_setup_teardown(test_files_go_with_their_container, place_open,
                                        place_remove),
        cmocka_unit_test_setup_teardown(test_uploads, place_open, place_remove),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
