/*
 * colour.h - colours of bailey's own words on a terminal, and when there are none.
 *
 * A descriptor has colours if it is a terminal whose TERM is known and not "dumb", and NO_COLOR is
 * unset or empty (https://no-color.org). Never blocks.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_COLOUR_H
#define BAILEY_CLI_COLOUR_H

enum colour {
    COLOUR_HEADING, /* of help and tables */
    COLOUR_NOTE,    /* the name before a message */
    COLOUR_ERROR,   /* the same before an error */
    COLOUR_PROMPT,
    _COLOUR_MAX,
};

/* The sequence that begins a colour on this descriptor, and the one that ends it; "": none. */
const char *colour_begin(int fd, enum colour colour);
const char *colour_end(int fd);

#endif
