/*
 * id.h - identifiers: a short prefix and 128 random bits from getrandom(2) as 32 hex digits; and
 * which names users can give beside them.
 *
 * Runs in: every process
 */
#ifndef BAILEY_BASE_ID_H
#define BAILEY_BASE_ID_H

#include <stdbool.h>
#include <stddef.h>

#define ID_MAX 48 /* buffer size that holds any identifier with its NUL */

/* id_make(text, "exec") gives "exec_5f0c...": 0 or a negative errno. */
int id_make(char text[ID_MAX], const char *prefix);

/* A name: 1 to LIMIT_NAME letters, digits, '.', '_' and '-'. */
bool id_is_name(const char *text);

#endif
