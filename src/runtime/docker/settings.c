/* settings.c - checks, compares and explains the DOCKER_* settings; see settings.h. */
#include "runtime/docker/settings.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "config/config.h"

#define UNIX "unix://"

/* Both keys get the value of the one that wins: see settings.h. */
static int settle(struct config *config, enum config_key docker, enum config_key general,
                  struct error *err)
{
    const struct config_value *values = config->values;
    bool is_general =
        values[general].source == FROM_FLAG ||
        (values[docker].source == FROM_DEFAULT && values[general].source != FROM_DEFAULT);

    return is_general ? config_copy(config, general, docker, err)
                      : config_copy(config, docker, general, err);
}

/*
 * A configuration with TLS never gets plain HTTP. Docker's own client has a default folder in the
 * user's home, which a daemon does not have.
 */
static int check_tls(const struct config *config, struct error *err)
{
    const char *host = config->docker.host, *cert = config->docker.cert_path;
    bool has_files = (cert && cert[0]) || str_starts(host, "https://");

    if (!config->docker.verifies_tls || str_starts(host, "unix://"))
        return 0;
    if (str_starts(host, "http://"))
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG,
                         "DOCKER_TLS_VERIFY is set and DOCKER_HOST is without TLS: write tcp:// "
                         "for http://, or unset DOCKER_TLS_VERIFY");
    if (!has_files)
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG,
                         "DOCKER_TLS_VERIFY is set and DOCKER_CERT_PATH is not: set it to the "
                         "folder with ca.pem, cert.pem and key.pem");
    return 0;
}

int docker_settings_check(struct config *config, struct error *err)
{
    static const char *const schemes[] = {"tcp://", "http://", "https://"};
    const char *host = config->docker.host, *cert = config->docker.cert_path;
    bool is_known = str_starts(host, "unix:///") && host[8];
    int r;

    for (size_t i = 0; i < ARRAY_SIZE(schemes); i++)
        is_known = is_known || (str_starts(host, schemes[i]) && host[strlen(schemes[i])]);
    for (const char *c = host; *c; c++)
        is_known = is_known && (unsigned char)*c > ' ' && *c != 0x7f;
    if (!is_known)
        return config_unusable(config, KEY_DOCKER_HOST, err);
    if (cert && cert[0] != '/') /* the daemon's working directory is arbitrary */
        return config_unusable(config, KEY_DOCKER_CERT_PATH, err);
    r = check_tls(config, err);
    if (r < 0)
        return r;
    r = settle(config, KEY_DOCKER_MEMORY, KEY_MEMORY, err);
    return r < 0 ? r : settle(config, KEY_DOCKER_CPU, KEY_CPUS, err);
}

static int add(struct buf *text, const char *name, const char *value)
{
    return buf_printf(text, "%s=%s\n", name, value ? value : "");
}

int docker_settings_shape(const struct config *config, struct buf *text)
{
    int r = add(text, "docker_host", config->docker.host);

    if (r == 0)
        r = add(text, "docker_image", config->docker.image);
    if (r == 0)
        r = add(text, "docker_runtime", config->docker.runtime);
    return r < 0 ? r : buf_printf(text, "docker_network=%d\n", config->docker.has_network);
}

int docker_settings_no_template(const char *name, struct error *err)
{
    return error_set(err, -ENOTSUP, ERROR_BAD_INPUT,
                     "template '%.64s': a container has what its image has; make one with "
                     "'bailey image build --template %.64s' and choose it with DOCKER_IMAGE",
                     name, name);
}

int docker_settings_check_run(const struct config *config, struct error *err)
{
    const struct config_value *template = &config->values[KEY_TEMPLATE];

    if (template->source == FROM_FLAG && !str_equal(template->text, "python") &&
        !str_equal(template->text, "auto"))
        return docker_settings_no_template(template->text, err);
    if (config->root)
        return error_set(err, -ENOTSUP, ERROR_BAD_CONFIG,
                         "SANDBOX_ROOT: a container has its image's root; choose it with "
                         "DOCKER_IMAGE, or set SANDBOX_TYPE=local");
    return 0;
}

void docker_settings_no_program(const struct config *config, const char *program,
                                const char *language, struct error *err)
{
    error_set(
        err, -ENOENT, ERROR_NO_INTERPRETER,
        "the image '%.200s' has no %s, which %s code needs: choose another with DOCKER_IMAGE, "
        "or make one with 'bailey image build'",
        config->docker.image, program, language);
}

const char *docker_settings_place(const struct config *config)
{
    return config->docker.host;
}

bool docker_settings_is_meant(const struct config *config)
{
    const char *host = config->docker.host;

    return str_starts(host, UNIX) ? access(host + strlen(UNIX), F_OK) == 0
                                  : config->values[KEY_DOCKER_HOST].source != FROM_DEFAULT;
}
