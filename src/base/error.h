/*
 * error.h - the one error shape, from system call to client.
 *
 * Owned by the caller, on its stack; never allocates, never needs freeing. Functions that can fail
 * take a `struct error *` last (NULL is allowed: the caller wants the number only) and return a
 * negative errno. Doors turn the struct into an exit status, JSON or HTTP. Used by every room.
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_ERROR_H
#define BAILEY_BASE_ERROR_H

#include <stdarg.h>
#include <stddef.h>

#define ERROR_TEXT_MAX 1024

/*
 * The stable codes of meta.error.code. They are pointers to constants, so that two errors compare
 * by pointer inside one program and by text everywhere else. New codes are added here, never
 * reused.
 */
extern const char ERROR_BAD_INPUT[];  /* an argument, option or file of the caller is wrong */
extern const char ERROR_BAD_CONFIG[]; /* a key of the environment or of bailey.yaml is wrong */
extern const char ERROR_NOT_FOUND[];  /* a file of the caller does not exist */
extern const char ERROR_COMMAND_NOT_FOUND[]; /* the program does not exist in the box */
extern const char ERROR_NOT_EXECUTABLE[];    /* it exists there and cannot be executed */
extern const char ERROR_NO_INTERPRETER[];    /* this machine has no interpreter for the language */
extern const char ERROR_REFUSED[];           /* isolation below the configured minimum */
extern const char ERROR_BLOCKED_IMPORT[];    /* SANDBOX_BLOCK_DANGEROUS_IMPORTS found one */
extern const char ERROR_BOX_FAILED[];        /* a bring-up stage failed; `stage` says which */
extern const char ERROR_BOX_LOST[];          /* the warden died or broke the protocol */
extern const char ERROR_TOO_LARGE[];         /* over a ceiling of base/limits.h */
extern const char ERROR_CANCELLED[]; /* the caller ended the run (Ctrl-C, SIGTERM, SIGHUP) */
extern const char ERROR_ENGINE[];    /* anything else: disk full, out of memory, ... */

/* the daemon's: docs/rest.md says which HTTP status each has */
extern const char ERROR_BAD_JSON[];            /* the body is not JSON */
extern const char ERROR_UNKNOWN_PARAMETER[];   /* an unknown member */
extern const char ERROR_UNKNOWN_TOOL[];        /* unknown tool */
extern const char ERROR_NO_ROUTE[];            /* no such address */
extern const char ERROR_METHOD[];              /* the address has other methods */
extern const char ERROR_SESSION_NOT_FOUND[];   /* no session by that id or name */
extern const char ERROR_SESSION_AMBIGUOUS[];   /* a shortened id that fits several */
extern const char ERROR_SESSION_ENDED[];       /* it was there; the text says why it ended */
extern const char ERROR_SESSION_PAUSED[];      /* it has to be resumed first */
extern const char ERROR_NAME_TAKEN[];          /* another live session has the name */
extern const char ERROR_TOO_MANY_SESSIONS[];   /* SANDBOX_MAX_SESSIONS */
extern const char ERROR_EXECUTION_NOT_FOUND[]; /* no such execution in the session */
extern const char ERROR_EXECUTION_ENDED[];     /* input or a signal for one that has ended */
extern const char ERROR_NOT_A_TERMINAL[];      /* resize without a pty */
extern const char ERROR_OFFSET_GONE[];         /* output that is not kept any more */
extern const char ERROR_PATH_INVALID[];        /* not below a folder that files may be named in */
extern const char ERROR_PATH_NOT_FOUND[];      /* no such file in the box */
extern const char ERROR_PATH_REFUSED[];        /* a link leads out, or the box's kernel said no */
extern const char ERROR_PATH_IS_FOLDER[];      /* a file was wanted */
extern const char ERROR_PATH_NOT_FOLDER[];     /* a folder was wanted */
extern const char ERROR_PATH_EXISTS[];         /* it is there already */
extern const char ERROR_FOLDER_NOT_EMPTY[];    /* remove it with what it holds */
extern const char ERROR_READ_ONLY[];           /* /tmp/data */
extern const char ERROR_DATASET_TAKEN[];       /* two datasets would have one file name */
extern const char ERROR_DISK_FULL[];           /* of the box or of the state folder */
extern const char ERROR_SHUTTING_DOWN[];       /* the daemon is stopping */
extern const char ERROR_NO_DAEMON[];           /* no process listens on the socket */
extern const char ERROR_CONTEXT_NOT_FOUND[];   /* no such context in the session */
extern const char ERROR_CONTEXT_TAKEN[];       /* another context has the name */
extern const char ERROR_TOO_MANY_CONTEXTS[];   /* LIMIT_CONTEXTS */
extern const char ERROR_TEMPLATE_NOT_FOUND[];  /* no template by that name */
extern const char ERROR_TEMPLATE_NOT_BUILT[];  /* it has to be built first */
extern const char ERROR_SETTING_DIFFERS[];     /* the caller set another value than is in use */
extern const char ERROR_RUN_DIFFERS[];         /* this daemon would run it in another way */
extern const char ERROR_TEMPLATE_IN_USE[];     /* a session has it */
extern const char ERROR_INSTALL_FAILED[];      /* pip failed; the text has its last lines */
extern const char ERROR_INSTALL_DENIED[];      /* by the allow or deny list */
extern const char ERROR_NO_NETWORK[];          /* the package index cannot be reached */
extern const char ERROR_UNAUTHORIZED[];        /* no key, or an invalid one */
extern const char
    ERROR_FORBIDDEN[];           /* the key's scopes do not have it; or a page of another origin */
