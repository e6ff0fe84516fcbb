/*
 * box.h - a process in namespaces of its own that becomes the warden of a box, as a container's
 * first one does (boxes/boxes.h, warden_inside()).
 */
#ifndef BAILEY_TESTS_PROVIDER_BOX_H
#define BAILEY_TESTS_PROVIDER_BOX_H

#include <stdint.h>
#include <sys/types.h>

struct clone_box {
    const char *files; /* a folder with bin/bailey and driver/, shown as /bailey */
    uint64_t disk_bytes, memory_bytes;
    int stream_fd; /* its standard input and output */
};

/* Its pid, with a descriptor for it; or negative errno. */
pid_t clone_box_start(const struct clone_box *box, int *ret_pid_fd);

#endif
