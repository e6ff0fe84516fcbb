/* explain.c - the tables of --explain and --timing. */
#include "cli/explain.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "base/isolation.h"
#include "base/str.h"

#define CELL_MAX 64

void explain_seconds(uint64_t ms, char *text, size_t size)
{
    if (ms % 1000 == 0)
        str_format(text, size, "%llu s", (unsigned long long)(ms / 1000));
    else
        str_format(text, size, "%.10g s", (double)ms / 1000.0);
}

static void cpu_text(uint32_t millis, char *text, size_t size)
{
    if (millis == 0)
        str_copy(text, size, "all cores");
    else
        str_format(text, size, "%g core%s", millis / 1000.0, millis == 1000 ? "" : "s");
}

static int limit_line(struct buf *to, const char *name, const char *value, enum limit_by by)
{
    if (by == LIMIT_BY_NONE)
        return buf_printf(to, "  %-10s %-12s not enforced\n", name, value);
    return buf_printf(to, "  %-10s %-12s enforced by %s\n", name, value, limit_by_name(by));
}

static int explain_limits(const struct result *result, struct buf *to)
{
    const struct limits *limits = &result->limits;
    char memory[CELL_MAX], disk[CELL_MAX], output[CELL_MAX], time[CELL_MAX], cpu[CELL_MAX],
        pids[CELL_MAX];
    int failed = 0;

    str_from_bytes(limits->memory_bytes, memory, sizeof(memory));
    str_from_bytes(limits->disk_bytes, disk, sizeof(disk));
    str_from_bytes(limits->output_bytes, output, sizeof(output));
    explain_seconds(limits->timeout_ms, time, sizeof(time));
    cpu_text(limits->cpu_millis, cpu, sizeof(cpu));
    str_format(pids, sizeof(pids), "%u", limits->pids);

    failed |= limit_line(to, "time", time, LIMIT_BY_ENGINE);
    failed |= limit_line(to, "memory", memory, result->memory_by);
    failed |= limit_line(to, "disk", disk, result->disk_by);
    failed |= limit_line(to, "processes", pids, result->pids_by);
    if (limits->cpu_millis == 0 && result->cpu_by == LIMIT_BY_NONE)
        failed |= buf_printf(to, "  %-10s %s\n", "cpu", cpu);
    else
        failed |= limit_line(to, "cpu", cpu, result->cpu_by);
    failed |= limit_line(to, "output", output, LIMIT_BY_ENGINE);
    return failed;
}

/* Names the source of the numbers if it is not the engine itself. */
static int explain_usage(const struct result *result, struct buf *to)
{
    const struct usage *usage = &result->usage;
    const char *by = usage_by_name(usage->by, result->runtime);
    char rss[CELL_MAX] = "?";

    if (!by)
        return buf_printf(to, "  %-10s unknown\n", "used");
    if (usage->max_rss_bytes)
        str_from_bytes(usage->max_rss_bytes, rss, sizeof(rss));
    return buf_printf(
        to, "  %-10s %.1f ms of cpu, %s of memory%s%s%s\n", "used", (double)usage->cpu_us / 1000.0,
        rss, usage->by == USAGE_BY_ENGINE ? "" : " (measured by the ",
        usage->by == USAGE_BY_ENGINE ? "" : by, usage->by == USAGE_BY_ENGINE ? "" : ")");
}

int explain_result(const struct result *result, struct buf *to)
{
    char layers[256], missing[256];
    int failed = 0;

    isolation_layer_list(result->layers, layers, sizeof(layers));
    isolation_layer_list(result->missing, missing, sizeof(missing));

    failed |= buf_printf(to, "isolation and limits of this run\n");
    failed |= buf_printf(to, "  %-10s %s\n", "runtime", result->runtime ? result->runtime : "none");
    if (result->warm)
        failed |= buf_printf(to, "  %-10s %s\n", "started", result->warm);
    failed |= buf_printf(to, "  %-10s %s\n", "isolation",
                         isolation_name(isolation_of_layers(result->layers)));
    failed |= buf_printf(to, "  %-10s %s\n", "layers", layers[0] ? layers : "none");
    failed |= buf_printf(to, "  %-10s %s\n", "missing", missing[0] ? missing : "nothing");
    failed |= explain_limits(result, to);
    failed |= explain_usage(result, to);
    failed |= buf_printf(to, "  %-10s %.1f ms\n", "took", (double)result->duration_ns / 1e6);
    return failed < 0 ? failed : 0;
}

int explain_timing(const struct oneshot_extra *extra, struct buf *to)
{
    unsigned long long total = 0;
    int failed = buf_printf(to, "time of each step\n");

    for (size_t i = 0; i < extra->timing_count; i++) {
        total += extra->timings[i].ns;
        failed |= buf_printf(to, "  %10.3f ms  %s\n", (double)extra->timings[i].ns / 1e6,
                             extra->timings[i].stage);
    }
    failed |= buf_printf(to, "  %10.3f ms  total\n", (double)total / 1e6);
    return failed < 0 ? failed : 0;
}
