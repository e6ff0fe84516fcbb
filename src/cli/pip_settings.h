/*
 * pip_settings.h - the part of pip's settings on this host that an installer box gets, and the
 * hosts that the egress proxy allows because of them.
 *
 * Read once, when the daemon starts, with the caller's rights. Addresses of package indexes may
 * contain passwords: they are in `files` (for installer boxes) and in `egress` (for the proxy), and
 * nowhere else: not in an argument, not in a log, not in an error's text.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_PIP_SETTINGS_H
#define BAILEY_CLI_PIP_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/error.h"
#include "boxes/boxes.h"
#include "cli/pip_ini.h"

/* In an installer box; its environment has PIP_CONFIG_FILE=/bailey/pip/pip.conf and no more. */
#define PIP_FILE_CONF "pip/pip.conf"
#define PIP_FILE_CA "pip/ca.pem"
#define PIP_FILE_CLIENT "pip/client.pem"
#define PIP_WHEELS "/bailey/wheels"
#define PIP_WHEELS_MAX 8

struct pip_settings {
    struct buf conf, ca, client; /* texts of the files */
    struct launch_file files[3];
    size_t file_count;
    struct launch_bind wheels[PIP_WHEELS_MAX]; /* strings are owned */
    size_t wheel_count;
    struct buf egress; /* JSON: egress/policy.h */
    char **warnings;   /* strv: what of the settings cannot be handed on, and why */
};

/* index_hosts: SANDBOX_INDEX_HOSTS, strv or NULL; a bad one is an error that names it. */
int pip_settings_read(const struct pip_sources *sources, char *const *index_hosts,
                      struct pip_settings *ret, struct error *err);
void pip_settings_free(struct pip_settings *settings);

/* pip_policy.c: the list that the egress proxy gets. */
struct pip_policy;
struct pip_policy *pip_policy_new(void); /* NULL: out of memory */
void pip_policy_free(struct pip_policy *policy);
/* A URL's host; false: it is not an http(s) URL. */
bool pip_policy_add_url(struct pip_policy *policy, const char *url);
bool pip_policy_add_listed(struct pip_policy *policy, const char *host); /* SANDBOX_INDEX_HOSTS */
/* http://[user:password@]host:port, with or without the scheme; false: another kind of proxy. */
bool pip_policy_set_proxy(struct pip_policy *policy, const char *url, const char *no_proxy);
int pip_policy_write(struct pip_policy *policy, struct buf *to);

#endif
