/*
 * layers.h - layers, templates and installations of a session manager; for the files of session/
 * only (session/template.h and session/installer.h are for the doors).
 *
 * A layer is layers/<sha256>/ with <sha256>.json (what it is) and <sha256>.tiers beside it; the
 * launcher made it, the broker owns it and removes it once nothing names it any more.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_LAYERS_H
#define BAILEY_SESSION_LAYERS_H

#include "session/session_private.h"

#define LAYER_TEXT 65 /* a SHA-256 in hexadecimal, and its NUL */
#define LAYER_BUILDING ".build-"

void json_decrefpp(json_t **json); /* for CLEANUP() */

/* layers.c */
bool layer_name_is_good(const char *name); /* 64 of [0-9a-f] */
bool layer_is_there(struct session_manager *manager, const char *layer);
/* Writes a small JSON file of the state directory atomically. */
int note_write(int folder_fd, const char *name, json_t *json, struct error *err);
int note_write_text(int folder_fd, const char *name, const char *text, size_t length,
                    struct error *err);
json_t *note_read(int folder_fd, const char *name); /* NULL: missing or unreadable */
void layer_describe(const char *layer, const char *suffix, char name[LAYER_TEXT + 8]);
/* Removes layers that nothing names, a little in each turn. */
void layers_collect(struct session_manager *manager);
/* At start: that, and discards unfinished folders of an earlier broker's installers. */
void layers_start(struct session_manager *manager);
/* Keeps a layer of packages that nothing names now but that the next run may want again. */
void layers_remember(struct session_manager *manager, const char *layer, uint64_t bytes);
void hash_text(const void *data, size_t length, char text[LAYER_TEXT]);

/* installer.c */
void installs_free(struct session_manager *manager); /* no callback comes any more */
void installs_fail(struct session_manager *manager, const struct error *err);
void install_box_ended(struct session_manager *manager, uint32_t number);
bool installs_name(const struct session_manager *manager,
                   const char *layer); /* a job uses this layer */

/* template.c */
struct template
{
    struct template *next;
    char name[LIMIT_NAME + 1];
    char layer[LAYER_TEXT];
    json_t *record;      /* as stored on disk */
    char **env;          /* strv */
    char **tier_names;   /* strv */
    char ***tiers;       /* tier_count lists of modules, each a strv */
    unsigned tier_count; /* number of tiers */
};
void templates_load(struct session_manager *manager);
void templates_free(struct session_manager *manager);
struct template *template_find(struct session_manager *manager,
                               const char *name); /* NULL: not built */
/* Takes over `record`, which is stored on disk already. */
int template_keep(struct session_manager *manager, json_t *record, struct error *err);
bool template_is_stale(const struct session_manager *manager, const struct template *template);
bool templates_name(const struct session_manager *manager, const char *layer);
void template_forget(struct session_manager *manager, const char *name); /* the file stays */
void template_tell_default(
    struct session_manager *manager); /* tells the provider which layer to keep warm */
int template_unknown(struct session_manager *manager, const char *name, struct error *err);
/* Live sessions that use it or will use it. */
unsigned template_users(const struct session_manager *manager, const struct template *template);

/* packages.c */
struct install_end;
struct asked_install {
    const struct caller *caller; /* NULL: unknown */
    const char *tenant;
    const char *session;       /* NULL: of none */
    const char *const *wanted; /* strv */
};
/*
 * Writes the audit line of an installation that ended or was refused; `end` is read only on
 * success.
 */
void install_audit(struct session_manager *manager, const struct asked_install *asked,
                   const struct install_end *end, const struct error *err);
/* Makes the folder that is bound at /bailey/packages; before the box is made. */
int packages_prepare(struct session *session, struct error *err);
void packages_remove(struct session *session);
void packages_free(struct session *session); /* cancels installations under way */
void packages_fail(struct session *session, const struct error *err);
void packages_load(struct session *session); /* reads the packages that an earlier broker stored */

#endif
