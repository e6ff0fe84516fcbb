/*
 * host_stage.h - a provider host with Docker's backend in this process: the test is the launcher
 * that holds the other end of its rendezvous, and the broker that comes to it.
 */
#ifndef BAILEY_UNIT_RUNTIME_HOST_STAGE_H
#define BAILEY_UNIT_RUNTIME_HOST_STAGE_H

#include "runtime/fake_launcher.h"

#include <fcntl.h>

#include "config/config.h"
#include "runtime/host/host_private.h"
#include "sys/packet.h"

static struct poll_reactor loop;
static struct host *host;
static int rendezvous_fd, control_fd = -1, program_fd;
static bool has_left;

static void on_left(void *ctx)
{
    (void)ctx;
    has_left = true;
}

static void host_begin(struct host_spec spec, const struct config *config)
{
    int pair[2];

    has_left = false;
    control_fd = -1;
    pair_of(pair);
    rendezvous_fd = pair[0];
    spec.rendezvous_fd = pair[1];
    spec.left = on_left;
    program_fd = spec.program_fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    assert_int_equal(host_open(&loop.reactor, &spec, backend_find("docker"), config, &host, NULL),
                     0);
}

/* A control channel, as the launcher sends it. */
static void host_meet(void)
{
    static const char word = 'c';
    int pair[2];

    pair_of(pair);
    assert_int_equal(packet_send(rendezvous_fd, &word, 1, &pair[1], 1, 0), 0);
    close(pair[1]);
    control_fd = pair[0];
}

static void host_end(void)
{
    int rendezvous = host->spec.rendezvous_fd;

    host_close(host);
    close(rendezvous);
    close(rendezvous_fd);
    close(control_fd);
    close(program_fd);
}

#endif
