/* target.c - which sandbox a request means, tokens and signed addresses; see e2b.h. Pure. */
#include <string.h>

#include "api/sandboxes/e2b.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/hmac.h"
#include "base/str.h"

#define TOKEN_PREFIX "bet_"
#define TOKEN_DIGITS 40 /* of the digest that are in it */
#define RAW_MAX (2 * LIMIT_HTTP_TARGET)

static bool is_id(const char *text, size_t length)
{
    return length == E2B_ID_LENGTH && strspn(text, "0123456789abcdef") >= length;
}

/* The clients of old versions send "ID-CLIENT". */
static bool take_id(const char *text, struct e2b_target *ret)
{
    size_t length = text ? strcspn(text, "-") : 0;

    if (!text || !is_id(text, length))
        return false;
    str_format(ret->id, sizeof(ret->id), "%.*s", E2B_ID_LENGTH, text);
    return true;
}

/* A port, 1 to 65535 without a sign or a leading zero; 0: the text is not a port. */
static unsigned port_of(const char *text, size_t length)
{
    char word[8];
    uint64_t port;

    if (length == 0 || length >= sizeof(word))
        return 0;
    str_format(word, sizeof(word), "%.*s", (int)length, text);
    return str_to_u64(word, &port) == 0 && str_is_canonical(word) && port <= 65535 ? (unsigned)port
                                                                                   : 0;
}

bool e2b_host_read(const char *host, struct e2b_target *ret)
{
    size_t dash = host ? strcspn(host, "-") : 0;
    size_t label = host ? strcspn(host, ".:") : 0;

    *ret = (struct e2b_target){.port = 0};
    if (!host || dash >= label || host[label] != '.' || !is_id(host + dash + 1, label - dash - 1))
        return false;
    ret->port = port_of(host, dash);
    str_format(ret->id, sizeof(ret->id), "%.*s", E2B_ID_LENGTH, host + dash + 1);
    return ret->port > 0;
}

/* "localhost:49983", where clients with E2B_DEBUG look for a sandbox; 0: another host. */
static unsigned debug_port(const char *host)
{
    static const char *const names[] = {"localhost:", "127.0.0.1:"};

    for (size_t i = 0; host && i < ARRAY_SIZE(names); i++) {
        const char *at = str_starts(host, names[i]) ? host + strlen(names[i]) : "";
        unsigned port = port_of(at, strlen(at));

        if (port == E2B_ENVD_PORT || port == E2B_INTERPRETER_PORT)
            return port;
    }
    return 0;
}

bool e2b_target_of(const struct http_request *http, struct e2b_target *ret)
{
    const char *id = http_header(http, "E2b-Sandbox-Id");
    const char *port = http_header(http, "E2b-Sandbox-Port");

    if (id) {
        *ret = (struct e2b_target){.port = port ? port_of(port, strlen(port)) : 0};
        ret->is_debug = str_equal(id, E2B_DEBUG_ID);
        take_id(id, ret);
        return true;
    }
    if (e2b_host_read(http_header(http, "Host"), ret))
        return true;
    *ret = (struct e2b_target){.port = debug_port(http_header(http, "Host"))};
    if (e2b_token_id(http_header(http, "X-Access-Token"), ret->id))
        return true;
    ret->is_debug = ret->port > 0;
    return ret->is_debug;
}

/* ---- tokens ---- */

void e2b_token_make(const uint8_t secret[SHA256_BYTES], const char *id, char text[E2B_TOKEN_MAX])
{
    uint8_t digest[SHA256_BYTES];
    char message[64], hex[SHA256_TEXT];

    str_format(message, sizeof(message), "e2b\n%.*s", E2B_ID_LENGTH, id);
    hmac_sha256(secret, SHA256_BYTES, message, strlen(message), digest);
    sha256_text(digest, hex);
    str_format(text, E2B_TOKEN_MAX, TOKEN_PREFIX "%.*s%.*s", E2B_ID_LENGTH, id, TOKEN_DIGITS, hex);
}

bool e2b_token_id(const char *text, char id[E2B_ID_LENGTH + 1])
{
    const char *at = text && str_starts(text, TOKEN_PREFIX) ? text + strlen(TOKEN_PREFIX) : NULL;

    if (!at || strlen(at) != E2B_ID_LENGTH + TOKEN_DIGITS || !is_id(at, E2B_ID_LENGTH))
        return false;
    str_format(id, E2B_ID_LENGTH + 1, "%.*s", E2B_ID_LENGTH, at);
    return true;
}

static bool is_same(const char *a, const char *b)
{
    uint8_t digests[2][SHA256_BYTES];

    sha256(a, strlen(a), digests[0]);
    sha256(b, strlen(b), digests[1]);
    return hmac_equal(digests[0], digests[1]);
}

bool e2b_token_check(const uint8_t secret[SHA256_BYTES], const char *id, const char *text)
{
    char own[E2B_TOKEN_MAX];

    e2b_token_make(secret, id, own);
    return text && is_same(own, text);
}

/* ---- signed addresses ---- */

/* v1_ and base64 of SHA-256 without its padding. */
static void sign(const struct e2b_signature *about, const char *token, char *text, size_t size)
{
    CLEANUP(buf_free) struct buf raw = BUF_INIT(RAW_MAX);
    CLEANUP(buf_free) struct buf encoded = BUF_INIT(128);
    uint8_t digest[SHA256_BYTES];

    text[0] = '\0';
    if (buf_printf(&raw, "%s:%s:%s:%s", about->path, about->operation, about->user, token) < 0 ||
        (about->expiration && buf_printf(&raw, ":%s", about->expiration) < 0))
        return;
    sha256(buf_text(&raw), raw.length, digest);
    if (base64_encode(digest, sizeof(digest), &encoded) < 0)
        return;
    str_format(text, size, "v1_%.*s", (int)strcspn(buf_text(&encoded), "="), buf_text(&encoded));
}

enum e2b_verdict e2b_signature_check(const struct e2b_signature *signature, const char *token,
                                     uint64_t now_s)
{
    uint64_t expires_s = 0;
    char own[64];

    if (!signature->signature || !signature->signature[0])
        return E2B_UNSIGNED;
    sign(signature, token, own, sizeof(own));
    if (!own[0] || !is_same(own, signature->signature))
        return E2B_WRONG;
    if (!signature->expiration)
        return E2B_SIGNED;
    return str_to_u64(signature->expiration, &expires_s) == 0 && expires_s >= now_s ? E2B_SIGNED
                                                                                    : E2B_EXPIRED;
}
