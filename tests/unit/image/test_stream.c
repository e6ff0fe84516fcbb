/* test_stream.c - an image's files as a tar archive, read back by hand and by tar(1). */
#include "scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/folder.h"
#include "base/limits.h"
#include "base/str.h"
#include "image/root.h"
#include "image/stream.h"

static int set_up(void **state)
{
    struct scratch *scratch = calloc(1, sizeof(*scratch));

    scratch_make(scratch);
    *state = scratch;
    return 0;
}

static int tear_down(void **state)
{
    struct scratch *scratch = *state;

    assert_int_equal(folder_remove(AT_FDCWD, scratch->path), 0);
    free(scratch);
    return 0;
}

/* All of the archive, asked for in pieces of `step` bytes. */
static void read_all(const struct image_tree *tree, size_t step, struct buf *to)
{
    CLEANUP(image_stream_free) struct image_stream stream;
    char data[4096];
    long got;

    image_stream_begin(&stream, tree);
    while ((got = image_stream_read(&stream, data, step)) > 0)
        assert_int_equal(buf_append(to, data, (size_t)got), 0);
    assert_int_equal(got, 0);
    assert_int_equal(stream.files, tree->files);
    assert_int_equal(stream.bytes, tree->bytes);
    assert_int_equal(to->length % TAR_BLOCK, 0);
}

static const char *write_file(struct scratch *scratch, const char *name, const char *text)
{
    scratch_write(scratch, name, text);
    return scratch_path(scratch, name);
}

static void repeat(char *text, size_t size, const char *part)
{
    text[0] = '\0';
    while (strlen(text) + strlen(part) < size)
        strncat(text, part, size - strlen(text) - 1);
}

static void fill(struct image_tree *tree, struct scratch *scratch, bool is_reversed)
{
    char deep[400], target[300];
    struct error err = {0};
    int r = 0;

    repeat(deep, sizeof(deep), "folder/");
    deep[strlen(deep) - 1] = 'x';
    repeat(target, sizeof(target), "../far");
    if (is_reversed)
        r |= image_tree_link(tree, "usr/link", target, &err);
    r |= image_tree_file(tree, "usr/file", write_file(scratch, "one", "hello\n"), 0751, 6, 1234567,
                         &err);
    r |= image_tree_text(tree, deep, "deep", 0640, &err);
    r |= image_tree_text(tree, "usr/empty", "", 0600, &err);
    r |= image_tree_folder(tree, "tmp", 01777, 0, &err);
    r |= image_tree_folder(tree, "home/user", 0755, 1000, &err);
    if (!is_reversed)
        r |= image_tree_link(tree, "usr/link", target, &err);
    r |= image_tree_text(tree, "usr/empty", "a second one does not count", 0600, &err);
    assert_int_equal(r, 0);
    assert_int_equal(image_tree_finish(tree, &err), 0);
}

/* Same files, in another order and by other pieces: the same bytes. */
static void test_same_bytes(void **state)
{
    CLEANUP(image_tree_free) struct image_tree one = {0}, other = {0};
    CLEANUP(buf_free) struct buf first = BUF_INIT(MIB), second = BUF_INIT(MIB);

    fill(&one, *state, false);
    fill(&other, *state, true);
    read_all(&one, 4096, &first);
    read_all(&other, 7, &second);
    assert_int_equal(first.length, second.length);
    assert_memory_equal(first.data, second.data, first.length);
}

