/*
 * doctor.c - `bailey doctor`: every layer tried one by one, a real box, the interpreters.
 *
 * A layer counts if the real box has it: that is what a run gets. The separate probe says why one
 * is missing, because it tried that layer alone.
 */
#include "cli/doctor.h"

#include <jansson.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/str.h"
#include "cli/message.h"
#include "cli/options.h"
#include "cli/paths.h"
#include "cli/request.h"
#include "cli/show_config.h"
#include "cli/signals.h"
#include "deploy_files.h"
#include "oneshot/built.h"
#include "oneshot/oneshot.h"
#include "runtime/provider.h"
#include "template/template.h"

#define TRIAL_TIMEOUT_MS 10000

static void find_interpreters(struct doctor *doctor, const struct config *config)
{
    for (size_t i = 0; i < language_count && i < DOCTOR_LANGUAGES_MAX; i++) {
        struct doctor_interpreter *row = &doctor->interpreters[doctor->interpreter_count++];

        row->language = &language_table[i];
        interpreter_find(row->language, config, &row->found, &row->err);
    }
}

static void note_template(void *ctx, const char *name, const char *problem)
{
    struct doctor *doctor = ctx;
    struct doctor_template *row = &doctor->templates[doctor->template_count];

    if (doctor->template_count == DOCTOR_TEMPLATES_MAX)
        return;
    doctor->template_count++;
    str_copy(row->name, sizeof(row->name), name);
    str_copy(row->problem, sizeof(row->problem), problem ? problem : "");
}

/* Those that were built; the boxes that are tried have none. */
static void find_templates(struct doctor *doctor, struct config *config, char *const *env)
{
    CLEANUP(paths_free) struct paths paths = {0};
    struct error ignored = {0};

    if (paths_choose(&paths, config, env, NULL, NULL, &ignored) == 0)
        built_each(config, paths.state, note_template, doctor);
    config->template_name = TEMPLATE_PLAIN;
}

/* `true` in a box with no minimum: what it reaches is the answer, not whether that is enough. */
static void run_box(struct doctor *doctor, struct config *config, int cancel_fd)
{
    static const char *const argv[] = {"true", NULL};
    struct oneshot_extra extra = {0};

    doctor->wanted = config->isolation;
    config->isolation = ISOLATION_PROCESS;
    result_init(&doctor->box, &config->limits);
    oneshot_run(
        &(struct oneshot){.config = config, .argv = argv, .stdin_fd = -1, .cancel_fd = cancel_fd},
        &doctor->box, &extra);
    oneshot_extra_free(&extra);
    config->isolation = doctor->wanted;
}

/* The last line of what it said on standard error; empty when it said nothing. */
static void last_words(const struct result *result, char *text, size_t size)
{
    CLEANUP(buf_free) struct buf words = BUF_INIT(64 * KIB);
    uint64_t invalid;
    char *line;

    text[0] = 0;
    if (capture_text(&result->err, &words, &invalid) < 0 || words.length == 0)
        return;
    while (words.length > 0 && words.data[words.length - 1] == '\n')
        words.data[--words.length] = 0;
    line = strrchr(words.data, '\n');
    line = line ? line + 1 : words.data;
    line[utf8_floor(line, MIN(strlen(line), size - 1))] = 0;
    str_copy(text, size, line);
}

static void judge(struct doctor_interpreter *row, const struct result *result)
{
    char words[128];

    if (result->error.code)
        str_format(row->reason, sizeof(row->reason), "%.200s", result->error.text);
    else if (result->timed_out)
        str_format(row->reason, sizeof(row->reason), "it did not end within %d s",
                   TRIAL_TIMEOUT_MS / 1000);
    else if (result->signal > 0)
        str_format(row->reason, sizeof(row->reason), "killed by signal %d (%s)", result->signal,
                   strsignal(result->signal));
    else if (result->exit_code != 0) {
        last_words(result, words, sizeof(words));
        str_format(row->reason, sizeof(row->reason), "exit status %d%s%s", result->exit_code,
                   words[0] ? ": " : "", words);
    } else {
        row->works = true;
    }
}

