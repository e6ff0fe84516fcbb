/* rows.c - the tools of tool/ as rows of this door. */
#include "api/mcp/mcp.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "tool/tool.h"

struct mcp_tool *mcp_tool_rows(void)
{
    struct mcp_tool *tools = calloc(tool_count, sizeof(*tools));

    for (size_t i = 0; tools && i < tool_count; i++) {
        const struct tool_row *row = &tool_table[i];

        tools[i] = (struct mcp_tool){
            .name = row->name,
            .title = row->title,
            .description = row->description,
            .schema = row->schema,
            .needs_session = !str_equal(row->name, "run_python_code"),
            .is_core =
                str_equal(row->name, "sandbox_exec") || str_equal(row->name, "sandbox_write_file"),
            .is_read_only = row->is_read_only,
            .is_destructive = row->is_destructive,
            .is_idempotent = row->is_idempotent,
            .is_open_world = row->is_open_world,
        };
    }
    return tools;
}
