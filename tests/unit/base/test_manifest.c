/* test_manifest.c - what is in a folder, written down, and whether it still is. */
#include "scratch.h"

#include <errno.h>
#include <stdbool.h>

#include "base/folder.h"
#include "base/manifest.h"

struct place {
    struct scratch scratch;
    int fd; /* its folder "layers" */
};

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof(*place));

    scratch_make(&place->scratch);
    place->fd = open(scratch_folder(&place->scratch, "layers"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(place->fd >= 0);
    umask(022);
    *state = place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;

    close(place->fd);
    assert_int_equal(folder_remove(AT_FDCWD, place->scratch.path), 0);
    free(place);
    return 0;
}

/* The text of <layers>/<name>; its manifest's numbers in *ret. */
static void text_of(struct place *place, const char *name, struct buf *text, struct manifest *ret)
{
    struct error err = {0};
    int fd = openat(place->fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    assert_true(fd >= 0);
    if (manifest_read(fd, NULL, NULL, ret, &err) < 0)
        fail_msg("%s", err.text);
    assert_int_equal(manifest_print(ret, text), 0);
    close(fd);
}

static void test_text(void **state)
{
    struct place *place = *state;
    struct buf text = BUF_INIT(65536);
    struct manifest manifest = {0};
    char hash[SHA256_TEXT];

    scratch_folder(&place->scratch, "layers/x/b");
    scratch_write(&place->scratch, "layers/x/b/abc", "abc");
    scratch_write(&place->scratch, "layers/x/a", "");
    scratch_write(&place->scratch, "layers/x/two words\nand a \\ line\177", "abc");
    assert_int_equal(chmod(scratch_path(&place->scratch, "layers/x/b/abc"), 0755), 0);
    assert_int_equal(symlink("b c", scratch_path(&place->scratch, "layers/x/link")), 0);
    text_of(place, "x", &text, &manifest);
#define ABC "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert_string_equal(
        buf_text(&text),
        "100644 0 e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 a\n"
        "040755 0 - b\n"
        "100755 3 " ABC " b/abc\n"
        "120777 3 b\\040c link\n"
        "100644 3 " ABC " two\\040words\\012and\\040a\\040\\134\\040line\\177\n");
    assert_int_equal(manifest.bytes, 6);
    assert_int_equal(manifest.files, 3);
    assert_int_equal(manifest.count, 5);
    manifest_name(&text, hash);
    assert_int_equal(strlen(hash), 64);
    manifest_free(&manifest);
    manifest_free(&manifest);
    buf_free(&text);
}

/* A file with several names has one content, read and counted once. */
static void test_hard_links(void **state)
{
    struct place *place = *state;
    struct buf text = BUF_INIT(8 * 1024 * 1024);
    struct manifest manifest = {0};
    char name[64];

    scratch_folder(&place->scratch, "layers/x");
    scratch_write(&place->scratch, "layers/x/one", "abc");
    for (int i = 0; i < 5000; i++) { /* more than the table begins with */
        snprintf(name, sizeof(name), "x/%04d", i);
        if (i % 2 == 0) {
            char own[64];

            snprintf(own, sizeof(own), "layers/x/%04d", i);
            scratch_write(&place->scratch, own, "d");
            snprintf(own, sizeof(own), "x/+%04d", i);
            assert_int_equal(linkat(place->fd, name, place->fd, own, 0), 0);
        } else {
            assert_int_equal(linkat(place->fd, "x/one", place->fd, name, 0), 0);
        }
    }
    text_of(place, "x", &text, &manifest);
    assert_int_equal(manifest.files, 1 + 2500 + 2 * 2500);
    assert_int_equal(manifest.bytes, 3 + 2500);
    for (size_t i = 0; i < manifest.count; i++) {
        const struct manifest_entry *entry = &manifest.entries[i];
        bool is_one = entry->path[0] == 'o' || (entry->path[0] != '+' && entry->path[3] % 2);

        assert_int_equal(entry->size, is_one ? 3 : 1);
        assert_int_equal(entry->digest[0], is_one ? 0xba : 0x18); /* of "abc", of "d" */
    }
    manifest_free(&manifest);
    buf_free(&text);
}

static void test_what_is_refused(void **state)
{
    struct place *place = *state;
    struct manifest manifest = {0};
    struct error err = {0};
    char path[1024] = "layers/deep";
    int fd;

    scratch_folder(&place->scratch, "layers/x");
    assert_int_equal(mkfifo(scratch_path(&place->scratch, "layers/x/fi\033fo"), 0644), 0);
    fd = openat(place->fd, "x", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(manifest_read(fd, NULL, NULL, &manifest, &err), -EINVAL);
    assert_non_null(strstr(err.text, "'fi?fo'")); /* and nothing that a terminal obeys */
    close(fd);
    for (int i = 0; i < 100; i++)
        strcat(path, "/d");
    scratch_folder(&place->scratch, path);
    fd = openat(place->fd, "deep", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(manifest_read(fd, NULL, NULL, &manifest, &err), -ELOOP);
    assert_ptr_equal(err.code, ERROR_TOO_LARGE);
    close(fd);
    /* A file of holes says how much there would be to read. */
    scratch_folder(&place->scratch, "layers/y");
    scratch_write(&place->scratch, "layers/y/holes", "");
    assert_int_equal(truncate(scratch_path(&place->scratch, "layers/y/holes"), 1LL << 40), 0);
    fd = openat(place->fd, "y", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(manifest_read(fd, NULL, NULL, &manifest, &err), -EFBIG);
    assert_ptr_equal(err.code, ERROR_TOO_LARGE);
    close(fd);
}

/* A layer as committing leaves it, without its chown and chmod. */
static void make_layer(struct place *place, char hash[SHA256_TEXT])
{
    struct buf text = BUF_INIT(65536);
    struct manifest manifest = {0};
    char name[128];

    scratch_folder(&place->scratch, "layers/x/b");
    scratch_write(&place->scratch, "layers/x/a", "one");
    scratch_write(&place->scratch, "layers/x/b/c", "two");
    text_of(place, "x", &text, &manifest);
    manifest_name(&text, hash);
    snprintf(name, sizeof(name), "layers/%s.manifest", hash);
    scratch_write(&place->scratch, name, buf_text(&text));
    assert_int_equal(renameat(place->fd, "x", place->fd, hash), 0);
    manifest_free(&manifest);
    buf_free(&text);
}

static void expect_bad(struct place *place, const char *hash, const char *text)
{
    struct error err = {0};

    assert_int_equal(manifest_verify(place->fd, hash, NULL, NULL, &err), -EBADMSG);
    assert_string_equal(err.text, text);
}

static void test_verify(void **state)
{
    struct place *place = *state;
    struct error err = {0};
    char hash[SHA256_TEXT], name[128];
    uint64_t bytes = 0, files = 0;

    make_layer(place, hash);
    assert_int_equal(manifest_verify(place->fd, hash, &bytes, &files, &err), 0);
    assert_int_equal(bytes, 6);
    assert_int_equal(files, 2);
    snprintf(name, sizeof(name), "layers/%s/a", hash);
    scratch_write(&place->scratch, name, "eno");
    expect_bad(place, hash, "'a' was changed");
    scratch_write(&place->scratch, name, "one");
    assert_int_equal(chmod(scratch_path(&place->scratch, name), 0600), 0);
    expect_bad(place, hash, "'a' was changed");
    assert_int_equal(unlink(scratch_path(&place->scratch, name)), 0);
    expect_bad(place, hash, "'a' is missing");
    scratch_write(&place->scratch, name, "one");
    assert_int_equal(manifest_verify(place->fd, hash, NULL, NULL, &err), 0);
    snprintf(name, sizeof(name), "layers/%s/b/d", hash);
    scratch_write(&place->scratch, name, "");
    expect_bad(place, hash, "'b/d' was added");
    assert_int_equal(unlink(scratch_path(&place->scratch, name)), 0);
    snprintf(name, sizeof(name), "layers/%s/b/c", hash);
    assert_int_equal(unlink(scratch_path(&place->scratch, name)), 0);
    expect_bad(place, hash, "'b/c' is missing");
    assert_int_equal(manifest_verify(place->fd, "none", NULL, NULL, &err), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_hard_links, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_verify, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("base/manifest", tests, NULL, NULL);
}
