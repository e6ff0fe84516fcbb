/*
 * suggest.c - which address was probably meant by a path that matches no row; see route.h.
 *
 * A guess is a row's pattern with the path's own segments where it has {x}. The words of the two
 * have to be similar one by one: ids are long, and comparing them would find similarity in
 * anything.
 */
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "http/route.h"

#define WORD_MAX 64
#define VERSION "/v1"

struct guess {
    char text[ROUTE_SUGGEST_MAX];
    unsigned wrong; /* segments */
};

static bool guess_add(struct guess *guess, const char *segment, size_t length)
{
    size_t used = strlen(guess->text), room = sizeof(guess->text) - used;

    if (length > room - MIN(room, (size_t)2))
        return false;
    str_format(guess->text + used, room, "/%.*s", (int)length, segment);
    return true;
}

/* Whether one word was probably meant by the other; *wrong counts those that differ. */
static bool word_is_near(const char *given, size_t given_length, const char *word, size_t length,
                         unsigned *wrong)
{
    char left[WORD_MAX + 1], right[WORD_MAX + 1];
    const char *const words[] = {right, NULL};

    if (given_length > WORD_MAX || length > WORD_MAX)
        return false;
    str_format(left, sizeof(left), "%.*s", (int)given_length, given);
    str_format(right, sizeof(right), "%.*s", (int)length, word);
    if (str_equal(left, right))
        return true;
    ++*wrong;
    return str_nearest(left, words) != NULL;
}

static bool guess_make(const char *pattern, const char *path, struct guess *guess)
{
    size_t length, given;

    for (; *pattern; pattern += 1 + length, path += 1 + given) {
        bool is_param = pattern[1] == '{';

        if (*path != '/')
            return false;
        length = strcspn(pattern + 1, "/");
        given = strcspn(path + 1, "/");
        if (is_param && length > 2 && pattern[length - 1] == '*')
            given = strlen(path + 1);
        if (given == 0)
            return false;
        if (!is_param && !word_is_near(path + 1, given, pattern + 1, length, &guess->wrong))
            return false;
        if (!guess_add(guess, is_param ? path + 1 : pattern + 1, is_param ? given : length))
            return false;
    }
    return *path == '\0' || str_equal(path, "/");
}

static void take_better(const char *pattern, const char *path, struct guess guess,
                        struct guess *best)
{
    if (guess_make(pattern, path, &guess) && (!best->text[0] || guess.wrong < best->wrong))
        *best = guess;
}

void route_suggest(const struct http_route *routes, size_t count, const char *path,
                   char ret[ROUTE_SUGGEST_MAX])
{
    struct guess best = {.wrong = 0};

    for (size_t i = 0; i < count; i++) {
        const char *pattern = routes[i].pattern;

        take_better(pattern, path, (struct guess){.wrong = 0}, &best);
        if (str_starts(pattern, VERSION "/")) /* the version was forgotten */
            take_better(pattern + strlen(VERSION), path,
                        (struct guess){.text = VERSION, .wrong = 1}, &best);
    }
    str_copy(ret, ROUTE_SUGGEST_MAX, best.text);
}
