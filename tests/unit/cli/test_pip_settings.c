/* test_pip_settings.c - pip's settings of a host: files in their order, variables, and what a box
 * and the proxy get of them. */
#include "unit.h"

#include <jansson.h>
#include <string.h>

#include "base/str.h"
#include "cli/pip_settings.h"
#include "scratch.h"

static struct scratch scratch;
static struct pip_settings settings;
static char *env[16];
static size_t env_count;

static void set(const char *name, const char *value)
{
    char text[4400];

    snprintf(text, sizeof(text), "%s=%s", name, value);
    env[env_count++] = strdup(text);
}

static int setup(void **state)
{
    (void)state;
    scratch_make(&scratch);
    scratch_folder(&scratch, "etc/xdg/pip");
    scratch_folder(&scratch, "etc/ssl/certs");
    scratch_folder(&scratch, "home/.pip");
    scratch_folder(&scratch, "home/.config/pip");
    scratch_folder(&scratch, "prefix");
    set("HOME", "/home");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    pip_settings_free(&settings);
    for (; env_count > 0; env_count--) {
        free(env[env_count - 1]);
        env[env_count - 1] = NULL;
    }
    scratch_remove(&scratch);
    return 0;
}

static int read_hosts(char *const *hosts, struct error *err)
{
    struct pip_sources sources = {.root = scratch.path, .env = env, .prefix = "/prefix"};

    pip_settings_free(&settings);
    return pip_settings_read(&sources, hosts, &settings, err);
}

static const char *conf(void)
{
    struct error err = {0};

    if (read_hosts(NULL, &err) < 0)
        fail_msg("%s", err.text);
    return buf_text(&settings.conf);
}

static void has(const char *text, const char *part)
{
    if (!strstr(text, part))
        fail_msg("'%s' is not in:\n%s", part, text);
}

static void has_not(const char *text, const char *part)
{
    if (strstr(text, part))
        fail_msg("'%s' is in:\n%s", part, text);
}

/* "host:port" and p, t, d for private, tls, direct; each followed by a blank. */
static const char *listed(void)
{
    static char text[4096];
    json_t *json = json_loadb(settings.egress.data, settings.egress.length, 0, NULL);
    json_t *list = json_object_get(json_object_get(json, "policies"), "installer"), *entry;
    size_t i, length = 0;

    assert_true(json_is_array(list));
    text[0] = 0;
    json_array_foreach(list, i, entry)
    {
        length += (size_t)snprintf(text + length, sizeof(text) - length, "%s:%d%s%s%s ",
                                   json_string_value(json_object_get(entry, "host")),
                                   (int)json_integer_value(json_object_get(entry, "port")),
                                   json_is_true(json_object_get(entry, "private")) ? "p" : "",
                                   json_is_true(json_object_get(entry, "tls")) ? "t" : "",
                                   json_is_true(json_object_get(entry, "direct")) ? "d" : "");
    }
    json_decref(json);
    return text;
}

static void test_nothing_is_configured(void **state)
{
    (void)state;
    has(conf(), "index-url = https://pypi.org/simple\n");
    has(conf(), "proxy = http://127.0.0.1:3128\n");
    has_not(conf(), "cert");
    assert_string_equal(listed(), "pypi.org:443t files.pythonhosted.org:443t ");
    assert_int_equal(settings.file_count, 1);
    assert_int_equal(settings.wheel_count, 0);
    assert_int_equal(strv_length(settings.warnings), 0);
    has(buf_text(&settings.egress), "\"upstream\":null");
}

static void test_the_order_of_files(void **state)
{
    (void)state;
    scratch_write(&scratch, "etc/xdg/pip/pip.conf", "[global]\nindex-url=https://one.test/s\n");
    has(conf(), "https://one.test/s\n");
    scratch_write(&scratch, "etc/pip.conf", "[global]\nindex_url : https://two.test/s\n");
    has(conf(), "https://two.test/s\n");
    scratch_write(&scratch, "home/.pip/pip.conf", "[global]\nindex-url=https://three.test/s\n");
    has(conf(), "https://three.test/s\n");
    scratch_write(&scratch, "home/.config/pip/pip.conf",
                  "[global]\nindex-url=https://four.test/\n");
    has(conf(), "https://four.test/\n");
    scratch_write(&scratch, "prefix/pip.conf", "[global]\nindex-url=https://five.test/\n");
    has(conf(), "https://five.test/\n");
    scratch_write(&scratch, "etc/pip.conf", "[install]\nindex-url=https://six.test/\n");
    has(conf(), "https://six.test/\n");
    set("PIP_INDEX_URL", "https://seven.test/");
    has(conf(), "index-url = https://seven.test/\n");
    assert_string_equal(listed(), "seven.test:443pt ");
}

static void test_a_named_file_replaces_the_users_own(void **state)
{
    (void)state;
    scratch_write(&scratch, "home/.config/pip/pip.conf",
                  "[global]\nindex-url=https://user.test/\ntimeout=7\n");
    scratch_write(&scratch, "named", "[global]\nindex-url=https://named.test/\n");
    set("PIP_CONFIG_FILE", scratch_path(&scratch, "named"));
    has(conf(), "https://named.test/\n");
    has_not(conf(), "timeout");
}

static void test_no_file_at_all(void **state)
{
    (void)state;
    scratch_write(&scratch, "etc/pip.conf", "[global]\nindex-url=https://two.test/s\n");
    set("PIP_CONFIG_FILE", "/dev/null");
    has(conf(), "https://pypi.org/simple");
}

