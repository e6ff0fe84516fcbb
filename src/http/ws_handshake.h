/*
 * ws_handshake.h - the headers with which a request becomes a WebSocket (RFC 6455 section 4). Pure;
 * the text is hostile.
 *
 * Runs in: broker, hosts, commands
 */
#ifndef BAILEY_HTTP_WS_HANDSHAKE_H
#define BAILEY_HTTP_WS_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>

#define WS_ACCEPT_MAX 32 /* with its NUL */

/* Whether a header's comma list (NULL: none) has the word, in any case. */
bool ws_list_has(const char *list, const char *word);
/* Calls for each word of the list, without blanks around it, until one call returns true. */
bool ws_list_each(const char *list, bool (*each)(void *ctx, const char *word, size_t length),
                  void *ctx);

bool ws_key_is_good(const char *key); /* base64 of 16 bytes; NULL is none */
void ws_accept(const char *key, char text[WS_ACCEPT_MAX]);

#endif
