/*
 * file_call.h - a request that waits for a file operation in a session's box. Inside of rest/.
 *
 * file_call_new() checks path and session and answers what is wrong; file_call_start() makes the
 * box when needed and calls begin(), which starts the operation and sets `op`. However it ends, the
 * call is freed once: by file_call_end(), or because its client left, which cancels the operation.
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
    void (*free)(struct file_call *file); /* what the operation holds besides; may be NULL */
    void *own;                            /* the operation's */
    uint32_t mode;
    bool is_tree, is_new, is_in_place;
    uint64_t offset, bytes;
    const char *change; /* kind of the event when all went well; NULL: none */
    char path[LIMIT_PATH_BYTES + 1];
    char to[LIMIT_PATH_BYTES + 1];
};

/* NULL: it was answered. `path` is the member's or argument's value. */
struct file_call *file_call_new(struct door_call *call, const char *path);
/* Another path of the same call; false: it was answered and the call is gone. */
bool file_call_path(struct file_call *file, const char *field, const char *path,
                    char ret[LIMIT_PATH_BYTES + 1]);
/* "0644"; false: it was answered and the call is gone. NULL: mode stays. */
bool file_call_mode(struct file_call *file, const char *text);
void file_call_start(struct file_call *file,
                     int (*begin)(struct file_call *file, struct error *err));
void file_call_free(struct file_call *file);
/* The end: an error is answered, else `reply` (taken over; NULL: no memory). Frees the call. */
void file_call_end(struct file_call *file, const struct error *err, json_t *reply);
void file_call_over(struct file_call *file, const struct error *err); /* for counts; NULL: well */

/* {"name","type","bytes","mode","modified_at"}; new reference or NULL. */
json_t *file_entry_json(const struct box_entry *entry, const char *name);

#endif
