/* doctor_print.c - the report of `bailey doctor`, as JSON for programs and as a table for people.
 */
#include <jansson.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/doctor.h"
#include "runtime/provider.h"

#define REASON_MAX 384
/* The only place where this is said: a run would repeat it too often. */
#define IMPORT_NOTICE                                                                      \
    "imports are not checked before a run (SANDBOX_BLOCK_DANGEROUS_IMPORTS=true does it; " \
    "the layers above hold either way)"

/* The probe of a layer; NULL when there is none. */
static const struct probe_row *probe_of(const struct doctor *doctor, int layer)
{
    for (size_t i = 0; !doctor->probe_err.code && i < _ISOLATION_LAYER_MAX; i++)
        if ((int)doctor->rows[i].layer == layer)
            return &doctor->rows[i];
    return NULL;
}

static bool is_held(const struct doctor *doctor, int layer)
{
    return (doctor->box.layers & ISOLATION_LAYER_BIT(layer)) != 0;
}

static json_t *layers_json(const struct doctor *doctor)
{
    json_t *list = json_array();

    for (int i = 0; i < _ISOLATION_LAYER_MAX; i++) {
        const struct probe_row *probe = probe_of(doctor, i);
        bool held = is_held(doctor, i);

        json_array_append_new(list,
                              json_pack("{s:s, s:b, s:b, s:s, s:s?, s:s?, s:s?}", "name",
                                        isolation_layer_table[i].name, "held", held, "strict",
                                        isolation_layer_table[i].strict, "what",
                                        isolation_layer_table[i].what, "tried",
                                        !probe              ? NULL
                                        : probe->result < 0 ? error_name(-probe->result)
                                                            : "ok",
                                        "detail", probe && probe->detail[0] ? probe->detail : NULL,
                                        "remedy", held ? NULL : isolation_layer_table[i].remedy));
    }
    return list;
}

static json_t *interpreters_json(const struct doctor *doctor)
{
    json_t *list = json_array();

    for (size_t i = 0; i < doctor->interpreter_count; i++) {
        const struct doctor_interpreter *row = &doctor->interpreters[i];

        json_array_append_new(list, json_pack("{s:s, s:s?, s:s?, s:b, s:s?, s:s?}", "language",
                                              row->language->name, "path", row->found.path,
                                              "found_by", row->found.found_by, "works", row->works,
                                              "reason", row->reason[0] ? row->reason : NULL,
                                              "error", row->found.path ? NULL : row->err.text));
    }
    return list;
}

static json_t *box_json(const struct doctor *doctor)
{
    const struct result *box = &doctor->box;

    return json_pack("{s:b, s:s?, s:s?, s:{s:s, s:s, s:s, s:s}}", "ran", !box->error.code, "error",
                     box->error.code, "message", box->error.code ? box->error.text : NULL,
                     "limits_by", "memory", limit_by_name(box->memory_by), "pids",
                     limit_by_name(box->pids_by), "cpu", limit_by_name(box->cpu_by), "disk",
                     limit_by_name(box->disk_by));
}

static json_t *templates_json(const struct doctor *doctor)
{
    json_t *list = json_array();

    for (size_t i = 0; i < doctor->template_count; i++) {
        const struct doctor_template *row = &doctor->templates[i];

        json_array_append_new(list, json_pack("{s:s, s:b, s:s?}", "name", row->name, "ok",
                                              !row->problem[0], "problem",
                                              row->problem[0] ? row->problem : NULL));
    }
    return list;
}

static json_t *host_json(const struct probe_host *host)
{
    return json_pack("{s:s, s:s, s:s, s:i, s:I, s:b}", "kernel", host->kernel, "machine",
                     host->machine, "lsm", host->lsm, "landlock_abi", host->landlock_abi, "uid",
                     (json_int_t)host->uid, "proc_is_masked", host->in_container_masked_proc);
}

/* What has to be changed about the container; NULL: nothing, or there is none. */
static const char *outer_remedy(const struct doctor *doctor)
{
    char reason[REASON_MAX];

    if (!doctor->outer.row)
        return NULL;
    if (doctor_has_sessions(doctor, reason, sizeof(reason)) &&
        is_held(doctor, ISOLATION_LAYER_PROC))
        return NULL;
    return doctor->outer.row->remedy;
}

