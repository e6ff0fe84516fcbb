/* messages.c - fields of the messages of sandboxagent.*, as Scalebox's clients number them. */
#include "api/scalebox/scalebox.h"
#include "base/cleanup.h"

/* clang-format off */

#define TEXT(number_, name_) {.number = number_, .name = name_, .kind = PROTOBUF_TEXT}
#define TEXTS(number_, name_) {.number = number_, .name = name_, .kind = PROTOBUF_TEXT, .is_list = true}
#define BYTES(number_, name_) {.number = number_, .name = name_, .kind = PROTOBUF_BYTES}
#define INTEGER(number_, name_) {.number = number_, .name = name_, .kind = PROTOBUF_INTEGER}
#define SIGNED(number_, name_) {.number = number_, .name = name_, .kind = PROTOBUF_SIGNED}
#define BOOL(number_, name_) {.number = number_, .name = name_, .kind = PROTOBUF_BOOL}
#define DOUBLE(number_, name_) {.number = number_, .name = name_, .kind = PROTOBUF_DOUBLE}
#define DOUBLES(number_, name_) {.number = number_, .name = name_, .kind = PROTOBUF_DOUBLE, .is_list = true}
#define TIME(number_, name_) {.number = number_, .name = name_, .kind = PROTOBUF_TIME}
#define MAP(number_, name_) {.number = number_, .name = name_, .kind = PROTOBUF_MAP}
#define ENUM(number_, name_, of) {.number = number_, .name = name_, .kind = PROTOBUF_ENUM, .values = of}
#define ONE(number_, name_, of) {.number = number_, .name = name_, .kind = PROTOBUF_MESSAGE, .message = &(of)}
#define LIST(number_, name_, of) \
    {.number = number_, .name = name_, .kind = PROTOBUF_MESSAGE, .is_list = true, .message = &(of)}
