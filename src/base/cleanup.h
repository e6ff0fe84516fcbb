/*
 * cleanup.h - ownership that is visible at the declaration.
 *
 * `CLEANUP(fd_closep) int fd = -1;` closes on every way out. A cleanup function takes a pointer to
 * the variable and accepts an empty one (-1, NULL). Hand the thing on with fd_take() or ptr_take().
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_CLEANUP_H
#define BAILEY_BASE_CLEANUP_H

#include <stdlib.h>

#define CLEANUP(function) __attribute__((cleanup(function)))

static inline void freep(void *pointer_to_pointer)
{
    free(*(void **)pointer_to_pointer);
}

/* Takes the pointer out of the variable, which no longer owns it. */
#define ptr_take(pointer_to_pointer)                                      \
    ({                                                                    \
        __typeof__(*(pointer_to_pointer)) taken_ = *(pointer_to_pointer); \
        *(pointer_to_pointer) = NULL;                                     \
        taken_;                                                           \
    })

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define MIN(a, b)                          \
    ({                                     \
        __typeof__(a) min_a_ = (a);        \
        __typeof__(b) min_b_ = (b);        \
        min_a_ < min_b_ ? min_a_ : min_b_; \
    })
#define MAX(a, b)                          \
    ({                                     \
        __typeof__(a) max_a_ = (a);        \
        __typeof__(b) max_b_ = (b);        \
        max_a_ > max_b_ ? max_a_ : max_b_; \
    })

#endif
