/*
 * port_list.c - which ports of the box's loopback are listened on: PORTS, from /proc/net/tcp and
 * tcp6, where listening sockets come before all others.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "warden/warden_private.h"

#define TABLE_BYTES (1 * MIB) /* of each file: LIMIT_BOX_TCP_SOCKETS lines of 150 and more */
#define STATE_LISTEN 0x0a
#define PORTS 65536

struct seen {
    bool ports[PORTS];
};

/* Whether a connection to the loopback address reaches a socket bound to this one. */
static bool is_reached(const char *address, bool is_ipv6)
{
    char loopback[9];

    if (address[strspn(address, "0")] == '\0')
        return true;
    if (!is_ipv6) {
        /* Words of the address as numbers of this machine. */
        str_format(loopback, sizeof(loopback), "%08X", htonl(INADDR_LOOPBACK));
        return str_equal(address, loopback);
    }
    str_format(loopback, sizeof(loopback), "%08X", htonl(1));
    return strlen(address) == 32 && strspn(address, "0") >= 24 && str_equal(address + 24, loopback);
}

/* "  0: 0100007F:0BB8 00000000:0000 0A ..."; false: it does not listen. */
static bool take_line(struct seen *seen, const char *line, bool is_ipv6)
{
    char address[33];
    unsigned port, state;

    if (sscanf(line, " %*u: %32[0-9A-F]:%4x %*[0-9A-F]:%*x %2x", address, &port, &state) != 3 ||
        state != STATE_LISTEN)
        return false;
    if (is_reached(address, is_ipv6))
        seen->ports[port % PORTS] = true;
    return true;
}

static int read_table(const struct sandbox *sandbox, const char *name, bool is_ipv6,
                      struct seen *seen)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(TABLE_BYTES);
    CLEANUP(fd_closep) int fd = -1;
    char *rest, *line, piece[16384];
    ssize_t length = -1;

    if (sandbox->proc_fd >= 0)
        fd = openat(sandbox->proc_fd, name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return sandbox->proc_fd < 0 ? -ENOTSUP : -errno;
    while (text.length < TABLE_BYTES - sizeof(piece) &&
           (length = read(fd, piece, sizeof(piece))) > 0) {
        if (buf_append(&text, piece, (size_t)length) < 0)
            return -ENOMEM;
    }
    if (length < 0)
        return -errno;
    rest = text.data;
    (void)strsep(&rest, "\n"); /* the heading */
    while ((line = strsep(&rest, "\n")) && take_line(seen, line, is_ipv6))
        ;
    return 0;
}

static void tell(struct warden *warden, uint32_t id, const struct seen *seen)
{
    static struct message_listening listening; /* one thread */
    uint8_t payload[3 + 2 * LIMIT_LISTED_PORTS];
    ssize_t length;

    listening.count = 0;
    listening.is_cut = false;
    for (unsigned port = 1; port < PORTS; port++) {
        if (!seen->ports[port])
            continue;
        listening.is_cut = listening.count == LIMIT_LISTED_PORTS;
        if (listening.is_cut)
            break;
        listening.ports[listening.count++] = (uint16_t)port;
    }
    length = message_listening_pack(&listening, payload, sizeof(payload));
    channel_control(warden, FRAME_LISTENING, id, payload, (size_t)length);
}

void port_list(struct warden *warden, const struct frame *frame)
{
    CLEANUP(freep) struct seen *seen = calloc(1, sizeof(*seen));
    int r = 0;

    if (frame->length != 0 || frame->id == 0 || !seen)
        warden_end(warden);
    if (!(warden->sandbox->layers & ISOLATION_LAYER_BIT(ISOLATION_LAYER_NETNS)))
        r = -EPERM;
    if (r == 0)
        r = read_table(warden->sandbox, "self/net/tcp", false, seen);
    if (r == 0) {
        r = read_table(warden->sandbox, "self/net/tcp6", true, seen);
        r = r == -ENOENT ? 0 : r; /* a kernel without IPv6 */
    }
    if (r == 0)
        tell(warden, frame->id, seen);
    channel_done(warden, frame->id, r);
}
