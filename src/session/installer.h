/*
 * installer.h - packages put into a layer by an installer box; see docs/design (warm Python).
 *
 * Each installation has its own box: pip of the template's interpreter, wheels only, the network
 * through the egress proxy to the package index and nowhere else, no data of any session. Two calls
 * for the same inputs at the same time are one installation. Never blocks; owned by the engine.
 * Called by template building and by sessions (a missing module, `bailey install`).
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_INSTALLER_H
#define BAILEY_SESSION_INSTALLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

typedef struct json_t json_t;
struct session_manager;
struct installation;

struct install_spec {
    const char *tenant; /* whose queue the box waits in; NULL: the local tenant's */
    bool is_template;   /* a virtual environment at /bailey/template; else a folder of packages */
    const char *layer;  /* packages: of the template they are for; NULL: the host's own Python */
    const char *requirements; /* text in pip's format */
    bool has_hashes;          /* pip checks each wheel */
    const char *const
        *modules;  /* imported once, so that their caches (fonts) are created; NULL-terminated */
    json_t *files; /* object: path below the layer to base64, or to {"text"}; NULL: none */
    const char *python;         /* required version ("3.12") or program; NULL: any */
    uint64_t timeout_ms, bytes; /* 0: as configured */
    const char *program; /* the Python of the session or run, if it is not the daemon's; or NULL */
};

struct install_end {
    char layer[65];
    json_t *packages;   /* array of {name, version}; borrowed */
    json_t *added;      /* packages that the session did not have before; NULL: unknown */
    const char *python; /* Python's version; borrowed */
    uint64_t bytes, files, ms;
    bool was_there; /* the layer existed already */
};

struct install_events {
    void (*progress)(void *ctx, const char *line); /* may be NULL */
    /* err->num 0: the layer is there. Codes: install_failed, no_network, too_large, cancelled,
     * ... */
    void (*done)(void *ctx, const struct install_end *end, const struct error *err);
};
int installer_start(struct session_manager *manager, const struct install_spec *spec,
                    const struct install_events *events, void *ctx, struct installation **ret,
                    struct error *err);
void installer_cancel(struct installation *installation); /* no callback comes any more */

/*
 * Installs into a session, until it ends: the layer's files appear below /bailey/packages.
 * `packages` as a user writes them ("requests", "numpy==2.1"); checked against the allow and deny
 * lists.
 */
struct caller;
struct session;
/* What session_install() would refuse by the names alone: bad_input, install_denied. */
int install_check(const struct session_manager *manager, const char *const *packages,
                  struct error *err);
/*
 * Installations of one session run one after the other. `caller` is copied; NULL: the engine
 * itself.
 */
int session_install(struct session *session, const struct caller *caller,
                    const char *const *packages, const struct install_events *events, void *ctx,
                    struct installation **ret, struct error *err);
json_t *session_packages_json(
    struct session *session); /* installed packages: an array of {name, version} */

#endif
