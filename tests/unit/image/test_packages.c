/* test_packages.c - a machine's packages as an image's files: what is taken, changed, left out. */
#include "scratch.h"

#include <errno.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "image/root.h"

#define HEAD "Status: install ok installed\nArchitecture: amd64\n"

static int set_up(void **state)
{
    struct scratch *scratch = calloc(1, sizeof(*scratch));

    scratch_make(scratch);
    *state = scratch;
    return 0;
}

static int tear_down(void **state)
{
    scratch_remove(*state);
    free(*state);
    return 0;
}

static void put(struct scratch *root, const char *path, const char *text)
{
    char folder[512];

    str_copy(folder, sizeof(folder), path);
    *strrchr(folder, '/') = '\0';
    scratch_folder(root, folder);
    scratch_write(root, path, text);
}

/* Each package of the table, with one file, and python3 with more. */
static void make_machine(struct scratch *root)
{
    CLEANUP(buf_free) struct buf status = BUF_INIT(64 * KIB);
    char name[64], path[256], text[256];

    assert_int_equal(buf_printf(&status, "Package: dpkg\n" HEAD "\n"), 0);
    for (size_t i = 0; i < image_package_count; i++) {
        str_format(name, sizeof(name), "%.*s", (int)strcspn(image_package_table[i].name, " "),
                   image_package_table[i].name);
        assert_int_equal(buf_printf(&status, "Package: %s\n" HEAD "\n", name), 0);
        str_format(path, sizeof(path), "usr/bin/%s", name);
        put(root, path, name);
        str_format(text, sizeof(text), "/.\n/usr\n/usr/bin\n/%s\n", path);
        str_format(path, sizeof(path), "var/lib/dpkg/info/%s.list", name);
        put(root, path, text);
    }
    put(root, "var/lib/dpkg/status", buf_text(&status));
    /* one for several architectures, with what is left out and what is linked */
    unlink(scratch_path(root, "var/lib/dpkg/info/tzdata.list"));
    put(root, "var/lib/dpkg/info/tzdata:amd64.list",
        "/.\n/etc\n/etc/secret\n/lib\n/lib/libtz.so\n/usr/bin\n/usr/bin/tzdata\n/usr/bin/tz\n"
        "/usr/share/man/tz.1\n");
    put(root, "var/lib/dpkg/info/tzdata:amd64.md5sums",
        "5d41402abc4b2a76b9719d911017c592  lib/libtz.so\n"); /* "hello" */
    put(root, "etc/secret", "secret");
    put(root, "usr/lib/libtz.so", "hello");
    put(root, "usr/share/man/tz.1", "a manual");
    assert_int_equal(symlink("usr/lib", scratch_path(root, "lib")), 0);
    assert_int_equal(symlink("tzdata", scratch_path(root, "usr/bin/tz")), 0);
}

static int gather(struct scratch *root, struct image_tree *tree, struct image_found *found,
                  struct error *err)
{
    const struct image_work work = {0};
    const struct image_packages from = {.root = root->path,
                                        .scratch = scratch_folder(root, "scratch")};

    return image_add_packages(tree, &from, &work, found, err);
}

static void assert_link(const struct image_tree *tree, const char *path, const char *target)
{
    const struct image_entry *entry = image_tree_find(tree, path);

    assert_non_null(entry);
    assert_int_equal(entry->kind, TAR_LINK);
    assert_string_equal(entry->text, target);
}

static void test_what_is_in_it(void **state)
{
    CLEANUP(image_tree_free) struct image_tree tree = {0};
    struct image_found found = {0};
    struct error err = {0};

    make_machine(*state);
    assert_int_equal(gather(*state, &tree, &found, &err), 0);
    assert_int_equal(found.packages, image_package_count);
    assert_int_equal(found.fetched, 0);
    assert_string_equal(found.architecture, "amd64");
    assert_int_equal(image_add_own(&tree, &err), 0);
    assert_int_equal(image_tree_find(&tree, "usr/lib/libtz.so")->size, 5);
    assert_link(&tree, "usr/bin/tz", "tzdata");
    assert_link(&tree, "lib", "usr/lib");
    assert_link(&tree, "bin", "usr/bin");
    assert_null(image_tree_find(&tree, "sbin")); /* nobody has one */
    assert_link(&tree, "usr/bin/awk", "mawk");
    assert_link(&tree, "usr/local/bin/python", "/usr/bin/python3");
    assert_null(image_tree_find(&tree, "etc/secret"));
    assert_null(image_tree_find(&tree, "usr/share/man/tz.1"));
    assert_non_null(strstr(image_tree_find(&tree, "etc/passwd")->text, "user:x:1000:1000:"));
    assert_int_equal(image_tree_find(&tree, "workspace")->owner, 1000);
    assert_int_equal(image_tree_find(&tree, "tmp")->mode, 01777);
    assert_int_equal(image_tree_find(&tree, "bailey")->kind, TAR_FOLDER);
    /* every parent comes before what is in it */
    for (size_t i = 1; i < tree.count; i++)
        assert_true(strcmp(tree.entries[i - 1].path, tree.entries[i].path) < 0);
}

