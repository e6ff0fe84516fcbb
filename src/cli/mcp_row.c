/* mcp_row.c - the row of `bailey mcp`: options and words; its code is in client/mcp.c. */
#include "base/cleanup.h"
#include "cli/command.h"

static const struct option_row mcp_options[] = {
    {.name = "session",
     .letter = 's',
     .argument = "NAME",
     .help =
         "work in the session of this name (made when it is not there) and leave it at the end"},
    {.name = "structured", .help = "give results as structured content too, for programs"},
    {.name = "config", .argument = "FILE", .words = WORDS_FILE, .help = "read this bailey.yaml"},
};

const struct command mcp_command = {
    .name = "mcp",
    .summary = "serve the tools to an MCP client on standard input and output",
    .usage = "[options]",
    .description =
        "Speaks the Model Context Protocol, one message a line: 2026-07-28 and, after initialize, "
        "2024-11-05 to 2025-11-25. MCP clients start it by themselves. Most take it as\n\n"
        "{\"mcpServers\": {\"bailey\": {\"command\": \"bailey\", \"args\": [\"mcp\"]}}}\n\n"
        "in their settings; docs/mcp.md has others.\n\n"
        "The tools are those of 'bailey tool'. Calls that name no session share one, which is made "
        "at the first of them and deleted when the input ends. Files that a command writes to "
        "/tmp/output come back as pictures or as links to resources.\n\n"
        "When the input ends, or on SIGINT or SIGTERM, running calls are cancelled. Nothing but "
        "protocol is written to standard output.",
    .options = mcp_options,
    .option_count = ARRAY_SIZE(mcp_options),
    .in_engine = true,
};
