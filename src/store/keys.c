/*
 * keys.c - the rows of API keys and the check of a key's text; see keys.h.
 *
 * Of a secret HMAC-SHA-256 with its own salt is stored, in hexadecimal. A secret has 192 random
 * bits, in E2B's spelling
 * 96, so no slower hash is needed: it cannot be guessed, with the hash or without.
 */
#include "store/keys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hmac.h"
#include "base/limits.h"
#include "base/str.h"
#include "store/index_private.h"

#define ID_BYTES 8
#define SECRET_BYTES 24
#define SECRET_BYTES_E2B 12 /* its keys have 40 digits after the prefix, 16 of them are the id */
#define FORMAT_E2B "e2b"
#define PREFIX_LENGTH (sizeof(KEY_PREFIX) - 1)
#define SALT_BYTES 16
#define USED_STEP_MS 60000 /* how exactly the last use is known */

/* A key's row with what only this file sees. */
struct stored {
    struct key_row row;
    char salt[2 * SALT_BYTES + 1];
    char hash[SHA256_TEXT];
    char old_hash[SHA256_TEXT]; /* empty: none */
    uint64_t old_until_ms;
    bool is_there;
};

static void to_hex(const uint8_t *bytes, size_t count, char *text)
{
    for (size_t i = 0; i < count; i++)
        str_format(text + 2 * i, 3, "%02x", bytes[i]);
}

static int random_hex(size_t count, char *text, struct error *err)
{
    uint8_t bytes[SECRET_BYTES];

    if (getrandom(bytes, count, 0) != (ssize_t)count)
        return error_errno(err, "random numbers for a key");
    to_hex(bytes, count, text);
    explicit_bzero(bytes, sizeof(bytes));
    return 0;
}

static void hash_secret(const char *salt, const char *secret, char text[SHA256_TEXT])
{
    uint8_t digest[SHA256_BYTES];

    hmac_sha256(salt, strlen(salt), secret, strlen(secret), digest);
    sha256_text(digest, text);
}

/* ---- rows ---- */

static int put(struct index *index, const struct stored *key, struct error *err)
{
    struct place place = index_place(index, PUT_KEY);

    index_put_text(&place, key->row.id);
    index_put_text(&place, key->row.tenant);
    index_put_text(&place, key->row.name);
    index_put_number(&place, key->row.scopes);
    index_put_number(&place, key->row.created_ms);
    index_put_number(&place, key->row.expires_ms);
    index_put_number(&place, key->row.used_ms);
    index_put_text(&place, key->salt);
    index_put_text(&place, key->hash);
    index_put_text(&place, key->old_hash);
    index_put_number(&place, key->old_until_ms);
    index_put_text(&place, key->row.is_e2b ? FORMAT_E2B : "");
    return index_run(&place, err);
}

static void take_text(struct place *place, char *text, size_t size)
{
    const char *found = index_take_text(place);

    if (!str_copy(text, size, found ? found : ""))
        place->code = SQLITE_CORRUPT;
}

static void take_key(struct place *place, void *ctx)
{
    struct stored *key = ctx;

    take_text(place, key->row.id, sizeof(key->row.id));
    take_text(place, key->row.tenant, sizeof(key->row.tenant));
    take_text(place, key->row.name, sizeof(key->row.name));
    key->row.scopes = (uint32_t)index_take_number(place) & SCOPE_ALL;
    key->row.created_ms = index_take_number(place);
    key->row.expires_ms = index_take_number(place);
    key->row.used_ms = index_take_number(place);
    take_text(place, key->salt, sizeof(key->salt));
    take_text(place, key->hash, sizeof(key->hash));
    take_text(place, key->old_hash, sizeof(key->old_hash));
    key->old_until_ms = index_take_number(place);
    key->row.is_e2b = str_equal(index_take_text(place), FORMAT_E2B);
    key->is_there = place->code == SQLITE_OK;
}

/* is_there says whether there is one. */
static int get(struct index *index, const char *id, struct stored *ret, struct error *err)
{
    struct place place = index_place(index, GET_KEY);

    *ret = (struct stored){0};
    index_put_text(&place, id);
    return index_each_row(&place, take_key, ret, err);
}

int keys_not_found(const char *id, struct error *err)
{
    return error_set(err, -ENOENT, ERROR_KEY_NOT_FOUND,
                     "there is no key '%.*s': 'bailey key ls' lists them", KEY_ID_MAX, id);
}

/* ---- changes ---- */

/* A new secret and its text. */
static int renew(struct stored *key, char text[KEY_TEXT_MAX], struct error *err)
{
    char secret[2 * SECRET_BYTES + 1];
    int r = random_hex(key->row.is_e2b ? SECRET_BYTES_E2B : SECRET_BYTES, secret, err);

    if (r < 0)
        return r;
    hash_secret(key->salt, secret, key->hash);
    str_format(text, KEY_TEXT_MAX, "%s%s%s%s", key->row.is_e2b ? KEY_PREFIX_E2B : KEY_PREFIX,
               key->row.id, key->row.is_e2b ? "" : ".", secret);
    explicit_bzero(secret, sizeof(secret));
    return 0;
}

