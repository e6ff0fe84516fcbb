/* schemas.c - the nouns of docs/rest.md as JSON Schema, for the OpenAPI document. */
#include "api/rest/rest_private.h"

#define STRING "{\"type\":\"string\"}"
#define STRING_OR_NULL "{\"type\":[\"string\",\"null\"]}"
#define INTEGER "{\"type\":\"integer\"}"
#define INTEGER_OR_NULL "{\"type\":[\"integer\",\"null\"]}"
#define NUMBER "{\"type\":\"number\"}"
#define BOOLEAN "{\"type\":\"boolean\"}"
#define ANY_OBJECT "{\"type\":\"object\"}"
#define STRINGS "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}"

const char openapi_components[] =
    "{\"schemas\":{"
    "\"Error\":{\"type\":\"object\",\"properties\":{\"error\":{\"type\":\"object\",\"properties\":{"
    "\"code\":{\"type\":\"string\"},\"message\":" STRING ",\"field\":" STRING ",\"line\":" INTEGER
    ",\"column\":" INTEGER ",\"nearest\":" STRING_OR_NULL ",\"retry_after_s\":" INTEGER
    ",\"ended_at\":" STRING_OR_NULL ",\"reason\":" STRING_OR_NULL ",\"execution_id\":" STRING
    ",\"stage\":" STRING ",\"errno\":" STRING ",\"first\":" INTEGER ",\"bytes\":" INTEGER
    "},\"required\":[\"code\",\"message\"]}},\"required\":[\"error\"]},"

    "\"Info\":{\"type\":\"object\",\"properties\":{\"version\":" STRING ",\"runtime\":" STRING
    ",\"launcher_pid\":" INTEGER ",\"broker_pid\":" INTEGER ",\"generation\":" INTEGER
    ",\"socket\":" STRING_OR_NULL ",\"state\":" STRING_OR_NULL ",\"started_at\":" STRING
    ",\"sessions\":" INTEGER ",\"max_sessions\":" INTEGER ",\"limits\":" ANY_OBJECT
    ",\"languages\":" STRINGS ",\"libraries\":" ANY_OBJECT
    "},\"required\":[\"version\",\"launcher_pid\",\"broker_pid\",\"sessions\"]},"

    "\"Tool\":{\"type\":\"object\",\"properties\":{\"name\":" STRING ",\"title\":" STRING
    ",\"category\":" STRING ",\"description\":" STRING ",\"parameters\":" ANY_OBJECT
    ",\"annotations\":" ANY_OBJECT "},\"required\":[\"name\",\"title\",\"category\","
    "\"description\",\"parameters\",\"annotations\"]},"

    "\"Dataset\":{\"type\":\"object\",\"properties\":{\"name\":" STRING ",\"path\":" STRING
    ",\"bytes\":" INTEGER "},\"required\":[\"name\",\"path\",\"bytes\"]},"

    "\"Session\":{\"type\":\"object\",\"properties\":{\"id\":" STRING ",\"tenant\":" STRING
    ",\"name\":" STRING_OR_NULL ",\"template\":" STRING_OR_NULL
    ",\"state\":{\"type\":\"string\",\"enum\":[\"new\",\"starting\",\"ready\",\"ending\","
    "\"ended\"]},\"created_at\":" STRING ",\"last_used_at\":" STRING
    ",\"expires_at\":" STRING_OR_NULL ",\"idle_timeout_s\":" NUMBER ",\"ended_at\":" STRING_OR_NULL
    ",\"end_reason\":" STRING_OR_NULL ",\"provider\":" STRING ",\"env\":" ANY_OBJECT
    ",\"datasets\":{\"type\":\"array\"},\"running\":" INTEGER ",\"executions\":" INTEGER
    ",\"output_folder\":" STRING_OR_NULL ",\"limits\":" ANY_OBJECT
    ",\"isolation\":{\"type\":[\"object\",\"null\"]}},\"required\":[\"id\",\"state\"]},"

    "\"Process\":{\"type\":\"object\",\"properties\":{\"execution_id\":" STRING
    ",\"kind\":{\"type\":\"string\",\"enum\":[\"command\",\"cell\"]},\"context\":" STRING
    ",\"number\":" INTEGER ",\"argv\":" STRINGS
    ",\"state\":{\"type\":\"string\",\"enum\":[\"waiting\",\"running\",\"exited\",\"failed\"]},"
    "\"started_at\":" STRING_OR_NULL ",\"ended_at\":" STRING_OR_NULL
    ",\"exit_code\":" INTEGER_OR_NULL ",\"signal\":" INTEGER_OR_NULL ",\"timed_out\":" BOOLEAN
    ",\"background\":" BOOLEAN ",\"pty\":" BOOLEAN ",\"stdout_bytes\":" INTEGER
    ",\"stderr_bytes\":" INTEGER ",\"error\":{\"type\":[\"object\",\"null\"]}},\"required\":["
    "\"execution_id\",\"state\"]},"

    "\"Result\":{\"type\":\"object\",\"properties\":{\"stdout\":" STRING ",\"stderr\":" STRING
    ",\"exit_code\":" INTEGER ",\"duration\":" NUMBER ",\"meta\":" ANY_OBJECT
    "},\"required\":[\"stdout\",\"stderr\",\"exit_code\",\"duration\",\"meta\"]},"

    "\"CellResult\":{\"type\":\"object\",\"properties\":{\"stdout\":" STRING ",\"stderr\":" STRING
    ",\"exit_code\":" INTEGER ",\"duration\":" NUMBER
    ",\"results\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{"
    "\"type\":{\"type\":\"string\",\"enum\":[\"result\",\"display\"]},\"data\":" ANY_OBJECT
    ",\"truncated\":" STRINGS "}}},\"error\":{\"type\":[\"object\",\"null\"],\"properties\":{"
    "\"name\":" STRING ",\"value\":" STRING ",\"traceback\":" STRING
    "}},\"execution_count\":" INTEGER_OR_NULL ",\"meta\":" ANY_OBJECT
    "},\"required\":[\"stdout\",\"stderr\",\"exit_code\",\"duration\",\"results\",\"error\","
    "\"meta\"]},"

    "\"Context\":{\"type\":\"object\",\"properties\":{\"id\":" STRING ",\"name\":" STRING_OR_NULL
    ",\"language\":" STRING
    ",\"state\":{\"type\":\"string\",\"enum\":[\"new\",\"idle\",\"busy\",\"dead\"]},"
    "\"cells\":" INTEGER ",\"pid\":" INTEGER_OR_NULL ",\"warm\":" BOOLEAN
    ",\"started_at\":" STRING_OR_NULL ",\"last_used_at\":" STRING_OR_NULL ",\"default\":" BOOLEAN
    ",\"cwd\":" STRING ",\"note\":" STRING_OR_NULL
    "},\"required\":[\"id\",\"language\",\"state\"]},"

    "\"Entry\":{\"type\":\"object\",\"properties\":{\"name\":" STRING
    ",\"type\":{\"type\":\"string\",\"enum\":[\"file\",\"folder\",\"symlink\",\"other\"]},"
    "\"bytes\":" INTEGER ",\"mode\":" STRING ",\"modified_at\":" STRING
    "},\"required\":[\"name\",\"type\",\"bytes\",\"mode\",\"modified_at\"]},"

    "\"Template\":{\"type\":\"object\",\"properties\":{\"name\":" STRING ",\"description\":" STRING
    ",\"state\":{\"type\":\"string\",\"enum\":[\"built\",\"not_built\",\"stale\"]},"
    "\"layer\":" STRING_OR_NULL ",\"python\":" STRING_OR_NULL
    ",\"packages\":{\"type\":\"array\",\"items\":{\"type\":\"object\"}},\"bytes\":" INTEGER
    ",\"files\":" INTEGER ",\"tiers\":{\"type\":\"array\",\"items\":{\"type\":\"object\"}},"
    "\"env\":" ANY_OBJECT ",\"built_at\":" STRING_OR_NULL ",\"used_by\":" INTEGER
    ",\"was_there\":" BOOLEAN "},\"required\":[\"name\",\"state\"]},"

    "\"Key\":{\"type\":\"object\",\"properties\":{\"id\":" STRING ",\"tenant\":" STRING
    ",\"name\":" STRING ",\"scopes\":" STRINGS ",\"created_at\":" STRING
    ",\"expires_at\":" STRING_OR_NULL ",\"used_at\":" STRING_OR_NULL ",\"key\":" STRING
    "},\"required\":[\"id\",\"tenant\",\"name\",\"scopes\",\"created_at\"]},"

    "\"Package\":{\"type\":\"object\",\"properties\":{\"name\":" STRING ",\"version\":" STRING
    "},\"required\":[\"name\",\"version\"]},"

    "\"Output\":{\"type\":\"object\",\"properties\":{\"name\":" STRING ",\"path\":" STRING_OR_NULL
    ",\"bytes\":" INTEGER ",\"mime\":" STRING_OR_NULL
    ",\"kind\":{\"type\":\"string\",\"enum\":[\"text\",\"image\",\"binary\"]},"
    "\"skipped\":" STRING_OR_NULL ",\"modified_at\":" STRING_OR_NULL ",\"id\":" STRING_OR_NULL
    ",\"sha256\":" STRING_OR_NULL ",\"url\":" STRING_OR_NULL "},\"required\":[\"name\",\"bytes\"]},"

    "\"Artifact\":{\"type\":\"object\",\"properties\":{\"id\":" STRING ",\"session_id\":" STRING
    ",\"name\":" STRING ",\"mime\":" STRING ",\"sha256\":" STRING ",\"bytes\":" INTEGER
    ",\"created_at\":" STRING ",\"expires_at\":" STRING_OR_NULL ",\"kept\":" BOOLEAN
    ",\"url\":" STRING "},\"required\":[\"id\",\"name\",\"sha256\",\"bytes\",\"url\"]},"

    "\"ExecuteError\":{\"type\":\"object\",\"properties\":{\"error\":" STRING ",\"code\":" STRING
    "},\"required\":[\"error\",\"code\"]}"
    "}}";
