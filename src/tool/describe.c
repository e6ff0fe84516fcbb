/* describe.c - a tool's row as JSON, for the doors that list tools. */
#include <jansson.h>

#include "tool/tool.h"

json_t *tool_row_json(const struct tool_row *row)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:{s:b, s:b, s:b, s:b}}", "name", row->name,
                     "title", row->title, "category", row->category, "description",
                     row->description, "parameters", json_loads(row->schema, 0, NULL),
                     "annotations", "readOnlyHint", row->is_read_only, "destructiveHint",
                     row->is_destructive, "idempotentHint", row->is_idempotent, "openWorldHint",
                     row->is_open_world);
}
