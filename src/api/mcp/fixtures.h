/*
 * fixtures.h - tools, prompts and resources that the official conformance suite asks for. Only a
 * server that was told so (mcp_settings.has_fixtures, which only tests set) knows any of them.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_API_MCP_FIXTURES_H
#define BAILEY_API_MCP_FIXTURES_H

#include "api/mcp/mcp_private.h"

/* Appends what there is of "tools", "prompts", "resources" or "resourceTemplates". */
void mcp_fixtures_list(const char *what, json_t *list);
void mcp_fixtures_capabilities(json_t *capabilities); /* of the legacy era */
/* Answers the request, now or later; false: it is none of these. */
bool mcp_fixtures_handle(struct mcp_request *request);
/* An answer to something that we asked the client. */
void mcp_fixtures_answered(struct mcp_peer *peer, json_t *message);

/* fixtures_input.c: tools that ask the client, in both eras; false: it is none of them. */
bool mcp_fixtures_input(struct mcp_request *request, const char *name);

/* A result of one text. */
json_t *mcp_fixture_text(const char *text);

#endif
