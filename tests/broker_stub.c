/*
 * broker_stub.c - the daemon's processes with a broker that does what a test tells it.
 *
 *   broker_stub STATE SOCKET [BIND]...      starts the daemon; "ready" comes on standard output
 *
 * The same program is the launcher inside and the broker. Clients of the socket write one line and
 * read one: "make KEY", "data KEY" (a file for it), "session KEY" (a box that has its folders),
 * "many N" (asks for so many at once, every third of which has to fail), "vanish N" (the same, and
 * the broker is gone), "end N", "usage N", "list", "look", "kernel N", "quit", "nonsense", "exit",
 * "fds", "hostile SEED N" (messages of a broker that was taken over), "bench N PAUSE_MS" (makes and
 * ends so many, and says how long that took), "flow N WIDTH" (so many, always WIDTH of them alive
 * or on their way). "stage KEY" (an installer's box), "layer HASH" (one with that layer), "seal
 * KEY", "discard KEY". "kernel BOX ID TIER" asks for a kernel, "cell BOX ID" (and "script BOX ID",
 * "cold BOX") runs the code on the lines that follow, "ended BOX ID" waits until that kernel has
 * ended, "warm N TIER" measures. POOL in the environment is the size of the pool, ZYGOTE the Python
 * of zygotes, LAYER what they have.
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
#include "launcher/launcher.h"
#include "launcher/protocol.h"
#include "stub_box.h"
#include "supervisor/supervisor.h"
#include "wire/message.h"

#define BOXES_MAX 256
#define ENDED_MAX 1024
#define DATA_FD (BROKER_FOLDER_FD + 3) /* as in STATE_FOLDERS */
#define PACKAGES_FD (BROKER_FOLDER_FD + 7)

static struct {
    uint32_t generation;
    bool is_stopping;
    struct launcher_box boxes[BOXES_MAX];
    int channels[BOXES_MAX];
    size_t box_count;
    struct launcher_kernel_ended ended[ENDED_MAX]; /* the last ones */
    size_t ended_count;
    uint32_t last_id; /* of a cell; kernels have small numbers */
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

/* Hears the launcher until one of the types came (0: any); what else comes is noted. */
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
        if (ret->type == LAUNCHER_KERNEL_ENDED)
            broker.ended[broker.ended_count++ % ENDED_MAX] = ret->kernel_ended;
        if (ret->type == LAUNCHER_STOPPING) {
            broker.is_stopping = true;
            if (!getenv("STUBBORN"))
                quit();
        }
        if (!one || ret->type == one || ret->type == other)
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

static void choose_layer(struct launcher_make *make)
{
    if (getenv("LAYER"))
        snprintf(make->layer, sizeof(make->layer), "%s", getenv("LAYER"));
}

static void ask_for(const char *key, uint32_t serial, bool has_data, bool has_packages)
{
    struct launcher_message message = {.type = LAUNCHER_MAKE, .make = sample_make};

    snprintf(message.make.key, sizeof(message.make.key), "%s", key);
    message.make.serial = serial;
    message.make.has_data = has_data;
    message.make.has_packages = has_packages;
    choose_layer(&message.make);
    send_message(&message);
}

static void tell_box(FILE *client, const struct launcher_message *message)
{
    if (message->type == LAUNCHER_REFUSED)
        fprintf(client, "refused %s %s\n", message->refused.error.code,
                message->refused.error.text);
    else
        fprintf(client, "made %u %u layers %x missing %x memory_by %u group %u pooled %d\n",
                message->box.serial, message->box.number, message->box.layers, message->box.missing,
                message->box.memory_by, message->box.group, message->box.is_pooled);
}

static void make(FILE *client, const char *key)
{
    struct launcher_message message;

    ask_for(key, sample_make.serial, faccessat(DATA_FD, key, F_OK, 0) == 0, false);
    hear(&message, LAUNCHER_MADE, LAUNCHER_REFUSED);
    tell_box(client, &message);
}

static void make_with_template(FILE *client, const char *key, const char *layer, uint8_t staging)
{
    struct launcher_message message = {.type = LAUNCHER_MAKE, .make = sample_make};

    snprintf(message.make.key, sizeof(message.make.key), "%s", key);
    snprintf(message.make.layer, sizeof(message.make.layer), "%s", layer);
    message.make.staging = staging;
    send_message(&message);
    hear(&message, LAUNCHER_MADE, LAUNCHER_REFUSED);
    tell_box(client, &message);
}

/* As a session has it: folders of its own, made before. */
static void make_session(FILE *client, const char *key)
{
    struct launcher_message message;

    mkdirat(DATA_FD, key, 0755);
    mkdirat(PACKAGES_FD, key, 0755);
    ask_for(key, sample_make.serial, true, true);
    hear(&message, LAUNCHER_MADE, LAUNCHER_REFUSED);
    tell_box(client, &message);
}

/* Every third has no data folder, and is refused while others are on their way. */
static void ask_for_many(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        char key[ID_MAX];

        snprintf(key, sizeof(key), "many_%u", (unsigned)i);
        ask_for(key, 100 + i, i % 3 == 2, false);
    }
}

