/* fuzz_template.c - a hostile template.yaml, and a hostile name of a package. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "template/requirement.h"
#include "template/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_requirement(const uint8_t *data, size_t size)
{
    char text[2 * LIMIT_REQUIREMENT], name[LIMIT_REQUIREMENT + 1], again[LIMIT_REQUIREMENT + 1];
    struct error err = {0};

    if (size >= sizeof(text))
        size = sizeof(text) - 1;
    memcpy(text, data, size);
    text[size] = '\0';
    if (requirement_parse(text, name, &err) < 0)
        return;
    /* What is a name stays one, and nothing of it is an option or another line. */
    if (!requirement_normalise(name, strlen(name), again) || strcmp(name, again) != 0 ||
        text[0] == '-' || strchr(text, '\n') || strchr(text, '/') || strchr(text, '@'))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {0};
    json_t *json = NULL;
    int r = template_read((const char *)data, size, "template.yaml", &json, &err);

    if ((r < 0) != (err.num < 0) || (r < 0) != (json == NULL))
        abort();
    if (json && !template_name_is_good(json_string_value(json_object_get(json, "name"))))
        abort();
    json_decref(json);
    check_requirement(data, size);
    return 0;
}
