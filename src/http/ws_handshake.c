/* ws_handshake.c - see ws_handshake.h; and which requests ask for a WebSocket. */
#include "http/ws_handshake.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <string.h>
#include <strings.h>

#include "base/base64.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "http/http_private.h"
#include "http/websocket.h"

#define KEY_LENGTH BASE64_LENGTH(16)
#define SHA1_BYTES 20
#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11" /* RFC 6455 section 1.3 */

bool ws_list_each(const char *list, bool (*each)(void *ctx, const char *word, size_t length),
                  void *ctx)
{
    for (const char *end; list && *list; list = *end ? end + 1 : end) {
        const char *word = list + strspn(list, " \t");
        size_t length;

        end = strchrnul(list, ',');
        word = word < end ? word : end;
        length = (size_t)(end - word);
        while (length > 0 && (word[length - 1] == ' ' || word[length - 1] == '\t'))
            length--;
        if (length > 0 && each(ctx, word, length))
            return true;
    }
    return false;
}

static bool is_word(void *ctx, const char *word, size_t length)
{
    const char *wanted = ctx;

    return strlen(wanted) == length && strncasecmp(word, wanted, length) == 0;
}

bool ws_list_has(const char *list, const char *word)
{
    return ws_list_each(list, is_word, (void *)word);
}

bool ws_key_is_good(const char *key)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(KEY_LENGTH);

    return key && strlen(key) == KEY_LENGTH && base64_decode(key, KEY_LENGTH, &bytes) == 0 &&
           bytes.length == 16;
}

void ws_accept(const char *key, char text[WS_ACCEPT_MAX])
{
    CLEANUP(buf_free) struct buf encoded = BUF_INIT(WS_ACCEPT_MAX);
    char whole[KEY_LENGTH + sizeof(GUID)];
    uint8_t digest[SHA1_BYTES];

    str_format(whole, sizeof(whole), "%s%s", key, GUID);
    text[0] = '\0';
    if (gnutls_hash_fast(GNUTLS_DIG_SHA1, whole, strlen(whole), digest) == 0 &&
        base64_encode(digest, sizeof(digest), &encoded) == 0)
        str_copy(text, WS_ACCEPT_MAX, buf_text(&encoded));
}

int http_wants_websocket(const struct http_request *request)
{
    const char *version = http_header(request, "Sec-WebSocket-Version");

    if (!ws_list_has(http_header(request, "Upgrade"), "websocket"))
        return 0;
    if (!str_equal(request->method, "GET") ||
        !ws_list_has(http_header(request, "Connection"), "upgrade") || !str_equal(version, "13") ||
        !ws_key_is_good(http_header(request, "Sec-WebSocket-Key")))
        return -EPROTO;
    /* Nothing says where a body would end and the frames begin. */
    if (request->body_length > 0 || http_header(request, "Transfer-Encoding"))
        return -EPROTO;
    return 1;
}
