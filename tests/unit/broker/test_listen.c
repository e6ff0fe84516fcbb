/* test_listen.c - the broker's addresses: what they are, which names they have, the first key. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/folder.h"
#include "base/str.h"
#include "broker/listen.h"
#include "config/config.h"
#include "store/index.h"

static char folder[64];
static int folder_fd;
static struct index *keys;
static struct listeners listeners;
static struct config config;

/* A socket that listens there, by the number that the launcher gives it. */
static void put_address(size_t number, in_addr_t address)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(dup2(fd, BROKER_TCP_FD + (int)number), BROKER_TCP_FD + (int)number);
    close(fd);
}

static void open_addresses(const char *settings)
{
    json_t *json = json_loads(settings, 0, NULL);
    struct error err = {0};

    assert_non_null(json);
    assert_int_equal(listeners_open(&listeners, json, &err), 0);
    assert_int_equal(listeners_configure(&listeners, &config, &err), 0);
    json_decref(json);
}

static int set_up(void **state)
{
    struct error err = {0};
    char *none[] = {NULL};

    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/bailey-listen-XXXXXX");
    assert_non_null(mkdtemp(folder));
    folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(index_open(folder_fd, &keys, &err), 0);
    assert_int_equal(config_load_text(&config, "", 0, "test", none, &err), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    listeners_free(&listeners);
    memset(&listeners, 0, sizeof(listeners));
    config_free(&config);
    index_close(keys);
    close(folder_fd);
    assert_int_equal(folder_remove(AT_FDCWD, folder), 0);
    close(BROKER_TCP_FD);
    close(BROKER_TCP_FD + 1);
    return 0;
}

static void an_address_is_what_the_kernel_says(void **state)
{
    (void)state;
    put_address(0, INADDR_LOOPBACK);
    put_address(1, INADDR_ANY);
    open_addresses("{\"tcp\": 2}");
    assert_int_equal(listeners.count, 2);
    assert_true(listeners.rows[0].is_loopback);
    assert_true(str_starts(listeners.rows[0].url, "http://127.0.0.1:"));
    assert_false(listeners.rows[1].is_loopback);
    assert_true(str_starts(listeners.rows[1].url, "http://0.0.0.0:"));
    open_addresses("{\"tcp\": 1, \"tls\": {\"certificate\": \"c\", \"key\": \"k\"}}");
    assert_true(str_starts(listeners.rows[0].url, "https://127.0.0.1:"));
}

static void settings_that_lie_are_refused(void **state)
{
    static const char *const wrong[] = {"{\"tcp\": -1}", "{\"tcp\": 17}", "{\"tcp\": 1}"};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        json_t *json = json_loads(wrong[i], 0, NULL);
        struct error err = {0};

        assert_true(listeners_open(&listeners, json, &err) < 0); /* the last: nothing is open */
        json_decref(json);
    }
    listeners.count = 0;
}

static void names_are_checked_where_only_this_machine_comes(void **state)
{
    struct error err = {0};

    (void)state;
    put_address(0, INADDR_LOOPBACK);
    put_address(1, INADDR_ANY);
    open_addresses("{\"tcp\": 2}");
    assert_string_equal(listeners.rows[0].browsers.hosts[0], "localhost");
    assert_string_equal(listeners.rows[0].browsers.hosts[1], "*.localhost");
    assert_null(listeners.rows[0].browsers.hosts[2]);
    assert_null(listeners.rows[1].browsers.hosts);
    assert_int_equal(config_set(&config, KEY_HOSTS, "a.example,b.example", "--x", &err), 0);
    assert_int_equal(config_set(&config, KEY_CORS_ORIGINS, "https://c", "--x", &err), 0);
    assert_int_equal(listeners_configure(&listeners, &config, &err), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(listeners.rows[i].browsers.hosts[3], "b.example");
        assert_string_equal(listeners.rows[i].browsers.origins[0], "https://c");
    }
}

static void the_first_key_is_made_once(void **state)
{
    struct principal who;
    char key[KEY_TEXT_MAX];
    unsigned count = 7;
    struct error err = {0};

    (void)state;
    put_address(0, INADDR_LOOPBACK);
    open_addresses("{\"tcp\": 1}");
    assert_int_equal(listeners_admit(&listeners, &config, keys, &err), 0);
    assert_int_equal(keys_count(keys, &count, &err), 0);
    assert_int_equal(count, 0); /* what fails after this check loses no key */
    assert_int_equal(listeners_first_key(&listeners, keys, key, &err), 0);
    assert_int_equal(keys_check(keys, key, clock_wall_ms(), &who, &err), 0);
    assert_string_equal(who.tenant, "default");
    assert_int_equal(who.scopes, SCOPES_ORDINARY);
    assert_false(principal_may(&who, SCOPE_ADMIN) || principal_may(&who, SCOPE_OPERATOR));
    assert_false(who.is_local);
    assert_int_equal(listeners_first_key(&listeners, keys, key, &err), 0);
    assert_string_equal(key, "");
}

