/* history.c - what was said in a session: read for the next message, stored after an answer. */
#include <stdlib.h>
#include <string.h>

#include "api/chat/chat.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/str.h"
#include "model/text.h"
#include "store/chat_row.h"

static const char prompt[] =
    "You answer questions of a person by running Python code with the tool " AGENT_TOOL
    ". Variables stay from call to call. Files of the person are in /mnt/data; save there what you "
    "make for the person (tables, pictures, documents): every file that your code makes or changes "
    "is handed over by itself, so do not write links or Markdown images for them. A package that "
    "is missing is installed by itself where that is allowed. If the code fails, correct it and "
    "run it again. Answer in plain words, and do not repeat the code.";

static json_t *stored(struct chat *chat)
{
    CLEANUP(freep) char *text = NULL;
    struct error err = {0};
    json_t *list = NULL;

    if (chat_row_get(session_manager_index(chat->front->manager), chat->row.session, &text, &err) <
        0)
        log_warning("what was said in %s: %s, continuing without it", chat->row.session, err.text);
    if (text)
        list = json_loads(text, 0, NULL);
    if (json_is_array(list))
        return list;
    json_decref(list);
    return json_array();
}

/* The message, and where its files are. */
static json_t *user_message(struct chat *chat)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(2 * LIMIT_REQUEST_JSON);
    json_t *message = json_object_get(chat->body, "message"), *path;
    size_t at;

    buf_append(&text, json_string_value(message), json_string_length(message));
    json_array_foreach(chat->paths, at, path)
    {
        buf_printf(&text, "%s%s", at == 0 ? "\n\n[files: " : ", ", json_string_value(path));
    }
    if (json_array_size(chat->paths) > 0)
        buf_append_text(&text, "]");
    return json_pack("{s:s, s:o}", "role", "user", "content",
                     text_to_json(buf_text(&text), text.length));
}

json_t *chat_messages(struct chat *chat)
{
    CLEANUP(json_decrefp) json_t *before = stored(chat);
    json_t *all = json_array();

    if (json_array_append_new(all, json_pack("{s:s, s:s}", "role", "system", "content", prompt)) <
            0 ||
        json_array_extend(all, before) < 0) {
        json_decref(all);
        return NULL;
    }
    chat->first = json_array_size(all);
    if (json_array_append_new(all, user_message(chat)) == 0)
        return all;
    json_decref(all);
    return NULL;
}

/* Removes the oldest message of a person with all that followed it; false: only one is left. */
static bool forget_oldest(json_t *messages)
{
    size_t count = 1;

    while (count < json_array_size(messages) &&
           !str_equal(json_string_value(json_object_get(json_array_get(messages, count), "role")),
                      "user"))
        count++;
    if (count >= json_array_size(messages))
        return false;
    while (count-- > 0)
        json_array_remove(messages, 0);
    return true;
}

void chat_remember(struct chat *chat)
{
    CLEANUP(json_decrefp) json_t *messages = json_copy(chat->messages);
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_CHAT_HISTORY);
    struct error err = {0};
    int r = messages ? 0 : -1;

    if (r == 0)
        json_array_remove(messages, 0); /* the system prompt */
    if (r == 0 && chat->content.length > 0)
        r = json_array_append_new(
            messages, json_pack("{s:s, s:o}", "role", "assistant", "content",
                                text_to_json(buf_text(&chat->content), chat->content.length)));
    while (r == 0 && text_of_json(messages, JSON_COMPACT, &text) < 0) {
        buf_clear(&text);
        if (!forget_oldest(messages))
            return;
    }
    if (r == 0 && chat_row_put(session_manager_index(chat->front->manager), chat->row.session,
                               buf_text(&text), &err) < 0)
        log_warning("what was said in %s: %s, continuing without storing it", chat->row.session,
                    err.text);
}
