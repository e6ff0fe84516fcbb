/* test_registry.c - the rows of the providers: whole, each findable, and refused by one sentence.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "runtime/host/backend.h"
#include "runtime/host/hosted.h"
#include "runtime/provider.h"

/* What a row must have for what its bits say. */
static void test_rows_are_whole(void **state)
{
    const struct provider_row *row;

    (void)state;
    for (size_t i = 0; (row = provider_at(i)); i++) {
        bool is_built = row->ops != NULL;

        assert_true(i < PROVIDERS_MAX);
        assert_true(row->name[0] && strlen(row->name) < 32);
        assert_int_equal(strspn(row->name, "abcdefghijklmnopqrstuvwxyz0123456789_"),
                         strlen(row->name));
        assert_non_null(row->title);
        assert_non_null(row->help);
        assert_ptr_equal(provider_known(row->name), row);
        if (!is_built) {
            assert_int_equal(row->can, 0);
            continue;
        }
        assert_true(provider_can(row, PROVIDER_CAN_LAYERS) || row->no_template);
        assert_true(provider_can(row, PROVIDER_CAN_INSTALL) || row->no_install);
        assert_true(!provider_can(row, PROVIDER_OWN_FILESYSTEM) || row->no_program);
        assert_true(!provider_can(row, PROVIDER_DISK_IS_MEMORY) || row->more_disk);
        assert_true(!provider_can(row, PROVIDER_ONLY_MEANT) || row->is_meant);
        if (provider_can(row, PROVIDER_HOSTED)) {
            /* One that stands in is there whenever the daemon is. */
            assert_true(row->gone && (provider_can(row, PROVIDER_STANDS_IN) ||
                                      (row->unavailable && row->place)));
            assert_ptr_equal(row->ops, &hosted_ops);
            assert_non_null(backend_find(row->name));
            assert_non_null(backend_find(row->name)->ops);
        }
    }
    assert_string_equal(provider_at(0)->name, PROVIDER_LOCAL);
}

static void test_found_or_refused(void **state)
{
    static const char *const not_built[] = {"kubernetes", "e2b", "chroot", "container", ""};
    const struct provider_row *row = NULL;
    char list[PROVIDER_LIST_MAX];
    struct error err = {0};

    (void)state;
    assert_int_equal(provider_find("local", &row, &err), 0);
    assert_string_equal(row->name, "local");
    assert_int_equal(provider_find("docker", &row, &err), 0);
    assert_int_equal(provider_find("url", &row, &err), 0);
    for (size_t i = 0; i < ARRAY_SIZE(not_built); i++) {
        row = NULL;
        assert_int_equal(provider_find(not_built[i], &row, &err), -ENOSYS);
        assert_null(row);
        assert_ptr_equal(err.code, ERROR_BAD_CONFIG);
        assert_non_null(strstr(err.text, "is not in this build (there are: local, docker"));
        assert_int_equal(provider_find(not_built[i], &row, NULL), -ENOSYS);
    }
    assert_non_null(strstr(provider_list(false, list), "local, docker, kubernetes, url, e2b"));
    assert_null(strstr(provider_list(true, list), "e2b"));
}

/* No caller names it, and no list has it: results call it by the row that it stands in for. */
static void test_one_stands_in_for_local(void **state)
{
    const struct provider_row *row = provider_stand_in(provider_known(PROVIDER_LOCAL));
    const char *names[PROVIDERS_MAX + 1];
    char list[PROVIDER_LIST_MAX];

    (void)state;
    assert_non_null(row);
    assert_true(provider_can(row, PROVIDER_STANDS_IN | PROVIDER_ONE_BOX | PROVIDER_HOSTED));
    assert_string_equal(provider_runtime(row), PROVIDER_LOCAL);
    assert_string_equal(provider_runtime(provider_known("docker")), "docker");
    assert_null(provider_runtime(NULL));
    assert_null(provider_stand_in(provider_known("docker")));
    assert_null(strstr(provider_list(false, list), row->name));
    provider_names(names);
    for (size_t i = 0; names[i]; i++)
        assert_string_not_equal(names[i], row->name);
}

/* Two bits of one number would give a row what another one has. */
static void test_each_bit_is_its_own(void **state)
{
    static const uint32_t bits[] = {
        PROVIDER_CAN_ZYGOTE,     PROVIDER_CAN_LAYERS,       PROVIDER_CAN_BIND_DATASETS,
        PROVIDER_CAN_INSTALL,    PROVIDER_CAN_TIME_BRINGUP, PROVIDER_OWN_FILESYSTEM,
        PROVIDER_HOSTED,         PROVIDER_STANDS_IN,        PROVIDER_ONE_BOX,
        PROVIDER_DISK_IS_MEMORY, PROVIDER_ONLY_MEANT,
    };
    uint32_t seen = 0;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(bits); i++) {
        assert_int_equal(seen & bits[i], 0);
        seen |= bits[i];
    }
}

static void test_bits(void **state)
{
    const struct provider_row *docker = provider_known("docker");

    (void)state;
    assert_true(provider_can(docker, PROVIDER_HOSTED | PROVIDER_OWN_FILESYSTEM));
    assert_false(provider_can(docker, PROVIDER_HOSTED | PROVIDER_CAN_LAYERS)); /* all, or no */
    assert_false(provider_can(NULL, PROVIDER_HOSTED));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_whole),
        cmocka_unit_test(test_found_or_refused),
        cmocka_unit_test(test_one_stands_in_for_local),
        cmocka_unit_test(test_each_bit_is_its_own),
        cmocka_unit_test(test_bits),
    };

    return cmocka_run_group_tests_name("runtime/registry", tests, NULL, NULL);
}
