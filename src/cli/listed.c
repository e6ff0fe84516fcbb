/* listed.c - SANDBOX_INTERPRETERS as programs and folders; see listed.h. */
#include "cli/listed.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "config/config.h"
#include "model/text.h"

/* By the name of the program: "node", "nodejs", "node22"; everything else is a Python. */
static const struct language_row *language_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return language_find(str_starts(slash ? slash + 1 : path, "node") ? "javascript" : "python");
}

static int find(const struct config *config, const char *path, struct interpreter *ret,
                struct error *err)
{
    struct config with = *config; /* its strings stay the caller's */
    struct error why = {0};

    with.python = path;
    with.node = path;
    if (interpreter_find(language_of(path), &with, ret, &why) < 0)
        return error_set(err, why.num, ERROR_BAD_CONFIG, "SANDBOX_INTERPRETERS: %s", why.text);
    return 0;
}

bool listed_add(struct listed *listed, const char *named, struct interpreter *found)
{
    size_t at = listed->count;

    if (at < LISTED_MAX)
        listed->named[at] = strdup(named);
    if (at == LISTED_MAX || !listed->named[at]) {
        interpreter_free(found);
        return false;
    }
    listed->found[at] = *found;
    *found = (struct interpreter){0};
    listed->spec[at] =
        (struct supervisor_interpreter){.program = listed->found[at].path,
                                        .folders = (const char *const *)listed->found[at].binds,
                                        .folder_count = listed->found[at].bind_count};
    listed->count++;
    return true;
}

int listed_find(const struct config *config, struct listed *ret, struct error *err)
{
    int r = 0;

    for (char **path = config->interpreters; path && *path && r == 0; path++) {
        struct interpreter found = {0};

        r = find(config, *path, &found, err);
        if (r == 0 && !listed_add(ret, *path, &found))
            r = error_set(err, -E2BIG, ERROR_BAD_CONFIG,
                          "SANDBOX_INTERPRETERS: more than %d interpreters", LISTED_MAX);
    }
    return r;
}

static json_t *path_json(const char *path)
{
    return text_to_json(path, strlen(path));
}

json_t *listed_json(const struct listed *listed)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < listed->count; i++)
        json_array_append_new(list, json_pack("{s:o*, s:o*}", "named", path_json(listed->named[i]),
                                              "program", path_json(listed->found[i].path)));
    return list;
}

void listed_free(struct listed *listed)
{
    for (size_t i = 0; i < listed->count; i++) {
        interpreter_free(&listed->found[i]);
        free(listed->named[i]);
    }
    *listed = (struct listed){0};
}