#define MESSAGE(name, ...) \
    static const struct protobuf_field name##_fields[] = {__VA_ARGS__}; \
    static const struct protobuf_message name = {name##_fields, ARRAY_SIZE(name##_fields)}

static const struct protobuf_message nothing;

/* ---- Filesystem ---- */

/* A link that leads nowhere is a file to these clients: they know no third type. */
static const struct protobuf_value file_types[] = {{"FILE_TYPE_FILE", 1}, {"FILE_TYPE_DIRECTORY", 2},
                                                   {"FILE_TYPE_SYMLINK", 1}, {NULL, 0}};
static const struct protobuf_value event_types[] = {
    {"EVENT_TYPE_CREATE", 1}, {"EVENT_TYPE_WRITE", 2}, {"EVENT_TYPE_REMOVE", 3},
    {"EVENT_TYPE_RENAME", 4}, {"EVENT_TYPE_CHMOD", 5}, {NULL, 0}};

MESSAGE(entry, TEXT(1, "name"), ENUM(2, "type", file_types), TEXT(3, "path"), INTEGER(4, "size"),
        INTEGER(5, "mode"), TEXT(6, "permissions"), TEXT(7, "owner"), TEXT(8, "group"),
        TIME(9, "modifiedTime"), TEXT(10, "symlinkTarget"));
MESSAGE(path_request, TEXT(1, "path"));
MESSAGE(move_request, TEXT(1, "source"), TEXT(2, "destination"));
MESSAGE(entry_reply, ONE(1, "entry", entry));
MESSAGE(list_dir_request, TEXT(1, "path"), INTEGER(2, "depth"));
MESSAGE(list_dir_reply, LIST(1, "entries", entry));
MESSAGE(watch_request, TEXT(1, "path"), BOOL(2, "recursive"));
MESSAGE(file_event, TEXT(1, "name"), ENUM(2, "type", event_types));
MESSAGE(watch_reply, ONE(1, "start", nothing), ONE(2, "filesystem", file_event),
        ONE(3, "keepalive", nothing));
MESSAGE(watcher, TEXT(1, "watcherId"));
MESSAGE(watcher_events, LIST(1, "events", file_event));

/* ---- Process ---- */

static const struct protobuf_value signals[] = {{"SIGNAL_SIGTERM", 15}, {"SIGNAL_SIGKILL", 9}, {NULL, 0}};

MESSAGE(pty_size, INTEGER(1, "cols"), INTEGER(2, "rows"));
MESSAGE(pty, ONE(1, "size", pty_size));
MESSAGE(process_config, TEXT(1, "cmd"), TEXTS(2, "args"), MAP(3, "envs"), TEXT(4, "cwd"));
MESSAGE(process_info, ONE(1, "config", process_config), INTEGER(2, "pid"), TEXT(3, "tag"));
MESSAGE(processes, LIST(1, "processes", process_info));
MESSAGE(start_request, ONE(1, "process", process_config), ONE(2, "pty", pty), TEXT(3, "tag"));
MESSAGE(selector, INTEGER(1, "pid"), TEXT(2, "tag"));
MESSAGE(update_request, ONE(1, "process", selector), ONE(2, "pty", pty));
MESSAGE(connect_request, ONE(1, "process", selector));
MESSAGE(start_event, INTEGER(1, "pid"));
MESSAGE(data_event, BYTES(1, "stdout"), BYTES(2, "stderr"), BYTES(3, "pty"));
MESSAGE(end_event, SIGNED(1, "exitCode"), BOOL(2, "exited"), TEXT(3, "status"), TEXT(4, "error"));
MESSAGE(process_event, ONE(1, "start", start_event), ONE(2, "data", data_event), ONE(3, "end", end_event),
        ONE(4, "keepalive", nothing));
MESSAGE(process_reply, ONE(1, "event", process_event));
MESSAGE(input, BYTES(1, "stdin"), BYTES(2, "pty"));
MESSAGE(send_input_request, ONE(1, "process", selector), ONE(2, "input", input));
MESSAGE(stream_start, ONE(1, "process", selector));
MESSAGE(stream_data, ONE(2, "input", input));
MESSAGE(stream_input_request, ONE(1, "start", stream_start), ONE(2, "data", stream_data),
        ONE(3, "keepalive", nothing));
MESSAGE(signal_request, ONE(1, "process", selector), ENUM(2, "signal", signals));

/* ---- ContextService, ExecutionService ---- */

MESSAGE(context_request, TEXT(1, "language"), TEXT(2, "cwd"));
MESSAGE(context, TEXT(1, "id"), TEXT(2, "language"), TEXT(3, "cwd"));
MESSAGE(destroy_request, TEXT(1, "contextId"));
MESSAGE(destroy_reply, BOOL(1, "success"));
MESSAGE(execute_request, TEXT(1, "contextId"), TEXT(2, "code"), TEXT(3, "language"), MAP(4, "envVars"));

static const struct protobuf_message chart; /* contains itself */
MESSAGE(point, TEXT(1, "xStr"), DOUBLE(2, "xNum"), TEXT(3, "yStr"), DOUBLE(4, "yNum"));
MESSAGE(point_data, TEXT(1, "label"), LIST(2, "points", point));
MESSAGE(bar_data, TEXT(1, "label"), TEXT(2, "group"), TEXT(3, "value"));
MESSAGE(pie_data, TEXT(1, "label"), DOUBLE(2, "angle"), DOUBLE(3, "radius"));
MESSAGE(box_data, TEXT(1, "label"), DOUBLE(2, "min"), DOUBLE(3, "firstQuartile"), DOUBLE(4, "median"),
        DOUBLE(5, "thirdQuartile"), DOUBLE(6, "max"), DOUBLES(7, "outliers"));
MESSAGE(chart_element, ONE(1, "pointData", point_data), ONE(2, "barData", bar_data),
        ONE(3, "pieData", pie_data), ONE(4, "boxWhiskerData", box_data), ONE(5, "nestedChart", chart));
MESSAGE(chart, TEXT(1, "type"), TEXT(2, "title"), LIST(3, "elements", chart_element), MAP(4, "extra"));
MESSAGE(result, INTEGER(1, "exitCode"), TEXT(4, "text"), TEXT(5, "html"), TEXT(6, "markdown"), TEXT(7, "svg"),
        TEXT(8, "png"), TEXT(9, "jpeg"), TEXT(10, "pdf"), TEXT(11, "latex"), TEXT(12, "json"),
        TEXT(13, "javascript"), TEXT(14, "data"), ONE(15, "chart", chart), INTEGER(16, "executionCount"),
        BOOL(17, "isMainResult"), MAP(18, "extra"));
MESSAGE(output, TEXT(1, "content"));
MESSAGE(error, TEXT(1, "name"), TEXT(2, "value"), TEXT(3, "traceback"));
MESSAGE(execute_reply, ONE(1, "stdout", output), ONE(2, "stderr", output), ONE(3, "result", result),
        ONE(4, "error", error));

/* ---- methods ---- */

#define FILESYSTEM "/sandboxagent.Filesystem/"
#define PROCESS "/sandboxagent.Process/"

const struct e2b_method scalebox_methods[] = {
    {FILESYSTEM "Stat", &path_request, &entry_reply},
    {FILESYSTEM "MakeDir", &path_request, &entry_reply},
    {FILESYSTEM "Move", &move_request, &entry_reply},
    {FILESYSTEM "ListDir", &list_dir_request, &list_dir_reply},
    {FILESYSTEM "Remove", &path_request, &nothing},
    {FILESYSTEM "WatchDir", &watch_request, &watch_reply},
    {FILESYSTEM "CreateWatcher", &watch_request, &watcher},
    {FILESYSTEM "GetWatcherEvents", &watcher, &watcher_events},
    {FILESYSTEM "RemoveWatcher", &watcher, &nothing},
    {PROCESS "List", &nothing, &processes},
    {PROCESS "Start", &start_request, &process_reply},
    {PROCESS "Connect", &connect_request, &process_reply},
    {PROCESS "Update", &update_request, &nothing},
    {PROCESS "SendInput", &send_input_request, &nothing},
    {PROCESS "StreamInput", &stream_input_request, &nothing},
    {PROCESS "SendSignal", &signal_request, &nothing},
    {"/sandboxagent.ContextService/CreateContext", &context_request, &context},
    {"/sandboxagent.ContextService/DestroyContext", &destroy_request, &destroy_reply},
    {"/sandboxagent.ExecutionService/Execute", &execute_request, &execute_reply},
    {NULL, NULL, NULL},
};
