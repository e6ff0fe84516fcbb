/*
 * layers.h - layers, templates and installations of an engine; shared by the files of session/ and
 * nobody else (session/template.h and session/installer.h are for the doors).
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
/* A small JSON file of the state: whole or not at all. */
int note_write(int folder_fd, const char *name, json_t *json, struct error *err);
int note_write_text(int folder_fd, const char *name, const char *text, size_t length,
                    struct error *err);
json_t *note_read(int folder_fd, const char *name); /* NULL: there is none that can be read */
void layer_describe(const char *layer, const char *suffix, char name[LAYER_TEXT + 8]);
/* What nothing names is removed, a little in each turn. */
void layers_collect(struct session_manager *manager);
/* At the start: that, and what an earlier broker's installers left half done. */
void layers_start(struct session_manager *manager);
/* A layer of packages that nobody names just now, and that the next run may want again. */
void layers_remember(struct session_manager *manager, const char *layer, uint64_t bytes);
void hash_text(const void *data, size_t length, char text[LAYER_TEXT]);

/* installer.c */
void installs_free(struct session_manager *manager); /* nobody is called any more */
void installs_fail(struct session_manager *manager, const struct error *err);
void install_box_ended(struct session_manager *manager, uint32_t number);
bool installs_name(const struct session_manager *manager,
                   const char *layer); /* one of them uses it */

/* template.c */
struct template
{
    struct template *next;
    char name[LIMIT_NAME + 1];
    char layer[LAYER_TEXT];
    json_t *record;      /* as on disk */
    char **env;          /* strv */
    char **tier_names;   /* strv */
    char ***tiers;       /* as many lists of modules, each a strv */
    unsigned tier_count; /* of them */
};
void templates_load(struct session_manager *manager);
void templates_free(struct session_manager *manager);
struct template *template_find(struct session_manager *manager,
                               const char *name); /* NULL: not built */
/* Takes over `record`, which is on disk already. */
int template_keep(struct session_manager *manager, json_t *record, struct error *err);
bool template_is_stale(const struct session_manager *manager, const struct template *template);
bool templates_name(const struct session_manager *manager, const char *layer);
void template_forget(struct session_manager *manager, const char *name); /* not the file */
void template_tell_default(
    struct session_manager *manager); /* to the provider, who keeps it warm */
int template_unknown(struct session_manager *manager, const char *name, struct error *err);
/* Living sessions that have it, or will. */
unsigned template_users(const struct session_manager *manager, const struct template *template);

/* packages.c */
struct install_end;
struct asked_install {
    const struct caller *caller; /* NULL: nobody knows */
    const char *tenant;
    const char *session;       /* NULL: of none */
    const char *const *wanted; /* strv */
};
/* How it ended, or that it was refused; `end` is looked at only where it went well. */
void install_audit(struct session_manager *manager, const struct asked_install *asked,
                   const struct install_end *end, const struct error *err);
/* The folder that is bound at /bailey/packages; before the box is made. */
int packages_prepare(struct session *session, struct error *err);
void packages_remove(struct session *session);
void packages_free(struct session *session); /* installations under way are given up */
void packages_fail(struct session *session, const struct error *err);
void packages_load(struct session *session); /* what an earlier broker knew */

#endif
