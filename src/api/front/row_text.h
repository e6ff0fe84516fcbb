/*
 * row_text.h - macros for the rows of doors: JSON Schema as text, parameters, lists of errors.
 *
 * Runs in: broker
 */
#ifndef BAILEY_API_FRONT_ROW_TEXT_H
#define BAILEY_API_FRONT_ROW_TEXT_H

/* clang-format off */

/*
 * JSON written without escaped quotes. Macros inside are not expanded: pieces are combined as text
 * with OBJECT(), MEMBER() and ALSO().
 */
#define JSON(...) #__VA_ARGS__

#define S_ANY_OBJECT  JSON({"type":"object","additionalProperties":true})
#define S_STRING      JSON({"type":"string"})
#define S_NAME        JSON({"type":"string","minLength":1})
#define S_TEXT        JSON({"type":"string","contentMediaType":"text/plain"})
#define S_BOOLEAN     JSON({"type":"boolean"})
#define S_COUNT       JSON({"type":"integer","minimum":0})
#define S_SIZE        JSON({"type":"integer","minimum":1,"maximum":4096})
#define S_MODE        JSON({"type":"string","pattern":"^[0-7]{1,5}$","minLength":1})
#define S_SECONDS     JSON({"type":"number","exclusiveMinimum":0,"maximum":86400})
#define S_TIMEOUT     JSON({"type":"number","minimum":0,"maximum":86400,"default":60})
#define S_ENV         JSON({"type":"object","additionalProperties":{"type":"string"}})
#define S_WORDS       JSON({"type":"array","items":{"type":"string"},"maxItems":256})
#define S_NAMES       JSON({"type":"array","items":{"type":"string"}})
#define S_LANGUAGE    JSON({"type":"string","enum":["python","javascript","bash"],"default":"python"})

/*
 * OBJECT(MEMBER("rows", S_SIZE) ALSO("columns", S_SIZE), "rows", "columns"): the names after the
 * members are required. Other members are refused.
 */
#define MEMBER(name, schema) "\"" name "\":" schema
#define ALSO(name, schema) "," MEMBER(name, schema)
#define OBJECT(members, ...)                            \
    "{\"type\":\"object\",\"properties\":{" members "}" \
    ",\"required\":[" #__VA_ARGS__ "],\"additionalProperties\":false}"
/* ... other members are ignored. */
#define OPEN_OBJECT(members, ...)                       \
    "{\"type\":\"object\",\"properties\":{" members "}" \
    ",\"required\":[" #__VA_ARGS__ "]}"
/* {"sessions":[...]}: a reference to one of the door's schemas. */
#define REF(name) "{\"$ref\":\"#/components/schemas/" name "\"}"
#define ARRAY_OF(items) "{\"type\":\"array\",\"items\":" items "}"
#define ARRAY_UP_TO(items, maximum) \
    "{\"type\":\"array\",\"items\":" items ",\"maxItems\":" #maximum "}"
#define ARRAY_FROM_TO(items, minimum, maximum) \
    "{\"type\":\"array\",\"items\":" items ",\"minItems\":" #minimum ",\"maxItems\":" #maximum "}"
#define LIST_OF(name, noun) OPEN_OBJECT(MEMBER(name, ARRAY_OF(REF(noun))), name)

/* Parameters. */
#define IN_THE_PATH(word, text) \
    {.name = word, .in = IN_PATH, .is_required = true, .schema = S_NAME, .help = text}
#define QUERY(word, type, text) {.name = word, .in = IN_QUERY, .schema = type, .help = text}
#define SESSION_ID IN_THE_PATH("id", "id, the beginning of one, or name of a session")
#define EXECUTION IN_THE_PATH("execution", "execution id, or its number")
#define PINNED_SESSION \
    {.name = SESSION_HEADER, .in = IN_HEADER, .schema = S_STRING, \
     .help = "session to use if neither the query nor the parameters name one"}
#define LAST_EVENT \
    {.name = "Last-Event-ID", .in = IN_HEADER, .schema = S_STRING, \
     .help = "the id of the last event seen"}
/* clang-format on */

/* Codes of errors that many rows have. */
#define SESSION_ERRORS "session_not_found session_ambiguous session_ended"
#define BOX_ERRORS SESSION_ERRORS " session_paused box_failed box_lost refused shutting_down"
#define EXECUTION_ERRORS \
    "session_not_found session_ambiguous session_ended session_paused execution_not_found"

#endif
