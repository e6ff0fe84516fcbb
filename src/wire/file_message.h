/*
 * file_message.h - the payloads of frames about files; message.h has the others, and its rules
 * apply.
 *
 * A path contains no NUL and is not terminated; it begins with the name of a share (/workspace,
 * /tmp, /tmp/data, /home/user) and is resolved by the box's kernel, beneath it.
 *
 * Runs in: broker, hosts, launcher, box
 */
#ifndef BAILEY_WIRE_FILE_MESSAGE_H
#define BAILEY_WIRE_FILE_MESSAGE_H

#include "wire/message.h"

/*
 * PUT, GET, LIST, STAT, MKDIR, REMOVE, CHMOD, WATCH and ENTRY. The numbers mean:
 *
 *   PUT     mode: of the file (0: that of the file it replaces, else 0644); flags PUT_*; offset
 *   GET     offset, bytes (0: to the end); an ENTRY with an empty path comes before the first byte,
 *           and its bytes are those that follow (wardens of earlier versions send none)
 *   LIST    depth: levels below the folder (0: all); ENTRY for each
 *   STAT    -
 *   MKDIR   mode
 *   REMOVE  flags REMOVE_TREE
 *   CHMOD   mode
 *   WATCH   flags WATCH_TREE; an ENTRY with an empty path says that the watch is active
 *   ENTRY   mode (st_mode), bytes, time_ns: mtime (settable by the guest), offset: ctime in
 *           nanoseconds (not settable); path relative to the listed folder (STAT: empty)
 */
#define PUT_IN_PLACE 1u /* write at `offset` into the file itself, made if missing; not atomic */
#define PUT_NEW 2u      /* EEXIST when there is something by that name */
#define REMOVE_TREE 1u
#define WATCH_TREE 1u
struct message_path {
    uint32_t mode;
    uint32_t flags;
    uint32_t depth;
    uint64_t offset;
    uint64_t bytes;
    uint64_t time_ns;
    const char *path;
    size_t path_length;
};
#define MESSAGE_PATH_HEADER 36
ssize_t message_path_pack(const struct message_path *path, uint8_t *data, size_t size);
int message_path_unpack(const struct frame *frame, struct message_path *ret);

/* MOVE: both in shares, of one or two; may replace a file, never a folder that is not empty. */
struct message_move {
    const char *from, *to;
    size_t from_length, to_length;
};
ssize_t message_move_pack(const struct message_move *move, uint8_t *data, size_t size);
int message_move_unpack(const struct frame *frame, struct message_move *ret);

/* CHANGED: what happened to which name below the watched folder. */
enum change_kind {
    CHANGE_CREATED,
    CHANGE_WRITTEN,
    CHANGE_REMOVED,
    CHANGE_RENAMED_FROM,
    CHANGE_RENAMED_TO,
    CHANGE_ATTRIBUTES,
    CHANGE_OVERFLOW, /* events were lost: look for yourself; no path */
    _CHANGE_KIND_MAX,
};
struct message_changed {
    uint8_t kind;
    bool is_folder;
    const char *path; /* relative to what is watched */
    size_t path_length;
};
ssize_t message_changed_pack(const struct message_changed *changed, uint8_t *data, size_t size);
int message_changed_unpack(const struct frame *frame, struct message_changed *ret);

#endif
