/*
 * mcp_link.h - the connection of `bailey mcp` to its server: a WebSocket, with the binary messages
 * of api/mcp/pipe.h.
 *
 * Opening blocks until the broker has answered the handshake; sending and receiving never do. One
 * thread. Zeroed with fd -1 means closed, the state after mcp_link_close().
 *
 * Runs in: commands
 */
#ifndef BAILEY_CLI_CLIENT_MCP_LINK_H
#define BAILEY_CLI_CLIENT_MCP_LINK_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/error.h"
#include "http/dial.h"

struct mcp_link {
    int fd; /* of `dial`, to poll; -1: closed */
    struct http_dial *dial;
    struct buf in, out;
    size_t done; /* bytes of `in` that were returned */
};

/* Errors: -ECONNREFUSED, -ENOENT, -ECONNRESET: no daemon; others are final. */
/* `header`: one more line for the request; empty: none. The client has to live as long. */
int mcp_link_open(struct mcp_link *link, struct http_client *client, const char *target,
                  const char *header, struct error *err);
void mcp_link_close(struct mcp_link *link); /* may be called twice */

/*
 * Queues "head
 * " and the text as one message, and writes as much as possible. <0: the link is lost.
 */
int mcp_link_send(struct mcp_link *link, const char *head, const char *text, size_t length);
int mcp_link_flush(struct mcp_link *link);
bool mcp_link_wants_write(const struct mcp_link *link);

int mcp_link_receive(struct mcp_link *link); /* reads what is available; <0: the link is lost */
/*
 * The next complete message, valid until the next call on the link. 1; 0: none yet; <0: the other
 * side closed, or broke the protocol.
 */
int mcp_link_next(struct mcp_link *link, const char **ret_data, size_t *ret_length);

#endif
