/*
 * keys.h - API keys in the index: creating, finding, changing, removing. A key is
 * bly_<id>.<secret>, or in E2B's spelling e2b_<id><secret>, all hexadecimal.
 *
 * Only a salted hash of the secret (HMAC-SHA-256) is stored; the text of a key exists only in the
 * reply that made it. A key is looked up by its id and its hash compared in constant time; for an
 * id that is unknown or has expired the same work is done and the same error returned. Blocks for
 * the disk as index.h does.
 *
 * Runs in: broker, commands
 */
#ifndef BAILEY_STORE_KEYS_H
#define BAILEY_STORE_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "model/principal.h"
#include "store/index.h"

#define KEY_PREFIX "bly_"
#define KEY_PREFIX_E2B "e2b_"
#define KEY_TEXT_MAX 96  /* with its NUL */
#define KEY_NAME_MAX 100 /* what a person calls it, with its NUL */

struct key_row {
    char id[KEY_ID_MAX];
    char tenant[TENANT_MAX];
    char name[KEY_NAME_MAX];
    uint32_t scopes;
    bool is_e2b; /* in E2B's spelling, which a new secret keeps */
    uint64_t created_ms;
    uint64_t expires_ms; /* 0: never */
    uint64_t used_ms;    /* to the minute; 0: never */
};

/*
 * `row` says tenant, name, scopes, spelling and expiry; the rest is filled in. Errors: disk_full,
 * too_large (LIMIT_KEYS).
 */
int keys_add(struct index *index, struct key_row *row, char text[KEY_TEXT_MAX], struct error *err);
/* A new secret under the same id; the old one stays valid for grace_ms. -ENOENT: key_not_found. */
int keys_rotate(struct index *index, const char *id, uint64_t grace_ms, char text[KEY_TEXT_MAX],
                struct error *err);
int keys_remove(struct index *index, const char *id, struct error *err); /* -ENOENT */
int keys_get(struct index *index, const char *id, struct key_row *ret,
             struct error *err); /* -ENOENT */
/* The error of a key that does not exist; returns -ENOENT. */
int keys_not_found(const char *id, struct error *err);
int keys_each(struct index *index, void (*each)(void *ctx, const struct key_row *row), void *ctx,
              struct error *err);
/*
 * Where one tenant has the only box: no key is of another tenant than this one; NULL: than the
 * first. -EPERM: ERROR_REFUSED.
 */
int keys_one_tenant(struct index *index, const char *tenant, struct error *err);
int keys_count(struct index *index, unsigned *ret, struct error *err); /* that are not expired */

/*
 * The principal of a key; for everything that is wrong -EACCES (ERROR_UNAUTHORIZED) and nothing
 * else.
 */
int keys_check(struct index *index, const char *text, uint64_t now_ms, struct principal *ret,
               struct error *err);
/*
 * The principal of a key that another secret stands for: a token that was made with it. -EACCES:
 * the key was removed or has expired.
 */
int keys_stand_in(struct index *index, const char *id, uint64_t now_ms, struct principal *ret,
                  struct error *err);
/*
 * Whether a principal that was admitted would be admitted again with the same key, and until when.
 */
bool keys_check_again(struct index *index, uint64_t now_ms, struct principal *who);

#endif
