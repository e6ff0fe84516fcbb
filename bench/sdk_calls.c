/*
 * sdk_calls.c - what libbailey adds to a call over plain HTTP on the same kept unix socket.
 *
 *   sdk_calls SOCKET [CALLS]        prints the rows of bench/sdk.py's table; asserts nothing
 *
 * Calls of both kinds alternate, and rows are medians, as in bench/sdk.py. Both send an
 * Idempotency-Key with a POST: what the server does to keep its reply (about 0.15 ms) is no cost of
 * the library.
 */
#include <bailey.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define REPLY_MAX 65536

static struct bailey_error err;

static double now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static void must(int is_good, const char *what)
{
    if (is_good)
        return;
    fprintf(stderr, "%s: %s\n", what, err.text);
    exit(1);
}

static int dial(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    must(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0, path);
    return fd;
}

/* The whole reply, by its Content-Length. */
static void plain(int fd, const char *method, const char *path, const char *body)
{
    static char text[REPLY_MAX + 1];
    size_t have = 0, end = REPLY_MAX;
    static unsigned serial;
    char key[64] = "";
    int length;

    if (method[0] == 'P')
        snprintf(key, sizeof(key), "Idempotency-Key: plain-%d-%u\r\n", (int)getpid(), serial++);
    length = snprintf(text, sizeof(text),
                      "%s %s HTTP/1.1\r\nHost: bailey\r\nContent-Type: application/json\r\n"
                      "%sContent-Length: %zu\r\n\r\n%s",
                      method, path, key, strlen(body), body);
    must(write(fd, text, (size_t)length) == length, "sending");
    while (have < end) {
        ssize_t count = read(fd, text + have, REPLY_MAX - have);
        char *head, *number;

        must(count > 0, "receiving");
        have += (size_t)count;
        text[have] = '\0';
        head = strstr(text, "\r\n\r\n");
        number = head ? strcasestr(text, "Content-Length:") : NULL;
        must(!head || number, "a reply without Content-Length");
        if (head)
            end = (size_t)(head + 4 - text) + strtoul(number + 15, NULL, 10);
    }
    must(strncmp(text, "HTTP/1.1 200", 12) == 0, text);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *times, size_t count)
{
    qsort(times, count, sizeof(*times), compare);
    return times[count / 2];
}

static void ask(bailey_engine *engine, bailey_sandbox *sandbox, const char *path)
{
    if (sandbox) {
        bailey_result *result = NULL;

        must(bailey_sandbox_run_code(sandbox, NULL, "1+1", &result, &err) == 0, "a cell");
        bailey_result_free(result);
    } else {
        must(bailey_call(engine, "GET", path, NULL, NULL, NULL, &err) == 0, "a call");
    }
}

static void measure(const char *name, int fd, bailey_engine *engine, bailey_sandbox *sandbox,
                    const char *path, size_t calls)
{
    double *times[2] = {calloc(calls, sizeof(double)), calloc(calls, sizeof(double))};
    double raw, ours;

    for (size_t i = 0; i < calls; i++) {
        double begin = now_ms(), middle;

        plain(fd, sandbox ? "POST" : "GET", path, sandbox ? "{\"code\":\"1+1\"}" : "");
        middle = now_ms();
        ask(engine, sandbox, path);
        times[0][i] = middle - begin;
        times[1][i] = now_ms() - middle;
    }
    raw = median(times[0], calls);
    ours = median(times[1], calls);
    printf("| %-24s | %8.3f | %8.3f | %+8.3f | %5.2f |\n", name, raw, ours, ours - raw, ours / raw);
    free(times[0]);
    free(times[1]);
}

int main(int argc, char **argv)
{
    size_t calls = argc > 2 ? strtoul(argv[2], NULL, 10) : 1000;
    char url[256], here[256], code[300];
    bailey_engine *engine = NULL;
    bailey_sandbox *sandbox = NULL;
    int fd;

    must(argc > 1 && calls > 0, "usage: sdk_calls SOCKET [CALLS]");
    snprintf(url, sizeof(url), "unix://%s", argv[1]);
    must(bailey_open(&engine, url, NULL, &err) == 0, "opening");
    must(bailey_sandbox_new(engine, NULL, &sandbox, &err) == 0, "a sandbox");
    snprintf(here, sizeof(here), "/v1/sessions/%s", bailey_sandbox_id(sandbox));
    snprintf(code, sizeof(code), "%s/code", here);
    fd = dial(argv[1]);
    plain(fd, "POST", code, "{\"code\":\"1\"}");
    measure("C: GET a session", fd, engine, NULL, here, calls);
    measure("C: a cell: 1+1", fd, engine, sandbox, code, calls);
    close(fd);
    bailey_sandbox_end(sandbox, &err);
    bailey_close(engine);
    return 0;
}