extern const char ERROR_QUOTA[]; /* of a tenant; the text names it */
extern const char ERROR_BUSY[];  /* too much waits already */
extern const char ERROR_KEY_NOT_FOUND[]; /* no API key by that id */
extern const char ERROR_LINK_EXPIRED[];  /* a signed link that is too old, or was changed */
extern const char ERROR_UPGRADE[];       /* a WebSocket was expected, and this is none */
extern const char ERROR_RANGE[];         /* bytes that a file does not have */
extern const char ERROR_KEY_REUSED[];    /* an Idempotency-Key came with another request before */
extern const char ERROR_KEY_RUNNING[];   /* the request with this Idempotency-Key is under way */
extern const char ERROR_REPLY_GONE[];    /* it was carried out, and its reply is not there */
extern const char ERROR_MEDIA_TYPE[];    /* a body that says to be something else than JSON */
extern const char ERROR_CONTAINER_NOT_FOUND[]; /* no container by that id */
extern const char ERROR_CONTAINER_EXPIRED[];   /* it was there, and its data is gone */
extern const char ERROR_FILE_NOT_FOUND[];      /* no uploaded file, or file of a container */
extern const char ERROR_RESPONSE_NOT_FOUND[];  /* no stored response by that id */
extern const char ERROR_PREVIOUS_NOT_FOUND[];  /* the same, of previous_response_id */
extern const char ERROR_UPSTREAM[];            /* the model server failed, or cannot be reached */
extern const char ERROR_NO_UPSTREAM[];         /* none is configured */
extern const char ERROR_PORT_CLOSED[];         /* nothing listens on that port of the box */
extern const char ERROR_PORT_REPLY[];          /* what listens there does not answer in HTTP */

/* of providers; error.provider names the row */
extern const char ERROR_PROVIDER_UNAVAILABLE[]; /* it does not answer, not to us, or is too old */
extern const char ERROR_NOT_SUPPORTED[];        /* it answers, and cannot do what was asked */
extern const char ERROR_IMAGE_NOT_FOUND[];      /* the image is not there and cannot be had */
extern const char ERROR_IMAGE_UNUSABLE[];       /* it is there, and no box can be made of it */

/* The constant for a code that came from outside; ERROR_ENGINE for an unknown one. */
const char *error_code_find(const char *word);

/*
 * The same codes by number, from 1 on, for messages between our own programs: the result is always
 * one of ours, whatever the sender wrote. 0 for NULL; an unknown number is ERROR_ENGINE.
 */
unsigned error_code_number(const char *word);
const char *error_code_word(unsigned number); /* NULL: there is none */

struct error {
    int num;           /* negative errno; 0 while unset */
    const char *code;  /* one of the codes above; NULL while unset */
    const char *stage; /* static string; NULL unless a stage of bring-up failed */
    const char *quota; /* static string; NULL unless one is used up (ERROR_QUOTA) */
    /* static string: the name of a provider's row; NULL unless its fault (ERROR_PROVIDER_*) */
    const char *provider;
    unsigned retry_s; /* when a retry may succeed; 0: unknown */
    char text[ERROR_TEXT_MAX];
};

/* Fills `err` (if any) and returns `num`, which must be negative. */
int error_set(struct error *err, int num, const char *code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The same from errno, with ": <strerror>" appended and code ERROR_ENGINE. Returns -errno. */
int error_errno(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* "out of memory": -ENOMEM with code ERROR_ENGINE. Returns -ENOMEM. */
int error_memory(struct error *err);

/* A failed stage: code ERROR_BOX_FAILED, text "<stage>: EPERM (Operation not permitted)". */
int error_stage(struct error *err, const char *stage, int num);

/* Puts `prefix: ` before the text that is already there; keeps number, code and stage. */
void error_prefix(struct error *err, const char *prefix);

/* "EPERM" for EPERM; "errno 4242" style text, from a static table, for unknown numbers. */
const char *error_name(int positive_errno);

#endif
