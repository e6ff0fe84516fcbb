/*
 * mcp_link.h - the connection of `bailey mcp` to the daemon: a WebSocket on its unix socket, with
 * the binary messages of api/mcp/pipe.h.
 *
 * Opening blocks until the broker has answered the handshake; sending and receiving never do. One
 * thread. Zeroed with fd -1 it is closed, which is what mcp_link_close() leaves.
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_MCP_LINK_H
#define BAILEY_CLI_CLIENT_MCP_LINK_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"

struct mcp_link {
    int fd; /* -1: closed */
    struct buf in, out;
    size_t done; /* bytes of `in` that were handed out */
};

/* Errors: -ECONNREFUSED, -ENOENT, -ECONNRESET: nobody is there; others are final. */
int mcp_link_open(struct mcp_link *link, const char *socket_path, const char *target,
                  struct error *err);
void mcp_link_close(struct mcp_link *link); /* twice is fine */

/* Queues "head\n" and the text as one message, and writes what goes. <0: the link is lost. */
int mcp_link_send(struct mcp_link *link, const char *head, const char *text, size_t length);
int mcp_link_flush(struct mcp_link *link);
bool mcp_link_wants_write(const struct mcp_link *link);

int mcp_link_receive(struct mcp_link *link); /* reads what is there; <0: the link is lost */
/*
 * The next whole message, good until the next call on the link. 1; 0: none yet; <0: the other side
 * closed, or broke the protocol.
 */
int mcp_link_next(struct mcp_link *link, const char **ret_data, size_t *ret_length);

#endif
