/*
 * takeover.c - other settings, listeners and log for the broker; see takeover.h.
 *
 * Both sides are the same version of this program, started by the same user: what arrives is
 * checked for what it is, not for what it means. What the launcher was made with cannot change (the
 * root of boxes, interpreters, folders, provider hosts); a difference there is refused with its
 * name.
 */
#include "launcher/takeover.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "launcher/launcher_private.h"

#define ENV_MAX_BYTES (256 * KIB)
#define WHY_MAX 512

void takeover_init(struct launcher *launcher)
{
    CLEANUP(fd_closep) int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    launcher->takeover = (struct takeover){
        .plan_fd = -1, .settings_fd = -1, .stderr_fd = -1, .is_possible = null_fd >= 0};
    if (launcher->plan->tcp_count > 0)
        launcher->takeover.is_possible = false; /* it is a server already */
    for (int i = 0; i < BROKER_TCP_MAX && launcher->takeover.is_possible; i++) {
        bool is_taken = fcntl(BROKER_TCP_FD + i, F_GETFD) >= 0; /* by an older program's box */

        launcher->takeover.is_possible =
            !is_taken && dup3(null_fd, BROKER_TCP_FD + i, O_CLOEXEC) >= 0;
    }
}

/* ---- what is asked ---- */

static bool is_sealed(int fd, off_t least, off_t most)
{
    static const int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    struct stat status;
    int has = fcntl(fd, F_GET_SEALS);

    return has >= 0 && (has & seals) == seals && fstat(fd, &status) == 0 &&
           status.st_size >= least && status.st_size <= most;
}

/* "K=V" one after the other, each with its NUL, as a vector; both are freed with the process. */
static char **read_env(int fd)
{
    struct stat status;
    size_t count = 0, at = 0;
    char **vector, *text;

    if (fstat(fd, &status) < 0)
        return NULL;
    text = calloc(1, (size_t)status.st_size + 1);
    if (!text || pread(fd, text, (size_t)status.st_size, 0) != status.st_size) {
        free(text);
        return NULL;
    }
    for (off_t i = 0; i < status.st_size; i++)
        count += text[i] == '\0';
    vector = calloc(count + 2, sizeof(*vector));
    for (size_t i = 0; vector && i < count && at < (size_t)status.st_size; i++) {
        vector[i] = text + at;
        at += strlen(text + at) + 1;
    }
    if (!vector)
        free(text);
    return vector;
}

static const char *value_in(char *const *env, const char *name)
{
    size_t length = strlen(name);

    for (; *env; env++) {
        if (strncmp(*env, name, length) == 0 && (*env)[length] == '=')
            return *env + length + 1;
    }
    return "";
}

/* What was decided when the launcher was started, and is outside of the broker. */
static const char *const fixed[] = {
    "SANDBOX_TYPE",
    "SANDBOX_ROOT",
    "SANDBOX_DATASET_FOLDERS",
    "SANDBOX_INDEX_HOSTS",
    "SANDBOX_WARM",
    "SANDBOX_ID_BASE",
    "BAILEY_UPSTREAM_URL",
    "BAILEY_UPSTREAM_TIMEOUT",
    "BAILEY_UPSTREAM_KEY_FILE",
};

static bool is_other(char *const *env, const char *name, char why[WHY_MAX])
{
    const char *ours = value_in(environ, name), *theirs = value_in(env, name);

    if (str_equal(ours, theirs))
        return false;
    str_format(why, WHY_MAX, "it was started with %s=%.100s, not %.100s", name, ours, theirs);
    return true;
}

/* A provider host keeps what it was started with. */
static bool has_other_host(struct launcher *launcher, char *const *env, char why[WHY_MAX])
{
    char *const *lists[] = {env, environ};

    for (size_t i = 0; i < ARRAY_SIZE(lists) && launcher->plan->host_count > 0; i++) {
        for (char *const *at = lists[i]; *at; at++) {
            char name[64];

            if (str_starts(*at, "DOCKER_") &&
                str_format(name, sizeof(name), "%.*s", (int)strcspn(*at, "="), *at) == 0 &&
                is_other(env, name, why))
                return true;
        }
    }
    return false;
}

static bool has_interpreter(const struct launcher_plan *plan,
                            const struct launcher_interpreter *asked)
{
    for (uint32_t i = 0; i < plan->interpreter_count; i++)
        if (str_equal(plan->interpreters[i].program, asked->program))
            return true;
    return false;
}

/* Of a root start, which could open them only at its own start; or too many together. */
static bool lacks_interpreter(const struct launcher_plan *plan, const struct launcher_plan *asked,
                              char why[WHY_MAX])
{
    uint32_t count = plan->interpreter_count;

    for (uint32_t i = 0; i < asked->interpreter_count; i++) {
        if (has_interpreter(plan, &asked->interpreters[i]))
            continue;
        if (plan->broker_id != 0 || ++count > LAUNCHER_INTERPRETERS_MAX) {
            str_format(why, WHY_MAX,
                       "it was started without SANDBOX_INTERPRETERS=%.200s, whose folders it can "
                       "open only when it starts",
                       asked->interpreters[i].program);
            return true;
        }
    }
    return false;
}

