/*
 * value.c - one value's text, checked and stored in the typed field of its key.
 *
 * Each key has a rule: how its text is parsed, the range, and the field that gets the result. A
 * value is parsed completely before anything is changed.
 */
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "config/config_private.h"
#include "config/image_name.h"
#include "runtime/provider.h"

enum field_type { FIELD_NONE, FIELD_U64, FIELD_U32, FIELD_INT, FIELD_BOOL, FIELD_LIST, FIELD_TEXT };

/* The parsed value: a number (also an index into words, or a boolean) or a list. */
struct parsed {
    uint64_t number;
    char **list; /* owned */
};

struct rule {
    int (*parse)(const struct rule *rule, const char *text, struct parsed *ret);
    const char *noun; /* "'12x' is not <noun>" */
    uint64_t minimum, maximum;
    const char *const *words; /* NULL-terminated; in the order of the enum values */
    enum field_type type;
    size_t offset;       /* of the field in struct config */
    const char *allowed; /* replaces the text in config_table */
};

static int in_range(const struct rule *rule, uint64_t number, struct parsed *ret)
{
    if (number < rule->minimum || number > rule->maximum)
        return -ERANGE;
    ret->number = number;
    return 0;
}

static int parse_bytes(const struct rule *rule, const char *text, struct parsed *ret)
{
    uint64_t number;
    int r = str_to_bytes(text, &number);

    return r < 0 ? r : in_range(rule, number, ret);
}

/* Whole KB, as the key's name says, unless a unit is given; the range is in bytes. */
static int parse_kilobytes(const struct rule *rule, const char *text, struct parsed *ret)
{
    uint64_t number;
    int r;

    if (text[strspn(text, "0123456789.")] != '\0')
        return parse_bytes(rule, text, ret); /* it has a unit */
    r = str_to_u64(text, &number);
    if (r < 0)
        return r;
    return number > UINT64_MAX / KIB ? -ERANGE : in_range(rule, number * KIB, ret);
}

static int parse_millis(const struct rule *rule, const char *text, struct parsed *ret)
{
    uint64_t number;
    int r = str_to_millis(text, &number);

    return r < 0 ? r : in_range(rule, number, ret);
}

static int parse_count(const struct rule *rule, const char *text, struct parsed *ret)
{
    uint64_t number;
    int r = str_to_u64(text, &number);

    return r < 0 ? r : in_range(rule, number, ret);
}

/* "all" is 0; CPUs are parsed in thousandths, like seconds without a unit in milliseconds. */
static int parse_cpus(const struct rule *rule, const char *text, struct parsed *ret)
{
    uint64_t number;
    int r;

    if (str_equal(text, "all")) {
        ret->number = 0;
        return 0;
    }
    if (text[strspn(text, "0123456789.")] != '\0')
        return -EINVAL;
    r = str_to_millis(text, &number);
    return r < 0 ? r : in_range(rule, number, ret);
}

static int parse_bool(const struct rule *rule, const char *text, struct parsed *ret)
{
    bool truth;
    int r = str_to_bool(text, &truth);

    (void)rule;
    if (r == 0)
        ret->number = truth;
    return r;
}

static int find_word(const char *const *words, const char *text, size_t length)
{
    for (int i = 0; words[i]; i++) {
        if (strlen(words[i]) == length && memcmp(words[i], text, length) == 0)
            return i;
    }
    return -EINVAL;
}

static int parse_word(const struct rule *rule, const char *text, struct parsed *ret)
{
    int r = find_word(rule->words, text, strlen(text));

    if (r < 0)
        return r;
    ret->number = (uint64_t)r;
    return 0;
}

/*
 * Letters, digits and underscores between dots, no digit first. Bytes over 127 are allowed by
 * Python.
 */
static bool is_module_name(const char *text, size_t length)
{
    bool is_start = true;

    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        bool is_digit = c >= '0' && c <= '9';
        bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c >= 0x80;

        if (c == '.' && !is_start) {
            is_start = true;
            continue;
        }
        if (!is_letter && (!is_digit || is_start))
            return false;
        is_start = false;
    }
    return !is_start;
}