/* An existing file may not run, so each interpreter runs an empty program in a box. */
static void try_interpreters(struct doctor *doctor, const struct config *config, int cancel_fd)
{
    static const char code[] = "\n";
    static const char *const no_arguments[] = {NULL};
    struct config trial = *config; /* borrowed but for what changes */

    trial.isolation = ISOLATION_PROCESS;
    trial.limits.timeout_ms = TRIAL_TIMEOUT_MS;
    trial.block_imports = false;
    for (size_t i = 0; i < doctor->interpreter_count; i++) {
        struct doctor_interpreter *row = &doctor->interpreters[i];
        struct oneshot_extra extra = {0};
        struct result result;

        if (!row->found.path)
            continue;
        result_init(&result, &trial.limits);
        oneshot_run(&(struct oneshot){.config = &trial,
                                      .language = row->language->name,
                                      .code = code,
                                      .code_length = sizeof(code) - 1,
                                      .argv = no_arguments,
                                      .stdin_fd = -1,
                                      .cancel_fd = cancel_fd},
                    &result, &extra);
        judge(row, &result);
        oneshot_extra_free(&extra);
        result_free(&result);
    }
}

bool doctor_is_fine(const struct doctor *doctor)
{
    if (doctor->type_err.code)
        return false;
    if (provider_can(doctor->provider, PROVIDER_HOSTED))
        return doctor_provider_is_fine(doctor);
    return !doctor->box.error.code && doctor->box.exit_code == 0 &&
           isolation_of_layers(doctor->box.layers) >= doctor->wanted;
}

/* What was refused, by the first probe that failed; else what the real box says. */
static const char *refusal(const struct doctor *doctor, uint32_t lacking)
{
    for (size_t i = 0; !doctor->probe_err.code && i < _ISOLATION_LAYER_MAX; i++) {
        const struct probe_row *row = &doctor->rows[i];

        if (row->result < 0 && row->detail[0] && lacking & ISOLATION_LAYER_BIT(row->layer))
            return row->detail;
    }
    return doctor->box.error.code ? doctor->box.error.text : "see the layers";
}

bool doctor_has_sessions(const struct doctor *doctor, char *reason, size_t size)
{
    static const uint32_t needed =
        ISOLATION_LAYER_BIT(ISOLATION_LAYER_USERNS) | ISOLATION_LAYER_BIT(ISOLATION_LAYER_MOUNTNS) |
        ISOLATION_LAYER_BIT(ISOLATION_LAYER_PIDNS) | ISOLATION_LAYER_BIT(ISOLATION_LAYER_NETNS);
    uint32_t lacking = needed & ~doctor->box.layers;

    str_copy(reason, size, "");
    if (!lacking)
        return true;
    str_format(reason, size, "sessions need namespaces of their own, which this %s refuses (%s)",
               doctor->outer.row ? "container" : "machine", refusal(doctor, lacking));
    return false;
}

bool doctor_has_one_session(const struct doctor *doctor, char *reason, size_t size)
{
    char refused[384];
    const char *what;

    if (doctor_has_sessions(doctor, refused, sizeof(refused)) || doctor->box.error.code ||
        isolation_of_layers(doctor->box.layers) < ISOLATION_STANDARD ||
        doctor->wanted > ISOLATION_STANDARD)
        return false;
    what = strchr(refused, '(');
    str_format(reason, size,
               "one session at a time: this %s refuses namespaces, so it is the only box itself %s",
               doctor->outer.row ? "container" : "machine", what ? what : "");
    return true;
}

const char *doctor_level(const struct doctor *doctor)
{
    if (doctor->box.error.code)
        return "none";
    return isolation_name(isolation_of_layers(doctor->box.layers));
}

void doctor_free(struct doctor *doctor)
{
    for (size_t i = 0; i < doctor->interpreter_count; i++)
        interpreter_free(&doctor->interpreters[i].found);
    doctor->interpreter_count = 0;
    json_decref(doctor->providers);
    doctor->providers = NULL;
    result_free(&doctor->box);
}

