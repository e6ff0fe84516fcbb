/* container.c - what a one-shot run in a container needs besides; see container.h. */
#include "oneshot/container.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"

int oneshot_container_check(const struct config *config, struct error *err)
{
    const struct config_value *template = &config->values[KEY_TEMPLATE];

    if (!config_is_docker(config))
        return 0;
    if (template->source == FROM_FLAG && !str_equal(template->text, "python"))
        return error_set(err, -ENOTSUP, ERROR_BAD_INPUT,
                         "template '%.64s': a container has what its image has; make one with "
                         "'bailey image build --template %.64s' and choose it with DOCKER_IMAGE",
                         template->text, template->text);
    if (config->root)
        return error_set(err, -ENOTSUP, ERROR_BAD_CONFIG,
                         "SANDBOX_ROOT: a container has its image's root; choose it with "
                         "DOCKER_IMAGE, or set SANDBOX_TYPE=local");
    return 0;
}

int oneshot_container_interpreter(const struct language_row *language, struct interpreter *ret,
                                  struct error *err)
{
    *ret = (struct interpreter){.path = strdup(language->program)};
    return ret->path ? 0 : error_set(err, -ENOMEM, ERROR_ENGINE, "out of memory");
}

static int push(char ***env, const char *name, const char *value)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64 * KIB);
    int r = buf_printf(&text, "%s=%s", name, value);

    return r < 0 ? r : strv_push(env, buf_text(&text));
}

char **oneshot_container_env(const struct config *config, bool shows_progress)
{
    static const char *const kept[] = {"HOME", "PATH"};
    CLEANUP(strv_freep) char **env = strv_new();
    int r = env ? 0 : -ENOMEM;

    for (size_t key = 0; key < _KEY_MAX && r == 0; key++) {
        const char *value = config->values[key].text;

        if (key == KEY_DOCKER_POOL_SIZE) /* one is all there will be */
            value = "0";
        if (key == KEY_WARM)
            value = "false";
        if (config_table[key].env && value)
            r = push(&env, config_table[key].env, value);
    }
    for (size_t i = 0; i < ARRAY_SIZE(kept) && r == 0; i++) {
        const char *value = getenv(kept[i]);

        if (value)
            r = push(&env, kept[i], value);
    }
    if (r == 0 && shows_progress)
        r = push(&env, "BAILEY_WALL_PROGRESS", "1");
    return r < 0 ? NULL : ptr_take(&env);
}

void oneshot_container_explain(const struct config *config, const struct language_row *language,
                               struct error *err)
{
    if (!config_is_docker(config) || err->code != ERROR_COMMAND_NOT_FOUND)
        return;
    error_set(
        err, -ENOENT, ERROR_NO_INTERPRETER,
        "the image '%.200s' has no %s, which %s code needs: choose another with DOCKER_IMAGE, "
        "or make one with 'bailey image build'",
        config->docker.image, language->program, language->title);
}
