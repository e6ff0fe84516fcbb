/* rows.c - the addresses of OpenAI's containers and files, and this door's row. */
#include "api/containers/containers.h"
#include "api/front/row_text.h"
#include "base/cleanup.h"

/* clang-format off */
#define OR_NULL(schema) "{\"anyOf\":[" schema ",{\"type\":\"null\"}]}"
#define S_ORDER   JSON({"type":"string","enum":["asc","desc"]})
#define S_LIMIT   JSON({"type":"integer","minimum":1,"maximum":100,"default":20})
#define S_MANY    JSON({"type":"integer","minimum":1,"maximum":10000,"default":10000})
#define S_PURPOSE JSON({"type":"string","enum":["assistants","batch","fine-tune","vision","user_data","evals"]})
#define S_ANCHOR  JSON({"type":"string","enum":["last_active_at"]})
#define S_MINUTES JSON({"type":"integer","minimum":1,"maximum":1440})
#define S_MEMORY  JSON({"type":["string","null"],"enum":["1g","4g","16g","64g",null]})
#define S_POLICY  JSON({"type":["object","null"],"additionalProperties":true})
#define S_BYTES   JSON({"type":"string","format":"binary"})
#define S_INTEGER JSON({"type":"integer"})
#define S_EXPIRES OPEN_OBJECT(MEMBER("anchor", S_ANCHOR) ALSO("minutes", S_MINUTES), "anchor", "minutes")

#define B_CONTAINER                                                              \
    OBJECT(MEMBER("name", S_NAME)                                                \
           ALSO("file_ids", OR_NULL(ARRAY_UP_TO(S_STRING, 50)))                  \
           ALSO("expires_after", S_EXPIRES)                                      \
           ALSO("memory_limit", S_MEMORY)                                        \
           ALSO("network_policy", S_POLICY), "name")
#define E_CONTAINER JSON({"name":"analysis","expires_after":{"anchor":"last_active_at","minutes":20}})
#define B_CONTAINER_FILE OPEN_OBJECT(MEMBER("file", S_BYTES) ALSO("file_id", S_STRING))
#define B_FILE OPEN_OBJECT(MEMBER("file", S_BYTES) ALSO("purpose", S_PURPOSE), "file", "purpose")

#define PAGE(noun) MEMBER("object", S_STRING) ALSO("data", ARRAY_OF(REF(noun))) \
    ALSO("first_id", JSON({"type":["string","null"]})) ALSO("last_id", JSON({"type":["string","null"]})) \
    ALSO("has_more", S_BOOLEAN)
#define R_PAGE(noun) OPEN_OBJECT(PAGE(noun), "object", "data", "first_id", "last_id", "has_more")
#define R_DELETED OPEN_OBJECT(MEMBER("id", S_STRING) ALSO("object", S_STRING) ALSO("deleted", S_BOOLEAN), \
    "id", "object", "deleted")

#define CONTAINER_ID IN_THE_PATH("id", "id of a container: `cntr_...`")
#define CONTAINER_FILE_ID IN_THE_PATH("file", "id of a file of the container: `cfile_...`")
#define FILE_ID IN_THE_PATH("id", "id of an uploaded file: `file-...`")
#define PAGE_ORDER QUERY("order", S_ORDER, "by the time of creation; default `desc`")
#define PAGE_AFTER QUERY("after", S_STRING, "the id of the item before the page: `last_id` of the page before")

static const char schemas[] =
    OPENAI_ERROR_SCHEMA ","
    "\"Container\":" OPEN_OBJECT(
        MEMBER("id", S_STRING) ALSO("object", S_STRING) ALSO("name", S_STRING)
        ALSO("created_at", S_INTEGER) ALSO("status", JSON({"type":"string","enum":["running","expired"]}))
        ALSO("last_active_at", S_INTEGER) ALSO("expires_after", S_ANY_OBJECT)
        ALSO("memory_limit", S_MEMORY) ALSO("network_policy", S_POLICY),
        "id", "object", "name", "created_at", "status", "last_active_at", "expires_after",
        "memory_limit", "network_policy") ","
    "\"ContainerFile\":" OPEN_OBJECT(
        MEMBER("id", S_STRING) ALSO("object", S_STRING) ALSO("container_id", S_STRING)
        ALSO("created_at", S_INTEGER) ALSO("bytes", S_COUNT) ALSO("path", S_STRING)
        ALSO("source", JSON({"type":"string","enum":["user","assistant"]})),
        "id", "object", "container_id", "created_at", "bytes", "path", "source") ","
    "\"UploadedFile\":" OPEN_OBJECT(
        MEMBER("id", S_STRING) ALSO("object", S_STRING) ALSO("bytes", S_COUNT)
        ALSO("created_at", S_INTEGER) ALSO("filename", S_STRING) ALSO("purpose", S_PURPOSE)
        ALSO("status", S_STRING) ALSO("expires_at", S_INTEGER),
        "id", "object", "bytes", "created_at", "filename", "purpose", "status");
/* clang-format on */

