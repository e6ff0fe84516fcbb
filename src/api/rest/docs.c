/*
 * docs.c - GET /openapi.json and the page at /docs, which reads it: one HTML file in the program,
 * without external resources.
 *
 * The Content-Security-Policy names the hashes of the page's own script and style: nothing else
 * runs in it, whatever a reply of the server contains.
 */
#include <string.h>

#include "api/front/openapi.h"
#include "api/rest/rest_private.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/sha256.h"
#include "base/str.h"
#include "web_files.h"

#define DOCUMENT_MAX (4 * MIB)
#define HASH_TEXT 64

void docs_openapi(struct door_call *call)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(DOCUMENT_MAX);

    if (openapi_write(&call->front->doors, &text) < 0)
        front_fail_memory(call->http);
    else
        http_reply(call->http, 200, TYPE_JSON, NULL, buf_text(&text), text.length);
}

/* Base64 of the SHA-256 of the text between the tags; empty: the tags are missing. */
static void hash_between(const char *page, const char *start, const char *end, char text[HASH_TEXT])
{
    CLEANUP(buf_free) struct buf encoded = BUF_INIT(HASH_TEXT);
    const char *from = strstr(page, start);
    const char *to = from ? strstr(from, end) : NULL;
    uint8_t digest[SHA256_BYTES];

    text[0] = '\0';
    if (!to)
        return;
    from += strlen(start);
    sha256(from, (size_t)(to - from), digest);
    if (base64_encode(digest, sizeof(digest), &encoded) == 0)
        str_copy(text, HASH_TEXT, buf_text(&encoded));
}

void docs_page(struct door_call *call)
{
    const char *page = (const char *)web_docs_html;
    char script[HASH_TEXT], style[HASH_TEXT], policy[400];
    const char *const headers[] = {policy, "X-Content-Type-Options: nosniff",
                                   "Referrer-Policy: no-referrer", "Cache-Control: no-cache", NULL};

    hash_between(page, "<script>", "</script>", script);
    hash_between(page, "<style>", "</style>", style);
    str_format(policy, sizeof(policy),
               "Content-Security-Policy: default-src 'none'; script-src 'sha256-%s'; style-src "
               "'sha256-%s'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
               "frame-ancestors 'none'",
               script, style);
    http_reply(call->http, 200, "text/html; charset=utf-8", headers, page, web_docs_html_length);
}
