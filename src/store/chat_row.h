/*
 * chat_row.h - what was said in a session that answers messages, as a row of the index. It goes
 * with its session. Blocks for the disk as index.h does.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_STORE_CHAT_ROW_H
#define BAILEY_STORE_CHAT_ROW_H

#include "store/index.h"

/* Inserts or replaces; the session has to be in the index (-ENOENT). */
int chat_row_put(struct index *index, const char *session, const char *messages, struct error *err);
/* To be freed; *ret is NULL if there is none. */
int chat_row_get(struct index *index, const char *session, char **ret, struct error *err);
int chat_row_drop(struct index *index, const char *session, struct error *err);

#endif
