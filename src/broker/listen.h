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
 * by configuration.
 */
int listeners_admit(const struct listeners *listeners, const struct config *config,
                    struct index *index, struct error *err);
int listeners_start(const struct listeners *listeners, json_t *settings, struct front *front,
                    struct error *err);
/*
 * If all addresses are of this machine and there never was a key, one is made: its text, else "".
 * After listeners_start(), so that a start that fails does not use up the only time it is shown; no
 * request is handled in between, because both happen in one turn of the loop.
 */
int listeners_first_key(const struct listeners *listeners, struct index *index,
                        char key[KEY_TEXT_MAX], struct error *err);
/*
 * Says the addresses and the key on the daemon's standard error. A log in JSON is collected and
 * kept elsewhere: there it names a file instead, FIRST_KEY_FILE in the folder `folder_fd`, whose
 * path is `folder`.
 */
#define FIRST_KEY_FILE "first-key"
struct listeners_place {
    int folder_fd;
    const char *folder;
};
int listeners_say(const struct listeners *listeners, const char *key,
                  const struct listeners_place *json, struct error *err);

/* {"certificate", "key"} of the settings or of a reload; false: there is none. */
bool listeners_tls(json_t *settings, struct http_tls *ret);

#endif
