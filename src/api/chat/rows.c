/* rows.c - the address of the door that answers messages, and this door's row. */
#include <stdlib.h>

#include "api/chat/chat.h"
#include "api/front/row_text.h"
#include "api/simple_output.h"
#include "base/cleanup.h"

/* clang-format off */
#define FILE_OBJECT OBJECT(MEMBER("name", S_NAME) ALSO("content", S_TEXT) \
    ALSO("content_base64", S_STRING) ALSO("file_id", S_NAME))
#define S_FILES "{\"type\":\"array\",\"maxItems\":50,\"items\":{\"anyOf\":[{\"type\":\"string\"}," FILE_OBJECT "]}}"
#define B_CHAT                                                                  \
    OBJECT(MEMBER("message", S_NAME)                                            \
           ALSO("files", S_FILES)                                               \
           ALSO("session", S_STRING)                                            \
           ALSO("model", S_NAME)                                                \
           ALSO("stream", S_BOOLEAN)                                            \
           ALSO("verbose", S_BOOLEAN), "message")
#define E_CHAT JSON({"message":"Plot the sales of each month","files":[{"name":"sales.csv","content":"month,total\nJan,42\n"}]})

#define S_DELTA OPEN_OBJECT(MEMBER("delta", S_STRING), "delta")
#define S_CODE OPEN_OBJECT(MEMBER("code", S_STRING), "code")
#define S_FAILURE OPEN_OBJECT(MEMBER("code", S_STRING) ALSO("message", S_STRING), "code", "message")

static const char schemas[] =
    "\"ChatFile\":" OPEN_OBJECT(
        MEMBER("name", S_STRING) ALSO("id", S_STRING) ALSO("url", S_STRING) ALSO("mime", S_STRING)
        ALSO("bytes", S_COUNT), "name", "id", "url", "mime", "bytes") ","
    "\"ChatStep\":" OPEN_OBJECT(
        MEMBER("code", S_STRING) ALSO("output", REF("ChatOutput")), "code", "output") ","
    "\"ChatOutput\":" OPEN_OBJECT(
        MEMBER("type", JSON({"type":"string","enum":["text","image/png","error"]}))
        ALSO("content", S_STRING), "type", "content") ","
    "\"ChatReply\":" OPEN_OBJECT(
        MEMBER("content", S_STRING)
        ALSO("files", ARRAY_OF(REF("ChatFile")))
        ALSO("code_log", ARRAY_OF(REF("ChatStep")))
        ALSO("session", S_STRING) ALSO("container", S_STRING) ALSO("note", S_STRING)
        ALSO("log", ARRAY_OF(S_ANY_OBJECT)) ALSO("usage", S_ANY_OBJECT),
        "content", "files", "code_log", "session", "container");
/* clang-format on */

static const struct door_field schema_fields[] = {
    {"ChatFile", "A file that the code made or changed."},
    {"ChatFile.name", "Its name."},
    {"ChatFile.id", "Its id in the container: `cfile_...`."},
    {"ChatFile.url", "Where its bytes are, below the server's address."},
    {"ChatFile.mime", "Its type, by its name."},
    {"ChatFile.bytes", "Its size."},
    {"ChatStep", "Code that the model ran."},
    {"ChatStep.code", "The source."},
    {"ChatStep.output", "What came of it."},
    {"ChatOutput", "The one thing that counts: an error, else a picture, else text."},
    {"ChatOutput.type", "What `content` is."},
    {"ChatOutput.content", "The traceback, the picture in base64, or the text."},
    {"ChatReply", "The answer to a message."},
    {"ChatReply.content", "Text in Markdown, without pictures and links to files of the sandbox."},
    {"ChatReply.files", "Exactly the files that the code made or changed."},
    {"ChatReply.code_log", "The code in the order in which it ran."},
    {"ChatReply.session", "To be sent with the next message: it keeps files and variables."},
    {"ChatReply.container", "The same session for `/v1/containers`."},
    {"ChatReply.note", "Why the answer is not complete; missing: it is."},
    {"ChatReply.log", "With `verbose`: the messages between person, model and code."},
    {"ChatReply.usage", "With `verbose`: the tokens of the model."},
    {NULL, NULL},
};

static const struct door_tag tags[] = {
    {"Chat", "A session that answers messages, with a model server ([containers.md]"
             "(containers.md#chat))."},
    {NULL, NULL},
};

static const struct door_field fields[] = {
    {"message", "What the person says."},
    {"files", "Files for the code: each with `name` and `content` or `content_base64`, or the id "
              "of an uploaded file."},
    {"session", "Id or name of a session, or id of a container, to go on with; missing: a new "
                "one."},
    {"model", "The model of the model server; default `BAILEY_UPSTREAM_MODEL`."},
    {"stream", "`true`: the reply is events, as with `Accept: text/event-stream`."},
    {"verbose", "`true`: the reply has `log` and `usage`."},
    {NULL, NULL},
};

static const struct door_event events[] = {
    {"text", S_DELTA, JSON({"delta" : "The plot shows "}), "More of the answer."},
    {"code", S_CODE, JSON({"code" : "1 + 1"}), "Code that runs now."},
    {"output", REF("ChatOutput"), JSON({"type" : "text", "content" : "2"}), "What came of it."},
    {"error", S_FAILURE, JSON({"code" : "model_server_error", "message" : "it cannot be reached"}),
     "The answer failed; the last event."},
    {"done", REF("ChatReply"), JSON({
         "content" : "2",
         "files" : [],
         "code_log" : [],
         "session" : "s_1",
         "container" : "cntr_1"
     }),
     "The whole reply; the last event."},
    {NULL, NULL, NULL, NULL},
};

static const struct door_route routes[] = {
    {
        .method = "POST",
        .path = "/v1/chat",
        .name = "chat",
        .summary = "Answers a message by running code in a session",
        .tag = "Chat",
        .description = "Needs a model server (`BAILEY_UPSTREAM_URL`). The model runs code in the "
                       "session; what was said, files and variables stay for the next message.",
        .body = BODY_JSON,
        .request = B_CHAT,
        .fields = fields,
        .example = E_CHAT,
        .status = 200,
        .type = TYPE_JSON,
        .reply = REF("ChatReply"),
        .events = events,
        .errors = BOX_ERRORS " no_model_server model_server_error container_not_found "
                             "container_expired file_not_found disk_full busy",
        .scope = SCOPE_SESSIONS,
        .handle = chat_answer,
    },
};

static int open_door(struct front *front, void **ret, struct error *err)
{
    struct chats *door = calloc(1, sizeof(*door));

    if (!door)
        return error_memory(err);
    door->front = front;
    *ret = door;
    return 0;
}

static void close_door(void *ctx)
{
    struct chats *door = ctx;

    while (door->active)
        chat_free(door->active);
    free(door);
}

extern const struct door_ops chat_door;

const struct door_ops chat_door = {
    .name = "chat",
    .tags = tags,
    .routes = routes,
    .route_count = ARRAY_SIZE(routes),
    .schemas = schemas,
    .schema_fields = schema_fields,
    .open = open_door,
    .close = close_door,
};
