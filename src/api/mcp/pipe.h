/*
 * pipe.h - the protocol between `bailey mcp` and the broker: MCP's messages over a WebSocket (GET
 * /mcp/pipe), on the daemon's socket or over TCP with a key. The command passes lines on; the
 * broker has the host.
 *
 * Each WebSocket message is binary: one header line, '\n', and the text of an MCP message.
 *
 *   to the broker
 *     "m SEQ"         a message; SEQ is a number of the command's own, rising from 1
 *     "r SEQ BEGAN"   the same message once more, after a connection was lost: it may have been
 *                     done. BEGAN: when it was sent first, in milliseconds since 1970
 *     "l SEQ"         a message that is too long; only its beginning
 *     "e"             the end of input: what runs is cancelled, the session of its own is deleted,
 *                     then the broker closes
 *   to the command
 *     "a SEQ"         the answer to a message
 *     "d SEQ"         the message is done and has no answer: a notification, or it was cancelled
 *     "n"             a message that answers nothing (progress)
 *     "s VERSION OWN" what the next connection names in its query (version, own): the protocol
 *                     version that was agreed on, and the session of its own ("-": none yet)
 *
 * Query of the address: session=NAME (not deleted at the end), structured=1, version, own.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_API_MCP_PIPE_H
#define BAILEY_API_MCP_PIPE_H

#define MCP_PIPE_PATH "/mcp/pipe"
#define MCP_PIPE_HEAD_MAX 256 /* bytes of the header line */

#endif
