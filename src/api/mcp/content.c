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

/* ---- the list of files in the text ---- */

static int append_size(struct buf *text, const char *name, json_int_t bytes)
{
    uint64_t invalid = 0;
    int failed = text_clean(text, name, strlen(name), false, &invalid);

    if (bytes < 0)
        return failed;
    return failed | (bytes < 10 * (json_int_t)KIB
                         ? buf_printf(text, " (%lld bytes)", (long long)bytes)
                         : buf_printf(text, " (%lld KB)", (long long)(bytes / (json_int_t)KIB)));
}

/* The folder on the user's disk that the file was saved in; 0: a server does not say. */
static size_t folder_length(const char *path, const char *name)
{
    size_t length = path ? strlen(path) : 0, tail = strlen(name);

    return length > tail && path[0] == '/' && !str_starts(path, "/v1/") ? length - tail - 1 : 0;
}

struct listing {
    struct buf saved, other; /* "a.csv (8 bytes), b.png (3 KB)" */
    const char *path;        /* of the first saved file */
    size_t folder;           /* how much of it is the folder */
    const char *why;         /* of the files at the end of `other`, which has it after the last */
};

/* The reason why the files since the last reason were not saved: said once for all of them. */
static int say_why(struct listing *listing)
{
    return listing->why ? buf_printf(&listing->other, ": %s", listing->why) : 0;
}

static int list_other(struct listing *listing, const char *name, json_int_t bytes, const char *why)
{
    bool is_same = str_equal(listing->why, why);
    int failed = is_same ? 0 : say_why(listing);

    if (listing->other.length > 0)
        failed |= buf_append_text(&listing->other, is_same ? ", " : "; ");
    listing->why = why;
    return failed | append_size(&listing->other, name, bytes);
}

static int list_one(struct listing *listing, const char *name, const char *path, json_int_t bytes,
                    const char *why)
{
    if (!path)
        return list_other(listing, name, bytes, why ? why : "stays in the sandbox");
    if (!listing->path) {
        listing->path = path;
        listing->folder = folder_length(path, name);
    }
    return (listing->saved.length > 0 ? buf_append_text(&listing->saved, ", ") : 0) |
           append_size(&listing->saved, name, bytes);
}

static int list_outputs(struct listing *listing, const struct tool_reply *reply)
{
    json_t *output;
    size_t index;
    int failed = 0;

    json_array_foreach(reply->outputs, index, output)
    {
        json_t *bytes = json_object_get(output, "bytes");

        if (mcp_text(output, "name"))
            failed |= list_one(listing, mcp_text(output, "name"), mcp_text(output, "path"),
                               json_is_integer(bytes) ? json_integer_value(bytes) : -1,
                               mcp_text(output, "skipped"));
    }
    return failed;
}

static int list_result(struct listing *listing, const struct result *result)
{
    int failed = 0;

    for (size_t i = 0; i < MIN(result->file_count, (size_t)FILES_MAX); i++) {
        const struct output_file *file = &result->files[i];

        failed |= list_one(listing, file->name, file->skipped ? NULL : file->path,
                           (json_int_t)file->bytes, file->skipped);
    }
    return failed;
}

/* [files] a.csv (8 bytes), saved in /home/me/.local/state/bailey/output/session_s_1 */
static int add_listing(struct mcp_content *content, const struct tool_reply *reply)
{
    struct listing listing = {.saved = BUF_INIT(TEXT_MAX), .other = BUF_INIT(TEXT_MAX)};
    size_t shown = json_array_size(reply->outputs), named = json_array_size(reply->names);
    int failed = 0;

    if (reply->kind == TOOL_REPLY_COMMAND)
        failed |= list_outputs(&listing, reply);
    else if (reply->kind == TOOL_REPLY_RESULT && content->session)
        failed |= list_result(&listing, &reply->result);
    if (listing.saved.length > 0) {
        failed |= mcp_end_line(&content->text);
        failed |= buf_printf(&content->text, "[files] %s", buf_text(&listing.saved));
        if (listing.folder > 0)
            failed |= buf_printf(&content->text, "; on the user's disk in %.*s",
                                 (int)listing.folder, listing.path);
    }
    failed |= say_why(&listing);
    if (listing.other.length > 0) {
        failed |= mcp_end_line(&content->text);
        failed |= buf_printf(&content->text, "[not saved] %s", buf_text(&listing.other));
    }
    if (named > shown && shown > 0)
        failed |= buf_printf(&content->text, "\n[files] %zu more in /tmp/output", named - shown);
    buf_free(&listing.saved);
    buf_free(&listing.other);
    return failed < 0 ? -ENOMEM : 0;
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

int mcp_content_new(const struct mcp_view *view, const struct tool_reply *reply, bool is_structured,
                    struct mcp_content **ret)
{
    CLEANUP(mcp_content_freep) struct mcp_content *content = calloc(1, sizeof(*content));

    if (!content || (view->session && !(content->session = strdup(view->session))))
        return -ENOMEM;
    content->text = BUF_INIT(TEXT_MAX);
    content->is_error = mcp_reply_is_error(reply);
    content->cell = json_incref(reply->cell);
    if (is_structured && !(content->structured = tool_reply_json(reply)))
        return -ENOMEM;
    if (mcp_reply_text(reply, view, &content->text) < 0 || add_files(content, reply) < 0 ||
        add_listing(content, reply) < 0)
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

/* "[images] a.png, b.png": in the order of the blocks, or those that have none. */
static int append_images(struct mcp_content *content, const char *label, bool is_shown,
                         size_t displayed)
{
    int count = 0, failed = 0;

    for (size_t i = 0; i < content->file_count; i++) {
        const struct file *file = &content->files[i];
        uint64_t invalid = 0;

        if (!file->is_picture || (file->picture != NULL) != is_shown)
            continue;
        if (count == 0)
            failed |= mcp_end_line(&content->text);
        failed |= buf_printf(&content->text, "%s", count++ ? ", " : label);
        failed |= text_clean(&content->text, file->name, strlen(file->name), false, &invalid);
    }
    if (displayed == 0)
        return failed;
    if (count == 0)
        failed |= mcp_end_line(&content->text);
    return failed | buf_printf(&content->text, "%s%zu that the code displayed",
                               count ? ", " : label, displayed);
}

json_t *mcp_content_result(struct mcp_content *content, bool has_links)
{
    CLEANUP(json_decrefp) json_t *displayed = json_array();
    json_t *blocks = json_array(), *result;
    size_t left;

    left = mcp_values_pictures(content->cell, displayed, &content->picture_count,
                               &content->picture_text);
    append_images(content, "[images below, in this order] ", true, json_array_size(displayed));
    append_images(content, "[images left out, too many or too large] ", false, left);
    for (size_t i = 0; i < content->file_count && !has_links; i++)
        append_link_text(content, &content->files[i]);
    append_block(blocks, text_block(buf_text(&content->text), content->text.length));
    for (size_t i = 0; i < content->file_count; i++) {
        append_block(blocks, content->files[i].picture);
        content->files[i].picture = NULL;
    }
    json_array_extend(blocks, displayed);
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
