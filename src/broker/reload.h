/*
 * reload.h - new configuration and certificates for a broker that goes on (POST /v1/reload).
 *
 * The caller has read both with its own rights. Keys that can change while sessions live are
 * applied; the reply lists those that need a restart. All or nothing: a value that is wrong, or a
 * certificate that cannot be used, changes nothing. One thread, no I/O.
 *
 * Runs in: broker
 */
#ifndef BAILEY_BROKER_RELOAD_H
#define BAILEY_BROKER_RELOAD_H

#include <jansson.h>

#include "broker/listen.h"
#include "config/config.h"

struct session_manager;

struct reload {
    struct config *config; /* the shared one: changed in place */
    /* "tls" and "env" are replaced, for a later broker; "flags" and "environment" name the keys
     * that came from there when the server was started */
    json_t *settings;
    struct listeners *listeners;
    struct session_manager *manager;
    struct front *front;
};

/* The configuration from an object of variables. */
int reload_read(json_t *variables, struct config *ret, struct error *err);

/*
 * `body`: {"settings": {KEY: text} of the file, "environment": {KEY: text} of the caller's own,
 * "tls": {...}}. A key that came from the server's flags or environment stays, unless the caller's
 * environment has it too; every other key without a value gets its default. *ret: {"changed":
 * [...], "restart": [...], "certificate": whether a new one is shown}, a new reference.
 */
int reload_apply(const struct reload *reload, json_t *body, json_t **ret, struct error *err);

#endif
