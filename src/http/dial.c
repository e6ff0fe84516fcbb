/*
 * dial.c - a connection that libcurl makes and then only carries (CURLOPT_CONNECT_ONLY); see
 * dial.h. The easy handle is used alone, outside of the client's exchanges.
 */
#include "http/dial.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "http/exchange.h"

struct http_dial {
    const struct http_client *client;
    CURL *easy;
    int fd; /* libcurl's */
    char why[CURL_ERROR_SIZE];
};

void http_dial_close(struct http_dial *dial)
{
    if (!dial)
        return;
    curl_easy_cleanup(dial->easy);
    free(dial);
}

int http_dial_open(struct http_client *client, struct http_dial **ret, struct error *err)
{
    struct http_dial *dial = calloc(1, sizeof(*dial));
    curl_socket_t fd = CURL_SOCKET_BAD;
    CURLcode code;

    if (!dial)
        return error_memory(err);
    dial->client = client;
    dial->easy = curl_easy_init();
    if (!dial->easy || !client_place_apply(client, dial->easy, "/") ||
        curl_easy_setopt(dial->easy, CURLOPT_CONNECT_ONLY, 1L) != CURLE_OK) {
        http_dial_close(dial);
        return error_memory(err);
    }
    curl_easy_setopt(dial->easy, CURLOPT_ERRORBUFFER, dial->why);
    code = curl_easy_perform(dial->easy);
    if (code == CURLE_OK)
        code = curl_easy_getinfo(dial->easy, CURLINFO_ACTIVESOCKET, &fd);
    if (code != CURLE_OK || fd == CURL_SOCKET_BAD) {
        int r = client_curl_error(client, dial->easy, code, dial->why, err);

        http_dial_close(dial);
        return r;
    }
    dial->fd = (int)fd;
    *ret = dial;
    return 0;
}

int http_dial_headers(const struct http_dial *dial, struct buf *to)
{
    const char *host = strstr(dial->client->base, "://") + 3;
    const char *authorization = dial->client->authorization;
    int r = buf_printf(to, "Host: %s\r\n", host);

    return r == 0 && authorization ? buf_printf(to, "%s\r\n", authorization) : r;
}

int http_dial_fd(const struct http_dial *dial)
{
    return dial->fd;
}

ssize_t http_dial_read(struct http_dial *dial, void *data, size_t size)
{
    size_t length = 0;
    CURLcode code = curl_easy_recv(dial->easy, data, size, &length);

    if (code == CURLE_AGAIN)
        return -EAGAIN;
    return code == CURLE_OK ? (ssize_t)length : -ECONNRESET;
}

ssize_t http_dial_write(struct http_dial *dial, const void *data, size_t length)
{
    size_t sent = 0;
    CURLcode code = curl_easy_send(dial->easy, data, length, &sent);

    if (code == CURLE_AGAIN)
        return -EAGAIN;
    return code == CURLE_OK ? (ssize_t)sent : -ECONNRESET;
}
