/*
 * fuzz_e2b.c - any bytes as what E2B's clients send: hosts, tokens, paths, envelopes and base64.
 * Nothing is read beyond their end, and what is accepted is what the rules say.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/sandboxes/e2b.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int is_true)
{
    if (!is_true)
        abort();
}

static void try_text(const char *text)
{
    static const uint8_t secret[SHA256_BYTES];
    char id[E2B_ID_LENGTH + 1], path[LIMIT_PATH_BYTES + 1], token[E2B_TOKEN_MAX];
    struct e2b_signature signature = {
        .path = text, .user = "", .operation = "read", .signature = text, .expiration = text};
    struct e2b_target target;
    struct error err = {0};

    if (e2b_host_read(text, &target))
        check(strlen(target.id) == E2B_ID_LENGTH && target.port > 0 && target.port <= 65535);
    if (e2b_token_id(text, id)) {
        check(strlen(id) == E2B_ID_LENGTH);
        e2b_token_make(secret, id, token);
        check(e2b_token_check(secret, id, text) == (strcmp(token, text) == 0));
    }
    check(e2b_signature_check(&signature, "bet_x", 1) != E2B_SIGNED);
    if (e2b_path(text, path, &err) == 0)
        check(path[0] == '/' && !strstr(path, "//") && !strstr(path, "/../"));
    if (e2b_file_path(text, path, &err) == 0)
        check(strncmp(path, "/home/user", 10) == 0 || strncmp(path, "/tmp", 4) == 0 ||
              strncmp(path, "/workspace", 10) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct buf bytes = BUF_INIT(1 << 20);
    char *text = malloc(size + 1);
    const char *at, *message;
    size_t left = size, length, sum = 0;
    json_t *value;

    check(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    at = text;
    while (e2b_envelope_next(&at, &left, &message, &length) == 1)
        sum += length + 5;
    check(sum + left == size);
    value = json_stringn_nocheck(text, size);
    (void)e2b_bytes(value, &bytes);
    json_decref(value);
    buf_free(&bytes);
    try_text(text);
    free(text);
    return 0;
}
