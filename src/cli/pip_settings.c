/*
 * pip_settings.c - the part of pip's settings on this host that an installer box gets; see
 * pip_settings.h.
 *
 * The box's pip.conf is generated from what was understood: paths of the host become paths of the
 * box, the proxy is ours, and options that do not concern the source of packages are left out.
 */
#include "cli/pip_settings.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"

#define DEFAULT_INDEX "https://pypi.org/simple"
#define CONF_MAX (256 * KIB)
#define CA_MAX (4 * MIB)

struct work {
    const struct pip_sources *sources;
    struct pip_values values;
    struct pip_settings *settings;
    struct pip_policy *policy;
};

static int warn(struct work *work, const char *what, const char *why)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(8 * KIB);

    if (buf_printf(&text, "pip's %s: %s", what, why) < 0)
        return -ENOMEM;
    return strv_push(&work->settings->warnings, buf_text(&text));
}

/* ---- files of the host ---- */

/* As the user's shell would read it: "~/" is the user's home. */
static int full_path(const struct work *work, const char *path, char ret[PATH_MAX])
{
    const char *home = env_text(work->sources->env, "HOME");
    char folder[PATH_MAX];

    if (str_starts(path, "~/") && home)
        return str_format(ret, PATH_MAX, "%s%s", home, path + 1);
    if (path[0] == '/')
        return str_format(ret, PATH_MAX, "%s%s", work->sources->root, path);
    return getcwd(folder, sizeof(folder)) ? str_format(ret, PATH_MAX, "%s/%s", folder, path)
                                          : -errno;
}

/* A file of certificates into memory; anything else is a warning. */
static int read_pem(struct work *work, const char *what, const char *path, struct buf *to)
{
    CLEANUP(fd_closep) int fd = -1;
    char full[PATH_MAX];
    struct stat status;
    int r = full_path(work, path, full);

    *to = BUF_INIT(CA_MAX);
    if (r == 0)
        fd = open(full, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || fstat(fd, &status) < 0)
        return warn(work, what, "the file cannot be read");
    if (!S_ISREG(status.st_mode))
        return warn(work, what, "only a file can be passed to an installer, not a folder");
    r = buf_read_fd(to, fd);
    if (r == -ENOMEM)
        return r;
    if (r < 0 || !strstr(buf_text(to), "-----BEGIN ")) {
        buf_free(to);
        return warn(work, what, "the file has no certificates");
    }
    return 0;
}

/* What pip would use, in its order; without any of them what this host trusts. */
static int read_ca(struct work *work)
{
    static const char *const variables[] = {"REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE",
                                            "SSL_CERT_FILE"};
    static const char *const places[] = {"/etc/ssl/certs/ca-certificates.crt",
                                         "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem",
                                         "/etc/ssl/ca-bundle.pem"};
    const char *path = pip_value(&work->values, PIP_CERT);
    const char *what = "cert";
    char full[PATH_MAX];

    for (size_t i = 0; i < ARRAY_SIZE(variables) && (!path || !*path); i++) {
        path = env_text(work->sources->env, variables[i]);
        what = variables[i];
    }
    for (size_t i = 0; i < ARRAY_SIZE(places) && (!path || !*path); i++) {
        if (full_path(work, places[i], full) == 0 && access(full, R_OK) == 0)
            path = places[i];
    }
    return path && *path ? read_pem(work, what, path, &work->settings->ca) : 0;
}

/* ---- where packages come from ---- */

/* The folder's path in the box, if it can be mounted there; *ret_box is "" otherwise. */
static int add_wheels(struct work *work, const char *path, char ret_box[64])
{
    struct pip_settings *settings = work->settings;
    char full[PATH_MAX], resolved[PATH_MAX];
    struct stat status;

    ret_box[0] = 0;
    if (full_path(work, path, full) < 0 || !realpath(full, resolved) ||
        stat(resolved, &status) < 0 || !S_ISDIR(status.st_mode))
        return warn(work, "find-links", "only folders that exist can be shown to an installer");
    for (size_t i = 0; i < settings->wheel_count; i++) {
        if (str_equal(settings->wheels[i].host, resolved)) {
            str_copy(ret_box, 64, settings->wheels[i].box);
            return 0;
        }
    }
    if (settings->wheel_count == PIP_WHEELS_MAX)
        return warn(work, "find-links", "more than 8 folders");
    if (geteuid() == 0 && (status.st_mode & 05) != 05)
        return warn(work, "find-links",
                    "a folder that other users may not read: installers have an "
                    "id of their own, continuing without it");
    str_format(ret_box, 64, PIP_WHEELS "/%zu", settings->wheel_count);
    settings->wheels[settings->wheel_count] =
        (struct launch_bind){.host = strdup(resolved), .box = strdup(ret_box)};
    settings->wheel_count++;
    return settings->wheels[settings->wheel_count - 1].host &&
                   settings->wheels[settings->wheel_count - 1].box
               ? 0
               : -ENOMEM;
}