static void make_many(FILE *client, uint32_t count)
{
    ask_for_many(count);
    for (uint32_t i = 0; i < count; i++) {
        struct launcher_message message;

        hear(&message, LAUNCHER_MADE, LAUNCHER_REFUSED);
        if (message.type == LAUNCHER_MADE)
            fprintf(client, "made:%u:%u ", message.box.serial, message.box.number);
        else
            fprintf(client, "refused:%u:%s ", message.refused.serial, message.refused.error.code);
    }
    fprintf(client, "\n");
}

static void look(FILE *client)
{
    struct launcher_message message = {.type = LAUNCHER_LOOK};

    send_message(&message);
    do
        hear(&message, LAUNCHER_STATE, LAUNCHER_STATE);
    while (message.state.tier != STATE_END && tell_zygote(client, &message.state));
    fprintf(client, "pooled %u of %u memory %llu\n", message.state.pooled, message.state.pool_size,
            (unsigned long long)message.state.memory_bytes);
}

static void ask_kernel(FILE *client, uint32_t number, const char *id, const char *tier)
{
    struct launcher_message message = {
        .type = LAUNCHER_KERNEL,
        .kernel = {.number = number, .kernel = id[0] ? (uint32_t)strtoul(id, NULL, 10) : 5}};

    message.kernel.tier = (uint8_t)strtoul(tier, NULL, 10);
    send_message(&message);
    hear(&message, LAUNCHER_KERNEL_MADE, LAUNCHER_KERNEL_MADE);
    fprintf(client, "kernel %u %u %d\n", message.kernel_made.number, message.kernel_made.kernel,
            message.kernel_made.num);
}

static void commit_layer(FILE *client, enum launcher_type type, const char *key)
{
    struct launcher_message message = {.type = type, .commit_layer = {.serial = 9}};
    const struct launcher_layer_committed *layer_committed = &message.layer_committed;

    snprintf(message.commit_layer.key, sizeof(message.commit_layer.key), "%s", key);
    send_message(&message);
    if (type == LAUNCHER_DISCARD) {
        fprintf(client, "asked\n");
        return;
    }
    hear(&message, LAUNCHER_LAYER_COMMITTED, LAUNCHER_LAYER_COMMITTED);
    if (layer_committed->error.num)
        fprintf(client, "failed %s %s\n", layer_committed->error.code, layer_committed->error.text);
    else
        fprintf(client, "sealed %u %s %llu %llu %d\n", layer_committed->serial,
                layer_committed->layer, (unsigned long long)layer_committed->files,
                (unsigned long long)layer_committed->bytes, layer_committed->was_there);
}

/* How a kernel ended, once the launcher has said so. */
static void tell_ended(FILE *client, uint32_t number, uint32_t kernel)
{
    struct launcher_message message;

    for (;;) {
        for (size_t i = 0; i < broker.ended_count; i++) {
            const struct launcher_kernel_ended *ended = &broker.ended[i];

            if (ended->number != number || ended->kernel != kernel)
                continue;
            fprintf(client, "ended status %d\n", ended->status);
            return;
        }
        hear(&message, LAUNCHER_KERNEL_ENDED, LAUNCHER_KERNEL_ENDED);
    }
}

