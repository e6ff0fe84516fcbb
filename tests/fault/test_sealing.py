"""An installer's folder in a running daemon: made for its guest, sealed by nobody else, swept."""
import os
import signal
import stat
import subprocess

import daemon
import pytest
import support
from daemon import Daemon, status


@pytest.fixture(autouse=True)
def _swept(_nothing_is_left):
    yield
    support.reap_orphans()
    daemon.sweep()


def without_network(ended):
    """The supervisor has no egress proxy, which the launcher says for each installer's box."""
    status, said = ended
    lines = [line for line in said.splitlines() if "gets no network: the egress proxy" not in line]
    return status, "\n".join(lines)


def stage(running, key):
    """An installer's box; its number and its folder."""
    words = running.ask("stage", key).split()
    assert words[0] == "made", words
    folder = running.state / "layers" / f".build-{key}"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755  # the broker measures it
    return int(words[2]), folder


def fill(folder):
    """As the guest: its files have its id."""
    def become():
        if os.geteuid() == 0:
            owner = os.stat(".")
            os.setgroups([])
            os.setgid(owner.st_gid)
            os.setuid(owner.st_uid)

    # The folder is entered first: its parents are not the guest's.
    subprocess.run(["/bin/sh", "-c", """set -e; umask 0; mkdir -p lib closed
        echo text > lib/file; echo hidden > closed/file; ln -s lib lib64; ln -s /etc/passwd evil
        mkfifo pipe; printf '#!/bin/sh\\n' > lib/program; chmod 4777 lib/program
        chmod 0 closed/file closed"""], cwd=folder, preexec_fn=become, check=True)


def end(running, number):
    assert running.ask("end", number).split()[0] == str(number)


def layers(running):
    return sorted(os.listdir(running.state / "layers"))


def test_a_folder_becomes_a_layer(walled):
    running = Daemon(walled)
    number, folder = stage(running, "one")
    fill(folder)
    assert running.ask("seal", "one") == "failed engine the installer's box has not ended yet"
    end(running, number)
    words = running.ask("seal", "one").split()
    assert words[:2] == ["sealed", "9"] and words[3:] == ["3", "22", "0"], words
    layer = words[2]
    assert layers(running) == [layer, layer + ".manifest"]
    owner = (running.state / "layers").stat().st_uid
    top = running.state / "layers" / layer
    for path in [top, *top.rglob("*")]:
        now = path.lstat()
        assert now.st_uid == owner, path
        if not path.is_symlink():
            assert stat.S_IMODE(now.st_mode) in (0o755, 0o555, 0o444), path
    assert sorted(os.listdir(top)) == ["closed", "lib", "lib64"]
    # The same again is thrown away.
    number, folder = stage(running, "two")
    fill(folder)
    end(running, number)
    assert running.ask("seal", "two").split()[2:] == [layer, "3", "22", "1"]
    assert layers(running) == [layer, layer + ".manifest"]
    words = running.ask("layer", layer).split()
    assert words[0] == "made", words
    warden = running.wardens[0]
    # Nobody has to trust the box's own word: its mounts are read from outside.
    mounts = open(f"/proc/{warden}/mountinfo").read()
    line = next(row for row in mounts.splitlines() if row.split()[4] == "/bailey/template")
    assert line.split()[5].startswith("ro,nosuid,nodev"), line
    assert without_network(running.end()) == (0, "")


def test_what_was_not_asked_for(walled):
    running = Daemon(walled)
    assert running.ask("layer", "0" * 64).startswith("refused not_found ")
    assert running.ask("seal", "nobody").startswith("failed engine ")
    number, folder = stage(running, "one")
    assert running.ask("stage", "one").startswith("refused ")
    assert folder.exists()  # the one that is in use
    fill(folder)
    end(running, number)
    assert running.ask("discard", "one") == "asked"
    support.wait_until(lambda: not folder.exists(), "the folder is gone")
    assert layers(running) == []
    assert running.ask("list").startswith("generation 1 ")  # nobody misbehaved
    assert without_network(running.end()) == (0, "")


def test_a_killed_daemon_leaves_nothing_of_it(walled):
    running = Daemon(walled)
    _, folder = stage(running, "one")
    fill(folder)
    launcher = running.launcher
    os.kill(launcher, signal.SIGKILL)
    running.process.wait(timeout=support.PATIENCE)
    running.process.communicate()
    assert folder.exists()
    again = Daemon(walled, room=running.room)
    support.wait_until(lambda: not folder.exists(), "the folder is swept")
    assert without_network(again.end()) == (0, "")


def test_no_zombie_of_it_is_left(walled):
    running = Daemon(walled)
    for key in ("one", "two", "three", "four"):
        number, _ = stage(running, key)
        end(running, number)
        running.ask("discard", key)
    support.wait_until(lambda: layers(running) == [], "all folders are gone")
    support.wait_until(lambda: len(daemon.children(running.launcher)) == 1, "only the broker is left")
    assert status(running.launcher)["Threads"] == ["1"]
    zombies = [p for p, (parent, state, _) in support._processes().items()
               if parent == running.launcher and state == "Z"]
    support.wait_until(lambda: not zombies or not any(map(os.path.exists, (
        f"/proc/{p}" for p in zombies))), "no child is left unreaped")
    assert without_network(running.end()) == (0, "")
