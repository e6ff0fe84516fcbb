/*
 * content.c - a tool's reply as content blocks: the text, pictures of this run, a link for each new
 * or changed file.
 *
 * Everything a model needs is in the text: clients throw blocks away. Pictures are bounded in
 * number and in the sum of their base64, because clients refuse results of a megabyte; one that
 * does not fit is a link like any other file.
 */
#include <errno.h>
#include <string.h>

#include "api/mcp/mcp_private.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"

#define TEXT_MAX (4 * LIMIT_OUTPUT_MAX)
#define FILES_MAX (4 * LIMIT_TOOL_OUTPUTS)

struct file {
    const char *name; /* of the reply */
    const char *mime;
    char path[LIMIT_PATH_BYTES + 1];
    json_int_t bytes;
    bool is_picture; /* may be shown */
    json_t *picture; /* its block, when it was fetched */
};

struct mcp_content {
    json_t *reply;
    char *session;
    struct buf text;
    bool is_error;
    struct file *files;
    size_t file_count;
    size_t at;            /* the next file that may have to be fetched */
    size_t picture_count; /* fetched or wanted */
    size_t picture_text;  /* base64 so far */
};

/* Only what every client shows. */
static bool is_picture(const char *mime)
{
    return str_equal(mime, "image/png") || str_equal(mime, "image/jpeg");
}

static void add_file(struct mcp_content *content, json_t *output)
{
    struct file *file = &content->files[content->file_count];
    const char *name =
        json_is_object(output) ? mcp_text(output, "name") : json_string_value(output);
    const char *mime = mcp_text(output, "mime");
    json_t *bytes = json_object_get(output, "bytes");

    if (!name || mcp_text(output, "skipped") ||
        str_format(file->path, sizeof(file->path), MCP_OUTPUT_FOLDER "%s", name) < 0)
        return;
    file->name = name;
    file->mime = mime ? mime : mcp_mime(name);
    file->bytes = json_is_integer(bytes) ? json_integer_value(bytes) : -1;
    file->is_picture = is_picture(file->mime);
    content->file_count++;
}

/* A body that is no JSON object is text for the model, as run_python_code's is. */
static int take_text(struct mcp_content *content, const char *body, size_t length)
{
    json_t *text = content->reply;
    uint64_t invalid = 0;

    if (json_is_string(text))
        return text_clean(&content->text, json_string_value(text), json_string_length(text), false,
                          &invalid);
    return text_clean(&content->text, body, length, false, &invalid);
}

static int take_object(struct mcp_content *content)
{
    json_t *list = json_object_get(content->reply, "output_files"), *output;
    size_t index;

    if (!list)
        list = json_object_get(json_object_get(content->reply, "meta"), "output_files");
    if (mcp_reply_text(content->reply, content->session, &content->text, &content->is_error) < 0)
        return -ENOMEM;
    if (!content->session || json_array_size(list) == 0)
        return 0;
    content->files = calloc(MIN(json_array_size(list), (size_t)FILES_MAX), sizeof(struct file));
    if (!content->files)
        return -ENOMEM;
    json_array_foreach(list, index, output)
    {
        if (content->file_count < MIN(json_array_size(list), (size_t)FILES_MAX))
            add_file(content, output);
    }
    return 0;
}

