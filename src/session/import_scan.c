/* import_scan.c - the import lines of a Python source, found without parsing it; see import_scan.h.
 */
#include "session/import_scan.h"

#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"

/* Bytes of the source that are not read yet. */
struct text {
    const char *at, *end;
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\f';
}

/* Characters of a dotted name; every byte beyond ASCII counts. */
static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || (unsigned char)c >= 0x80;
}

static void skip_blanks(struct text *text)
{
    while (text->at < text->end && is_blank(*text->at))
        text->at++;
}

/* Consumes the keyword and a blank behind it; consumes nothing otherwise. */
static bool take_word(struct text *text, const char *word)
{
    size_t length = strlen(word);

    if ((size_t)(text->end - text->at) <= length || memcmp(text->at, word, length) != 0 ||
        !is_blank(text->at[length]))
        return false;
    text->at += length + 1;
    return true;
}

/* A dotted name; 0: there is none. */
static size_t take_name(struct text *text, const char **ret)
{
    skip_blanks(text);
    *ret = text->at;
    while (text->at < text->end && is_name(*text->at))
        text->at++;
    return (size_t)(text->at - *ret);
}

/* One statement: `import a.b, c as d` or `from a.b import c`. */
static void look_at_statement(struct text text,
                              void (*each)(void *ctx, const char *module, size_t module_length),
                              void *ctx)
{
    const char *name;
    size_t length;

    skip_blanks(&text);
    if (take_word(&text, "from")) {
        length = take_name(&text, &name);
        skip_blanks(&text);
        /* a relative import is the guest's own module; prose may begin with "from", too */
        if (length > 0 && name[0] != '.' && take_word(&text, "import"))
            each(ctx, name, length);
        return;
    }
    if (!take_word(&text, "import"))
        return;
    while ((length = take_name(&text, &name)) > 0) {
        if (name[0] != '.')
            each(ctx, name, length);
        while (text.at < text.end && *text.at != ',')
            text.at++; /* skips "as name" */
        if (text.at == text.end)
            return;
        text.at++;
    }
}

void import_scan(const char *code, size_t length,
                 void (*each)(void *ctx, const char *module, size_t module_length), void *ctx)
{
    const char *end = code + MIN(length, IMPORT_SCAN_BYTES);

    for (const char *at = code; at < end;) {
        struct text text = {.at = at, .end = at};

        while (text.end < end && *text.end != '\n' && *text.end != '\r' && *text.end != ';' &&
               *text.end != '#')
            text.end++;
        look_at_statement(text, each, ctx);
        at = text.end;
        if (at < end && *at == '#') {
            while (at < end && *at != '\n')
                at++;
        }
        at += at < end;
    }
}

/* ---- which tier ---- */

struct choice {
    const char *const *const *lists;
    unsigned count, tier;
};

static bool is_same(const char *module, size_t length, const char *name)
{
    return strlen(name) == length && memcmp(module, name, length) == 0;
}

/* The first tier that has it; `by_package`: or anything else of its package. 0: none. */
static unsigned tier_of(const struct choice *choice, const char *module, size_t length,
                        bool by_package)
{
    for (unsigned i = 1; i < choice->count; i++) {
        for (const char *const *name = choice->lists[i - 1]; *name; name++) {
            size_t package = strcspn(*name, ".");
            const char *dot = memchr(module, '.', length);
            size_t own = dot ? (size_t)(dot - module) : length;

            if (is_same(module, length, *name) ||
                (by_package && own == package && memcmp(module, *name, own) == 0))
                return i;
        }
    }
    return 0;
}

static void choose(void *ctx, const char *module, size_t length)
{
    struct choice *choice = ctx;
    unsigned tier = tier_of(choice, module, length, false);

    if (tier == 0)
        tier = tier_of(choice, module, length, true);
    choice->tier = MAX(choice->tier, tier);
}

unsigned import_scan_tier(const char *code, size_t length, const char *const *const *lists,
                          unsigned count)
{
    struct choice choice = {.lists = lists, .count = count};

    import_scan(code, length, choose, &choice);
    return choice.tier;
}
