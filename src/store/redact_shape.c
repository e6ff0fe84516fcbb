/* redact_shape.c - secrets that are known by their shape, whatever they are called; see redact.h.
 */
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "store/redact.h"

#define PEM_SECRET_MIN 16    /* characters of base64 that make a body */
#define URL_PASSWORD_MAX 256 /* how far "://user:password@" is followed */
#define BEARER_MIN 8
#define BEARER_LONG                                                              \
    20 /* without a digit it has to be this long: "bearer certificates" is prose \
        */

enum {
    LETTER = 1 << 0,
    CAPITAL = 1 << 1,
    DIGIT = 1 << 2,
    DASH = 1 << 3,   /* '-' and '_' */
    DOT = 1 << 4,    /* '.' */
    BASE64 = 1 << 5, /* '+', '/', '=' and '~' */
};
#define WORD (LETTER | CAPITAL | DIGIT)

/* A shape: a beginning, what may follow, how much of it at least, whether a digit has to be in it.
 */
static const struct shape {
    const char *prefix;
    unsigned int follow;
    size_t min;
    bool needs_digit;
} shapes[] = {
    {"sk-", WORD | DASH, 16,
     true},                       /* OpenAI, Anthropic; "sk-toggleable__label" is scikit-learn's */
    {"sk_live_", WORD, 8, false}, /* Stripe */
    {"sk_test_", WORD, 8, false},
    {"rk_live_", WORD, 8, false},
    {"ghp_", WORD, 16, false}, /* GitHub */
    {"gho_", WORD, 16, false},
    {"ghu_", WORD, 16, false},
    {"ghs_", WORD, 16, false},
    {"ghr_", WORD, 16, false},
    {"github_pat_", WORD | DASH, 16, false},
    {"glpat-", WORD | DASH, 16, false},   /* GitLab */
    {"AKIA", CAPITAL | DIGIT, 16, false}, /* AWS */
    {"ASIA", CAPITAL | DIGIT, 16, true},
    {"AIza", WORD | DASH, 30, false}, /* Google */
    {"xoxa-", WORD | DASH, 8, false}, /* Slack */
    {"xoxb-", WORD | DASH, 8, false},
    {"xoxe-", WORD | DASH, 8, false},
    {"xoxo-", WORD | DASH, 8, false},
    {"xoxp-", WORD | DASH, 8, false},
    {"xoxr-", WORD | DASH, 8, false},
    {"xoxs-", WORD | DASH, 8, false},
    {"hf_", WORD, 20, false},              /* Hugging Face */
    {"npm_", WORD, 30, false},             /* npm */
    {"pypi-", WORD | DASH, 30, true},      /* PyPI */
    {"bly_", WORD | DASH | DOT, 8, false}, /* ours: bly_<id>.<secret> */
    {"e2b_", WORD, 24, true},              /* E2B's, and ours in its spelling */
};

static unsigned int class_of(char c)
{
    if (c >= 'a' && c <= 'z')
        return LETTER;
    if (c >= 'A' && c <= 'Z')
        return CAPITAL;
    if (c >= '0' && c <= '9')
        return DIGIT;
    if (c == '-' || c == '_')
        return DASH;
    if (c == '.')
        return DOT;
    return c == '+' || c == '/' || c == '=' || c == '~' ? BASE64 : 0;
}

/* The number of characters of these classes here. */
static size_t run_of(const char *text, size_t length, unsigned int classes, bool *ret_has_digit)
{
    size_t run = 0;

    while (run < length && (class_of(text[run]) & classes)) {
        if (class_of(text[run]) == DIGIT)
            *ret_has_digit = true;
        run++;
    }
    return run;
}

static bool starts(const char *text, size_t length, const char *prefix)
{
    size_t n = strlen(prefix);

    return length >= n && memcmp(text, prefix, n) == 0;
}

/* JSON Web Tokens: base64url of {"... twice, and a signature that may be empty. */
static size_t jwt_length(const char *text, size_t length)
{
    bool has_digit = false;
    size_t header, payload, at;

    header = run_of(text, length, WORD | DASH, &has_digit);
    if (header < 10 || header == length || text[header] != '.')
        return 0;
    at = header + 1;
    payload = run_of(text + at, length - at, WORD | DASH, &has_digit);
    if (payload < 4)
        return 0;
    at += payload;
    if (at < length && text[at] == '.')
        at += 1 + run_of(text + at + 1, length - at - 1, WORD | DASH, &has_digit);
    return at;
}

size_t token_length(const char *text, size_t length)
{
    if (starts(text, length, "eyJ"))
        return jwt_length(text, length);
    for (size_t i = 0; i < ARRAY_SIZE(shapes); i++) {
        size_t prefix = strlen(shapes[i].prefix), run;
        bool has_digit = false;

        if (!starts(text, length, shapes[i].prefix))
            continue;
        run = run_of(text + prefix, length - prefix, shapes[i].follow, &has_digit);
        if (run >= shapes[i].min && (has_digit || !shapes[i].needs_digit))
            return prefix + run;
    }
    return 0;
}

/* Characters of a PEM body, also inside a string literal of a program. */
static bool is_pem_byte(char c)
{
    return class_of(c) & (WORD | BASE64) || (c != '\0' && strchr(" \t\r\n\\\"',:-", c));
}

bool find_pem_body(const char *text, size_t length, size_t *ret_from, size_t *ret_to)
{
    static const char begin[] = "-----BEGIN ";
    size_t at = sizeof(begin) - 1, from, secret = 0;
    bool is_private;

    if (!starts(text, length, begin))
        return false;
    while (at < length && ((text[at] >= 'A' && text[at] <= 'Z') || text[at] == ' '))
        at++;
    is_private = memmem(text, at, "PRIVATE KEY", strlen("PRIVATE KEY"));
    if (!is_private || !starts(text + at, length - at, "-----"))
        return false;
    from = at + 5;
    for (at = from; at < length && is_pem_byte(text[at]); at++) {
        if (text[at] == '-' && starts(text + at, length - at, "-----END "))
            break;
        secret += (class_of(text[at]) & (WORD | BASE64)) != 0;
    }
    if (secret < PEM_SECRET_MIN)
        return false;
    *ret_from = from;
    *ret_to = at;
    return true;
}

bool find_url_password(const char *text, size_t length, size_t *ret_from, size_t *ret_to)
{
    size_t colon = 0, end = MIN(length, (size_t)URL_PASSWORD_MAX);

    if (!starts(text, length, "://"))
        return false;
    for (size_t at = 3; at < end; at++) {
        char c = text[at];

        if (c == '@') {
            /* "{password}" is a placeholder in a format string, not a password */
            if (!colon || at == colon + 1 || text[colon + 1] == '{')
                return false;
            *ret_from = colon + 1;
            *ret_to = at;
            return true;
        }
        if (c == '\0' || strchr(" \t\r\n/?#\"'<>`", c))
            return false;
        if (c == ':' && !colon)
            colon = at;
    }
    return false;
}

bool find_bearer(const char *text, size_t length, size_t *ret_from, size_t *ret_to)
{
    size_t from = 0, run;
    bool has_digit = false;

    while (from < length && (text[from] == ' ' || text[from] == '\t'))
        from++;
    if (from == 0)
        return false;
    run = run_of(text + from, length - from, WORD | DASH | DOT | BASE64, &has_digit);
    if (run < (has_digit ? BEARER_MIN : BEARER_LONG))
        return false;
    *ret_from = from;
    *ret_to = from + run;
    return true;
}
