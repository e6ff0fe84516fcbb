/*
 * handover.h - what a launcher passes to the program that replaces it: boxes and kernels with their
 * descriptors, by number. Private to launcher/; design: docs/design/2026-11-15-upgrade.md.
 *
 * Bytes: a head (magic, version, version of the wire, count of records), then records of a type, a
 * length and fields (wire/pack.h). A reader takes the fields it knows; further fields of the record
 * are of a later version, and are skipped. So fields are only ever added at a record's end, and a
 * field that a reader must understand raises the version. Both sides have the same privilege, but
 * everything is checked: the next program may be anything. No I/O here.
 *
 * Runs in: launcher
 */
#ifndef BAILEY_LAUNCHER_HANDOVER_H
#define BAILEY_LAUNCHER_HANDOVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "launcher/protocol.h"
#include "sys/cgroup.h"

#define HANDOVER_VERSION 1
#define HANDOVER_REASON_MAX 256
#define HANDOVER_BYTES_MAX (32 * MIB)

struct handover_launcher {
    uint32_t generation, next_number, next_slot, next_kernel;
    char layer[HASH_TEXT_MAX];
    int32_t former_self_fd, former_engine_fd; /* the programs to go back to; -1: none */
    bool is_return;                           /* it was gone back */
    char reason[HANDOVER_REASON_MAX];         /* why */
};

struct handover_box {
    struct launcher_box facts; /* serial and kernel are not handed over */
    uint32_t slot;
    bool was_asked, was_prewarmed;
    uint8_t staging;
    int32_t pid, pid_fd, channel_fd, ruleset_fd;
    enum cgroup_flavour flavour;
    char group[_CONTROLLER_MAX][CGROUP_PATH_MAX];
    /* of its user namespace's owner; has_owner false: the launcher, as in earlier versions */
    bool has_owner;
    uint32_t owner_slot;
    char tenant[LAUNCHER_TENANT_MAX];
    char account[LAUNCHER_TENANT_MAX]; /* the tenant that it counts for (share.h); empty: local, as
                                          in earlier versions */
};

struct handover_kernel {
    uint32_t number, kernel;
    int32_t pid, pid_fd;
};

/* Writing: the engine first, then any number of the others; handover_end() fills in the count. */
int handover_begin(struct buf *buf, const struct handover_launcher *launcher);
int handover_add_box(struct buf *buf, const struct handover_box *box);
int handover_add_kernel(struct buf *buf, const struct handover_kernel *kernel);
void handover_end(struct buf *buf);

/* Reading, in order. A function that returns a negative errno ends it. */
struct handover_reader {
    int (*launcher)(void *ctx, const struct handover_launcher *launcher);
    int (*box)(void *ctx, const struct handover_box *box);
    int (*kernel)(void *ctx, const struct handover_kernel *kernel);
    void *ctx;
};
/* 0, or a negative errno with what does not fit. */
int handover_read(const void *data, size_t length, const struct handover_reader *reader,
                  struct error *err);

#endif
