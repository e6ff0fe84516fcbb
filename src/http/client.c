/* client.c - HTTP as a client: the exchanges of one, and waiting for them. */
#include "http/client.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "http/exchange.h"

#define EXTRA_FDS 16
#define FOREVER_MS                                                                \
    3600000 /* curl_multi_poll() has no forever; to return for nothing is allowed \
             */

static CURLcode library_state;

/*
 * Once for the process, and never undone: the program around us may use libcurl, too, and not every
 * version lets threads do this at the same time.
 */
static void start_library(void)
{
    library_state = curl_global_init(CURL_GLOBAL_DEFAULT);
}

int http_client_open_at(const struct http_place *place, struct http_client **ret, struct error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct http_client *client = calloc(1, sizeof(*client));
    int r;

    pthread_once(&once, start_library);
    if (!client || library_state != CURLE_OK) {
        free(client);
        return error_memory(err);
    }
    client->multi = curl_multi_init();
    r = client_place_set(client, place, err);
    if (r == 0 && (!client->multi || (place->reactor && drive_start(client) < 0)))
        r = error_memory(err);
    if (r < 0) {
        http_client_close(client);
        return r;
    }
    *ret = client;
    return 0;
}

int http_client_open(const char *socket_path, struct http_client **ret, struct error *err)
{
    CLEANUP(buf_free) struct buf address = BUF_INIT(LIMIT_PATH_BYTES + 16);
    struct http_place place = {0};

    if (buf_printf(&address, "unix://%s", socket_path) < 0)
        return error_set(err, -ENAMETOOLONG, ERROR_BAD_INPUT, "the socket's path is too long");
    place.address = buf_text(&address);
    return http_client_open_at(&place, ret, err);
}

static void exchange_drop(struct http_client *client, struct http_exchange *exchange)
{
    if (exchange->is_added)
        curl_multi_remove_handle(client->multi, exchange->easy);
    exchange_free(exchange);
}

void http_client_close(struct http_client *client)
{
    if (!client)
        return;
    while (client->exchanges) {
        struct http_exchange *exchange = client->exchanges;

        client->exchanges = exchange->next;
        exchange_drop(client, exchange);
    }
    streams_end(client);
    curl_multi_cleanup(client->multi); /* may call back about its sockets */
    drive_end(client);
    client_place_free(client);
    free(client->header);
    free(client);
}

int http_client_set_header(struct http_client *client, const char *header)
{
    char *copy = header[0] ? strdup(header) : NULL;

    if (header[0] && !copy)
        return -ENOMEM;
    free(client->header);
    client->header = copy;
    return 0;
}

int http_call_start(struct http_client *client, const struct http_call *call,
                    const struct http_call_events *events, void *ctx, struct http_exchange **ret,
                    struct error *err)
{
    struct http_exchange *exchange;
    int r;

    if (call->path[0] != '/' || strlen(call->path) > LIMIT_HTTP_TARGET)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "the path is too long, or none");
    r = exchange_new(client, call, events, ctx, &exchange);
    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "out of memory");
    exchange->next = client->exchanges;
    client->exchanges = exchange;
    drive_soon(client);
    if (ret)
        *ret = exchange;
    return 0;
}

void http_call_pause(struct http_exchange *exchange, bool is_paused)
{
    exchange->is_paused = is_paused;
    if (!is_paused)
        drive_soon(exchange->client); /* client_settle() lets it go on */
}

void http_call_more(struct http_exchange *exchange)
{
    exchange->has_more_body = true;
    if (exchange->waits_for_body)
        drive_soon(exchange->client);
}

void http_call_cancel(struct http_exchange *exchange)
{
    exchange->is_cancelled = true; /* client_settle() or http_client_close() drops it */
    drive_soon(exchange->client);
}

/* Adds what is new and drops what is over; outside of libcurl's callbacks. */
int client_settle(struct http_client *client)
{
    struct http_exchange **at = &client->exchanges;

    while (*at) {
        struct http_exchange *exchange = *at;

        if (exchange->is_over || exchange->is_cancelled) {
            *at = exchange->next;
            exchange_drop(client, exchange);
            continue;
        }
        if (!exchange->is_added) {
            if (curl_multi_add_handle(client->multi, exchange->easy) != CURLM_OK)
                return -ENOMEM;
            exchange->is_added = true;
        }
        if ((exchange->is_held && !exchange->is_paused) ||
            (exchange->waits_for_body && exchange->has_more_body)) {
            exchange->is_held = exchange->waits_for_body = false;
            curl_easy_pause(exchange->easy, CURLPAUSE_CONT); /* may call data() at once */
        }
        at = &exchange->next;
    }
    return streams_settle(client);
}

