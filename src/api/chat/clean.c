/* clean.c - pictures and links to files of the sandbox out of a model's text; see clean.h. */
#include "api/chat/clean.h"

#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/str.h"

#define WORDS_MAX 1024  /* bytes of a link's words */
#define TARGET_MAX 2048 /* and of its target */

enum found { FOUND_NONE, FOUND_LINK, FOUND_MORE };

/* [words](target), by offsets into the text. */
struct link {
    size_t words, words_end, target, target_end, end;
};

/* The bracket that closes the one at `at`, or the end of the text or of what may be searched. */
static enum found find_close(const char *text, size_t length, size_t at, char open, char close,
                             size_t most, size_t *ret)
{
    unsigned depth = 0;

    for (size_t i = at; i < length; i++) {
        if (i - at > most || (text[i] == '\n' && text[i - (i > 0)] == '\n'))
            return FOUND_NONE;
        if (text[i] == '\\') {
            i++;
        } else if (text[i] == open) {
            depth++;
        } else if (text[i] == close && --depth == 0) {
            *ret = i;
            return FOUND_LINK;
        }
    }
    return length - at > most ? FOUND_NONE : FOUND_MORE;
}

static enum found find_link(const char *text, size_t length, size_t at, struct link *ret)
{
    enum found found = find_close(text, length, at, '[', ']', WORDS_MAX, &ret->words_end);

    if (found != FOUND_LINK)
        return found;
    ret->words = at + 1;
    if (ret->words_end + 1 == length)
        return FOUND_MORE;
    if (text[ret->words_end + 1] != '(')
        return FOUND_NONE;
    ret->target = ret->words_end + 2;
    found = find_close(text, length, ret->words_end + 1, '(', ')', TARGET_MAX, &ret->target_end);
    ret->end = ret->target_end + 1;
    return found;
}

/* Whether a person can open it: an address, not a path. */
static bool is_open(const char *target, size_t length)
{
    static const char *const schemes[] = {"http://", "https://", "mailto:", "tel:", "#"};

    while (length > 0 && (*target == ' ' || *target == '<')) {
        target++;
        length--;
    }
    for (size_t i = 0; i < ARRAY_SIZE(schemes); i++) {
        size_t count = strlen(schemes[i]);

        if (length >= count && strncasecmp(target, schemes[i], count) == 0)
            return true;
    }
    return false;
}

static size_t run_of(const char *text, size_t length, size_t at)
{
    size_t count = 0;

    while (at + count < length && text[at + count] == '`')
        count++;
    return count;
}

struct step {
    size_t taken;       /* 0: the rest waits */
    size_t from, count; /* what of it is shown */
};

static struct step plain(size_t at, size_t count)
{
    return (struct step){.taken = count, .from = at, .count = count};
}

static struct step step_link(const char *text, size_t length, size_t at, bool is_last)
{
    bool is_image = text[at] == '!';
    struct link link = {0};
    enum found found;

    if (is_image && at + 1 == length)
        return is_last ? plain(at, 1) : (struct step){0};
    if (is_image && text[at + 1] != '[')
        return plain(at, 1);
    found = find_link(text, length, at + is_image, &link);
    if (found == FOUND_MORE && !is_last)
        return (struct step){0};
    if (found != FOUND_LINK)
        return plain(at, 1);
    if (is_image)
        return (struct step){.taken = link.end - at, .from = at};
    if (is_open(text + link.target, link.target_end - link.target))
        return plain(at, 1);     /* a picture among its words is still to be found */
    if (text[link.words] == '!') /* a picture that is a link */
        return (struct step){.taken = link.end - at, .from = at};
    return (struct step){
        .taken = link.end - at, .from = link.words, .count = link.words_end - link.words};
}

static struct step next_step(struct clean *clean, const char *text, size_t length, size_t at,
                             bool is_last)
{
    size_t run;

    switch (text[at]) {
    case '`':
        run = run_of(text, length, at);
        if (at + run == length && !is_last && run < 64)
            return (struct step){0};
        if (clean->quoted == 0)
            clean->quoted = run;
        else if (clean->quoted == run)
            clean->quoted = 0;
        return plain(at, run);
    case '\n':
        if (at + 1 == length && !is_last)
            return (struct step){0};
        if (at + 1 < length && text[at + 1] == '\n' && clean->quoted < 3)
            clean->quoted = 0; /* a paragraph ends what was never closed */
        return plain(at, 1);
    case '\\':
        if (at + 1 == length && !is_last)
            return (struct step){0};
        return plain(at, MIN(length - at, (size_t)2));
    case '!':
    case '[':
        return clean->quoted ? plain(at, 1) : step_link(text, length, at, is_last);
    default:
        return plain(at, strcspn(text + at, "`\n\\![")
                             ? MIN(strcspn(text + at, "`\n\\!["), length - at)
                             : 1);
    }
}

int clean_feed(struct clean *clean, const char *text, size_t length, bool is_last, struct buf *to)
{
    int r = length > 0 ? buf_append(&clean->held, text, length) : 0;
    size_t at = 0;

    while (r == 0 && at < clean->held.length) {
        struct step step = next_step(clean, clean->held.data, clean->held.length, at, is_last);

        if (step.taken == 0)
            break;
        if (step.count > 0)
            r = buf_append(to, clean->held.data + step.from, step.count);
        at += step.taken;
    }
    if (at > 0)
        buf_consume(&clean->held, at);
    return r;
}

void clean_free(struct clean *clean)
{
    buf_free(&clean->held);
    *clean = CLEAN_INIT;
}
