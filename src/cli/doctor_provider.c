/*
 * doctor_provider.c - what `bailey doctor` says about providers that are elsewhere. bailey-engine
 * asks them (it has the HTTP client) and answers with one JSON, {NAME of a row: report}. A report
 * is
 *
 *   {host: where it is, ok, problems [{problem, remedy}], lines [[title, text]], ...}
 *
 * with what else the provider's own doctor found; `lines` is what people are shown of that.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/doctor.h"
#include "cli/engine.h"
#include "runtime/provider.h"

static int start(const char *program, const char *config_file, char *const *env, pid_t *ret_pid)
{
    const char *argv[] = {"bailey", "doctor", config_file ? "--config" : NULL, config_file, NULL};
    CLEANUP(fd_closep) int in = -1;
    posix_spawn_file_actions_t actions;
    int pipes[2], r;

    if (pipe2(pipes, O_CLOEXEC) < 0)
        return -errno;
    in = pipes[1];
    posix_spawn_file_actions_init(&actions);
    r = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    r = r ? r : posix_spawn_file_actions_adddup2(&actions, in, 1);
    r = r ? r : posix_spawn(ret_pid, program, &actions, NULL, (char *const *)argv, env);
    posix_spawn_file_actions_destroy(&actions);
    if (r == 0)
        return pipes[0];
    close(pipes[0]);
    return -r;
}

/* Providers other than local that are configured, or that a user could mean. */
static bool is_asked(const struct provider_row *row, const struct config *config)
{
    if (!row->ops || !provider_can(row, PROVIDER_HOSTED) || provider_can(row, PROVIDER_STANDS_IN))
        return false;
    return row == config_provider(config) || (row->is_meant && row->is_meant(config));
}

static int ask(struct doctor *doctor, const char *config_file, char *const *env, struct error *err)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(MIB);
    CLEANUP(fd_closep) int fd = -1;
    char program[PATH_MAX];
    pid_t pid = 0;
    int status, r = engine_program(program, err);

    if (r < 0)
        return r;
    fd = start(program, config_file, env, &pid);
    if (fd < 0)
        return error_set(err, fd, ERROR_ENGINE, "starting bailey-engine: %s", strerror(-fd));
    buf_read_fd(&text, fd);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    doctor->providers = json_loadb(buf_text(&text), text.length, 0, NULL);
    if (json_is_object(doctor->providers))
        return 0;
    return error_set(err, -EPROTO, ERROR_ENGINE, "bailey-engine could not ask the provider");
}

void doctor_ask_providers(struct doctor *doctor, const struct config *config,
                          const char *config_file, char *const *env)
{
    const struct provider_row *row;
    struct error err = {0};
    bool is_any = false;

    doctor->provider = config_provider(config);
    for (size_t i = 0; (row = provider_at(i)); i++)
        is_any = is_any || is_asked(row, config);
    if (!is_any || ask(doctor, config_file, env, &err) == 0)
        return;
    row = doctor->provider;
    json_decref(doctor->providers);
    doctor->providers = is_asked(row, config) && row->place
                            ? json_pack("{s:{s:s, s:b, s:[{s:s, s:s}]}}", row->name, "host",
                                        row->place(config), "ok", 0, "problems", "problem",
                                        err.text, "remedy", "install bailey-engine beside bailey")
                            : NULL;
}

bool doctor_provider_is_fine(const struct doctor *doctor)
{
    const json_t *report = json_object_get(doctor->providers, doctor->provider->name);

    return json_is_true(json_object_get(report, "ok"));
}

/* ---- printed ---- */

static const char *word(const json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));

    return text && text[0] ? text : "-";
}

static int report_text(const struct doctor *doctor, const struct provider_row *row,
                       const json_t *report, bool is_utf8, struct buf *to)
{
    bool is_other = row != doctor->provider;
    int failed = buf_printf(to, "\n%s (%s%s%s%s)\n", row->title, word(report, "host"),
                            is_other ? "; SANDBOX_TYPE=" : "", is_other ? row->name : "",
                            is_other ? " would use it" : "");
    json_t *line, *problem;
    size_t i;

    json_array_foreach(json_object_get(report, "lines"), i, line)
    {
        const char *title = json_string_value(json_array_get(line, 0));
        const char *text = json_string_value(json_array_get(line, 1));

        failed |= buf_printf(to, "  %-14s %s\n", title ? title : "", text ? text : "");
    }
    json_array_foreach(json_object_get(report, "problems"), i, problem)
    {
        failed |= buf_printf(to, "  %s %s\n      remedy: %s\n", is_utf8 ? "✗" : "-",
                             word(problem, "problem"), word(problem, "remedy"));
    }
    return failed;
}

int doctor_providers_text(const struct doctor *doctor, bool is_utf8, struct buf *to)
{
    const struct provider_row *row;
    int failed = 0;

    for (size_t i = 0; (row = provider_at(i)); i++) {
        const json_t *report = json_object_get(doctor->providers, row->name);

        if (report)
            failed |= report_text(doctor, row, report, is_utf8, to);
    }
    return failed;
}

/* A member for each, null where it was not asked. */
void doctor_providers_json(const struct doctor *doctor, json_t *to)
{
    const struct provider_row *row;

    for (size_t i = 0; (row = provider_at(i)); i++) {
        json_t *report = json_object_get(doctor->providers, row->name);

        if (!row->ops || !provider_can(row, PROVIDER_HOSTED) ||
            provider_can(row, PROVIDER_STANDS_IN))
            continue;
        report = report ? json_copy(report) : json_null();
        json_object_del(report, "lines");
        json_object_set_new(to, row->name, report);
    }
}
