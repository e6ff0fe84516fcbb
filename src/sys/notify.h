/*
 * notify.h - messages to a service manager: sd_notify(3), without its library.
 *
 * The socket is connected when it is opened, while its folder can still be entered; the address is
 * kept too, because the manager may recreate its socket. Nothing waits and nothing fails the
 * caller: a manager that does not listen is ignored.
 *
 * Runs in: every process
 */
#ifndef BAILEY_SYS_NOTIFY_H
#define BAILEY_SYS_NOTIFY_H

#include <stdint.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/error.h"

struct notify {
    struct sockaddr_un address;
    socklen_t length; /* 0: there is no manager */
    int fd;
};

#define NOTIFY_INIT ((struct notify){.fd = -1})

/* `socket` is the value of NOTIFY_SOCKET: a path, or '@' and an abstract name; NULL: no manager. */
int notify_open(struct notify *notify, const char *socket, struct error *err);
void notify_say(const struct notify *notify, const char *text); /* "READY=1\nSTATUS=..." */
void notify_close(struct notify *notify);

/*
 * Milliseconds between two WATCHDOG=1: half of WATCHDOG_USEC; 0: none is wanted. `pid` is
 * WATCHDOG_PID (may be NULL), which has to be ours.
 */
uint64_t notify_watchdog_ms(const char *usec, const char *pid);

#endif
