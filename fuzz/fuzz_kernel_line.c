/*
 * fuzz_kernel_line.c - any bytes as what a kernel says over its socket. Events are whole lines that
 * begin with '{', in whatever pieces they come; nothing else is handed on.
 *
 * The first byte says how large the pieces are in which the rest is fed.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "warden/kernel_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
    if (!is_true)
        abort();
}

/* What was heard, in a form that does not depend on the pieces. */
struct heard {
    uint64_t hash, events, ends;
};

static void mix(struct heard *heard, uint64_t value)
{
    heard->hash = (heard->hash ^ value) * UINT64_C(0x100000001b3);
}

static struct heard feed(const uint8_t *data, size_t size, size_t piece)
{
    struct heard heard = {0};
    struct kernel_line line = {0};

    for (size_t at = 0; at < size;) {
        size_t part = piece < size - at ? piece : size - at;
        char *copy = malloc(part); /* its memory ends with the piece: a read behind it is seen */
        struct kernel_word word;
        size_t taken;

        check(copy != NULL);
        memcpy(copy, data + at, part);
        taken = kernel_line_feed(&line, copy, part, &word);
        check(taken > 0 && taken <= part);
        if (word.kind == KERNEL_EVENT) {
            check(word.data >= copy && word.length <= taken);
            for (size_t i = 0; i < word.length; i++)
                mix(&heard, (unsigned char)word.data[i]);
            heard.events += word.length;
        } else if (word.kind == KERNEL_END) {
            check(word.status == 0 || word.status == 1);
            mix(&heard, word.id);
            mix(&heard, (uint64_t)word.status + 1000);
            heard.ends++;
        }
        at += taken;
        free(copy);
    }
    return heard;
}

/* The events by another way: lines that begin with '{'. */
static uint64_t count_events(const uint8_t *data, size_t size)
{
    uint64_t count = 0;

    for (size_t at = 0; at < size;) {
        const uint8_t *newline = memchr(data + at, '\n', size - at);
        size_t length = newline ? (size_t)(newline - data) + 1 - at : size - at;

        count += data[at] == '{' ? length : 0;
        at += length;
    }
    return count;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct heard whole, parts;

    if (size == 0)
        return 0;
    whole = feed(data + 1, size - 1, SIZE_MAX);
    parts = feed(data + 1, size - 1, data[0] ? data[0] : 1);
    check(memcmp(&whole, &parts, sizeof(whole)) == 0);
    check(whole.events == count_events(data + 1, size - 1));
    return 0;
}
