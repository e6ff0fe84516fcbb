/* tls_files.c - certificate and key of the server, read as text; see tls_files.h. */
#include "cli/tls_files.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"

static int read_pem(const char *path, const char *key, struct buf *text, struct error *err)
{
    CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    int r = fd < 0 ? -errno : buf_read_fd(text, fd);

    if (r < 0)
        return error_set(err, r, ERROR_BAD_CONFIG, "%s: reading '%.300s': %s", key, path,
                         strerror(-r));
    if (!strstr(buf_text(text), "-----BEGIN ") || strlen(buf_text(text)) != text->length)
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG, "%s: '%.300s' is no PEM file", key, path);
    return 0;
}

int tls_files_json(const struct config *config, json_t **ret, struct error *err)
{
    CLEANUP(buf_free) struct buf certificate = BUF_INIT(LIMIT_TLS_FILE);
    CLEANUP(buf_free) struct buf key = BUF_INIT(LIMIT_TLS_FILE);
    int r;

    *ret = NULL;
    if (!config->tls_certificate && !config->tls_key)
        return 0;
    if (!config->tls_certificate || !config->tls_key)
        return error_set(err, -EINVAL, ERROR_BAD_CONFIG,
                         "SANDBOX_TLS_CERTIFICATE and SANDBOX_TLS_KEY belong together: %s is not "
                         "set",
                         config->tls_key ? "SANDBOX_TLS_CERTIFICATE" : "SANDBOX_TLS_KEY");
    r = read_pem(config->tls_certificate, "SANDBOX_TLS_CERTIFICATE", &certificate, err);
    if (r == 0)
        r = read_pem(config->tls_key, "SANDBOX_TLS_KEY", &key, err);
    if (r < 0)
        return r;
    *ret = json_pack("{s:s, s:s}", "certificate", buf_text(&certificate), "key", buf_text(&key));
    return *ret ? 0
                : error_set(err, -EINVAL, ERROR_BAD_CONFIG, "the TLS files are no text in UTF-8");
}
