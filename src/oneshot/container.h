/*
 * container.h - what a one-shot run in a container needs to know besides: its interpreter, the
 * settings of the program that speaks to Docker, and what to say when the image lacks something.
 * Pure.
 *
 * Runs in: commands
 */
#ifndef BAILEY_ONESHOT_CONTAINER_H
#define BAILEY_ONESHOT_CONTAINER_H

#include "config/config.h"
#include "interpreter/language.h"

/* 0, also where there are no containers; an error for what only a box of this machine can have. */
int oneshot_container_check(const struct config *config, struct error *err);
/* The interpreter's name in an image. */
int oneshot_container_interpreter(const struct language_row *language, struct interpreter *ret,
                                  struct error *err);
/* The effective configuration as variables, for one container; strv; NULL: no memory. */
char **oneshot_container_env(const struct config *config, bool shows_progress);
/* A program that a container does not have, when it is the interpreter: the image is to blame. */
void oneshot_container_explain(const struct config *config, const struct language_row *language,
                               struct error *err);

#endif
