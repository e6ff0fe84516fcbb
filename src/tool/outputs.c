/* outputs.c - fetched outputs in results and replies; see outputs.h. */
#include "tool/outputs.h"

#include <jansson.h>

#include "base/limits.h"
#include "base/str.h"

void outputs_to_result(struct session *session, const struct session_output *changed, size_t count,
                       uint64_t total, const struct error *err, struct result *result)
{
    char path[LIMIT_PATH_BYTES + 1];

    if (err && err->num < 0) {
        result_note(result, "bailey: the files of /tmp/output could not be fetched: %s", err->text);
        return;
    }
    result->total_output_files = total;
    for (size_t i = 0; i < count && result->file_count < LIMIT_OUTPUT_FILES; i++) {
        bool has_path =
            changed[i].is_saved && str_format(path, sizeof(path), "%s/%s",
                                              session_output_folder(session), changed[i].name) == 0;
        const char *skipped = changed[i].skipped ? changed[i].skipped : NULL;

        if (result_add_file(result, changed[i].name, has_path ? path : NULL, changed[i].bytes,
                            has_path ? NULL : skipped) < 0)
            return; /* no memory: the list is shorter, the count is true */
    }
}

static int add(json_t *array, struct session *session, const struct session_output *changed,
               size_t count, bool is_saved)
{
    size_t added = 0;

    for (size_t i = 0; i < count && added < LIMIT_TOOL_OUTPUTS; i++) {
        if (changed[i].is_saved != is_saved)
            continue;
        if (json_array_append_new(array, session_output_json(session, &changed[i])) < 0)
            return -1;
        added++;
    }
    return 0;
}

json_t *outputs_to_json(struct session *session, const struct session_output *changed, size_t count)
{
    json_t *array = json_array();

    if (array && (add(array, session, changed, count, true) < 0 ||
                  add(array, session, changed, count, false) < 0)) {
        json_decref(array);
        return NULL;
    }
    return array;
}
