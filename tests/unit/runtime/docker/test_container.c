/*
 * test_container.c - a container on its way to be a box, with a Docker that does not do what is
 * asked: one of the test's own, in the same thread, that answers what a test wants.
 */
#include "runtime/host_stage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "base/cleanup.h"
#include "base/tar.h"
#include "runtime/docker/docker_private.h"

#define PEERS 64
#define TURNS 20000

struct peer { /* one connection to Docker */
    int fd;
    char in[32768];
    size_t have;
};

static struct sockaddr_un address;
static struct config config = {.docker = {.image = "image:1"}};
static struct peer peers[PEERS];
static int listen_fd;
static struct buf heard;                 /* "METHOD path\n" for each that was asked */
static const char *folder = "/a/folder"; /* NULL: nothing is asked before there is a box */

/* What a test's Docker says differently. */
static struct {
    unsigned create_status; /* 0: it is made */
    const char *image;      /* what it says of it */
    bool ignores_attach, has_no_image;
    const char *spoiled,
        *with; /* the first that is asked for gets these bytes, and a closed door */
} fake_docker;

/* ---- Docker ---- */

static void put(int fd, const void *data, size_t length)
{
    assert_int_equal(send(fd, data, length, MSG_NOSIGNAL), length);
}

static void answer(int fd, unsigned status, const void *body, size_t length)
{
    char head[128];

    snprintf(head, sizeof(head), "HTTP/1.1 %u Word\r\nContent-Length: %zu\r\n\r\n", status, length);
    put(fd, head, strlen(head));
    if (length > 0)
        put(fd, body, length);
}

static void answer_text(int fd, unsigned status, const char *text)
{
    answer(fd, status, text, strlen(text));
}

static void answer_mark(int fd)
{
    CLEANUP(buf_free) struct buf tar = BUF_INIT(64 * KIB);

    assert_int_equal(
        tar_file(&tar, "whole", 0444, ((struct docker *)host->backend)->volume.hash, 64), 0);
    assert_int_equal(tar_end(&tar), 0);
    answer(fd, 200, tar.data, tar.length);
}

/* False: it says nothing, and keeps the connection. */
static bool answer_request(int fd, const char *line)
{
    if (strstr(line, "/events") || strstr(line, "/images/create"))
        return false;
    if (strstr(line, "/attach") && !fake_docker.ignores_attach)
        put(fd, "HTTP/1.1 101 UPGRADED\r\n\r\n", 25);
    if (strstr(line, "/attach"))
        return false;
    if (strstr(line, "GET /version"))
        answer_text(fd, 200, "{\"ApiVersion\":\"1.41\",\"MinAPIVersion\":\"1.12\"}");
    else if (strstr(line, "/containers/json"))
        answer_text(fd, 200, "[]");
    else if (strstr(line, "/images/") && fake_docker.has_no_image)
        answer_text(fd, 404, "{\"message\":\"No such image\"}");
    else if (strstr(line, "/images/") && fake_docker.image)
        answer_text(fd, 200, fake_docker.image);
    else if (strstr(line, "/archive?path=/bailey/whole"))
        answer_mark(fd);
    else if (strstr(line, "/create?name=bailey-fill-"))
        answer_text(fd, 201, "{}");
    else if (strstr(line, "/containers/create") && fake_docker.create_status)
        answer_text(fd, fake_docker.create_status, "{\"message\":\"it does not do that\"}");
    else
        answer_text(fd, 200, "{}");
    return true;
}

static void hear_peer(struct peer *peer)
{
    char *end, *length;
    size_t body = 0, head;
    ssize_t got =
        recv(peer->fd, peer->in + peer->have, sizeof(peer->in) - peer->have - 1, MSG_DONTWAIT);

    if (got == 0 || (got < 0 && errno != EAGAIN)) {
        close(peer->fd);
        peer->fd = -1;
        return;
    }
    if (got < 0)
        return;
    peer->have += (size_t)got;
    peer->in[peer->have] = 0;
    end = strstr(peer->in, "\r\n\r\n");
    if (!end)
        return;
    head = (size_t)(end + 4 - peer->in);
    length = strcasestr(peer->in, "\r\nContent-Length: ");
    if (length && length < end)
        body = strtoul(length + 18, NULL, 10);
    if (peer->have < head + body)
        return;
    *strstr(peer->in, " HTTP/1.1") = 0;
    assert_int_equal(buf_printf(&heard, "%s\n", peer->in), 0);
    peer->have = 0;
    if (!fake_docker.spoiled || !strstr(peer->in, fake_docker.spoiled)) {
        (void)answer_request(peer->fd, peer->in);
        return;
    }
    fake_docker.spoiled = NULL;
    put(peer->fd, fake_docker.with, strlen(fake_docker.with));
    close(peer->fd);
    peer->fd = -1;
}

