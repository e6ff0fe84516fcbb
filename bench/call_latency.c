/* call_latency.c - what a call costs its caller: HTTP over a unix socket beside started programs.
 *
 *     call_latency ROUNDS PACE_MS WAY...
 *
 * Each WAY begins with one of
 *     --spawn NAME ARGV...                            posix_spawn, and wait for its end with 0
 *     --http  NAME SOCKET (METHOD TARGET BODY EXPECT)...   one connection, kept from round to
 * round; SOCKET is a path, or tcp:PORT:KEY
 *     --pipe  NAME ARGV...                            a program that is started once and says
 *                                                     "ready"; for each line it gets it does its
 *                                                     work and answers with the nanoseconds
 * The requests of a way are one sample; "{id}" in a target is what the last reply with a member
 * "id" or "Id" had there. EXPECT is a text that the reply has to hold ("" for none); a status of
 * 400 and more ends everything with a message and status 1.
 *
 * Every round runs each way once, in an order drawn anew; with a pace, one start every PACE_MS.
 * Prints a line for each sample: the way's number, nanoseconds in all, nanoseconds of each request,
 * and what the last reply says of "warm", if it does.
 *
 * In C, because a client in Python adds 0.3 ms to each call, more than what is to be seen. */
#define _GNU_SOURCE /* pipe2 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAYS_MAX 16
#define STEPS_MAX 8
#define ID_LENGTH_MAX 128
#define WARM_MAX 16
#define REPLY_MAX (4 << 20)
#define WORDS_PER_STEP 4
#define SEED 1
#define WARMING_ROUNDS 3

extern char **environ;

struct step {
    const char *method, *target, *body, *expect;
};

struct way {
    const char *name;
    char **argv; /* spawn and pipe; NULL: HTTP */
    int is_pipe;
    FILE *to, *from; /* pipe: once it is started */
    const char *socket;
    struct step steps[STEPS_MAX];
    int step_count;
    int fd; /* the connection; -1: none */
    char id[ID_LENGTH_MAX];
    uint64_t step_ns[STEPS_MAX];
    char warm[WARM_MAX]; /* empty: not said */
};

/* The one reply that is being read: the way's, and big enough for a list of all sessions. */
static char reply[REPLY_MAX + 1];

