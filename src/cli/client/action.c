/* action.c - finds the action of a command; see action.h. */
#include "cli/client/action.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/message.h"

static void job_free(struct action_job *job)
{
    client_close(&job->client);
    client_request_free(&job->request);
    free(job->operands);
}

static int show_usage(const struct command *command, const char *usage, struct error *err)
{
    return error_set(err, -EINVAL, ERROR_BAD_INPUT, "usage: bailey %s %s", command->name,
                     usage ? usage : command->usage);
}

/* What the actions are called elsewhere. */
static const struct {
    const char *alias, *name;
} aliases[] = {{"list", "ls"}, {"create", "new"}, {"delete", "rm"}};

static const char *plain_name(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(aliases); i++)
        if (str_equal(name, aliases[i].alias))
            return aliases[i].name;
    return name;
}

/* The other names of those in the list, behind it. */
static void add_aliases(const char *names[WORDS_LIST_MAX + ARRAY_SIZE(aliases)])
{
    size_t count = 0, end;

    while (names[count])
        count++;
    end = count;
    for (size_t i = 0; i < ARRAY_SIZE(aliases); i++)
        for (size_t j = 0; j < count; j++)
            if (str_equal(names[j], aliases[i].name))
                names[end++] = aliases[i].alias;
    names[end] = NULL;
}

int action_unknown(const struct command *command, const char *name, struct error *err)
{
    const char *names[WORDS_LIST_MAX + ARRAY_SIZE(aliases)];
    const char *nearest;

    words_list(command->operands, names);
    add_aliases(names);
    nearest = name ? str_nearest(name, names) : NULL;
    if (nearest)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "unknown action '%.60s'; did you mean 'bailey %s %s'?", name,
                         command->name, nearest);
    if (name && name[0])
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "unknown action '%.60s'; usage: bailey %s %s", name, command->name,
                         command->usage);
    return show_usage(command, NULL, err);
}

static const struct action *find(const struct command *command, const char *name,
                                 const struct action *rows, size_t count, struct error *err)
{
    const char *plain = plain_name(name);

    for (size_t i = 0; i < count; i++)
        if (str_equal(rows[i].name, plain))
            return &rows[i];
    action_unknown(command, name, err);
    return NULL;
}

static bool has_word(const char *words, const char *word)
{
    size_t length = strlen(word);

    for (const char *at = words; (at = strstr(at, word)); at += length)
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
            return true;
    return false;
}

static int check(const struct action *action, const struct action_job *job, struct error *err)
{
    const struct command *command = job->invocation->command;
    const struct parsed *parsed = &job->invocation->parsed;

    for (size_t i = 0; action->options && i < parsed->use_count; i++) {
        const char *name = parsed->uses[i].row->name;

        if (!has_word(action->options, name) &&
            !has_word("json config url key key-file ca-file", name))
            return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                             "--%s is not for '%s %s'; usage: bailey %s %s", name, command->name,
                             action->name, command->name,
                             action->usage ? action->usage : command->usage);
    }
    if (job->operand_count < action->operands_min || job->operand_count > action->operands_max)
        return show_usage(command, action->usage, err);
    return 0;
}

/* The words after the action, behind the session of -s if the action is about one. */
static int take_operands(const struct action *action, struct action_job *job, struct error *err)
{
    const struct parsed *parsed = &job->invocation->parsed;

    job->operands = calloc(parsed->operand_count + 1, sizeof(*job->operands));
    if (!job->operands)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory reading the arguments");
    if (job->request.session && action->operands_max > 0 && action->options &&
        has_word(action->options, "session"))
        job->operands[job->operand_count++] = job->request.session;
    for (size_t i = 1; i < parsed->operand_count; i++)
        job->operands[job->operand_count++] = parsed->operands[i];
    return 0;
}

int action_run(const struct invocation *invocation, const struct action *rows, size_t count)
{
    CLEANUP(job_free) struct action_job job = {.invocation = invocation};
    const struct parsed *parsed = &invocation->parsed;
    const struct action *action;
    struct error err = {0};

    if (client_request_load(invocation, &job.request, &err) < 0)
        return client_fail(job.request.is_json, &err);
    action = find(invocation->command, parsed->operand_count > 0 ? parsed->operands[0] : NULL, rows,
                  count, &err);
    if (!action)
        return client_fail(job.request.is_json, &err);
    job.action = action;
    if (take_operands(action, &job, &err) < 0 || check(action, &job, &err) < 0)
        return client_fail(job.request.is_json, &err);
    return action->run(&job);
}

int action_open(struct action_job *job, struct error *err)
{
    int r = client_open(&job->client, job->request.config_file, job->invocation->env, CLIENT_STARTS,
                        err);

    return r == 0 && job->action->brings_settings
               ? client_bring_settings(&job->client, job->invocation, err)
               : r;
}

int action_list(struct action_job *job, const char *path, const char *member, const char *name,
                int (*table)(json_t *list))
{
    CLEANUP(buf_free) struct buf names = BUF_INIT(MIB);
    CLEANUP(json_freep) json_t *reply = NULL;
    json_t *list, *item;
    struct error err = {0};
    size_t i;

    if (action_open(job, &err) < 0 ||
        client_call(&job->client, "GET", path, NULL, &reply, &err) < 0)
        return client_fail(job->request.is_json, &err);
    if (job->request.is_json)
        return print_json(json_incref(reply));
    list = json_object_get(reply, member);
    if (!job->request.is_quiet)
        return table(list);
    json_array_foreach(list, i, item)
    {
        buf_printf(&names, "%s\n", member_text(item, name));
    }
    return print_text(&names);
}
