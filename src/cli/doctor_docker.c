/*
 * doctor_docker.c - what `bailey doctor` says about Docker. bailey-engine asks (it has the HTTP
 * client) and answers with one JSON: client/doctor_docker.c.
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

#define UNIX "unix://"

/* With another runtime it is told only where somebody could mean it: a socket that is there. */
static bool is_meant(const struct config *config)
{
    const char *host = config->docker.host;

    if (config_is_docker(config))
        return true;
    return str_starts(host, UNIX) ? access(host + strlen(UNIX), F_OK) == 0
                                  : config->values[KEY_DOCKER_HOST].source != FROM_DEFAULT;
}

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

void doctor_ask_docker(struct doctor *doctor, const struct config *config, const char *config_file,
                       char *const *env)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(MIB);
    CLEANUP(fd_closep) int fd = -1;
    char program[PATH_MAX];
    struct error err = {0};
    pid_t pid = 0;
    int status;

    doctor->is_docker = config_is_docker(config);
    if (!is_meant(config))
        return;
    if (engine_program(program, &err) == 0) {
        fd = start(program, config_file, env, &pid);
        if (fd < 0)
            error_set(&err, fd, ERROR_ENGINE, "starting bailey-engine: %s", strerror(-fd));
    }
    if (fd >= 0) {
        buf_read_fd(&text, fd);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        doctor->docker = json_loadb(buf_text(&text), text.length, 0, NULL);
        if (!json_is_object(doctor->docker))
            error_set(&err, -EPROTO, ERROR_ENGINE, "bailey-engine could not ask Docker");
    }
    if (err.code && doctor->is_docker) {
        json_decref(doctor->docker);
        doctor->docker = json_pack("{s:s, s:b, s:[{s:s, s:s}]}", "host", config->docker.host, "ok",
                                   0, "problems", "problem", err.text, "remedy",
                                   "install bailey-engine beside bailey");
    }
}

bool doctor_docker_is_fine(const struct doctor *doctor)
{
    return json_is_true(json_object_get(doctor->docker, "ok"));
}

/* ---- printed ---- */

static const char *word(const json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));

    return text && text[0] ? text : "-";
}

static int add_words(struct buf *to, const char *title, const json_t *list)
{
    json_t *item;
    size_t i;
    int failed = buf_printf(to, "  %-14s ", title);

    json_array_foreach(list, i, item)
    {
        const char *text = json_string_value(item);

        failed |= buf_printf(to, "%s%s", i ? ", " : "", text ? text : "?");
    }
    return failed | buf_append_text(to, i ? "\n" : "none\n");
}

static int daemon_lines(const json_t *docker, struct buf *to)
{
    const json_t *image = json_object_get(docker, "image");
    int failed = 0;

    failed |= buf_printf(to, "  %-14s %s, API %s, %s/%s%s\n", "version", word(docker, "version"),
                         word(docker, "api"), word(docker, "os"), word(docker, "arch"),
                         json_is_true(json_object_get(docker, "rootless")) ? ", rootless" : "");
    failed |= buf_printf(to, "  %-14s %s\n", "storage", word(docker, "storage"));
    failed |= buf_printf(to, "  %-14s %s\n", "cgroup", word(docker, "cgroup"));
    failed |= buf_printf(to, "  %-14s %s\n", "runtime", word(docker, "runtime"));
    failed |= add_words(to, "runtimes", json_object_get(docker, "runtimes"));
    failed |= add_words(to, "security", json_object_get(docker, "security"));
    if (image) {
        const char *template = json_string_value(json_object_get(image, "template"));

        failed |= buf_printf(to, "  %-14s %s, %lld MB%s%s\n", "image", word(image, "name"),
                             (long long)(json_integer_value(json_object_get(image, "bytes")) >> 20),
                             template ? ", with the template " : "", template ? template : "");
    }
    return failed;
}

int doctor_docker_text(const struct doctor *doctor, bool is_utf8, struct buf *to)
{
    const json_t *docker = doctor->docker, *problem;
    size_t i;
    int failed = 0;

    if (!docker)
        return 0;
    failed |= buf_printf(to, "\nDocker (%s%s)\n", word(docker, "host"),
                         doctor->is_docker ? "" : "; SANDBOX_TYPE=docker would use it");
    if (json_object_get(docker, "version"))
        failed |= daemon_lines(docker, to);
    json_array_foreach(json_object_get(docker, "problems"), i, problem)
    {
        failed |= buf_printf(to, "  %s %s\n      remedy: %s\n", is_utf8 ? "✗" : "-",
                             word(problem, "problem"), word(problem, "remedy"));
    }
    return failed;
}