/* Names separated by commas and blanks; each is one of the rule's words, or a module's name. */
static int parse_list(const struct rule *rule, const char *text, struct parsed *ret)
{
    static const char blanks[] = " \t";
    CLEANUP(strv_freep) char **list = strv_new();

    if (!list)
        return -ENOMEM;
    for (;;) {
        size_t length;

        text += strspn(text, blanks);
        length = strcspn(text, ", \t");
        if (rule->words ? find_word(rule->words, text, length) < 0 : !is_module_name(text, length))
            return -EINVAL;
        if (strv_push_n(&list, text, length) < 0)
            return -ENOMEM;
        text += length;
        text += strspn(text, blanks);
        if (*text == '\0')
            break;
        if (*text++ != ',')
            return -EINVAL;
    }
    ret->list = ptr_take(&list);
    return 0;
}

/* A name that is passed to other programs: no blanks or control bytes, and not like an option. */
static int parse_name(const struct rule *rule, const char *text, struct parsed *ret)
{
    (void)rule;
    (void)ret;
    if (text[0] == '\0' || text[0] == '-' || strlen(text) > LIMIT_PATH_BYTES)
        return -EINVAL;
    for (; *text; text++) {
        if ((unsigned char)*text <= ' ' || *text == 0x7f)
            return -EINVAL;
    }
    return 0;
}

static int parse_url(const struct rule *rule, const char *text, struct parsed *ret)
{
    size_t scheme = str_starts(text, "http://") ? 7 : str_starts(text, "https://") ? 8 : 0;

    return scheme == 0 || text[scheme] == '\0' ? -EINVAL : parse_name(rule, text, ret);
}

/* Of an API: without user and password, which would be a secret, and without a query. */
static int parse_base_url(const struct rule *rule, const char *text, struct parsed *ret)
{
    return strpbrk(text, "@?#") ? -EINVAL : parse_url(rule, text, ret);
}

static int parse_image(const struct rule *rule, const char *text, struct parsed *ret)
{
    (void)rule;
    (void)ret;
    return image_name_is_valid(text) ? 0 : -EINVAL;
}

/* The host's own root would show a guest every file of the host. */
static int parse_root(const struct rule *rule, const char *text, struct parsed *ret)
{
    (void)rule;
    (void)ret;
    if (text[0] == '\0' || strlen(text) > LIMIT_PATH_BYTES)
        return -EINVAL;
    return text[0] == '/' && text[strspn(text, "/.")] == '\0' ? -EINVAL : 0;
}

/* A relative path would let the working folder choose the interpreter. */
static int parse_program(const struct rule *rule, const char *text, struct parsed *ret)
{
    (void)rule;
    (void)ret;
    if (text[0] == '\0' || strlen(text) > LIMIT_PATH_BYTES)
        return -EINVAL;
    return text[0] != '/' && strchr(text, '/') ? -EINVAL : 0;
}

/* The daemon's folders must not depend on its working directory. */
static int parse_absolute(const struct rule *rule, const char *text, struct parsed *ret)
{
    (void)rule;
    (void)ret;
    return text[0] == '/' && strlen(text) <= LIMIT_PATH_BYTES ? 0 : -EINVAL;
}

static int parse_folders(const struct rule *rule, const char *text, struct parsed *ret)
{
    CLEANUP(strv_freep) char **list = strv_new();

    (void)rule;
    if (!list)
        return -ENOMEM;
    while (*text) {
        size_t length = strcspn(text, ",");

        if (text[0] != '/' || length > LIMIT_PATH_BYTES)
            return -EINVAL;
        if (strv_push_n(&list, text, length) < 0)
            return -ENOMEM;
        text += length + (text[length] == ',');
    }
    ret->list = ptr_take(&list);
    return 0;
}

