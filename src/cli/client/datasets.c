/* datasets.c - files that a session gets as datasets; see datasets.h. */
#include "cli/client/datasets.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "cli/client/path_arg.h"
#include "cli/client/transfer.h"
#include "model/dataset_name.h"

void datasets_free(struct dataset **list)
{
    for (struct dataset *at = *list; at && at->name; at++) {
        free(at->name);
        fd_closep(&at->fd);
    }
    free(*list);
}

static int open_dataset(struct dataset *dataset, const char *word, struct error *err)
{
    const char *equals = strchr(word, '=');
    CLEANUP(freep) char *given = NULL;
    struct stat status;

    dataset->fd = -1;
    dataset->path = equals + 1;
    given = strndup(word, (size_t)(equals - word));
    if (!given || asprintf(&dataset->name, "%s%s", given,
                           dataset_extension_of_file(given, dataset->path)) < 0) {
        dataset->name = NULL;
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory keeping the options");
    }
    path_arg_dataset(dataset->name, strlen(dataset->name), dataset->file);
    dataset->fd = open(dataset->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (dataset->fd < 0 || fstat(dataset->fd, &status) < 0)
        return error_set(err, -errno, ERROR_BAD_INPUT, "--data %.60s: '%.200s': %s", dataset->name,
                         dataset->path, strerror(errno));
    if (S_ISDIR(status.st_mode))
        return error_set(err, -EISDIR, ERROR_BAD_INPUT,
                         "--data %.60s: '%.200s' is a folder; a dataset is one file ('bailey cp' "
                         "copies folders)",
                         dataset->name, dataset->path);
    dataset->bytes = S_ISREG(status.st_mode) ? status.st_size : -1;
    return 0;
}

int datasets_open(char *const *words, struct dataset **ret, struct error *err)
{
    size_t count = strv_length(words);
    struct dataset *list = calloc(count + 1, sizeof(*list));

    if (!list)
        return error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory keeping the options");
    *ret = list;
    for (size_t i = 0; i < count; i++) {
        int result = open_dataset(&list[i], words[i], err);

        if (result < 0)
            return result;
        for (size_t j = 0; j < i; j++)
            if (str_equal(list[i].file, list[j].file))
                return error_set(err, -EEXIST, ERROR_DATASET_TAKEN,
                                 "the datasets '%.60s' and '%.60s' would both be "
                                 "/tmp/data/%.100s; give one of them another name",
                                 list[j].name, list[i].name, list[i].file);
    }
    return 0;
}

int dataset_send(struct client *client, const char *session, const struct dataset *dataset,
                 bool shows, struct error *err)
{
    CLEANUP(buf_free) struct buf path = PATH_BUF;
    int result = client_session_path(&path, session, "/datasets/", err);

    if (result == 0 && http_encode(&path, dataset->name) < 0)
        result = error_set(err, -EFBIG, ERROR_BAD_INPUT, "a dataset's name is too long");
    if (result == 0)
        result = transfer_send(client, buf_text(&path), dataset->fd, dataset->bytes,
                               shows ? dataset->path : NULL, NULL, NULL, err);
    return result;
}