static _Noreturn void fail(const struct way *way, const char *what, const char *detail)
{
    fprintf(stderr, "%s: %s%s%.600s\n", way ? way->name : "call_latency", what, detail ? ": " : "",
            detail ? detail : "");
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- HTTP ---- */

/* "tcp:PORT:KEY": the port, and the key behind it; 0: it is a path. */
static unsigned tcp_port(const char *socket, const char **ret_key)
{
    char *end;
    unsigned long port;

    if (strncmp(socket, "tcp:", 4) != 0)
        return 0;
    port = strtoul(socket + 4, &end, 10);
    *ret_key = *end == ':' ? end + 1 : end;
    return port < 65536 ? (unsigned)port : 0;
}

static void connect_tcp(struct way *way, unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1;

    way->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (way->fd < 0 || connect(way->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        fail(way, way->socket, strerror(errno));
    setsockopt(way->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

static void connect_way(struct way *way)
{
    const char *key;
    unsigned port = tcp_port(way->socket, &key);
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (port) {
        connect_tcp(way, port);
        return;
    }
    if (strlen(way->socket) >= sizeof(address.sun_path))
        fail(way, "the socket's path is too long", way->socket);
    memcpy(address.sun_path, way->socket, strlen(way->socket));
    way->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (way->fd < 0 || connect(way->fd, (struct sockaddr *)&address, sizeof(address)) < 0)
        fail(way, way->socket, strerror(errno));
}

/* The target with the id in it. */
static void fill_target(const struct way *way, const char *target, char *text, size_t size)
{
    const char *mark = strstr(target, "{id}");

    if (mark)
        snprintf(text, size, "%.*s%s%s", (int)(mark - target), target, way->id, mark + 4);
    else
        snprintf(text, size, "%s", target);
}

static void send_request(struct way *way, const struct step *step)
{
    char target[1024], who[256] = "Host: bench\r\n";
    char text[16384];
    const char *key = NULL;
    unsigned port = tcp_port(way->socket, &key);
    int length;

    if (port)
        snprintf(who, sizeof(who), "Host: 127.0.0.1:%u\r\nAuthorization: Bearer %s\r\n", port, key);

    fill_target(way, step->target, target, sizeof(target));
    length = snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\n%s%sContent-Length: %zu\r\n\r\n%s",
                      step->method, target, who,
                      step->body[0] ? "Content-Type: application/json\r\n" : "", strlen(step->body),
                      step->body);
    if (length < 0 || (size_t)length >= sizeof(text))
        fail(way, "the request is too long", NULL);
    for (int sent = 0; sent < length;) {
        ssize_t count = send(way->fd, text + sent, (size_t)(length - sent), MSG_NOSIGNAL);

        if (count < 0 && errno != EINTR)
            fail(way, "sending", strerror(errno));
        sent += count > 0 ? (int)count : 0;
    }
}

/* One more read behind what is there; false at the end of the connection. */
static int read_more(struct way *way, size_t *have)
{
    ssize_t count;

    if (*have == REPLY_MAX)
        fail(way, "the reply is too long", NULL);
    do {
        count = recv(way->fd, reply + *have, REPLY_MAX - *have, 0);
    } while (count < 0 && errno == EINTR);
    if (count < 0)
        fail(way, "reading", strerror(errno));
    *have += (size_t)count;
    reply[*have] = '\0';
    return count > 0;
}

/* Value of a header in the head of the reply, or NULL. */
static const char *find_header(const char *name, const char *end)
{
    size_t length = strlen(name);

    for (const char *line = strstr(reply, "\r\n"); line && line < end;
         line = strstr(line, "\r\n")) {
        line += 2;
        if (strncasecmp(line, name, length) == 0 && line[length] == ':')
            return line + length + 1 + strspn(line + length + 1, " ");
    }
    return NULL;
}

/* Reads until the reply is whole; closes where only the end of the connection can tell that. */
static const char *read_reply(struct way *way)
{
    size_t have = 0;
    const char *end = NULL;
    const char *length, *chunked;
    size_t body;

    while (!end) {
        if (!read_more(way, &have))
            fail(way, "the connection was closed", have ? reply : "nothing came");
        end = strstr(reply, "\r\n\r\n");
    }
    body = (size_t)(end - reply) + 4;
    length = find_header("Content-Length", end);
    chunked = find_header("Transfer-Encoding", end);
    if (length) {
        while (have - body < strtoull(length, NULL, 10)) {
            if (!read_more(way, &have))
                fail(way, "the connection was closed within a reply", NULL);
        }
    } else if (chunked) {
        while (have - body < 5 || memcmp(reply + have - 5, "0\r\n\r\n", 5) != 0) {
            if (!read_more(way, &have))
                fail(way, "the connection was closed within a reply", NULL);
        }
    } else if (strncmp(reply + 9, "204", 3) != 0) {
        while (read_more(way, &have))
            ;
        close(way->fd);
        way->fd = -1;
    }
    return reply + body;
}

static void keep_id(struct way *way, const char *body)
{
    const char *found = strstr(body, "\"id\":");
    size_t length;

    if (!found)
        found = strstr(body, "\"Id\":");
    if (!found)
        return;
    found += 5 + strspn(found + 5, " \"");
    length = strcspn(found, "\"");
    if (length < sizeof(way->id)) {
        memcpy(way->id, found, length);
        way->id[length] = '\0';
    }
}

static void keep_warm(struct way *way, const char *body)
{
    const char *found = strstr(body, "\"warm\":\"");

    way->warm[0] = '\0';
    if (found)
        snprintf(way->warm, sizeof(way->warm), "%.*s", (int)strcspn(found + 8, "\""), found + 8);
}

static void run_http(struct way *way)
{
    for (int i = 0; i < way->step_count; i++) {
        const struct step *step = &way->steps[i];
        uint64_t begin = now_ns();
        const char *body;

        if (way->fd < 0)
            connect_way(way);
        send_request(way, step);
        body = read_reply(way);
        way->step_ns[i] = now_ns() - begin;
        if (strtol(reply + 9, NULL, 10) >= 400)
            fail(way, step->target, reply);
        if (step->expect[0] && !strstr(body, step->expect))
            fail(way, "the reply is not what was expected", body);
        keep_id(way, body);
        keep_warm(way, body);
    }
}

/* ---- programs ---- */

static void run_spawn(struct way *way, const posix_spawn_file_actions_t *actions)
{
    pid_t pid;
    int status;
    int r = posix_spawn(&pid, way->argv[0], actions, NULL, way->argv, environ);

    if (r != 0)
        fail(way, way->argv[0], strerror(r));
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR)
            fail(way, "waitpid", strerror(errno));
    }
    if (status != 0)
        fail(way, "it did not end with 0", NULL);
}

/* Its standard error is ours, so that it can say why it did not start. */
static void start_pipe(struct way *way)
{
    posix_spawn_file_actions_t actions;
    int in[2], out[2];
    char line[64];
    pid_t pid;
    int r;

    if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
        fail(way, "pipe", strerror(errno));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    r = posix_spawn(&pid, way->argv[0], &actions, NULL, way->argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    if (r != 0)
        fail(way, way->argv[0], strerror(r));
    way->to = fdopen(in[1], "w"); /* closed at our end: then it ends too */
    way->from = fdopen(out[0], "r");
    if (!way->to || !way->from || !fgets(line, sizeof(line), way->from) ||
        strcmp(line, "ready\n") != 0)
        fail(way, "it did not start", NULL);
}

static uint64_t run_pipe(struct way *way)
{
    char line[64];

    if (!way->to)
        start_pipe(way);
    if (fputs("go\n", way->to) < 0 || fflush(way->to) != 0 || !fgets(line, sizeof(line), way->from))
        fail(way, "it ended", NULL);
    return strtoull(line, NULL, 10);
}

/* ---- arguments ---- */

static int is_way(const char *word)
{
    return strcmp(word, "--spawn") == 0 || strcmp(word, "--http") == 0 ||
           strcmp(word, "--pipe") == 0;
}

/* Parses one way out of words[0..], which ends at the next one; the number of words it took. */
static int parse_way(char **words, struct way *way)
{
    int count = 1;

    while (words[count] && !is_way(words[count]))
        count++;
    if (count < 3)
        fail(NULL, "a way needs a name and more", words[0]);
    *way = (struct way){.name = words[1], .fd = -1};
    if (strcmp(words[0], "--http") != 0) {
        way->is_pipe = strcmp(words[0], "--pipe") == 0;
        way->argv = calloc((size_t)count - 1, sizeof(*way->argv));
        if (!way->argv)
            fail(way, "out of memory", NULL);
        memcpy(way->argv, words + 2, ((size_t)count - 2) * sizeof(*way->argv));
        return count;
    }
    way->socket = words[2];
    way->step_count = (count - 3) / WORDS_PER_STEP;
    if (way->step_count < 1 || way->step_count > STEPS_MAX || (count - 3) % WORDS_PER_STEP != 0)
        fail(way, "a request is METHOD TARGET BODY EXPECT", NULL);
    for (int i = 0; i < way->step_count; i++) {
        char **at = words + 3 + i * WORDS_PER_STEP;

        way->steps[i] = (struct step){at[0], at[1], at[2], at[3]};
    }
    return count;
}

/* ---- rounds ---- */

static void wait_until(uint64_t at_ns)
{
    struct timespec at = {.tv_sec = (time_t)(at_ns / 1000000000u),
                          .tv_nsec = (long)(at_ns % 1000000000u)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        ;
}

static void shuffle(int *order, int count)
{
    for (int i = count - 1; i > 0; i--) {
        int other = rand() % (i + 1);
        int kept = order[i];

        order[i] = order[other];
        order[other] = kept;
    }
}

static void take_sample(struct way *way, int number, int is_told,
                        const posix_spawn_file_actions_t *actions)
{
    uint64_t begin = now_ns();
    uint64_t ns;

    if (way->is_pipe) {
        ns = run_pipe(way);
    } else {
        if (way->argv)
            run_spawn(way, actions);
        else
            run_http(way);
        ns = now_ns() - begin;
    }
    if (!is_told)
        return;
    printf("%d %llu", number, (unsigned long long)ns);
    for (int i = 0; i < way->step_count; i++)
        printf(" %llu", (unsigned long long)way->step_ns[i]);
    printf("%s%s\n", way->warm[0] ? " " : "", way->warm);
}

int main(int argc, char **argv)
{
    static struct way ways[WAYS_MAX];
    int order[WAYS_MAX];
    int count = 0;
    posix_spawn_file_actions_t actions;
    long rounds = argc > 3 ? strtol(argv[1], NULL, 10) : 0;
    uint64_t pace_ns = argc > 3 ? strtoull(argv[2], NULL, 10) * 1000000u : 0;
    uint64_t next;

    if (rounds <= 0 || !is_way(argv[3]))
        fail(NULL, "usage: call_latency ROUNDS PACE_MS (--spawn|--http|--pipe) NAME ...", NULL);
    for (int at = 3; at < argc; count++) {
        if (count == WAYS_MAX)
            fail(NULL, "too many ways", NULL);
        at += parse_way(argv + at, &ways[count]);
        order[count] = count;
    }
    posix_spawn_file_actions_init(&actions);
    for (int fd = 0; fd < 3; fd++) {
        if (fd != 2)
            posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    }
    srand(SEED);
    next = now_ns() + pace_ns;
    for (long round = rounds > WARMING_ROUNDS ? -WARMING_ROUNDS : 1 - rounds; round < rounds;
         round++) {
        shuffle(order, count);
        for (int i = 0; i < count; i++) {
            uint64_t now = now_ns();

            if (pace_ns && now < next)
                wait_until(next);
            next = (next > now ? next : now) + pace_ns;
            take_sample(&ways[order[i]], order[i], round >= 0, &actions);
        }
    }
    return 0;
}
