/*
 * strings.c - the strings in the ARGS frames before an EXEC or a CELL: arguments, variables and a
 * folder, as JSON; see remote_private.h.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "runtime/remote/remote_private.h"

const char *remote_strings_text(const char **at, size_t *left)
{
    const char *text = *at, *end = memchr(text, 0, *left);

    if (!end)
        return NULL;
    *left -= (size_t)(end - text) + 1;
    *at = end + 1;
    return text;
}

int remote_strings_variable(json_t *env, const char *text)
{
    const char *equals = strchr(text, '=');
    CLEANUP(freep) char *name = equals ? strndup(text, (size_t)(equals - text)) : NULL;

    if (!name)
        return equals ? -ENOMEM : 0;
    return json_object_set_new(env, name, json_string(equals + 1)) < 0 ? -EILSEQ : 0;
}

void remote_strings_free(struct remote_strings *strings)
{
    json_decref(strings->argv);
    json_decref(strings->env);
}

int remote_strings_read(struct remote_box *box, const struct message_exec *exec,
                        struct remote_strings *ret)
{
    const char *at = buf_text(&box->args);
    size_t left = box->args.length;
    int r = 0;

    ret->argv = json_array();
    ret->env = json_object();
    if (!ret->argv || !ret->env)
        return -ENOMEM;
    if (left != exec->args_length || exec->argc == 0)
        return -EPROTO;
    for (uint32_t i = 0; i < exec->argc + exec->envc; i++) {
        const char *text = remote_strings_text(&at, &left);

        if (!text)
            return -EPROTO;
        if (i >= exec->argc)
            r = r < 0 ? r : remote_strings_variable(ret->env, text);
        else if (json_array_append_new(ret->argv, json_string(text)) < 0)
            r = -EILSEQ;
    }
    ret->folder = remote_strings_text(&at, &left);
    return ret->folder && left == 0 ? r : -EPROTO;
}
