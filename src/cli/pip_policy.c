/* pip_policy.c - which hosts an installer may reach, for the egress proxy; see pip_settings.h. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/pip_settings.h"
#include "egress/host.h"
#include "model/text.h"

struct pip_policy {
    json_t *entries;
    json_t *upstream;
    char *no_proxy;
};

struct paths {
    struct host host;
    uint16_t port;
    bool is_tls;
};

struct pip_policy *pip_policy_new(void)
{
    struct pip_policy *policy = calloc(1, sizeof(*policy));

    if (policy)
        policy->entries = json_array();
    return policy;
}

void pip_policy_free(struct pip_policy *policy)
{
    if (!policy)
        return;
    json_decref(policy->entries);
    json_decref(policy->upstream);
    free(policy->no_proxy);
    free(policy);
}

/* The part of a URL that names the host, after any user and password. */
static const char *find_authority(const char *url, size_t *ret_length, size_t *ret_user)
{
    const char *scheme = strstr(url, "://");
    const char *start = scheme ? scheme + 3 : url;
    size_t length = strcspn(start, "/?#");
    const char *at = memrchr(start, '@', length);

    *ret_user = at ? (size_t)(at - start) : 0;
    if (at) {
        length -= (size_t)(at + 1 - start);
        start = at + 1;
    }
    *ret_length = length;
    return start;
}

static bool read_url(const char *url, struct paths *ret)
{
    size_t length, user;
    const char *authority = find_authority(url, &length, &user);

    ret->is_tls = strncasecmp(url, "https://", 8) == 0;
    if (!ret->is_tls && strncasecmp(url, "http://", 7) != 0)
        return false;
    return host_parse_port(authority, length, ret->is_tls ? 443 : 80, &ret->host, &ret->port) == 0;
}

/* ---- the list ---- */

static bool add(struct pip_policy *policy, const char *host, unsigned port, bool is_private,
                bool is_tls)
{
    json_t *entry, *value;
    size_t i;

    json_array_foreach(policy->entries, i, value)
    {
        if (str_equal(json_string_value(json_object_get(value, "host")), host) &&
            json_integer_value(json_object_get(value, "port")) == (json_int_t)port)
            return true;
    }
    entry = json_pack("{s:s, s:i, s:b, s:b}", "host", host, "port", (int)port, "private",
                      (int)is_private, "tls", (int)is_tls);
    return json_array_append_new(policy->entries, entry) == 0;
}

/*
 * An index that the operator configured for pip may be on a private address, as such indexes are.
 * The public one may not: a name server that says so is lying.
 */
bool pip_policy_add_url(struct pip_policy *policy, const char *url)
{
    static const char *const public[][2] = {
        {"pypi.org", "files.pythonhosted.org"},
        {"test.pypi.org", "test-files.pythonhosted.org"},
    };
    struct paths paths;

    if (!read_url(url, &paths))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(public); i++) {
        if (str_equal(paths.host.name, public[i][0]))
            return add(policy, public[i][0], paths.port, false, paths.is_tls) &&
                   add(policy, public[i][1], 443, false, true);
    }
    return add(policy, paths.host.name, paths.port, true, paths.is_tls);
}

/* A name or address with its port, or without one: the two that the web has. */
bool pip_policy_add_listed(struct pip_policy *policy, const char *text)
{
    bool has_below = str_starts(text, "*.");
    const char *name = text + (has_below ? 2 : 0);
    char bracketed[ADDRESS_TEXT_MAX + 2], host[HOST_TEXT_MAX + 2];
    struct paths paths;

    if (strchr(name, ':') != strrchr(name, ':') && name[0] != '[') { /* IPv6 as it is */
        if (str_format(bracketed, sizeof(bracketed), "[%s]", name) < 0)
            return false;
        name = bracketed;
    }
    if (host_parse(name, strlen(name), &paths.host) == 0)
        paths.port = 0;
    else if (host_parse_port(name, strlen(name), 0, &paths.host, &paths.port) < 0)
        return false;
    if (has_below && paths.host.is_address)
        return false;
    str_format(host, sizeof(host), "%s%s", has_below ? "*." : "", paths.host.name);
    if (paths.port)
        return add(policy, host, paths.port, false, paths.port == 443);
    return add(policy, host, 443, false, true) && add(policy, host, 80, false, false);
}

/* ---- the upstream proxy ---- */

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* user:password with its %XX resolved, as the field of a request. */
static int write_authorization(const char *user, size_t length, struct buf *to)
{
    CLEANUP(buf_free) struct buf plain = BUF_INIT(4 * KIB);
    int r = 0;

    for (size_t i = 0; i < length && r == 0; i++) {
        char c = user[i];

        if (c == '%' && length - i > 2 && hex(user[i + 1]) >= 0 && hex(user[i + 2]) >= 0) {
            c = (char)(hex(user[i + 1]) << 4 | hex(user[i + 2]));
            i += 2;
        }
        r = buf_append(&plain, &c, 1);
    }
    if (r == 0)
        r = buf_append_text(to, "Basic ");
    return r == 0 ? base64_encode(buf_text(&plain), plain.length, to) : r;
}

bool pip_policy_set_proxy(struct pip_policy *policy, const char *url, const char *no_proxy)
{
    CLEANUP(buf_free) struct buf authorization = BUF_INIT(8 * KIB);
    size_t length, user;
    const char *authority = find_authority(url, &length, &user);
    struct paths paths;

    if (strstr(url, "://") && strncasecmp(url, "http://", 7) != 0)
        return false;
    if (host_parse_port(authority, length, 80, &paths.host, &paths.port) < 0)
        return false;
    if (user > 0 && write_authorization(authority - user - 1, user, &authorization) < 0)
        return false;
    policy->upstream = json_pack("{s:s, s:i}", "host", paths.host.name, "port", (int)paths.port);
    if (user > 0)
        json_object_set_new(policy->upstream, "authorization",
                            json_string(buf_text(&authorization)));
    policy->no_proxy = no_proxy ? strdup(no_proxy) : NULL;
    return policy->upstream && (!no_proxy || policy->no_proxy);
}

/* As curl and requests read NO_PROXY: names, and all below them; "*" is everything. */
static bool is_direct(const char *no_proxy, const char *host)
{
    for (const char *at = no_proxy; at && *at;) {
        size_t length = strcspn(at, ",");
        char word[HOST_TEXT_MAX];
        const char *name = word;

        str_format(word, sizeof(word), "%.*s", (int)strcspn(at + strspn(at, " "), ", "),
                   at + strspn(at, " "));
        name += name[0] == '.';
        if (str_equal(word, "*") || (name[0] && strcasecmp(name, host) == 0))
            return true;
        if (name[0] && strlen(host) > strlen(name) &&
            host[strlen(host) - strlen(name) - 1] == '.' &&
            strcasecmp(host + strlen(host) - strlen(name), name) == 0)
            return true;
        at += length + (at[length] == ',');
    }
    return false;
}

int pip_policy_write(struct pip_policy *policy, struct buf *to)
{
    json_t *settings, *entry;
    size_t i;
    int r;

    json_array_foreach(policy->entries, i, entry)
    {
        if (is_direct(policy->no_proxy, json_string_value(json_object_get(entry, "host"))))
            json_object_set_new(entry, "direct", json_true());
    }
    settings = json_pack("{s:{s:O}, s:O?}", "policies", "installer", policy->entries, "upstream",
                         policy->upstream);
    r = settings ? text_of_json(settings, JSON_COMPACT, to) : -ENOMEM;
    json_decref(settings);
    return r;
}
