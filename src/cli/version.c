/* version.c - `bailey version`. */
#include "cli/version.h"

#include <jansson.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/request.h"
#include "wire/frame.h"

static int run_version(const struct invocation *invocation)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(KIB);
    struct report_request request = {0};
    struct error err = {0};

    if (options_take(&invocation->parsed, &request, &err) < 0)
        return message_bad_input(&err);
    if (request.is_json)
        return print_json(
            json_pack("{s:s, s:i}", "version", BAILEY_VERSION, "wire_version", WIRE_VERSION));
    if (buf_printf(&text, "bailey %s (wire %d)\n", BAILEY_VERSION, WIRE_VERSION) < 0) {
        message_print("out of memory");
        return STATUS_BAD_INPUT;
    }
    return print_text(&text);
}

const struct command version_command = {
    .name = "version",
    .group = GROUP_SELF,
    .summary = "show the version",
    .usage = "[--json]",
    .description = "Shows the version of bailey and of the protocol between broker and warden.",
    .options = report_options,
    .option_count = 1,
    .run = run_version,
    .reach = REACH_NONE,
};