/* null where this is no container. */
static json_t *outer_json(const struct doctor *doctor)
{
    const struct outer *outer = &doctor->outer;

    if (!outer->row)
        return json_null();
    return json_pack("{s:s, s:s, s:s?}", "kind", outer->row->kind, "seen", outer->seen, "remedy",
                     outer_remedy(doctor));
}

static json_t *sessions_json(const struct doctor *doctor)
{
    char reason[REASON_MAX];
    bool works = doctor_has_sessions(doctor, reason, sizeof(reason));

    if (!works && doctor_has_one_session(doctor, reason, sizeof(reason)))
        return json_pack("{s:b, s:b, s:s}", "ok", 1, "one", 1, "reason", reason);
    return json_pack("{s:b, s:s?}", "ok", works, "reason", works ? NULL : reason);
}

json_t *doctor_json(const struct doctor *doctor)
{
    json_t *json = json_pack(
        "{s:s, s:s, s:b, s:o, s:o, s:o, s:s, s:o, s:o, s:o, s:o}", "level", doctor_level(doctor),
        "minimum", isolation_name(doctor->wanted), "ok", doctor_is_fine(doctor), "container",
        outer_json(doctor), "sessions", sessions_json(doctor), "host", host_json(&doctor->host),
        "cgroup", doctor->host.cgroup, "layers", layers_json(doctor), "interpreters",
        interpreters_json(doctor), "templates", templates_json(doctor), "box", box_json(doctor));

    if (json && !doctor->blocks_imports)
        json_object_set_new(json, "notice", json_string(IMPORT_NOTICE));
    if (json)
        doctor_providers_json(doctor, json);
    return json;
}

static const char *mark(bool is_good, bool is_utf8)
{
    if (is_utf8)
        return is_good ? "✓" : "✗";
    return is_good ? "+" : "-";
}

static int layer_lines(const struct doctor *doctor, int layer, bool is_utf8, struct buf *to)
{
    const struct probe_row *probe = probe_of(doctor, layer);
    const struct isolation_layer_row *row = &isolation_layer_table[layer];
    bool held = is_held(doctor, layer);
    int failed = 0;

    failed |= buf_printf(to, "  %s %-13s %s\n", mark(held, is_utf8), row->name, row->what);
    if (held)
        return failed;
    if (probe && probe->result < 0)
        failed |= buf_printf(to, "      tried:  %s\n",
                             probe->detail[0] ? probe->detail : error_name(-probe->result));
    else if (probe)
        failed |= buf_printf(to, "      tried:  it works alone, but the box did not get it%s%s\n",
                             probe->detail[0] ? ": " : "", probe->detail);
    return failed | buf_printf(to, "      remedy: %s\n", row->remedy);
}

static int interpreter_line(const struct doctor_interpreter *row, bool is_utf8, struct buf *to)
{
    if (row->found.path && !row->works)
        return buf_printf(to, "  %s %-13s %s: %s\n", mark(false, is_utf8), row->language->name,
                          row->found.path, row->reason[0] ? row->reason : "not tried");
    if (row->found.path)
        return buf_printf(to, "  %s %-13s %s (%s)\n", mark(true, is_utf8), row->language->name,
                          row->found.path, row->found.found_by ? row->found.found_by : "found");
    return buf_printf(to, "  %s %-13s %s\n", mark(false, is_utf8), row->language->name,
                      row->err.text);
}

static int verdict(const struct doctor *doctor, struct buf *to)
{
    const char *wanted = isolation_name(doctor->wanted);
    char lacking[256];

    if (doctor->type_err.code)
        return buf_printf(to, "%s\n", doctor->type_err.text);
    if (provider_can(doctor->provider, PROVIDER_HOSTED))
        return buf_printf(to, "boxes are made by %s%s\n", doctor->provider->title,
                          doctor_provider_is_fine(doctor)
                              ? ": it has all they need"
                              : ", and it is not ready: see the remedies above");
    if (doctor->box.error.code)
        return buf_printf(to, "level: none; a box could not be run: %s\n", doctor->box.error.text);
    if (doctor_is_fine(doctor))
        return buf_printf(to, "level: %s, required: %s: runs are allowed\n", doctor_level(doctor),
                          wanted);
    isolation_layer_list(isolation_lacking(doctor->box.layers, doctor->wanted), lacking,
                         sizeof(lacking));
    return buf_printf(to, "level: %s, required: %s: runs are refused; missing: %s\n",
                      doctor_level(doctor), wanted, lacking);
}

