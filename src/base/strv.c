/* strv.c - NULL-terminated vectors of strings: owned ones, and environments; see str.h. */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

char **strv_new(void)
{
    return calloc(1, sizeof(char *));
}

size_t strv_length(char *const *list)
{
    size_t length = 0;

    while (list && list[length])
        length++;
    return length;
}

int strv_push_n(char ***list, const char *text, size_t length)
{
    size_t count = strv_length(*list);
    char *copy, **grown;

    if (length == SIZE_MAX || count > SIZE_MAX / sizeof(char *) - 2)
        return -ENOMEM;
    copy = malloc(length + 1);
    if (!copy)
        return -ENOMEM;
    if (length > 0)
        memcpy(copy, text, length);
    copy[length] = '\0';
    grown = reallocarray(*list, count + 2, sizeof(char *));
    if (!grown) {
        free(copy);
        return -ENOMEM;
    }
    grown[count] = copy;
    grown[count + 1] = NULL;
    *list = grown;
    return 0;
}

int strv_push(char ***list, const char *text)
{
    return strv_push_n(list, text, strlen(text));
}

char **strv_copy(const char *const *list)
{
    size_t count = strv_length((char *const *)list);
    char **copy = calloc(count + 1, sizeof(char *));

    if (!copy)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        copy[i] = strdup(list[i]);
        if (!copy[i]) {
            strv_free(copy);
            return NULL;
        }
    }
    return copy;
}

void strv_free(char **list)
{
    if (!list)
        return;
    for (size_t i = 0; list[i]; i++)
        free(list[i]);
    free(list);
}

void strv_freep(char ***list)
{
    strv_free(*list);
    *list = NULL;
}

const char *env_value(char *const *env, const char *name)
{
    size_t length = strlen(name);

    for (; env && *env; env++)
        if (strncmp(*env, name, length) == 0 && (*env)[length] == '=')
            return *env + length + 1;
    return NULL;
}

const char *env_text(char *const *env, const char *name)
{
    const char *value = env_value(env, name);

    return value && *value ? value : NULL;
}
