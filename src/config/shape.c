/* shape.c - the part of a configuration that affects a one-shot run; see shape.h. */
#include "config/shape.h"

#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "runtime/provider.h"

static int add_text(struct buf *text, const char *name, const char *value)
{
    return buf_printf(text, "%s=%s\n", name, value ? value : "");
}

static int add_number(struct buf *text, const char *name, uint64_t value)
{
    return buf_printf(text, "%s=%" PRIu64 "\n", name, value);
}

static int add_list(struct buf *text, const char *name, char *const *list)
{
    int r = buf_printf(text, "%s=", name);

    for (; list && *list && r == 0; list++)
        r = buf_printf(text, "%s,", *list);
    return r < 0 ? r : buf_append_text(text, "\n");
}

int shape_text(const struct shape *shape, const struct config *config, struct buf *text)
{
    const struct limits *limits = &config->limits;
    const struct {
        const char *name, *value;
    } texts[] = {
        {"version", BAILEY_VERSION}, {"state", shape->state}, {"interpreter", shape->fingerprint},
        {"layer", shape->layer},     {"type", config->type},  {"root", config->root}};
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {
        {"memory", limits->memory_bytes},       {"disk", limits->disk_bytes},
        {"output", limits->output_bytes},       {"pids", limits->pids},
        {"cpus", limits->cpu_millis},           {"isolation", config->isolation},
        {"id_base", config->id_base},           {"warm", config->is_warm},
        {"auto_install", config->auto_install}, {"block_imports", config->block_imports}};
    const struct provider_row *row = config_provider(config);
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(texts) && r == 0; i++)
        r = add_text(text, texts[i].name, texts[i].value);
    for (size_t i = 0; i < ARRAY_SIZE(numbers) && r == 0; i++)
        r = add_number(text, numbers[i].name, numbers[i].value);
    if (r == 0 && row && row->shape)
        r = row->shape(config, text);
    if (r == 0 && row && row->unavailable) /* else nothing can fall back */
        r = add_number(text, "fallback", config->falls_back);
    return r < 0 ? r : add_list(text, "blocked_imports", config->blocked_imports);
}

const char *shape_difference(const char *ours, const char *theirs, char name[64])
{
    while (*ours || *theirs) {
        size_t length = strcspn(ours, "\n");

        if (length != strcspn(theirs, "\n") || memcmp(ours, theirs, length) != 0) {
            str_format(name, 64, "%.*s", (int)MIN(strcspn(ours, "=\n"), (size_t)60), ours);
            return name;
        }
        ours += length + (ours[length] == '\n');
        theirs += length + (theirs[length] == '\n');
    }
    return NULL;
}
