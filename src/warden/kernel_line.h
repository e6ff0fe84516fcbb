/*
 * kernel_line.h - the messages of a kernel on its socket, split into events and ends
 * (docs/kernels.md, "Between the warden and a kernel").
 *
 * Bytes go in as they arrive, in any pieces. An event is passed on piece by piece as it arrives, so
 * that one of any size needs no memory here. All input is untrusted: a line that is neither an
 * event nor an end, or too long to be an end, is ignored. No I/O, no allocation. Fuzzed.
 *
 * Runs in: box
 */
#ifndef BAILEY_WARDEN_KERNEL_LINE_H
#define BAILEY_WARDEN_KERNEL_LINE_H

#include <stddef.h>
#include <stdint.h>

#define KERNEL_LINE_MAX 32 /* "exit 4294967295 255" and some room */

enum kernel_word_kind {
    KERNEL_NOTHING, /* what was taken says nothing (yet) */
    KERNEL_EVENT,   /* bytes of a line that begins with '{', its newline included */
    KERNEL_END,     /* of a cell */
    KERNEL_EXIT,    /* of a script: it is about to exit with this status */
};

struct kernel_word {
    enum kernel_word_kind kind;
    const char *data; /* KERNEL_EVENT: borrowed from what was fed */
    size_t length;
    uint32_t id; /* KERNEL_END, KERNEL_EXIT */
    int status;  /* 0 or 1; KERNEL_EXIT: 0 to 255 */
};

/* Zero is a valid beginning. */
struct kernel_line {
    enum { LINE_BEGINS, LINE_WORDS, LINE_EVENT, LINE_PASSED } state;
    char text[KERNEL_LINE_MAX];
    size_t have;
};

/* Takes bytes up to the next message at most; returns how many (at least 1 of 1). */
size_t kernel_line_feed(struct kernel_line *line, const char *data, size_t length,
                        struct kernel_word *ret);

/* The rest of a line that has begun is dropped. */
void kernel_line_cut(struct kernel_line *line);

#endif
