/*
 * redact.h - the parts of redact(): which names look secret, which words are tokens.
 *
 * For store/ only; redact() itself is in artifact.h. Pure functions over (pointer, length); each
 * takes time linear in what it looks at.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_STORE_REDACT_H
#define BAILEY_STORE_REDACT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

#define REDACTED "[redacted]"
#define REDACT_FOUND_MIN 4  /* a shorter value occurs in too many words to be looked for */
#define REDACT_FOUND_MAX 32 /* values that are noted */

/* redact() that also appends the lines of what it replaced to a strv; NULL: it does not. */
int redact_noting(const char *text, size_t length, struct buf *ret, char ***found);

/* How much a name says about its value. Ordered. */
enum secrecy {
    SECRECY_NONE,
    SECRECY_FAINT,  /* "key", "tokens": common words; the value has to look like a secret too */
    SECRECY_WEAK,   /* API_KEY, authToken: all but short numbers */
    SECRECY_STRONG, /* a password, secret or credential: whatever it is */
};

/* The secrecy of a name made of letters, digits, '_' and '-': "MY_API_KEY", "authToken". */
enum secrecy secrecy_of_name(const char *name, size_t length);

/* Letters, digits, '_' and '-': what names are made of. Bytes of UTF-8 are not. */
bool is_name_byte(char c);

bool equals_any_case(const char *a, size_t length, const char *word);

/*
 * The token of a well-known shape (sk-..., ghp_..., a JWT) at the start of text: its length, or 0.
 * The caller knows that a word begins here.
 */
size_t token_length(const char *text, size_t length);

/* What follows "-----BEGIN ... PRIVATE KEY-----" at the start of text: where the secret is. */
bool find_pem_body(const char *text, size_t length, size_t *ret_from, size_t *ret_to);

/* The password in "://user:password@" at the start of text. */
bool find_url_password(const char *text, size_t length, size_t *ret_from, size_t *ret_to);

/* The credential after "Bearer ", where text starts after that word. */
bool find_bearer(const char *text, size_t length, size_t *ret_from, size_t *ret_to);

#endif