static bool is_printable(const char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text <= ' ' || (unsigned char)*text == 0x7f)
            return false;
    return true;
}

/* One address as the box has it, appended to `to`; nothing for one that cannot be used. */
static int write_paths(struct work *work, enum pip_option option, const char *text, struct buf *to)
{
    const char *path = str_starts(text, "file://") ? text + 7 : text;
    char box[64];
    int r;

    if (!is_printable(text))
        return warn(work, pip_options[option], "a value with control bytes");
    if (str_starts(text, "file://localhost/"))
        path = text + strlen("file://localhost");
    if (path == text && strstr(text, "://")) {
        if (!pip_policy_add_url(work->policy, text))
            return warn(work, pip_options[option],
                        "only http, https and local folders can be used");
        return buf_printf(to, "    %s\n", text);
    }
    r = add_wheels(work, path, box);
    if (r < 0 || !box[0])
        return r;
    return buf_printf(to, "    %s%s\n", path == text && option == PIP_FIND_LINKS ? "" : "file://",
                      box);
}

/* An option with several values, separated by blanks. */
static int write_places(struct work *work, enum pip_option option, const char *value)
{
    CLEANUP(buf_free) struct buf list = BUF_INIT(CONF_MAX);
    const char *at = value;
    int r = 0;

    while (at && *at && r == 0) {
        size_t blanks = strspn(at, " \t\r\n"), length = strcspn(at + blanks, " \t\r\n");
        CLEANUP(freep) char *one = strndup(at + blanks, length);

        if (!one)
            return -ENOMEM;
        if (length > 0)
            r = write_paths(work, option, one, &list);
        at += blanks + length;
    }
    if (r < 0 || list.length == 0)
        return r;
    if (option == PIP_INDEX_URL) /* one value, which pip takes as it is, blanks and all */
        return buf_printf(&work->settings->conf, "index-url = %.*s\n",
                          (int)strcspn(list.data + 4, "\n"), list.data + 4);
    return buf_printf(&work->settings->conf, "%s =\n%s", pip_options[option], buf_text(&list));
}

static bool is_true(const char *value)
{
    bool truth = false;

    return value && str_to_bool(value, &truth) == 0 && truth;
}

static int write_indexes(struct work *work)
{
    const char *index = pip_value(&work->values, PIP_INDEX_URL);
    int r;

    if (is_true(pip_value(&work->values, PIP_NO_INDEX)))
        r = buf_append_text(&work->settings->conf, "no-index = true\n");
    else
        r = write_places(work, PIP_INDEX_URL, index && *index ? index : DEFAULT_INDEX);
    if (r == 0 && !is_true(pip_value(&work->values, PIP_NO_INDEX)))
        r = write_places(work, PIP_EXTRA_INDEX_URL, pip_value(&work->values, PIP_EXTRA_INDEX_URL));
    if (r == 0)
        r = write_places(work, PIP_FIND_LINKS, pip_value(&work->values, PIP_FIND_LINKS));
    return r;
}

/* ---- the rest of pip.conf ---- */

/* Words and numbers, unchanged. */
static int write_plain(struct work *work, enum pip_option option, const char *name)
{
    const char *value = pip_value(&work->values, option);
    CLEANUP(freep) char *line = value ? strdup(value) : NULL;

    if (!line || !*line)
        return value && *value ? -ENOMEM : 0;
    for (char *c = line; *c; c++) {
        if (isspace((unsigned char)*c))
            *c = ' ';
        else if (iscntrl((unsigned char)*c))
            return warn(work, name, "a value with control bytes");
    }
    return buf_printf(&work->settings->conf, "%s = %s\n", name, line);
}

static int write_conf(struct work *work)
{
    struct pip_settings *settings = work->settings;
    int r = buf_printf(&settings->conf,
                       "# Written by bailey from pip's settings on this host.\n[global]\n"
                       "proxy = http://127.0.0.1:%d\ndisable-pip-version-check = true\n"
                       "no-input = true\n",
                       LAUNCH_EGRESS_PORT);

    if (r == 0)
        r = write_indexes(work);
    if (r == 0)
        r = write_plain(work, PIP_TRUSTED_HOST, "trusted-host");
    if (r == 0 && pip_value(&work->values, PIP_TIMEOUT))
        r = write_plain(work, PIP_TIMEOUT, "timeout");
    else if (r == 0)
        r = write_plain(work, PIP_DEFAULT_TIMEOUT, "timeout");
    if (r == 0)
        r = write_plain(work, PIP_RETRIES, "retries");
    if (r == 0 && settings->ca.length > 0)
        r = buf_append_text(&settings->conf, "cert = /bailey/" PIP_FILE_CA "\n");
    if (r == 0 && settings->client.length > 0)
        r = buf_append_text(&settings->conf, "client-cert = /bailey/" PIP_FILE_CLIENT "\n");
    return r;
}

