/*
 * paths.h - the paths of this user's daemon: its state folder, its socket, its locks.
 *
 * Used on both sides: `bailey serve` makes and locks these, clients look there. Owns its strings:
 * paths_free() frees them. Blocks only for the file system.
 *
 * The locks are open-file-description locks (fcntl(2)), because a client has to ask whether one is
 * held without taking it: holding it for a moment would make a starting daemon give up.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_PATHS_H
#define BAILEY_CLI_PATHS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/id.h"

struct config;

struct paths {
    char *state;  /* absolute */
    char *socket; /* absolute */
};

/* The contents of daemon.json in the state folder. */
struct daemon_record {
    pid_t pid;              /* of the supervisor: the process that signals go to */
    uint64_t pid_namespace; /* in which `pid` means something (sys/owner.h); 0: not known */
    char socket[256];
    char started_at[40]; /* RFC 3339 */
    bool has_log;        /* it writes daemon.log; else to its own standard error */
};

/* `state` and `socket` (may be NULL) are values of flags and win over everything. */
int paths_choose(struct paths *paths, const struct config *config, char *const *env,
                 const char *state, const char *socket, struct error *err);
void paths_free(struct paths *paths);

/* Makes the folders (0700); refuses those that others own or may write. */
int paths_make(const struct paths *paths, struct error *err);

/*
 * Takes both locks, of the state folder and of the socket, for as long as the descriptors live
 * (they are closed by exec). If another process has one: ERROR_BAD_INPUT, -EALREADY, with pid and
 * socket.
 */
int paths_lock(const struct paths *paths, int ret_fds[2], struct error *err);

/*
 * The identity of this state folder: random, made by the first daemon in it and kept there. Two
 * folders never have the same one, whatever machines and containers they are on, unless one is a
 * copy of the other. To be called with the locks held.
 */
int paths_identity(const struct paths *paths, char ret[ID_MAX], struct error *err);

/* Is a daemon alive in this state folder? */
bool paths_is_locked(const struct paths *paths);

/*
 * A live daemon may use another socket (serve --socket): takes that path. Nothing changes if there
 * is none.
 */
int paths_adopt(struct paths *paths, struct error *err);

/*
 * The socket's daemon may have another state folder, if two share a runtime folder: an error that
 * says so. 0 also if no daemon listens.
 */
int paths_check_owner(const struct paths *paths, struct error *err);

int paths_write_record(const struct paths *paths, pid_t pid, bool has_log, struct error *err);
int paths_read_record(const struct paths *paths, struct daemon_record *ret, struct error *err);
void paths_remove_record(const struct paths *paths);

/* "<state>/<name>" */
int paths_path(const struct paths *paths, const char *name, char *path, size_t size,
               struct error *err);

#endif
