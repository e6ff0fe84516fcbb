/*
 * proc_tree.c - all processes of the box except the warden: counted, stopped and killed.
 *
 * With a pid namespace the kernel knows which processes are in the box. Without one the warden is
 * the subreaper of all its descendants, and has to find them: orphans become our children, so
 * killing our children again and again until there are none kills all of them.
 *
 * The tree of a command is found by its session, its process group and parent relations. A parent
 * that dies before its child was seen hides it, so the tree is stopped before it is killed: a
 * stopped process does not fork. Groups are signalled as a whole, because that is atomic in the
 * kernel: no child that is being made escapes. A process that left session and group and lost its
 * parent before we looked is not found; it ends with the box.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "sys/calls.h"
#include "warden/warden_private.h"

#define PROC_TREE_MAX 8192
#define STOP_TRIES 40 /* half a millisecond each: a process may be deep in the kernel */
#define KILL_TRIES 200
#define SESSIONS_MAX 64
#define SCAN_PIDS 131072 /* without a /proc, numbers are tried: a session that had more is rare */

struct member {
    pid_t pid, parent, group, session;
    bool is_dead, is_stopped, is_of_tree;
    bool is_in_kernel; /* uninterruptible, as the parent of a vfork(2) whose child is stopped */
    int threads;
    uint64_t own_pages, shared_pages;
};

struct proc_tree {
    struct member members[PROC_TREE_MAX];
    size_t count;
};

/*
 * /proc/PID/stat, after the name: state, parent, group, session, and fourteen fields later threads
 */
#define STAT_FORMAT ") %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %d"

static bool read_stat(int proc_fd, const char *name, struct member *ret)
{
    char path[64], text[1024];
    const char *tail;
    char state;

    if (str_format(path, sizeof(path), "%s/stat", name) < 0 ||
        fd_read_text_at(proc_fd, path, text, sizeof(text)) < 0)
        return false;
    tail = strrchr(text, ')'); /* the name before it may hold anything */
    if (!tail || sscanf(tail, STAT_FORMAT, &state, &ret->parent, &ret->group, &ret->session,
                        &ret->threads) != 5)
        return false;
    ret->is_in_kernel = state == 'D';
    ret->pid = (pid_t)strtol(name, NULL, 10);
    /* A first thread that has ended is a zombie too, while the others go on. */
    ret->is_dead = (state == 'Z' && ret->threads <= 1) || state == 'X';
    ret->is_stopped = state == 'T' || state == 't';
    ret->is_of_tree = false;
    return true;
}

