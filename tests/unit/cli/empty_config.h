/* empty_config.h - a bailey.yaml with nothing in it, so that no test reads the machine's own. */
#ifndef BAILEY_TESTS_EMPTY_CONFIG_H
#define BAILEY_TESTS_EMPTY_CONFIG_H

#include <stdio.h>
#include <sys/mman.h>

/* "BAILEY_CONFIG=..." for an environment; the file lives as long as the program. */
static inline char *empty_config(void)
{
    static char text[64];

    if (!text[0])
        snprintf(text, sizeof(text), "BAILEY_CONFIG=/proc/self/fd/%d",
                 memfd_create("bailey.yaml", MFD_CLOEXEC));
    return text;
}

#endif
