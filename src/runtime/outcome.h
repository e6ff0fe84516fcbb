/*
 * outcome.h - what is known of a box, and of the end of a command in it, as the one result says it.
 * Pure. Called by whoever runs something: session/ and oneshot/.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_RUNTIME_OUTCOME_H
#define BAILEY_RUNTIME_OUTCOME_H

#include "model/result.h"
#include "runtime/box/box.h"
#include "runtime/runtime.h"

/* Which layers hold, and what holds each limit. */
void outcome_isolation(struct result *result, const struct box_facts *facts);

/* What the whole box used, and whether memory ended something in it: nobody inside can forge it. */
void outcome_usage(struct result *result, const struct box_facts *facts);
/* Where that is not all, or nothing, who told of the program's end has a say, and is named. */
void outcome_told(struct result *result, const struct usage *told);

/*
 * The status as design.md has it: the program's own, 128+n and `signal` for a signal, -1 with a
 * note for the deadline of `result`'s limits. The usage stays as it was: `end` has the warden's
 * word.
 */
void outcome_end(struct result *result, const struct exec_end *end);
/*
 * After that, of a program whose end somebody else saw: its status as wait(2) has it; NULL: nobody
 * told, and a note says so. A deadline stays one.
 */
void outcome_status(struct result *result, const int *status);
/* The program's own status stands, unless an error kept it from starting: then it is 1. */
void outcome_failed(struct result *result);
int outcome_exit_code(const struct exec_end *end); /* the same status alone */

#endif
