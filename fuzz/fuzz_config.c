/* fuzz_config.c - a hostile bailey.yaml: the YAML reader alone, then a whole load with checks. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An error without a number, a word and a text, or a number without an error, is a bug. */
static void expect_whole(int r, const struct error *err)
{
    if (r > 0 || (r < 0 && (err->num != r || !err->code || !err->text[0])))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    char *const env[] = {NULL};
    struct error err = {0};
    struct config config;
    json_t *tree = NULL;
    int r = config_yaml_parse(text, size, "fuzz.yaml", &tree, &err);

    expect_whole(r, &err);
    if ((r == 0) != (tree != NULL))
        abort();
    json_decref(tree);
    r = config_load_text(&config, text, size, "fuzz.yaml", env, &err);
    expect_whole(r, &err);
    if (r < 0)
        return 0;
    r = config_check(&config, &err);
    expect_whole(r, &err);
    if (r == 0 && config.limits.disk_bytes >= config.limits.memory_bytes)
        abort();
    if (!config.type || !config.blocked_imports || !config.languages)
        abort();
    config_free(&config);
    return 0;
}
