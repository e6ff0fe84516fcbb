/*
 * code_text.h - the string "code" out of a JSON object that arrives in pieces, decoded as it
 * arrives.
 *
 * A model server sends the arguments of a tool call as fragments of JSON text, cut anywhere: inside
 * of an escape, between the halves of a surrogate pair. What a client sees is the source. Only the
 * member "code" of the object itself counts, and the first of that name. Pure; hostile input;
 * fuzzed. The finished text is parsed again as a whole: what is decoded here is only shown early.
 *
 * Runs in: broker
 */
#ifndef BAILEY_AGENT_CODE_TEXT_H
#define BAILEY_AGENT_CODE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum code_text_state {
    CODE_TEXT_START, /* before the brace */
    CODE_TEXT_MEMBER,
    CODE_TEXT_KEY,
    CODE_TEXT_COLON,
    CODE_TEXT_VALUE,
    CODE_TEXT_CODE,   /* in the string that is wanted */
    CODE_TEXT_STRING, /* in another one */
    CODE_TEXT_NESTED, /* in an object or an array */
    CODE_TEXT_SCALAR, /* in a number or a word */
    CODE_TEXT_AFTER,  /* behind a value */
    CODE_TEXT_OVER,   /* the end, or nothing that can be read */
};

/* Zeroed: at the beginning. */
struct code_text {
    enum code_text_state state;
    char key[8];
    unsigned key_length, depth;
    bool is_escaped, is_quoted; /* quoted: in a string of a nested value */
    bool has_code;              /* its string has begun, perhaps ended */
    unsigned hex_left;          /* digits of a \u that are to come */
    uint16_t unit;              /* what came of them */
    uint16_t high;              /* a high surrogate that waits for its other half; 0: none */
};

/* Appends what of the source these bytes complete; always whole UTF-8. 0, -EFBIG or -ENOMEM. */
int code_text_feed(struct code_text *text, const char *data, size_t length, struct buf *to);

#endif
