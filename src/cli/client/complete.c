/*
 * complete.c - `bailey complete sessions|templates`: names for the completion of shells.
 *
 * Not in the help: the scripts of `bailey completion` call it while a line is typed. It never
 * starts a daemon, and has nothing to say when there is none.
 */
#include <ctype.h>
#include <jansson.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/client.h"
#include "cli/client/commands.h"
#include "cli/message.h"
#include "cli/options.h"

static const struct kind_row {
    const char *kind, *path, *list;
} kinds[] = {
    {"sessions", "/v1/sessions", "sessions"},
    {"templates", "/v1/templates", "templates"},
};

/* Shells expand what they complete: only what needs no quoting is offered. */
static bool is_plain(const char *name)
{
    for (const char *at = name; *at; at++)
        if (!isalnum((unsigned char)*at) && *at != '_' && *at != '-' && *at != '.')
            return false;
    return name[0] && name[0] != '-';
}

int complete_run(const struct invocation *invocation)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(MIB);
    CLEANUP(client_close) struct client client = {0};
    CLEANUP(json_freep) json_t *reply = NULL;
    const struct kind_row *row = NULL;
    struct error ignored = {0};
    json_t *item;
    size_t i;

    for (i = 0; i < ARRAY_SIZE(kinds); i++)
        if (str_equal(kinds[i].kind, invocation->parsed.operands[0]))
            row = &kinds[i];
    if (!row || client_open(&client, NULL, invocation->env, CLIENT_LOOKS, &ignored) < 0 ||
        client_call(&client, "GET", row->path, NULL, &reply, &ignored) < 0)
        return row ? 0 : STATUS_BAD_INPUT;
    json_array_foreach(json_object_get(reply, row->list), i, item)
    {
        const char *name = member_text(item, "name");

        name = name[0] ? name : member_text(item, "id");
        if (is_plain(name))
            (void)buf_printf(&text, "%s\n", name); /* a list that is too long ends early */
    }
    return print_text(&text);
}
