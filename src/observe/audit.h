/*
 * audit.h - one line of JSON for each thing an agent did or was refused, as a chain: audit.jsonl in
 * the logs folder, mode 0600; full ones are audit.jsonl.1, .2, ... (a higher number is newer).
 *
 * Each line has `seq` (from 1, without a gap) and `prev`: the SHA-256 of the whole previous line
 * with its newline, the last line of the previous file for a file's first one, 64 zeros at the very
 * beginning. audit.head has seq and hash of the last line, so that a cut at the end is detected
 * too. A line that a crash left incomplete gets a newline, counts as a line, and the chain
 * continues after it
 * ("audit.repaired"); lines that are missing compared with audit.head when it is opened are
 * recorded
 * ("audit.cut"); files that are too old are removed and that is recorded ("audit.dropped").
 * docs/audit.md says what can and cannot be detected.
 *
 * Never fails the caller; a line that could not be written is counted and recorded with the next
 * one
 * ("lost": how many). Contents of files and output are never recorded; code as its hash. A line
 * over LIMIT_AUDIT_LINE is kept without its fields ("too_long": true). One process, one thread;
 * blocks for the page cache only.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_OBSERVE_AUDIT_H
#define BAILEY_OBSERVE_AUDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/sha256.h"

typedef struct json_t json_t;
struct audit;

/* NULL: could not be opened (errno says why); every call takes that. folder_fd is borrowed. */
struct audit *audit_open(int folder_fd);
/* From how many bytes on a new file begins, and how many there are, the one in use included. */
void audit_configure(struct audit *audit, uint64_t bytes, unsigned keep);
/* Takes over `fields` (an object or NULL), also on failure; adds seq, prev, time and action. */
void audit_write(struct audit *audit, const char *action, json_t *fields);
void audit_close(struct audit *audit);

/* Called after every line that was written; it may not write itself. One ctx, one follower. */
bool audit_follow(struct audit *audit, void (*written)(void *ctx),
                  void *ctx); /* false: no memory */
void audit_unfollow(struct audit *audit, void *ctx);

/* ---- without a daemon (audit_verify.c) ---- */

struct audit_report {
    bool is_intact;
    uint64_t lines;         /* of the chain, broken ones included */
    uint64_t first, last;   /* their seq; 0: there is none */
    uint64_t broken;        /* that a crash left half */
    uint64_t unchained;     /* of a version that had no chain */
    uint64_t lost;          /* lines that could not be written, counted by the audit itself */
    char hash[SHA256_TEXT]; /* of the last line: kept elsewhere, it proves all of them */
    char file[32];          /* the first bad line: where */
    uint64_t line;          /* its number there, from 1; 0: it is about the whole */
    char problem[200];      /* what is wrong; empty: nothing */
};
/* 0, also for a chain that is not intact; an error: it could not be read. */
int audit_verify(int folder_fd, struct audit_report *ret, struct error *err);

/* ---- reading (audit_reader.c) ---- */

/* What a line has to be; NULL and 0: anything. */
struct audit_filter {
    const char *session, *tenant, *action; /* action: also "key." for all that begin so */
    const char *since;                     /* "2026-11-15T08:15:04.123Z" */
};
struct audit_reader;
/* Of what is kept: all, or from the last `tail` fitting lines on (UINT64_MAX: all). */
struct audit_reader *audit_reader_new(int folder_fd, const struct audit_filter *filter,
                                      uint64_t tail, struct error *err);
/*
 * The next line that fits, with its end; valid until the next call. 1, 0: none now (the end, or
 * more may be written), -EAGAIN: enough was looked at for one turn, call again.
 */
int audit_reader_next(struct audit_reader *reader, const char **ret, size_t *ret_length);
void audit_reader_free(struct audit_reader *reader); /* NULL is fine */

#endif
