/*
 * walls.h - two makers as one: boxes come from the wall of containers, everything that only this
 * machine's own wall has from the launcher.
 *
 * The launcher is heard over the control descriptor, and gives the channel to the wall (again, when
 * that was started anew). Numbers of boxes of the wall have their highest bit set and are given
 * here: a wall that was started anew counts from the beginning. A wall that died takes its boxes
 * with it: each is told as ended, whoever waits for an answer of it gets one, and boxes are refused
 * until there is another. `stopping`, `gone` and the generation are the launcher's; `ready` comes
 * when both have said what they have, or the wall has not for WALLS_PATIENCE_MS.
 *
 * With `falls_back` a box that the wall refused because Docker is not there
 * (ERROR_DOCKER_UNAVAILABLE) is made by the launcher, and made.fallback says why. Never blocks; one
 * thread.
 */
#ifndef BAILEY_RUNTIME_WALLS_H
#define BAILEY_RUNTIME_WALLS_H

#include "runtime/maker.h"

#define WALLS_NUMBER UINT32_C(0x80000000)
#define WALLS_PATIENCE_MS 15000

/* Takes the descriptor on success. The events' `wall` is not used. */
int walls_open(struct reactor *reactor, int control_fd, bool falls_back,
               const struct launched_events *events, void *ctx, struct maker **ret,
               struct error *err);
/* As those of launched_open(), but: not inside of its callbacks. */
void walls_say_ready(struct maker *maker);
void walls_quit(struct maker *maker);
void walls_close(struct maker *maker);

#endif
