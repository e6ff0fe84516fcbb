/* file_change.c - changes of files in boxes; see file_change.h. */
#include "api/file_change.h"

#include <jansson.h>
#include <string.h>

#include "model/text.h"
#include "observe/bus.h"
#include "session/session.h"
#include "session/session_manager.h"
#include "wire/file_message.h"

static const char *const kinds[_CHANGE_KIND_MAX] = {
    [CHANGE_CREATED] = "created",       [CHANGE_WRITTEN] = "written",
    [CHANGE_REMOVED] = "removed",       [CHANGE_RENAMED_FROM] = "renamed_from",
    [CHANGE_RENAMED_TO] = "renamed_to", [CHANGE_ATTRIBUTES] = "attributes",
    [CHANGE_OVERFLOW] = "overflow",
};

const char *file_change_name(unsigned kind)
{
    return kind < _CHANGE_KIND_MAX ? kinds[kind] : NULL;
}

void file_change_publish(struct session *session, const char *kind, const char *path,
                         bool is_folder)
{
    bus_publish(session_manager_bus(session_manager_of(session)), EVENT_FILE_CHANGED,
                session_tenant(session), session_id(session),
                json_pack("{s:s, s:o, s:s}", "kind", kind, "path", text_to_json(path, strlen(path)),
                          "type", is_folder ? "folder" : "file"));
}
