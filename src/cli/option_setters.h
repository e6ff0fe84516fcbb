/*
 * option_setters.h - what most options do: keep the value, or that they were written. Each line
 * makes a function for `take` of an option's row (command.h) that sets one member of the command's
 * struct.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_OPTION_SETTERS_H
#define BAILEY_CLI_OPTION_SETTERS_H

#include <stdbool.h>

#include "base/error.h"

#define OPTION_SETS_TEXT(name, type, member)                            \
    static int name(void *target, const char *value, struct error *err) \
    {                                                                   \
        (void)err;                                                      \
        ((type *)target)->member = value;                               \
        return 0;                                                       \
    }

#define OPTION_SETS_SWITCH(name, type, member)                          \
    static int name(void *target, const char *value, struct error *err) \
    {                                                                   \
        (void)value;                                                    \
        (void)err;                                                      \
        ((type *)target)->member = true;                                \
        return 0;                                                       \
    }

#endif
