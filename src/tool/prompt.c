/*
 * prompt.c - the text that explains the tools to a model, with the configured limits; see prompt.h.
 */
#include "tool/prompt.h"

#include "base/limits.h"
#include "base/str.h"
#include "tool/tool.h"

static const char opening[] =
    "You can run code in a sandbox: a Linux box of your own without network. It lives as long as\n"
    "the session: files stay between calls, variables do not. Nothing in it can harm\n"
    "the user's machine, so try things out.\n"
    "\n"
    "# Tools\n"
    "\n";

static const char workflow[] =
    "\n"
    "Every reply has a \"hint\" that says what to do next, and the \"session_id\" that was used.\n"
    "\n"
    "# Workflow\n"
    "\n"
    "1. Write a script with sandbox_write_file, for example to /workspace/analysis.py.\n"
    "2. Run it: sandbox_exec {\"command\": [\"python3\", \"/workspace/analysis.py\"]}. The command "
    "is a\n"
    "   list of arguments; for a shell line use [\"bash\", \"-c\", \"...\"].\n"
    "3. When exit_code is not 0, read stderr: the last line of the traceback names the error.\n"
    "4. Correct the place with sandbox_edit_file. Do not write the whole file again.\n"
    "5. Run it again, until it does what was asked.\n"
    "\n"
    "There is no tool for reading: use sandbox_exec with cat, head, grep or ls.\n"
    "\n"
    "# Where things are\n"
    "\n"
    "- /tmp/data/{name}.csv: the datasets of the session, read-only ('/' and blanks in names are\n"
    "  '_'). Look first: sandbox_exec {\"command\": [\"ls\", \"-l\", \"/tmp/data\"]}.\n"
    "- /tmp/output/: save results here. After each sandbox_exec the new files are fetched: tables\n"
    "  as CSV or JSON, plots as PNG or SVG, which the user sees. Other files are only listed.\n"
    "- /workspace/: your scripts; the working folder of commands.\n"
    "\n"
    "# Example\n"
    "\n"
    "Use Polars for data frames: it is fast and its errors are clear. Customers into groups, with "
    "a\n"
    "plot:\n"
    "\n"
    "```python\n"
    "import os\n"
    "\n"
    "import matplotlib\n"
    "matplotlib.use(\"Agg\")\n"
    "import matplotlib.pyplot as plt\n"
    "import polars as pl\n"
    "from sklearn.cluster import KMeans\n"
    "from sklearn.preprocessing import StandardScaler\n"
    "\n"
    "os.makedirs(\"/tmp/output\", exist_ok=True)\n"
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
    "```\n"
    "\n"
    "# Limits\n"
    "\n";

static const char recovery[] =
    "- No network: nothing can be downloaded or installed while it runs.\n"
    "\n"
    "# When something goes wrong\n"
    "\n"
    "- The run failed (exit_code is not 0): read the last lines of stderr, change only the place\n"
    "  that is wrong with sandbox_edit_file, and run it again. The same error twice: print what "
    "the\n"
    "  values really are before you change anything else. \"timed out\" or out of memory: do less "
    "at\n"
    "  once, or start it with \"background\": true and use sandbox_wait.\n"
    "- \"old_string found n times - not unique\": take more lines around the place into "
    "old_string\n"
    "  and new_string. \"old_string not found\": read the file with cat; blanks count.\n"
    "- No output (\"no outputs in /tmp/output/\"): the script ran and saved nothing. Check that "
    "it\n"
    "  writes below /tmp/output/ and that the part that saves is reached.\n";

static int write_tools(struct buf *text)
{
    static const char *const shown[] = {"sandbox_exec", "sandbox_write_file", "sandbox_edit_file"};
    static const char *const how[] = {
        "{\"command\": [argv], \"timeout\": seconds}",
        "{\"file_path\": \"/workspace/x.py\", \"content\": \"...\"}",
        "{\"file_path\": \"/workspace/x.py\", \"old_string\": \"...\", \"new_string\": \"...\"}",
    };
    int failed = 0;

    for (size_t i = 0; i < sizeof(shown) / sizeof(shown[0]); i++)
        failed |=
            buf_printf(text, "- %s %s\n  %s\n", shown[i], how[i], tool_find(shown[i])->description);
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
                         "\n- %s of stdout and of stderr come back; more is cut and marked. Print "
                         "summaries and the\n  first rows, not whole tables.\n",
                         output);
    failed |= buf_printf(text, "- A file that you write: %llu MB. Files fetched after a run: %d.\n",
                         LIMIT_CONTENT_BYTES / MIB, LIMIT_TOOL_OUTPUTS);
    failed |= buf_printf(text,
                         "- The session ends when it is not used for %g minutes, or after %g "
                         "hours.\n",
                         (double)config->session_idle_ms / 60000.0,
                         (double)config->session_age_ms / 3600000.0);
    return failed;
}

int prompt_write(const struct config *config, struct buf *text)
{
    int failed = buf_append_text(text, opening);

    failed |= write_tools(text);
    failed |= buf_append_text(text, workflow);
    failed |= write_limits(config, text);
    return failed | buf_append_text(text, recovery);
}
