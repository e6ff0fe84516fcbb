/*
 * curl_error.c - what a failure of libcurl means: a number for code that has to decide, and a text
 * for people; see http_call_events in client.h.
 *
 * libcurl has few codes for TLS. With TLS 1.3 a client without a certificate has finished its
 * handshake when the server refuses it, which is then an error of reading; only the message of
 * libcurl, that of the library below it (OpenSSL or GnuTLS), distinguishes such cases. And when the
 * server has closed before libcurl looks at the connection, there is no such message (4 of 10 times
 * on loopback): a server that closes the connection before it ever answered has perhaps refused us.
 */
#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "http/exchange.h"

static bool has_words(const char *why, const char *words)
{
    return strcasestr(why, words) != NULL;
}

/* The server says what it does not like, not only that it has gone. */
static bool has_reason(const char *why)
{
    return has_words(why, " alert ") || has_words(why, "certificate");
}

/*
 * Our own certificate or key, in libcurl's message with GnuTLS; 7.88 and 8.14 continue differently.
 */
static bool is_unreadable(const char *why)
{
    return has_words(why, "error reading x.509");
}

/* In the middle of a handshake: the server closed before it read our last message. */
static bool has_gone(const char *why)
{
    return has_words(why, "broken pipe") || has_words(why, "reset by peer") ||
           has_words(why, "push function") || has_words(why, "pull function");
}

static int tls_number(const struct http_client *client, CURLcode code, const char *why)
{
    switch (code) {
    case CURLE_PEER_FAILED_VERIFICATION: /* "... does not match target host name ..." */
        return has_words(why, "match") ? -EREMCHG : -EKEYREJECTED;
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CACERT_BADFILE:
        return -ENOKEY;
    case CURLE_SSL_CONNECT_ERROR:
        return is_unreadable(why) || has_reason(why) || has_gone(why) ? -ENOKEY : -EPROTOTYPE;
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_GOT_NOTHING:
        return has_words(why, " alert ") || !client->has_answered ? -ENOKEY : 0;
    default:
        return 0;
    }
}

static int number(CURL *easy, CURLcode code)
{
    long os_errno = 0;

    switch (code) {
    case CURLE_OUT_OF_MEMORY:
        return -ENOMEM;
    case CURLE_WRITE_ERROR:
    case CURLE_ABORTED_BY_CALLBACK:
        return -ECANCELED;
    case CURLE_COULDNT_CONNECT:
        curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &os_errno);
        return os_errno > 0 ? (int)-os_errno : -ECONNREFUSED;
    case CURLE_COULDNT_RESOLVE_HOST:
        return -EHOSTUNREACH;
    case CURLE_OPERATION_TIMEDOUT:
        return -ETIMEDOUT;
    case CURLE_GOT_NOTHING:
    case CURLE_PARTIAL_FILE:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
        return -ECONNRESET;
    default:
        return -EPROTO;
    }
}

/*
 * A certificate's subject is in libcurl's message: untrusted text that goes to terminals and logs.
 */
static void clean(char *text, size_t size, const char *why)
{
    size_t length = 0;

    for (; *why && length < size - 1; why++)
        text[length++] = iscntrl((unsigned char)*why) ? ' ' : *why;
    text[utf8_floor(text, length)] = 0;
}

static int explain_key(const struct http_client *client, CURLcode code, const char *why,
                       struct error *err)
{
    const char *folder = client->tls_folder ? client->tls_folder : "";
    bool is_file =
        code == CURLE_SSL_CERTPROBLEM || code == CURLE_SSL_CACERT_BADFILE || is_unreadable(why);
    const char *who = has_reason(why) ? "it" : "it hung up: perhaps it";

    if (is_file)
        return error_set(err, -ENOKEY, ERROR_ENGINE, "the certificates in '%s' cannot be used (%s)",
                         folder, why);
    if (client->cert)
        return error_set(err, -ENOKEY, ERROR_ENGINE, "%s does not accept the certificate %s (%s)",
                         who, client->cert, why);
    return error_set(err, -ENOKEY, ERROR_ENGINE,
                     "%s requires a certificate, and there is no cert.pem in '%s' (%s)", who,
                     folder, why);
}

int client_curl_error(const struct http_client *client, CURL *easy, CURLcode code, const char *said,
                      struct error *err)
{
    char why[CURL_ERROR_SIZE];
    int num;

    clean(why, sizeof(why), said[0] ? said : curl_easy_strerror(code));
    num = client->has_tls ? tls_number(client, code, why) : 0;
    switch (num) {
    case -ENOKEY:
        return explain_key(client, code, why, err);
    case -EKEYREJECTED:
        return error_set(err, num, ERROR_ENGINE, "its certificate cannot be verified with %s (%s)",
                         client->ca ? client->ca : "this machine", why);
    case -EREMCHG:
        return error_set(err, num, ERROR_ENGINE, "its certificate is for another name (%s)", why);
    case -EPROTOTYPE:
        return error_set(err, num, ERROR_ENGINE, "it does not use TLS (%s)", why);
    default:
        return error_set(err, num ? num : number(easy, code), ERROR_ENGINE, "%s", why);
    }
}
