/*
 * test_tls.c - HTTPS: a certificate that is replaced while connections are there, and ones that
 * cannot be used.
 */
#include "handlers.h"

#include <signal.h>

#include "over_tls.h"

static struct identity first, second;

static int set_up_tls(void **state)
{
    struct identity copy = first;
    struct http_tls tls = {copy.certificate, copy.key};
    struct http_server_spec tls_spec = spec;

    (void)state;
    is_tcp = true;
    tls_spec.tls = &tls;
    serving_start(&tls_spec);
    memset(&copy, 0, sizeof(copy)); /* it was read */
    return 0;
}

static int set_up_both(void **state)
{
    struct http_tls tls = {first.certificate, first.key};
    struct http_server_spec both = spec;

    (void)state;
    is_tcp = true;
    both.tls = &tls;
    both.takes_plain = true;
    both.head_ms = 200;
    both.body_ms = 200;
    serving_start(&both);
    return 0;
}

/* ---- a client that speaks TLS and believes everything; what it checks is who answers ---- */

struct call {
    int fd;
    gnutls_certificate_credentials_t credentials;
    gnutls_session_t session;
};
static struct call calls[2];

static void call_open(struct call *call)
{
    int r;

    call->fd = client_connect();
    gnutls_certificate_allocate_credentials(&call->credentials);
    gnutls_init(&call->session, GNUTLS_CLIENT);
    gnutls_set_default_priority(call->session);
    gnutls_credentials_set(call->session, GNUTLS_CRD_CERTIFICATE, call->credentials);
    gnutls_transport_set_int(call->session, call->fd);
    do {
        r = gnutls_handshake(call->session);
    } while (r < 0 && !gnutls_error_is_fatal(r));
    must(r == 0, "handshake");
}

static void call_close(struct call *call)
{
    gnutls_bye(call->session, GNUTLS_SHUT_WR);
    gnutls_deinit(call->session);
    gnutls_certificate_free_credentials(call->credentials);
    close(call->fd);
}

static void must_show(struct call *call, const char *name)
{
    unsigned count = 0;
    const gnutls_datum_t *shown = gnutls_certificate_get_peers(call->session, &count);
    gnutls_x509_crt_t certificate;
    char common[64] = "";
    size_t size = sizeof(common);

    must(shown && count == 1, "a certificate");
    gnutls_x509_crt_init(&certificate);
    gnutls_x509_crt_import(certificate, shown, GNUTLS_X509_FMT_DER);
    gnutls_x509_crt_get_dn_by_oid(certificate, GNUTLS_OID_X520_COMMON_NAME, 0, 0, common, &size);
    gnutls_x509_crt_deinit(certificate);
    must(strcmp(common, name) == 0, name);
}

static void must_hear_hello(struct call *call)
{
    static const char request[] = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";
    char reply[4096] = "";
    size_t length = 0;

    must(gnutls_record_send(call->session, request, sizeof(request) - 1) == sizeof(request) - 1,
         "send");
    while (!strstr(reply, "hello")) {
        ssize_t count =
            gnutls_record_recv(call->session, reply + length, sizeof(reply) - 1 - length);

        if (count == GNUTLS_E_AGAIN || count == GNUTLS_E_INTERRUPTED)
            continue;
        must(count > 0, "receive");
        length += (size_t)count;
        reply[length] = '\0';
    }
    must(strncmp(reply, "HTTP/1.1 200", 12) == 0, "200");
}

/* A body that is too long and does not end: the answer goes past libmicrohttpd, by TLS all the
 * same. */
static void call_endless(void)
{
    char request[2048], reply[4096] = "";
    size_t length = 0;
    ssize_t count;

    call_open(&calls[0]);
    snprintf(request, sizeof(request),
             "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
             "fff\r\n%01001d",
             0);
    must(gnutls_record_send(calls[0].session, request, strlen(request)) > 0, "send");
    do {
        count = gnutls_record_recv(calls[0].session, reply + length, sizeof(reply) - 1 - length);
        if (count > 0)
            length += (size_t)count;
    } while (count > 0 || count == GNUTLS_E_AGAIN || count == GNUTLS_E_INTERRUPTED);
    must(count == 0, "an end that is TLS's own");
    must(strncmp(reply, "HTTP/1.1 413", 12) == 0 && strstr(reply, " here"), "the answer");
    call_close(&calls[0]);
}

static void an_endless_body_is_answered(void **state)
{
    (void)state;
    serve(call_endless);
    assert_int_equal(seen.handled, 0);
}

static void call_first(void)
{
    call_open(&calls[0]);
    must_show(&calls[0], "first");
    must_hear_hello(&calls[0]);
}

static void call_second(void)
{
    call_open(&calls[1]);
    must_show(&calls[1], "second");
    must_hear_hello(&calls[1]);
    must_hear_hello(&calls[0]); /* which began before */
    must_show(&calls[0], "first");
    call_close(&calls[0]);
    call_close(&calls[1]);
}

static void a_new_certificate_ends_no_connection(void **state)
{
    struct error err = {0};

    (void)state;
    serve(call_first);
    assert_int_equal(
        http_server_set_tls(server, &(struct http_tls){second.certificate, second.key}, &err), 0);
    serve(call_second);
    assert_int_equal(seen.handled, 3);
}

