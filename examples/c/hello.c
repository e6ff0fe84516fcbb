/*
 * hello.c - Python in a box that this program makes itself: no server, nothing installed but
 * libbailey.
 *
 *   cc hello.c $(pkg-config --cflags --libs bailey) -o hello && ./hello
 */
#include <bailey.h>
#include <stdio.h>

int main(void)
{
    struct bailey_error err = {0};
    bailey_engine *engine = NULL;
    bailey_result *result = NULL;
    int r = bailey_open_local(&engine, &err);

    if (r == 0)
        r = bailey_run_code(engine, "python", "print(6 * 7)", &result, &err);
    if (r == 0)
        fputs(bailey_result_stdout(result, NULL), stdout);
    else
        fprintf(stderr, "%s: %s\n", err.code, err.text);
    bailey_result_free(result);
    bailey_close(engine);
    return r < 0;
}
