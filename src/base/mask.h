/*
 * mask.h - hides the secret of an API key (bly_<id>.<secret>, e2b_<id><secret>) in a text, wherever
 * it occurs: in an address, in a name, in code. For lines that are kept. Pure; linear in the text.
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_MASK_H
#define BAILEY_BASE_MASK_H

#include <stddef.h>

/* Every character of such a secret becomes '*'; the length stays, and the id says which key. */
void mask_keys(char *text, size_t length);

#endif
