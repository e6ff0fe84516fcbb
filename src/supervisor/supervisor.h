/*
 * supervisor.h - the daemon's processes: supervisor, launcher, broker.
 *
 * Theory of operation. supervisor_run() is called once, by `bailey serve`, with one thread, and
 * returns when the daemon has ended.
 *   1. It opens and assembles what needs the caller's rights: the folders, the listening sockets,
 *      the interpreters' trees, a control group that is given to the engine's id, both programs
 *      (as sealed copies in memory: they can be executed inside the namespaces wherever they are
 *      installed, and cannot be changed).
 *   2. It clones the launcher into the engine's user, mount and pid namespaces, writes its id maps
 *      (a range for root or with newuidmap, else one id), and becomes the supervisor: without
 *      privileges it forwards SIGTERM and SIGINT, and exits with the launcher's status.
 *   3. The launcher executes itself inside (so that its memory belongs to its user namespace), is
 *      PID 1 of the pid namespace, mounts its own /proc, and runs launcher_main(): it starts the
 *      broker, restarts it whenever it ends by itself, and answers protocol.h.
 * Before that a child is forked that waits until a box needs a network: then it becomes the egress
 * proxy, in the host's network, under its own id (egress.c). If boxes are made by a provider host,
 * or a model server is configured (upstream/), other children keep those processes running
 * (provider_host.c). The kernel ends everything inside when the
 * launcher dies; the launcher dies with the supervisor. Where user namespaces are not available it
 * is refused (ERROR_REFUSED), or, with has_no_namespaces, the launcher and the broker run beside
 * the supervisor under an id of their own, and a provider host makes the one box (boxes/beside.c).
 *
 * Runs in: supervisor, commands
 */
#ifndef BAILEY_SUPERVISOR_SUPERVISOR_H
#define BAILEY_SUPERVISOR_SUPERVISOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/log.h"
#include "boxes/boxes.h"
#include "launcher/launcher.h"

struct supervisor_spec {
    const char *state;    /* absolute; exists, 0700 */
    const char *socket;   /* absolute path; its folder exists, 0700 */
    const char *engine;   /* path of bailey-engine */
    const char *settings; /* JSON for the broker: passed on, not parsed here */
    size_t settings_length;
    const char *const *broker_env; /* "K=V": the effective configuration, NULL-terminated */
    struct supervisor_host {
        const char *name;       /* name of the provider's row */
        const char *const *env; /* as broker_env, with secrets that only this host needs */
        bool is_lazy;           /* it is started when the broker first needs it */
        bool has_own_id;        /* it needs no right of the caller's: an id of its own */
        /* It makes its boxes with the caller's capabilities; HOST_GUEST_ID says which id they get.
         */
        bool keeps_rights;
    } hosts[LAUNCHER_HOSTS_MAX];
    size_t host_count;
    const char *const *dataset_folders; /* absolute, NULL-terminated; opened now, read-only */
    const char *const *listen;          /* "ADDRESS:PORT", NULL-terminated; opened now */
    const int *listen_fds; /* TCP sockets that listen already; borrowed; they come first */
    size_t listen_fd_count;
    const char *egress; /* JSON for the egress proxy (egress/policy.h); NULL: none */
    /* For installer boxes only: pip's settings as files, folders of wheels as /bailey/wheels/N. */
    const struct launch_file *installer_files;
    size_t installer_file_count;
    const struct launch_bind *wheels;
    size_t wheel_count;
    struct launch_spec box; /* root, binds, id_base: the same for every box */
    bool has_no_ceiling;    /* the limits of `box` are no maximum */
    /* Interpreters that a box may have besides those of `box`; opened now. */
    const struct supervisor_interpreter {
        const char *program; /* in a box */
        const char *const *folders;
        size_t folder_count;
    } * interpreters;
    size_t interpreter_count;
    bool takes_listed_only; /* and no others */
    const char *python;     /* the default interpreter, as a path in a box; NULL: none */
    const char *layer;      /* of the default template; NULL: none */
    bool has_zygotes;       /* SANDBOX_WARM */
    enum log_level log_level;
    bool log_is_json;
    unsigned pool_size;         /* maximum number of prewarmed boxes; 0: none */
    uint64_t pool_memory_bytes; /* their memory limit together while they are idle */
    unsigned stop_grace_ms;
    int socket_fd;          /* opened already by a service manager, at `socket`; 0: opened here */
    const char *notify;     /* NOTIFY_SOCKET of the service manager; NULL: none */
    uint64_t watchdog_ms;   /* interval of the service manager's watchdog; 0: none */
    bool has_no_namespaces; /* none are tried: every box is made by a provider host */
    int ready_fd;           /* gets "ready ", or an error's text, and is closed; -1: none */
    int stderr_fd;          /* the daemon's log */
};

/*
 * Tries what a start with this spec does to have namespaces of its own, and undoes it: 0, or the
 * negative errno of what the machine refused, with the same error as that start would give. A
 * failure that is no refusal is 0: the start reports it. Blocks for some milliseconds.
 */
int supervisor_try_namespaces(const struct supervisor_spec *spec, struct error *err);

/* Returns when the daemon has ended: 0, or the error that kept it from starting. */
int supervisor_run(const struct supervisor_spec *spec, struct error *err);

/*
 * Asks the daemon of spec->socket, which was started on demand, to continue with these settings,
 * listeners and log; its boxes stay. Waits for the answer: `taken` is called when it serves with
 * them. Then it is as if this process had started it: returns when the daemon has ended, which a
 * signal to this process asks for. -EBUSY: the daemon goes on as before, and err says why.
 */
int supervisor_take_over(const struct supervisor_spec *spec, void (*taken)(void *ctx), void *ctx,
                         struct error *err);

/*
 * Asks the daemon of this socket to continue with these two programs, which are read now, with the
 * caller's rights. Waits for the answer: 0 and the version that took over, or why nothing changed.
 */
int supervisor_upgrade(const char *socket, const char *program, const char *engine,
                       char *ret_version, size_t size, struct error *err);

#endif
