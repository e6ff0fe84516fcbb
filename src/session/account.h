/*
 * account.h - what happened to a program, told once to the metrics and to the audit: who asked,
 * what (its hash), how it ended, and which walls held. Inside of session/.
 *
 * Runs in: broker
 */
#ifndef BAILEY_SESSION_ACCOUNT_H
#define BAILEY_SESSION_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/sha256.h"
#include "model/caller.h"

struct session_manager;
struct execution;
struct made;
struct run;
struct session;
struct error;

/* From its request to its end. */
struct account {
    struct caller caller;
    char hash[SHA256_TEXT]; /* of the code, or of a command's words with a NUL behind each */
    char *code;             /* a copy, where SANDBOX_STORE_CODE may want it; NULL: none */
    size_t length;
    bool is_words; /* it is a command's */
};

/* The caller is copied; NULL: the engine itself. NULL: no memory, and it is told without. */
struct account *account_new(struct session_manager *manager, const struct caller *caller,
                            const char *code, size_t length);
struct account *account_words(struct session_manager *manager, const struct caller *caller,
                              const char *const *words);
void account_free(struct account *account); /* NULL is fine */

/* It is under way: told before it runs, so that nothing runs unseen should the broker die. */
void account_run_started(struct run *run);
void account_execution_started(struct execution *execution);

/* It was not begun ("run", "exec" or "cell"); the door tells the audit. Returns err->num. */
int account_refused(struct session_manager *manager, const char *kind, const char *tenant,
                    const struct error *err);

/* Its result is complete. */
void account_run(struct run *run);
/* It has ended. */
void account_execution(struct execution *execution);
/* A box stands; asked_ns: when it was asked for (0: nobody knows). */
void account_box(struct session_manager *manager, const struct made *made, uint64_t asked_ns);
/* Something about a session: "session.created", "session.ended". Borrows. */
void account_session(const struct session *session, const char *action,
                     const struct caller *caller);

#endif