static int channel_of(uint32_t number)
{
    for (size_t i = 0; i < broker.box_count; i++) {
        if (broker.boxes[i].number == number)
            return broker.channels[i];
    }
    exit(7);
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
static void bench(FILE *client, size_t count, int pause_ms)
{
    static uint64_t made[10000], ended[10000];
    uint64_t begin = clock_now_ns();
    size_t pooled = 0;

    count = count == 0 || count > 10000 ? 100 : count;
    for (size_t i = 0; i < count; i++) {
        struct launcher_message message = {.type = LAUNCHER_MAKE, .make = sample_make};
        uint64_t start, now;

        if (pause_ms)
            poll(NULL, 0, pause_ms);
        start = clock_now_ns();
        send_message(&message);
        hear(&message, LAUNCHER_MADE, LAUNCHER_REFUSED);
        now = clock_now_ns();
        if (message.type == LAUNCHER_REFUSED) {
            fprintf(client, "refused %s\n", message.refused.error.text);
            return;
        }
        pooled += message.box.is_pooled;
        made[i] = (now - start) / 1000;
        message = (struct launcher_message){.type = LAUNCHER_END, .number = message.box.number};
        send_message(&message);
        hear(&message, LAUNCHER_ENDED, LAUNCHER_ENDED);
        ended[i] = (clock_now_ns() - now) / 1000;
    }
    begin = clock_now_ns() - begin;
    qsort(made, count, sizeof(made[0]), compare);
    qsort(ended, count, sizeof(ended[0]), compare);
    fprintf(client,
            "made p50 %llu p99 %llu ended p50 %llu p99 %llu us, pooled %zu, %llu a second\n",
            (unsigned long long)made[count / 2], (unsigned long long)made[count * 99 / 100],
            (unsigned long long)ended[count / 2], (unsigned long long)ended[count * 99 / 100],
            pooled, (unsigned long long)(count * 1000000000 / begin));
}

/* Boxes with a kernel, each for one program, from the request to the box's end. */
static void bench_warm(FILE *client, size_t count, uint8_t tier)
{
    static uint64_t took[10000];
    FILE *nowhere = fopen("/dev/null", "w");
    size_t warm = 0;

    count = count == 0 || count > 10000 ? 100 : count;
    for (size_t i = 0; i < count && nowhere; i++) {
        struct launcher_message message = {.type = LAUNCHER_MAKE, .make = sample_make};
        uint64_t start = clock_now_ns();

        message.make.tier = tier;
        message.make.kernel = 1;
        choose_layer(&message.make);
        send_message(&message);
        hear(&message, LAUNCHER_MADE, LAUNCHER_REFUSED);
        if (message.type == LAUNCHER_MADE && message.box.kernel) {
            warm++;
            run_code(nowhere, -1, channel_of(message.box.number), ++broker.last_id, "script", 1,
                     "print('Hello')");
        }
        message = (struct launcher_message){.type = LAUNCHER_END, .number = message.box.number};
        send_message(&message);
        hear(&message, LAUNCHER_ENDED, LAUNCHER_ENDED);
        took[i] = (clock_now_ns() - start) / 1000;
    }
    qsort(took, count, sizeof(took[0]), compare);
    fprintf(client, "warm %zu p10 %llu p50 %llu p99 %llu us\n", warm,
            (unsigned long long)took[count / 10], (unsigned long long)took[count / 2],
            (unsigned long long)took[count * 99 / 100]);
    if (nowhere)
        fclose(nowhere);
}

/* A steady stream: each that stands is ended at once and another is asked for. */
static void flow(FILE *client, size_t count, size_t width)
{
    size_t asked = 0, over = 0, pooled = 0;
    uint64_t begin = clock_now_ns();

    for (width = width ? width : 1; asked < count && asked < width; asked++)
        ask_for("flow", (uint32_t)asked + 1, false, false);
    while (over < count) {
        struct launcher_message message;

        hear(&message, LAUNCHER_MADE, LAUNCHER_ENDED);
        if (message.type == LAUNCHER_MADE) {
            pooled += message.box.is_pooled;
            message = (struct launcher_message){.type = LAUNCHER_END, .number = message.box.number};
            send_message(&message);
            continue;
        }
        over++;
        if (asked < count)
            ask_for("flow", (uint32_t)++asked, false, false);
    }
    begin = clock_now_ns() - begin;
    fprintf(client, "%llu a second, pooled %zu\n", (unsigned long long)(count * 1000000000 / begin),
            pooled);
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

/* ---- taken over ---- */

static uint32_t chance(uint64_t *state, uint32_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33) % below;
}

static uint64_t some_number(uint64_t *state)
{
    static const uint64_t edges[] = {0, 1, 2, 254, 255, 65535, UINT32_MAX, INT64_MAX, UINT64_MAX};

    return chance(state, 2) ? edges[chance(state, 9)] : chance(state, UINT32_MAX);
}

static void some_text(uint64_t *state, char *text, size_t size)
{
    static const char *const words[] = {"",     "..",  "../data",  "one", "planted", "/etc", "a b",
                                        "%s%n", "p_1", ".build-x", "ONE", "local",   "-"};

    snprintf(text, size, "%s", words[chance(state, 13)]);
    if (chance(state, 6) == 0)
        memset(text, "az0_/."[chance(state, 6)], size - 1), text[size - 1] = '\0';
}

static void some_make(uint64_t *state, struct launcher_make *make)
{
    *make = sample_make;
    some_text(state, make->key, sizeof(make->key));
    if (chance(state, 2))
        make->memory_bytes = some_number(state);
    if (chance(state, 2))
        make->disk_bytes = some_number(state);
    if (chance(state, 3) == 0)
        make->pids = (uint32_t)some_number(state);
    make->minimum = (uint8_t)chance(state, 5);
    make->has_data = chance(state, 2);
    make->has_packages = chance(state, 2);
    if (chance(state, 3) == 0)
        some_text(state, make->layer, sizeof(make->layer));
    if (chance(state, 3) == 0)
        make->tier = (uint8_t)some_number(state);
    make->kernel = chance(state, 3) ? 0 : (uint32_t)some_number(state);
    make->staging = (uint8_t)chance(state, 8);
    if (chance(state, 3) == 0)
        some_text(state, make->tenant, sizeof(make->tenant));
    if (chance(state, 3) == 0)
        some_text(state, make->python, sizeof(make->python));
    if (chance(state, 3) == 0)
        some_text(state, make->node, sizeof(make->node));
}

/*
 * Messages that have the right form and mean harm, with descriptors that the broker has: the
 * launcher refuses them, or ends this broker. All but QUIT, which every broker may send.
 */
static void be_hostile(FILE *client, uint64_t seed, uint32_t count)
{
    static const int own[] = {-1, -1, DATA_FD, BROKER_LISTEN_FD, LAUNCHER_CONTROL_FD};
    uint64_t state = seed * 977 + 1;

    for (uint32_t i = 0; i < count; i++) {
        struct pollfd control = {.fd = LAUNCHER_CONTROL_FD, .events = POLLIN};
        struct launcher_message message = {.type = 1 + chance(&state, LAUNCHER_FORGET)};

        if (message.type == LAUNCHER_QUIT)
            message.type = LAUNCHER_MAKE;
        if (chance(&state, 50) == 0)
            message.type = LAUNCHER_SETTINGS;
        if (message.type == LAUNCHER_MAKE)
            some_make(&state, &message.make);
        else if (message.type == LAUNCHER_COMMIT_LAYER || message.type == LAUNCHER_DISCARD)
            some_text(&state, message.commit_layer.key, sizeof(message.commit_layer.key));
        else if (message.type == LAUNCHER_DEFAULT || message.type == LAUNCHER_FORGET)
            some_text(&state, message.layer, sizeof(message.layer));
        else
            message.kernel = (struct launcher_kernel){(uint32_t)some_number(&state),
                                                      (uint32_t)some_number(&state), (uint8_t)i};
        launcher_send(LAUNCHER_CONTROL_FD, &message, own[chance(&state, 5)]);
        while (poll(&control, 1, 0) > 0)
            hear(&message, 0, 0);
    }
    fprintf(client, "sent %u\n", count);
}

static void make_something(FILE *client, const char *word, const char *argument, const char *second,
                           const char *third)
{
    uint32_t number = (uint32_t)strtoul(argument, NULL, 10);

    if (strcmp(word, "make") == 0)
        make(client, argument);
    else if (strcmp(word, "session") == 0)
        make_session(client, argument);
    else if (strcmp(word, "many") == 0)
        make_many(client, number);
    else if (strcmp(word, "kernel") == 0)
        ask_kernel(client, number, second, third);
    else if (strcmp(word, "ended") == 0)
        tell_ended(client, number, (uint32_t)strtoul(second, NULL, 10));
    else if (strcmp(word, "look") == 0)
        look(client);
    else if (strcmp(word, "hostile") == 0)
        be_hostile(client, number, (uint32_t)strtoul(second, NULL, 10));
    else if (strcmp(word, "stage") == 0)
        make_with_template(client, argument, "", STAGING_TEMPLATE);
    else if (strcmp(word, "layer") == 0)
        make_with_template(client, "furnished", argument, STAGING_NONE);
    else if (strcmp(word, "seal") == 0)
        commit_layer(client, LAUNCHER_COMMIT_LAYER, argument);
    else if (strcmp(word, "discard") == 0)
        commit_layer(client, LAUNCHER_DISCARD, argument);
    if (strcmp(word, "vanish") == 0) {
        ask_for_many(number);
        exit(0);
    }
}

static void serve_client(int fd)
{
    char line[256] = "", word[32] = "", argument[200] = "", second[16] = "", third[8] = "";
    FILE *client = fdopen(fd, "w");
    const char *rest;

    if (!client || read(fd, line, sizeof(line) - 1) <= 0)
        exit(5);
    sscanf(line, "%31s %199s %15s %7s", word, argument, second, third);
    rest = strchr(line, '\n');
    if (strcmp(word, "cell") == 0 || strcmp(word, "script") == 0 || strcmp(word, "cold") == 0)
        run_code(client, fd, channel_of((uint32_t)strtoul(argument, NULL, 10)), ++broker.last_id,
                 word, (uint32_t)strtoul(second, NULL, 10), rest ? rest + 1 : "");
    else if (strcmp(word, "data") == 0)
        give_data(client, argument);
    else if (strcmp(word, "end") == 0)
        ask(client, LAUNCHER_END, LAUNCHER_ENDED, (uint32_t)strtoul(argument, NULL, 10));
    else if (strcmp(word, "usage") == 0)
        ask(client, LAUNCHER_USAGE, LAUNCHER_USED, (uint32_t)strtoul(argument, NULL, 10));
    else if (strcmp(word, "list") == 0)
        list(client);
    else if (strcmp(word, "bench") == 0)
        bench(client, strtoul(argument, NULL, 10), (int)strtol(second, NULL, 10));
    else if (strcmp(word, "warm") == 0)
        bench_warm(client, strtoul(argument, NULL, 10), (uint8_t)strtoul(second, NULL, 10));
    else if (strcmp(word, "flow") == 0)
        flow(client, strtoul(argument, NULL, 10), strtoul(second, NULL, 10));
    else if (strcmp(word, "fds") == 0)
        show_fds(client);
    else if (strcmp(word, "quit") == 0)
        quit();
    else if (strcmp(word, "nonsense") == 0)
        send(LAUNCHER_CONTROL_FD, "\377nonsense", 9, 0);
    else if (strcmp(word, "exit") == 0)
        exit((int)strtol(argument, NULL, 10));
    else
        make_something(client, word, argument, second, third);
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
    broker.last_id = 1000;
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
                hear(&message, 0, 0);
        }
        fd = accept4(BROKER_LISTEN_FD, NULL, NULL, SOCK_CLOEXEC);
        if (fd >= 0)
            serve_client(fd);
    }
}