/* A file that is not what dpkg noted is not taken: the package would have to be fetched. */
static void test_a_changed_file(void **state)
{
    CLEANUP(image_tree_free) struct image_tree tree = {0};
    struct image_found found = {0};
    struct error err = {0};

    make_machine(*state);
    put(*state, "usr/lib/libtz.so", "hellO");
    setenv("PATH", scratch_path(*state, "nowhere"), 1); /* no apt-get */
    assert_int_equal(gather(*state, &tree, &found, &err), -ENOENT);
    assert_non_null(strstr(err.text, "apt-get"));
}

static void test_a_machine_without_packages(void **state)
{
    CLEANUP(image_tree_free) struct image_tree tree = {0};
    struct image_found found = {0};
    struct error err = {0};

    assert_int_equal(gather(*state, &tree, &found, &err), -ENOENT);
    assert_non_null(strstr(err.text, "deploy/Dockerfile.sandbox"));
}

/* A layer for another interpreter brings that along, without what was installed into it. */
static void test_a_template(void **state)
{
    struct scratch *root = *state;
    CLEANUP(image_tree_free) struct image_tree tree = {0};
    struct image_python python = {0};
    struct error err = {0};
    char text[256], path[256];
    const char *prefix = root->path + 1;

    str_format(text, sizeof(text), "home = %s/py/bin\nversion = 3.12.1\n", root->path);
    put(root, "layer/pyvenv.cfg", text);
    put(root, "layer/template.json", "{}");
    put(root, "layer/lib/python3.12/site-packages/polars/__init__.py", "");
    put(root, "layer/home/.cache/fonts", "");
    scratch_write(root, "layer.tiers", "core polars\n");
    scratch_folder(root, "layer/home/.config/matplotlib");
    scratch_folder(root, "py/lib/python3.12/nothing");
    put(root, "layer/bin/tool", "#!/bailey/template/bin/python -I\nimport tool\n");
    put(root, "layer/bin/activate", "");
    put(root, "py/bin/python3.12", "ELF");
    put(root, "py/bin/pip", "");
    put(root, "py/lib/python3.12/os.py", "");
    put(root, "py/lib/python3.12/test/test_os.py", "");
    put(root, "py/lib/python3.12/site-packages/private.py", "");
    put(root, "py/secret", "");
    str_copy(path, sizeof(path), scratch_path(root, "layer"));
    assert_int_equal(image_template_python(path, &python, &err), 0);
    assert_false(python.is_debian);
    assert_string_equal(python.version, "3.12");
    assert_int_equal(image_add_template(&tree, path, &python, &err), 0);

    str_format(path, sizeof(path), "/%s/py/bin/python3.12", prefix);
    assert_link(&tree, "usr/local/bin/python3", path);
    assert_non_null(image_tree_find(&tree, path + 1));
    assert_string_equal(image_tree_find(&tree, "usr/local/bin/tool")->text,
                        "#!/usr/local/bin/python3\nimport tool\n");
    assert_null(image_tree_find(&tree, "usr/local/bin/activate"));
    assert_string_equal(image_tree_find(&tree, "usr/share/bailey/tiers")->text, "core polars\n");
    assert_non_null(image_tree_find(&tree, IMAGE_HOME "/.cache/fonts"));
    assert_int_equal(image_tree_find(&tree, IMAGE_HOME "/.config/matplotlib")->kind, TAR_FOLDER);
    str_format(path, sizeof(path), "%s/py/lib/python3.12/site-packages/polars/__init__.py", prefix);
    assert_non_null(image_tree_find(&tree, path));
    static const char *const absent[] = {"lib/python3.12/site-packages/private.py", "secret",
                                         "bin/pip", "lib/python3.12/test/test_os.py",
                                         "lib/python3.12/nothing"};
    for (size_t i = 0; i < ARRAY_SIZE(absent); i++) {
        str_format(path, sizeof(path), "%s/py/%s", prefix, absent[i]);
        assert_null(image_tree_find(&tree, path));
    }
}

static void test_a_template_for_debians_python(void **state)
{
    struct scratch *root = *state;
    CLEANUP(image_tree_free) struct image_tree tree = {0};
    struct image_python python = {0};
    struct error err = {0};
    const char *layer;

    put(root, "layer/pyvenv.cfg", "home = /usr/bin\nversion = 3.11.2\n");
    put(root, "layer/lib/python3.11/site-packages/polars.py", "");
    put(root, "layer/bin/python", "");
    layer = scratch_path(root, "layer");
    assert_int_equal(image_template_python(layer, &python, &err), 0);
    assert_true(python.is_debian);
    assert_string_equal(python.package, "python3.11");
    assert_int_equal(image_add_template(&tree, layer, &python, &err), 0);
    assert_link(&tree, "usr/local/bin/python3", "/usr/bin/python3.11");
    assert_non_null(image_tree_find(&tree, "usr/local/lib/python3.11/dist-packages/polars.py"));

    put(root, "layer/pyvenv.cfg", "home = ../../etc\nversion = 3.11.2\n");
    assert_int_equal(image_template_python(layer, &python, &err), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_is_in_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_machine_without_packages, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_template, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_template_for_debians_python, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_changed_file, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
