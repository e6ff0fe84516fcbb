/* language.c - the rows of the languages; see language.h. Interpreters: interpreter.c. */
#include "interpreter/language.h"

#include "base/cleanup.h"
#include "base/str.h"

#define DRIVERS "/bailey/driver/"

const struct language_row language_table[] = {
    {"python", "Python", {".py"}, ".py", "main.py", DRIVERS "kernel.py", "python3"},
    {"javascript",
     "JavaScript",
     {".mjs", ".js", ".cjs"},
     ".mjs",
     "main.mjs",
     DRIVERS "kernel.mjs",
     "node"},
    {"bash", "Bash", {".sh", ".bash"}, ".sh", "main.sh", DRIVERS "kernel.bash", "bash"},
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

const struct language_row *language_of_path(const char *path)
{
    for (size_t i = 0; i < language_count; i++) {
        for (const char *const *end = language_table[i].extensions; *end; end++) {
            if (str_ends(path, *end))
                return &language_table[i];
        }
    }
    return NULL;
}