static void be_docker(void)
{
    int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    for (size_t i = 0; fd >= 0 && i < PEERS; i++) {
        if (peers[i].fd < 0) {
            peers[i] = (struct peer){.fd = fd};
            fd = -1;
        }
    }
    assert_true(fd < 0);
    for (size_t i = 0; i < PEERS; i++) {
        if (peers[i].fd >= 0)
            hear_peer(&peers[i]);
    }
}

/* ---- the provider host ---- */

static void turn(void)
{
    poll_reactor_turn(&loop, 1);
    be_docker();
}

static void turn_until_heard(const char *part)
{
    for (int i = 0; i < TURNS && !strstr(buf_text(&heard), part); i++)
        turn();
    if (!strstr(buf_text(&heard), part))
        fail_msg("nobody asked for %s:\n%s", part, buf_text(&heard));
}

static void listen_as_docker(void)
{
    address = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/bailey-docked-%d.sock", getpid());
    unlink(address.sun_path);
    listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(listen_fd, (struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listen_fd, PEERS), 0);
    for (size_t i = 0; i < PEERS; i++)
        peers[i].fd = -1;
    heard = BUF_INIT(MIB);
}

static void tell(const struct launcher_message *message)
{
    assert_int_equal(launcher_send(control_fd, message, -1), 1);
}

/* The next message of that type. */
static struct launcher_message wait_for(enum launcher_type type)
{
    struct launcher_message message = {0};

    for (int i = 0; i < TURNS; i++) {
        int fd = -1, r = launcher_receive(control_fd, &message, &fd);

        assert_true(r >= 0 && fd < 0);
        if (r > 0 && message.type == type)
            return message;
        turn();
    }
    fail_msg("it never came:\n%s", buf_text(&heard));
    return message;
}

static void greet(void)
{
    struct launcher_message hello = {.type = LAUNCHER_HELLO, .number = LAUNCHER_VERSION};

    host_meet();
    tell(&hello);
    wait_for(LAUNCHER_WELCOME);
}

static int set_up(void **state)
{
    static char url[160];

    (void)state;
    memset(&fake_docker, 0, sizeof(fake_docker));
    poll_reactor_init(&loop);
    listen_as_docker();
    snprintf(url, sizeof(url), "unix://%s", address.sun_path);
    config.docker.host = url;
    host_begin((struct host_spec){.engine = "e_1", .state = folder}, &config);
    greet();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    host_end();
    for (size_t i = 0; i < PEERS; i++) {
        if (peers[i].fd >= 0)
            close(peers[i].fd);
    }
    close(listen_fd);
    unlink(address.sun_path);
    buf_free(&heard);
    poll_reactor_free(&loop);
    return 0;
}

static void ask_for_box(void)
{
    struct launcher_message make = {.type = LAUNCHER_MAKE,
                                    .make = {.serial = 1,
                                             .key = "k",
                                             .memory_bytes = 256 * MIB,
                                             .disk_bytes = 64 * MIB,
                                             .pids = 64,
                                             .tier = TIER_NONE}};

    tell(&make);
}

/* ---- tests ---- */

/* Somebody else has the name: he keeps what he has. */
static void test_a_name_that_is_taken(void **state)
{
    struct launcher_message message;

    (void)state;
    fake_docker.create_status = 409;
    ask_for_box();
    message = wait_for(LAUNCHER_REFUSED);
    assert_int_equal(message.refused.serial, 1);
    for (int i = 0; i < 100; i++)
        turn();
    assert_non_null(strstr(buf_text(&heard), "/containers/create?name=bailey-e_1-"));
    assert_null(strstr(buf_text(&heard), "/containers/bailey-e_1-"));
}

/* Docker failed in the middle: what there may be is removed. */
static void test_a_create_that_failed(void **state)
{
    (void)state;
    fake_docker.create_status = 500;
    ask_for_box();
    wait_for(LAUNCHER_REFUSED);
    assert_non_null(strstr(buf_text(&heard), "DELETE /v1.41/containers/bailey-e_1-"));
}

/* An engine's next provider host counts from 1 again; the containers of the one before may still be
 * there.
 */
static void test_names_of_two_hosts(void **state)
{
    struct host_spec spec = host->spec;
    struct host *next;

    (void)state;
    assert_int_equal(host_open(&loop.reactor, &spec, backend_find("docker"), &config, &next, NULL),
                     0);
    assert_string_equal(host->engine, next->engine);
    assert_string_not_equal(host->life, next->life);
    host_close(next);
}

