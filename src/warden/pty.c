/*
 * pty.c - a terminal for a command: a pair of the box's own devpts.
 *
 * The guest has its end as 0, 1 and 2 and as its controlling terminal; ours is standard input and
 * stream 1. It is the line discipline of the box's kernel that echoes, edits lines and turns Ctrl-C
 * into a signal: bytes are bytes here.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "warden/warden_private.h"

/* Backspace takes a whole character away, not a byte of it. */
static int set_utf8(int fd)
{
    struct termios mode;

    if (tcgetattr(fd, &mode) < 0)
        return -errno;
    mode.c_iflag |= IUTF8;
    return tcsetattr(fd, TCSANOW, &mode) < 0 ? -errno : 0;
}

int pty_pair_open(const struct sandbox *sandbox, const struct message_size *size, int *ret_our,
                  int *ret_guests)
{
    const struct sandbox_plan *plan = sandbox->plan;
    CLEANUP(fd_closep) int our = open("/dev/ptmx", O_RDWR | O_NOCTTY | O_CLOEXEC);
    CLEANUP(fd_closep) int guests = -1;
    int unlocked = 0;
    int r;

    if (our < 0 || ioctl(our, TIOCSPTLCK, &unlocked) < 0)
        return -errno;
    /* Not by its name: no path is looked up that a mount could have changed (Linux 4.13). */
    guests = ioctl(our, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (guests < 0)
        return -errno;
    /* As login(1) does: the guest may open its own terminal again by its name. */
    if (plan->has_split && fchown(guests, plan->guest_id, plan->guest_id) < 0)
        return -errno;
    r = set_utf8(guests);
    if (r == 0)
        r = pty_pair_resize(our, size);
    if (r < 0)
        return r;
    *ret_our = fd_take(&our);
    *ret_guests = fd_take(&guests);
    return 0;
}

/*
 * An exiting program closes its terminal before it is gone. With no process left on the guest's
 * side our side would report its end, and closing it then would send SIGHUP to the process that is
 * still exiting.
 */
int pty_pair_hold(int fd)
{
    int peer_fd = ioctl(fd, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);

    return peer_fd < 0 ? -errno : peer_fd;
}

int pty_pair_resize(int fd, const struct message_size *size)
{
    struct winsize window = {.ws_row = size->rows, .ws_col = size->columns};

    return ioctl(fd, TIOCSWINSZ, &window) < 0 ? -errno : 0;
}

/*
 * The character that means end of file, where the terminal collects lines: once at the beginning of
 * a line, twice after an unfinished one, which the first only passes on. A program that reads
 * single keys would see a key, so it gets none.
 */
size_t pty_pair_end(int fd, char last, char end[2])
{
    struct termios mode;

    if (tcgetattr(fd, &mode) < 0 || !(mode.c_lflag & ICANON) || mode.c_cc[VEOF] == _POSIX_VDISABLE)
        return 0;
    end[0] = (char)mode.c_cc[VEOF];
    end[1] = end[0];
    return last == '\n' || last == '\r' ? 1 : 2;
}
