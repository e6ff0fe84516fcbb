/*
 * schemas.h - pieces that the rows of routes.c are made of: JSON Schema as text, parameters, lists
 * of errors. Inside of rest/.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_REST_SCHEMAS_H
#define BAILEY_API_REST_SCHEMAS_H

#define S_STRING "{\"type\":\"string\"}"
#define S_NAME "{\"type\":\"string\",\"minLength\":1}"
#define S_TEXT "{\"type\":\"string\",\"contentMediaType\":\"text/plain\"}"
#define S_BOOLEAN "{\"type\":\"boolean\"}"
#define S_COUNT "{\"type\":\"integer\",\"minimum\":0}"
#define S_SIZE "{\"type\":\"integer\",\"minimum\":1,\"maximum\":4096}"
#define S_MODE "{\"type\":\"string\",\"pattern\":\"^[0-7]{1,5}$\",\"minLength\":1}"
#define S_SECONDS "{\"type\":\"number\",\"exclusiveMinimum\":0,\"maximum\":86400}"
#define S_ENV "{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}"

#define REF(name) "{\"$ref\":\"#/components/schemas/" name "\"}"
#define MEMBER(name, schema) "\"" name "\":" schema
#define OBJECT(members, required)                                               \
    "{\"type\":\"object\",\"properties\":{" members "},\"required\":[" required \
    "],\"additionalProperties\":false}"
#define LIST_OF(name, type)                        \
    "{\"type\":\"object\",\"properties\":{\"" name \
    "\":{\"type\":\"array\",\"items\":" REF(type) "}},\"required\":[\"" name "\"]}"

#define R_PATH OBJECT(MEMBER("path", S_STRING), "\"path\"")

#define B_SESSION                                                                                  \
    OBJECT(                                                                                        \
        MEMBER("name", S_NAME) "," MEMBER("template", S_NAME) "," MEMBER("env", S_ENV) "," MEMBER( \
            "idle_timeout_s",                                                                      \
            S_SECONDS) "," MEMBER("max_age_s",                                                     \
                                  S_SECONDS) "," MEMBER("datasets",                                \
                                                        "{\"type\":\"array\",\"maxItems\":256,"    \
                                                        "\"items\":" B_DATASET "}"),               \
        "")
#define B_DATASET                                                           \
    OBJECT(MEMBER("name", S_NAME) "," MEMBER("content", S_TEXT) "," MEMBER( \
               "content_base64", S_STRING) "," MEMBER("path", S_NAME),      \
           "\"name\"")
#define S_WORDS "{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"maxItems\":256}"
#define B_TIER OBJECT(MEMBER("name", S_NAME) "," MEMBER("modules", S_WORDS), "\"name\",\"modules\"")
#define B_TEMPLATE                                                                                                                 \
    "{\"type\":\"object\",\"properties\":{" MEMBER("name", S_NAME) "," MEMBER("description", S_STRING) "," MEMBER(                 \
        "python",                                                                                                                  \
        S_NAME) "," MEMBER("packages",                                                                                             \
                           S_WORDS) "," MEMBER("lock",                                                                             \
                                               S_STRING) "," MEMBER("tiers",                                                       \
                                                                    "{\"type\":\"array\","                                         \
                                                                    "\"maxItems\":7,"                                              \
                                                                    "\"items\":" B_TIER                                            \
                                                                    "}") "," MEMBER("env",                                         \
                                                                                    S_ENV) "," MEMBER("files",                     \
                                                                                                      S_ENV) "," MEMBER("warm_up", \
                                                                                                                        S_WORDS) "},\"required\":[\"name\"],\"additionalProperties\":false}"
#define B_EXTEND OBJECT(MEMBER("seconds", S_SECONDS), "\"seconds\"")
#define B_EXEC                                                                                                                                                                                                     \
    OBJECT(                                                                                                                                                                                                        \
        MEMBER(                                                                                                                                                                                                    \
            "argv",                                                                                                                                                                                                \
            "{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"minItems\":1,"                                                                                                                                  \
            "\"maxItems\":4096}") "," MEMBER("env",                                                                                                                                                                \
                                             S_ENV) "," MEMBER("cwd",                                                                                                                                              \
                                                               S_NAME) "," MEMBER("stdin",                                                                                                                         \
                                                                                  "{\"type"                                                                                                                        \
                                                                                  "\":["                                                                                                                           \
                                                                                  "\"string"                                                                                                                       \
                                                                                  "\","                                                                                                                            \
                                                                                  "\"boolea"                                                                                                                       \
                                                                                  "n\","                                                                                                                           \
                                                                                  "\"null\""                                                                                                                       \
                                                                                  "],"                                                                                                                             \
                                                                                  "\"conten"                                                                                                                       \
                                                                                  "tMediaTy"                                                                                                                       \
                                                                                  "pe\":"                                                                                                                          \
                                                                                  "\"text/"                                                                                                                        \
                                                                                  "plain\""                                                                                                                        \
                                                                                  "}") "," MEMBER("timeout",                                                                                                       \
                                                                                                  "{\"type\":\"number\",\"minimum\":0,\"maximum\":86400,"                                                          \
                                                                                                  "\"default\":60}") "," MEMBER("background",                                                                      \
                                                                                                                                S_BOOLEAN) "," MEMBER("collect",                                                   \
                                                                                                                                                      S_BOOLEAN) "," MEMBER("pty",                                 \
                                                                                                                                                                            OBJECT(                                \
                                                                                                                                                                                MEMBER("rows", S_SIZE) "," MEMBER( \
                                                                                                                                                                                    "columns",                     \
                                                                                                                                                                                    S_SIZE),                       \
                                                                                                                                                                                "\"rows\",\"columns\"")),          \
        "\"argv\"")
#define B_SIGNAL OBJECT(MEMBER("signal", "{\"type\":[\"string\",\"integer\"]}"), "\"signal\"")
#define B_RESIZE \
    OBJECT(MEMBER("rows", S_SIZE) "," MEMBER("columns", S_SIZE), "\"rows\",\"columns\"")
#define B_MKDIR OBJECT(MEMBER("path", S_STRING) "," MEMBER("mode", S_MODE), "\"path\"")
#define B_MOVE OBJECT(MEMBER("from", S_STRING) "," MEMBER("to", S_STRING), "\"from\",\"to\"")
#define B_CHMOD OBJECT(MEMBER("path", S_STRING) "," MEMBER("mode", S_MODE), "\"path\",\"mode\"")
/* clang-format off */
#define S_LANGUAGE \
    "{\"type\":\"string\",\"enum\":[\"python\",\"javascript\",\"bash\"],\"default\":\"python\"}"