/* Nobody waits for ever: a Docker that does not answer is said to. */
static void test_an_attach_without_an_answer(void **state)
{
    (void)state;
    fake_docker.ignores_attach = true;
    ask_for_box();
    turn_until_heard("/attach?");
    assert_int_equal(host->boxes->stage, BOX_ATTACHING);
    assert_true(host->boxes->timer->due_ms != UINT64_MAX);
    host->boxes->timer->due_ms = 0;
    assert_ptr_equal(wait_for(LAUNCHER_REFUSED).refused.error.code, ERROR_PROVIDER_UNAVAILABLE);
    assert_non_null(strstr(buf_text(&heard), "DELETE /v1.41/containers/bailey-e_1-"));
    assert_null(host->boxes);
}

/* A volume of the image's own would be made for the helper already, and stay. */
static void test_an_image_with_volumes(void **state)
{
    struct launcher_message message;

    (void)state;
    fake_docker.image = "{\"Config\":{\"Volumes\":{\"/var/lib/data\\n\\u001b[31m\":{}}}}";
    ask_for_box();
    message = wait_for(LAUNCHER_REFUSED);
    assert_ptr_equal(message.refused.error.code, ERROR_IMAGE_UNUSABLE);
    assert_non_null(strstr(message.refused.error.text, "(/var/lib/data  [31m)"));
    assert_null(strstr(buf_text(&heard), "POST"));
}

/* Who stops does not wait for an image that nobody wants any more. */
static void test_leaving_in_the_middle_of_a_pull(void **state)
{
    (void)state;
    fake_docker.has_no_image = true;
    ask_for_box();
    turn_until_heard("/images/create");
    host_leave(host);
    if (host->leave_timer)
        host->leave_timer->due_ms = UINT64_MAX; /* not by losing patience */
    for (int i = 0; i < TURNS && !has_left; i++)
        turn();
    assert_true(has_left);
}

/* Whatever it says to whatever it is asked: the box is refused, and nothing of it is left here. */
static void test_answers_that_make_no_sense(void **state)
{
    static const char *const asked[] = {
        "/version",
        "/info",
        "/containers/json",
        "GET /v1.41/volumes",
        "GET /v1.41/events",
        "/images/",
        "/volumes/create",
        "/create?name=bailey-fill",
        "/archive?",
        "DELETE /v1.41/containers/bailey-fill",
        "/create?name=bailey-e_1",
        "/attach",
        "/start",
        "GET /v1.41/containers/bailey-e_1",
        "DELETE /v1.41/containers/bailey-e_1",
    };
    static const char *const with[] = {
        "",
        "\001\002 no words\n\n",
        "HTTP/1.1 500 Word\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nhalf",
        "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{\"half\":",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nnot JSON!",
        "HTTP/1.1 200 OK\r\nContent-Length: 70\r\n\r\n"
        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
        "HTTP/1.1 200 OK\r\nContent-Length: 149\r\n\r\n"
        "{\"ApiVersion\":1.41,\"MinAPIVersion\":[],\"Arch\":{},\"NCPU\":\"2\",\"SecurityOptions\":{"
        "},"
        "\"Volumes\":[1,{\"Name\":2}],\"Warnings\":[null],\"Config\":7,\"HostConfig\":[]}",
        "HTTP/1.1 200 OK\r\nContent-Length: 58\r\n\r\n"
        "[null,1,{\"Id\":7},{\"Id\":\"x\",\"Names\":[1],\"Labels\":[]},\"text\"]",
    };

    folder = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(asked) * ARRAY_SIZE(with); i++) {
        set_up(state);
        fake_docker.spoiled = asked[i % ARRAY_SIZE(asked)];
        fake_docker.with = with[i / ARRAY_SIZE(asked)];
        ask_for_box();
        wait_for(LAUNCHER_REFUSED);
        assert_null(fake_docker.spoiled);
        assert_null(host->boxes);
        host_leave(host);
        for (int k = 0; k < TURNS && !has_left; k++)
            turn();
        assert_true(has_left);
        tear_down(state);
    }
    folder = "/a/folder";
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_name_that_is_taken),
        TEST(test_a_create_that_failed),
        TEST(test_names_of_two_hosts),
        TEST(test_an_attach_without_an_answer),
        TEST(test_an_image_with_volumes),
        TEST(test_leaving_in_the_middle_of_a_pull),
        cmocka_unit_test(test_answers_that_make_no_sense),
    };

    return cmocka_run_group_tests_name("runtime/docker docked", tests, NULL, NULL);
}
