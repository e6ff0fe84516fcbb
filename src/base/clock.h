/*
 * clock.h - time: monotonic for durations, wall clock for names. Never blocks.
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_CLOCK_H
#define BAILEY_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

uint64_t clock_now_ns(void);    /* CLOCK_MONOTONIC; the same inside and outside of a box */
uint64_t clock_thread_ns(void); /* CPU time of the calling thread */
uint64_t clock_now_ms(void);
uint64_t clock_wall_ms(void); /* since 1970; may jump */

/* "20261115T081504.123Z": sorts by name, no colons. `size` at least 24. */
void clock_stamp(char *text, size_t size);

/* "2026-11-15T08:15:04.123Z" */
void clock_iso(char *text, size_t size);

#endif