/* Names or hosts separated by commas; without blanks or control bytes. */
static int parse_names(const struct rule *rule, const char *text, struct parsed *ret)
{
    CLEANUP(strv_freep) char **list = strv_new();

    if (!list)
        return -ENOMEM;
    for (;;) {
        CLEANUP(freep) char *name = NULL;
        size_t length;

        text += strspn(text, " \t");
        length = strcspn(text, ", \t");
        name = strndup(text, length);
        if (!name)
            return -ENOMEM;
        if (parse_name(rule, name, ret) < 0)
            return -EINVAL;
        if (strv_push(&list, name) < 0)
            return -ENOMEM;
        text += length;
        text += strspn(text, " \t");
        if (*text == '\0')
            break;
        if (*text++ != ',')
            return -EINVAL;
    }
    ret->list = ptr_take(&list);
    return 0;
}

/*
 * Docker's own client reads these variables too: config_check() reports errors in them, if Docker
 * is used.
 */
static int parse_text(const struct rule *rule, const char *text, struct parsed *ret)
{
    (void)rule;
    ret->number = 1;
    return strlen(text) <= LIMIT_PATH_BYTES ? 0 : -EINVAL;
}

/* A known name is enough here: config_check() checks whether it is in this build. */
static int parse_type(const struct rule *rule, const char *text, struct parsed *ret)
{
    const struct provider_row *row = provider_known(text);

    (void)rule;
    (void)ret;
    return row && !provider_can(row, PROVIDER_STANDS_IN) ? 0 : -EINVAL;
}

static const char *const fallback_words[] = {"none", "local", NULL};
static const char *const store_words[] = {
    [STORE_ON_ERROR] = "on_error", [STORE_ALWAYS] = "always", [STORE_NEVER] = "never", NULL};
static const char *const per_words[] = {"container", "execution", NULL};
static const char *const item_shape_words[] = {"flat", "nested", NULL};
static const char *const format_words[] = {"text", "json", NULL};
static const char *const log_words[] = {[LOG_ERROR] = "error",
                                        [LOG_WARNING] = "warning",
                                        [LOG_INFO] = "info",
                                        [LOG_DEBUG] = "debug",
                                        NULL};
static const char *const isolation_words[] = {[ISOLATION_PROCESS] = "process",
                                              [ISOLATION_STANDARD] = "standard",
                                              [ISOLATION_STRICT] = "strict",
                                              NULL};
static const char *const language_words[] = {"python", "javascript", "bash", NULL};

_Static_assert(sizeof(enum isolation) == sizeof(int), "stored as FIELD_INT");
_Static_assert(sizeof(enum log_level) == sizeof(int), "stored as FIELD_INT");
_Static_assert(sizeof(enum store_code) == sizeof(int), "stored as FIELD_INT");

#define INTO(type_, member) .type = (type_), .offset = offsetof(struct config, member)
#define SIZE .parse = parse_bytes, .noun = "a size"
#define SPAN .parse = parse_millis, .noun = "a time", .minimum = 1, .maximum = LIMIT_TIMEOUT_MS
#define LONG_SPAN .parse = parse_millis, .noun = "a time", .minimum = 1, .maximum = LIMIT_KEEP_MS
#define TRUTH .parse = parse_bool, .noun = "true or false"
#define WORD(words_) .parse = parse_word, .noun = "known", .words = (words_)
#define NAME .parse = parse_name, .noun = "a name"
#define CORES                                                                          \
    .parse = parse_cpus, .noun = "a number of cores", .minimum = LIMIT_CPU_MILLIS_MIN, \
    .maximum = LIMIT_CPU_MILLIS_MAX

