"""A new program takes over a running daemon: no session, command, variable or byte is lost; one that
cannot leaves the old one running.

A "new version" is a copy of the programs with another version in them. UPGRADES sets by hand how
many follow each other under load.
"""
import os
import random
import shutil
import time

import load
import pytest
import serve
import support
import test_broker_killed as killed
from daemon import launcher_of

UPGRADES = int(os.environ.get("UPGRADES", 20))
ENGINE = support.BAILEY.with_name("bailey-engine")


def version_of(program):
    done = support.bailey("version") if program == support.BAILEY else None
    return done.stdout.split()[1]


def patched(source, target, old, new):
    """A copy with these bytes replaced; there has to be something to replace."""
    data = source.read_bytes()
    assert len(old) == len(new) and old in data, (source, old)
    target.write_bytes(data.replace(old, new))
    target.chmod(0o755)


@pytest.fixture(name="shelf", scope="module")
def _shelf():
    """Where new versions lie."""
    folder = support.base() / "versions"
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder)


def another(shelf, number):
    """Both programs as version 9.9.NUMBER; the path of `bailey`."""
    folder = shelf / f"v{number}"
    if not folder.exists():
        folder.mkdir(mode=0o755)
        old = version_of(support.BAILEY).encode()
        for program in (support.BAILEY, ENGINE):
            patched(program, folder / program.name, old, b"9.9.%d" % number)
    return folder / "bailey"


def upgrade(daemon, program, status=0):
    done = daemon.bailey("upgrade", "--program", program)
    assert done.status == status, (done, daemon.said()[-3000:])
    return done


def cell(daemon, session, code):
    return daemon.post(f"/v1/sessions/{session}/code", {"code": code})


def is_warm(daemon):
    zygotes = daemon.get("/v1/warm")["zygotes"]
    return zygotes and all(one["ready"] for one in zygotes)


@pytest.mark.parametrize("user", [None, support.ORDINARY_UID], ids=["root", "ordinary"])
def test_everything_goes_on(shelf, user):
    with serve.Daemon(user=user) as daemon:
        before = daemon.get("/v1/info")
        session = daemon.session(name="stays")["id"]
        cell(daemon, session, "x = [1]; import os; pid = os.getpid()")
        daemon.write(session, "/tmp/note", b"written before")
        counter = daemon.background(session, "python3", "-c", load.COUNTER, timeout=0)["execution_id"]
        stream = load.Stream(daemon, 1, counter)
        stream.start()
        support.wait_until(lambda: len(stream.got["stdout"]) > 0, "it writes")
        launcher = launcher_of(daemon.process.pid)

        done = upgrade(daemon, another(shelf, 1))
        assert "9.9.1" in done.stdout, done

        info = daemon.get("/v1/info")
        assert info["version"] == "9.9.1", info
        assert info["generation"] == before["generation"] + 1, info
        assert info["launcher_pid"] == before["launcher_pid"]
        assert info["broker_pid"] != before["broker_pid"]
        assert launcher_of(daemon.process.pid) == launcher
        seen = len(stream.got["stdout"])
        support.wait_until(lambda: len(stream.got["stdout"]) > seen, "the stream goes on")
        kept = cell(daemon, session, "import os; x.append(2); print(x, os.getpid() == pid)")
        assert kept["stdout"] == "[1, 2] True\n", kept
        assert daemon.read(session, "/tmp/note") == b"written before"

        daemon.write(session, "/tmp/enough")
        ended = daemon.wait(counter)
        assert ended["exit_code"] == 7, ended
        out = daemon.output(counter, offset=0).body
        assert load.counted(out), load.difference(out)
        stream.join(support.PATIENCE)
        assert not stream.wrong, stream.wrong
        assert stream.got["stdout"] == out, load.difference(stream.got["stdout"])

        # What is made from now on is the new program's.
        support.wait_until(lambda: is_warm(daemon), "an interpreter is warm again", 30)
        fresh = daemon.session(name="fresh")["id"]
        assert cell(daemon, fresh, "print(6 * 7)")["stdout"] == "42\n"
        daemon.end(session)
        daemon.end(fresh)


def test_the_end_of_a_kernel_is_still_known(shelf):
    """Its zygote is gone with the old program: the launcher waits for it, before and after."""
    with serve.Daemon() as daemon:
        session = daemon.session()["id"]
        cell(daemon, session, "x = 1")
        upgrade(daemon, another(shelf, 1))
        lost = cell(daemon, session, "import os; os.kill(os.getpid(), 9)")
        assert lost["exit_code"] == 137, lost
        assert cell(daemon, session, "print('x' in globals())")["stdout"] == "False\n"