void client_messages(struct http_client *client)
{
    CURLMsg *message;
    int count;

    while ((message = curl_multi_info_read(client->multi, &count))) {
        struct http_exchange *exchange = NULL;
        CURLcode code = message->data.result;
        CURL *easy = message->easy_handle;

        if (message->msg != CURLMSG_DONE || streams_done(client, easy, code))
            continue;
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&exchange);
        exchange_end(exchange, code);
    }
}

static int client_turn(struct http_client *client)
{
    int count, r;

    r = client_settle(client);
    if (r < 0)
        return r;
    if (curl_multi_perform(client->multi, &count) != CURLM_OK)
        return -EIO;
    client_messages(client);
    return client_settle(client);
}

static int client_count(const struct http_client *client)
{
    int count = 0;

    for (const struct http_exchange *at = client->exchanges; at; at = at->next)
        count += !at->is_cancelled && !at->is_over;
    return count;
}

/* libcurl waits for the descriptors too, but does not say of all events which they are. */
static int client_poll(struct http_client *client, struct pollfd *fds, size_t fd_count,
                       int timeout_ms)
{
    struct curl_waitfd waits[EXTRA_FDS];

    for (size_t i = 0; i < fd_count; i++) {
        short events = fds[i].events;

        waits[i] = (struct curl_waitfd){
            .fd = fds[i].fd,
            .events = (short)((events & POLLIN ? CURL_WAIT_POLLIN : 0) |
                              (events & POLLOUT ? CURL_WAIT_POLLOUT : 0) |
                              (events & POLLPRI ? CURL_WAIT_POLLPRI : 0)),
        };
    }
    if (curl_multi_poll(client->multi, waits, (unsigned)fd_count, timeout_ms, NULL) != CURLM_OK)
        return -EIO;
    if (fd_count > 0 && poll(fds, fd_count, 0) < 0 && errno != EINTR)
        return -errno;
    return 0;
}

int http_client_wait(struct http_client *client, struct pollfd *fds, size_t fd_count,
                     int timeout_ms)
{
    int r;

    if (fd_count > EXTRA_FDS)
        return -EINVAL;
    for (size_t i = 0; i < fd_count; i++)
        fds[i].revents = 0;
    client->has_called_back = false;
    r = client_turn(client);
    if (r < 0)
        return r;
    if (!client->exchanges && fd_count == 0 && timeout_ms < 0)
        return 0; /* nothing could ever happen */
    if (client->has_called_back)
        timeout_ms = 0; /* the caller may have changed its mind */
    r = client_poll(client, fds, fd_count, timeout_ms < 0 ? FOREVER_MS : timeout_ms);
    if (r == 0)
        r = client_turn(client);
    return r < 0 ? r : client_count(client);
}

/* ---- one call from beginning to end
 * -------------------------------------------------------------- */

struct whole {
    struct buf *reply;
    int r;
    bool is_done;
    unsigned status;
    struct error err;
};

static int whole_data(void *ctx, const void *data, size_t length)
{
    struct whole *whole = ctx;

    whole->r = whole->reply ? buf_append(whole->reply, data, length) : 0;
    return whole->r;
}

static void whole_done(void *ctx, unsigned status, const struct error *err)
{
    struct whole *whole = ctx;

    whole->is_done = true;
    whole->status = status;
    whole->err = *err;
}

int http_call(struct http_client *client, const struct http_call *call, unsigned *ret_status,
              struct buf *reply, struct error *err)
{
    static const struct http_call_events events = {.data = whole_data, .done = whole_done};
    struct whole whole = {.reply = reply};
    struct http_exchange *exchange = NULL;
    int r = http_call_start(client, call, &events, &whole, &exchange, err);

    while (r >= 0 && !whole.is_done)
        r = http_client_wait(client, NULL, 0, -1);
    if (r < 0 && exchange && !whole.is_done) {
        http_call_cancel(exchange);
        return error_set(err, r, ERROR_ENGINE, "the call to the daemon failed");
    }
    if (!exchange)
        return r;
    if (whole.r == -EFBIG)
        return error_set(err, -EFBIG, ERROR_TOO_LARGE, "the reply is too large");
    if (whole.r < 0)
        return error_set(err, whole.r, ERROR_ENGINE, "out of memory");
    if (whole.err.num < 0) {
        if (err)
            *err = whole.err;
        return whole.err.num;
    }
    *ret_status = whole.status;
    return 0;
}