static void test_places(void **state)
{
    scratch_folder(&scratch, "srv/wheels");
    (void)state;
    scratch_write(&scratch, "etc/pip.conf",
                  "; a comment\n[global]\nindex-url = http://me:secret@10.0.0.5:8080/simple\n"
                  "extra-index-url =\n    https://extra.test/a\n    # not this one\n\n"
                  "    https://test.pypi.org/simple\nfind-links = /srv/wheels\n"
                  "    https://links.test:8443/x\n    /nowhere ftp://x.test/\n"
                  "    file:///srv/wheels\ntrusted-host = 10.0.0.5\n    extra.test\n"
                  "[list]\nformat = columns\nindex-url = https://wrong.test/\n");
    has(conf(), "index-url = http://me:secret@10.0.0.5:8080/simple\n");
    has(conf(), "extra-index-url =\n    https://extra.test/a\n    https://test.pypi.org/simple\n");
    has(conf(), "find-links =\n    /bailey/wheels/0\n    https://links.test:8443/x\n"
                "    file:///bailey/wheels/0\n");
    has(conf(), "trusted-host = 10.0.0.5 extra.test\n");
    assert_string_equal(listed(), "10.0.0.5:8080p extra.test:443pt test.pypi.org:443t "
                                  "test-files.pythonhosted.org:443t links.test:8443pt ");
    assert_int_equal(settings.wheel_count, 1);
    assert_true(str_ends(settings.wheels[0].host, "/srv/wheels"));
    assert_string_equal(settings.wheels[0].box, "/bailey/wheels/0");
    assert_int_equal(strv_length(settings.warnings), 2);
    has_not(buf_text(&settings.egress), "secret");
    for (char **text = settings.warnings; *text; text++)
        has_not(*text, "secret");
}

static void test_no_index(void **state)
{
    (void)state;
    scratch_write(&scratch, "etc/pip.conf", "[global]\nno-index = 1\n");
    has(conf(), "no-index = true\n");
    has_not(conf(), "index-url");
    assert_string_equal(listed(), "");
}

static void test_certificates(void **state)
{
    (void)state;
    scratch_write(&scratch, "etc/ssl/certs/ca-certificates.crt", "-----BEGIN CERTIFICATE host");
    has(conf(), "cert = /bailey/pip/ca.pem\n");
    assert_string_equal(buf_text(&settings.ca), "-----BEGIN CERTIFICATE host");
    scratch_write(&scratch, "own.pem", "-----BEGIN CERTIFICATE own");
    set("REQUESTS_CA_BUNDLE", "/own.pem");
    conf();
    assert_string_equal(buf_text(&settings.ca), "-----BEGIN CERTIFICATE own");
    assert_int_equal(settings.file_count, 2);
    assert_string_equal(settings.files[1].path, "pip/ca.pem");
    scratch_write(&scratch, "etc/pip.conf", "[global]\ncert = /etc\nclient-cert = /own.pem\n");
    has(conf(), "client-cert = /bailey/pip/client.pem\n");
    has_not(conf(), "\ncert =");
    assert_int_equal(strv_length(settings.warnings), 1);
}

static void test_proxies(void **state)
{
    (void)state;
    set("https_proxy", "http://me:s%40cret@proxy.test:3128/");
    set("NO_PROXY", "localhost, .inside.test");
    set("PIP_EXTRA_INDEX_URL", "https://a.inside.test/ https://inside.test/ https://xinside.test/");
    conf();
    has(buf_text(&settings.egress), "\"host\":\"proxy.test\"");
    has(buf_text(&settings.egress), "\"authorization\":\"Basic bWU6c0BjcmV0\"");
    assert_string_equal(listed(), "pypi.org:443t files.pythonhosted.org:443t "
                                  "a.inside.test:443ptd inside.test:443ptd xinside.test:443pt ");
    has_not(conf(), "proxy.test");
    set("PIP_PROXY", "other.test:8080");
    conf();
    has(buf_text(&settings.egress), "\"host\":\"other.test\"");
    has_not(listed(), "ptd");
}

static void test_other_kinds_of_proxy(void **state)
{
    (void)state;
    set("https_proxy", "socks5://proxy.test:1080");
    conf();
    has(buf_text(&settings.egress), "\"upstream\":null");
    assert_int_equal(strv_length(settings.warnings), 1);
}

static void test_listed_hosts(void **state)
{
    static char *good[] = {"Files.Example.org", "10.0.0.5:8080", "fd00::1", "[fd00::2]:81",
                           "*.cdn.test",        "a.test:443",    NULL};
    static char *bad[][2] = {{"a b", NULL},     {"http://a.test", NULL}, {"a.test:0", NULL},
                             {"*", NULL},       {"*.1.2.3.4", NULL},     {"10.0.0.0/8", NULL},
                             {"u@a.test", NULL}};
    struct error err = {0};

    (void)state;
    assert_int_equal(read_hosts(good, &err), 0);
    assert_string_equal(listed(), "pypi.org:443t files.pythonhosted.org:443t "
                                  "files.example.org:443t files.example.org:80 10.0.0.5:8080 "
                                  "fd00::1:443t fd00::1:80 fd00::2:81 *.cdn.test:443t "
                                  "*.cdn.test:80 a.test:443t ");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        err = (struct error){0};
        assert_true(read_hosts(bad[i], &err) < 0);
        has(err.text, "SANDBOX_INDEX_HOSTS");
    }
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_nothing_is_configured),
        TEST(test_the_order_of_files),
        TEST(test_a_named_file_replaces_the_users_own),
        TEST(test_no_file_at_all),
        TEST(test_places),
        TEST(test_no_index),
        TEST(test_certificates),
        TEST(test_proxies),
        TEST(test_other_kinds_of_proxy),
        TEST(test_listed_hosts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
