/* test_settings.c - the settings of SANDBOX_TYPE=url: which are accepted, and what the others hear.
 */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "config/config.h"
#include "runtime/remote/settings.h"

/* The error's text; empty: none. */
static int check(const char *text, struct error *err)
{
    static char *empty[] = {NULL};
    CLEANUP(config_free) struct config config = {0};
    int r = config_load_text(&config, text, strlen(text), "test.yaml", empty, err);

    *err = (struct error){0};
    assert_int_equal(r, 0);
    return config_check(&config, err);
}

static void test_an_address_is_a_scheme_a_host_and_a_port(void **state)
{
    static const char *const good[] = {"http://127.0.0.1:7070", "https://a.example",
                                       "https://a.example:8443/", "http://[::1]:7070"};
    static const char *const bad[] = {"localhost:7070",    "http://",       "ftp://a",
                                      "unix:///run/s",     "http://a/path", "http://user@a:7070",
                                      "http://a:7070?x=1", "http://",       "http://a b"};
    struct error err;
    char text[256];

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
        str_format(text, sizeof(text), "sandbox:\n  type: url\n  url: '%s'\n", good[i]);
        assert_int_equal(check(text, &err), 0);
    }
    for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
        str_format(text, sizeof(text), "sandbox:\n  type: url\n  url: '%s'\n", bad[i]);
        assert_int_equal(check(text, &err), -EINVAL);
        assert_ptr_equal(err.code, ERROR_BAD_CONFIG);
        assert_non_null(strstr(err.text, "test.yaml"));
    }
}

static void test_what_is_missing_or_too_much_is_named(void **state)
{
    static const struct {
        const char *text, *said;
    } rows[] = {
        {"sandbox:\n  type: url\n", "needs SANDBOX_URL"},
        {"sandbox:\n  type: url\n  url: http://a,\n", "cannot be used"},
        {"sandbox:\n  type: url\n  url: http://a;weight=0\n", "cannot be used"},
        {"sandbox:\n  type: url\n  url: http://a;weight=101\n", "cannot be used"},
        {"sandbox:\n  type: url\n  url: http://a;load=1\n", "cannot be used"},
        {"sandbox:\n  type: url\n  url: http://a;weight=1x\n", "cannot be used"},
        {"sandbox:\n  type: url\n  url: http://a\n  url_ca_file: /ca.pem\n", "SANDBOX_URL_CA_FILE"},
    };
    struct error err;

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        assert_true(check(rows[i].text, &err) < 0);
        assert_ptr_equal(err.code, ERROR_BAD_CONFIG);
        assert_non_null(strstr(err.text, rows[i].said));
    }
}

static void test_a_list_has_addresses_and_weights(void **state)
{
    const char *list = "http://a:1,https://b:2;weight=30,http://c/";
    char address[REMOTE_ADDRESS_MAX];
    struct error err;
    unsigned weight;

    (void)state;
    assert_int_equal(remote_settings_next(&list, address, &weight), 1);
    assert_string_equal(address, "http://a:1");
    assert_int_equal(weight, 1);
    assert_int_equal(remote_settings_next(&list, address, &weight), 1);
    assert_string_equal(address, "https://b:2");
    assert_int_equal(weight, 30);
    assert_int_equal(remote_settings_next(&list, address, &weight), 1);
    assert_string_equal(address, "http://c/");
    assert_int_equal(remote_settings_next(&list, address, &weight), 0);
    assert_int_equal(
        check("sandbox:\n  type: url\n  url: 'http://a:1,http://b:2;weight=3'\n", &err), 0);
}

static void test_it_is_meant_where_an_address_is_set(void **state)
{
    struct config config = {0};
    CLEANUP(buf_free) struct buf shape = BUF_INIT(1024);

    (void)state;
    assert_false(remote_settings_is_meant(&config));
    config.url.address = "http://a:1";
    assert_true(remote_settings_is_meant(&config));
    assert_string_equal(remote_settings_place(&config), "http://a:1");
    config.template_name = "flags";
    assert_int_equal(remote_settings_shape(&config, &shape), 0);
    assert_string_equal(buf_text(&shape), "url=http://a:1\nurl_template=flags\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_address_is_a_scheme_a_host_and_a_port),
        cmocka_unit_test(test_what_is_missing_or_too_much_is_named),
        cmocka_unit_test(test_a_list_has_addresses_and_weights),
        cmocka_unit_test(test_it_is_meant_where_an_address_is_set),
    };

    return cmocka_run_group_tests_name("runtime/remote/settings", tests, NULL, NULL);
}
