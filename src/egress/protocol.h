/*
 * protocol.h - the messages between launcher and egress proxy: fixed, small, binary.
 *
 * One SOCK_SEQPACKET pair. A message is one packet: type (1 byte), then the fields of its struct
 * packed by wire/pack.h; ADD comes with one descriptor, the others with none. The proxy reads
 * hostile bytes, so the launcher treats its messages as hostile. Fuzzed.
 *
 * Runs in: egress, launcher, supervisor
 */
#ifndef BAILEY_EGRESS_PROTOCOL_H
#define BAILEY_EGRESS_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EGRESS_MESSAGE_MAX 512
#define EGRESS_CONTROL_FD 3  /* the proxy's end, by this number */
#define EGRESS_SETTINGS_FD 5 /* a sealed memfd with the settings (settings.h), at offset 0 */

enum egress_type {
    EGRESS_ADD = 1, /* launcher: a box, with its listening socket */
    EGRESS_REMOVE,  /* launcher: it is gone, and so are its connections */
    EGRESS_VERDICT, /* proxy: what was decided about a host */
    _EGRESS_TYPE_MAX,
};

/* Which list counts for a box; a row of the settings. */
enum egress_policy {
    EGRESS_INSTALLER,
    _EGRESS_POLICY_MAX,
};

struct egress_verdict {
    bool is_allowed;
    uint16_t port;
    char host[256];  /* printable ASCII, never empty */
    char reason[64]; /* a word of [a-z_] */
};

struct egress_message {
    enum egress_type type;
    uint32_t number; /* the box */
    enum egress_policy policy;
    struct egress_verdict verdict;
};

/* Bytes written, or -EMSGSIZE. */
long egress_message_pack(const struct egress_message *message, uint8_t *data, size_t size);
int egress_message_unpack(const uint8_t *data, size_t length, struct egress_message *ret);

/* One message with an optional descriptor (-1: none). 1: done, 0: it would block, or negative. */
int egress_send(int fd, const struct egress_message *message, int with_fd);
/*
 * The same the other way; *ret_fd is owned by the caller, -1: none. -EPIPE: the peer has closed;
 * -EPROTO: malformed, or a descriptor where none is allowed (nothing is kept).
 */
int egress_receive(int fd, struct egress_message *ret, int *ret_fd);

#endif