static bool differs(struct launcher *launcher, const struct launcher_plan *asked, char *const *env,
                    char why[WHY_MAX])
{
    const struct launcher_plan *plan = launcher->plan;
    bool has_binds = plan->bind_count == asked->bind_count;

    for (size_t i = 0; i < ARRAY_SIZE(fixed); i++) {
        if (is_other(env, fixed[i], why))
            return true;
    }
    if (has_other_host(launcher, env, why) || lacks_interpreter(plan, asked, why))
        return true;
    for (uint32_t i = 0; has_binds && i < plan->bind_count; i++)
        has_binds = str_equal(plan->binds[i].box, asked->binds[i].box);
    if (has_binds && str_equal(plan->python, asked->python) &&
        plan->has_zygotes == asked->has_zygotes && plan->host_count == asked->host_count)
        return false;
    str_format(why, WHY_MAX, "it was started with other interpreters (Python: %.200s, not %.200s)",
               plan->python, asked->python);
    return true;
}

static bool is_refused(struct launcher *launcher, const struct launcher_plan *asked,
                       char *const *env, char why[WHY_MAX])
{
    const char *version = env ? value_in(env, TAKEOVER_VERSION) : "";

    if (!env)
        str_copy(why, WHY_MAX, "out of memory");
    else if (!str_equal(version, BAILEY_VERSION))
        str_format(why, WHY_MAX,
                   "it is version " BAILEY_VERSION ", not %.40s: run 'bailey upgrade' "
                   "first",
                   version);
    else if (!launcher->takeover.is_possible || launcher->plan->tcp_count > 0)
        str_copy(why, WHY_MAX, "it is a server already, or has taken over from an older program");
    else if (launcher->takeover.state != TAKEOVER_NONE || launcher->upgrade.state != UPGRADE_NONE ||
             launcher->is_stopping || launcher->is_over || !launcher->was_ready)
        str_copy(why, WHY_MAX, "it is starting, stopping or being changed");
    else
        return differs(launcher, asked, env, why);
    return true;
}

/* ---- there and back ---- */

static int keep(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, BROKER_TCP_FD + BROKER_TCP_MAX);
}

static void forget_former(struct takeover *takeover)
{
    fd_closep(&takeover->plan_fd);
    fd_closep(&takeover->settings_fd);
    fd_closep(&takeover->stderr_fd);
    takeover->plan_fd = takeover->settings_fd = takeover->stderr_fd = -1;
    takeover->state = TAKEOVER_NONE;
}

static void set_log(const struct launcher_plan *plan)
{
    log_set_level((enum log_level)plan->log_level);
    log_set_json(plan->log_is_json);
}

/* The rest of the plan stays; what boxes get comes with each request of the broker. */
static struct launcher_plan *changed(const struct launcher_plan *plan,
                                     const struct launcher_plan *asked, size_t tcp_count)
{
    struct launcher_plan *taken = malloc(sizeof(*taken));

    if (!taken)
        return NULL;
    *taken = *plan;
    taken->tcp_count = (uint32_t)tcp_count;
    taken->pool_size = asked->pool_size;
    taken->pool_memory_mib = asked->pool_memory_mib;
    taken->log_level = asked->log_level;
    taken->log_is_json = asked->log_is_json;
    taken->stop_grace_ms = asked->stop_grace_ms;
    taken->memory_bytes = asked->memory_bytes;
    taken->disk_bytes = asked->disk_bytes;
    taken->pids = asked->pids;
    taken->cpu_millis = asked->cpu_millis;
    taken->minimum = asked->minimum;
    taken->has_no_ceiling = asked->has_no_ceiling;
    taken->takes_listed_only = asked->takes_listed_only;
    for (uint32_t i = 0; i < asked->interpreter_count; i++)
        if (!has_interpreter(plan, &asked->interpreters[i]))
            taken->interpreters[taken->interpreter_count++] = asked->interpreters[i];
    return taken;
}

