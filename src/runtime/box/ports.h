/*
 * ports.h - connections to the servers of a box's guests, on its loopback; see box.h for the rules.
 *
 * Only a box with a network namespace of its own has such ports (-EPERM). A connection ends with
 * exactly one done(), unless box_cancel() ends it, which is safe at any time.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_RUNTIME_BOX_PORTS_H
#define BAILEY_RUNTIME_BOX_PORTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct box;

struct port_events {
    void (*opened)(void *ctx); /* the guest's server has accepted: bytes may be sent */
    /* Returns the bytes taken; less than length stops the stream until box_port_resume(). At most
     * WIRE_PORT_WINDOW bytes are kept meanwhile. */
    size_t (*data)(void *ctx, const void *data, size_t length);
    void (*room)(void *ctx); /* for more bytes to the server */
    /* After the last byte. err->num 0: the server has closed; -ECONNREFUSED: nothing listens;
     * -EAGAIN: more than LIMIT_PORT_STREAMS at once. */
    void (*done)(void *ctx, const struct error *err);
};
int box_port_open(struct box *box, uint16_t port, const struct port_events *events, void *ctx,
                  uint32_t *ret_id, struct error *err);
/* Returns bytes taken, 0 when the window is full (room() follows), or a negative errno. */
long box_port_write(struct box *box, uint32_t id, const void *data, size_t length);
void box_port_end(struct box *box, uint32_t id); /* the server reads end of file */
/* data() is called with what is held, before it returns; then perhaps done(). */
void box_port_resume(struct box *box, uint32_t id);

struct ports_events {
    /* In ascending order. is_cut: there are more than LIMIT_LISTED_PORTS. */
    void (*listed)(void *ctx, const uint16_t *ports, size_t count, bool is_cut);
    void (*done)(void *ctx, const struct error *err);
};
int box_ports(struct box *box, const struct ports_events *events, void *ctx, uint32_t *ret_id,
              struct error *err);

#endif
