/*
 * session.c - a sandbox of a server: variables and files stay from one run to the next.
 *
 *   cc session.c $(pkg-config --cflags --libs bailey) -o session && ./session
 *
 * The server is that of BAILEY_URL and BAILEY_API_KEY, else this user's daemon.
 */
#include <bailey.h>
#include <stdio.h>
#include <string.h>

static int show(bailey_sandbox *sandbox, const char *code, struct bailey_error *err)
{
    bailey_result *result = NULL;
    int r = bailey_sandbox_run_code(sandbox, "python", code, &result, err);

    if (r == 0 && bailey_result_text(result))
        printf("%s\n", bailey_result_text(result));
    bailey_result_free(result);
    return r;
}

static int use(bailey_sandbox *sandbox, struct bailey_error *err)
{
    static const char table[] = "region,sum\nnorth,3\nsouth,4\n";
    char *copy = NULL;
    size_t length = 0;
    int r = bailey_sandbox_write(sandbox, "sales.csv", table, strlen(table), err);

    if (r == 0)
        r = show(sandbox, "rows = open('sales.csv').read().split()[1:]", err);
    if (r == 0)
        r = show(sandbox, "sum(int(row.split(',')[1]) for row in rows)", err);
    if (r == 0)
        r = bailey_sandbox_read(sandbox, "sales.csv", &copy, &length, err);
    if (r == 0)
        printf("%zu bytes\n", length);
    bailey_free(copy);
    return r;
}

int main(void)
{
    struct bailey_error err = {0};
    bailey_engine *engine = NULL;
    bailey_sandbox *sandbox = NULL;
    int r = bailey_open(&engine, NULL, NULL, &err);

    if (r == 0)
        r = bailey_sandbox_new(engine, NULL, &sandbox, &err);
    if (r == 0) {
        r = use(sandbox, &err);
        bailey_sandbox_end(sandbox, r == 0 ? &err : NULL);
    }
    if (r < 0)
        fprintf(stderr, "%s: %s\n", err.code, err.text);
    bailey_close(engine);
    return r < 0;
}
