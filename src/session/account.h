/*
 * account.h - writes what happened to a program to the metrics and the audit log, once: the caller,
 * the SHA-256 of the code, the ending, and which isolation mechanisms were active. Called by the
 * files of session/ only.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_ACCOUNT_H
#define BAILEY_SESSION_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sha256.h"
#include "config/config.h"
#include "model/caller.h"

struct session_manager;
struct execution;
struct made;
struct run;
struct session;
struct error;

/* One program, from its request to its end. */
struct account {
    struct caller caller;
    char hash[SHA256_TEXT]; /* SHA-256 of the code, or of a command's arguments with a NUL after
                               each */
    char *code;             /* a copy, if SANDBOX_STORE_CODE may need it; NULL: none */
    size_t length;
    enum store_code store; /* SANDBOX_STORE_CODE of the call */
    bool is_words;         /* `code` is a command's arguments, not source code */
};

/*
 * The caller is copied; NULL: the engine itself. Code of at most `most` bytes is copied. Returns
 * NULL without memory: the program still runs, and is recorded without these facts.
 */
struct account *account_new(const struct config *config, const struct caller *caller,
                            const char *code, size_t length, size_t most);
struct account *account_words(const struct config *config, const struct caller *caller,
                              const char *const *words);
void account_free(struct account *account); /* NULL is fine */

/*
 * The program starts. Recorded before it runs, so that the audit log names it even if the broker
 * dies.
 */
void account_run_started(struct run *run);
void account_execution_started(struct execution *execution);

/*
 * The program ("run", "exec" or "cell") was refused before it began. Only the metrics are written;
 * the door writes the audit line. Returns err->num.
 */
int account_refused(struct session_manager *manager, const char *kind, const char *tenant,
                    const struct error *err);

/* The run's result is complete. */
void account_run(struct run *run);
/* The execution has ended. */
void account_execution(struct execution *execution);
/* A box is ready; asked_ns: when it was requested (0: unknown). */
void account_box(struct session_manager *manager, const struct made *made, uint64_t asked_ns);
/* An event of a session's life: "session.created", "session.ended". Borrows its arguments. */
void account_session(const struct session *session, const char *action,
                     const struct caller *caller);

#endif
