/* link.c - makes and checks signed links; see link.h. */
#include "api/link.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hmac.h"
#include "base/str.h"

#define MESSAGE_MAX (ID_MAX + 64)

/* What a link opens: an output, or (port > 0) a port of a session. */
struct subject {
    const char *id;
    unsigned port;
};

static void sign(const uint8_t secret[SHA256_BYTES], struct subject subject, uint64_t expires_s,
                 uint8_t digest[SHA256_BYTES])
{
    char message[MESSAGE_MAX];

    if (subject.port > 0)
        str_format(message, sizeof(message), "port %u\n%.*s\n%llu", subject.port, ID_MAX,
                   subject.id, (unsigned long long)expires_s);
    else
        str_format(message, sizeof(message), "artifact\n%.*s\n%llu", ID_MAX, subject.id,
                   (unsigned long long)expires_s);
    hmac_sha256(secret, SHA256_BYTES, message, strlen(message), digest);
}

void link_make(const uint8_t secret[SHA256_BYTES], const char *id, uint64_t expires_s,
               char text[LINK_MAX])
{
    uint8_t digest[SHA256_BYTES];
    char signature[SHA256_TEXT];

    sign(secret, (struct subject){.id = id}, expires_s, digest);
    sha256_text(digest, signature);
    str_format(text, LINK_MAX, "/v1/artifacts/%s?expires=%llu&signature=%s", id,
               (unsigned long long)expires_s, signature);
}

/*
 * Reads the hexadecimal digits of a whole signature; any other text is compared as zeroes, which
 * never match.
 */
static bool read_signature(const char *text, uint8_t digest[SHA256_BYTES])
{
    static const char digits[] = "0123456789abcdef";

    memset(digest, 0, SHA256_BYTES);
    if (!text || strlen(text) != SHA256_TEXT - 1 || text[strspn(text, digits)])
        return false;
    for (size_t i = 0; i < SHA256_BYTES; i++)
        digest[i] = (uint8_t)((strchr(digits, text[2 * i]) - digits) << 4 |
                              (strchr(digits, text[2 * i + 1]) - digits));
    return true;
}

/* Whether the link is signed by this daemon, and not too old. */
static bool is_valid(const uint8_t secret[SHA256_BYTES], struct subject subject,
                     const char *expires, const char *signature, uint64_t now_s)
{
    uint8_t given[SHA256_BYTES], own[SHA256_BYTES];
    uint64_t expires_s = 0;
    bool is_good = read_signature(signature, given);

    is_good &= expires && str_to_u64(expires, &expires_s) == 0 && str_is_canonical(expires);
    sign(secret, subject, expires_s, own);
    is_good &= hmac_equal(given, own);
    return is_good && expires_s >= now_s - MIN(now_s, (uint64_t)LINK_SKEW_S);
}

int link_check(const uint8_t secret[SHA256_BYTES], const char *id, const char *expires,
               const char *signature, uint64_t now_s, struct error *err)
{
    if (is_valid(secret, (struct subject){.id = id}, expires, signature, now_s))
        return 0;
    return error_set(err, -EACCES, ERROR_LINK_EXPIRED,
                     "this link is too old or was changed: ask for a new one with "
                     "POST /v1/artifacts/{id}/link");
}

void link_port_make(const uint8_t secret[SHA256_BYTES], const char *session, unsigned port,
                    uint64_t expires_s, char text[LINK_MAX])
{
    uint8_t digest[SHA256_BYTES];
    char signature[SHA256_TEXT];

    sign(secret, (struct subject){.id = session, .port = port}, expires_s, digest);
    sha256_text(digest, signature);
    str_format(text, LINK_MAX, "/v1/ports/%s/%u/%llu/%s/", session, port,
               (unsigned long long)expires_s, signature);
}

int link_port_check(const uint8_t secret[SHA256_BYTES], const char *session, unsigned port,
                    const char *expires, const char *signature, uint64_t now_s, struct error *err)
{
    const struct subject subject = {.id = session, .port = port};

    if (port > 0 && is_valid(secret, subject, expires, signature, now_s))
        return 0;
    return error_set(err, -EACCES, ERROR_LINK_EXPIRED,
                     "this link is too old or was changed: ask for a new one with "
                     "POST /v1/sessions/{id}/ports");
}