static int apply(struct launcher *launcher, const struct launcher_plan *asked, char **env,
                 const int *fds, size_t count)
{
    struct takeover *takeover = &launcher->takeover;
    size_t tcp_count = count - _TAKEOVER_FIXED;
    CLEANUP(fd_closep) int plan_fd = -1;
    int r;

    takeover->plan = launcher->plan;
    takeover->env = environ;
    takeover->plan_fd = keep(LAUNCHER_PLAN_FD);
    takeover->settings_fd = keep(LAUNCHER_SETTINGS_FD);
    takeover->stderr_fd = keep(STDERR_FILENO);
    if (takeover->plan_fd < 0 || takeover->settings_fd < 0 || takeover->stderr_fd < 0)
        return -errno;
    takeover->taken = changed(launcher->plan, asked, tcp_count);
    if (!takeover->taken)
        return -ENOMEM;
    launcher->plan = takeover->taken;
    environ = env;
    r = hand_bytes("plan", launcher->plan, sizeof(*launcher->plan), &plan_fd, NULL);
    if (r == 0 && (dup3(plan_fd, LAUNCHER_PLAN_FD, O_CLOEXEC) < 0 ||
                   dup3(fds[TAKEOVER_SETTINGS], LAUNCHER_SETTINGS_FD, O_CLOEXEC) < 0 ||
                   dup2(fds[TAKEOVER_STDERR], STDERR_FILENO) < 0))
        r = -errno;
    for (size_t i = 0; i < tcp_count && r == 0; i++) {
        if (dup3(fds[_TAKEOVER_FIXED + i], BROKER_TCP_FD + (int)i, O_CLOEXEC) < 0)
            r = -errno;
    }
    set_log(launcher->plan);
    return r;
}

static void go_back(struct launcher *launcher)
{
    CLEANUP(fd_closep) int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    struct takeover *takeover = &launcher->takeover;

    if (takeover->plan_fd >= 0)
        dup3(takeover->plan_fd, LAUNCHER_PLAN_FD, O_CLOEXEC);
    if (takeover->settings_fd >= 0)
        dup3(takeover->settings_fd, LAUNCHER_SETTINGS_FD, O_CLOEXEC);
    if (takeover->stderr_fd >= 0)
        dup2(takeover->stderr_fd, STDERR_FILENO);
    for (int i = 0; i < BROKER_TCP_MAX && null_fd >= 0; i++)
        dup3(null_fd, BROKER_TCP_FD + i, O_CLOEXEC);
    launcher->plan = takeover->plan;
    environ = takeover->env;
    freep(&takeover->taken);
    takeover->taken = NULL;
    set_log(launcher->plan);
    forget_former(takeover);
}

void takeover_asked(struct launcher *launcher, const int *fds, size_t count)
{
    CLEANUP(freep) struct launcher_plan *asked = malloc(sizeof(*asked));
    char why[WHY_MAX] = "what was received is no request";
    char **env = NULL;
    int r = -EBADMSG;

    if (count >= _TAKEOVER_FIXED && count - _TAKEOVER_FIXED <= BROKER_TCP_MAX && asked &&
        is_sealed(fds[TAKEOVER_PLAN], sizeof(*asked), sizeof(*asked)) &&
        is_sealed(fds[TAKEOVER_ENV], 1, ENV_MAX_BYTES) &&
        is_sealed(fds[TAKEOVER_SETTINGS], 1, SETTINGS_BYTES_MAX) &&
        pread(fds[TAKEOVER_PLAN], asked, sizeof(*asked), 0) == sizeof(*asked)) {
        env = read_env(fds[TAKEOVER_ENV]);
        r = is_refused(launcher, asked, env, why) ? -EPERM : 0;
    }
    if (r == 0) {
        r = apply(launcher, asked, env, fds, count);
        if (r < 0) {
            str_format(why, sizeof(why), "taking the descriptors: %s", strerror(-r));
            go_back(launcher);
        }
    }
    for (size_t i = 0; i < count; i++)
        close(fds[i]);
    if (r < 0) {
        launcher_say(launcher, LAUNCHER_SAYS_KEPT, why);
        return;
    }
    log_info("'bailey serve' takes over: the broker is started again with its settings");
    launcher->takeover.reason[0] = '\0';
    launcher->takeover.state = TAKEOVER_ENDING;
    launcher->pause_ms = 0;
    if (launcher->broker_pid > 0)
        broker_renew(launcher);
    else
        launcher->takeover.state = TAKEOVER_STARTING;
}

void takeover_reason(struct launcher *launcher, const char *text)
{
    str_copy(launcher->takeover.reason, sizeof(launcher->takeover.reason), text);
}

bool takeover_broker_ended(struct launcher *launcher, const char *how)
{
    struct takeover *takeover = &launcher->takeover;

    if (takeover->state == TAKEOVER_ENDING) {
        takeover->state = TAKEOVER_STARTING;
        return true;
    }
    if (takeover->state != TAKEOVER_STARTING)
        return false;
    go_back(launcher);
    launcher->pause_ms = 0;
    launcher_say(launcher, LAUNCHER_SAYS_KEPT, takeover->reason[0] ? takeover->reason : how);
    return false;
}

void takeover_served(struct launcher *launcher)
{
    if (launcher->takeover.state != TAKEOVER_STARTING)
        return;
    forget_former(&launcher->takeover);
    launcher->takeover.is_possible = false; /* it is a server now */
    pool_wake(launcher);                    /* its size may be another one */
    launcher_say(launcher, LAUNCHER_SAYS_TAKEN, BAILEY_VERSION);
}
