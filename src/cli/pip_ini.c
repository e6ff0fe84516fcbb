/* pip_ini.c - pip's own settings on this host; see pip_ini.h. */
#include "cli/pip_ini.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"

const char *const pip_options[_PIP_OPTION_MAX] = {
    [PIP_INDEX_URL] = "index-url",       [PIP_EXTRA_INDEX_URL] = "extra-index-url",
    [PIP_FIND_LINKS] = "find-links",     [PIP_NO_INDEX] = "no-index",
    [PIP_TRUSTED_HOST] = "trusted-host", [PIP_CERT] = "cert",
    [PIP_CLIENT_CERT] = "client-cert",   [PIP_PROXY] = "proxy",
    [PIP_TIMEOUT] = "timeout",           [PIP_DEFAULT_TIMEOUT] = "default-timeout",
    [PIP_RETRIES] = "retries",
};

/* ---- one file ---- */

struct ini {
    char **section; /* of the values; NULL: one that does not count */
    int option;     /* that the lines belong to; -1: none that counts */
    size_t indent;  /* of its first line */
    bool has_option;
    struct buf value;
};

/* As pip: lower-case, "_" is "-", "--" before it is nothing. */
static int find_option(const char *name, size_t length)
{
    char text[32];

    if (length >= 2 && memcmp(name, "--", 2) == 0) {
        name += 2;
        length -= 2;
    }
    if (length >= sizeof(text))
        return -1;
    for (size_t i = 0; i < length; i++)
        text[i] = name[i] == '_' ? '-' : (char)tolower((unsigned char)name[i]);
    text[length] = 0;
    for (int i = 0; i < _PIP_OPTION_MAX; i++)
        if (str_equal(text, pip_options[i]))
            return i;
    return -1;
}

/* Puts down the value that is complete now. */
static int finish_option(struct ini *ini)
{
    char *copy;

    if (!ini->section || ini->option < 0 || !ini->has_option)
        return 0;
    if (ini->value.length > 0 && memchr(ini->value.data, 0, ini->value.length))
        return 0; /* no option of pip's has one */
    while (ini->value.length > 0 && isspace((unsigned char)ini->value.data[ini->value.length - 1]))
        ini->value.length--;
    copy = strndup(buf_text(&ini->value), ini->value.length);
    if (!copy)
        return -ENOMEM;
    free(ini->section[ini->option]);
    ini->section[ini->option] = copy;
    return 0;
}

static void begin_section(struct ini *ini, struct pip_values *values, const char *line,
                          size_t length)
{
    const char *end = memchr(line, ']', length);
    size_t name = end ? (size_t)(end - line - 1) : 0;

    ini->section = name == 6 && memcmp(line + 1, "global", 6) == 0    ? values->global
                   : name == 7 && memcmp(line + 1, "install", 7) == 0 ? values->install
                                                                      : NULL;
    ini->has_option = false;
    ini->option = -1;
}

static int begin_option(struct ini *ini, const char *line, size_t length, size_t indent)
{
    size_t name = 0, at;

    while (name < length && line[name] != '=' && line[name] != ':')
        name++;
    at = name < length ? name + 1 : length;
    while (name > 0 && isspace((unsigned char)line[name - 1]))
        name--;
    while (at < length && isspace((unsigned char)line[at]))
        at++;
    ini->option = find_option(line, name);
    ini->has_option = true;
    ini->indent = indent;
    buf_clear(&ini->value);
    return buf_append(&ini->value, line + at, length - at);
}

static int read_line(struct ini *ini, struct pip_values *values, const char *line, size_t length)
{
    size_t indent = 0;
    int r;

    while (length > 0 && isspace((unsigned char)line[length - 1]))
        length--;
    while (indent < length && isspace((unsigned char)line[indent]))
        indent++;
    line += indent;
    length -= indent;
    if (length == 0 || line[0] == '#' || line[0] == ';')
        return 0;
    if (ini->has_option && indent > ini->indent) { /* it goes on */
        r = buf_append_text(&ini->value, "\n");
        return r == 0 ? buf_append(&ini->value, line, length) : r;
    }
    r = finish_option(ini);
    if (r < 0)
        return r;
    if (line[0] == '[')
        begin_section(ini, values, line, length);
    else
        r = begin_option(ini, line, length, indent);
    return r;
}