bool proc_tree_is_quiet(const struct sandbox *sandbox)
{
    int fd = sandbox->proc_fd < 0
                 ? -1
                 : openat(sandbox->proc_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;
    int threads = 0;

    if (!folder)
        fd_closep(&fd);
    while (folder && threads <= 1 && (entry = readdir(folder))) {
        struct member member;

        if (isdigit((unsigned char)entry->d_name[0]) &&
            read_stat(sandbox->proc_fd, entry->d_name, &member) && member.pid != getpid() &&
            !member.is_dead)
            threads += member.threads;
    }
    if (folder)
        closedir(folder);
    return threads <= 1;
}

static bool read_member(int proc_fd, const char *name, struct member *ret)
{
    char path[64], text[1024];
    unsigned long long size, resident, shared;

    if (!read_stat(proc_fd, name, ret) || str_format(path, sizeof(path), "%s/statm", name) < 0 ||
        fd_read_text_at(proc_fd, path, text, sizeof(text)) < 0 ||
        sscanf(text, "%llu %llu %llu", &size, &resident, &shared) != 3)
        return false;
    ret->own_pages = resident > shared ? resident - shared : 0;
    ret->shared_pages = shared;
    return true;
}

static void add_member(struct proc_tree *proc_tree, int proc_fd, const char *name)
{
    struct member *member = &proc_tree->members[proc_tree->count];

    if (proc_tree->count < PROC_TREE_MAX && isdigit((unsigned char)name[0]) &&
        read_member(proc_fd, name, member) && member->pid != getpid())
        proc_tree->count++;
}

/* The children of one thread, which the kernel lists by the thread that forked them. */
static void add_children(struct proc_tree *proc_tree, int proc_fd, pid_t pid, const char *thread)
{
    static char text[PROC_TREE_MAX * 8]; /* one thread; as many children as there are members */
    char path[96], *rest = text, *name;

    if (str_format(path, sizeof(path), "%d/task/%s/children", (int)pid, thread) < 0 ||
        fd_read_text_at(proc_fd, path, text, sizeof(text)) < 0)
        return;
    while ((name = strsep(&rest, " ")))
        add_member(proc_tree, proc_fd, name);
}

/* All descendants of the warden, level by level. */
static void read_descendants(struct proc_tree *proc_tree, int proc_fd, pid_t pid)
{
    size_t next = 0;

    for (;;) {
        char path[64];
        struct dirent *entry;
        DIR *threads;
        int fd;

        str_format(path, sizeof(path), "%d/task", (int)pid);
        fd = openat(proc_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        threads = fd < 0 ? NULL : fdopendir(fd);
        while (threads && (entry = readdir(threads))) {
            if (isdigit((unsigned char)entry->d_name[0]))
                add_children(proc_tree, proc_fd, pid, entry->d_name);
        }
        if (threads)
            closedir(threads);
        if (next == proc_tree->count)
            return;
        pid = proc_tree->members[next++].pid;
    }
}

static struct proc_tree *proc_tree_read(const struct sandbox *sandbox)
{
    static struct proc_tree proc_tree;   /* one thread; too large for the stack */
    bool is_own = sandbox->proc_fd >= 0; /* a /proc that shows only the box */
    int from = is_own ? sandbox->proc_fd : sandbox->outer_proc_fd;
    int fd = openat(from >= 0 ? from : AT_FDCWD, from >= 0 ? "." : "/proc",
                    O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *proc = fd < 0 ? NULL : fdopendir(fd);
    struct dirent *entry;

    proc_tree.count = 0;
    if (!proc)
        return &proc_tree;
    if (is_own) {
        while ((entry = readdir(proc)))
            add_member(&proc_tree, dirfd(proc), entry->d_name);
    } else {
        read_descendants(&proc_tree, dirfd(proc), from >= 0 ? sandbox->outer_pid : getpid());
    }
    closedir(proc);
    return &proc_tree;
}

uint64_t proc_tree_memory(const struct sandbox *sandbox)
{
    const struct proc_tree *proc_tree = proc_tree_read(sandbox);
    uint64_t pages = 0, shared = 0;

    /* Shared pages are counted once, as the largest share: libraries are mapped by all. */
    for (size_t i = 0; i < proc_tree->count; i++) {
        pages += proc_tree->members[i].own_pages;
        shared = MAX(shared, proc_tree->members[i].shared_pages);
    }
    return (pages + shared) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void wait_a_little(void)
{
    struct timespec pause = {.tv_nsec = 500000};

    nanosleep(&pause, NULL);
}

/* Killing a process tree that forks is a race; it is won when a scan finds no live process. */
static void kill_descendants(const struct sandbox *sandbox)
{
    for (int tries = 0; tries < 4000; tries++) {
        const struct proc_tree *proc_tree = proc_tree_read(sandbox);
        size_t alive = 0;

        for (size_t i = 0; i < proc_tree->count; i++) {
            if (proc_tree->members[i].is_dead)
                continue;
            kill(proc_tree->members[i].pid, SIGKILL);
            alive++;
        }
        if (alive == 0)
            return;
        wait_a_little();
    }
}

void proc_tree_kill(const struct sandbox *sandbox)
{
    /*
     * All processes of the pid namespace except its PID 1; or of the warden's Landlock domain
     * except itself. Never without either: it would reach all processes of the caller.
     */
    if (sandbox->plan->has_namespaces || sandbox->has_scope)
        kill(-1, SIGKILL);
    else
        kill_descendants(sandbox);
}

static int compare_pids(const void *a, const void *b)
{
    return ((const struct member *)a)->pid - ((const struct member *)b)->pid;
}

/*
 * Sessions that were started in the tree; the warden's own, of a child just forked, does not count.
 */
struct sessions {
    pid_t of[SESSIONS_MAX];
    size_t count;
};

static bool has_session(const struct sessions *sessions, pid_t session)
{
    for (size_t i = 0; i < sessions->count; i++) {
        if (sessions->of[i] == session)
            return true;
    }
    return false;
}

static bool is_of_tree(const struct proc_tree *proc_tree, const struct sessions *sessions,
                       const struct member *member, pid_t root)
{
    struct member key = {.pid = member->parent};
    const struct member *parent;

    if (member->pid == root || member->parent == root || member->group == root ||
        has_session(sessions, member->session))
        return true;
    parent = bsearch(&key, proc_tree->members, proc_tree->count, sizeof(key), compare_pids);
    return parent && parent->is_of_tree;
}

/*
 * Marks all processes of the tree: parents before their children, which takes one pass unless the
 * pids have wrapped around.
 */
static struct proc_tree *tree_read(const struct sandbox *sandbox, pid_t root)
{
    struct proc_tree *proc_tree = proc_tree_read(sandbox);
    struct sessions sessions = {.of = {root}, .count = 1};
    bool has_news = true;

    qsort(proc_tree->members, proc_tree->count, sizeof(proc_tree->members[0]), compare_pids);
    while (has_news) {
        has_news = false;
        for (size_t i = 0; i < proc_tree->count; i++) {
            struct member *member = &proc_tree->members[i];

            if (member->is_of_tree || !is_of_tree(proc_tree, &sessions, member, root))
                continue;
            has_news = member->is_of_tree = true;
            if (member->session != getsid(0) && sessions.count < SESSIONS_MAX &&
                !has_session(&sessions, member->session))
                sessions.of[sessions.count++] = member->session;
        }
    }
    return proc_tree;
}

/*
 * Sends a signal to all processes of the tree that are not yet in the state it causes; returns how
 * many.
 */
static size_t tree_signal(const struct proc_tree *proc_tree, int number)
{
    size_t count = 0;
    pid_t group = 0;

    for (size_t i = 0; i < proc_tree->count; i++) {
        const struct member *member = &proc_tree->members[i];

        if (!member->is_of_tree || member->is_dead || (number == SIGSTOP && member->is_stopped))
            continue;
        if (member->group != group && member->session != getsid(0)) {
            group = member->group;
            kill(-group, number);
        }
        kill(member->pid, number);
        count++;
    }
    return count;
}

/* The list of a process's children skips some when others of them end meanwhile (proc(5)). */
static bool tree_is_whole(const struct proc_tree *proc_tree, pid_t root)
{
    struct member key = {.pid = root};

    return proc_tree->count < PROC_TREE_MAX &&
           bsearch(&key, proc_tree->members, proc_tree->count, sizeof(key), compare_pids);
}

/* Without a /proc of the box: its group, and processes that report its session. */
static void kill_session(pid_t root)
{
    kill(-root, SIGKILL);
    for (int rounds = 0; rounds < 2; rounds++) {
        for (pid_t pid = 2; pid < SCAN_PIDS; pid++) {
            if (getsid(pid) == root && pid != getpid())
                kill(pid, SIGKILL);
        }
    }
}

/* True when all of the tree were seen, and seen stopped, twice; they are killed then. */
static bool stop_and_kill(const struct sandbox *sandbox, pid_t root)
{
    int calm = 0;

    for (int tries = 0; tries < STOP_TRIES; tries++) {
        struct proc_tree *proc_tree = tree_read(sandbox, root);

        if (tree_signal(proc_tree, SIGSTOP) > 0 || !tree_is_whole(proc_tree, root)) {
            calm = 0;
            wait_a_little();
        } else if (++calm == 2) {
            tree_signal(proc_tree, SIGKILL);
            return true;
        }
    }
    return false;
}

/*
 * The pid of our own child is not reused until we have reaped it; for another process we have a
 * pidfd.
 */
static void signal_root(pid_t root, int root_fd, int number)
{
    if (root_fd >= 0)
        sys_pidfd_send_signal(root_fd, number);
    else
        kill(root, number);
}

void proc_tree_kill_tree(const struct sandbox *sandbox, pid_t root, int root_fd)
{
    if (sandbox->plan->has_namespaces && sandbox->proc_fd < 0) {
        signal_root(root, root_fd, SIGKILL);
        kill_session(root);
        return;
    }
    kill(-root, SIGSTOP);
    signal_root(root, root_fd, SIGSTOP);
    if (!stop_and_kill(sandbox, root)) {
        /* A process cannot be stopped, or they are too many to see at once: kill them as a tree. */
        for (int tries = 0; tries < KILL_TRIES; tries++) {
            if (tree_signal(tree_read(sandbox, root), SIGKILL) == 0)
                break;
            wait_a_little();
        }
    }
    kill(-root, SIGKILL);
    signal_root(root, root_fd, SIGKILL);
}

static bool has_all(const struct sandbox *sandbox)
{
    return sandbox->plan->has_namespaces || sandbox->has_scope; /* as in proc_tree_kill() */
}

/* Processes that are not stopped yet; each is sent the signal, if kill(2) of all cannot. */
static size_t stop_rest(const struct sandbox *sandbox)
{
    const struct proc_tree *proc_tree = proc_tree_read(sandbox);
    size_t running = 0;

    for (size_t i = 0; i < proc_tree->count; i++) {
        const struct member *member = &proc_tree->members[i];

        if (member->is_dead || member->is_stopped)
            continue;
        if (!has_all(sandbox))
            kill(member->pid, SIGSTOP);
        running++;
    }
    return running;
}

size_t proc_tree_stop(const struct sandbox *sandbox, pid_t *ret, size_t room)
{
    const struct proc_tree *proc_tree = proc_tree_read(sandbox);
    size_t count = 0;

    for (size_t i = 0; i < proc_tree->count && count < room; i++) {
        if (proc_tree->members[i].is_stopped)
            ret[count++] = proc_tree->members[i].pid;
    }
    /* One call for all is atomic in the kernel: no process can fork past it. */
    if (has_all(sandbox))
        kill(-1, SIGSTOP);
    for (int tries = 0; tries < STOP_TRIES && stop_rest(sandbox) > 0; tries++)
        wait_a_little();
    return count;
}

size_t proc_tree_list(const struct sandbox *sandbox, pid_t *ret, size_t room, size_t *ret_running)
{
    const struct proc_tree *proc_tree = proc_tree_read(sandbox);
    size_t count = 0;

    *ret_running = 0;
    for (size_t i = 0; i < proc_tree->count; i++) {
        const struct member *member = &proc_tree->members[i];

        if (member->is_dead)
            continue;
        if (count < room)
            ret[count++] = member->pid;
        *ret_running += !member->is_stopped && !member->is_in_kernel;
    }
    return count;
}

static bool has_pid(const pid_t *pids, size_t count, pid_t pid)
{
    for (size_t i = 0; i < count; i++) {
        if (pids[i] == pid)
            return true;
    }
    return false;
}

void proc_tree_continue(const struct sandbox *sandbox, const pid_t *stopped, size_t count)
{
    struct proc_tree *proc_tree = proc_tree_read(sandbox);

    if (has_all(sandbox) && (proc_tree->count == 0 || proc_tree->count == PROC_TREE_MAX)) {
        kill(-1, SIGCONT); /* they cannot be listed */
        return;
    }
    /* A child has a higher number than its parent, unless the numbers have wrapped around. */
    qsort(proc_tree->members, proc_tree->count, sizeof(proc_tree->members[0]), compare_pids);
    for (size_t i = proc_tree->count; i-- > 0;) {
        if (!has_pid(stopped, count, proc_tree->members[i].pid))
            kill(proc_tree->members[i].pid, SIGCONT);
    }
}