/* What listeners_say() writes to the daemon's standard error. */
static void said(const char *key, const struct listeners_place *json, char text[4096])
{
    struct error err = {0};
    int kept = dup(BROKER_LOG_FD), pipe_fds[2];
    ssize_t length;

    assert_int_equal(pipe(pipe_fds), 0);
    dup2(pipe_fds[1], BROKER_LOG_FD);
    assert_int_equal(listeners_say(&listeners, key, json, &err), 0);
    dup2(kept, BROKER_LOG_FD);
    close(pipe_fds[1]);
    close(kept);
    length = read(pipe_fds[0], text, 4095);
    assert_true(length > 0);
    text[length] = '\0';
    close(pipe_fds[0]);
}

static void a_log_in_json_names_the_file_of_the_key(void **state)
{
    struct listeners_place place = {.folder_fd = folder_fd, .folder = folder};
    char text[4096], path[128], kept[64] = "";
    struct stat status;
    int fd;

    (void)state;
    put_address(0, INADDR_LOOPBACK);
    open_addresses("{\"tcp\": 1}");
    said("bly_12.secret", NULL, text);
    assert_non_null(strstr(text, "  export BAILEY_API_KEY=bly_12.secret\n"));
    assert_non_null(strstr(text, "run, sessions and files"));
    said("bly_12.secret", &place, text);
    assert_null(strstr(text, "bly_"));
    snprintf(path, sizeof(path), "%s/" FIRST_KEY_FILE, folder);
    assert_non_null(strstr(text, path));
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(fstat(fd, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(read(fd, kept, sizeof(kept) - 1), 14);
    assert_string_equal(kept, "bly_12.secret\n");
    close(fd);
    said("", &place, text);
    assert_null(strstr(text, "api_key"));
}

static void without_an_address_nobody_needs_a_key(void **state)
{
    char key[KEY_TEXT_MAX];
    struct error err = {0};
    unsigned count = 7;

    (void)state;
    open_addresses("{}");
    assert_int_equal(listeners_admit(&listeners, &config, keys, &err), 0);
    assert_int_equal(listeners_first_key(&listeners, keys, key, &err), 0);
    assert_string_equal(key, "");
    assert_int_equal(keys_count(keys, &count, &err), 0);
    assert_int_equal(count, 0);
}

static void others_come_only_where_there_is_a_key(void **state)
{
    struct key_row row = {.tenant = "a", .scopes = SCOPE_ALL, .expires_ms = 1};
    char key[KEY_TEXT_MAX], made[KEY_TEXT_MAX];
    struct error err = {0};

    (void)state;
    put_address(0, INADDR_LOOPBACK);
    put_address(1, INADDR_ANY);
    open_addresses("{\"tcp\": 2}");
    assert_int_equal(listeners_admit(&listeners, &config, keys, &err), -EACCES);
    assert_string_equal(err.code, ERROR_REFUSED);
    assert_non_null(strstr(err.text, "bailey key new"));
    assert_non_null(strstr(err.text, "0.0.0.0"));
    assert_int_equal(keys_add(keys, &row, made, &err), 0); /* which is too old */
    assert_int_equal(listeners_admit(&listeners, &config, keys, &err), -EACCES);
    config.execute_is_open = true;
    assert_int_equal(listeners_admit(&listeners, &config, keys, &err), 0);
    config.execute_is_open = false;
    row.expires_ms = 0;
    assert_int_equal(keys_add(keys, &row, made, &err), 0);
    assert_int_equal(listeners_admit(&listeners, &config, keys, &err), 0);
    assert_int_equal(listeners_first_key(&listeners, keys, key, &err), 0);
    assert_string_equal(key, "");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_address_is_what_the_kernel_says),
        TEST(settings_that_lie_are_refused),
        TEST(names_are_checked_where_only_this_machine_comes),
        TEST(the_first_key_is_made_once),
        TEST(a_log_in_json_names_the_file_of_the_key),
        TEST(without_an_address_nobody_needs_a_key),
        TEST(others_come_only_where_there_is_a_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
