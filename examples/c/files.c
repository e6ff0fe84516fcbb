/*
 * files.c - a program with limits, a file that goes in and a file that comes out; no server.
 *
 *   cc files.c $(pkg-config --cflags --libs bailey) -o files && ./files TABLE.csv FOLDER
 *
 * Copies TABLE.csv into a box with 256 MB and 10 s, counts its lines there, and leaves count.txt in
 * FOLDER.
 */
#include <bailey.h>
#include <stdio.h>
#include <string.h>

static const char code[] = "import sys\n"
                           "lines = len(open(sys.argv[1]).read().splitlines())\n"
                           "open('/tmp/output/count.txt', 'w').write(f'{lines}\\n')\n"
                           "print(lines, 'lines')\n";

/* A wrong setting is told when the description is used, so that not every line needs a check. */
static bailey_spec *describe(const char *table, const char *folder)
{
    bailey_spec *spec = bailey_spec_new();

    if (!spec)
        return NULL;
    bailey_spec_code(spec, "python", code, strlen(code));
    bailey_spec_argument(spec, "table.csv");
    bailey_spec_file(spec, table, "table.csv");
    bailey_spec_out(spec, folder);
    bailey_spec_set(spec, "memory", "256m");
    bailey_spec_set(spec, "timeout", "10");
    return spec;
}

int main(int argc, char **argv)
{
    struct bailey_error err = {0};
    bailey_engine *engine = NULL;
    bailey_result *result = NULL;
    bailey_spec *spec = argc == 3 ? describe(argv[1], argv[2]) : NULL;
    int status = 1;

    if (!spec) {
        fprintf(stderr, "usage: files TABLE.csv FOLDER\n");
        return 2;
    }
    if (bailey_open_local(&engine, &err) < 0 || bailey_run(engine, spec, &result, &err) < 0) {
        fprintf(stderr, "%s: %s\n", err.code, err.text);
    } else {
        status = bailey_result_exit_code(result);
        fputs(bailey_result_stdout(result, NULL), stdout);
        fputs(bailey_result_stderr(result, NULL), stderr);
    }
    bailey_result_free(result);
    bailey_spec_free(spec);
    bailey_close(engine);
    return status;
}