def test_boxes_made_ahead(shelf):
    """Those of the old program go; sessions that came out of the pool stay."""
    with serve.Daemon({"SANDBOX_POOL_SIZE": "3"}) as daemon:
        session = daemon.session()["id"]
        cell(daemon, session, "x = 5")
        for number in (1, 2):
            upgrade(daemon, another(shelf, number))
            assert cell(daemon, session, "print(x)")["stdout"] == "5\n"
            made = daemon.session()["id"]
            assert cell(daemon, made, "print(1)")["stdout"] == "1\n"


class Scene(killed.Scene):
    """The load of the killed broker's test, on a daemon that gets a new program again and again."""

    wanted = UPGRADES

    def __init__(self, shelf):
        self.shelf = shelf
        super().__init__(0, env={"SANDBOX_POOL_SIZE": "2"})

    def kill_one(self):
        time.sleep(self.random.random() * 0.4)
        number = 1 + self.killed % 2
        done = upgrade(self.daemon, another(self.shelf, number))
        assert f"9.9.{number}" in done.stdout, done
        self.killed += 1


def test_many_in_a_row_under_load(shelf):
    scene = Scene(shelf)
    try:
        scene.thread.start()
        scene.thread.join(900)
        assert not scene.thread.is_alive(), f"hangs; BROKER_SEED={killed.SEED}"
        assert not scene.problem, (scene.problem, scene.daemon.said()[-3000:])
        assert sum(w.lost for w in scene.workers + scene.streams) > 0, "nothing was hit"
        assert scene.daemon.get("/v1/info")["version"] == f"9.9.{1 + (UPGRADES - 1) % 2}"
    finally:
        for worker in scene.workers + scene.streams:
            worker.enough.set()
        scene.daemon.stop()
        scene.daemon.room.remove()
        support.reap_orphans()
        swept = support.bailey("exec", "--", "/bin/true")  # the cgroup that a root start left
        assert swept.status == 0, swept


def broken(shelf, kind):
    """A program that cannot take over."""
    folder = shelf / kind
    folder.mkdir(mode=0o755, exist_ok=True)
    for program in (support.BAILEY, ENGINE):
        shutil.copyfile(program, folder / program.name)
    bailey, engine = folder / "bailey", folder / "bailey-engine"
    if kind == "garbage":
        bailey.write_bytes(random.Random(1).randbytes(10000))
    elif kind == "empty":
        bailey.write_bytes(b"")
    elif kind == "another":  # which ends well, and says nothing
        shutil.copyfile("/bin/true", bailey)
    elif kind == "old":  # reads no handover of ours; the word may be halves inside of instructions
        patched(support.BAILEY, bailey, b"andover\0", b"andxver\0")
    elif kind == "engine":
        shutil.copyfile("/bin/true", engine)
    elif kind == "broker":  # which is found out only when it is started
        patched(ENGINE, engine, b"\0broker\0", b"\0brokex\0")
    for program in (bailey, engine):
        program.chmod(0o755)
    return bailey


@pytest.mark.parametrize("kind", ["garbage", "empty", "another", "old", "engine", "broker"])
def test_a_broken_program_changes_nothing(shelf, kind):
    with serve.Daemon() as daemon:
        session = daemon.session(name="stays")["id"]
        cell(daemon, session, "x = 3")
        counter = daemon.background(session, "python3", "-c", load.COUNTER, timeout=0)["execution_id"]
        serve.polled(lambda: daemon.output(counter, offset=0).body, bool, "the counter counts")
        before = daemon.get("/v1/info")
        done = upgrade(daemon, broken(shelf, kind), 125)
        assert "nothing was changed" in done.stderr, done
        after = serve.polled(lambda: daemon.get("/v1/info"), lambda _: True, "it answers")
        assert after["version"] == before["version"]
        assert after["launcher_pid"] == before["launcher_pid"]
        if kind != "broker":  # nobody noticed
            assert after["broker_pid"] == before["broker_pid"], done
        assert cell(daemon, session, "print(x)")["stdout"] == "3\n"
        daemon.write(session, "/tmp/enough")
        assert daemon.wait(counter)["exit_code"] == 7
        out = daemon.output(counter, offset=0).body
        assert load.counted(out), load.difference(out)
        # And the next one, which can, does.
        upgrade(daemon, another(shelf, 2))
        assert cell(daemon, session, "print(x + 1)")["stdout"] == "4\n"


def test_nobody_to_upgrade():
    room = support.Room()
    env = {"BAILEY_STATE_DIR": room.path / "state", "XDG_RUNTIME_DIR": room.path / "run"}
    done = support.bailey("upgrade", env=env, room=room)
    assert done.status == 125 and "no daemon is running" in done.stderr, done
    done = support.bailey("upgrade", "--program", "/nowhere/bailey", env=env, room=room)
    assert done.status == 125 and "/nowhere/bailey" in done.stderr, done
    room.remove()