static const struct rule rules[_KEY_MAX] = {
    [KEY_SANDBOX_TYPE] = {.parse = parse_type, .noun = "known", INTO(FIELD_TEXT, type)},
    [KEY_TIMEOUT] = {SPAN, INTO(FIELD_U64, limits.timeout_ms)},
    [KEY_MAX_OUTPUT] = {.parse = parse_kilobytes,
                        .noun = "a number of KB",
                        .minimum = LIMIT_OUTPUT_MIN,
                        .maximum = LIMIT_OUTPUT_MAX,
                        INTO(FIELD_U64, limits.output_bytes)},
    [KEY_BLOCK_IMPORTS] = {TRUTH, INTO(FIELD_BOOL, block_imports)},
    [KEY_BLOCKED_IMPORTS] = {.parse = parse_list,
                             .noun = "a list of modules",
                             INTO(FIELD_LIST, blocked_imports)},
    [KEY_STORE_CODE] = {WORD(store_words), INTO(FIELD_INT, store_code)},
    [KEY_FALLBACK] = {WORD(fallback_words), INTO(FIELD_BOOL, falls_back)},
    [KEY_LANGUAGES] = {.parse = parse_list,
                       .noun = "a list of known languages",
                       .words = language_words,
                       INTO(FIELD_LIST, languages)},
    [KEY_AUTO_INSTALL] = {TRUTH, INTO(FIELD_BOOL, auto_install)},
    [KEY_ISOLATION] = {WORD(isolation_words), INTO(FIELD_INT, isolation)},
    [KEY_MEMORY] = {SIZE, .minimum = LIMIT_MEMORY_MIN, .maximum = LIMIT_MEMORY_MAX,
                    INTO(FIELD_U64, limits.memory_bytes)},
    [KEY_CPUS] = {CORES, INTO(FIELD_U32, limits.cpu_millis)},
    [KEY_PIDS] = {.parse = parse_count,
                  .noun = "a whole number",
                  .minimum = LIMIT_PIDS_MIN,
                  .maximum = LIMIT_PIDS_MAX,
                  INTO(FIELD_U32, limits.pids)},
    [KEY_DISK] = {SIZE, .minimum = LIMIT_DISK_MIN, .maximum = LIMIT_MEMORY_MAX,
                  INTO(FIELD_U64, limits.disk_bytes)},
    /* 65536 ids must fit below the largest one, which means "no change" in system calls */
    [KEY_ID_BASE] = {.parse = parse_count,
                     .noun = "a user id",
                     .minimum = 1000,
                     .maximum = UINT32_MAX - 65536,
                     INTO(FIELD_U64, id_base)},
    [KEY_ROOT] = {.parse = parse_root, .noun = "a root folder", INTO(FIELD_TEXT, root)},
    [KEY_INTERPRETERS] = {.parse = parse_folders,
                          .noun = "a list of absolute paths",
                          INTO(FIELD_LIST, interpreters)},
    [KEY_PYTHON] = {.parse = parse_program, .noun = "a program", INTO(FIELD_TEXT, python)},
    [KEY_STATE_DIR] = {.parse = parse_absolute,
                       .noun = "an absolute path",
                       INTO(FIELD_TEXT, state)},
    [KEY_DAEMON_IDLE] = {SPAN, INTO(FIELD_U64, daemon_idle_ms)},
    [KEY_LOG] = {WORD(log_words), INTO(FIELD_INT, log_level)},
    [KEY_SESSION_IDLE] = {SPAN, INTO(FIELD_U64, session_idle_ms)},
    [KEY_SESSION_AGE] = {SPAN, INTO(FIELD_U64, session_age_ms)},
    [KEY_MAX_SESSIONS] = {.parse = parse_count,
                          .noun = "a whole number",
                          .minimum = 1,
                          .maximum = LIMIT_SESSIONS,
                          INTO(FIELD_U32, max_sessions)},
    [KEY_MAX_PAUSED] = {.parse = parse_count,
                        .noun = "a whole number",
                        .maximum = LIMIT_SESSIONS,
                        INTO(FIELD_U32, max_paused)},
    [KEY_PAUSED_TIME] = {LONG_SPAN, INTO(FIELD_U64, paused_ms)},
    [KEY_SESSION_QUOTA] = {SIZE, .minimum = LIMIT_DISK_MIN, .maximum = LIMIT_MEMORY_MAX,
                           INTO(FIELD_U64, session_quota_bytes)},
    [KEY_DATASET_FOLDERS] = {.parse = parse_folders,
                             .noun = "a list of absolute paths",
                             INTO(FIELD_LIST, dataset_folders)},
    [KEY_STOP_GRACE] = {SPAN, INTO(FIELD_U64, stop_grace_ms)},
    [KEY_TEMPLATE] = {NAME, INTO(FIELD_TEXT, template_name)},
    [KEY_NODE] = {.parse = parse_program, .noun = "a program", INTO(FIELD_TEXT, node)},
    [KEY_WARM] = {TRUTH, INTO(FIELD_BOOL, is_warm)},
    [KEY_POOL_SIZE] = {.parse = parse_count,
                       .noun = "a whole number",
                       .maximum = LIMIT_POOL,
                       INTO(FIELD_U32, pool_size)},
    [KEY_POOL_MEMORY] = {SIZE, .minimum = LIMIT_MEMORY_MIN, .maximum = LIMIT_MEMORY_MAX,
                         INTO(FIELD_U64, pool_memory_bytes)},
    [KEY_INDEX_HOSTS] = {.parse = parse_names,
                         .noun = "a list of hosts",
                         INTO(FIELD_LIST, index_hosts)},
    [KEY_INSTALL_ALLOW] = {.parse = parse_names,
                           .noun = "a list of names",
                           INTO(FIELD_LIST, install_allow)},
    [KEY_INSTALL_DENY] = {.parse = parse_names,
                          .noun = "a list of names",
                          INTO(FIELD_LIST, install_deny)},
    [KEY_INSTALL_TIMEOUT] = {SPAN, INTO(FIELD_U64, install_timeout_ms)},
    [KEY_INSTALL_SIZE] = {SIZE, .minimum = LIMIT_DISK_MIN, .maximum = LIMIT_MEMORY_MAX,
                          INTO(FIELD_U64, install_bytes)},
    [KEY_LISTEN] = {.parse = parse_names, .noun = "a list of addresses", INTO(FIELD_LIST, listen)},
    [KEY_TLS_CERTIFICATE] = {NAME, INTO(FIELD_TEXT, tls_certificate)},
    [KEY_TLS_KEY] = {NAME, INTO(FIELD_TEXT, tls_key)},
    [KEY_TLS_OPTIONAL] = {TRUTH, INTO(FIELD_BOOL, tls_is_optional)},
    [KEY_HOSTS] = {.parse = parse_names, .noun = "a list of hosts", INTO(FIELD_LIST, hosts)},
    [KEY_CORS_ORIGINS] = {.parse = parse_names,
                          .noun = "a list of origins",
                          INTO(FIELD_LIST, cors_origins)},
    [KEY_EXECUTE_OPEN] = {TRUTH, INTO(FIELD_BOOL, execute_is_open)},
    [KEY_E2B_TEMPLATES] = {.parse = parse_names,
                           .noun = "a list of names",
                           INTO(FIELD_LIST, e2b_templates)},
    [KEY_E2B_DEBUG] = {TRUTH, INTO(FIELD_BOOL, e2b_debug)},
    [KEY_QUEUE] = {.parse = parse_count,
                   .noun = "a whole number",
                   .minimum = 1,
                   .maximum = LIMIT_SESSIONS,
                   INTO(FIELD_U32, queue)},
    [KEY_HEAD_TIME] = {SPAN, INTO(FIELD_U64, head_ms)},
    [KEY_BODY_TIME] = {SPAN, INTO(FIELD_U64, body_ms)},
    [KEY_LINK_TIME] = {SPAN, INTO(FIELD_U64, link_ms)},
    [KEY_ARTIFACT_TIME] = {SPAN, INTO(FIELD_U64, artifact_ms)},
    [KEY_LOG_TIME] = {LONG_SPAN, INTO(FIELD_U64, log_ms)},
    [KEY_CODE_TIME] = {LONG_SPAN, INTO(FIELD_U64, code_ms)},
    [KEY_MAX_CONCURRENT] = {.parse = parse_count,
                            .noun = "a whole number",
                            .minimum = 1,
                            .maximum = LIMIT_SESSIONS,
                            INTO(FIELD_U32, max_concurrent)},
    [KEY_LOG_FORMAT] = {WORD(format_words), INTO(FIELD_BOOL, log_is_json)},
    [KEY_AUDIT_SIZE] = {SIZE, .minimum = LIMIT_DISK_MIN, .maximum = LIMIT_MEMORY_MAX,
                        INTO(FIELD_U64, audit_bytes)},
    [KEY_AUDIT_KEEP] = {.parse = parse_count,
                        .noun = "a whole number",
                        .minimum = 1,
                        .maximum = LIMIT_SESSIONS,
                        INTO(FIELD_U32, audit_keep)},
    [KEY_QUOTA_SESSIONS] = {.parse = parse_count,
                            .noun = "a whole number",
                            .maximum = LIMIT_SESSIONS,
                            INTO(FIELD_U64, quota.sessions)},
    [KEY_QUOTA_RUNS] = {.parse = parse_count,
                        .noun = "a whole number",
                        .maximum = LIMIT_SESSIONS,
                        INTO(FIELD_U64, quota.runs)},
    [KEY_QUOTA_CPU] = {.parse = parse_count,
                       .noun = "a whole number",
                       .maximum = 4000000000,
                       INTO(FIELD_U64, quota.cpu_seconds)},
    [KEY_QUOTA_MEMORY] = {SIZE, .maximum = LIMIT_MEMORY_MAX, INTO(FIELD_U64, quota.memory_bytes)},
    [KEY_QUOTA_DISK] = {SIZE, .maximum = LIMIT_MEMORY_MAX, INTO(FIELD_U64, quota.disk_bytes)},
    [KEY_QUOTA_REQUESTS] = {.parse = parse_count,
                            .noun = "a whole number",
                            .maximum = 4000000000,
                            INTO(FIELD_U64, quota.requests)},
    [KEY_QUOTA_BYTES] = {SIZE, .maximum = LIMIT_MEMORY_MAX, INTO(FIELD_U64, quota.bytes)},
    [KEY_DOCKER_IMAGE] = {.parse = parse_image,
                          .noun = "the name of an image",
                          INTO(FIELD_TEXT, docker.image)},
    [KEY_DOCKER_NETWORK] = {TRUTH, INTO(FIELD_BOOL, docker.has_network)},
    [KEY_DOCKER_CPU] = {CORES},
    [KEY_DOCKER_MEMORY] = {SIZE, .minimum = LIMIT_MEMORY_MIN, .maximum = LIMIT_MEMORY_MAX},
    [KEY_DOCKER_RUNTIME] = {NAME, INTO(FIELD_TEXT, docker.runtime)},
    [KEY_DOCKER_POOL_SIZE] = {.parse = parse_count,
                              .noun = "a whole number",
                              .maximum = LIMIT_POOL,
                              INTO(FIELD_U32, docker.pool_size)},
    [KEY_DOCKER_PULL_WAIT] = {SPAN, INTO(FIELD_U64, docker.pull_wait_ms)},
    [KEY_DOCKER_HOST] = {.parse = parse_text, .noun = "an address", INTO(FIELD_TEXT, docker.host)},
    [KEY_DOCKER_CERT_PATH] = {.parse = parse_text,
                              .noun = "a folder",
                              INTO(FIELD_TEXT, docker.cert_path)},
    [KEY_DOCKER_TLS_VERIFY] = {.parse = parse_text,
                               .noun = "a value",
                               INTO(FIELD_BOOL, docker.verifies_tls)},
    [KEY_URL] = {.parse = parse_text, .noun = "an address", INTO(FIELD_TEXT, url.address)},
    [KEY_URL_KEY_FILE] = {.parse = parse_absolute,
                          .noun = "an absolute path",
                          INTO(FIELD_TEXT, url.key_file)},
    [KEY_URL_CA_FILE] = {.parse = parse_absolute,
                         .noun = "an absolute path",
                         INTO(FIELD_TEXT, url.ca_file)},
    [KEY_URL_PROXY] = {.parse = parse_base_url, .noun = "an address", INTO(FIELD_TEXT, url.proxy)},
    [KEY_PROVIDER_URL] = {.parse = parse_url, .noun = "an address"},
    [KEY_PROVIDER_TEMPLATE] = {NAME},
    [KEY_PROVIDER_NAMESPACE] = {NAME},
    [KEY_PROVIDER_CLAIM_TIMEOUT] = {SPAN, INTO(FIELD_U64, code_interpreter.claim_ms)},
    [KEY_PROVIDER_EXECUTION_TIMEOUT] = {SPAN, INTO(FIELD_U64, code_interpreter.time_ms)},
    [KEY_PROVIDER_MAX_OUTPUT] = {SIZE, .minimum = LIMIT_OUTPUT_MIN, .maximum = LIMIT_OUTPUT_MAX,
                                 INTO(FIELD_U64, execute_output_bytes)},
    [KEY_PROVIDER_PER] = {WORD(per_words), INTO(FIELD_BOOL, code_interpreter.is_per_execution)},
    [KEY_PROVIDER_ITEM_SHAPE] = {WORD(item_shape_words),
                                 INTO(FIELD_BOOL, code_interpreter.is_nested)},
    [KEY_PROVIDER_ENABLED] = {TRUTH, INTO(FIELD_BOOL, code_interpreter.is_enabled)},
    [KEY_UPSTREAM_URL] = {.parse = parse_base_url,
                          .noun = "an address",
                          INTO(FIELD_TEXT, upstream.url)},
    [KEY_UPSTREAM_KEY_FILE] = {.parse = parse_absolute,
                               .noun = "an absolute path",
                               INTO(FIELD_TEXT, upstream.key_file)},
    [KEY_UPSTREAM_MODEL] = {NAME, INTO(FIELD_TEXT, upstream.model)},
    [KEY_UPSTREAM_TIMEOUT] = {SPAN, INTO(FIELD_U64, upstream.timeout_ms)},
};