static void count_row(struct place *place, void *ctx)
{
    (void)place;
    ++*(unsigned *)ctx;
}

static int check_room(struct index *index, struct error *err)
{
    struct place place = index_place(index, EACH_KEY);
    unsigned count = 0;
    int r = index_check_idle(index, EACH_KEY, err);

    if (r == 0)
        r = index_each_row(&place, count_row, &count, err);
    if (r == 0 && count >= LIMIT_KEYS)
        r = error_set(err, -E2BIG, ERROR_TOO_LARGE,
                      "there are %d keys, which is the most: remove some with 'bailey key rm'",
                      LIMIT_KEYS);
    return r;
}

int keys_add(struct index *index, struct key_row *row, char text[KEY_TEXT_MAX], struct error *err)
{
    struct stored key = {.row = *row};
    int r = check_room(index, err);

    if (r == 0)
        r = random_hex(ID_BYTES, key.row.id, err);
    if (r == 0)
        r = random_hex(SALT_BYTES, key.salt, err);
    key.row.created_ms = clock_wall_ms();
    key.row.used_ms = 0;
    if (r == 0)
        r = renew(&key, text, err);
    if (r == 0)
        r = put(index, &key, err);
    if (r == 0)
        *row = key.row;
    return r;
}

int keys_rotate(struct index *index, const char *id, uint64_t grace_ms, char text[KEY_TEXT_MAX],
                struct error *err)
{
    struct stored key;
    int r = get(index, id, &key, err);

    if (r < 0)
        return r;
    if (!key.is_there)
        return keys_not_found(id, err);
    str_copy(key.old_hash, sizeof(key.old_hash), grace_ms > 0 ? key.hash : "");
    key.old_until_ms = clock_wall_ms() + grace_ms;
    r = renew(&key, text, err);
    return r < 0 ? r : put(index, &key, err);
}

int keys_remove(struct index *index, const char *id, struct error *err)
{
    struct place place = index_place(index, DROP_KEY);
    struct stored key;
    int r = get(index, id, &key, err);

    if (r < 0)
        return r;
    if (!key.is_there)
        return keys_not_found(id, err);
    index_put_text(&place, id);
    return index_run(&place, err);
}

int keys_get(struct index *index, const char *id, struct key_row *ret, struct error *err)
{
    struct stored key;
    int r = get(index, id, &key, err);

    if (r == 0 && !key.is_there)
        r = keys_not_found(id, err);
    *ret = key.row;
    return r;
}

struct keys_call {
    void (*each)(void *ctx, const struct key_row *row);
    void *ctx;
};

static void key_row(struct place *place, void *ctx)
{
    struct keys_call *call = ctx;
    struct stored key = {0};

    take_key(place, &key);
    if (key.is_there)
        call->each(call->ctx, &key.row);
}

int keys_each(struct index *index, void (*each)(void *ctx, const struct key_row *row), void *ctx,
              struct error *err)
{
    struct keys_call call = {.each = each, .ctx = ctx};
    struct place place = index_place(index, EACH_KEY);
    int r = index_check_idle(index, EACH_KEY, err);

    return r < 0 ? r : index_each_row(&place, key_row, &call, err);
}

struct counting {
    uint64_t now_ms;
    unsigned count;
};

static void count_key(void *ctx, const struct key_row *row)
{
    struct counting *counting = ctx;

    counting->count += row->expires_ms == 0 || row->expires_ms > counting->now_ms;
}

int keys_count(struct index *index, unsigned *ret, struct error *err)
{
    struct counting counting = {.now_ms = clock_wall_ms()};
    int r = keys_each(index, count_key, &counting, err);

    *ret = counting.count;
    return r;
}

struct comparing {
    const char *tenant; /* NULL: that of the first key */
    char first[TENANT_MAX], other[TENANT_MAX];
};

static void compare_key(void *ctx, const struct key_row *row)
{
    struct comparing *comparing = ctx;

    if (!comparing->tenant) {
        str_copy(comparing->first, sizeof(comparing->first), row->tenant);
        comparing->tenant = comparing->first;
    }
    if (!str_equal(row->tenant, comparing->tenant))
        str_copy(comparing->other, sizeof(comparing->other), row->tenant);
}

int keys_one_tenant(struct index *index, const char *tenant, struct error *err)
{
    struct comparing comparing = {.tenant = tenant};
    int r = keys_each(index, compare_key, &comparing, err);

    if (r < 0 || !comparing.other[0])
        return r;
    return error_set(
        err, -EPERM, ERROR_REFUSED,
        "this container gives no namespaces, so it is one box, which one tenant has; "
        "there are keys of '%s' and of '%s': remove those of one ('bailey key ls', "
        "'bailey key rm'), or use a machine with namespaces ('bailey doctor' says what "
        "is missing)",
        comparing.tenant, comparing.other);
}

/* ---- the check ---- */

