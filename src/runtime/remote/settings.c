/* settings.c - checks, compares and explains the SANDBOX_URL settings; see settings.h. */
#include "runtime/remote/settings.h"

#include <errno.h>
#include <stdlib.h>
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
    return length > 0 && length < 512 && strcspn(host, "/?#@;\\ \t\r\n\"<>%") >= length;
}

int remote_settings_next(const char **list, char address[REMOTE_ADDRESS_MAX], unsigned *weight)
{
    static const char word[] = ";weight=";
    size_t length = strcspn(*list, ",");
    char *semicolon, *end = NULL;
    unsigned long number = 1;

    if (!**list)
        return 0;
    if (length >= REMOTE_ADDRESS_MAX)
        return -EINVAL;
    memcpy(address, *list, length);
    address[length] = 0;
    semicolon = strchr(address, ';');
    if (semicolon && str_starts(semicolon, word) && semicolon[strlen(word)] >= '1' &&
        semicolon[strlen(word)] <= '9')
        number = strtoul(semicolon + strlen(word), &end, 10);
    if (semicolon && (!end || *end || number > REMOTE_WEIGHT_MAX))
        return -EINVAL;
    if (semicolon)
        *semicolon = 0;
    if (!is_address(address) || str_equal(*list + length, ","))
        return -EINVAL;
    *weight = (unsigned)number;
    *list += length + ((*list)[length] == ',');
    return 1;
}

static bool is_list(const char *list, bool *has_tls)
{
    char address[REMOTE_ADDRESS_MAX];
    unsigned weight;
    size_t count = 0;
    int r;

    while ((r = remote_settings_next(&list, address, &weight)) > 0) {
        *has_tls = *has_tls && str_starts(address, "https://");
        count++;
    }
    return r == 0 && count > 0 && count <= REMOTE_TARGETS_MAX;
}

int remote_settings_check(struct config *config, struct error *err)
{
    const char *address = config->url.address;
    bool has_tls = true;

    if (!address || !address[0])
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG,
                         "SANDBOX_TYPE=url needs SANDBOX_URL: the address of the server with the "
                         "sandboxes, such as http://10.0.0.5:7070");
    if (!is_list(address, &has_tls))
        return config_unusable(config, KEY_URL, err);
    if (config->url.ca_file && !has_tls)
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG,
                         "SANDBOX_URL_CA_FILE is set and SANDBOX_URL ('%.200s') is without TLS: "
                         "write https:// for http://, or remove SANDBOX_URL_CA_FILE",
                         address);
    return 0;
}

int remote_settings_shape(const struct config *config, struct buf *text)
{
    return buf_printf(text, "url=%s\nurl_template=%s\n",
                      config->url.address ? config->url.address : "", config->template_name);
}

int remote_settings_no_template(const char *name, struct error *err)
{
    return error_set(err, -ENOTSUP, ERROR_BAD_INPUT,
                     "template '%.64s': every box of SANDBOX_TYPE=url has the template of the "
                     "daemon's SANDBOX_TEMPLATE (auto: the default of the server that makes it); "
                     "set SANDBOX_TEMPLATE=%.64s in the daemon's environment",
                     name, name);
}

int remote_settings_check_run(const struct config *config, struct error *err)
{
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
