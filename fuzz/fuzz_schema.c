/*
 * fuzz_schema.c - any bytes as the JSON of a tool call, against every tool's schema. What is
 * refused has a code, words, and a field in valid UTF-8; a path in it that is let through lies
 * where tools may write.
 */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "tool/file_path.h"
#include "tool/schema.h"
#include "tool/tool.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int claim)
{
    if (!claim)
        abort();
}

static void check_problem(const struct schema_problem *problem)
{
    size_t length = strlen(problem->field);

    require(problem->err.code && problem->err.num < 0 && problem->err.text[0]);
    require(utf8_floor(problem->field, length) == length);
}

static void check_path(json_t *value)
{
    char path[LIMIT_PATH_BYTES + 1];
    struct error err;

    if (!json_is_string(value) ||
        file_path_for_tool(json_string_value(value), json_string_length(value), path, &err) < 0)
        return;
    require(str_starts(path, "/tmp/") || str_starts(path, "/workspace/"));
    require(!strstr(path, "/../") && !str_ends(path, "/..") && !strstr(path, "//"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct schema_problem problem;
    json_t *json = json_read((const char *)data, size, &problem);

    if (!json) {
        check_problem(&problem);
        require(problem.line > 0 && problem.column > 0);
        return 0;
    }
    for (size_t i = 0; i < tool_count; i++) {
        struct schema *schema;

        require(schema_compile(tool_table[i].schema, &schema) == 0);
        if (!schema_check(schema, json, &problem))
            check_problem(&problem);
        schema_free(schema);
    }
    check_path(json_object_get(json, "file_path"));
    json_decref(json);
    return 0;
}
