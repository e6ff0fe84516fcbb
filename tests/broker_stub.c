/*
 * broker_stub.c - the daemon's processes with a broker that does what a test tells it.
 *
 *   broker_stub STATE SOCKET [BIND]...      starts the daemon; "ready" comes on standard output
 *
 * The same program is the launcher inside and the broker. Clients of the socket write one line and
 * read one: "make KEY", "data KEY", "end N", "usage N", "list", "quit", "nonsense", "exit", "fds",
 * "bench N" (makes and ends so many, and says how long that took).
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/log.h"
#include "launcher/protocol.h"
#include "launcher/serve.h"

#define BOXES_MAX 64
#define DATA_FD (BROKER_FOLDER_FD + 3) /* as in STATE_FOLDERS */

static struct {
    uint32_t generation;
    bool is_stopping;
    struct launcher_box boxes[BOXES_MAX];
    int channels[BOXES_MAX];
    size_t box_count;
} broker;

static void send_message(const struct launcher_message *message)
{
    struct pollfd control = {.fd = LAUNCHER_CONTROL_FD, .events = POLLOUT};

    while (launcher_send(LAUNCHER_CONTROL_FD, message, -1) == 0)
        poll(&control, 1, -1);
}

static void note_box(const struct launcher_box *box, int fd)
{
    if (broker.box_count == BOXES_MAX)
        exit(3);
    broker.boxes[broker.box_count] = *box;
    broker.channels[broker.box_count++] = fd;
}

static void forget_box(uint32_t number)
{
    for (size_t i = 0; i < broker.box_count; i++) {
        if (broker.boxes[i].number != number)
            continue;
        close(broker.channels[i]);
        broker.boxes[i] = broker.boxes[--broker.box_count];
        broker.channels[i] = broker.channels[broker.box_count];
        return;
    }
}

static void quit(void)
{
    struct launcher_message message = {.type = LAUNCHER_QUIT};

    send_message(&message);
}

/* Hears the launcher until one of the types came; what else comes is noted. */
static void hear(struct launcher_message *ret, enum launcher_type one, enum launcher_type other)
{
    struct pollfd control = {.fd = LAUNCHER_CONTROL_FD, .events = POLLIN};

    for (;;) {
        int fd = -1;
        int r = launcher_receive(LAUNCHER_CONTROL_FD, ret, &fd);

        if (r < 0)
            exit(r == -EPIPE ? 0 : 4);
        if (r == 0) {
            poll(&control, 1, -1);
            continue;
        }
        if (fd >= 0)
            note_box(&ret->box, fd);
        if (ret->type == LAUNCHER_ENDED)
            forget_box(ret->usage.number);
        if (ret->type == LAUNCHER_STOPPING) {
            broker.is_stopping = true;
            if (!getenv("STUBBORN"))
                quit();
        }
        if (ret->type == one || ret->type == other)
            return;
    }
}

static const struct launcher_make sample_make = {
    .serial = 7,
    .key = "sample",
    .memory_bytes = 128 * MIB,
    .disk_bytes = 32 * MIB,
    .pids = 32,
    .minimum = ISOLATION_STANDARD,
    .tier = TIER_NONE,
};

static void make(FILE *client, const char *key)
{
    struct launcher_message message = {.type = LAUNCHER_MAKE, .make = sample_make};

    snprintf(message.make.key, sizeof(message.make.key), "%s", key);
    message.make.tier = TIER_NONE;
    message.make.has_data = faccessat(DATA_FD, key, F_OK, 0) == 0;
    send_message(&message);
    hear(&message, LAUNCHER_MADE, LAUNCHER_REFUSED);
    if (message.type == LAUNCHER_REFUSED) {
        fprintf(client, "refused %s %s\n", message.refused.error.code, message.refused.error.text);
        return;
    }
    fprintf(client, "made %u %u layers %x missing %x memory_by %u group %u\n", message.box.serial,
            message.box.number, message.box.layers, message.box.missing, message.box.memory_by,
            message.box.group);
}

/* A file in the data folder of a key, through the descriptor that a broker has. */
static void give_data(FILE *client, const char *key)
{
    char name[256];
    int fd;

    mkdirat(DATA_FD, key, 0755);
    for (int i = 0;; i++) {
        snprintf(name, sizeof(name), "%s/%d.csv", key, i);
        fd = openat(DATA_FD, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd >= 0 || errno != EEXIST)
            break;
    }
    if (fd < 0 || write(fd, "a,b\n", 4) != 4)
        exit(6);
    close(fd);
    fprintf(client, "%s\n", name);
}

static void ask(FILE *client, enum launcher_type question, enum launcher_type answer,
                uint32_t number)
{
    struct launcher_message message = {.type = question, .number = number};

    send_message(&message);
    do
        hear(&message, answer, answer);
    while (message.usage.number != number);
    fprintf(client, "%u cpu_us %llu memory %llu oom %llu asked %d\n", message.usage.number,
            (unsigned long long)message.usage.cpu_us,
            (unsigned long long)message.usage.memory_bytes,
            (unsigned long long)message.usage.oom_kills, message.usage.was_asked);
}

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return left < right ? -1 : left > right;
}

