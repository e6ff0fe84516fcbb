/*
 * stage.h - the stages, each in the file of its kernel facility. Private to sandbox/.
 *
 * Every function returns 0 or a negative errno. A stage that gives a layer calls sandbox_have();
 * one whose layer may be missing calls sandbox_lack() and returns 0: the host decides whether that
 * is enough.
 *
 * Runs in: box child, zygote
 */
#ifndef BAILEY_SANDBOX_STAGE_H
#define BAILEY_SANDBOX_STAGE_H

#include "sandbox/sandbox.h"

void sandbox_have(struct sandbox *sandbox, enum isolation_layer layer);
void sandbox_lack(struct sandbox *sandbox, enum isolation_layer layer, int negative_errno);

/* container.c: finds out which layers existed before, as far as they can be seen. */
void container_note(struct sandbox *sandbox);

/* bring-up */
int stage_wait_maps(struct sandbox *sandbox);        /* stages.c */
int stage_cgroup(struct sandbox *sandbox);           /* cgroup.c */
int stage_oom_score(struct sandbox *sandbox);        /* ids.c */
int stage_counts(struct sandbox *sandbox);           /* ids.c */
int stage_scope(struct sandbox *sandbox);            /* landlock.c */
int stage_signals(struct sandbox *sandbox);          /* ids.c */
int stage_bounding_set(struct sandbox *sandbox);     /* caps.c */
int stage_ids(struct sandbox *sandbox);              /* ids.c */
int stage_saved_id(struct sandbox *sandbox);         /* ids.c */
int stage_scrub(struct sandbox *sandbox);            /* ids.c */
int stage_root_mount(struct sandbox *sandbox);       /* root.c */
int stage_root_steps(struct sandbox *sandbox);       /* root.c */
int stage_root_pivot(struct sandbox *sandbox);       /* root.c */
int stage_shares(struct sandbox *sandbox);           /* root.c */
int stage_container_shares(struct sandbox *sandbox); /* container.c */
int stage_host_name(struct sandbox *sandbox);        /* names.c */
int stage_network_begin(struct sandbox *sandbox);    /* names.c */
int stage_network_end(struct sandbox *sandbox);      /* names.c */
int stage_egress(struct sandbox *sandbox);           /* names.c */
int stage_ruleset(struct sandbox *sandbox);          /* landlock.c */
int stage_warden_caps(struct sandbox *sandbox);      /* caps.c */
int stage_no_new_privs(struct sandbox *sandbox);     /* caps.c */
int stage_warden_filter(struct sandbox *sandbox);    /* seccomp.c */

/* the guest */
int guest_stdio(const struct sandbox *sandbox, const struct guest_start *start);    /* guest.c */
int guest_rlimits(const struct sandbox *sandbox, const struct guest_start *start);  /* guest.c */
int guest_ids(const struct sandbox *sandbox, const struct guest_start *start);      /* ids.c */
int guest_caps(const struct sandbox *sandbox, const struct guest_start *start);     /* caps.c */
int guest_landlock(const struct sandbox *sandbox, const struct guest_start *start); /* landlock.c */
int guest_filter(const struct sandbox *sandbox, const struct guest_start *start);   /* seccomp.c */
int guest_folder(const struct sandbox *sandbox, const struct guest_start *start);   /* guest.c */
int guest_exec(const struct sandbox *sandbox, const struct guest_start *start);     /* guest.c */

#endif