static const struct door_field schema_fields[] = {
    {"OpenAIError", "An error as OpenAI's clients read it; all four members are always there."},
    {"OpenAIError.error", "The error."},
    {"OpenAIError.error.message", "What is wrong and what to do."},
    {"OpenAIError.error.type", "`invalid_request_error`, `too_many_requests` or `server_error`."},
    {"OpenAIError.error.param", "The member or argument that is wrong, or null."},
    {"OpenAIError.error.code", "The engine's code of the error."},
    {"Container", "A session as OpenAI's clients see it."},
    {"Container.id", "Its id: `cntr_...`."},
    {"Container.object", "`container`."},
    {"Container.name", "The name that it was made with; `auto` if a response made it."},
    {"Container.created_at", "When it was made, in seconds since 1970."},
    {"Container.status", "`expired`: its data is gone, and it cannot be used any more."},
    {"Container.last_active_at", "When it was last used, in seconds since 1970."},
    {"Container.expires_after", "`anchor` is `last_active_at`; `minutes` is the idle time."},
    {"Container.memory_limit", "As it was asked for; null: the server's own limit."},
    {"Container.network_policy", "As it was asked for; a container has no network."},
    {"ContainerFile", "A file in a container."},
    {"ContainerFile.id", "Its id: `cfile_...`; kept while the file has this path."},
    {"ContainerFile.object", "`container.file`."},
    {"ContainerFile.container_id", "The container."},
    {"ContainerFile.created_at", "When it was first seen, in seconds since 1970."},
    {"ContainerFile.bytes", "Its size."},
    {"ContainerFile.path", "Its path for code: `/mnt/data/...` or `/tmp/output/...`."},
    {"ContainerFile.source", "`user`: it was uploaded; `assistant`: code wrote it."},
    {"UploadedFile", "A file that was uploaded, for any container."},
    {"UploadedFile.id", "Its id: `file-...`."},
    {"UploadedFile.object", "`file`."},
    {"UploadedFile.bytes", "Its size."},
    {"UploadedFile.created_at", "When it was uploaded, in seconds since 1970."},
    {"UploadedFile.filename", "Its name."},
    {"UploadedFile.purpose", "As the client said; it changes nothing here."},
    {"UploadedFile.status", "`processed`."},
    {"UploadedFile.expires_at", "When it is removed, in seconds since 1970; missing: never."},
    {NULL, NULL},
};

static const struct door_tag tags[] = {
    {"Containers", "Containers and files in OpenAI's shapes ([containers.md](containers.md))."},
    {NULL, NULL},
};

static const struct door_field container_fields[] = {
    {"name", "A name for people; several containers may have it."},
    {"file_ids", "Uploaded files that are copied into `/mnt/data`."},
    {"expires_after", "The idle time after which the data is removed; default 20 minutes."},
    {"expires_after.anchor", "Always `last_active_at`."},
    {"expires_after.minutes", "The idle time."},
    {"memory_limit", "Not more than `SANDBOX_MEMORY_LIMIT`; null: as much as that."},
    {"network_policy", "`{\"type\":\"disabled\"}`; `allowlist` is an error."},
    {NULL, NULL},
};

static const struct door_field container_file_fields[] = {
    {"file", "The file."},
    {"file_id", "Instead of a file: the id of an uploaded one."},
    {NULL, NULL},
};

static const struct door_field file_fields[] = {
    {"file", "The file; at most 512 MB."},
    {"purpose", "What it is for; it changes nothing here."},
    {NULL, NULL},
};