static void what_cannot_be_used_changes_nothing(void **state)
{
    struct error err = {0};

    (void)state;
    assert_int_equal(
        http_server_set_tls(server, &(struct http_tls){second.certificate, first.key}, &err),
        -EINVAL);
    assert_string_equal(err.code, ERROR_BAD_CONFIG);
    assert_int_equal(http_server_set_tls(server, &(struct http_tls){"no PEM", ""}, &err), -EINVAL);
    serve(call_first);
    call_close(&calls[0]);
}

static void speak_plain(void)
{
    char reply[4096];
    int fd = client_connect();

    client_say(fd, "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n");
    client_read_all(fd, reply, sizeof(reply));
    must(!strstr(reply, "hello"), "no reply without TLS");
    close(fd);
}

static void plain_words_are_not_heard(void **state)
{
    (void)state;
    serve(speak_plain);
    assert_int_equal(seen.handled, 0);
}

/* ---- both at one address ---- */

static void speak_both(void)
{
    call_open(&calls[0]);
    must_hear_hello(&calls[0]);
    client_expect("GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 200",
                  "hello");
    must_hear_hello(&calls[0]); /* the connection was kept */
    call_close(&calls[0]);
}

static void one_address_answers_tls_and_plain_words(void **state)
{
    (void)state;
    serve(speak_both);
    assert_int_equal(seen.handled, 3);
}

/* The server closes it: its time for a head is over, without a word or with one. */
static void be_silent(void)
{
    char reply[4096];
    int silent = client_connect(), slow = client_connect();

    client_say(slow, "G");
    client_expect("GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 200",
                  "hello");
    must(client_read_all(silent, reply, sizeof(reply)) == 0, "an end without a word");
    client_read_all(slow, reply, sizeof(reply));
    must(!strstr(reply, "hello"), "no reply to half a request");
    close(silent);
    close(slow);
}

static void a_connection_without_a_word_is_closed_and_holds_up_no_other(void **state)
{
    (void)state;
    serve(be_silent);
    assert_int_equal(seen.handled, 1);
}

/* More than may be silent: the oldest are closed for the others. */
static void be_many(void)
{
    int silent[300];

    for (size_t i = 0; i < ARRAY_SIZE(silent); i++)
        silent[i] = client_connect();
    client_expect("GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "HTTP/1.1 200",
                  "hello");
    for (size_t i = 0; i < ARRAY_SIZE(silent); i++)
        close(silent[i]);
}

static void many_that_are_silent_keep_no_client_out(void **state)
{
    (void)state;
    serve(be_many);
    assert_int_equal(seen.handled, 1);
}

static void speak_nonsense(void)
{
    static const char record[] = {0x16, 3, 1, 0, 4, 'b', 'a', 'd', '!'}, zeros[64];
    char reply[4096];
    int broken = client_connect(), nothing = client_connect();

    client_send(broken, record, sizeof(record));
    client_send(nothing, zeros, sizeof(zeros));
    client_read_all(broken, reply, sizeof(reply));
    client_read_all(nothing, reply, sizeof(reply));
    must(!strstr(reply, " 200 "), "no good reply to nonsense");
    close(broken);
    close(nothing);
    speak_both();
}

static void nonsense_ends_its_own_connection_only(void **state)
{
    (void)state;
    serve(speak_nonsense);
    assert_int_equal(seen.handled, 3);
}

static void a_certificate_is_replaced_where_plain_words_are_heard(void **state)
{
    struct error err = {0};

    (void)state;
    serve(call_first);
    assert_int_equal(
        http_server_set_tls(server, &(struct http_tls){second.certificate, second.key}, &err), 0);
    serve(call_second);
}

static void a_plain_server_stays_plain(void **state)
{
    struct error err = {0};

    (void)state;
    is_tcp = true;
    serving_start(&spec);
    assert_int_equal(
        http_server_set_tls(server, &(struct http_tls){first.certificate, first.key}, &err),
        -EINVAL);
    serving_stop();
}

static void a_server_does_not_start_with_half_an_identity(void **state)
{
    struct http_server_spec bad = spec;
    struct http_server *never = NULL;
    struct error err = {0};

    (void)state;
    bad.tls = &(struct http_tls){first.certificate, second.key};
    bad.listen_fd = listen_fd;
    assert_int_equal(http_server_start(reactor, &bad, &never, &err), -EINVAL);
    assert_string_equal(err.code, ERROR_BAD_CONFIG);
    assert_null(never);
}

#define TLS_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_tls, tear_down)
#define BOTH_TEST(name) cmocka_unit_test_setup_teardown(name, set_up_both, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TLS_TEST(a_new_certificate_ends_no_connection),
        TLS_TEST(what_cannot_be_used_changes_nothing),
        TLS_TEST(plain_words_are_not_heard),
        TLS_TEST(an_endless_body_is_answered),
        cmocka_unit_test(a_plain_server_stays_plain),
        BOTH_TEST(one_address_answers_tls_and_plain_words),
        BOTH_TEST(a_connection_without_a_word_is_closed_and_holds_up_no_other),
        BOTH_TEST(many_that_are_silent_keep_no_client_out),
        BOTH_TEST(nonsense_ends_its_own_connection_only),
        BOTH_TEST(a_certificate_is_replaced_where_plain_words_are_heard),
        TLS_TEST(a_server_does_not_start_with_half_an_identity),
    };

    signal(SIGPIPE, SIG_IGN);
    make_identity(&first, "first");
    make_identity(&second, "second");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
