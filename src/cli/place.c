/* place.c - which server a command is for; see place.h. */
#include "cli/place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"

static const struct place_row {
    const char *option; /* a row of common_options */
    const char *variable;
    const char *instead; /* another way to say the same: it is not set any more; NULL: none */
} place_table[] = {
    {"url", PLACE_URL, NULL},
    {"key", PLACE_KEY, PLACE_KEY_FILE},
    {"key-file", PLACE_KEY_FILE, PLACE_KEY},
    {"ca-file", PLACE_CA_FILE, NULL},
};

static const struct place_row *row_of(const char *option, size_t length)
{
    for (size_t i = 0; i < ARRAY_SIZE(place_table); i++)
        if (strlen(place_table[i].option) == length &&
            memcmp(place_table[i].option, option, length) == 0)
            return &place_table[i];
    return NULL;
}

static int take(const struct place_row *row, const char *value, struct error *err)
{
    if (setenv(row->variable, value, 1) < 0)
        return error_memory(err);
    if (row->instead)
        unsetenv(row->instead);
    return 0;
}

int place_take_leading(int *argc, char ***argv, struct error *err)
{
    char **words = *argv;
    int at = 1, result = 0;

    while (at < *argc && str_starts(words[at], "--") && result == 0) {
        const char *name = words[at] + 2, *equals = strchrnul(name, '=');
        const struct place_row *row = row_of(name, (size_t)(equals - name));

        if (!row)
            break;
        if (!*equals && at + 1 >= *argc)
            return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                             "--%s needs a value, and a command has to follow: 'bailey help'",
                             row->option);
        result = take(row, *equals ? equals + 1 : words[at + 1], err);
        at += *equals ? 1 : 2;
    }
    words[at - 1] = words[0];
    *argv = words + at - 1;
    *argc -= at - 1;
    return result;
}

int place_take(const struct parsed *parsed, struct error *err)
{
    int result = 0;

    for (size_t i = 0; i < parsed->use_count && result == 0; i++) {
        const struct option_row *option = parsed->uses[i].row;
        bool is_common = option >= common_options && option < common_options + common_option_count;
        const struct place_row *row = is_common ? row_of(option->name, strlen(option->name)) : NULL;

        if (row)
            result = take(row, parsed->uses[i].value, err);
    }
    return result;
}

const char *place_url(char *const *env)
{
    const char *url = env_value(env, PLACE_URL);

    return url && url[0] ? url : NULL;
}

static bool is_address(const char *url)
{
    return str_starts(url, "http://") || str_starts(url, "https://") || str_starts(url, "unix:///");
}

int place_check(const struct command *command, char *const *env, struct error *err)
{
    const char *url = place_url(env);

    if (!url || command->reach == REACH_NONE)
        return 0;
    if (command->reach == REACH_HERE)
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "'bailey %s' works on this machine only, and --url (" PLACE_URL
                         ") names the server %.200s: leave it out ('--url=' if it is in the "
                         "environment), or run the command on that machine",
                         command->name, url);
    if (!is_address(url))
        return error_set(err, -EINVAL, ERROR_BAD_INPUT,
                         "--url (" PLACE_URL ") '%.200s': write http://HOST:PORT, "
                         "https://HOST:PORT or unix:///PATH/engine.sock",
                         url);
    return 0;
}