static void list_files(struct pip_settings *settings)
{
    const struct {
        const char *path;
        const struct buf *text;
    } all[] = {{PIP_FILE_CONF, &settings->conf},
               {PIP_FILE_CA, &settings->ca},
               {PIP_FILE_CLIENT, &settings->client}};

    for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
        if (all[i].text->length > 0)
            settings->files[settings->file_count++] = (struct launch_file){
                .path = all[i].path, .text = buf_text(all[i].text), .length = all[i].text->length};
    }
}

/* ---- the proxy ---- */

static const char *environment_proxy(const struct pip_sources *sources)
{
    static const char *const names[] = {"https_proxy", "HTTPS_PROXY", "http_proxy",
                                        "HTTP_PROXY",  "all_proxy",   "ALL_PROXY"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        const char *value = env_text(sources->env, names[i]);

        if (value)
            return value;
    }
    return NULL;
}

static int set_proxy(struct work *work)
{
    const char *own = pip_value(&work->values, PIP_PROXY);
    const char *none = env_text(work->sources->env, "no_proxy");
    const char *proxy = own && *own ? own : environment_proxy(work->sources);

    if (!none)
        none = env_text(work->sources->env, "NO_PROXY");
    if (proxy && !pip_policy_set_proxy(work->policy, proxy, own && *own ? NULL : none))
        return warn(work, "proxy", "only http:// proxies can be used, continuing without it");
    return 0;
}

static int add_listed(struct work *work, char *const *hosts, struct error *err)
{
    for (; hosts && *hosts; hosts++) {
        if (!pip_policy_add_listed(work->policy, *hosts))
            return error_set(err, -EINVAL, ERROR_BAD_CONFIG,
                             "SANDBOX_INDEX_HOSTS: '%.100s' is neither a host, host:port nor an "
                             "address",
                             *hosts);
    }
    return 0;
}

/* ---- all of it ---- */

static int read_all(struct work *work)
{
    CLEANUP(strv_freep) char **unread = strv_new();
    const char *client;
    int r = unread ? pip_values_read(work->sources, &work->values, &unread) : -ENOMEM;

    for (char **path = unread; r == 0 && path && *path; path++)
        r = warn(work, *path, "the file cannot be read, continuing without it");
    if (r == 0)
        r = read_ca(work);
    client = pip_value(&work->values, PIP_CLIENT_CERT);
    if (r == 0 && client && *client)
        r = read_pem(work, "client-cert", client, &work->settings->client);
    if (r == 0)
        r = write_conf(work);
    if (r == 0)
        r = set_proxy(work);
    return r;
}

int pip_settings_read(const struct pip_sources *sources, char *const *index_hosts,
                      struct pip_settings *ret, struct error *err)
{
    struct pip_settings settings = {
        .conf = BUF_INIT(CONF_MAX), .egress = BUF_INIT(CONF_MAX), .warnings = strv_new()};
    struct work work = {.sources = sources, .settings = &settings, .policy = pip_policy_new()};
    int r = work.policy && settings.warnings ? read_all(&work) : -ENOMEM;

    if (r < 0)
        error_set(err, r, ERROR_ENGINE, "reading pip's settings: %s", strerror(-r));
    else
        r = add_listed(&work, index_hosts, err);
    if (r == 0) {
        r = pip_policy_write(work.policy, &settings.egress);
        if (r < 0)
            error_set(err, r, ERROR_ENGINE, "writing the egress proxy's settings: %s",
                      strerror(-r));
    }
    pip_policy_free(work.policy);
    pip_values_free(&work.values);
    if (r < 0) {
        pip_settings_free(&settings);
        return r;
    }
    list_files(&settings);
    *ret = settings;
    return 0;
}

/* The texts may hold passwords: they do not stay in memory that is used again. */
static void wipe(struct buf *text)
{
    if (text->data)
        explicit_bzero(text->data, text->length);
    buf_free(text);
}

void pip_settings_free(struct pip_settings *settings)
{
    wipe(&settings->conf);
    wipe(&settings->client);
    wipe(&settings->egress);
    buf_free(&settings->ca);
    for (size_t i = 0; i < settings->wheel_count; i++) {
        free((char *)settings->wheels[i].host);
        free((char *)settings->wheels[i].box);
    }
    strv_free(settings->warnings);
    memset(settings, 0, sizeof(*settings));
}
