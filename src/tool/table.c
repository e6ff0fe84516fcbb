/*
 * table.c - the table of tools: name, parameters, and what a client may assume.
 *
 * Only data: the static program, the broker, the MCP door and the documents read the same rows.
 * Schemas use the keywords that schema.c supports. "contentMediaType" marks text that may contain a
 * NUL.
 */
#include <jansson.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "tool/tool.h"

#define SESSION                                                                              \
    "\"session\":{\"type\":\"string\",\"minLength\":1,\"description\":\"id or name of the "  \
    "session; a new name creates a session; without it a session is chosen or created, and " \
    "the reply names it\"}"

#define FILE_PATH                                                                               \
    "\"file_path\":{\"type\":\"string\",\"minLength\":1,\"description\":\"absolute path below " \
    "/tmp/ or /workspace/\"}"

/* Every tool takes it beside its own parameters. */
#define TRACE                                                                       \
    "\"reasoning_trace\":{\"type\":\"string\",\"contentMediaType\":\"text/plain\"," \
    "\"description\":\"why you make this call, for the audit log\"}"

#define OBJECT(members, required)                                                              \
    "{\"type\":\"object\",\"properties\":{" members "," TRACE "},\"required\":[" required "]," \
    "\"additionalProperties\":false}"

#define RUN_TIMEOUT                                                              \
    "\"timeout\":{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":86400," \
    "\"description\":\"timeout in seconds (default: SANDBOX_TIMEOUT_SEC)\"}"

