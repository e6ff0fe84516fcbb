/* settings.c - checks, compares and explains the SANDBOX_URL settings; see settings.h. */
#include "runtime/remote/settings.h"

#include <errno.h>
#include <string.h>

#include "base/str.h"
#include "config/config.h"

static const char *behind_scheme(const char *address)
{
    if (str_starts(address, "http://"))
        return address + 7;
    return str_starts(address, "https://") ? address + 8 : NULL;
}

/* "http://host:port", with or without the last slash, and nothing else that could be in a URL. */
static bool is_address(const char *address)
{
    const char *host = behind_scheme(address);
    size_t length = host ? strlen(host) : 0;

    if (length > 0 && host[length - 1] == '/')
        length--;
    return length > 0 && length < 512 && strcspn(host, "/?#@\\ \t\r\n\"<>%") >= length;
}

int remote_settings_check(struct config *config, struct error *err)
{
    const char *address = config->url.address;

    if (!address || !address[0])
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG,
                         "SANDBOX_TYPE=url needs SANDBOX_URL: the address of the server with the "
                         "sandboxes, such as http://10.0.0.5:7070");
    if (strchr(address, ','))
        return error_set(err, -ENOTSUP, ERROR_BAD_CONFIG,
                         "%s: '%.200s' is more than one address, and this version uses one",
                         config->values[KEY_URL].where, address);
    if (!is_address(address))
        return config_unusable(config, KEY_URL, err);
    if (config->url.ca_file && !str_starts(address, "https://"))
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG,
                         "SANDBOX_URL_CA_FILE is set and SANDBOX_URL ('%.200s') is without TLS: "
                         "write https:// for http://, or remove SANDBOX_URL_CA_FILE",
                         address);
    return 0;
}

int remote_settings_shape(const struct config *config, struct buf *text)
{
    return buf_printf(text, "url=%s\n", config->url.address ? config->url.address : "");
}

int remote_settings_no_template(const char *name, struct error *err)
{
    return error_set(err, -ENOTSUP, ERROR_BAD_INPUT,
                     "template '%.64s': a box of SANDBOX_TYPE=url has the template that its server "
                     "gives a session by default (SANDBOX_TEMPLATE there)",
                     name);
}

int remote_settings_check_run(const struct config *config, struct error *err)
{
    const struct config_value *template = &config->values[KEY_TEMPLATE];

    if (template->source == FROM_FLAG && !str_equal(template->text, "python") &&
        !str_equal(template->text, "auto"))
        return remote_settings_no_template(template->text, err);
    if (config->root)
        return error_set(err, -ENOTSUP, ERROR_BAD_CONFIG,
                         "SANDBOX_ROOT: a box of SANDBOX_TYPE=url has the root of its server; set "
                         "SANDBOX_ROOT there, or SANDBOX_TYPE=local here");
    return 0;
}

void remote_settings_no_program(const struct config *config, const char *program,
                                const char *language, struct error *err)
{
    error_set(err, -ENOENT, ERROR_NO_INTERPRETER,
              "the sandboxes of %.200s have no %s, which %s code needs: install it on that server",
              config->url.address, program, language);
}

const char *remote_settings_place(const struct config *config)
{
    return config->url.address ? config->url.address : "SANDBOX_URL is not set";
}

bool remote_settings_is_meant(const struct config *config)
{
    return config->url.address != NULL;
}
