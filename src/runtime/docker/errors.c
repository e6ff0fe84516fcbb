/* errors.c - translates Docker's errors: not running, missing image or runtime, full disk. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "runtime/docker/docker_private.h"
#include "runtime/docker/remedy.h"
#include "runtime/docker/settings.h"

#define REMEDY "Set SANDBOX_TYPE=local or start Docker daemon"
#define MESSAGE_MAX 400

const char *docker_tls_remedy(int num)
{
    switch (num) {
    case -EPROTOTYPE:
        return "Set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH if it listens with TLS, and neither "
               "if it does not";
    case -EKEYREJECTED:
        return "Put the ca.pem of the authority that signed Docker's certificate into "
               "DOCKER_CERT_PATH";
    case -EREMCHG:
        return "Set DOCKER_HOST to a name or address that is in Docker's certificate, or give "
               "Docker one with this name (subjectAltName)";
    case -ENOKEY:
        return "Put ca.pem, and cert.pem and key.pem of a client that this Docker accepts, into "
               "DOCKER_CERT_PATH";
    default:
        return NULL;
    }
}

/* The text of Go's HTTPS server to a plain HTTP request. */
bool docker_wants_tls(unsigned status, const struct buf *reply)
{
    static const char words[] = "HTTP request to an HTTPS server";

    return status == 400 && reply->length > 0 &&
           memmem(reply->data, reply->length, words, sizeof(words) - 1);
}

int docker_unavailable(const char *host, int num, const char *why, struct error *err)
{
    const char *remedy = docker_tls_remedy(num);

    if (remedy)
        return error_set(err, num, ERROR_PROVIDER_UNAVAILABLE,
                         DOCKER_UNAVAILABLE ": %s: %s. %s, or set SANDBOX_TYPE=local", host, why,
                         remedy);
    switch (num) {
    case -ENOENT:
    case -ECONNREFUSED:
        return error_set(err, num, ERROR_PROVIDER_UNAVAILABLE,
                         DOCKER_UNAVAILABLE ": no process listens on %s. " REMEDY, host);
    case -EACCES:
    case -EPERM:
        return error_set(err, num, ERROR_PROVIDER_UNAVAILABLE,
                         DOCKER_UNAVAILABLE ": no permission for %s (its group is usually "
                                            "docker). " REMEDY,
                         host);
    case -ETIMEDOUT:
        return error_set(err, num, ERROR_PROVIDER_UNAVAILABLE,
                         DOCKER_UNAVAILABLE ": %s does not answer. " REMEDY, host);
    case -ECONNRESET:
        return error_set(err, num, ERROR_PROVIDER_UNAVAILABLE,
                         DOCKER_UNAVAILABLE ": %s hung up. " REMEDY, host);
    case -ENOMEM:
        return error_set(err, num, ERROR_ENGINE, "out of memory");
    default:
        return error_set(err, num, ERROR_PROVIDER_UNAVAILABLE,
                         DOCKER_UNAVAILABLE ": %s: %s. " REMEDY, host, why);
    }
}

void docker_clean(const char *message, char *text, size_t size)
{
    size_t length = 0;

    for (; *message && length < size - 1; message++) {
        unsigned char byte = (unsigned char)*message, next = (unsigned char)message[1];
        bool is_c1 =
            byte == 0xc2 && next >= 0x80 && next < 0xa0; /* some terminals treat U+009B as ESC [ */

        text[length++] = byte < ' ' || byte == 0x7f || is_c1 ? ' ' : (char)byte;
        message += is_c1;
    }
    length = utf8_floor(text, length);
    while (length > 0 && text[length - 1] == ' ')
        length--;
    text[length] = 0;
}

static const struct {
    const char *says; /* a part of Docker's message, in any case */
    int num;
    const char *code;
    const char *format; /* Bailey's message, with Docker's inserted */
} rows[] = {
    {"no such image", -ENOENT, ERROR_IMAGE_NOT_FOUND,
     "Docker has no such image (%s): run 'bailey image build', or set DOCKER_IMAGE"},
    {"no space left on device", -ENOSPC, ERROR_DISK_FULL, "Docker's disk is full: %s"},
    {"disk quota exceeded", -ENOSPC, ERROR_DISK_FULL, "Docker's disk is full: %s"},
    {"exec format error", -ENOEXEC, ERROR_IMAGE_UNUSABLE,
     "the image is of another architecture: %s"},
    {"does not match the specified platform", -ENOEXEC, ERROR_IMAGE_UNUSABLE,
     "the image is of another architecture: %s"},
    {"unknown runtime specified", -EINVAL, ERROR_BAD_CONFIG,
     "DOCKER_RUNTIME: Docker does not know it: %s"},
    {"unknown or invalid runtime name", -EINVAL, ERROR_BAD_CONFIG,
     "DOCKER_RUNTIME: Docker does not know it: %s"},
};

int docker_refused(unsigned status, const char *message, struct error *err)
{
    char text[MESSAGE_MAX];

    docker_clean(message, text, sizeof(text));
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char whole[2 * MESSAGE_MAX];

        if (!strcasestr(text, rows[i].says))
            continue;
        /* The formats are from the table, each with one %s. */
        const char *at = strstr(rows[i].format, "%s");

        str_format(whole, sizeof(whole), "%.*s%s%s", (int)(at - rows[i].format), rows[i].format,
                   text, at + 2);
        return error_set(err, rows[i].num, rows[i].code, "%s", whole);
    }
    if (!text[0])
        return error_set(err, -EIO, ERROR_BOX_FAILED, "Docker answered with status %u", status);
    return error_set(err, status == 404 ? -ENOENT : -EIO, ERROR_BOX_FAILED, "Docker: %s", text);
}

