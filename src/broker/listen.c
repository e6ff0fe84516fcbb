/* listen.c - the broker's TCP addresses, who may reach them, the first key; see listen.h. */
#include "broker/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/front/front.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "config/config.h"

static int look_at(struct listener *row, int fd, bool is_tls)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } name = {0};
    socklen_t length = sizeof(name);
    const char *scheme = is_tls ? "https" : "http";
    char text[INET6_ADDRSTRLEN];

    if (getsockname(fd, &name.any, &length) < 0)
        return -errno;
    if (name.any.sa_family == AF_INET6) {
        row->is_loopback = IN6_IS_ADDR_LOOPBACK(&name.v6.sin6_addr);
        inet_ntop(AF_INET6, &name.v6.sin6_addr, text, sizeof(text));
        return str_format(row->url, sizeof(row->url), "%s://[%s]:%u", scheme, text,
                          ntohs(name.v6.sin6_port));
    }
    if (name.any.sa_family != AF_INET)
        return -EAFNOSUPPORT;
    row->is_loopback = ntohl(name.v4.sin_addr.s_addr) >> 24 == 127;
    inet_ntop(AF_INET, &name.v4.sin_addr, text, sizeof(text));
    return str_format(row->url, sizeof(row->url), "%s://%s:%u", scheme, text,
                      ntohs(name.v4.sin_port));
}

bool listeners_tls(json_t *settings, struct http_tls *ret)
{
    json_t *tls = json_object_get(settings, "tls");

    ret->certificate = json_string_value(json_object_get(tls, "certificate"));
    ret->key = json_string_value(json_object_get(tls, "key"));
    return ret->certificate && ret->key;
}

int listeners_open(struct listeners *listeners, json_t *settings, struct error *err)
{
    json_int_t count = json_integer_value(json_object_get(settings, "tcp"));
    struct http_tls tls;

    if (count < 0 || count > BROKER_TCP_MAX)
        return error_set(err, -EINVAL, ERROR_ENGINE, "the settings' number of addresses");
    listeners->is_tls = listeners_tls(settings, &tls);
    listeners->count = (size_t)count;
    for (size_t i = 0; i < listeners->count; i++) {
        int r = look_at(&listeners->rows[i], BROKER_TCP_FD + (int)i, listeners->is_tls);

        if (r < 0)
            return error_set(err, r, ERROR_ENGINE, "address %zu of the daemon: %s", i,
                             strerror(-r));
    }
    return 0;
}

/*
 * On loopback the Host header is always checked: a page in a browser of this machine could reach
 * the server by DNS rebinding. On other addresses every name is accepted, because a proxy in front
 * may use any, unless SANDBOX_HOSTS is set.
 */
int listeners_configure(struct listeners *listeners, const struct config *config, struct error *err)
{
    bool has_hosts = config->hosts && config->hosts[0];
    char **hosts = strv_new();
    int r = hosts ? strv_push(&hosts, "localhost") : -ENOMEM;

    /* Browsers resolve these themselves, always to loopback: ports of sandboxes have such names. */
    if (r == 0)
        r = strv_push(&hosts, "*.localhost");
    for (size_t i = 0; r == 0 && i < strv_length(config->hosts); i++)
        r = strv_push(&hosts, config->hosts[i]);
    if (r < 0) {
        strv_free(hosts);
        return error_memory(err);
    }
    for (size_t i = 0; i < listeners->count; i++) {
        struct listener *row = &listeners->rows[i];

        row->browsers = (struct http_browsers){
            .hosts = row->is_loopback || has_hosts ? (const char *const *)hosts : NULL,
            .origins = (const char *const *)config->cors_origins,
        };
    }
    strv_free(listeners->hosts);
    listeners->hosts = hosts;
    return 0;
}

void listeners_free(struct listeners *listeners)
{
    strv_free(listeners->hosts);
    listeners->hosts = NULL;
}

/* ---- keys ---- */

static void count_key(void *ctx, const struct key_row *row)
{
    (void)row;
    ++*(unsigned *)ctx;
}

static const char *first_open(const struct listeners *listeners)
{
    for (size_t i = 0; i < listeners->count; i++) {
        if (!listeners->rows[i].is_loopback)
            return listeners->rows[i].url;
    }
    return NULL;
}

int listeners_admit(const struct listeners *listeners, const struct config *config,
                    struct index *index, struct error *err)
{
    const char *open = first_open(listeners);
    unsigned good = 0;
    int r = open ? keys_count(index, &good, err) : 0;

