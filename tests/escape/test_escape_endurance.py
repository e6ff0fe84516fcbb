"""docs/security.md, attacks 21, 25, 57, 61 again, by guests that fight: hoppers, hidden memory, shared counters."""
import pytest

HOPPERS = r"""
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
/* Each of them forks and exits at once, for ever: whoever is looked for has just gone. */
int main(int argc, char **argv)
{
    time_t end = time(NULL) + 30; /* so that a defect is no catastrophe */
    for (int i = 0; i < 4; i++) {
        if (fork() == 0) {
            setsid();
            while (time(NULL) < end) {
                if (fork() > 0)
                    _exit(0);
            }
            _exit(0);
        }
    }
    write(1, "started\n", 8);
    return 3;
}
"""

# Almost no memory of its own, and a file without a name that grows: the kernel's choice is hard.
HIDER = r"""
#define _GNU_SOURCE
#include <sys/mman.h>
#include <unistd.h>
static char page[4096];
int main(void)
{
    int fd = memfd_create("m", 0);
    for (long i = 0; i < 100000; i++)
        write(fd, page, sizeof(page));
    return 0;
}
"""


def test_25_hoppers_end_with_the_run_and_its_status_is_true(box):
    program = box.compile(HOPPERS, "hoppers")
    outcome = box.exec("./hoppers", options=("--file", program, "--pids", "100"))
    assert outcome.result["stdout"] == "started\n", outcome
    assert outcome.result["exit_code"] == 3 and not outcome.meta["timed_out"], outcome


@pytest.mark.ways("root")
def test_57_the_kernel_takes_the_guest_and_never_the_warden(box):
    program = box.compile(HIDER, "hider")
    outcome = box.exec("./hider", options=("--file", program, "--memory", "32m", "--disk", "16m"))
    assert outcome.meta["oom_killed"] and outcome.meta["signal"] == 9, outcome
    assert "error" not in outcome.meta, outcome


@pytest.mark.ways("root")
def test_57_socket_buffers_count_as_memory(box):
    found = box.probe("""
import socket
server = socket.create_server(("127.0.0.1", 0), backlog=500)
kept, queued = [], 0
for _ in range(200):
    client = socket.create_connection(server.getsockname())
    kept += [client, server.accept()[0]]
    client.setblocking(False)
    try:
        while True:
            queued += client.send(bytes(65536))
    except OSError:
        pass
found["queued"] = queued
""", "--memory", "64m", "--disk", "16m")
    assert found["queued"] < 200 << 20, found


@pytest.mark.ways("root", "ordinary", "refused")
def test_61_an_exit_cannot_be_hidden_behind_a_pipe_that_lives_on(box):
    outcome = box.bailey("run", "--json", "--timeout", "20", "-c", """
import os, socket
a, b = socket.socketpair()
c, d = socket.socketpair()
socket.send_fds(a, [b"x"], [1, 2, c.fileno(), d.fileno(), a.fileno(), b.fileno()])
socket.send_fds(c, [b"x"], [1, 2, a.fileno(), b.fileno(), c.fileno(), d.fileno()])
print("bye", flush=True)
os._exit(7)
""")
    assert outcome.result["exit_code"] == 7 and not outcome.meta["timed_out"], outcome
    assert outcome.result["stdout"] == "bye\n"


COUNTERS = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
def most(take, limit):
    count = 0
    while count < limit and take() >= 0:
        count += 1
    return count
"""


@pytest.mark.ways("root", "ordinary")
def test_28_objects_that_the_host_counts_too_are_bounded(box):
    found = box.probe(COUNTERS + """
found["inotify"] = most(libc.inotify_init, 120)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
found["signals"] = most(lambda: libc.sigqueue(os.getpid(), int(signal.SIGRTMIN), None), 5000)
found["ptys"] = most(lambda: libc.posix_openpt(os.O_RDWR), 500)
""")
    assert found["inotify"] < 64 and found["signals"] < 2048 and found["ptys"] < 128, found


@pytest.mark.ways("refused", "root-refused")
def test_10_a_private_folder_is_measured_or_cannot_be_written(box):
    found = box.probe("""
found["top"] = attempt(open, os.path.dirname(os.getcwd()) + "/x", "w")
found["mode"] = attempt(os.chmod, os.getcwd(), 0o300)
found["descriptor"] = attempt(os.fchmod, os.open(".", os.O_RDONLY), 0o300)
""")
    assert found == {"top": "EACCES", "mode": "EPERM", "descriptor": "EPERM"}, found


@pytest.mark.ways("refused")
def test_22_files_of_the_caller_are_not_watched(box, canary):
    found = box.probe(f"""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
fd = libc.inotify_init()
found["watch"] = libc.inotify_add_watch(fd, {str(canary.folder)!r}.encode(), 0xfff)
found["errno"] = ctypes.get_errno()
""")
    assert found == {"watch": -1, "errno": 1}, found
