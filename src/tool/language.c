/* language.c - the rows of the languages; see language.h. Interpreters: interpreter.c. */
#include "tool/language.h"

#include "base/cleanup.h"
#include "base/str.h"

const struct language_row language_table[] = {
    {"python", "Python", ".py", "main.py"},
    {"bash", "Bash", ".sh", "main.sh"},
};
const size_t language_count = ARRAY_SIZE(language_table);

const struct language_row *language_find(const char *name)
{
    for (size_t i = 0; i < language_count; i++) {
        if (str_equal(language_table[i].name, name))
            return &language_table[i];
    }
    return NULL;
}
