/*
 * redact_name.c - does a name suggest that its value is a secret? See redact.h.
 *
 * A name is split into words at '_', '-', digits and capital letters: MY_API_KEY, apiKey and
 * x-api-key all have the word "key", while monkey, keyboard and tokenizer are single words.
 */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "store/redact.h"

struct word {
    const char *text;
    size_t length;
};

/* Anywhere in a word: nothing harmless contains these (except "secretary"). */
static const char *const strong_parts[] = {"password", "passwd", "passphrase", "secret",
                                           "credential"};

/* Whole words. */
static const char *const weak_words[] = {"key",  "keys",  "token",        "tokens",
                                         "auth", "oauth", "authorization"};

/* Ends of words that were written together. */
static const char *const weak_ends[] = {
    "apikey",    "apikeys", "accesskey",  "authkey", "privatekey", "sshkey", "signingkey",
    "masterkey", "passkey", "accountkey", "hostkey", "sharedkey",  "token",  "authtokens"};

/* Last words which mean that the value is about the secret and not the secret. */
static const char *const harmless_ends[] = {
    "error", "exception", "warning", "count", "counts",  "len",    "length", "size", "limit",
    "type",  "types",     "index",   "idx",   "columns", "column", "col",    "cols", "func",
};

/* First words of a pair with "key" that databases and sorting use. */
static const char *const plain_keys[] = {"primary",   "foreign", "sort",
                                         "partition", "group",   "dict"};

bool is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool is_upper(char c)
{
    return c >= 'A' && c <= 'Z';
}

bool equals_any_case(const char *a, size_t length, const char *word)
{
    return strlen(word) == length && strncasecmp(a, word, length) == 0;
}

static bool word_in(struct word word, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (equals_any_case(word.text, word.length, list[i]))
            return true;
    }
    return false;
}

static bool word_ends(struct word word, const char *end)
{
    size_t length = strlen(end);

    return word.length >= length && strncasecmp(word.text + word.length - length, end, length) == 0;
}

static bool word_has(struct word word, const char *part)
{
    size_t length = strlen(part);

    for (size_t at = 0; at + length <= word.length; at++) {
        if (strncasecmp(word.text + at, part, length) == 0)
            return true;
    }
    return false;
}

/* The next word of the name from *at on; false when there is none. */
static bool next_word(const char *name, size_t length, size_t *at, struct word *ret)
{
    size_t from, to;

    while (*at < length && !is_letter(name[*at]))
        (*at)++;
    if (*at == length)
        return false;
    from = *at;
    for (to = from + 1; to < length && is_letter(name[to]); to++) {
        if (!is_upper(name[to]))
            continue;
        /* a hump: apiKey at the K, and APIKey at the K that a small letter follows */
        if (!is_upper(name[to - 1]) ||
            (to + 1 < length && is_letter(name[to + 1]) && !is_upper(name[to + 1])))
            break;
    }
    *ret = (struct word){name + from, to - from};
    *at = to;
    return true;
}

static enum secrecy secrecy_of_word(struct word word)
{
    for (size_t i = 0; i < ARRAY_SIZE(strong_parts); i++) {
        if (word_has(word, strong_parts[i]) && !word_has(word, "secretar"))
            return SECRECY_STRONG;
    }
    if (word_in(word, weak_words, ARRAY_SIZE(weak_words)))
        return SECRECY_WEAK;
    for (size_t i = 0; i < ARRAY_SIZE(weak_ends); i++) {
        if (word_ends(word, weak_ends[i]))
            return SECRECY_WEAK;
    }
    return SECRECY_NONE;
}

/* "key" alone, or "primary_key": only KEY in capitals is worth a doubt. */
static bool is_faint(struct word first, struct word last, size_t words)
{
    if (is_upper(last.text[last.length - 1]))
        return false;
    if (words == 1)
        return word_in(last, (const char *const[]){"key", "keys", "tokens"}, 3);
    return words == 2 && word_in(last, (const char *const[]){"key", "keys"}, 2) &&
           word_in(first, plain_keys, ARRAY_SIZE(plain_keys));
}

enum secrecy secrecy_of_name(const char *name, size_t length)
{
    enum secrecy secrecy = SECRECY_NONE;
    struct word word, first = {0}, last = {0};
    size_t words = 0;

    for (size_t at = 0; next_word(name, length, &at, &word); words++) {
        secrecy = MAX(secrecy, secrecy_of_word(word));
        first = words == 0 ? word : first;
        last = word;
    }
    if (secrecy == SECRECY_NONE || word_in(last, harmless_ends, ARRAY_SIZE(harmless_ends)))
        return SECRECY_NONE;
    if (secrecy == SECRECY_WEAK && is_faint(first, last, words))
        return SECRECY_FAINT;
    return secrecy;
}
