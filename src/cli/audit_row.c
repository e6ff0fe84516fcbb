/* audit_row.c - the row of `bailey audit`: options and texts; its code is in client/audit.c. */
#include "base/cleanup.h"
#include "cli/command.h"

static const struct option_row audit_options[] = {
    {.name = "session",
     .letter = 's',
     .argument = "ID",
     .help = "tail, query: only lines about this session"},
    {.name = "tenant", .argument = "NAME", .help = "tail, query: only lines of this tenant"},
    {.name = "action",
     .argument = "WORD",
     .help = "tail, query: only run, exec, cell, file, key, denied, ...; 'session.' matches all "
             "that begin with it"},
    {.name = "since",
     .argument = "TIME",
     .help = "query: only since 2026-11-15T08:15:04Z, or since 90s, 30m, 8h ago"},
    {.name = "lines", .letter = 'n', .argument = "N", .help = "tail: number of lines (default 20)"},
    {.name = "follow", .letter = 'f', .help = "tail: follow new lines"},
    {.name = "folder",
     .argument = "FOLDER",
     .words = WORDS_FOLDER,
     .help = "verify: folder of the audit (default: logs in the state folder)"},
    {.name = "json", .letter = 'j', .help = "verify: print JSON"},
    {.name = "config", .argument = "FILE", .words = WORDS_FILE, .help = "read this bailey.yaml"},
};

const struct command audit_command = {
    .name = "audit",
    .summary = "verify and read the audit log",
    .usage = "verify | tail [-f] | query [options]",
    .description =
        "Every run, command, cell, change of a file or of a key, and every refusal is a line of "
        "JSON: caller, action, result, isolation layers. Each line has the hash of the previous "
        "one.\n\n'verify' reads the files, with or without a daemon, and reports the first line "
        "that was changed, removed or cut off, with exit status 1. It prints the hash of the last "
        "line: kept elsewhere, it proves all lines up to there. docs/audit.md says what it cannot "
        "detect.\n\n'tail' and 'query' ask the daemon and print the lines unchanged.\n\nExample: "
        "bailey audit query --action denied --since 8h",
    .options = audit_options,
    .option_count = ARRAY_SIZE(audit_options),
    .operand = "ACTION",
    .operands = WORDS_AUDIT_ACTION,
    .operand_max = 1,
    .in_engine = true,
};
