/*
 * file_change.h - changes of files in boxes, as the doors report them: the names of the kinds, and
 * the event.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_FILE_CHANGE_H
#define BAILEY_API_FILE_CHANGE_H

#include <stdbool.h>

struct session;

const char *file_change_name(unsigned kind); /* of wire/file_message.h; NULL: unknown kind */
void file_change_publish(struct session *session, const char *kind, const char *path,
                         bool is_folder);

#endif