/* ---- images that cannot be pulled ---- */

#define PULL_MESSAGE_MAX 260 /* the message may contain the image's name twice */
#define MAKE_ONE "run 'bailey image build', or set DOCKER_IMAGE"

static const struct {
    const char *says;
    int num;
    const char *code;
    const char *why;    /* follows "image 'x' is not there, and " */
    const char *remedy; /* NULL: by hand */
} pull_rows[] = {
    {"no space left on device", -ENOSPC, ERROR_DISK_FULL, "Docker's disk is full",
     "make room ('docker system df' shows what is there)"},
    {"disk quota exceeded", -ENOSPC, ERROR_DISK_FULL, "Docker's disk is full",
     "make room ('docker system df' shows what is there)"},
    {"no matching manifest", -ENOEXEC, ERROR_IMAGE_UNUSABLE,
     "its registry has it for another architecture alone", MAKE_ONE},
    {"does not match the specified platform", -ENOEXEC, ERROR_IMAGE_UNUSABLE,
     "its registry has it for another architecture alone", MAKE_ONE},
    /* Docker Hub also reports this for an image that does not exist. */
    {"pull access denied", -ENOENT, ERROR_IMAGE_NOT_FOUND,
     "its registry has no such image, or it is private",
     MAKE_ONE ", or 'docker login' and 'docker pull' it by hand"},
    {"no basic auth credentials", -EACCES, ERROR_IMAGE_NOT_FOUND, "its registry wants credentials",
     NULL},
    {"unauthorized", -EACCES, ERROR_IMAGE_NOT_FOUND, "its registry wants credentials", NULL},
    {"authentication required", -EACCES, ERROR_IMAGE_NOT_FOUND, "its registry wants credentials",
     NULL},
    {"access to the resource is denied", -EACCES, ERROR_IMAGE_NOT_FOUND,
     "its registry wants credentials", NULL},
    {"manifest unknown", -ENOENT, ERROR_IMAGE_NOT_FOUND, "its registry does not have it", MAKE_ONE},
    {"name unknown", -ENOENT, ERROR_IMAGE_NOT_FOUND, "its registry does not have it", MAKE_ONE},
    {"not found", -ENOENT, ERROR_IMAGE_NOT_FOUND, "its registry does not have it", MAKE_ONE},
    {"dial tcp", -ENOENT, ERROR_IMAGE_NOT_FOUND, "its registry cannot be reached", MAKE_ONE},
    {"no such host", -ENOENT, ERROR_IMAGE_NOT_FOUND, "its registry cannot be reached", MAKE_ONE},
    {"timeout", -ENOENT, ERROR_IMAGE_NOT_FOUND, "its registry cannot be reached", MAKE_ONE},
    {"request canceled", -ENOENT, ERROR_IMAGE_NOT_FOUND, "its registry cannot be reached",
     MAKE_ONE},
    {"", -ENOENT, ERROR_IMAGE_NOT_FOUND, "it cannot be pulled", MAKE_ONE}, /* any other message */
};

int docker_pull_refused(const char *image, const char *message, struct error *err)
{
    char text[MESSAGE_MAX];
    size_t i = 0;

    docker_clean(message, text, sizeof(text));
    while (!strcasestr(text, pull_rows[i].says))
        i++;
    text[utf8_floor(text, MIN(strlen(text), (size_t)PULL_MESSAGE_MAX))] = 0;
    if (!pull_rows[i].remedy)
        return error_set(err, pull_rows[i].num, pull_rows[i].code,
                         "image '%s' is not there, and %s (%s), which bailey has none of: run "
                         "'docker login' and 'docker pull %s' by hand",
                         image, pull_rows[i].why, text, image);
    return error_set(err, pull_rows[i].num, pull_rows[i].code,
                     "image '%s' is not there, and %s (%s): %s", image, pull_rows[i].why, text,
                     pull_rows[i].remedy);
}

/* ---- runtimes that Docker does not have ---- */

/* A name with a dot is a shim's (io.containerd.kata.v2), which Docker does not list. */
int docker_runtime_check(const json_t *runtimes, const char *wanted, struct error *err)
{
    char list[MESSAGE_MAX] = "", text[MESSAGE_MAX];
    const char *name;
    const json_t *ignored;

    if (!wanted || !wanted[0] || strpbrk(wanted, "./") || json_object_size(runtimes) == 0 ||
        json_object_get(runtimes, wanted))
        return 0;
    json_object_foreach((json_t *)runtimes, name, ignored)
    {
        size_t length = strlen(list);

        str_format(list + length, sizeof(list) - length, "%s%s", length ? ", " : "", name);
    }
    docker_clean(list, text, sizeof(text));
    return error_set(err, -EINVAL, ERROR_BAD_CONFIG,
                     "DOCKER_RUNTIME: Docker does not know '%.64s'; it has %s. Register it in "
                     "Docker's daemon.json, or set DOCKER_RUNTIME to one of these",
                     wanted, text);
}
