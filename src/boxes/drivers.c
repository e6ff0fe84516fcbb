/* drivers.c - the files of ours that boxes have below /bailey/driver: what guest/ was built with.
 */
#include "base/cleanup.h"
#include "base/str.h"
#include "boxes/boxes.h"
#include "guest_files.h"
#include "zygote/zygote.h"
#include "zygote_file.h"

#define DRIVERS_MAX 32
#define PATH_MAX_BYTES 64

/* Handed to an interpreter as an argument, or a program of its own: no drivers. */
static const char *const arguments[] = {"check_imports.py", "pip.py"};

static bool is_argument(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(arguments); i++) {
        if (str_equal(name, arguments[i]))
            return true;
    }
    return false;
}

const struct launch_file *launch_drivers(size_t *ret_count)
{
    static struct launch_file files[DRIVERS_MAX];
    static char paths[DRIVERS_MAX][PATH_MAX_BYTES];
    static size_t listed; /* written once, at the first call */
    size_t count = 0;

    for (unsigned i = 0; listed == 0 && i < guest_files_count; i++) {
        const struct embedded *file = &guest_files[i];

        if (is_argument(file->name))
            continue;
        if (count == DRIVERS_MAX ||
            str_format(paths[count], sizeof(paths[count]), "driver/%s", file->name) < 0)
            break;
        files[count] = (struct launch_file){
            .path = paths[count], .text = (const char *)file->data, .length = *file->length};
        count++;
    }
    if (listed == 0)
        listed = count;
    *ret_count = listed;
    return files;
}

const struct launch_file *launch_zygote_module(void)
{
    static struct launch_file file = {.path = ZYGOTE_MODULE};

    file.text = (const char *)guest__zygote_so;
    file.length = guest__zygote_so_length;
    return &file;
}
