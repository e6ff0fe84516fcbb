/*
 * outcome.h - writes the facts about a box, and the ending of a command in it, into the result.
 * Pure. Called by the code that runs programs: session/ and oneshot/.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_RUNTIME_OUTCOME_H
#define BAILEY_RUNTIME_OUTCOME_H

#include "model/result.h"
#include "runtime/box/box.h"
#include "runtime/runtime.h"

/* Which isolation layers are active, and what enforces each limit. */
void outcome_isolation(struct result *result, const struct box_facts *facts);

/* What the whole box used, and whether memory ended something in it: the guest cannot forge it. */
void outcome_usage(struct result *result, const struct box_facts *facts);
/*
 * If that is incomplete or missing, the report of the program's end is used too, and named as the
 * source.
 */
void outcome_told(struct result *result, const struct usage *told);

/*
 * The status as docs/result.md defines it: the program's own, 128+n and `signal` for a signal, -1
 * with a note for the deadline in `result`'s limits. The usage stays unchanged: `end` has only the
 * warden's numbers.
 */
void outcome_end(struct result *result, const struct exec_end *end);
/*
 * After that, for a program whose end another process saw: its status as wait(2) returns it; NULL:
 * unknown, and a note says so. A deadline stays one.
 */
void outcome_status(struct result *result, const int *status);
/* The program's own status stays, unless an error kept it from starting: then it is the error's. */
void outcome_failed(struct result *result);
int outcome_error_code(const struct error *err);   /* 127: there is no such command; else 1 */
int outcome_exit_code(const struct exec_end *end); /* only the status */

#endif
