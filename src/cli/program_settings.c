/* program_settings.c - the interpreters that a command names, as programs. */
#include "cli/program_settings.h"

#include "base/cleanup.h"
#include "config/config.h"
#include "interpreter/language.h"

static int find(struct config *config, const char *language, enum config_key key, struct error *err)
{
    CLEANUP(interpreter_free) struct interpreter found = {0};
    int r = interpreter_find(language_find(language), config, &found, err);

    return r < 0 ? r : config_set(config, key, found.path, config_key_name(key), err);
}

int program_settings(struct config *config, struct error *err)
{
    int r = config->python ? find(config, "python", KEY_PYTHON, err) : 0;

    if (r == 0 && config->node)
        r = find(config, "javascript", KEY_NODE, err);
    return r;
}
