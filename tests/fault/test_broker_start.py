"""A broker that ends before it serves: the person who started the daemon reads why, and where more is."""
import os
import shutil
import signal
import subprocess

import pytest

import support
import daemon_fixture

# Stands in for bailey-engine: everything but the broker is the real one.
ENGINE = r"""
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static const char words[] = "libexample: ring_enter: Function not implemented\n";

    if (argc == 2 && strcmp(argv[1], "broker") == 0) {
        if (write(2, words, sizeof(words) - 1) > 0)
            abort();
    }
    execv(REAL, argv);
    return 1;
}
"""
REASON = "libexample: ring_enter: Function not implemented"


@pytest.fixture(scope="module")
def program():
    """A bailey whose broker aborts with a line on standard error, as a library does."""
    folder = support.base() / "aborting"
    folder.mkdir(mode=0o755)
    real = folder / "real-engine"  # beside its bailey, which it starts the daemon with
    for source, copy in ((support.BAILEY, folder / "bailey"),
                         (support.BAILEY.parent / "bailey-engine", real)):
        shutil.copyfile(source, copy)
        copy.chmod(0o755)
    source = folder / "engine.c"
    source.write_text(ENGINE)
    subprocess.run(["gcc", f'-DREAL="{real}"', str(source), "-o", str(folder / "bailey-engine")],
                   check=True)
    yield folder / "bailey"
    shutil.rmtree(folder)


@pytest.fixture
def place():
    found = daemon_fixture.DaemonFixture()
    yield found
    found.close()  # a command that removes the empty groups of a daemon of root that is gone


def call(program, place, *args):
    return subprocess.run([str(program), *args], env=support.environment(place.room, place.env),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=support.PATIENCE)


def test_a_daemon_on_demand_tells_signal_reason_and_log(program, place):
    done = call(program, place, "session", "new")
    assert done.returncode == 125, done
    assert f"signal {int(signal.SIGABRT)}" in done.stderr, done
    assert REASON in done.stderr, done
    assert str(place.state / "daemon.log") in done.stderr, done
    assert REASON in (place.state / "daemon.log").read_text()


def test_the_reason_is_that_of_this_start_not_of_an_older_one(program, place):
    log = place.state / "daemon.log"
    log.write_text("an older daemon: another reason\n")
    os.chmod(log, 0o600)
    done = call(program, place, "session", "new")
    assert REASON in done.stderr and "another reason" not in done.stderr, done


def test_serve_in_the_foreground_shows_the_reason_and_the_signal(program, place):
    done = call(program, place, "serve")
    assert done.returncode == 125, done
    assert done.stderr.index(REASON) < done.stderr.index(f"signal {int(signal.SIGABRT)}"), done
    assert "its log says why" not in done.stderr.splitlines()[-1], done