static int be_daemon(int argc, char **argv)
{
    struct launch_bind binds[8];
    char *env[4] = {NULL}, layer[128];
    size_t count = 0;
    struct supervisor_spec spec = {
        .log_level = LOG_WARNING,
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
    if (getenv("POOL")) {
        spec.pool_size = (unsigned)strtoul(getenv("POOL"), NULL, 10);
        spec.pool_memory_bytes = 256 * MIB;
    }
    spec.has_zygotes = (spec.python = getenv("ZYGOTE")) != NULL;
    spec.layer = getenv("LAYER");
    if (spec.layer && snprintf(layer, sizeof(layer), "LAYER=%s", spec.layer) > 0)
        env[count++] = layer;
    if (getenv("BROKEN"))
        env[count++] = "BROKEN=1";
    if (getenv("STUBBORN"))
        env[count++] = "STUBBORN=1";
    close(STDOUT_FILENO);
    if (supervisor_run(&spec, &err) == 0)
        return 0;
    log_error("%s: %s", err.code, err.text);
    return err.code == ERROR_REFUSED ? 126 : 125;
}

int main(int argc, char **argv)
{
    launch_remember_arguments(argc, argv, environ);
    if (argc == 2 && strcmp(argv[1], LAUNCHER_INSIDE_WORD) == 0)
        launcher_inside();
    if (argc == 2 && strcmp(argv[1], "broker") == 0)
        return be_broker();
    if (argc < 3)
        return 2;
    return be_daemon(argc, argv);
}
