/*
 * take.h - what most options do: keep the value, or that they were written. Each line makes a
 * function for `take` of an option's row (command.h) that sets one member of the command's struct.
 */
#ifndef BAILEY_CLI_TAKE_H
#define BAILEY_CLI_TAKE_H

#include <stdbool.h>

#include "base/error.h"

#define TAKE_TEXT(name, type, member)                                   \
    static int name(void *target, const char *value, struct error *err) \
    {                                                                   \
        (void)err;                                                      \
        ((type *)target)->member = value;                               \
        return 0;                                                       \
    }

#define TAKE_SWITCH(name, type, member)                                 \
    static int name(void *target, const char *value, struct error *err) \
    {                                                                   \
        (void)value;                                                    \
        (void)err;                                                      \
        ((type *)target)->member = true;                                \
        return 0;                                                       \
    }

#endif