/* The first lines in a container: which one, what it means here, and what to do about it. */
static int outer_lines(const struct doctor *doctor, struct buf *to)
{
    const struct outer *outer = &doctor->outer;
    const char *remedy = outer_remedy(doctor);
    char reason[REASON_MAX];
    int failed = 0;

    if (!outer->row)
        return 0;
    failed |= buf_printf(to, "this is %s (seen: %s)\n", outer->row->name, outer->seen);
    if (doctor_has_one_session(doctor, reason, sizeof(reason))) {
        failed |= buf_printf(to, "%s\n", reason);
        failed |= buf_append_text(to, "one-shot runs work; more sessions at once, templates, and "
                                      "packages and ports of a session need the remedy\n");
    } else if (!doctor_has_sessions(doctor, reason, sizeof(reason))) {
        failed |= buf_printf(to, "%s\n", reason);
    } else if (remedy) {
        failed |= buf_append_text(to, "boxes have namespaces of their own in it, but no /proc\n");
    } else {
        failed |= buf_append_text(to, "boxes have namespaces of their own in it\n");
    }
    if (remedy)
        failed |= buf_printf(to, "remedy: %s\n", remedy);
    if (remedy && strstr(remedy, OUTER_PROFILE))
        failed |= buf_append_text(to, OUTER_PROFILE " is a file of the machine that starts the "
                                                    "container; 'bailey doctor --seccomp-profile' "
                                                    "prints it\n");
    return failed | buf_append_text(to, "\n");
}

int doctor_text(const struct doctor *doctor, bool is_utf8, struct buf *to)
{
    const struct probe_host *host = &doctor->host;
    const struct result *box = &doctor->box;
    int failed = outer_lines(doctor, to);

    failed |= buf_printf(to, "kernel %s (%s), uid %u, cgroup %s, Landlock ABI %d, LSMs %s\n",
                         host->kernel, host->machine, host->uid, host->cgroup, host->landlock_abi,
                         host->lsm);
    if (host->in_container_masked_proc)
        failed |= buf_append_text(
            to, "an outer container masks parts of /proc: a box cannot have a fresh one\n");
    failed |= buf_append_text(to, "\n");
    failed |= buf_append_text(to, "layers (what a run gets here)\n");
    for (int i = 0; i < _ISOLATION_LAYER_MAX; i++)
        failed |= layer_lines(doctor, i, is_utf8, to);
    if (doctor->probe_err.code)
        failed |= buf_printf(to, "  the layers could not be tried one by one: %s\n",
                             doctor->probe_err.text);
    failed |= buf_append_text(to, "\nlimits are enforced by\n");
    failed |= buf_printf(to, "  memory: %s, processes: %s, cpu: %s, disk: %s\n",
                         limit_by_name(box->memory_by), limit_by_name(box->pids_by),
                         box->limits.cpu_millis == 0 && box->cpu_by == LIMIT_BY_NONE
                             ? "no limit"
                             : limit_by_name(box->cpu_by),
                         limit_by_name(box->disk_by));
    failed |= buf_append_text(to, "\ninterpreters\n");
    for (size_t i = 0; i < doctor->interpreter_count; i++)
        failed |= interpreter_line(&doctor->interpreters[i], is_utf8, to);
    failed |= buf_append_text(to, "\ntemplates\n");
    for (size_t i = 0; i < doctor->template_count; i++)
        failed |=
            buf_printf(to, "  %s %-13s %s\n", mark(!doctor->templates[i].problem[0], is_utf8),
                       doctor->templates[i].name,
                       doctor->templates[i].problem[0] ? doctor->templates[i].problem : "built");
    if (doctor->template_count == 0)
        failed |= buf_append_text(to, "  none is built; 'bailey template build data' builds one "
                                      "with Polars, NumPy and scikit-learn\n");
    failed |= doctor_providers_text(doctor, is_utf8, to);
    if (!doctor->blocks_imports)
        failed |= buf_append_text(to, "\n" IMPORT_NOTICE "\n");
    failed |= buf_append_text(to, "\n");
    failed |= verdict(doctor, to);
    return failed < 0 ? failed : 0;
}
