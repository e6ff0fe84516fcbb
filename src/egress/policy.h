/*
 * policy.h - the lists of hosts that boxes may reach, read once from the settings.
 *
 * The settings are JSON, written by `bailey serve` (cli/), which alone decides their contents:
 *   {"policies": {"installer": [{"host": "pypi.org", "port": 443, "private": false, "tls": true,
 *                                "direct": false}, ...]},
 *    "upstream": null | {"host": "proxy.example.org", "port": 3128, "authorization": "Basic ..."},
 *    "patience_ms": {"head": 30000, "dial": 10000, "idle": 300000, "leave": 2000}}
 * host: a name, "*." and a name (all below it), or an address. port 0: any. private: the name may
 * have an address of ADDRESS_PRIVATE. tls: only TLS, for just this name. direct: not through the
 * upstream proxy. An address is allowed when it is listed itself, whatever kind it is; and a listed
 * name may have an address that is listed too.
 *
 * Runs in: egress
 */
#ifndef BAILEY_EGRESS_POLICY_H
#define BAILEY_EGRESS_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "egress/host.h"
#include "egress/protocol.h"

struct policy_entry {
    struct host host;
    bool has_below; /* "*.": names below, not this one */
    uint16_t port;  /* 0: any */
    bool allows_private, is_tls, is_direct;
};

struct policy {
    struct policy_entry *entries;
    size_t count;
};

struct upstream {
    bool is_set;
    struct host host;
    uint16_t port;
    char *authorization; /* of Proxy-Authorization; NULL: none */
};

struct patience {
    uint64_t head_ms, dial_ms, idle_ms,
        leave_ms; /* EGRESS_*_MS, unless the settings say otherwise */
};

struct egress_settings {
    struct policy policies[_EGRESS_POLICY_MAX];
    struct upstream upstream;
    struct patience patience;
};

int egress_settings_read(const char *text, size_t length, struct egress_settings *ret,
                         struct error *err);
void egress_settings_free(struct egress_settings *settings);

extern const char *const egress_policy_words[_EGRESS_POLICY_MAX];

/* The entry that allows it, or NULL and a reason ("not_listed", "port_not_listed"). */
const struct policy_entry *policy_match(const struct policy *policy, const struct host *host,
                                        uint16_t port, const char **ret_reason);
/* NULL: a name of this entry may have the address; else why not. is_own: it is this host's. */
const char *policy_refuses(const struct policy *policy, const struct policy_entry *entry,
                           const struct address *address, uint16_t port, bool is_own);

#endif
