/*
 * supervisor_private.h - shared by the files of supervisor/ only: the state of the process that
 * starts the launcher, and the socket for upgrade requests.
 *
 * Runs in: supervisor
 */
#ifndef BAILEY_SUPERVISOR_SUPERVISOR_PRIVATE_H
#define BAILEY_SUPERVISOR_SUPERVISOR_PRIVATE_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "boxes/launch.h"
#include "launcher/hand.h"
#include "launcher/launcher.h"
#include "launcher/launcher_plan.h"
#include "supervisor/supervisor.h"
#include "sys/notify.h"

/* upgrade.c: the socket for upgrade requests */
struct upgrade_door {
    int listen_fd, client_fd;
    int terminal_fd; /* of the `bailey serve` that took over: its end is the daemon's; -1: none */
    bool is_asked;   /* the client waits for the launcher's answer */
    uid_t owner;     /* the user who may ask, besides root */
};

void upgrade_door_init(struct upgrade_door *door);
/* Must come before privileges are dropped. */
int upgrade_door_open(struct upgrade_door *door, const char *socket, struct error *err);
void upgrade_door_close(struct upgrade_door *door);
void upgrade_door_remove(const char *socket); /* removes its socket file */
/* One of its descriptors is ready; the request goes to `launcher_fd`. */
void upgrade_door_turn(struct upgrade_door *door, int launcher_fd);
/* The launcher's answer, unchanged. */
void upgrade_door_answer(struct upgrade_door *door, const char *message, size_t length);

/* open.c */
struct supervisor {
    const struct supervisor_spec *spec;
    struct launcher_plan *plan;
    bool is_range;         /* root: a range of the host's ids */
    unsigned first, count; /* the range */
    bool is_helped;        /* an ordinary user's own id, and ranges through newuidmap */
    bool is_trial;         /* supervisor_try_namespaces(): nothing is executed */
    unsigned sub_uid, sub_gid, sub_count;
    int lock_fd, range_fd, listen_fd, settings_fd, self_fd, engine_fd, leaf_fd, supervisor_fd,
        launcher_fd;
    int group_fd[_CONTROLLER_MAX]; /* locks of the engine's groups, held by the supervisor */
    int folder_fd[LAUNCHER_FOLDER_COUNT];
    int folder_tree[LAUNCHER_FOLDER_COUNT]; /* detached; root only */
    int bind_tree[LAUNCHER_BINDS_MAX], root_tree;
    int interpreter_tree[LAUNCHER_INTERPRETERS_MAX * LAUNCHER_INTERPRETER_BINDS];
    int dataset_fd[LAUNCHER_DATASETS_MAX];
    int tcp_fd[BROKER_TCP_MAX];
    int wheel_tree[LAUNCHER_WHEELS_MAX];
    int signal_fd, pid_fd;
    struct upgrade_door upgrade;
    struct notify notify;
    int egress_fd, egress_pid_fd, installer_fd;
    int host_fds[LAUNCHER_HOSTS_MAX], host_pid_fds[LAUNCHER_HOSTS_MAX];
    pid_t pid, egress_pid, host_pids[LAUNCHER_HOSTS_MAX];
};
void supervisor_init(struct supervisor *supervisor, const struct supervisor_spec *spec,
                     struct launcher_plan *plan);
void supervisor_close(struct supervisor *supervisor);
int supervisor_open(struct supervisor *supervisor, struct error *err);
void supervisor_choose_ids(struct supervisor *supervisor); /* the first step of it */
int supervisor_write_plan(struct supervisor *supervisor, struct error *err); /* of its spec */
/* upgrade.c: a client of the door of the daemon with this socket */
int upgrade_door_call(const char *socket, int *ret_fd, struct error *err);
/* A unix socket with a path of any length; an unused socket file is replaced. */
int supervisor_socket_listen(const char *path, int type, int *ret_fd, struct error *err);
int supervisor_socket_connect(const char *path, int type, int *ret_fd, struct error *err);
void supervisor_note_ids(struct supervisor *supervisor,
                         unsigned mapped); /* number of ids mapped inside */

/* Detached copies of trees that the launcher cannot reach by path. */
void supervisor_take_trees(struct supervisor *supervisor);

/* listen.c: the TCP addresses */
int supervisor_listen(struct supervisor *supervisor, struct error *err);

/*
 * egress.c: the process that waits to become the egress proxy. Must come before privileges are
 * dropped.
 */
int supervisor_egress_start(struct supervisor *supervisor, struct error *err);
void supervisor_egress_end(struct supervisor *supervisor);

/* provider_host.c: the keepers of provider hosts. Must come before privileges are dropped. */
int supervisor_hosts_start(struct supervisor *supervisor, struct error *err);
void supervisor_hosts_end(struct supervisor *supervisor);

/* clone.c: starts the launcher in its namespaces, up to its exec */
int supervisor_clone(struct supervisor *supervisor, struct error *err);
int supervisor_refused(int r, const char *what, struct error *err); /* fills *err; returns r */

#endif
