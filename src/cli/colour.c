/* colour.c - colours on a terminal; see colour.h. */
#include "cli/colour.h"

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/str.h"

static bool has_colours(int fd)
{
    const char *none = getenv("NO_COLOR"), *terminal = getenv("TERM");

    return !(none && none[0]) && terminal && terminal[0] && !str_equal(terminal, "dumb") &&
           isatty(fd);
}

const char *colour_begin(int fd, enum colour colour)
{
    static const char *const sequences[_COLOUR_MAX] = {
        [COLOUR_HEADING] = "\033[1m",
        [COLOUR_NOTE] = "\033[1m",
        [COLOUR_ERROR] = "\033[1;31m",
        [COLOUR_PROMPT] = "\033[1;32m",
    };

    return has_colours(fd) ? sequences[colour] : "";
}

const char *colour_end(int fd)
{
    return has_colours(fd) ? "\033[0m" : "";
}