int mcp_content_new(const char *session, const char *body, size_t length, struct mcp_content **ret)
{
    CLEANUP(mcp_content_freep) struct mcp_content *content = calloc(1, sizeof(*content));
    int r;

    if (!content || (session && !(content->session = strdup(session))))
        return -ENOMEM;
    content->text = BUF_INIT(TEXT_MAX);
    if (!mcp_is_too_deep(body, length))
        content->reply = json_loadb(body, length, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    r = json_is_object(content->reply) ? take_object(content) : take_text(content, body, length);
    if (r < 0)
        return -ENOMEM;
    *ret = ptr_take(&content);
    return 0;
}

void mcp_content_freep(struct mcp_content **content)
{
    if (!*content)
        return;
    for (size_t i = 0; i < (*content)->file_count; i++)
        json_decref((*content)->files[i].picture);
    free((*content)->files);
    json_decref((*content)->reply);
    buf_free(&(*content)->text);
    free((*content)->session);
    free(*content);
    *content = NULL;
}

const char *mcp_content_wants(struct mcp_content *content, size_t *ret_maximum)
{
    for (; content->at < content->file_count; content->at++) {
        struct file *file = &content->files[content->at];
        size_t room = (LIMIT_MCP_PICTURE_TEXT - content->picture_text) / 4 * 3;

        if (!file->is_picture || content->picture_count >= LIMIT_MCP_PICTURES ||
            file->bytes > (json_int_t)room)
            continue;
        *ret_maximum = room;
        return file->path;
    }
    return NULL;
}

/* The answer for the file that was wanted; NULL: it could not be had. */
void mcp_content_picture(struct mcp_content *content, const void *data, size_t length)
{
    struct file *file = &content->files[content->at++];
    CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_MCP_PICTURE_TEXT);

    if (!data || length == 0 ||
        BASE64_LENGTH(length) > LIMIT_MCP_PICTURE_TEXT - content->picture_text ||
        base64_encode(data, length, &text) < 0)
        return;
    file->picture = json_pack("{s:s,s:s%,s:s}", "type", "image", "data", buf_text(&text),
                              text.length, "mimeType", file->mime);
    if (!file->picture)
        return;
    content->picture_count++;
    content->picture_text += text.length;
}

static json_t *text_block(const char *text, size_t length)
{
    return json_pack("{s:s,s:o}", "type", "text", "text", text_to_json(text, length));
}

static json_t *link_block(const struct mcp_content *content, const struct file *file)
{
    CLEANUP(buf_free) struct buf uri = BUF_INIT(MCP_URI_MAX);
    json_t *link;

    if (mcp_uri_write(&uri, content->session, file->path) < 0)
        return NULL;
    link = json_pack("{s:s,s:s,s:s,s:s}", "type", "resource_link", "uri", buf_text(&uri), "name",
                     file->name, "mimeType", file->mime);
    if (file->bytes >= 0)
        json_object_set_new(link, "size", json_integer(file->bytes));
    return link;
}

/* Revisions without links get their words, in the text. */
static int append_link_text(struct mcp_content *content, const struct file *file)
{
    CLEANUP(buf_free) struct buf uri = BUF_INIT(MCP_URI_MAX);

    if (mcp_uri_write(&uri, content->session, file->path) < 0)
        return -1;
    return buf_printf(&content->text, "\n[file] %s", buf_text(&uri));
}

static void append_block(json_t *blocks, json_t *block)
{
    if (block)
        json_array_append_new(blocks, block);
}

/* Clients that see structuredContent drop the text: all of it is in there again. */
static void add_structured(struct mcp_content *content, json_t *result)
{
    json_t *structured = json_is_object(content->reply) ? json_copy(content->reply) : json_object();

    if (json_array_size(json_object_get(structured, "results")) > 0)
        json_object_set_new(structured, "results",
                            mcp_values_within(json_object_get(structured, "results")));
    json_object_set_new(structured, "text",
                        text_to_json(buf_text(&content->text), content->text.length));
    if (content->session)
        json_object_set_new(structured, "session", json_string(content->session));
    json_object_set_new(result, "structuredContent", structured);
}

json_t *mcp_content_result(struct mcp_content *content, bool has_links, bool is_structured)
{
    json_t *blocks = json_array(), *result;

    for (size_t i = 0; i < content->file_count && !has_links; i++)
        append_link_text(content, &content->files[i]);
    append_block(blocks, text_block(buf_text(&content->text), content->text.length));
    mcp_values_pictures(content->reply, blocks, &content->picture_count, &content->picture_text);
    for (size_t i = 0; i < content->file_count; i++) {
        append_block(blocks, content->files[i].picture);
        content->files[i].picture = NULL;
    }
    for (size_t i = 0; i < content->file_count && has_links; i++)
        append_block(blocks, link_block(content, &content->files[i]));
    result = json_pack("{s:o,s:b}", "content", blocks, "isError", content->is_error);
    if (result && is_structured)
        add_structured(content, result);
    return result;
}

json_t *mcp_content_refusal(const char *text)
{
    return json_pack("{s:[o],s:b}", "content", text_block(text, strlen(text)), "isError", 1);
}
