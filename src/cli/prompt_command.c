/* prompt_command.c - `bailey prompt`: the system prompt that teaches a model the tools. */
#include "base/cleanup.h"
#include "base/str.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/paths.h"
#include "cli/request.h"
#include "oneshot/built.h"
#include "runtime/provider.h"
#include "template/template.h"
#include "tool/prompt.h"

/* Whether code gets the packages of the template "data", named or chosen by "auto". */
static bool template_has_data(const struct config *config, const char *state)
{
    CLEANUP(built_free) struct built_template built = {0};
    struct error ignored = {0};
    bool is_data =
        str_equal(config->template_name, "data") || str_equal(config->template_name, TEMPLATE_AUTO);

    if (!config_can(config, PROVIDER_CAN_LAYERS)) /* what is built here is not in its boxes */
        return str_equal(config->template_name, TEMPLATE_DATA);
    return is_data && built_find(config, state, &built, &ignored) == 0 && built.layer;
}

static int run_prompt(const struct invocation *invocation)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(PROMPT_MAX);
    CLEANUP(config_free) struct config config = {0};
    CLEANUP(paths_free) struct paths paths = {0};
    struct report_request request = {0};
    struct error err = {0};
    bool has_data = false;

    if (options_take(&invocation->parsed, &request, &err) < 0 ||
        request_config(&config, request.config_file, invocation->env, &err) < 0 ||
        config_check(&config, &err) < 0)
        return message_bad_input(&err);
    if (paths_choose(&paths, &config, invocation->env, NULL, NULL, &err) == 0)
        has_data = template_has_data(&config, paths.state);
    if (prompt_write(&(struct prompt_spec){.config = &config, .has_data = has_data}, &text) < 0) {
        message_print("out of memory printing the prompt");
        return STATUS_BAD_INPUT;
    }
    return print_text(&text);
}

const struct command prompt_command = {
    .name = "prompt",
    .group = GROUP_AGENTS,
    .summary = "print the system prompt that teaches a model the tools",
    .usage = "[--config FILE]",
    .description = "Prints a system prompt for a language model: the tools, how to work with them, "
                   "the folders of data and outputs, and the limits of this configuration.",
    .options = report_options + 1,
    .option_count = REPORT_OPTION_COUNT - 1,
    .run = run_prompt,
};
