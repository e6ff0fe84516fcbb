/*
 * worker.h - work that would keep the event loop for too long, done in a thread: one job after the
 * other, in the order in which they came.
 *
 * The thread shares with the loop only what the job's ctx leads to, and the loop leaves that alone
 * until `done`. Its end is told through a pipe. Where no thread can be had, the loop does the work
 * itself. Nothing here blocks but worker_finish() and worker_free().
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_WORKER_H
#define BAILEY_BASE_WORKER_H

#include <stdbool.h>

struct reactor;
struct worker;

struct worker *worker_new(struct reactor *reactor); /* NULL: no memory */
/*
 * work() in a thread, then done() from the loop, in a later turn. false: no memory, neither is
 * called.
 */
bool worker_do(struct worker *worker, void (*work)(void *ctx), void (*done)(void *ctx), void *ctx);
void worker_finish(struct worker *worker); /* does all that is left, at once */
/* Waits for the job that runs; the rest is dropped. done() is called for all. NULL is fine. */
void worker_free(struct worker *worker);

#endif
