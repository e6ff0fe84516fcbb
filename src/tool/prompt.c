/*
 * prompt.c - the text that explains the tools to a model, with the configured limits; see prompt.h.
 */
#include "tool/prompt.h"

#include "base/limits.h"
#include "base/str.h"
#include "tool/tool.h"

static const char opening[] =
    "You can run code in a sandbox: a Linux box of your own without network. It lives as long as\n"
    "the session: files stay between calls. Nothing in it can harm the user's machine, so try\n"
    "things out.\n"
    "\n"
    "# Tools\n"
    "\n";

static const char replies[] =
    "\n"
    "Every reply has a \"hint\" that says what to do next, and the \"session_id\" that was used.\n";

static const char workflow[] =
    "\n"
    "# Workflow\n"
    "\n"
    "1. Write a script with sandbox_write_file, for example to /workspace/analysis.py.\n"
    "2. Run it: sandbox_exec {\"command\": [\"python3\", \"/workspace/analysis.py\"]}. The command "
    "is a\n"
    "   list of arguments; for a shell line use [\"bash\", \"-c\", \"...\"].\n"
    "3. When the exit code is not 0, read stderr: the last line of the traceback names the error.\n"
    "4. Correct the place with sandbox_edit_file. Do not write the whole file again.\n"
    "5. Run it again, until it does what was asked.\n"
    "\n"
    "To look at data step by step, run_code in a session keeps variables between calls.\n"
    "There is no tool for reading: use sandbox_exec with cat, head, grep or ls.\n"
    "\n"
    "# Where things are\n"
    "\n"
    "- /tmp/data/: the datasets of the session, read-only: {name}.csv, other kinds with their own\n"
    "  ending ('/' and blanks in names are '_'). Look first: sandbox_exec {\"command\": [\"ls\", "
    "\"-l\",\n"
    "  \"/tmp/data\"]}.\n"
    "- /tmp/output/: save results here. After each call the new files are fetched for the user:\n"
    "  tables (CSV, JSON, Parquet, XLSX), plots (PNG, SVG), which the user sees, PDF, ZIP and\n"
    "  notebooks. Models and other binaries are only listed.\n"
    "- /workspace/: your scripts; the working folder of commands.\n"
    "\n"
    "# Example\n"
    "\n";

static const char data_example[] =
    "Use Polars for data frames: it is fast and its errors are clear. Customers into groups, with "
    "a\n"
    "plot:\n"
    "\n"
    "```python\n"
    "import matplotlib\n"
    "matplotlib.use(\"Agg\")\n"
    "import matplotlib.pyplot as plt\n"
    "import polars as pl\n"
    "from sklearn.cluster import KMeans\n"
    "from sklearn.preprocessing import StandardScaler\n"
    "\n"
    "df = pl.read_csv(\"/tmp/data/customers.csv\")\n"
    "print(df.shape, df.schema)\n"
    "\n"
    "features = df.select(\"spend\", \"visits\").drop_nulls()\n"
    "scaled = StandardScaler().fit_transform(features.to_numpy())\n"
    "labels = KMeans(n_clusters=3, n_init=10, random_state=0).fit_predict(scaled)\n"
    "features = features.with_columns(pl.Series(\"cluster\", labels))\n"
    "\n"
    "summary = features.group_by(\"cluster\").agg(\n"
    "    pl.len().alias(\"customers\"), pl.col(\"spend\", \"visits\").mean()).sort(\"cluster\")\n"
    "print(summary)\n"
    "summary.write_csv(\"/tmp/output/clusters.csv\")\n"
    "\n"
    "plt.scatter(features[\"visits\"], features[\"spend\"], c=features[\"cluster\"])\n"
    "plt.xlabel(\"visits\")\n"
    "plt.ylabel(\"spend\")\n"
    "plt.savefig(\"/tmp/output/clusters.png\", dpi=150)\n"
    "```\n";

static const char plain_example[] =
    "Python has its standard library here, without Polars, NumPy or Matplotlib, unless [\"pip\",\n"
    "\"list\"] shows them. Turnover by city:\n"
    "\n"
    "```python\n"
    "import csv\n"
    "from collections import defaultdict\n"
    "\n"
    "turnover = defaultdict(float)\n"
    "with open(\"/tmp/data/sales.csv\", newline=\"\") as file:\n"
    "    for row in csv.DictReader(file):\n"
    "        turnover[row[\"city\"]] += float(row[\"price\"]) * int(row[\"pieces\"])\n"
    "\n"
    "with open(\"/tmp/output/turnover.csv\", \"w\", newline=\"\") as file:\n"
    "    writer = csv.writer(file)\n"
    "    writer.writerow([\"city\", \"turnover\"])\n"
    "    writer.writerows(sorted(turnover.items(), key=lambda item: -item[1]))\n"
    "print(dict(turnover))\n"
    "```\n";

