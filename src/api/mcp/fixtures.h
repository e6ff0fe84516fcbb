/*
 * fixtures.h - tools, prompts and resources that the official conformance suite asks for. Offered
 * only if mcp_settings.has_fixtures is set, which only tests do.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_API_MCP_FIXTURES_H
#define BAILEY_API_MCP_FIXTURES_H

#include "api/mcp/mcp_private.h"

/* Appends the fixtures of "tools", "prompts", "resources" or "resourceTemplates". */
void mcp_fixtures_list(const char *what, json_t *list);
void mcp_fixtures_capabilities(json_t *capabilities); /* of the legacy era */
/* Answers the request, now or later; false: it is not for a fixture. */
bool mcp_fixtures_handle(struct mcp_request *request);
/* A client's answer to a question of a fixture. */
void mcp_fixtures_answered(struct mcp_peer *peer, json_t *message);

/* fixtures_input.c: tools that ask the client, in both eras; false: not one of them. */
bool mcp_fixtures_input(struct mcp_request *request, const char *name);

/* A result with one text. */
json_t *mcp_fixture_text(const char *text);

#endif
