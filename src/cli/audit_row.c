/* audit_row.c - the row of `bailey audit`: options and words; its code is in client/audit.c. */
#include "base/cleanup.h"
#include "cli/command.h"

static const struct option_row audit_options[] = {
    {.name = "session",
     .letter = 's',
     .argument = "ID",
     .help = "tail, query: only what is about this session"},
    {.name = "tenant", .argument = "NAME", .help = "tail, query: only what this tenant did"},
    {.name = "action",
     .argument = "WORD",
     .help = "tail, query: only run, exec, cell, file, key, denied, ...; 'session.' is all that "
             "begin so"},
    {.name = "since",
     .argument = "TIME",
     .help = "query: only from then on: 2026-11-15T08:15:04Z, or as long ago as 90s, 30m, 8h"},
    {.name = "lines",
     .letter = 'n',
     .argument = "N",
     .help = "tail: so many of the last lines, 20 if not given"},
    {.name = "follow", .letter = 'f', .help = "tail: go on with what comes"},
    {.name = "folder",
     .argument = "FOLDER",
     .words = WORDS_FOLDER,
     .help = "verify: the folder of the audit, logs in the state folder if not given"},
    {.name = "json", .letter = 'j', .help = "verify: print JSON"},
    {.name = "config", .argument = "FILE", .words = WORDS_FILE, .help = "read this bailey.yaml"},
};

const struct command audit_command = {
    .name = "audit",
    .summary = "check and read the record of what was done",
    .usage = "verify | tail [-f] | query [options]",
    .description =
        "Every run, command, cell, change of a file or of a key, and every refusal is a line of "
        "JSON: who, what, how it ended, which walls held. Each line has the hash of the one "
        "before.\n\n"
        "'verify' reads the files themselves, with or without a daemon, and says the first line "
        "that was changed, removed or cut off; exit status 1 when there is one. It prints the hash "
        "of the last line: kept elsewhere, it proves all lines up to there. docs/audit.md says "
        "what it cannot see.\n\n"
        "'tail' and 'query' ask the daemon, and print lines as they were written.\n\n"
        "Example: bailey audit query --action denied --since 8h",
    .options = audit_options,
    .option_count = ARRAY_SIZE(audit_options),
    .operand = "ACTION",
    .operands = WORDS_AUDIT_ACTION,
    .operand_max = 1,
    .in_engine = true,
};