static const char recovery[] =
    "\n"
    "# When something goes wrong\n"
    "\n"
    "- The run failed (the exit code is not 0): read the last lines of stderr, change only the\n"
    "  place that is wrong with sandbox_edit_file, and run it again. The same error twice: print\n"
    "  what the values really are before you change anything else. \"timed out\" or out of "
    "memory:\n"
    "  do less at once, or start it with \"background\": true and use sandbox_wait.\n"
    "- \"old_string found n times - not unique\": take more lines around the place into "
    "old_string\n"
    "  and new_string. \"old_string not found\": read the file with cat; blanks count.\n"
    "- No files came back: the script ran and saved nothing. Check that it writes below\n"
    "  /tmp/output/ and that the part that saves is reached.\n";

/* How each tool is called; every row of the table has one. */
static const char *const how[_TOOL_ID_MAX] = {
    [TOOL_SANDBOX_EXEC] = "{\"command\": [argv], \"timeout\": seconds, \"background\": false}",
    [TOOL_SANDBOX_WRITE_FILE] = "{\"file_path\": \"/workspace/x.py\", \"content\": \"...\"}",
    [TOOL_SANDBOX_EDIT_FILE] =
        "{\"file_path\": \"/workspace/x.py\", \"old_string\": \"...\", \"new_string\": \"...\"}",
    [TOOL_SANDBOX_WAIT] = "{\"execution_id\": \"...\", \"timeout\": seconds, \"offset\": bytes}",
    [TOOL_RUN_PYTHON_CODE] = "{\"code\": \"...\", \"timeout\": seconds}",
    [TOOL_RUN_CODE] = "{\"code\": \"...\", \"language\": \"python\", \"timeout\": seconds}",
    [TOOL_SANDBOX_PAUSE] = "{\"resume\": false}",
    [TOOL_SANDBOX_INSTALL] = "{\"packages\": [\"requests\", \"numpy>=2\"]}",
};

static int write_tools(const struct prompt_spec *spec, struct buf *text)
{
    int failed = 0;

    for (size_t i = 0; i < tool_count; i++) {
        const struct tool_row *row = &tool_table[i];
        const char *description =
            spec->is_mcp && row->own_description ? row->own_description : row->description;

        if (!tool_is_offered(row, spec->config))
            continue;
        failed |= buf_printf(text, "- %s %s\n  %s\n", row->name, how[row->id] ? how[row->id] : "",
                             description);
    }
    return failed;
}

static int write_limits(const struct config *config, struct buf *text)
{
    char memory[32], disk[32], output[32];
    int failed = 0;

    str_from_bytes(config->limits.memory_bytes, memory, sizeof(memory));
    str_from_bytes(config->limits.disk_bytes, disk, sizeof(disk));
    str_from_bytes(config->limits.output_bytes, output, sizeof(output));
    failed |= buf_printf(text, "- A command may run %u s, at most %d when you give a timeout.\n",
                         tool_find("sandbox_exec")->default_timeout_s, LIMIT_EXEC_TIMEOUT_S);
    failed |= buf_printf(text, "- Memory: %s. Disk: %s. Processes and threads: %u.", memory, disk,
                         config->limits.pids);
    if (config->limits.cpu_millis > 0)
        failed |= buf_printf(text, " CPU cores: %g.", config->limits.cpu_millis / 1000.0);
    failed |= buf_printf(text,
                         "\n- %s of stdout and of stderr come back; more is cut, and sandbox_wait "
                         "reads on. Print\n  summaries and the first rows, not whole tables.\n",
                         output);
    failed |= buf_printf(text, "- A file that you write: %llu MB. Files fetched after a run: %d.\n",
                         LIMIT_CONTENT_BYTES / MIB, LIMIT_TOOL_OUTPUTS);
    failed |= buf_printf(text,
                         "- The session ends when it is not used for %g minutes, or after %g "
                         "hours.\n",
                         (double)config->session_idle_ms / 60000.0,
                         (double)config->session_age_ms / 3600000.0);
    failed |= buf_append_text(
        text, config_no_install(config)
                  ? "- No network: nothing can be downloaded or installed while it runs.\n"
                  : "- No network: code can download nothing. A Python package that is missing: "
                    "sandbox_install.\n");
    return failed;
}

int prompt_write(const struct prompt_spec *spec, struct buf *text)
{
    int failed = buf_append_text(text, opening);

    failed |= write_tools(spec, text);
    if (!spec->is_mcp)
        failed |= buf_append_text(text, replies);
    failed |= buf_append_text(text, workflow);
    failed |= buf_append_text(text, spec->has_data ? data_example : plain_example);
    failed |= buf_append_text(text, "\n# Limits\n\n");
    failed |= write_limits(spec->config, text);
    return failed | buf_append_text(text, recovery);
}
