/* tool_command.c - `bailey tool NAME [JSON|-]`: a tool call from the command line. */
#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/client_request.h"
#include "cli/daemon_run.h"
#include "cli/engine.h"
#include "cli/message.h"
#include "cli/option_setters.h"
#include "cli/options.h"
#include "cli/paths.h"
#include "cli/request.h"
#include "cli/signals.h"
#include "runtime/provider.h"
#include "tool/tool.h"

static int unknown_tool(const char *name)
{
    CLEANUP(buf_free) struct buf known = BUF_INIT(KIB);
    const char *names[WORDS_LIST_MAX];
    const char *nearest;

    words_list(WORDS_TOOL, names);
    for (size_t i = 0; names[i]; i++)
        buf_printf(&known, "%s%s", i > 0 ? ", " : "", names[i]);
    nearest = name ? str_nearest(name, names) : NULL;
    if (!name)
        message_print("which tool? known are: %s", buf_text(&known));
    else if (nearest)
        message_print("unknown tool '%.60s'; did you mean '%s'? known are: %s", name, nearest,
                      buf_text(&known));
    else
        message_print("unknown tool '%.60s'; known are: %s", name, buf_text(&known));
    return STATUS_BAD_INPUT;
}

/* The parameters: an argument, or standard input. */
static int read_input(const struct invocation *invocation, struct buf *input, struct error *err)
{
    const char *argument =
        invocation->parsed.operand_count > 1 ? invocation->parsed.operands[1] : "-";
    int result;

    if (!str_equal(argument, "-"))
        result = buf_append_text(input, argument);
    else if (invocation->stdin_is_closed)
        return error_set(err, -EBADF, ERROR_BAD_INPUT,
                         "standard input is closed; give the parameters as an argument");
    else
        result = buf_read_fd(input, STDIN_FILENO);
    if (result == -EFBIG)
        return error_set(err, result, ERROR_TOO_LARGE, "the parameters are larger than %llu MB",
                         TOOL_INPUT_MAX / MIB);
    if (result < 0)
        return error_set(err, result, ERROR_ENGINE, "reading the parameters: %s",
                         strerror(-result));
    return 0;
}

static int list_tools(const struct config *config, bool is_json)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(MIB);
    json_t *tools = is_json ? json_array() : NULL;

    for (size_t i = 0; i < tool_count; i++) {
        const struct tool_row *row = &tool_table[i];

        if (!tool_is_offered(row, config))
            continue;
        if (is_json)
            json_array_append_new(tools, tool_row_json(row));
        else
            buf_printf(&text, "%-20s %-16s %s\n", row->name, row->category, row->title);
    }
    return is_json ? print_json(json_pack("{s:o}", "tools", tools)) : print_text(&text);
}

/* run_python_code always replies with a text, whatever is wrong; its caller may be a model. */
static int fail(const struct tool_row *tool, const struct error *err)
{
    CLEANUP(buf_free) struct buf reply = BUF_INIT(TOOL_REPLY_MAX);

    if (tool->id != TOOL_RUN_PYTHON_CODE || run_python_code_failed(err, &reply) < 0)
        return message_bad_input(err);
    return print_guest_text(&reply);
}

static int run_tool(const struct invocation *invocation)
{
    CLEANUP(buf_free) struct buf input = BUF_INIT(TOOL_INPUT_MAX);
    CLEANUP(buf_free) struct buf reply = BUF_INIT(TOOL_REPLY_MAX);
    CLEANUP(config_free) struct config config = {0};
    CLEANUP(paths_free) struct paths paths = {0};
    CLEANUP(fd_closep) int cancel_fd = -1;
    const struct tool_row *tool = tool_find(invocation->parsed.operands[0]);
    struct oneshot_elsewhere elsewhere = {.run = run_in_daemon};
    struct report_request request = {0};
    struct error err = {0};
    bool is_list = option_given(&invocation->parsed, "list", NULL);
    char engine[PATH_MAX] = "";
    int signal;

    if (!tool && !is_list)
        return unknown_tool(invocation->parsed.operands[0]);
    if (options_take(&invocation->parsed, &request, &err) < 0)
        return message_bad_input(&err);
    if (is_list) {
        if (request_config(&config, request.config_file, invocation->env, &err) < 0 ||
            config_check_values(&config, &err) < 0)
            return message_bad_input(&err);
        return list_tools(&config, option_given(&invocation->parsed, "json", NULL));
    }
    if (request_config(&config, request.config_file, invocation->env, &err) < 0 ||
        config_check(&config, &err) < 0 ||
        paths_choose(&paths, &config, invocation->env, NULL, NULL, &err) < 0 ||
        (config_can(&config, PROVIDER_HOSTED) && engine_program(engine, &err) < 0) ||
        read_input(invocation, &input, &err) < 0 || signals_open(&cancel_fd, &err) < 0)
        return fail(tool, &err);

    elsewhere.ctx = &paths;
    if (tool_call(tool, buf_text(&input), input.length,
                  &(struct tool_context){.config = &config,
                                         .cancel_fd = cancel_fd,
                                         .elsewhere = &elsewhere,
                                         .state = paths.state,
                                         .engine = engine,
                                         .warden = "/proc/self/exe"},
                  &reply) < 0) {
        message_print("out of memory writing the reply");
        return STATUS_BAD_INPUT;
    }
    signal = signals_taken(cancel_fd);
    if (signal) {
        message_print("interrupted");
        return 128 + signal;
    }
    return print_guest_text(&reply);
}

OPTION_SETS_TEXT(take_config, struct report_request, config_file)

/* Only bailey-engine looks at the other options. */
static int take_nothing(void *target, const char *value, struct error *err)
{
    (void)target;
    (void)value;
    (void)err;
    return 0;
}

static const struct option_row options[] = {
    {"session", 's', "NAME", WORDS_SESSION,
     "the session it works in (default: your session 'default')", .take = take_nothing},
    {"list", 0, NULL, WORDS_ANY, "list the tools", .take = take_nothing},
    {"json", 'j', NULL, WORDS_ANY, "with --list: print JSON", .take = take_nothing},
    {"config", 0, "FILE", WORDS_FILE, "read this bailey.yaml", .take = take_config},
};

/* One tool needs no session and no daemon; an unknown name is refused here. */
static bool hands_over(const struct parsed *parsed)
{
    const char *name = parsed->operands[0];

    if (option_given(parsed, "list", NULL) || (name && !tool_find(name)))
        return false;
    if (option_given(parsed, "session", NULL))
        return true;
    return name && !tool_find(name)->is_alone;
}

const struct command tool_command = {
    .name = "tool",
    .group = GROUP_RUN,
    .summary = "call a tool as an agent does",
    .usage = "[options] NAME [JSON|-] | --list",
    .description =
        "Calls a tool with JSON parameters, from the argument or from standard input, and prints "
        "its reply. The exit status is 0 when the tool replied, even if the reply reports "
        "an error in the code.\n\nrun_python_code runs in a fresh box. The other tools work in a "
        "session: "
        "the one named with -s or in the parameters, else your session 'default', which is made "
        "when it is needed. 'bailey run' runs code without a session.\n\nExample:\n  "
        "bailey tool run_python_code '{\"code\": \"print(1)\", \"timeout\": 5}'",
    .options = options,
    .option_count = ARRAY_SIZE(options),
    .operand = "NAME",
    .operands = WORDS_TOOL,
    .operand_max = 2,
    .hands_over = hands_over,
    .run = run_tool,
};