const char *value_quote(char quoted[VALUE_QUOTE_SIZE], const char *text)
{
    bool fits = str_copy(quoted, VALUE_QUOTE_SIZE, text);

    if (!fits) {
        size_t end = utf8_floor(quoted, VALUE_QUOTE_SIZE - 4);

        str_copy(quoted + end, VALUE_QUOTE_SIZE - end, "...");
    }
    for (char *c = quoted; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    }
    return quoted;
}

static int refuse(const struct rule *rule, enum config_key key, const char *text,
                  enum config_source source, const char *where, int num, struct error *err)
{
    const struct config_row *row = &config_table[key];
    const char *code = source == FROM_FLAG ? ERROR_BAD_INPUT : ERROR_BAD_CONFIG;
    const char *names[PROVIDERS_MAX + 1];
    const char *const *words = rule->parse == parse_type ? provider_names(names) : rule->words;
    const char *nearest =
        rule->parse == parse_word || rule->parse == parse_type ? str_nearest(text, words) : NULL;
    bool in_file = source == FROM_FILE;
    char quoted[VALUE_QUOTE_SIZE], list[CONFIG_ALLOWED_MAX];
    const char *allowed = rule->allowed ? rule->allowed : config_allowed(key, list);

    if (num == -ENOMEM)
        return error_set(err, num, ERROR_ENGINE, "reading the configuration: out of memory");
    return error_set(err, num, code, "%s%s%s: '%s' is %s%s (allowed: %s%s%s%s)",
                     where ? where : row->yaml, in_file ? ": " : "", in_file ? row->yaml : "",
                     value_quote(quoted, text), num == -ERANGE ? "out of range" : "not ",
                     num == -ERANGE ? "" : rule->noun, allowed, nearest ? "; did you mean '" : "",
                     nearest ? nearest : "", nearest ? "'?" : "");
}

