/* mcp_row.c - the row of `bailey mcp`: options and texts; its code is in client/mcp.c. */
#include "base/cleanup.h"
#include "cli/command.h"

static const struct option_row mcp_options[] = {
    {.name = "session",
     .letter = 's',
     .argument = "NAME",
     .help = "use the session of this name (created if it does not exist) and keep it at the end"},
    {.name = "structured", .help = "return results as structured content too, for programs"},
    {.name = "config", .argument = "FILE", .words = WORDS_FILE, .help = "read this bailey.yaml"},
};

const struct command mcp_command = {
    .name = "mcp",
    .summary = "serve the tools to an MCP client on standard input and output",
    .usage = "[options]",
    .description =
        "Speaks the Model Context Protocol, one message a line: 2026-07-28 and, after initialize, "
        "2024-11-05 to 2025-11-25. MCP clients start it. Most are configured "
        "with\n\n{\"mcpServers\": {\"bailey\": {\"command\": \"bailey\", \"args\": "
        "[\"mcp\"]}}}\n\ndocs/mcp.md describes others.\n\nThe tools are those of 'bailey tool'. "
        "Calls without a session share one, which is created at the first of them and deleted when "
        "the input ends. Files that a command writes to /tmp/output are returned as pictures or as "
        "links to resources.\n\nWhen the input ends, or on SIGINT or SIGTERM, running calls are "
        "cancelled. Only protocol messages are written to standard output.",
    .options = mcp_options,
    .option_count = ARRAY_SIZE(mcp_options),
    .in_engine = true,
};
