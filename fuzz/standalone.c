/*
 * standalone.c - runs a fuzz target over committed files, without libFuzzer, for every compiler.
 *
 * Arguments are files or folders; each file's bytes go once into LLVMFuzzerTestOneInput, in memory
 * that ends with the last byte so that a sanitizer sees a read behind it. An empty corpus fails:
 * a test that tests nothing must not pass.
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run_file(const char *path, size_t size)
{
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(size > 0 ? size : 1);
    int r = -1;

    if (file && data && fread(data, 1, size, file) == size) {
        LLVMFuzzerTestOneInput(data, size);
        r = 0;
    } else {
        perror(path);
    }
    free(data);
    if (file)
        fclose(file);
    return r;
}

static int run_path(const char *path, unsigned long *count);

static int run_folder(const char *path, unsigned long *count)
{
    DIR *folder = opendir(path);
    struct dirent *entry;
    int r = 0;

    if (!folder) {
        perror(path);
        return -1;
    }
    while (r == 0 && (entry = readdir(folder))) {
        char *name = NULL;

        if (entry->d_name[0] == '.')
            continue;
        if (asprintf(&name, "%s/%s", path, entry->d_name) < 0)
            r = -1;
        else
            r = run_path(name, count);
        free(name);
    }
    closedir(folder);
    return r;
}

static int run_path(const char *path, unsigned long *count)
{
    struct stat st;

    if (stat(path, &st) < 0) {
        perror(path);
        return -1;
    }
    if (S_ISDIR(st.st_mode))
        return run_folder(path, count);
    (*count)++;
    return run_file(path, (size_t)st.st_size);
}

int main(int argc, char **argv)
{
    unsigned long count = 0;

    for (int i = 1; i < argc; i++) {
        if (run_path(argv[i], &count) < 0)
            return 1;
    }
    printf("%lu inputs\n", count);
    return count > 0 ? 0 : 1;
}