const struct tool_row tool_table[] = {
    {
        .id = TOOL_SANDBOX_EXEC,
        .name = "sandbox_exec",
        .title = "Run a command",
        .category = "code_execution",
        .description =
            "Runs a command in the session's sandbox (no network) and returns the exit code, "
            "stdout and stderr (long output is cut; sandbox_wait reads on). Datasets are in "
            "/tmp/data/; "
            "files that the command writes to /tmp/output/ are fetched. Files are kept between "
            "calls, "
            "variables are not; a background process runs until the session ends.",
        .schema = OBJECT(
            "\"command\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"minItems\":1,"
            "\"maxItems\":4096,\"description\":\"program and arguments, one string each, such as "
            "[\\\"python\\\",\\\"/tmp/script.py\\\"]; no shell is involved\"},"
            "\"timeout\":{\"type\":\"number\",\"minimum\":1,\"maximum\":300,\"default\":60,"
            "\"description\":\"seconds it may run\"},"
            "\"background\":{\"type\":\"boolean\",\"default\":false,\"description\":\"answer at "
            "once with an execution_id for sandbox_wait\"}," SESSION,
            "\"command\""),
        .default_timeout_s = 60,
        .needs_session = true,
        .is_core = true,
        .is_found_again = true,
        .mcp_timeout_s = 50,
    },
    {
        .id = TOOL_SANDBOX_WRITE_FILE,
        .name = "sandbox_write_file",
        .title = "Write a file",
        .category = "file_management",
        .description =
            "Writes a text file into the session's sandbox atomically; parent folders are created, "
            "an existing file is replaced. Only below /tmp/ or /workspace/, at most 5 MB.",
        .schema = OBJECT(FILE_PATH ",\"content\":{\"type\":\"string\",\"contentMediaType\":"
                                   "\"text/plain\",\"description\":\"the whole text of the "
                                   "file\"}," SESSION,
                         "\"file_path\",\"content\""),
        .is_destructive = true,
        .is_idempotent = true,
        .needs_session = true,
        .is_core = true,
    },
    {
        .id = TOOL_SANDBOX_EDIT_FILE,
        .name = "sandbox_edit_file",
        .title = "Edit a file",
        .category = "file_management",
        .description = "Replaces exactly one occurrence of old_string by new_string in a file of "
                       "the session's sandbox. Fails if old_string is not found or not unique: "
                       "then include more of the surrounding text.",
        .schema = OBJECT(FILE_PATH
                         ",\"old_string\":{\"type\":\"string\",\"contentMediaType\":\"text/"
                         "plain\",\"description\":\"the text to replace, exactly as it is in the "
                         "file\"},\"new_string\":{\"type\":\"string\",\"contentMediaType\":\"text/"
                         "plain\",\"description\":\"the replacement; may be empty\"}," SESSION,
                         "\"file_path\",\"old_string\",\"new_string\""),
        .is_destructive = true,
        .needs_session = true,
    },
    {
        .id = TOOL_SANDBOX_WAIT,
        .name = "sandbox_wait",
        .title = "Wait for a command",
        .category = "code_execution",
        .description =
            "Waits for a command that sandbox_exec started in the background. Returns the reply of "
            "sandbox_exec if it has ended, else running:true with the output so far. Also reads on "
            "in output that was cut, of commands and of run_code: from a byte offset.",
        .schema = OBJECT(
            "\"execution_id\":{\"type\":\"string\",\"minLength\":1,\"description\":\"from "
            "sandbox_exec's reply\"},"
            "\"timeout\":{\"type\":\"number\",\"minimum\":0,\"maximum\":300,\"default\":45,"
            "\"description\":\"seconds to wait\"},"
            "\"offset\":{\"type\":\"integer\",\"minimum\":0,\"description\":\"show the "
            "output from this byte on\"},\"stream\":{\"type\":\"string\",\"enum\":["
            "\"stdout\",\"stderr\"],\"default\":\"stdout\",\"description\":\"the stream that "
            "offset is for\"}," SESSION,
            "\"execution_id\""),
        .is_read_only = true,
        .is_idempotent = true,
        .default_timeout_s = 45,
        .needs_session = true,
    },
    {
        .id = TOOL_RUN_PYTHON_CODE,
        .name = "run_python_code",
        .title = "Run Python code",
        .category = "code_execution",
        .description = "Runs Python code in a fresh sandbox without network and returns what it "
                       "printed, or the error. Nothing is kept between calls.",
        .schema = OBJECT("\"code\":{\"type\":\"string\",\"description\":\"Python source; print "
                         "what you want to see\"}," RUN_TIMEOUT,
                         "\"code\""),
        .is_alone = true,
    },
    {
        .id = TOOL_RUN_CODE,
        .name = "run_code",
        .title = "Run code",
        .category = "code_execution",
        .description =
            "Runs source code. With a session: in its sandbox, where files and variables are kept "
            "between calls; the value of the last expression, pictures and tables are in "
            "'results'. Without one: in a fresh sandbox, where nothing is kept.",
        .own_description =
            "Runs source code in this conversation's sandbox. Variables and files are kept between "
            "calls; the reply says when the interpreter had to be replaced. It shows what was "
            "printed, the value of the last expression, and pictures.",
        .schema =
            OBJECT("\"code\":{\"type\":\"string\",\"description\":\"source; print what you want to "
                   "see\"},\"language\":{\"type\":\"string\",\"enum\":[\"python\",\"javascript\","
                   "\"bash\"],\"default\":\"python\",\"description\":\"language of the "
                   "code\"},\"context\":{\"type\":\"string\",\"minLength\":1,\"description\":\"id "
                   "or name of a context of the session, which has its own variables (default: the "
                   "language's default context)\"}," RUN_TIMEOUT "," SESSION,
                   "\"code\""),
        .needs_session = true,
    },
    {
        .id = TOOL_SANDBOX_PAUSE,
        .name = "sandbox_pause",
        .title = "Pause or resume",
        .category = "code_execution",
        .description =
            "Stops everything in the session's sandbox where it is: nothing is lost, and it uses "
            "no CPU time. With resume:true the same processes go on.",
        .schema = OBJECT(
            "\"resume\":{\"type\":\"boolean\",\"default\":false,\"description\":\"go on\"},"
            "\"session\":{\"type\":\"string\",\"minLength\":1,\"description\":\"id or name of "
            "the session\"}",
            ""),
        .is_idempotent = true,
        .needs_session = true,
    },
    {
        .id = TOOL_SANDBOX_INSTALL,
        .name = "sandbox_install",
        .title = "Install Python packages",
        .category = "code_execution",
        .description =
            "Installs Python packages from the package index, with their dependencies, into the "
            "session's sandbox, which has no network itself. They stay until the session ends; "
            "interpreters that are running find them at once.",
        .schema = OBJECT(
            "\"packages\":{\"type\":\"array\",\"items\":{\"type\":\"string\",\"minLength\":1},"
            "\"minItems\":1,\"maxItems\":64,\"description\":\"names as on the index, with "
            "versions where they matter, such as "
            "[\\\"requests\\\",\\\"numpy>=2,<3\\\"]\"}," SESSION,
            "\"packages\""),
        .is_idempotent = true,
        .is_open_world = true,
        .needs_session = true,
        .needs_install = true,
    },
};
const size_t tool_count = ARRAY_SIZE(tool_table);

const struct tool_row *tool_find(const char *name)
{
    for (size_t i = 0; i < tool_count; i++)
        if (str_equal(tool_table[i].name, name))
            return &tool_table[i];
    return NULL;
}

const struct tool_row *tool_of(enum tool_id id)
{
    for (size_t i = 0; i < tool_count; i++)
        if (tool_table[i].id == id)
            return &tool_table[i];
    return NULL;
}

bool tool_is_offered(const struct tool_row *row, const struct config *config)
{
    return !row->needs_install || !config_no_install(config);
}

const char *tool_nearest(const char *name)
{
    const char *names[TOOL_MAX + 1] = {0};

    _Static_assert(ARRAY_SIZE(tool_table) <= TOOL_MAX, "names[] holds every tool");
    for (size_t i = 0; i < tool_count; i++)
        names[i] = tool_table[i].name;
    return str_nearest(name, names);
}

json_t *tool_row_json(const struct tool_row *row)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:{s:b, s:b, s:b, s:b}}", "name", row->name,
                     "title", row->title, "category", row->category, "description",
                     row->description, "parameters", json_loads(row->schema, 0, NULL),
                     "annotations", "readOnlyHint", row->is_read_only, "destructiveHint",
                     row->is_destructive, "idempotentHint", row->is_idempotent, "openWorldHint",
                     row->is_open_world);
}