/* Cannot fail. Takes the list; `text` is the copy that values[] now owns. */
static void store(struct config *config, const struct rule *rule, struct parsed *parsed, char *text)
{
    void *field = (char *)config + rule->offset;
    uint32_t narrow = (uint32_t)parsed->number;
    int signed_number = (int)parsed->number;

    switch (rule->type) {
    case FIELD_NONE:
        break;
    case FIELD_U64:
        memcpy(field, &parsed->number, sizeof(parsed->number));
        break;
    case FIELD_U32:
        memcpy(field, &narrow, sizeof(narrow));
        break;
    case FIELD_INT:
        memcpy(field, &signed_number, sizeof(signed_number));
        break;
    case FIELD_BOOL:
        *(bool *)field = parsed->number != 0;
        break;
    case FIELD_LIST:
        strv_free(*(char ***)field);
        *(char ***)field = ptr_take(&parsed->list);
        break;
    case FIELD_TEXT:
        *(const char **)field = text;
        break;
    }
}

static bool lists_are_same(char *const *a, char *const *b)
{
    size_t count = strv_length(a);

    if (strv_length(b) != count)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (!str_equal(a[i], b[i]))
            return false;
    }
    return true;
}

/* Keys without a field: compared by what their texts mean. */
static bool texts_are_same(const struct rule *rule, const char *a, const char *b)
{
    struct parsed first = {0}, second = {0};
    bool is_same = str_equal(a, b);

    if (!is_same && a && b && rule->type == FIELD_NONE && rule->parse(rule, a, &first) == 0 &&
        rule->parse(rule, b, &second) == 0)
        is_same = first.number == second.number && rule->maximum > 0;
    strv_free(first.list);
    strv_free(second.list);
    return is_same;
}

