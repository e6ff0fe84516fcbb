/*
 * frame.h - the frames between host and warden.
 *
 * Theory of operation. A frame is a header of 12 bytes (length of the whole, type, zero, id) and a
 * payload; it never exceeds WIRE_FRAME_MAX. Locally one frame is one SOCK_SEQPACKET message, so a
 * peer that dies leaves no half frame; on byte streams frame_stream puts them together from any
 * pieces.
 *
 * Ids name an execution or a file operation; the host chooses them, never 0 (0 is the box itself).
 *
 * Flow control. Bytes (standard input, output, file contents) count in streams, each with offsets
 * from 0. A sender may be at most WIRE_STREAM_WINDOW bytes ahead of the last ACK; it keeps what is
 * not acknowledged, so that a reader which reconnects can ask again (HELLO, INVENTORY, RESUME).
 * Control frames need no credit and are sent before bytes that wait, so a flood on stdout never
 * delays a kill.
 *
 * No I/O, no allocation here. Every decoder treats its input as hostile.
 *
 * Runs in: broker, hosts, launcher, box, commands
 */
#ifndef BAILEY_WIRE_FRAME_H
#define BAILEY_WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

#define WIRE_VERSION 1
#define FRAME_HEADER 12
#define FRAME_PAYLOAD_MAX (WIRE_FRAME_MAX - FRAME_HEADER)
#define FRAME_DATA_MAX (FRAME_PAYLOAD_MAX - 16) /* bytes in one frame of a stream */

enum frame_type {
    /* host to warden */
    FRAME_GO = 1,    /* the id maps are written */
    FRAME_GROUP,     /* the control group exists, or is not available */
    FRAME_ARGS,      /* a piece of the strings for the next EXEC */
    FRAME_EXEC,      /* start a command */
    FRAME_STDIN,     /* bytes for its standard input */
    FRAME_STDIN_END, /* end of file */
    FRAME_SIGNAL,    /* send it a signal */
    FRAME_PUT,       /* create a file: path and mode */
    FRAME_PUT_DATA,
    FRAME_PUT_END,
    FRAME_GET,    /* read a file */
    FRAME_LIST,   /* list a folder and all below it */
    FRAME_HELLO,  /* a new host took the channel: what of the old one is left? id: a generation */
    FRAME_RESUME, /* send a command's output again from these offsets */
    FRAME_FORGET, /* a command that has ended is recorded: drop it */
    FRAME_RESIZE, /* a terminal's size */
    FRAME_STAT,   /* one ENTRY about a name, then DONE */
    FRAME_MKDIR,  /* a folder and those above it */
    FRAME_MOVE,
    FRAME_REMOVE,
    FRAME_CHMOD,
    FRAME_WATCH,  /* CHANGED for each change until CANCEL */
    FRAME_CANCEL, /* end a file operation: DONE with ECANCELED follows, unless DONE was sent */
    FRAME_KERNEL, /* the launcher gives a kernel: descriptors of its socket, stdout and stderr */
    FRAME_CELL,   /* code for a kernel; the bytes are in the ARGS frames before it */
    /* both ways */
    FRAME_ACK, /* the stream's bytes before this offset are done with */
    /* warden to host */
    FRAME_READY,   /* the box is ready: its layers, and the time of each stage */
    FRAME_FAILED,  /* a stage of bring-up failed: the box is gone */
    FRAME_STARTED, /* the program runs */
    FRAME_NOEXEC,  /* it does not: stage and errno */
    FRAME_OUTPUT,
    FRAME_EXITED,
    FRAME_DATA,      /* contents of a file */
    FRAME_ENTRY,     /* one line of a listing */
    FRAME_DONE,      /* a file operation has ended, with an errno or 0 */
    FRAME_INVENTORY, /* after HELLO: one command that is there */
    FRAME_WELCOME,   /* the end of the inventory; id: the generation of the HELLO */
    FRAME_CHANGED,   /* WATCH: something changed */
    /* a provider host to host, its last message; from a warden it is refused */
    FRAME_LOST, /* id: why the box is lost, enum launcher_why of launcher/protocol.h */
    /* host to warden, once */
    FRAME_ZYGOTE, /* start the box's zygote: as EXEC, id 0; nothing is answered */
    /* host to warden */
    FRAME_FREEZE,   /* stop all processes of the box except the warden; answered by DONE */
    FRAME_THAW,     /* continue them, except those that were stopped before; answered by DONE */
    FRAME_CONNECT,  /* to a port of the box's loopback; CONNECTED or DONE follows */
    FRAME_PORT_END, /* no more PORT_DATA will come: the guest's server reads end of file */
    FRAME_PORTS,    /* which ports are listened on? answered by LISTENING, then DONE */
    /* both ways */
    FRAME_PORT_DATA, /* bytes of a connection to a port; at most WIRE_PORT_WINDOW unacknowledged */
    /* warden to host */
    FRAME_CONNECTED, /* the guest's server has accepted; DONE follows the last PORT_DATA */
    FRAME_LISTENING,
    _FRAME_TYPE_MAX,
};

struct frame {
    enum frame_type type;
    uint32_t id;
    const uint8_t *payload; /* borrowed */
    size_t length;          /* of the payload */
};

/* Writes the header for a payload of `length` bytes; the payload follows it. */
void frame_header(uint8_t header[FRAME_HEADER], enum frame_type type, uint32_t id, size_t length);

/* One whole message. 0 or -EPROTO. The payload points into data. */
int frame_decode(const void *data, size_t length, struct frame *ret);

/* The same on a byte stream: give bytes as they come, take frames as they are complete. */
struct frame_stream {
    uint8_t data[WIRE_FRAME_MAX];
    size_t have;
};

/* Copies as much as belongs to the current frame; returns the bytes taken (at least 1 of 1). */
size_t frame_stream_feed(struct frame_stream *stream, const void *data, size_t length);

/*
 * 1: *ret is a whole frame, valid until the next feed (which starts the next one);
 * 0: not yet; -EPROTO: the peer is broken.
 */
int frame_stream_next(struct frame_stream *stream, struct frame *ret);

#endif
