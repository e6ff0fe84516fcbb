/*
 * doctor.c - what `bailey doctor` finds out about Docker. A report in the format of
 * cli/doctor_provider.c, with its own members:
 *
 *   {host, ok, version, api, os, arch, storage, runtimes [], runtime, cgroup, security [],
 * rootless, image {name, id, template, bytes}, problems [{problem, remedy}], lines [[title, text]]}
 */
#include "runtime/docker/doctor.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "config/config.h"
#include "runtime/docker/client.h"
#include "runtime/docker/remedy.h"

#define API_WANTED 1041 /* 1.41, of Docker 20.10 */

static const char *member_text(const json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));

    return text ? text : "";
}

static void add_problem(json_t *report, const char *problem, const char *remedy)
{
    json_array_append_new(json_object_get(report, "problems"),
                          json_pack("{s:s, s:s}", "problem", problem, "remedy", remedy));
}

/* ---- the daemon ---- */

static void note_unreachable(json_t *report, const struct error *err)
{
    bool is_forbidden = err->num == -EACCES || err->num == -EPERM;
    const char *remedy = docker_tls_remedy(err->num);

    if (!remedy && is_forbidden)
        remedy = "sudo usermod -aG docker $USER, then log in again (members of the group can "
                 "become root), or Docker rootless with DOCKER_HOST";
    else if (!remedy)
        remedy = "sudo systemctl start docker (apt-get install docker.io), or set DOCKER_HOST, or "
                 "SANDBOX_TYPE=local";
    add_problem(report, err->text, remedy);
}

static void note_version(json_t *report, json_t *version)
{
    const char *api = member_text(version, "ApiVersion");
    unsigned major = 0, minor = 0;
    char problem[160];

    json_object_set_new(report, "version", json_string(member_text(version, "Version")));
    json_object_set_new(report, "api", json_string(api));
    json_object_set_new(report, "os", json_string(member_text(version, "Os")));
    json_object_set_new(report, "arch", json_string(member_text(version, "Arch")));
    if (sscanf(api, "%3u.%3u", &major, &minor) == 2 && major * 1000 + minor >= API_WANTED)
        return;
    str_format(problem, sizeof(problem), "its API is %.20s, and 1.41 is needed", api);
    add_problem(report, problem, "upgrade Docker to 20.10 or newer");
}

/* "name=seccomp,profile=default" is seccomp. */
static json_t *security_names(json_t *options)
{
    json_t *names = json_array(), *option;
    size_t i;

    json_array_foreach(options, i, option)
    {
        const char *text = json_string_value(option);

        if (!text)
            continue;
        if (str_starts(text, "name="))
            text += strlen("name=");
        json_array_append_new(names, json_stringn(text, strcspn(text, ",")));
    }
    return names;
}

static bool has_name(json_t *names, const char *name)
{
    json_t *item;
    size_t i;

    json_array_foreach(names, i, item)
    {
        if (str_equal(json_string_value(item), name))
            return true;
    }
    return false;
}

static void note_info(json_t *report, json_t *info, const struct config *config)
{
    json_t *security = security_names(json_object_get(info, "SecurityOptions"));
    json_t *runtimes = json_object_get(info, "Runtimes"), *list = json_array(), *ignored;
    const char *name, *wanted = config->docker.runtime;
    char problem[256];

    json_object_foreach(runtimes, name, ignored)
    {
        json_array_append_new(list, json_string(name));
    }
    json_object_set_new(report, "storage", json_string(member_text(info, "Driver")));
    json_object_set_new(report, "runtime",
                        json_string(wanted ? wanted : member_text(info, "DefaultRuntime")));
    json_object_set_new(report, "runtimes", list);
    str_format(problem, sizeof(problem), "%.40s, version %.10s", member_text(info, "CgroupDriver"),
               member_text(info, "CgroupVersion"));
    json_object_set_new(report, "cgroup", json_string(problem));
    json_object_set_new(report, "rootless", json_boolean(has_name(security, "rootless")));
    json_object_set_new(report, "security", security);
    if (wanted && json_is_object(runtimes) && !json_object_get(runtimes, wanted)) {
        str_format(problem, sizeof(problem), "it has no runtime '%.60s'", wanted);
        add_problem(report, problem,
                    "register it in /etc/docker/daemon.json, or unset DOCKER_RUNTIME");
    }
    if (!has_name(security, "seccomp"))
        add_problem(report, "it has no seccomp: containers would have no filter of Docker's",
                    "use a Docker with seccomp support; boxes have bailey's own filter");
    if (!json_is_true(json_object_get(info, "MemoryLimit")) ||
        !json_is_true(json_object_get(info, "PidsLimit")))
        add_problem(report, "it cannot limit memory or the number of processes",
                    "control groups with these controllers; for Docker rootless: delegate them to "
                    "the user");
}

