/*
 * layers.c - the folder of layers: lists them, removes those that nothing names any more, and
 * writes the small JSON files beside them; see layers.h.
 */
#include "session/run_private.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/sha256.h"
#include "base/str.h"
#include "model/text.h"

#define NOTE_MAX (4 * MIB)

void json_decrefpp(json_t **json)
{
    json_decref(*json);
}

void hash_text(const void *data, size_t length, char text[LAYER_TEXT])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t digest[SHA256_BYTES];

    sha256(data, length, digest);
    for (size_t i = 0; i < SHA256_BYTES; i++) {
        text[2 * i] = digits[digest[i] >> 4];
        text[2 * i + 1] = digits[digest[i] & 15];
    }
    text[LAYER_TEXT - 1] = '\0';
}

/* ---- small files ---- */

int note_write_text(int folder_fd, const char *name, const char *text, size_t length,
                    struct error *err)
{
    CLEANUP(fd_closep) int fd = -1;
    char hidden[ID_MAX + LIMIT_NAME + 32];
    int r = str_format(hidden, sizeof(hidden), ".new-%s", name);

    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "the name '%.60s' is too long", name);
    unlinkat(folder_fd, hidden, 0); /* left by a broker that died here */
    fd = openat(folder_fd, hidden, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return error_errno(err, "writing '%s' in the state folder", name);
    r = fd_write_all(fd, text, length);
    if (r == 0 && (fdatasync(fd) < 0 || renameat(folder_fd, hidden, folder_fd, name) < 0))
        r = -errno;
    if (r == 0)
        return 0;
    unlinkat(folder_fd, hidden, 0);
    return error_set(err, r, r == -ENOSPC || r == -EDQUOT ? ERROR_DISK_FULL : ERROR_ENGINE,
                     "writing '%s' in the state folder: %s", name, strerror(-r));
}

int note_write(int folder_fd, const char *name, json_t *json, struct error *err)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(NOTE_MAX);
    int r = json ? text_of_json(json, JSON_INDENT(1) | JSON_SORT_KEYS, &text) : -ENOMEM;

    if (r < 0)
        return error_set(err, r, ERROR_ENGINE, "writing '%s': %s", name, strerror(-r));
    return note_write_text(folder_fd, name, text.data, text.length, err);
}

json_t *note_read(int folder_fd, const char *name)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(NOTE_MAX);
    CLEANUP(fd_closep)
    int fd = openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0 || buf_read_fd(&text, fd) < 0)
        return NULL;
    return json_loadb(buf_text(&text), text.length, JSON_REJECT_DUPLICATES, NULL);
}

/* ---- layers ---- */

bool layer_name_is_good(const char *name)
{
    return strlen(name) == LAYER_TEXT - 1 && strspn(name, "0123456789abcdef") == LAYER_TEXT - 1;
}

bool layer_is_there(struct session_manager *manager, const char *layer)
{
    struct stat status;

    return layer_name_is_good(layer) &&
           fstatat(manager->spec.folders.layers_fd, layer, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISDIR(status.st_mode);
}

void layer_describe(const char *layer, const char *suffix, char name[LAYER_TEXT + 8])
{
    str_format(name, LAYER_TEXT + 8, "%s.%s", layer, suffix);
}

void layers_remember(struct session_manager *manager, const char *layer, uint64_t bytes)
{
    struct recent_layer *recent = manager->recent;
    uint64_t left = manager->spec.config->install_bytes;
    int at = 0;

    while (at < LIMIT_RECENT_LAYERS - 1 && !str_equal(recent[at].layer, layer))
        at++;
    memmove(recent + 1, recent, (size_t)at * sizeof(*recent));
    recent[0] = (struct recent_layer){
        .bytes = bytes, .until_ms = time_add(session_manager_now_ms(), RECENT_LAYER_MS)};
    str_copy(recent[0].layer, sizeof(recent[0].layer), layer);
    for (int i = 0; i < LIMIT_RECENT_LAYERS; i++) {
        if (recent[i].bytes > left)
            recent[i] = (struct recent_layer){0};
        left -= recent[i].bytes;
    }
}

static bool is_recent(const struct session_manager *manager, const char *layer)
{
    for (int i = 0; i < LIMIT_RECENT_LAYERS; i++) {
        if (str_equal(manager->recent[i].layer, layer) &&
            manager->recent[i].until_ms > session_manager_now_ms())
            return true;
    }
    return false;
}

static bool is_named(const struct session_manager *manager, const char *layer)
{
    if (templates_name(manager, layer) || installs_name(manager, layer) ||
        runs_name(manager, layer) || is_recent(manager, layer))
        return true;
    for (const struct session *session = manager->sessions; session; session = session->next) {
        if (session->state != SESSION_ENDED &&
            (str_equal(session->layer, layer) || str_equal(session->package_layer, layer)))
            return true;
    }
    return false;
}

/* The layer that a file name belongs to: the layer itself or a file beside it. False: neither. */
static bool layer_of(const char *name, char layer[LAYER_TEXT])
{
    const char *dot = strchr(name, '.');

    if (dot && !str_equal(dot, ".json") && !str_equal(dot, ".tiers") &&
        !str_equal(dot, ".manifest"))
        return false;
    str_copy(layer, LAYER_TEXT, name); /* cut after the hash */
    return layer_name_is_good(layer) && (dot ? dot - name : (long)strlen(name)) == LAYER_TEXT - 1;
}

void layers_collect(struct session_manager *manager)
{
    int folder_fd = manager->spec.folders.layers_fd;
    int fd = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    char layer[LAYER_TEXT];

    if (fd >= 0 && !folder)
        close(fd);
    while (folder && (entry = readdir(folder))) {
        if (!layer_of(entry->d_name, layer) || is_named(manager, layer))
            continue;
        if (str_equal(entry->d_name, layer) && manager->provider->ops->drop_layer)
            manager->provider->ops->drop_layer(manager->provider, layer);
        if (session_manager_discard(manager, folder_fd, entry->d_name) < 0)
            log_warning("the layer %.12s cannot be removed, continuing without removing it", layer);
        else if (str_equal(entry->d_name, layer))
            log_info("layer %.12s is removed: no template or session uses it", layer);
    }
    if (folder)
        closedir(folder);
}

/* Discards folders of installers whose broker died: only the launcher may remove their content. */
static void discard_builds(struct session_manager *manager)
{
    struct provider *provider = manager->provider;
    int fd = openat(manager->spec.folders.layers_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    if (fd >= 0 && !folder)
        close(fd);
    while (folder && (entry = readdir(folder))) {
        const char *key = entry->d_name + strlen(LAYER_BUILDING);

        if (str_starts(entry->d_name, LAYER_BUILDING) && provider->ops->discard)
            provider->ops->discard(provider, key, false);
    }
    if (folder)
        closedir(folder);
}

void layers_start(struct session_manager *manager)
{
    for (struct session *session = manager->sessions; session; session = session->next) {
        if (session->state != SESSION_ENDED)
            packages_load(session);
    }
    discard_builds(manager);
    template_tell_default(manager);
    layers_collect(manager);
}
