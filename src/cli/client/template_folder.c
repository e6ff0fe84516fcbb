/*
 * template_folder.c - reads template.yaml and the files it names into one JSON; see
 * template_folder.h.
 */
#include "cli/client/template_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base64.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/client/client.h"
#include "model/text.h"
#include "template/template.h"
#include "template_files.h"

#define FILE_NAME "template.yaml"

/* Templates that ship with the program: the file, and its lock file. */
static const struct shipped {
    const char *name;
    const unsigned char *yaml, *lock;
    const unsigned int *yaml_length, *lock_length;
} shipped_table[] = {
    {"data", template_data_template_yaml, template_data_requirements_lock,
     &template_data_template_yaml_length, &template_data_requirements_lock_length},
};

static int read_file(int folder_fd, const char *folder, const char *name, struct buf *text,
                     struct error *err)
{
    CLEANUP(fd_closep)
    int fd = openat(folder_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    int result;

    if (fd < 0 || fstat(fd, &status) < 0)
        return error_set(err, -errno, ERROR_BAD_INPUT, "'%.200s/%.200s': %s", folder, name,
                         strerror(errno));
    if (!S_ISREG(status.st_mode))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT, "'%.200s/%.200s' is not a file", folder,
                         name);
    result = buf_read_fd(text, fd);
    if (result < 0)
        return error_set(err, result, ERROR_BAD_INPUT, "reading '%.200s/%.200s': %s", folder, name,
                         result == -EFBIG ? "it is too large" : strerror(-result));
    return 0;
}

/* Converts [{path, from}] to {path: base64}. */
static int take_files(json_t *template, int folder_fd, const char *folder, struct error *err)
{
    CLEANUP(json_freep) json_t *files = json_object();
    json_t *row;
    size_t i, bytes = 0;

    json_array_foreach(json_object_get(template, "files"), i, row)
    {
        CLEANUP(buf_free) struct buf data = BUF_INIT(LIMIT_TEMPLATE_FILES);
        CLEANUP(buf_free) struct buf text = BUF_INIT(LIMIT_TEMPLATE_FILES * 2);
        int result = read_file(folder_fd, folder, member_text(row, "from"), &data, err);

        if (result < 0)
            return result;
        bytes += data.length;
        if (bytes > LIMIT_TEMPLATE_FILES)
            return error_set(err, -EFBIG, ERROR_TOO_LARGE,
                             "the template's files are larger than %llu MB together",
                             LIMIT_TEMPLATE_FILES / MIB);
        if (base64_encode(buf_text(&data), data.length, &text) < 0 ||
            json_object_set_new(files, member_text(row, "path"), json_string(buf_text(&text))) < 0)
            return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory reading the template");
    }
    json_object_set(template, "files", files);
    return 0;
}

static int take_lock(json_t *template, const char *text, size_t length, struct error *err)
{
    if (json_object_set_new(template, "lock", text_to_json(text, length)) < 0)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory reading the template");
    return 0;
}

static int load_folder(const char *folder, json_t **ret, struct error *err)
{
    CLEANUP(fd_closep) int folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CLEANUP(buf_free) struct buf yaml = BUF_INIT(LIMIT_CONFIG_BYTES), lock = yaml;
    CLEANUP(json_freep) json_t *template = NULL;
    char name[PATH_MAX];
    int result;

    if (folder_fd < 0 || faccessat(folder_fd, FILE_NAME, F_OK, 0) < 0)
        return error_set(err, -ENOENT, ERROR_TEMPLATE_NOT_FOUND,
                         "there is no template '%.200s': neither one that ships with bailey "
                         "(data) nor a folder with a " FILE_NAME,
                         folder);
    result = read_file(folder_fd, folder, FILE_NAME, &yaml, err);
    str_format(name, sizeof(name), "%.3000s%s" FILE_NAME, str_equal(folder, ".") ? "" : folder,
               str_equal(folder, ".") || str_ends(folder, "/") ? "" : "/");
    if (result == 0)
        result = template_read(buf_text(&yaml), yaml.length, name, &template, err);
    if (result == 0 && json_object_get(template, "lock")) {
        result = read_file(folder_fd, folder, member_text(template, "lock"), &lock, err);
        if (result == 0)
            result = take_lock(template, buf_text(&lock), lock.length, err);
    }
    if (result == 0 && json_object_get(template, "files"))
        result = take_files(template, folder_fd, folder, err);
    if (result == 0)
        *ret = ptr_take(&template);
    return result;
}

static int load_shipped(const struct shipped *row, json_t **ret, struct error *err)
{
    CLEANUP(json_freep) json_t *template = NULL;
    int result =
        template_read((const char *)row->yaml, *row->yaml_length, row->name, &template, err);

    if (result == 0)
        result = take_lock(template, (const char *)row->lock, *row->lock_length, err);
    if (result == 0)
        *ret = ptr_take(&template);
    return result;
}

int template_load(const char *word, json_t **ret, struct error *err)
{
    if (str_equal(word, TEMPLATE_PLAIN))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "the template '" TEMPLATE_PLAIN
                         "' is this machine's own Python: there is nothing to build");
    for (size_t i = 0; i < ARRAY_SIZE(shipped_table); i++)
        if (str_equal(shipped_table[i].name, word))
            return load_shipped(&shipped_table[i], ret, err);
    return load_folder(word ? word : ".", ret, err);
}
