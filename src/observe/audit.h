/*
 * audit.h - one line of JSON for each thing an agent did or was refused: audit.jsonl in the logs
 * folder, mode 0600.
 *
 * Never fails the caller; a line that could not be written is counted and told with the next that
 * can ("lost": how many). Secrets are redacted by the caller's choice of fields: contents of files
 * and output are never recorded, code only as its hash. At 64 MiB the file becomes audit.jsonl.1
 * (the one of that name is gone) and a new one begins. A line over LIMIT_AUDIT_LINE is kept without
 * its fields ("too_long": true). One process, one thread; blocks for the page cache only.
 */
#ifndef BAILEY_OBSERVE_AUDIT_H
#define BAILEY_OBSERVE_AUDIT_H

typedef struct json_t json_t;
struct audit;

/* NULL: could not be opened (errno says why); every call takes that. folder_fd is borrowed. */
struct audit *audit_open(int folder_fd);
/* Takes over `fields` (an object or NULL), also on failure; adds time and action. */
void audit_write(struct audit *audit, const char *action, json_t *fields);
void audit_close(struct audit *audit);

#endif
