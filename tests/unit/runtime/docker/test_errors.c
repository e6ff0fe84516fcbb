/* test_errors.c - what Docker says in our words, its version, and JSON that is too deep. */
#include "unit.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "runtime/docker/docker_private.h"
#include "runtime/docker/remedy.h"

static void test_nobody_there(void **state)
{
    static const int numbers[] = {-ENOENT,    -ECONNREFUSED, -EACCES,
                                  -ETIMEDOUT, -ECONNRESET,   -EPROTO};

    (void)state;
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        struct error err = {0};

        assert_int_equal(docker_unavailable("unix:///s", numbers[i], "because", &err), numbers[i]);
        assert_ptr_equal(err.code, ERROR_PROVIDER_UNAVAILABLE);
        assert_ptr_equal(strstr(err.text, "Docker daemon not available: "), err.text);
        assert_non_null(strstr(err.text, "unix:///s"));
        assert_non_null(strstr(err.text, "Set SANDBOX_TYPE=local or start Docker daemon"));
    }
}

/* Docker is there: to start it would help nobody. */
static void test_tls(void **state)
{
    static const struct {
        int num;
        const char *says;
    } rows[] = {
        {-EPROTOTYPE, "DOCKER_TLS_VERIFY"},
        {-EKEYREJECTED, "ca.pem"},
        {-EREMCHG, "DOCKER_HOST"},
        {-ENOKEY, "cert.pem"},
    };
    char reply[] = "Client sent an HTTP request to an HTTPS server.\n";
    struct buf body = {.data = reply, .length = strlen(reply), .maximum = sizeof(reply)};
    struct buf none = BUF_INIT(1);

    (void)state;
    for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
        struct error err = {0};

        assert_int_equal(docker_unavailable("tcp://h:1", rows[i].num, "because", &err),
                         rows[i].num);
        assert_ptr_equal(err.code, ERROR_PROVIDER_UNAVAILABLE);
        assert_ptr_equal(strstr(err.text, "Docker daemon not available: tcp://h:1: because. "),
                         err.text);
        assert_non_null(strstr(err.text, rows[i].says));
        assert_non_null(strstr(err.text, "SANDBOX_TYPE=local"));
        assert_null(strstr(err.text, "start Docker"));
    }
    assert_null(docker_tls_remedy(-ECONNRESET));
    assert_true(docker_wants_tls(400, &body));
    assert_false(docker_wants_tls(200, &body));
    assert_false(docker_wants_tls(400, &none));
}

static void test_refusals(void **state)
{
    static const struct {
        unsigned status;
        const char *says, *code;
    } rows[] = {
        {404, "No such image: bailey-sandbox:latest", ERROR_IMAGE_NOT_FOUND},
        {500, "write /var/lib/docker/x: no space left on device", ERROR_DISK_FULL},
        {400, "exec /bailey/bin/bailey: exec format error", ERROR_IMAGE_UNUSABLE},
        {400, "Unknown runtime specified runsc", ERROR_BAD_CONFIG},
        {400, "Unknown or invalid runtime name: runsc", ERROR_BAD_CONFIG},
        {500, "anything else", ERROR_BOX_FAILED},
        {500, "", ERROR_BOX_FAILED},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct error err = {0};

        assert_true(docker_refused(rows[i].status, rows[i].says, &err) < 0);
        assert_ptr_equal(err.code, rows[i].code);
        assert_non_null(strstr(err.text, rows[i].says));
    }
}

/* It goes to terminals and logs. */
static void test_words_are_cleaned(void **state)
{
    char text[5000];
    struct error err = {0};

    (void)state;
    docker_refused(500, "a\x1b[31m\nb%s%n", &err);
    assert_string_equal(err.text, "Docker: a [31m b%s%n");
    docker_refused(500, "a\xc2\x9b[31m\xc2\xa0\xc2", &err); /* another ESC [, and a blank */
    assert_string_equal(err.text, "Docker: a [31m\xc2\xa0");
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    docker_refused(500, text, &err);
    assert_true(strlen(err.text) < 500);
}

