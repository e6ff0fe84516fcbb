/*
 * file_call.h - a request that waits for a file operation in a session's box. For the files of
 * rest/ only.
 *
 * file_call_new() checks path and session and answers errors; file_call_start() makes the box if
 * needed and calls begin(), which starts the operation and sets `op`. However it ends, the call is
 * freed once: by file_call_end(), or because its client left, which cancels the operation.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_REST_FILE_CALL_H
#define BAILEY_API_REST_FILE_CALL_H

#include "api/rest/rest_private.h"
#include "model/caller.h"

struct file_call {
    struct front *front;
    struct http_request *http;
    struct session *session;
    struct caller caller;
    struct box *box;
    uint32_t op; /* 0: none is under way */
    bool waits_for_box;
    int (*begin)(struct file_call *file, struct error *err);
    void (*free)(struct file_call *file); /* frees the operation's own data; may be NULL */
    void *own;                            /* the operation's own data */
    uint32_t mode;
    bool is_tree, is_new, is_in_place;
    uint64_t offset, bytes;
    const char *change; /* kind of the event on success; NULL: none */
    char path[LIMIT_PATH_BYTES + 1];
    char to[LIMIT_PATH_BYTES + 1];
};

/* NULL: the request was answered. `path` is the value of the member or argument. */
struct file_call *file_call_new(struct door_call *call, const char *path);
/* Another path of the same call; false: it was answered and freed. */
bool file_call_path(struct file_call *file, const char *field, const char *path,
                    char ret[LIMIT_PATH_BYTES + 1]);
/* "0644"; false: it was answered and freed. NULL: mode is unchanged. */
bool file_call_mode(struct file_call *file, const char *text);
void file_call_start(struct file_call *file,
                     int (*begin)(struct file_call *file, struct error *err));
void file_call_free(struct file_call *file);
/*
 * The end: replies with the error, else with `reply` (taken over; NULL: no memory). Frees the call.
 */
void file_call_end(struct file_call *file, const struct error *err, json_t *reply);
void file_call_over(struct file_call *file,
                    const struct error *err); /* records it; NULL: success */

/* {"name","type","bytes","mode","modified_at"}; new reference or NULL. */
json_t *file_entry_json(const struct box_entry *entry, const char *name);

#endif
