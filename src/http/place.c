/* place.c - the address of a client's server: a unix socket, TCP or TLS. */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "http/exchange.h"

#define KEEPALIVE_S 15L
#define CONNECT_MS 10000L /* a host that does not answer at all */

/* What follows the scheme, if the address has it. */
static const char *behind(const char *address, const char *scheme)
{
    return str_starts(address, scheme) ? address + strlen(scheme) : NULL;
}

static int set_socket(struct http_client *client, const char *path)
{
    client->socket_path = strdup(path);
    client->base = strdup("http://bailey");
    return client->socket_path && client->base ? 0 : -ENOMEM;
}

/* "host:port", and nothing that could change the rest of a URL. */
static bool is_host(const char *text)
{
    size_t length = strlen(text);

    return length > 0 && length < 512 && strcspn(text, "/?#@\\ \t\r\n\"<>%") == length;
}

static int set_host(struct http_client *client, const char *host, bool has_tls)
{
    CLEANUP(freep) char *copy = strdup(host);
    CLEANUP(buf_free) struct buf base = BUF_INIT(1024);
    size_t length = copy ? strlen(copy) : 0;

    if (!copy)
        return -ENOMEM;
    if (length > 0 && copy[length - 1] == '/')
        copy[length - 1] = 0;
    if (!is_host(copy))
        return -EINVAL;
    client->has_tls = has_tls;
    if (buf_printf(&base, "%s://%s", has_tls ? "https" : "http", copy) < 0)
        return -ENOMEM;
    client->base = strdup(buf_text(&base));
    return client->base ? 0 : -ENOMEM;
}

/* A file that exists and cannot be read is reported by libcurl, with a clear message. */
static int set_file(char **ret, const char *folder, const char *name, bool is_needed)
{
    CLEANUP(buf_free) struct buf path = BUF_INIT(LIMIT_PATH_BYTES);

    if (buf_printf(&path, "%s/%s", folder, name) < 0)
        return -ENAMETOOLONG;
    if (!is_needed && access(buf_text(&path), F_OK) < 0 && errno == ENOENT)
        return 0;
    *ret = strdup(buf_text(&path));
    return *ret ? 0 : -ENOMEM;
}

static int set_address(struct http_client *client, const char *address, bool has_folder)
{
    const char *rest = behind(address, "unix://");

    if (rest)
        return rest[0] == '/' ? set_socket(client, rest) : -EINVAL;
    rest = behind(address, "tcp://");
    if (rest)
        return set_host(client, rest, has_folder);
    rest = behind(address, "https://");
    if (rest)
        return set_host(client, rest, true);
    rest = behind(address, "http://");
    return rest ? set_host(client, rest, false) : -EINVAL;
}

static int set_files(struct http_client *client, const char *folder)
{
    int r = set_file(&client->ca, folder, "ca.pem", !client->is_unverified);

    if (r == 0)
        r = set_file(&client->cert, folder, "cert.pem", false);
    if (r == 0)
        r = set_file(&client->key, folder, "key.pem", false);
    if (r < 0)
        return r;
    client->tls_folder = strdup(folder);
    return client->tls_folder ? 0 : -ENOMEM;
}

/* A line break in it would be another header. */
int http_client_set_key(struct http_client *client, const char *key)
{
    CLEANUP(buf_free) struct buf header = BUF_INIT(4 * KIB);
    char *before = client->authorization;

    if (strpbrk(key, "\r\n"))
        return -EINVAL;
    if (buf_printf(&header, "Authorization: Bearer %s", key) < 0)
        return -EINVAL;
    client->authorization = strdup(buf_text(&header));
    explicit_bzero(header.data, header.length);
    if (before)
        explicit_bzero(before, strlen(before));
    free(before);
    return client->authorization ? 0 : -ENOMEM;
}

int client_place_set(struct http_client *client, const struct http_place *place, struct error *err)
{
    const char *folder = place->tls_folder;
    bool has_folder = folder && folder[0];
    int r = set_address(client, place->address, has_folder);

    client->reactor = place->reactor;
    client->is_unverified = place->is_unverified && has_folder;
    if (r == 0 && has_folder && client->has_tls)
        r = set_files(client, folder);
    if (r == 0 && place->proxy && !(client->proxy = strdup(place->proxy)))
        r = -ENOMEM;
    if (r == 0 && place->ca_file && !(client->ca = strdup(place->ca_file)))
        r = -ENOMEM;
    if (r == 0 && place->key && (r = http_client_set_key(client, place->key)) == -EINVAL)
        return error_set(err, r, ERROR_BAD_CONFIG,
                         "the key is not one: it has a line break, or "
                         "is far too long");
    if (r == -ENOMEM)
        return error_set(err, r, ERROR_ENGINE, "out of memory");
    if (r < 0)
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG,
                         "'%s' is not an address: unix:///path, http://host:port, "
                         "https://host:port or tcp://host:port",
                         place->address);
    return 0;
}

void client_place_free(struct http_client *client)
{
    free(client->socket_path);
    free(client->base);
    free(client->ca);
    free(client->cert);
    free(client->key);
    free(client->tls_folder);
    free(client->proxy);
    if (client->authorization)
        explicit_bzero(client->authorization, strlen(client->authorization));
    free(client->authorization);
}

static bool set_tls(const struct http_client *client, CURL *easy)
{
    CURLcode r = CURLE_OK;

    if (client->ca) { /* and none of the system's, which are in a folder, too */
        r = curl_easy_setopt(easy, CURLOPT_CAINFO, client->ca);
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    }
    if (r == CURLE_OK && client->cert)
        r = curl_easy_setopt(easy, CURLOPT_SSLCERT, client->cert);
    if (r == CURLE_OK && client->key)
        r = curl_easy_setopt(easy, CURLOPT_SSLKEY, client->key);
    if (client->is_unverified) {
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    return r == CURLE_OK;
}

/*
 * libcurl's own sockets are inherited by programs that the process executes. One of these would
 * keep the connection, and with it what the server runs for us, after we have gone.
 */
static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)ctx;
    (void)purpose;
    return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

bool client_place_apply(const struct http_client *client, CURL *easy, const char *path)
{
    CLEANUP(buf_free) struct buf url = BUF_INIT(LIMIT_HTTP_TARGET + KIB);

    if (buf_printf(&url, "%s%s", client->base, path) < 0)
        return false;
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    /* whatever the environment says */
    curl_easy_setopt(easy, CURLOPT_PROXY, client->proxy ? client->proxy : "");
    if (client->proxy)
        curl_easy_setopt(easy, CURLOPT_NOPROXY, "");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    if (!client->socket_path) { /* a peer that vanished without a word is noticed */
        curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
        curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_S);
        curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_S);
    }
    if (client->has_tls) /* streams over TLS are idle connections to libcurl: see stream.c */
        curl_easy_setopt(easy, CURLOPT_MAXAGE_CONN, (long)INT_MAX);
    if (client->has_tls && !set_tls(client, easy))
        return false;
    if (client->socket_path &&
        curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, client->socket_path) != CURLE_OK)
        return false;
    return curl_easy_setopt(easy, CURLOPT_URL, buf_text(&url)) == CURLE_OK;
}
