/* policy.c - the lists of hosts that boxes may reach; see policy.h. */
#include "egress/policy.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"

const char *const egress_policy_words[_EGRESS_POLICY_MAX] = {[EGRESS_INSTALLER] = "installer"};

static int wrong(struct error *err, const char *what)
{
    return error_set(err, -EINVAL, ERROR_BAD_CONFIG, "the egress proxy's settings: %s", what);
}

/* An address may be given without brackets: no port can follow it. */
static int read_host(const char *text, struct host *ret)
{
    char bracketed[ADDRESS_TEXT_MAX + 2];

    if (!strchr(text, ':') || text[0] == '[')
        return host_parse(text, strlen(text), ret);
    if (str_format(bracketed, sizeof(bracketed), "[%s]", text) < 0)
        return -EINVAL;
    return host_parse(bracketed, strlen(bracketed), ret);
}

static int read_entry(json_t *json, struct policy_entry *ret, struct error *err)
{
    const char *host;
    int port, is_private = 0, is_tls = 0, is_direct = 0;
    json_error_t where;

    if (json_unpack_ex(json, &where, 0, "{s:s, s:i, s?b, s?b, s?b}", "host", &host, "port", &port,
                       "private", &is_private, "tls", &is_tls, "direct", &is_direct) < 0 ||
        port < 0 || port > UINT16_MAX)
        return wrong(err, "an entry of a list is malformed");
    ret->has_below = str_starts(host, "*.");
    if (read_host(host + (ret->has_below ? 2 : 0), &ret->host) < 0 ||
        (ret->has_below && ret->host.is_address))
        return wrong(err, "a host of a list is malformed");
    ret->port = (uint16_t)port;
    ret->allows_private = is_private;
    ret->is_tls = is_tls;
    ret->is_direct = is_direct;
    return 0;
}

static int read_policy(json_t *json, struct policy *ret, struct error *err)
{
    size_t i;
    json_t *entry;
    int r = 0;

    if (!json)
        return 0; /* nothing is allowed */
    if (!json_is_array(json) || json_array_size(json) > LIMIT_EGRESS_ENTRIES)
        return wrong(err, "a list is malformed or too long");
    ret->entries = calloc(json_array_size(json) + 1, sizeof(*ret->entries));
    if (!ret->entries)
        return error_memory(err);
    json_array_foreach(json, i, entry)
    {
        if (r == 0)
            r = read_entry(entry, &ret->entries[ret->count++], err);
    }
    return r;
}

static int read_upstream(json_t *json, struct upstream *ret, struct error *err)
{
    const char *host, *authorization = NULL;
    int port;

    if (!json || json_is_null(json))
        return 0;
    if (json_unpack(json, "{s:s, s:i, s?s}", "host", &host, "port", &port, "authorization",
                    &authorization) < 0 ||
        port <= 0 || port > UINT16_MAX || read_host(host, &ret->host) < 0)
        return wrong(err, "the upstream proxy is malformed");
    for (const char *c = authorization; c && *c; c++) {
        if (*c < ' ' || *c > '~')
            return wrong(err, "the upstream proxy's authorization is malformed");
    }
    ret->port = (uint16_t)port;
    ret->authorization = authorization ? strdup(authorization) : NULL;
    if (authorization && !ret->authorization)
        return error_memory(err);
    ret->is_set = true;
    return 0;
}

static int read_patience(json_t *json, struct patience *ret, struct error *err)
{
    json_int_t head = EGRESS_HEAD_MS, dial = EGRESS_DIAL_MS, idle = EGRESS_IDLE_MS,
               leave = EGRESS_LEAVE_MS;

    if (json && json_unpack(json, "{s?I, s?I, s?I, s?I}", "head", &head, "dial", &dial, "idle",
                            &idle, "leave", &leave) < 0)
        return wrong(err, "patience_ms is malformed");
    if (head <= 0 || dial <= 0 || idle <= 0 || leave <= 0)
        return wrong(err, "patience_ms is out of range");
    *ret = (struct patience){.head_ms = (uint64_t)head,
                             .dial_ms = (uint64_t)dial,
                             .idle_ms = (uint64_t)idle,
                             .leave_ms = (uint64_t)leave};
    return 0;
}

int egress_settings_read(const char *text, size_t length, struct egress_settings *ret,
                         struct error *err)
{
    struct egress_settings settings = {0};
    json_error_t where;
    json_t *json = json_loadb(text, length, JSON_REJECT_DUPLICATES, &where);
    json_t *policies = json_object_get(json, "policies");
    int r = json_is_object(policies) ? 0 : wrong(err, "not the JSON that was expected");

    for (size_t i = 0; i < _EGRESS_POLICY_MAX && r == 0; i++)
        r = read_policy(json_object_get(policies, egress_policy_words[i]), &settings.policies[i],
                        err);
    if (r == 0)
        r = read_upstream(json_object_get(json, "upstream"), &settings.upstream, err);
    if (r == 0)
        r = read_patience(json_object_get(json, "patience_ms"), &settings.patience, err);
    json_decref(json);
    if (r < 0)
        egress_settings_free(&settings);
    else
        *ret = settings;
    return r;
}

void egress_settings_free(struct egress_settings *settings)
{
    for (size_t i = 0; i < _EGRESS_POLICY_MAX; i++)
        free(settings->policies[i].entries);
    free(settings->upstream.authorization);
    memset(settings, 0, sizeof(*settings));
}

static bool names(const struct policy_entry *entry, const struct host *host)
{
    size_t length, below;

    if (!entry->has_below || host->is_address)
        return !entry->has_below && host_equal(&entry->host, host);
    length = strlen(host->name);
    below = strlen(entry->host.name);
    return length > below + 1 && host->name[length - below - 1] == '.' &&
           str_ends(host->name, entry->host.name);
}

const struct policy_entry *policy_match(const struct policy *policy, const struct host *host,
                                        uint16_t port, const char **ret_reason)
{
    *ret_reason = "not_listed";
    for (size_t i = 0; i < policy->count; i++) {
        const struct policy_entry *entry = &policy->entries[i];

        if (!names(entry, host))
            continue;
        if (entry->port == 0 || entry->port == port)
            return entry;
        *ret_reason = "port_not_listed";
    }
    return NULL;
}

const char *policy_refuses(const struct policy *policy, const struct policy_entry *entry,
                           const struct address *address, uint16_t port, bool is_own)
{
    enum address_kind kind = address_kind(address);
    struct host host;
    const char *reason;

    if (entry->host.is_address)
        return NULL; /* the operator named it */
    host_from_address(address, &host);
    if (policy_match(policy, &host, port, &reason))
        return NULL;
    /* That name is the loopback by definition (RFC 6761); no server can decide otherwise. */
    if (kind == ADDRESS_LOOPBACK && str_equal(entry->host.name, "localhost"))
        return NULL;
    if (kind == ADDRESS_PRIVATE || (kind == ADDRESS_PUBLIC && is_own)) {
        if (entry->allows_private)
            return NULL;
        return kind == ADDRESS_PRIVATE ? address_kind_word(kind) : "own_address";
    }
    return kind == ADDRESS_PUBLIC ? NULL : address_kind_word(kind);
}
