/*
 * routes_keys.h - rows of the REST door about API keys; included by routes.c in the middle of its
 * table, and by nobody else.
 *
 * Runs in: broker
 */

#define S_SCOPES                                                                                 \
    "{\"type\":\"array\",\"minItems\":1,\"maxItems\":5,\"items\":{\"type\":\"string\",\"enum\":" \
    "[\"run\",\"sessions\",\"files\",\"metrics\",\"admin\"]}}"
#define S_YEARS "{\"type\":\"number\",\"minimum\":1,\"maximum\":315360000}"
#define S_GRACE "{\"type\":\"number\",\"minimum\":0,\"maximum\":31536000}"
#define B_KEY                                                                \
    OBJECT(MEMBER("name", S_STRING) "," MEMBER("tenant", S_NAME) "," MEMBER( \
               "scopes", S_SCOPES) "," MEMBER("expires_s", S_YEARS),         \
           "")
#define B_ROTATE OBJECT(MEMBER("grace_s", S_GRACE), "")
#define KEY_ID                                                                  \
    {                                                                           \
        "id", IN_PATH, true, S_NAME, "the key's id: what stands before the dot" \
    }

{"GET",      "/v1/keys",
 "listKeys", "API keys of all tenants, without their texts",
 {{0}},      BODY_NONE,
 NULL,       200,
 TYPE_JSON,  LIST_OF("keys", "Key"),
 "",         SCOPE_ADMIN,
 false,      keys_list},
    {"POST",
     "/v1/keys",
     "createKey",
     "Makes an API key; its text is in this reply and nowhere else",
     {{0}},
     BODY_JSON,
     B_KEY,
     201,
     TYPE_JSON,
     REF("Key"),
     "too_large disk_full",
     SCOPE_ADMIN,
     false,
     keys_create},
    {"POST",
     "/v1/keys/{id}/rotate",
     "rotateKey",
     "Gives a key a new secret; the old one works for grace_s more (0)",
     {KEY_ID},
     BODY_JSON,
     B_ROTATE,
     200,
     TYPE_JSON,
     REF("Key"),
     "key_not_found disk_full",
     SCOPE_ADMIN,
     false,
     keys_rotate_one},
    {"DELETE",
     "/v1/keys/{id}",
     "deleteKey",
     "Removes a key: whoever has it gets no more",
     {KEY_ID},
     BODY_NONE,
     NULL,
     200,
     TYPE_JSON,
     OBJECT(MEMBER("id", S_STRING), "\"id\""),
     "key_not_found disk_full",
     SCOPE_ADMIN,
     false,
     keys_delete},