int pip_ini_parse(const char *text, size_t length, struct pip_values *values)
{
    struct ini ini = {.option = -1, .value = BUF_INIT(LIMIT_CONFIG_BYTES)};
    const char *end = text + length;
    int r = 0;

    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
        text += 3;
    while (text < end && r == 0) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *stop = newline ? newline : end;

        r = read_line(&ini, values, text, (size_t)(stop - text));
        text = newline ? newline + 1 : end;
    }
    if (r == 0)
        r = finish_option(&ini);
    buf_free(&ini.value);
    return r;
}

/* ---- all of them ---- */

static int read_file(const struct pip_sources *sources, struct pip_values *values, char ***unread,
                     const char *folder, const char *name)
{
    CLEANUP(buf_free) struct buf path = BUF_INIT(PATH_MAX), text = BUF_INIT(LIMIT_CONFIG_BYTES);
    CLEANUP(fd_closep) int fd = -1;
    int r;

    if (!folder || buf_append_text(&path, sources->root) < 0 ||
        buf_printf(&path, "%s%s", folder, name) < 0)
        return 0; /* no such file can be */
    fd = open(buf_text(&path), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : strv_push(unread, buf_text(&path));
    r = buf_read_fd(&text, fd);
    if (r == -ENOMEM)
        return r;
    return r < 0 ? strv_push(unread, buf_text(&path))
                 : pip_ini_parse(buf_text(&text), text.length, values);
}

/* The folders of XDG_CONFIG_DIRS and /etc, in pip's order: a later one replaces. */
static int read_site_files(const struct pip_sources *sources, struct pip_values *values,
                           char ***unread)
{
    const char *list = env_text(sources->env, "XDG_CONFIG_DIRS");
    CLEANUP(freep) char *copy = strdup(list ? list : "/etc/xdg");
    int r = 0;

    if (!copy)
        return -ENOMEM;
    for (char *at = copy; at && r == 0;) {
        char *colon = strchr(at, ':');

        if (colon)
            *colon = 0;
        if (at[0] == '/')
            r = read_file(sources, values, unread, at, "/pip/pip.conf");
        at = colon ? colon + 1 : NULL;
    }
    return r == 0 ? read_file(sources, values, unread, "/etc", "/pip.conf") : r;
}

static int read_user_files(const struct pip_sources *sources, struct pip_values *values,
                           char ***unread)
{
    const char *home = env_text(sources->env, "HOME");
    const char *config = env_text(sources->env, "XDG_CONFIG_HOME");
    int r = read_file(sources, values, unread, home, "/.pip/pip.conf");

    if (r < 0)
        return r;
    return config && config[0] == '/'
               ? read_file(sources, values, unread, config, "/pip/pip.conf")
               : read_file(sources, values, unread, home, "/.config/pip/pip.conf");
}

static int read_variables(const struct pip_sources *sources, struct pip_values *values)
{
    for (int i = 0; i < _PIP_OPTION_MAX; i++) {
        char name[40] = "PIP_";
        const char *value;

        for (size_t at = 0; at <= strlen(pip_options[i]); at++)
            name[4 + at] =
                pip_options[i][at] == '-' ? '_' : (char)toupper((unsigned char)pip_options[i][at]);
        value = env_text(sources->env, name);
        if (!value)
            continue;
        free(values->install[i]);
        values->install[i] = strdup(value);
        if (!values->install[i])
            return -ENOMEM;
    }
    return 0;
}

/* PIP_CONFIG_FILE=/dev/null means no file. An existing file replaces the user's own. */
int pip_values_read(const struct pip_sources *sources, struct pip_values *values, char ***unread)
{
    const char *named = env_text(sources->env, "PIP_CONFIG_FILE");
    int r = 0;

    if (!str_equal(named, "/dev/null")) {
        bool is_there = named && access(named, F_OK) == 0;

        r = read_site_files(sources, values, unread);
        if (r == 0 && !is_there)
            r = read_user_files(sources, values, unread);
        if (r == 0)
            r = read_file(sources, values, unread, sources->prefix, "/pip.conf");
        if (r == 0 && is_there)
            r = read_file(&(struct pip_sources){.root = ""}, values, unread, named, "");
    }
    return r == 0 ? read_variables(sources, values) : r;
}

const char *pip_value(const struct pip_values *values, enum pip_option option)
{
    return values->install[option] ? values->install[option] : values->global[option];
}

void pip_values_free(struct pip_values *values)
{
    for (int i = 0; i < _PIP_OPTION_MAX; i++) {
        free(values->global[i]);
        free(values->install[i]);
    }
    memset(values, 0, sizeof(*values));
}