/* Cuts a key of either spelling; both empty for anything else, which is then looked for in vain. */
static void cut(const char *text, char id[KEY_ID_MAX], char secret[2 * SECRET_BYTES + 1])
{
    bool is_e2b = text && str_starts(text, KEY_PREFIX_E2B);
    size_t length = 2 * (is_e2b ? SECRET_BYTES_E2B : SECRET_BYTES);
    const char *at = text && (is_e2b || str_starts(text, KEY_PREFIX)) ? text + PREFIX_LENGTH : NULL;
    const char *rest;

    _Static_assert(sizeof(KEY_PREFIX) == sizeof(KEY_PREFIX_E2B), "one length of prefixes");
    id[0] = secret[0] = '\0';
    if (!at || strnlen(at, 2 * ID_BYTES) < 2 * ID_BYTES || (!is_e2b && at[2 * ID_BYTES] != '.'))
        return;
    rest = at + 2 * ID_BYTES + !is_e2b;
    if (strlen(rest) != length || memchr(at, '.', 2 * ID_BYTES))
        return;
    str_format(id, KEY_ID_MAX, "%.*s", 2 * ID_BYTES, at);
    str_copy(secret, 2 * SECRET_BYTES + 1, rest);
}

static bool is_same(const char *a, const char *b)
{
    uint8_t digests[2][SHA256_BYTES];

    sha256(a, strlen(a), digests[0]);
    sha256(b, strlen(b), digests[1]);
    return hmac_equal(digests[0], digests[1]);
}

static void note_use(struct index *index, struct stored *key, uint64_t now_ms)
{
    struct error ignored = {0};

    if (now_ms < key->row.used_ms + USED_STEP_MS)
        return;
    /* A key was not used before it existed. */
    key->row.used_ms = MAX(now_ms - now_ms % USED_STEP_MS, key->row.created_ms);
    put(index, key, &ignored); /* a full disk is no reason to refuse a request */
}

/* Enough of a hash to tell two texts of a key apart. */
static uint64_t mark_of(const char hash[SHA256_TEXT])
{
    uint64_t mark = 0;

    for (int i = 0; i < 16 && hash[i]; i++)
        mark = mark << 4 | (uint64_t)(hash[i] <= '9' ? hash[i] - '0' : hash[i] - 'a' + 10);
    return mark;
}

/* 0: until it is taken away. */
static uint64_t until_of(const struct stored *key, bool is_old)
{
    uint64_t expires_ms = key->row.expires_ms;

    if (!is_old)
        return expires_ms;
    return expires_ms ? MIN(expires_ms, key->old_until_ms) : key->old_until_ms;
}

int keys_stand_in(struct index *index, const char *id, uint64_t now_ms, struct principal *ret,
                  struct error *err)
{
    struct stored key;
    int r = get(index, id, &key, err);

    if (r < 0)
        return r;
    if (!key.is_there || (key.row.expires_ms != 0 && now_ms >= key.row.expires_ms))
        return error_set(err, -EACCES, ERROR_UNAUTHORIZED,
                         "the key that this was made with was removed or has expired");
    *ret = (struct principal){
        .scopes = key.row.scopes, .key_mark = mark_of(key.hash), .until_ms = key.row.expires_ms};
    str_copy(ret->tenant, sizeof(ret->tenant), key.row.tenant);
    str_copy(ret->key, sizeof(ret->key), key.row.id);
    return 0;
}

bool keys_check_again(struct index *index, uint64_t now_ms, struct principal *who)
{
    struct error ignored = {0};
    struct stored key;
    bool is_old;

    if (get(index, who->key, &key, &ignored) < 0 || !key.is_there)
        return false;
    is_old = mark_of(key.hash) != who->key_mark;
    if (is_old && (!key.old_hash[0] || mark_of(key.old_hash) != who->key_mark))
        return false;
    who->until_ms = until_of(&key, is_old);
    return who->until_ms == 0 || now_ms < who->until_ms;
}

int keys_check(struct index *index, const char *text, uint64_t now_ms, struct principal *ret,
               struct error *err)
{
    char id[KEY_ID_MAX], secret[2 * SECRET_BYTES + 1], hash[SHA256_TEXT];
    bool is_new, is_old, is_expired;
    struct stored key;
    int r;

    cut(text, id, secret);
    r = get(index, id, &key, err);
    if (r < 0)
        return r;
    hash_secret(key.salt, secret, hash);
    is_new = is_same(hash, key.hash);
    is_old = is_same(hash, key.old_hash) && now_ms < key.old_until_ms;
    is_expired = key.row.expires_ms != 0 && now_ms >= key.row.expires_ms;
    explicit_bzero(secret, sizeof(secret));
    if (!key.is_there || !(is_new || is_old) || is_expired)
        return error_set(err, -EACCES, ERROR_UNAUTHORIZED,
                         "this key is not valid: it is unknown, has expired or was changed; "
                         "'bailey key new' makes one");
    note_use(index, &key, now_ms);
    *ret = (struct principal){
        .scopes = key.row.scopes, .key_mark = mark_of(hash), .until_ms = until_of(&key, !is_new)};
    str_copy(ret->tenant, sizeof(ret->tenant), key.row.tenant);
    str_copy(ret->key, sizeof(ret->key), key.row.id);
    return 0;
}
