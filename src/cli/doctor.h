/*
 * doctor.h - what `bailey doctor` found, and its printers. The struct owns what collect() put into
 * it: doctor_free(). The printers are pure.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_DOCTOR_H
#define BAILEY_CLI_DOCTOR_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/isolation.h"
#include "base/limits.h"
#include "config/config.h"
#include "interpreter/language.h"
#include "model/result.h"
#include "sys/outer.h"
#include "sys/probe.h"

#define DOCTOR_LANGUAGES_MAX 16
#define DOCTOR_TEMPLATES_MAX 32

/* One language and what was found for it. */
struct doctor_interpreter {
    const struct language_row *language;
    struct interpreter found; /* path NULL: none */
    struct error err;         /* then: why */
    bool works;               /* it ran a program in a box */
    char reason[256];         /* when it did not: why; one line */
};

/* A template that was built on this machine. */
struct doctor_template {
    char name[LIMIT_NAME + 1];
    char problem[256]; /* why it cannot be used; empty: it can */
};

typedef struct json_t json_t;

struct doctor {
    struct probe_host host;
    struct outer outer; /* the container that this machine is */
    struct probe_row rows[_ISOLATION_LAYER_MAX];
    struct error probe_err; /* .code set: the probes themselves could not be run */
    struct result box;      /* of a real run: its layers are what counts */
    enum isolation wanted;  /* SANDBOX_ISOLATION */
    bool blocks_imports;    /* SANDBOX_BLOCK_DANGEROUS_IMPORTS */
    struct doctor_interpreter interpreters[DOCTOR_LANGUAGES_MAX];
    size_t interpreter_count;
    struct doctor_template templates[DOCTOR_TEMPLATES_MAX];
    size_t template_count;
    const struct provider_row *provider; /* SANDBOX_TYPE */
    struct error type_err;               /* .code set: that one cannot be used */
    json_t *providers; /* reports by name, as bailey-engine made them; NULL: none was asked */
};

/* A box runs and reaches the wanted level; where boxes are made elsewhere: that provider has all it
 * needs. */
bool doctor_is_fine(const struct doctor *doctor);
const char *doctor_level(const struct doctor *doctor); /* "strict", ... or "none" */

/* Whether a daemon can hold sessions here: it needs every namespace of a box for itself. When not:
 * one sentence that names the refusal, in `reason`. */
bool doctor_has_sessions(const struct doctor *doctor, char *reason, size_t size);

/* Whether there can be one without, in the machine or container itself; `reason` says why only one.
 */
bool doctor_has_one_session(const struct doctor *doctor, char *reason, size_t size);

json_t *doctor_json(const struct doctor *doctor); /* new reference; NULL: out of memory */
int doctor_text(const struct doctor *doctor, bool is_utf8, struct buf *to);

/* doctor_provider.c: asks, by bailey-engine; has the configured one all; lines and members. */
void doctor_ask_providers(struct doctor *doctor, const struct config *config,
                          const char *config_file, char *const *env);
bool doctor_provider_is_fine(const struct doctor *doctor);
int doctor_providers_text(const struct doctor *doctor, bool is_utf8, struct buf *to);
void doctor_providers_json(const struct doctor *doctor, json_t *to);

void doctor_free(struct doctor *doctor);

#endif