bool config_is_same(const struct config *a, const struct config *b, enum config_key key)
{
    const struct rule *rule = &rules[key];
    const char *first = (const char *)a + rule->offset, *second = (const char *)b + rule->offset;

    switch (rule->type) {
    case FIELD_U64:
        return memcmp(first, second, sizeof(uint64_t)) == 0;
    case FIELD_U32:
        return memcmp(first, second, sizeof(uint32_t)) == 0;
    case FIELD_INT:
        return memcmp(first, second, sizeof(int)) == 0;
    case FIELD_BOOL:
        return *(const bool *)first == *(const bool *)second;
    case FIELD_LIST:
        return lists_are_same(*(char *const *const *)first, *(char *const *const *)second);
    case FIELD_TEXT:
    case FIELD_NONE:
        break;
    }
    return texts_are_same(rule, a->values[key].text, b->values[key].text);
}

int value_apply(struct config *config, enum config_key key, const char *text,
                enum config_source source, const char *where, struct error *err)
{
    const struct rule *rule = &rules[key];
    struct config_value *value = &config->values[key];
    CLEANUP(freep) char *text_copy = NULL;
    CLEANUP(freep) char *where_copy = NULL;
    struct parsed parsed = {0};
    int r = rule->parse(rule, text, &parsed);

    if (r < 0)
        return refuse(rule, key, text, source, where, r, err);
    text_copy = strdup(text);
    where_copy = where ? strdup(where) : NULL;
    if (!text_copy || (where && !where_copy)) {
        strv_free(parsed.list);
        return refuse(rule, key, text, source, where, -ENOMEM, err);
    }
    free(value->text);
    free(value->where);
    value->text = ptr_take(&text_copy);
    value->where = ptr_take(&where_copy);
    value->source = source;
    store(config, rule, &parsed, value->text);
    return 0;
}
