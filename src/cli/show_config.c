/* show_config.c - `bailey config`: every effective value and its source. */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/request.h"
#include "cli/sanitize.h"
#include "cli/show_config.h"
#include "config/config.h"
#include "runtime/provider.h"

static const char *key_name(size_t key)
{
    return config_key_name((enum config_key)key);
}

json_t *show_config_json(const struct config *config)
{
    json_t *values = json_object();

    for (size_t i = 0; i < _KEY_MAX; i++) {
        const struct config_value *value = &config->values[i];

        json_object_set_new(values, key_name(i),
                            json_pack("{s:s?, s:s, s:s?, s:s?, s:s}", "value", value->text,
                                      "source", config_source_name(value->source), "where",
                                      value->where, "yaml", config_table[i].yaml, "place",
                                      config_place_name(config_table[i].place)));
    }
    return json_pack("{s:s?, s:o}", "file", config->file, "values", values);
}

/* The widest key, so that the columns are aligned. */
static int key_width(void)
{
    size_t width = 0;

    for (size_t i = 0; i < _KEY_MAX; i++)
        width = MAX(width, strlen(key_name(i)));
    return (int)width;
}

int show_config_text(const struct config *config, struct buf *to)
{
    CLEANUP(buf_free) struct buf value = BUF_INIT(64 * KIB);
    int width = key_width();
    int failed = buf_printf(to, "%-*s  %-28s %s\n", width, "KEY", "VALUE", "SOURCE");

    for (size_t i = 0; i < _KEY_MAX; i++) {
        const struct config_value *row = &config->values[i];
        bool has_where = row->source != FROM_DEFAULT && row->where;

        buf_clear(&value);
        failed |= sanitize_line(row->text && row->text[0] ? row->text : "-", &value);
        failed |= buf_printf(to, "%-*s  %-28s %s%s", width, key_name(i), buf_text(&value),
                             config_source_name(row->source), has_where ? " " : "");
        failed |= has_where ? sanitize_line(row->where, to) : 0;
        failed |= buf_append_text(to, "\n");
    }
    return failed < 0 ? failed : 0;
}

/* What a provider's host gets from the environment has an effect, and is no key. */
static bool is_secret(const char *name)
{
    const struct provider_row *row;

    for (size_t i = 0; (row = provider_at(i)); i++) {
        if (row->secret && str_equal(row->secret, name))
            return true;
    }
    return false;
}

/* Whether a variable would be a key of ours: by its beginning, or known for what is not built in.
 */
static bool is_meant_for_us(const char *name, size_t length)
{
    static const char *const later[] = {
        "E2B_API_KEY",         "E2B_API_URL",          "E2B_SANDBOX_URL",
        "E2B_DOMAIN",          "KUBERNETES_NAMESPACE", "KUBERNETES_SANDBOX_TEMPLATE",
        "BAILEY_UPSTREAM_URL", "BAILEY_UPSTREAM_KEY",  "BAILEY_UPSTREAM_MODEL"};

    for (size_t i = 0; i < ARRAY_SIZE(later); i++) {
        if (strlen(later[i]) == length && memcmp(later[i], name, length) == 0)
            return true;
    }
    return str_starts(name, "SANDBOX_") &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == length;
}

void show_config_unused(char *const *env)
{
    const char *names[_KEY_MAX + 1] = {0};

    for (size_t i = 0; i < _KEY_MAX; i++)
        names[i] = key_name(i);
    for (; *env; env++) {
        size_t length = strcspn(*env, "=");
        char name[64];
        enum config_key key;
        const char *nearest;

        if (!(*env)[length] || !(*env)[length + 1] || !is_meant_for_us(*env, length) ||
            str_format(name, sizeof(name), "%.*s", (int)length, *env) < 0 ||
            config_key_find(name, &key) == 0 || is_secret(name))
            continue;
        nearest = str_nearest(name, names);
        message_print("%s is set and has no effect: this version has no such key%s%s%s", name,
                      nearest ? " (did you mean " : "", nearest ? nearest : "",
                      nearest ? "?)" : "");
    }
}

static int run_config(const struct invocation *invocation)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(MIB);
    CLEANUP(config_free) struct config config = {0};
    struct report_request request = {0};
    struct error err = {0};

    if (options_take(&invocation->parsed, &request, &err) < 0 ||
        request_config(&config, request.config_file, invocation->env, &err) < 0 ||
        config_check_values(&config, &err) < 0)
        return message_bad_input(&err);
    show_config_unused(invocation->env);
    if (request.is_json)
        return print_json(show_config_json(&config));
    if (show_config_text(&config, &text) < 0) {
        message_print("out of memory printing the configuration");
        return STATUS_BAD_INPUT;
    }
    return print_text(&text);
}

const struct command config_command = {
    .name = "config",
    .group = GROUP_SELF,
    .summary = "show every setting and its source",
    .usage = "[--json] [--config FILE]",
    .description =
        "Shows the effective value of every key and its source: a flag, the environment, "
        "bailey.yaml or the default. Variables that look like keys but are not are listed on "
        "standard "
        "error.",
    .options = report_options,
    .option_count = REPORT_OPTION_COUNT,
    .run = run_config,
    .reach = REACH_HERE,
};
