/*
 * doors.h - the doors that this program has. Pure.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_API_DOORS_H
#define BAILEY_API_DOORS_H

#include "api/front/front.h"

void doors_list(struct door_list *ret);

/* More rows, NULL-terminated, that a program may be linked with (tests/door). NULL: none. */
extern const struct door_ops *const extra_doors[] __attribute__((weak));

#endif