static const struct door_route routes[] = {
    {
        .method = "POST",
        .path = "/v1/containers",
        .name = "createContainer",
        .summary = "Makes a container",
        .tag = "Containers",
        .description = "A container is a session; its sandbox is made when code first runs in it, "
                       "or when a file is put there.",
        .body = BODY_JSON,
        .request = B_CONTAINER,
        .fields = container_fields,
        .example = E_CONTAINER,
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("Container"),
        .scope = SCOPE_SESSIONS,
        .handle = containers_create,
    },
    {
        .method = "GET",
        .path = "/v1/containers",
        .name = "listContainers",
        .summary = "Lists containers",
        .tag = "Containers",
        .description = "Expired ones too, until there are a thousand.",
        .params = {QUERY("limit", S_LIMIT, "items of a page"), PAGE_ORDER, PAGE_AFTER,
                   QUERY("name", S_STRING, "only those with this name")},
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_PAGE("Container"),
        .scope = SCOPE_SESSIONS,
        .handle = containers_list,
    },
    {
        .method = "GET",
        .path = "/v1/containers/{id}",
        .name = "getContainer",
        .summary = "Shows a container",
        .tag = "Containers",
        .description = "This counts as a use: the idle time begins again.",
        .params = {CONTAINER_ID},
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("Container"),
        .scope = SCOPE_SESSIONS,
        .handle = containers_get,
    },
    {
        .method = "DELETE",
        .path = "/v1/containers/{id}",
        .name = "deleteContainer",
        .summary = "Deletes a container with its data",
        .tag = "Containers",
        .description = "Its session ends.",
        .params = {CONTAINER_ID},
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_DELETED,
        .scope = SCOPE_SESSIONS,
        .handle = containers_delete,
    },
    {
        .method = "POST",
        .path = "/v1/containers/{id}/files",
        .name = "createContainerFile",
        .summary = "Puts a file into a container",
        .tag = "Containers",
        .description = "A file in a form, or the id of an uploaded file in a form or as JSON. It "
                       "is written to `/mnt/data`, and replaces a file of its name.",
        .params = {CONTAINER_ID},
        .body = BODY_FORM,
        .request = B_CONTAINER_FILE,
        .fields = container_file_fields,
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("ContainerFile"),
        .scope = SCOPE_FILES,
        .handle = container_files_create,
    },
    {
        .method = "GET",
        .path = "/v1/containers/{id}/files",
        .name = "listContainerFiles",
        .summary = "Lists the files of a container",
        .tag = "Containers",
        .description = "Files of `/mnt/data` and `/tmp/output`, without hidden ones.",
        .params = {CONTAINER_ID, QUERY("limit", S_LIMIT, "items of a page"), PAGE_ORDER,
                   PAGE_AFTER},
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_PAGE("ContainerFile"),
        .scope = SCOPE_FILES,
        .handle = container_files_list,
    },
    {
        .method = "GET",
        .path = "/v1/containers/{id}/files/{file}",
        .name = "getContainerFile",
        .summary = "Shows a file of a container",
        .tag = "Containers",
        .description = "Its bytes are at `.../content`.",
        .params = {CONTAINER_ID, CONTAINER_FILE_ID},
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("ContainerFile"),
        .scope = SCOPE_FILES,
        .handle = container_files_get,
    },
    {
        .method = "DELETE",
        .path = "/v1/containers/{id}/files/{file}",
        .name = "deleteContainerFile",
        .summary = "Deletes a file of a container",
        .tag = "Containers",
        .description = "An uploaded file that it was copied from stays.",
        .params = {CONTAINER_ID, CONTAINER_FILE_ID},
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_DELETED,
        .scope = SCOPE_FILES,
        .handle = container_files_delete,
    },
    {
        .method = "GET",
        .path = "/v1/containers/{id}/files/{file}/content",
        .name = "getContainerFileContent",
        .summary = "The bytes of a file of a container",
        .tag = "Containers",
        .description = "They are read from the container as they are sent.",
        .params = {CONTAINER_ID, CONTAINER_FILE_ID},
        .status = 200,
        .type = TYPE_BYTES,
        .scope = SCOPE_FILES,
        .handle = container_files_content,
    },
    {
        .method = "POST",
        .path = "/v1/files",
        .name = "uploadFile",
        .summary = "Uploads a file",
        .tag = "Containers",
        .description = "It is stored on the server until it is deleted or expires "
                       "(`expires_after[anchor]`, `expires_after[seconds]`), and counts in the "
                       "disk quota.",
        .body = BODY_FORM,
        .request = B_FILE,
        .fields = file_fields,
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("UploadedFile"),
        .scope = SCOPE_FILES,
        .handle = uploads_create,
    },
    {
        .method = "GET",
        .path = "/v1/files",
        .name = "listUploadedFiles",
        .summary = "Lists uploaded files",
        .tag = "Containers",
        .description = "Those of the key's tenant.",
        .params = {QUERY("purpose", S_STRING, "only those with this purpose"),
                   QUERY("limit", S_MANY, "items of a page"), PAGE_ORDER, PAGE_AFTER},
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_PAGE("UploadedFile"),
        .scope = SCOPE_FILES,
        .handle = uploads_list,
    },
    {
        .method = "GET",
        .path = "/v1/files/{id}",
        .name = "getUploadedFile",
        .summary = "Shows an uploaded file",
        .tag = "Containers",
        .description = "Its bytes are at `.../content`.",
        .params = {FILE_ID},
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("UploadedFile"),
        .scope = SCOPE_FILES,
        .handle = uploads_get,
    },
    {
        .method = "DELETE",
        .path = "/v1/files/{id}",
        .name = "deleteUploadedFile",
        .summary = "Deletes an uploaded file",
        .tag = "Containers",
        .description = "Copies of it in containers stay.",
        .params = {FILE_ID},
        .status = 200,
        .type = TYPE_JSON,
        .reply = R_DELETED,
        .scope = SCOPE_FILES,
        .handle = uploads_delete,
    },
    {
        .method = "GET",
        .path = "/v1/files/{id}/content",
        .name = "getUploadedFileContent",
        .summary = "The bytes of an uploaded file",
        .tag = "Containers",
        .description = "As they were uploaded.",
        .params = {FILE_ID},
        .status = 200,
        .type = TYPE_BYTES,
        .scope = SCOPE_FILES,
        .handle = uploads_content,
    },
};

extern const struct door_ops containers_door;

const struct door_ops containers_door = {
    .name = "containers",
    .tags = tags,
    .routes = routes,
    .route_count = ARRAY_SIZE(routes),
    .schemas = schemas,
    .schema_fields = schema_fields,
    .fail = openai_door_fail,
    .refuse = openai_door_refuse,
    .responses = openai_responses,
};
