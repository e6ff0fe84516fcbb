/* kernel_line.c - what a kernel says, cut into events and ends; see kernel_line.h. */
#include "warden/kernel_line.h"

#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"

/* A decimal number without sign or blanks; true when there was one that fits. */
static bool read_number(const char **at, const char *end, uint32_t *ret)
{
    const char *first = *at;
    uint64_t number = 0;

    while (*at < end && **at >= '0' && **at <= '9' && number <= UINT32_MAX)
        number = number * 10 + (uint64_t)(*(*at)++ - '0');
    if (*at == first || number > UINT32_MAX)
        return false;
    *ret = (uint32_t)number;
    return true;
}

/* "end ID STATUS" or "exit ID STATUS", and nothing else. */
static void read_word(const char *text, size_t length, struct kernel_word *ret)
{
    bool is_end = length >= 4 && memcmp(text, "end ", 4) == 0;
    bool is_exit = length >= 5 && memcmp(text, "exit ", 5) == 0;
    const char *at = text + (is_end ? 4 : 5), *end = text + length;
    uint32_t id, status;

    if ((!is_end && !is_exit) || !read_number(&at, end, &id) || at == end || *at++ != ' ' ||
        !read_number(&at, end, &status) || at != end || status > (is_end ? 1 : 255))
        return;
    ret->kind = is_end ? KERNEL_END : KERNEL_EXIT;
    ret->id = id;
    ret->status = (int)status;
}

static void gather(struct kernel_line *line, const char *data, size_t length)
{
    if (length > sizeof(line->text) - line->have) {
        line->state = LINE_PASSED;
        return;
    }
    memcpy(line->text + line->have, data, length);
    line->have += length;
}

size_t kernel_line_feed(struct kernel_line *line, const char *data, size_t length,
                        struct kernel_word *ret)
{
    const char *newline = memchr(data, '\n', length);
    size_t part = newline ? (size_t)(newline - data) : length; /* of this line */
    size_t taken = part + (newline ? 1 : 0);

    *ret = (struct kernel_word){.kind = KERNEL_NOTHING};
    if (line->state == LINE_BEGINS && length > 0) {
        line->state = data[0] == '{' ? LINE_EVENT : LINE_WORDS;
        line->have = 0;
    }
    if (line->state == LINE_EVENT) {
        *ret = (struct kernel_word){.kind = KERNEL_EVENT, .data = data, .length = taken};
    } else if (line->state == LINE_WORDS) {
        gather(line, data, part);
        if (newline && line->state == LINE_WORDS)
            read_word(line->text, line->have, ret);
    }
    if (newline)
        line->state = LINE_BEGINS;
    return taken;
}

void kernel_line_cut(struct kernel_line *line)
{
    if (line->state != LINE_BEGINS)
        line->state = LINE_PASSED;
}