static void note_image(json_t *report, struct docker_client *docker, const struct config *config)
{
    const char *name = config->docker.image;
    char path[2 * DOCKER_NAME_MAX];
    CLEANUP(json_decrefp) json_t *image = NULL;
    struct error err = {0};
    json_t *labels;
    const char *template;

    if (!docker_client_is_name(name)) {
        add_problem(report, "DOCKER_IMAGE is not the name of an image", "bailey image ls");
        return;
    }
    str_format(path, sizeof(path), "/images/%s/json", name);
    if (docker_client_call(docker, "GET", path, &image, &err) < 0) {
        str_format(path, sizeof(path), "it does not have the image %s", name);
        add_problem(report, err.num == -ENOENT ? path : err.text,
                    "bailey image build, or set DOCKER_IMAGE");
        return;
    }
    labels = json_object_get(json_object_get(image, "Config"), "Labels");
    template = member_text(labels, IMAGE_LABEL_TEMPLATE);
    json_object_set_new(report, "image",
                        json_pack("{s:s, s:s, s:s?, s:I, s:b}", "name", config->docker.image, "id",
                                  member_text(image, "Id"), "template",
                                  template[0] ? template : NULL, "bytes",
                                  json_integer_value(json_object_get(image, "Size")), "is_ours",
                                  json_object_get(labels, IMAGE_LABEL) != NULL));
    if (!str_equal(member_text(image, "Architecture"), member_text(report, "arch")))
        add_problem(report, "the image is of another architecture than Docker",
                    "bailey image build");
}

static void ask(json_t *report, const struct config *config)
{
    CLEANUP(docker_client_close) struct docker_client docker = {0};
    CLEANUP(json_decrefp) json_t *version = NULL;
    CLEANUP(json_decrefp) json_t *info = NULL;
    struct error err = {0};

    if (docker_client_open(&docker, config, &err) < 0) {
        add_problem(report, err.text, "set DOCKER_HOST to unix:///PATH or tcp://HOST:PORT");
        return;
    }
    if (docker_client_call(&docker, "GET", "/version", &version, &err) < 0 ||
        docker_client_call(&docker, "GET", "/info", &info, &err) < 0) {
        note_unreachable(report, &err);
        return;
    }
    note_version(report, version);
    note_info(report, info, config);
    note_image(report, &docker, config);
}

/* ---- for people ---- */

static const char *word(const json_t *json, const char *name)
{
    const char *text = member_text(json, name);

    return text[0] ? text : "-";
}

static void add_line(json_t *lines, const char *title, const char *text)
{
    json_array_append_new(lines, json_pack("[s, s]", title, text));
}

static void add_list(json_t *lines, const char *title, const json_t *list)
{
    char text[512] = "";
    json_t *item;
    size_t i;

    json_array_foreach(list, i, item)
    {
        const char *name = json_string_value(item);
        size_t have = strlen(text);

        str_format(text + have, sizeof(text) - have, "%s%s", i ? ", " : "", name ? name : "?");
    }
    add_line(lines, title, i ? text : "none");
}

static json_t *describe(const json_t *report)
{
    const json_t *image = json_object_get(report, "image");
    json_t *lines = json_array();
    char text[512];

    if (!lines || !json_object_get(report, "version"))
        return lines;
    str_format(text, sizeof(text), "%.60s, API %.20s, %.20s/%.20s%s", word(report, "version"),
               word(report, "api"), word(report, "os"), word(report, "arch"),
               json_is_true(json_object_get(report, "rootless")) ? ", rootless" : "");
    add_line(lines, "version", text);
    add_line(lines, "storage", word(report, "storage"));
    add_line(lines, "cgroup", word(report, "cgroup"));
    add_line(lines, "runtime", word(report, "runtime"));
    add_list(lines, "runtimes", json_object_get(report, "runtimes"));
    add_list(lines, "security", json_object_get(report, "security"));
    if (image) {
        const char *template = json_string_value(json_object_get(image, "template"));

        str_format(text, sizeof(text), "%.256s, %lld MB%s%.64s", word(image, "name"),
                   (long long)(json_integer_value(json_object_get(image, "bytes")) >> 20),
                   template ? ", with the template " : "", template ? template : "");
        add_line(lines, "image", text);
    }
    return lines;
}

json_t *docker_doctor(const struct config *config)
{
    json_t *report = json_pack("{s:s, s:[]}", "host", config->docker.host, "problems");

    if (!report)
        return NULL;
    ask(report, config);
    json_object_set_new(report, "ok",
                        json_boolean(json_array_size(json_object_get(report, "problems")) == 0));
    json_object_set_new(report, "lines", describe(report));
    return report;
}