static void test_images_that_do_not_come(void **state)
{
    static const struct {
        const char *says, *code, *part;
    } rows[] = {
        {"manifest for r/x:1 not found: manifest unknown: manifest unknown", ERROR_IMAGE_NOT_FOUND,
         "does not have it (manifest for r/x:1 not found"},
        {"pull access denied for x, repository does not exist or may require 'docker login': "
         "denied: requested access to the resource is denied",
         ERROR_IMAGE_NOT_FOUND, "no such image, or it is private"},
        {"Get \"http://r/v2/\": no basic auth credentials", ERROR_IMAGE_NOT_FOUND,
         "run 'docker login' and 'docker pull r/x:1' by hand"},
        {"unauthorized: authentication required", ERROR_IMAGE_NOT_FOUND, "wants credentials"},
        {"Get \"http://r/v2/\": dial tcp 127.0.0.1:1: connect: connection refused",
         ERROR_IMAGE_NOT_FOUND, "cannot be reached"},
        {"write /var/lib/docker/tmp/1: no space left on device", ERROR_DISK_FULL, "disk is full"},
        {"no matching manifest for linux/amd64 in the manifest list entries", ERROR_IMAGE_UNUSABLE,
         "another architecture"},
        {"unexpected EOF", ERROR_IMAGE_NOT_FOUND, "cannot be pulled (unexpected EOF)"},
        {"", ERROR_IMAGE_NOT_FOUND, "cannot be pulled"},
    };
    char text[5000];
    struct error err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        err = (struct error){0};
        assert_true(docker_pull_refused("r/x:1", rows[i].says, &err) < 0);
        assert_ptr_equal(err.code, rows[i].code);
        assert_ptr_equal(strstr(err.text, "image 'r/x:1' is not there, and "), err.text);
        assert_non_null(strstr(err.text, rows[i].part));
    }
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    text[5] = '\x1b';
    docker_pull_refused("r/x:1", text, &err);
    assert_true(strlen(err.text) < 500);
    assert_null(strchr(err.text, '\x1b'));
    assert_non_null(strstr(err.text, "bailey image build"));
}

static void test_runtimes(void **state)
{
    json_t *has = json_pack("{s:{}, s:{}}", "runc", "crun"), *none = json_object();
    struct error err = {0};

    (void)state;
    assert_int_equal(docker_runtime_check(has, NULL, &err), 0);
    assert_int_equal(docker_runtime_check(has, "", &err), 0);
    assert_int_equal(docker_runtime_check(has, "crun", &err), 0);
    assert_int_equal(docker_runtime_check(has, "io.containerd.kata.v2", &err), 0);
    assert_int_equal(docker_runtime_check(none, "runsc", &err), 0); /* not known: Docker says it */
    assert_int_equal(docker_runtime_check(NULL, "runsc", &err), 0);
    assert_true(docker_runtime_check(has, "runsc", &err) < 0);
    assert_ptr_equal(err.code, ERROR_BAD_CONFIG);
    assert_non_null(strstr(err.text, "'runsc'; it has runc, crun."));
    json_decref(has);
    json_decref(none);
}

static int negotiate(const char *newest, const char *oldest, struct api *api, struct error *err)
{
    json_t *json = json_pack("{s:s, s:s}", "ApiVersion", newest, "MinAPIVersion", oldest);
    int r;

    *err = (struct error){0};
    r = api_negotiate(api, json, err);
    json_decref(json);
    return r;
}

static void test_versions(void **state)
{
    struct api api = {.host = "h"};
    struct error err;

    (void)state;
    assert_int_equal(negotiate("1.41", "1.12", &api, &err), 0);
    assert_string_equal(api.version, "/v1.41");
    assert_int_equal(negotiate("1.52", "1.44", &api, &err), 0);
    assert_string_equal(api.version, "/v1.44");
    assert_int_equal(negotiate("1.40", "1.12", &api, &err), -ENOTSUP);
    assert_non_null(strstr(err.text, "too old"));
    assert_int_equal(negotiate("nonsense", "", &api, &err), -EPROTO);
    assert_int_equal(api_negotiate(&api, NULL, &err), -EPROTO);
}

struct lines {
    unsigned count;
    json_int_t sum;
};

static void on_line(void *ctx, const json_t *line)
{
    struct lines *lines = ctx;

    lines->count++;
    lines->sum += json_integer_value(json_object_get(line, "n"));
}

/* In pieces of any size; what is no object is passed over. */
static void test_lines(void **state)
{
    static const char text[] = "{\"n\":1}\n\n[2]\n{\"n\":3}\r\nnonsense\n{\"n\":5}\n{\"n\":";

    (void)state;
    for (size_t size = 1; size < sizeof(text); size++) {
        struct buf body = BUF_INIT(KIB);
        struct lines lines = {0};
        size_t looked = 0;

        for (size_t at = 0; at < sizeof(text) - 1; at += size) {
            buf_append(&body, text + at, MIN(size, sizeof(text) - 1 - at));
            api_take_lines(&body, &looked, on_line, &lines);
        }
        assert_int_equal(lines.count, 3);
        assert_int_equal(lines.sum, 9);
        assert_string_equal(buf_text(&body), "{\"n\":");
        buf_free(&body);
    }
}

/* One look at each byte: a line does not move all that is behind it. */
static void test_empty_lines(void **state)
{
    struct buf body = BUF_INIT(LIMIT_DOCKER_REPLY);
    struct lines lines = {0};
    size_t looked = 0;

    (void)state;
    for (size_t i = 0; i < LIMIT_DOCKER_REPLY / 16; i++)
        buf_append(&body, "\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n\n", 16);
    api_take_lines(&body, &looked, on_line, &lines);
    assert_int_equal(lines.count, 0);
    assert_int_equal(body.length, 0);
    assert_int_equal(looked, 0);
    buf_free(&body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nobody_there),
        cmocka_unit_test(test_tls),
        cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_words_are_cleaned),
        cmocka_unit_test(test_images_that_do_not_come),
        cmocka_unit_test(test_runtimes),
        cmocka_unit_test(test_versions),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_empty_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
