/*
 * launcher.h - the launcher's interface for the processes around it: the state folders, the
 * descriptors that it gives to the broker and to provider hosts, and the arguments it is started
 * with.
 *
 * Runs in: launcher, supervisor, broker, hosts, commands
 */
#ifndef BAILEY_LAUNCHER_LAUNCHER_H
#define BAILEY_LAUNCHER_LAUNCHER_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The daemon's folders below the state folder, made (0700) by supervisor_run() and owned by the
 * broker.
 */
#define STATE_FOLDERS                                                                     \
    {                                                                                     \
        "index", "output", "artifacts", "data", "logs", "layers", "templates", "packages" \
    }

/*
 * Descriptors of the broker, by number: LAUNCHER_CONTROL_FD, then these. Its argv is
 * {"bailey-engine", "broker"}; its environment is `broker_env` only.
 */
#define BROKER_LISTEN_FD 4 /* the listening unix socket, nonblocking */
/* A sealed memfd with `settings` or those of a reload, at offset 0 */
#define BROKER_SETTINGS_FD 5
#define SETTINGS_BYTES_MAX (4 * 1024 * 1024)
#define BROKER_LOG_FD 2
/* In the environment of the first broker with new settings: it admits the listeners. */
#define BROKER_IS_FIRST "BAILEY_BROKER_IS_FIRST"
#define BROKER_FOLDER_FD 10  /* + index in STATE_FOLDERS: opened for reading, by descriptor */
#define BROKER_DATASET_FD 32 /* + index: the configured dataset folders */
#define BROKER_TCP_FD 96 /* + index: listening TCP sockets, nonblocking; settings say how many */
#define BROKER_TCP_MAX 16

/*
 * Descriptors of a provider host, by number, besides BROKER_LOG_FD. Its argv is {"bailey-engine",
 * "host", NAME of the provider's row}; its environment is `host_env` only. Over the rendezvous
 * socket (SOCK_SEQPACKET) come packets of one byte, HOST_SAYS_CHANNEL, with one descriptor: a
 * control channel (launcher/protocol.h) that replaces the one before. The provider host ends when
 * the rendezvous socket is closed.
 */
#define LAUNCHER_HOSTS_MAX 4 /* provider hosts of one daemon, and `upstream` */
#define HOST_RENDEZVOUS_FD 3
#define HOST_WARDEN_FD 4 /* the program `bailey`, sealed */
#define HOST_SAYS_CHANNEL 'c'
/*
 * The name of the process that speaks to the model server (upstream/upstream.h), which is started,
 * kept and connected as a provider host is.
 */
#define HOST_UPSTREAM "upstream"
/* In the environment of one that keeps its caller's rights: the id that its guests get. Not set:
 * the caller may give none away, and they have its own. */
#define HOST_GUEST_ID "BAILEY_HOST_GUEST_ID"
#define HOST_STATUS_OUTDATED 3 /* exit status if a broker of another version connected */
/* To the launcher: a provider host was started to replace one that died */
#define HOST_SAYS_AGAIN 'a'

/*
 * The end of an error's text that gives no reason because a process ended without one. The reason
 * is among the last lines of the daemon's log: the command that shows the error replaces this end
 * with the name of the log and those lines.
 */
#define LOG_SAYS_WHY "; its log says why"

/* `bailey` executed by itself inside: argv is {"bailey", LAUNCHER_INSIDE_WORD}. Does not return. */
#define LAUNCHER_INSIDE_WORD "launcher-inside"
_Noreturn void launcher_inside(void);

/*
 * Both programs executed by a launcher that is to be replaced by them: {"bailey",
 * LAUNCHER_PROBE_WORD}, {"bailey-engine", "probe"}. The output of a program that can take over:
 */
#define LAUNCHER_PROBE_WORD "launcher-probe"
#define LAUNCHER_PROBE_ANSWER "bailey takes over\n"
int launcher_probe(void); /* the exit status of the first */

#endif
