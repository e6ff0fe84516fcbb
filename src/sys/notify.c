/* notify.c - messages to a service manager; see notify.h. */
#include "sys/notify.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"

int notify_open(struct notify *notify, const char *socket_name, struct error *err)
{
    size_t length = socket_name ? strlen(socket_name) : 0;

    *notify = NOTIFY_INIT;
    if (length == 0)
        return 0;
    if ((socket_name[0] != '/' && socket_name[0] != '@') || length < 2 ||
        length >= sizeof(notify->address.sun_path))
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG,
                         "NOTIFY_SOCKET '%.60s': an absolute path, or a name behind '@'",
                         socket_name);
    notify->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (notify->fd < 0)
        return error_errno(err, "making a socket to the service manager");
    notify->address.sun_family = AF_UNIX;
    memcpy(notify->address.sun_path, socket_name, length);
    if (socket_name[0] == '@')
        notify->address.sun_path[0] = 0; /* in no file system: the length counts, no end */
    notify->length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
    /* Now, with the rights of the start: its folder may be closed to whom we become. */
    (void)connect(notify->fd, (const struct sockaddr *)&notify->address, notify->length);
    return 0;
}

void notify_say(const struct notify *notify, const char *text)
{
    const struct sockaddr *address = (const struct sockaddr *)&notify->address;

    if (notify->length == 0)
        return;
    if (send(notify->fd, text, strlen(text), MSG_NOSIGNAL) >= 0)
        return;
    /* The manager's socket did not exist yet, or has been replaced. */
    while (sendto(notify->fd, text, strlen(text), MSG_NOSIGNAL, address, notify->length) < 0 &&
           errno == EINTR)
        ;
}

void notify_close(struct notify *notify)
{
    fd_closep(&notify->fd);
    *notify = NOTIFY_INIT;
}

uint64_t notify_watchdog_ms(const char *usec, const char *pid)
{
    uint64_t number;

    if (pid && pid[0] && (str_to_u64(pid, &number) < 0 || number != (uint64_t)getpid()))
        return 0;
    if (!usec || str_to_u64(usec, &number) < 0 || number == 0)
        return 0;
    return MAX(number / 2000, UINT64_C(1));
}
