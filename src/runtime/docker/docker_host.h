/*
 * docker_host.h - the Docker provider host: the process that alone speaks to Docker, and is to
 * containers what the launcher is to local boxes. Design:
 * docs/design/2026-11-16-the-docker-wall.md.
 *
 * Speaks launcher/protocol.h over control channels that come through the rendezvous socket, and the
 * Engine API over HTTP. One thread, one reactor; nothing here waits. A broker and a container are
 * both treated as hostile: the first can have boxes made and ended, the second can lose its own.
 *
 * Runs in: hosts, commands
 */
#ifndef BAILEY_RUNTIME_DOCKER_DOCKER_HOST_H
#define BAILEY_RUNTIME_DOCKER_DOCKER_HOST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/reactor.h"

struct docker_host;

enum docker_pulling { PULL_BEGINS, PULL_GOES_ON, PULL_ENDS, PULL_FAILED };

/* Borrowed until docker_host_close(). */
struct docker_host_spec {
    int rendezvous_fd; /* SOCK_SEQPACKET: control channels, one byte and one descriptor each */
    int program_fd;    /* `bailey`, what becomes the warden in a container */
    const char *image;
    const char *host;      /* unix:///path or tcp://host:port */
    const char *cert_path; /* NULL or empty: no TLS */
    bool verifies_tls;
    const char *runtime; /* NULL or empty: Docker's default */
    bool has_network;
    uint32_t pool_size;
    const char *engine; /* [a-z0-9_]+: this engine's id; NULL: one is made up */
    /* The state folder that this engine alone holds: what an earlier one left in containers is
     * removed. NULL: nobody's; only what was never started, and is old, is. */
    const char *state;
    const char *identity; /* a word that no other state folder has; NULL: none */
    /* What is kept ready, and the most that a box may have; 0: no limit is known. */
    uint64_t memory_bytes, disk_bytes;
    uint32_t pids, cpu_millis;
    uint8_t minimum;       /* enum isolation */
    bool has_kernels;      /* Python is wanted soon: prewarmed boxes have it running */
    uint64_t pull_wait_ms; /* a box waits so long for an image that comes; 0: to its end */
    /* How far an image is that comes, in words; five times a second. May be NULL. */
    void (*pulling)(void *ctx, enum docker_pulling what, const char *image, const char *words);
    void (*left)(void *ctx); /* all is removed: the loop may stop */
    void *ctx;
};

int docker_host_open(struct reactor *reactor, const struct docker_host_spec *spec,
                     struct docker_host **ret, struct error *err);
void docker_host_leave(
    struct docker_host *docker); /* as at the rendezvous socket's end: left() follows */
/* It left because a broker of another version came: another program is wanted. */
bool docker_host_is_outdated(const struct docker_host *docker);
void docker_host_close(struct docker_host *docker); /* NULL is fine */

#endif
