/*
 * content.c - a tool's reply as content blocks: the text, pictures of this run, a link for each new
 * or changed file.
 *
 * Everything a model needs is in the text, because some clients drop the other blocks. Pictures are
 * bounded in number and in the sum of their base64, because clients refuse results of a megabyte; a
 * picture that does not fit becomes a link like any other file.
 */
#include <errno.h>
#include <string.h>

#include "api/mcp/mcp_private.h"
#include "base/base64.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "model/text.h"
#include "tool/reply.h"

#define TEXT_MAX (4 * LIMIT_OUTPUT_MAX)
#define FILES_MAX (4 * LIMIT_TOOL_OUTPUTS)

struct file {
    char *name;
    const char *mime; /* static, or `own_mime` */
    char *own_mime;
    char path[LIMIT_PATH_BYTES + 1];
    json_int_t bytes; /* -1: unknown */
    bool is_picture;  /* can be a picture block */
    json_t *picture;  /* its block, if it was fetched */
};

struct mcp_content {
    char *session;
    struct buf text;
    bool is_error;
    json_t *cell;       /* values of a cell, for its pictures; NULL: none */
    json_t *structured; /* the reply as JSON; NULL: not wanted */
    struct file *files;
    size_t file_count;
    size_t at;            /* index of the next file that may have to be fetched */
    size_t picture_count; /* fetched or requested */
    size_t picture_text;  /* bytes of base64 so far */
};

/* Only types that every client shows. */
static bool is_picture(const char *mime)
{
    return str_equal(mime, "image/png") || str_equal(mime, "image/jpeg");
}

static int add_file(struct mcp_content *content, const char *name, const char *mime,
                    json_int_t bytes)
{
    struct file *file = &content->files[content->file_count];

    if (str_format(file->path, sizeof(file->path), MCP_OUTPUT_FOLDER "%s", name) < 0)
        return 0;
    file->name = strdup(name);
    file->own_mime = mime ? strdup(mime) : NULL;
    content->file_count++;
    if (!file->name || (mime && !file->own_mime))
        return -ENOMEM;
    file->mime = mime ? file->own_mime : mcp_mime(name);
    file->bytes = bytes;
    file->is_picture = is_picture(file->mime);
    return 0;
}

/* The outputs of a command; the reply has them as JSON values. */
static int add_outputs(struct mcp_content *content, json_t *outputs)
{
    json_t *output;
    size_t index;
    int r = 0;

    json_array_foreach(outputs, index, output)
    {
        const char *name = mcp_text(output, "name");
        json_t *bytes = json_object_get(output, "bytes");

        if (r == 0 && name && !mcp_text(output, "skipped") && content->file_count < FILES_MAX)
            r = add_file(content, name, mcp_text(output, "mime"),
                         json_is_integer(bytes) ? json_integer_value(bytes) : -1);
    }
    return r;
}

/* Files of the result that were fetched. */
static int add_result_files(struct mcp_content *content, const struct result *result)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < result->file_count && content->file_count < FILES_MAX; i++) {
        const struct output_file *file = &result->files[i];

        if (file->path && !file->skipped)
            r = add_file(content, file->name, NULL, (json_int_t)file->bytes);
    }
    return r;
}

static int add_files(struct mcp_content *content, const struct tool_reply *reply)
{
    if (!content->session ||
        (reply->kind != TOOL_REPLY_COMMAND && reply->kind != TOOL_REPLY_RESULT))
        return 0;
    content->files = calloc(FILES_MAX, sizeof(struct file));
    if (!content->files)
        return -ENOMEM;
    return reply->kind == TOOL_REPLY_COMMAND ? add_outputs(content, reply->outputs)
                                             : add_result_files(content, &reply->result);
}

int mcp_content_new(const char *session, const struct tool_reply *reply, bool is_structured,
                    struct mcp_content **ret)
{
    CLEANUP(mcp_content_freep) struct mcp_content *content = calloc(1, sizeof(*content));

    if (!content || (session && !(content->session = strdup(session))))
        return -ENOMEM;
    content->text = BUF_INIT(TEXT_MAX);
    content->is_error = mcp_reply_is_error(reply);
    content->cell = json_incref(reply->cell);
    if (is_structured && !(content->structured = tool_reply_json(reply)))
        return -ENOMEM;
    if (mcp_reply_text(reply, session, &content->text) < 0 || add_files(content, reply) < 0)
        return -ENOMEM;
    *ret = ptr_take(&content);
    return 0;
}

void mcp_content_freep(struct mcp_content **content)
{
    if (!*content)
        return;
    for (size_t i = 0; i < (*content)->file_count; i++) {
        json_decref((*content)->files[i].picture);
        free((*content)->files[i].name);
        free((*content)->files[i].own_mime);
    }
    free((*content)->files);
    json_decref((*content)->cell);
    json_decref((*content)->structured);
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

/* The bytes of the requested file; NULL: it could not be read. */
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

/* For protocol versions without links: adds the link to the text. */
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

/* Clients that see structuredContent drop the text, so it contains the whole text again. */
static void add_structured(struct mcp_content *content, json_t *result)
{
    json_t *structured = ptr_take(&content->structured);

    if (json_array_size(json_object_get(structured, "results")) > 0)
        json_object_set_new(structured, "results",
                            mcp_values_within(json_object_get(structured, "results")));
    json_object_set_new(structured, "text",
                        text_to_json(buf_text(&content->text), content->text.length));
    if (content->session)
        json_object_set_new(structured, "session", json_string(content->session));
    json_object_set_new(result, "structuredContent", structured);
}

json_t *mcp_content_result(struct mcp_content *content, bool has_links)
{
    json_t *blocks = json_array(), *result;

    for (size_t i = 0; i < content->file_count && !has_links; i++)
        append_link_text(content, &content->files[i]);
    append_block(blocks, text_block(buf_text(&content->text), content->text.length));
    mcp_values_pictures(content->cell, blocks, &content->picture_count, &content->picture_text);
    for (size_t i = 0; i < content->file_count; i++) {
        append_block(blocks, content->files[i].picture);
        content->files[i].picture = NULL;
    }
    for (size_t i = 0; i < content->file_count && has_links; i++)
        append_block(blocks, link_block(content, &content->files[i]));
    result = json_pack("{s:o,s:b}", "content", blocks, "isError", content->is_error);
    if (result && content->structured)
        add_structured(content, result);
    return result;
}

json_t *mcp_content_refusal(const char *text)
{
    return json_pack("{s:[o],s:b}", "content", text_block(text, strlen(text)), "isError", 1);
}