/* Microseconds from the request to its answer, half of them and 99 of 100. */
static void bench(FILE *client, size_t count)
{
    static uint64_t made[10000], ended[10000];

    count = count == 0 || count > 10000 ? 100 : count;
    for (size_t i = 0; i < count; i++) {
        struct launcher_message message = {.type = LAUNCHER_MAKE, .make = sample_make};
        uint64_t start = clock_now_ns(), now;

        send_message(&message);
        hear(&message, LAUNCHER_MADE, LAUNCHER_REFUSED);
        now = clock_now_ns();
        if (message.type == LAUNCHER_REFUSED) {
            fprintf(client, "refused %s\n", message.refused.error.text);
            return;
        }
        made[i] = (now - start) / 1000;
        message = (struct launcher_message){.type = LAUNCHER_END, .number = message.box.number};
        send_message(&message);
        hear(&message, LAUNCHER_ENDED, LAUNCHER_ENDED);
        ended[i] = (clock_now_ns() - now) / 1000;
    }
    qsort(made, count, sizeof(made[0]), compare);
    qsort(ended, count, sizeof(ended[0]), compare);
    fprintf(client, "made p50 %llu p99 %llu ended p50 %llu p99 %llu us\n",
            (unsigned long long)made[count / 2], (unsigned long long)made[count * 99 / 100],
            (unsigned long long)ended[count / 2], (unsigned long long)ended[count * 99 / 100]);
}

static void list(FILE *client)
{
    fprintf(client, "generation %u boxes", broker.generation);
    for (size_t i = 0; i < broker.box_count; i++)
        fprintf(client, " %u:%s", broker.boxes[i].number, broker.boxes[i].key);
    fprintf(client, "\n");
}

static void show_fds(FILE *client)
{
    for (int fd = 0; fd < 1024; fd++) {
        if (fcntl(fd, F_GETFD) >= 0)
            fprintf(client, "%d ", fd);
    }
    fprintf(client, "\n");
}

static void serve_client(int fd)
{
    char line[256] = "", word[32] = "", argument[200] = "";
    FILE *client = fdopen(fd, "w");

    if (!client || read(fd, line, sizeof(line) - 1) <= 0)
        exit(5);
    sscanf(line, "%31s %199s", word, argument);
    if (strcmp(word, "make") == 0)
        make(client, argument);
    else if (strcmp(word, "data") == 0)
        give_data(client, argument);
    else if (strcmp(word, "end") == 0)
        ask(client, LAUNCHER_END, LAUNCHER_ENDED, (uint32_t)strtoul(argument, NULL, 10));
    else if (strcmp(word, "usage") == 0)
        ask(client, LAUNCHER_USAGE, LAUNCHER_USED, (uint32_t)strtoul(argument, NULL, 10));
    else if (strcmp(word, "list") == 0)
        list(client);
    else if (strcmp(word, "bench") == 0)
        bench(client, strtoul(argument, NULL, 10));
    else if (strcmp(word, "fds") == 0)
        show_fds(client);
    else if (strcmp(word, "quit") == 0)
        quit();
    else if (strcmp(word, "nonsense") == 0)
        send(LAUNCHER_CONTROL_FD, "\377nonsense", 9, 0);
    else if (strcmp(word, "exit") == 0)
        exit((int)strtol(argument, NULL, 10));
    fclose(client);
}

static int be_broker(void)
{
    struct launcher_message message = {.type = LAUNCHER_HELLO, .number = LAUNCHER_VERSION};

    if (getenv("BROKEN")) {
        log_error("this broker was told to fail");
        return 9;
    }
    send_message(&message);
    hear(&message, LAUNCHER_WELCOME, LAUNCHER_WELCOME);
    broker.generation = message.number;
    message = (struct launcher_message){.type = LAUNCHER_READY};
    send_message(&message);
    for (;;) {
        struct pollfd fds[] = {{.fd = BROKER_LISTEN_FD, .events = POLLIN},
                               {.fd = LAUNCHER_CONTROL_FD, .events = POLLIN}};
        int fd;

        poll(fds, 2, -1);
        if (fds[1].revents) {
            struct pollfd control = {.fd = LAUNCHER_CONTROL_FD, .events = POLLIN};

            while (poll(&control, 1, 0) > 0)
                hear(&message, LAUNCHER_ENDED, LAUNCHER_STOPPING);
        }
        fd = accept4(BROKER_LISTEN_FD, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            serve_client(fd);
    }
}

static int be_daemon(int argc, char **argv)
{
    struct launch_bind binds[8];
    char *env[3] = {NULL};
    size_t count = 0;
    struct serve_spec spec = {
        .state = argv[1],
        .socket = argv[2],
        .engine = "/proc/self/exe",
        .settings = "{}",
        .settings_length = 2,
        .broker_env = (const char *const *)env,
        .box = {.binds = binds, .id_base = 1000000000},
        .stop_grace_ms = 300,
        .ready_fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3),
        .stderr_fd = STDERR_FILENO,
    };
    struct error err = {0};

    for (int i = 3; i < argc && i < 11; i++)
        binds[spec.box.bind_count++] = (struct launch_bind){.host = argv[i], .box = argv[i]};
    if (getenv("BROKEN"))
        env[count++] = "BROKEN=1";
    if (getenv("STUBBORN"))
        env[count++] = "STUBBORN=1";
    close(STDOUT_FILENO);
    if (serve_run(&spec, &err) == 0)
        return 0;
    log_error("%s: %s", err.code, err.text);
    return err.code == ERROR_REFUSED ? 126 : 125;
}

int main(int argc, char **argv)
{
    launcher_remember_arguments(argc, argv, environ);
    if (argc == 2 && strcmp(argv[1], SERVE_INSIDE_WORD) == 0)
        serve_inside();
    if (argc == 2 && strcmp(argv[1], "broker") == 0)
        return be_broker();
    if (argc < 3)
        return 2;
    return be_daemon(argc, argv);
}
