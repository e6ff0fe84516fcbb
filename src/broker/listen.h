/*
 * listen.h - the broker's TCP addresses: which they are, who may reach them, the first key.
 *
 * The descriptors are the launcher's (supervisor/supervisor.h); what they are bound to is asked of
 * the kernel. Owns its lists. One thread; blocks for the index only.
 *
 * Runs in: broker
 */
#ifndef BAILEY_BROKER_LISTEN_H
#define BAILEY_BROKER_LISTEN_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "http/server.h"
#include "launcher/launcher.h"
#include "store/keys.h"

struct config;
struct index;
struct front;

struct listener {
    char url[96]; /* "http://127.0.0.1:7070" */
    bool is_loopback;
    struct http_browsers browsers;
};

struct listeners {
    struct listener rows[BROKER_TCP_MAX];
    size_t count;
    char **hosts; /* strv: localhost, and what is configured */
    bool is_tls;
};

/* `settings`: "tcp", how many there are, and "tls"; borrowed. */
int listeners_open(struct listeners *listeners, json_t *settings, struct error *err);
/* Hosts and origins; again after a reload: both configurations must live until it returns. */
int listeners_configure(struct listeners *listeners, const struct config *config,
                        struct error *err);
void listeners_free(struct listeners *listeners);

/*
 * An address that others can reach needs a key (refused with what to do), unless /execute is open
 * by configuration; where only this machine can and there never was a key, one is made: its text,
 * else "".
 */
int listeners_admit(const struct listeners *listeners, const struct config *config,
                    struct index *index, char key[KEY_TEXT_MAX], struct error *err);
int listeners_start(const struct listeners *listeners, json_t *settings, struct front *front,
                    struct error *err);
/* Prints the addresses, and the new key this once, on standard error. */
void listeners_say(const struct listeners *listeners, const char *key, bool is_json);

/* {"certificate", "key"} of the settings or of a reload; false: there is none. */
bool listeners_tls(json_t *settings, struct http_tls *ret);

#endif