#define B_RUN \
    OBJECT(MEMBER("code", S_TEXT) "," MEMBER("language", S_LANGUAGE) "," \
           MEMBER("timeout", S_SECONDS) "," MEMBER("env", S_ENV) "," MEMBER("stdin", S_TEXT) "," \
           MEMBER("template", S_NAME) "," MEMBER("name", S_NAME) "," \
           MEMBER("arguments", S_WORDS) "," MEMBER("store", S_BOOLEAN) "," \
           MEMBER("like", S_STRING), "\"code\"")
#define S_CELL_TIMEOUT "{\"type\":\"number\",\"minimum\":0,\"maximum\":86400,\"default\":60}"
#define B_CODE                                                                                  \
    OBJECT(MEMBER("code", S_TEXT) "," MEMBER("language", S_LANGUAGE) ","                        \
           MEMBER("context", S_NAME) "," MEMBER("timeout", S_CELL_TIMEOUT) ","                  \
           MEMBER("stdin", S_TEXT) "," MEMBER("env", S_ENV) ","                                 \
           MEMBER("background", S_BOOLEAN) "," MEMBER("collect", S_BOOLEAN),                    \
           "\"code\"")
#define B_CONTEXT                                                                               \
    OBJECT(MEMBER("language", S_LANGUAGE) "," MEMBER("name", S_NAME) ","                        \
           MEMBER("cwd", S_NAME),                                                               \
           "")
#define B_PACKAGES                                                                              \
    OBJECT(MEMBER("packages", "{\"type\":\"array\",\"items\":" S_NAME                           \
                              ",\"minItems\":1,\"maxItems\":64}"),                              \
           "\"packages\"")
#define R_PACKAGES                                                                              \
    OBJECT(MEMBER("installed", "{\"type\":\"array\",\"items\":" REF("Package") "}") ","          \
           MEMBER("layer", S_STRING) "," MEMBER("ms", S_COUNT),                                 \
           "\"installed\",\"layer\",\"ms\"")
/* clang-format on */

/* arguments that many rows have */
#define ID                                                                            \
    {                                                                                 \
        "id", IN_PATH, true, S_NAME, "id, the beginning of one, or name of a session" \
    }
#define ARTIFACT                                       \
    {                                                  \
        "id", IN_PATH, true, S_NAME, "id of an output" \
    }
#define EXECUTION                                                         \
    {                                                                     \
        "execution", IN_PATH, true, S_NAME, "execution id, or its number" \
    }
#define CONTEXT                                                     \
    {                                                               \
        "context", IN_PATH, true, S_NAME, "id or name of a context" \
    }
#define PATH                                                         \
    {                                                                \
        "path", IN_QUERY, true, S_STRING, "absolute path in the box" \
    }
#define TEMPLATE                                    \
    {                                               \
        "name", IN_PATH, true, S_NAME, "a template" \
    }
#define RESUME                                                                       \
    {                                                                                \
        "Last-Event-ID", IN_HEADER, false, S_STRING, "the id of the last event seen" \
    }
#define QUERY(name, schema, help)           \
    {                                       \
        name, IN_QUERY, false, schema, help \
    }

#define SESSION_ERRORS "session_not_found session_ambiguous session_ended"
#define BOX_ERRORS SESSION_ERRORS " box_failed box_lost refused shutting_down"
#define FILE_ERRORS \
    BOX_ERRORS " path_invalid path_refused path_not_found path_is_folder path_not_folder"
#define WRITE_ERRORS FILE_ERRORS " read_only disk_full path_exists"
#define EXECUTION_ERRORS "session_not_found session_ambiguous execution_not_found"
#define INSTALL_ERRORS                                                                          \
    "install_failed no_network no_interpreter too_large disk_full box_failed box_lost refused " \
    "cancelled shutting_down"

#endif