/* Marks and bars need a terminal that shows UTF-8; a file or a pipe gets ASCII. */
static bool is_utf8_terminal(char *const *env)
{
    static const char *const names[] = {"LC_ALL=", "LC_CTYPE=", "LANG="};

    if (!isatty(STDOUT_FILENO))
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        for (char *const *at = env; at && *at; at++) {
            const char *value = *at + strlen(names[i]);

            if (str_starts(*at, names[i]) && *value)
                return strcasestr(value, "utf-8") || strcasestr(value, "utf8");
        }
    }
    return false;
}

static int print_report(const struct doctor *doctor, const struct report_request *request,
                        char *const *env)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(256 * KIB);
    int status;

    if (request->is_json) {
        status = print_json(doctor_json(doctor));
    } else if (doctor_text(doctor, is_utf8_terminal(env), &text) < 0) {
        message_print("out of memory printing the report");
        return STATUS_BAD_INPUT;
    } else {
        status = print_guest_text(&text);
    }
    if (status != 0)
        return status;
    return doctor_is_fine(doctor) ? 0 : 1;
}

/* For `docker run --security-opt seccomp=FILE`, which reads the file outside the container. */
static int print_profile(void)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(256 * KIB);

    if (buf_append(&text, deploy_docker_seccomp_json, deploy_docker_seccomp_json_length) < 0) {
        message_print("out of memory printing the profile");
        return STATUS_BAD_INPUT;
    }
    return print_guest_text(&text);
}

static int run_doctor(const struct invocation *invocation)
{
    CLEANUP(config_free) struct config config = {0};
    CLEANUP(doctor_free) struct doctor doctor = {0};
    CLEANUP(fd_closep) int cancel_fd = -1;
    struct report_request request = {0};
    struct error err = {0};
    int signal;

    if (options_take(&invocation->parsed, &request, &err) < 0)
        return message_bad_input(&err);
    if (request.wants_profile)
        return print_profile();
    if (request_config(&config, request.config_file, invocation->env, &err) < 0 ||
        config_check_values(&config, &err) < 0 || probe_host(&doctor.host, &err) < 0 ||
        signals_open(&cancel_fd, &err) < 0)
        return message_bad_input(&err);

    doctor.blocks_imports = config.block_imports;
    outer_find(&doctor.outer);
    provider_find(config.type, &doctor.provider, &doctor.type_err);
    doctor_ask_providers(&doctor, &config, request.config_file, invocation->env);
    config.type = PROVIDER_LOCAL; /* the boxes that are tried are this machine's */
    probe_layers(doctor.rows, &doctor.probe_err);
    find_interpreters(&doctor, &config);
    find_templates(&doctor, &config, invocation->env);
    run_box(&doctor, &config, cancel_fd);
    try_interpreters(&doctor, &config, cancel_fd);
    signal = signals_taken(cancel_fd);
    if (signal) {
        message_print("interrupted");
        return 128 + signal;
    }
    show_config_unused(invocation->env);
    return print_report(&doctor, &request, invocation->env);
}

const struct command doctor_command = {
    .name = "doctor",
    .group = GROUP_SELF,
    .summary = "show which isolation layers work on this machine, and how to get more",
    .usage = "[--json] [--config FILE] [--seccomp-profile]",
    .description =
        "Tries every isolation layer as this user on this kernel, then makes a box. It shows which "
        "layers the box has, which are missing and how to get them, the interpreters that were "
        "found and whether they work, and the resulting level. In a container the first lines say "
        "which kind it is and which options it needs; --seccomp-profile prints the seccomp profile "
        "that one of these options "
        "needs.\n\nWith SANDBOX_TYPE=docker, or if Docker's "
        "socket exists, it also shows Docker's version, storage, runtimes, control groups, "
        "security and image, and what is missing.\n\nThe exit status is 0 when the level reaches "
        "SANDBOX_ISOLATION (with SANDBOX_TYPE=docker: when Docker has all that is needed), "
        "otherwise 1.",
    .options = report_options,
    .option_count = DOCTOR_OPTION_COUNT,
    .run = run_doctor,
    .reach = REACH_HERE,
};