    if (r == 0 && config->has_one_box && listeners->count > 0)
        r = keys_one_tenant(index, NULL, err);
    if (r < 0)
        return r;
    if (open && good == 0 && !config->execute_is_open)
        return error_set(err, -EACCES, ERROR_REFUSED,
                         "%s can be reached by others, and there is no API key yet: make one with "
                         "'bailey key new', then start again; or listen on 127.0.0.1 only",
                         open);
    return 0;
}

int listeners_first_key(const struct listeners *listeners, struct index *index,
                        char key[KEY_TEXT_MAX], struct error *err)
{
    struct key_row row = {.tenant = "default", .name = "first", .scopes = SCOPES_ORDINARY};
    unsigned all = 0;
    int r;

    key[0] = '\0';
    if (listeners->count == 0 || first_open(listeners))
        return 0;
    r = keys_each(index, count_key, &all, err);
    return r == 0 && all == 0 ? keys_add(index, &row, key, err) : r;
}

/* ---- serving ---- */

int listeners_start(const struct listeners *listeners, json_t *settings, struct front *front,
                    struct error *err)
{
    struct http_tls tls;
    int r = 0;

    listeners_tls(settings, &tls);
    for (size_t i = 0; i < listeners->count && r == 0; i++)
        r = front_listen(front, BROKER_TCP_FD + (int)i, listeners->is_tls ? &tls : NULL,
                         &listeners->rows[i].browsers, err);
    return r;
}

#define SCOPES_TEXT "run, sessions and files" /* SCOPES_ORDINARY */

static void say_text(const struct listeners *listeners, const char *key, struct buf *text)
{
    buf_append_text(text, "bailey: listening on");
    for (size_t i = 0; i < listeners->count; i++)
        buf_printf(text, "%s %s", i > 0 ? "," : "", listeners->rows[i].url);
    buf_append_text(text, "\n");
    if (key[0])
        buf_printf(text,
                   "bailey: there was no API key, so one was made. It is not shown again:\n\n"
                   "  export BAILEY_API_KEY=%s\n"
                   "  curl -H \"Authorization: Bearer $BAILEY_API_KEY\" %s/v1/info\n\n"
                   "bailey: it has the scopes " SCOPES_TEXT
                   "; 'bailey key new --scopes LIST' makes one with others\n",
                   key, listeners->rows[0].url);
}

/* In a folder that only the daemon's user can enter; a file of an earlier state is replaced. */
static int write_key(const char *key, const struct listeners_place *place, struct error *err)
{
    CLEANUP(fd_closep) int fd = -1;

    unlinkat(place->folder_fd, FIRST_KEY_FILE, 0);
    fd = openat(place->folder_fd, FIRST_KEY_FILE,
                O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || fd_write_all(fd, key, strlen(key)) < 0 || fd_write_all(fd, "\n", 1) < 0)
        return error_errno(err, "writing the first API key to %s/" FIRST_KEY_FILE, place->folder);
    return 0;
}

static void say_json(const struct listeners *listeners, const char *key_file, struct buf *text)
{
    json_t *urls = json_array(), *line;
    char *written, now[40];

    clock_iso(now, sizeof(now));
    for (size_t i = 0; urls && i < listeners->count; i++)
        json_array_append_new(urls, json_string(listeners->rows[i].url));
    line = json_pack("{s:s, s:s, s:s, s:o*, s:s*}", "time", now, "level", "info", "message",
                     "listening", "addresses", urls, "api_key_file", key_file);
    written = line ? json_dumps(line, JSON_COMPACT) : NULL;
    if (written)
        buf_printf(text, "%s\n", written);
    free(written);
    json_decref(line);
}

int listeners_say(const struct listeners *listeners, const char *key,
                  const struct listeners_place *json, struct error *err)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(16 * 1024);
    CLEANUP(buf_free) struct buf file = BUF_INIT(LIMIT_PATH_BYTES * 2);
    int r = 0;

    if (listeners->count == 0)
        return 0;
    if (json && key[0] && (r = write_key(key, json, err)) < 0)
        return r;
    if (json && key[0] && buf_printf(&file, "%s/" FIRST_KEY_FILE, json->folder) < 0)
        return error_memory(err);
    if (json)
        say_json(listeners, key[0] ? buf_text(&file) : NULL, &text);
    else
        say_text(listeners, key, &text);
    (void)fd_write_all(BROKER_LOG_FD, buf_text(&text),
                       text.length); /* there is no other place to report it */
    explicit_bzero(text.data, text.length);
    return 0;
}