static void unpack(struct scratch *scratch, const struct buf *archive, const char *folder)
{
    char path[4096];
    CLEANUP(fd_closep) int fd = -1;
    pid_t pid;
    int status;

    str_format(path, sizeof(path), "%s/archive.tar", scratch->path);
    fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(fd_write_all(fd, archive->data, archive->length), 0);
    pid = fork();
    if (pid == 0) {
        execlp("tar", "tar", "-xpf", path, "-C", folder, "--no-same-owner", NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void test_what_tar_makes_of_it(void **state)
{
    struct scratch *scratch = *state;
    CLEANUP(image_tree_free) struct image_tree tree = {0};
    CLEANUP(buf_free) struct buf archive = BUF_INIT(MIB), text = BUF_INIT(KIB);
    char deep[400], path[4096], target[300], found[4096];
    const char *folder = strdup(scratch_folder(scratch, "out"));
    struct stat status;
    ssize_t length;

    fill(&tree, scratch, false);
    read_all(&tree, 4096, &archive);
    unpack(scratch, &archive, folder);

    repeat(deep, sizeof(deep), "folder/");
    deep[strlen(deep) - 1] = 'x';
    str_format(path, sizeof(path), "%s/%s", folder, deep);
    assert_int_equal(image_read(path, &text, NULL), 0);
    assert_string_equal(buf_text(&text), "deep");
    repeat(target, sizeof(target), "../far");
    str_format(path, sizeof(path), "%s/usr/link", folder);
    length = readlink(path, found, sizeof(found) - 1);
    assert_true(length > 0);
    found[length] = '\0';
    assert_string_equal(found, target);
    str_format(path, sizeof(path), "%s/usr/file", folder);
    assert_int_equal(lstat(path, &status), 0);
    assert_int_equal(status.st_mode, S_IFREG | 0751);
    assert_int_equal(status.st_mtim.tv_sec, 1234567);
    assert_int_equal(status.st_size, 6);
    str_format(path, sizeof(path), "%s/tmp", folder);
    assert_int_equal(lstat(path, &status), 0);
    assert_int_equal(status.st_mode, S_IFDIR | 01777);
    str_format(path, sizeof(path), "%s/usr/empty", folder);
    assert_int_equal(lstat(path, &status), 0);
    assert_int_equal(status.st_size, 0);
    free((void *)folder);
}

/* A record says its own length, whose digits count too: around 100 and 1000 bytes. */
static void test_names_of_every_length(void **state)
{
    (void)state;
    for (size_t length = 1; length < 1200; length++) {
        CLEANUP(buf_free) struct buf head = BUF_INIT(16 * KIB);
        char path[1300];
        unsigned said;

        memset(path, 'n', length);
        path[length] = '\0';
        assert_int_equal(
            tar_head(&(struct tar_member){.kind = TAR_FOLDER, .path = path, .mode = 0755}, &head),
            0);
        assert_int_equal(head.length, length <= 100 ? 512 : length < 500 ? 3 * 512 : head.length);
        if (length <= 100)
            continue;
        assert_int_equal(head.data[156], 'x');
        said = (unsigned)strtoul(head.data + 512, NULL, 10);
        assert_int_equal(head.data[512 + said - 1], '\n');
        if (said % 512) /* else the next head follows at once */
            assert_int_equal(head.data[512 + said], '\0');
        assert_memory_equal(head.data + 512 + said - 1 - length, path, length);
    }
}

static void test_a_file_that_changed(void **state)
{
    CLEANUP(image_tree_free) struct image_tree tree = {0};
    CLEANUP(image_stream_free) struct image_stream stream;
    struct error err = {0};
    char data[4096];
    long got;

    assert_int_equal(
        image_tree_file(&tree, "usr/file", write_file(*state, "one", "hello\n"), 0755, 7, 1, &err),
        0);
    assert_int_equal(image_tree_finish(&tree, &err), 0);
    image_stream_begin(&stream, &tree);
    while ((got = image_stream_read(&stream, data, sizeof(data))) > 0)
        ;
    assert_int_equal(got, -1);
    assert_int_equal(stream.err.num, -ESTALE);
}

static void test_places(void **state)
{
    static const struct {
        const char *path, *place;
    } rows[] = {
        {"/bin/bash", "usr/bin/bash"},
        {"/lib/x86_64-linux-gnu/libc.so.6", "usr/lib/x86_64-linux-gnu/libc.so.6"},
        {"/lib64/ld-linux-x86-64.so.2", "usr/lib64/ld-linux-x86-64.so.2"},
        {"usr/bin/env", "usr/bin/env"},
        {"/libexec/x", NULL},
        {"/etc/shadow", NULL},
        {"/root/.ssh/id", NULL},
        {"/home/me/file", NULL},
        {"/var/lib/x", NULL},
        {"/usrlocal/x", NULL},
        {"/usr/share/doc/bash/README", NULL},
        {"/usr/share/doc/bash/copyright", "usr/share/doc/bash/copyright"},
        {"/usr/share/man/man1/ls.1.gz", NULL},
        {"/usr/share/manual", "usr/share/manual"},
        {"/usr/lib/libx.a", NULL},
    };
    char text[4096];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        const char *place = image_place(rows[i].path, text, sizeof(text));

        if (!rows[i].place)
            assert_null(place);
        else
            assert_string_equal(place, rows[i].place);
    }
    assert_true(image_link_is_kept("usr/bin/sh", "dash"));
    assert_true(image_link_is_kept("usr/lib64/ld.so", "/lib/x/ld.so"));
    assert_false(image_link_is_kept("usr/bin/npm", "../lib/node_modules/npm/bin/npm-cli.js"));
    assert_false(image_link_is_kept("usr/bin/awk", "/etc/alternatives/awk"));
    assert_false(image_link_is_kept("usr/bin/x", "../../etc/shadow"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_same_bytes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_tar_makes_of_it, set_up, tear_down),
        cmocka_unit_test(test_names_of_every_length),
        cmocka_unit_test_setup_teardown(test_a_file_that_changed, set_up, tear_down),
        cmocka_unit_test(test_places),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
