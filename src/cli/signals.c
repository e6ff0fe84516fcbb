/* signals.c - the caller's wish to end a run, as a descriptor. */
#include "cli/signals.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"

int signals_open(int *ret_fd, struct error *err)
{
    static const int wanted[] = {SIGINT, SIGTERM, SIGHUP};
    sigset_t set;
    int fd;

    sigemptyset(&set);
    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
        struct sigaction action;

        /* nohup and a shell's '&' ask to ignore one; blocked, it would come through after all. */
        if (sigaction(wanted[i], NULL, &action) == 0 && action.sa_handler != SIG_IGN)
            sigaddset(&set, wanted[i]);
    }
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0)
        return error_errno(err, "blocking signals");
    fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return error_errno(err, "opening a signalfd");
    *ret_fd = fd;
    return 0;
}

int signals_taken(int fd)
{
    struct signalfd_siginfo info;

    if (fd < 0 || read(fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
        return 0;
    return (int)info.ssi_signo;
}
