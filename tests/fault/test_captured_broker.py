"""A broker that was taken over: what it writes into its folders and sends to the launcher, with the descriptors
that it really has. It gets no file of the host into a box, and costs nobody but itself (docs/security.md).
"""
import os
import secrets

import pytest

import daemon
import serve
import support
from daemon import Daemon, is_alive

pytestmark = pytest.mark.attack(79)
SEEDS = range(1, 25)


@pytest.fixture(autouse=True)
def _swept(_nothing_is_left):
    yield
    support.reap_orphans()
    daemon.sweep()


@pytest.fixture
def secret():
    """A folder that every id may read: only the launcher keeps it out of a box."""
    folder = support.base() / f"outside-{secrets.token_hex(4)}"
    folder.mkdir(mode=0o755)
    (folder / "canary").write_text("outside\n")
    os.chmod(folder, 0o755)
    os.chmod(folder / "canary", 0o644)
    (folder / "home").mkdir(mode=0o755)
    yield folder
    assert (folder / "canary").read_text() == "outside\n"
    for name in ("canary", "home"):
        path = folder / name
        path.rmdir() if path.is_dir() else path.unlink()
    folder.rmdir()


def plant(running, folder, name, target):
    """As a broker can do it, whose folders these are."""
    place = running.state / folder
    status = os.stat(place)
    os.symlink(target, place / name)
    os.lchown(place / name, status.st_uid, status.st_gid)


def told(running, *words):
    """Its answer; "" where that broker is gone, also before it could read the words."""
    try:
        return running.ask(*words)
    except OSError:
        return ""


def listed(running):
    """The list of boxes, of the broker that is there now or comes next."""
    return serve.polled(lambda: told(running, "list"), bool, "a broker lists the boxes", support.PATIENCE)


def mounted(warden):
    """The box's mounts of files of the host."""
    with open(f"/proc/{warden}/mountinfo") as file:
        return {line.split()[4]: line.split()[3] for line in file}


@pytest.mark.parametrize("folder", ["data", "packages", "layers"])
def test_a_link_in_its_folders_leads_nowhere(walled, folder, secret):
    """Instead of a session's folder: a link to any folder that the launcher could reach."""
    running = Daemon(walled)
    layer = "a" * 64
    plant(running, folder, layer if folder == "layers" else "planted", secret)
    answer = running.ask("layer", layer) if folder == "layers" else running.ask("session", "planted")
    for warden in running.wardens:
        seen = [path for path in ("/tmp/data", "/bailey/packages", "/bailey/template")
                if os.path.exists(f"/proc/{warden}/root{path}/canary")]
        assert not seen, (seen, mounted(warden))
    assert answer.startswith("refused"), answer
    assert "is not a folder" in answer, answer
    number, _, _, _ = running.make("next")
    running.ask("end", number)
    assert running.end()[0] == 0


def test_discarding_a_link_removes_the_link(walled, secret):
    running = Daemon(walled)
    plant(running, "layers", ".build-planted", secret)
    running.ask("discard", "planted")
    running.ask("seal", "planted")
    assert (secret / "canary").exists()
    running.make("next")
    assert running.end()[0] == 0


def test_hostile_messages(walled, secret):
    """Thousands of messages of the right form with the worst values, and descriptors where none belong: the launcher
    lives, and the boxes of others do."""
    running = Daemon(walled)
    for folder in ("data", "packages", "layers"):
        plant(running, folder, "planted", secret)
    launcher, (number, _, _, warden) = running.launcher, running.make("bystander")
    for seed in SEEDS:
        told(running, "hostile", seed, 40)  # "" where the launcher has ended that broker
        assert is_alive(launcher) and running.process.poll() is None, (seed, running.process.communicate())
        assert is_alive(warden), seed
        listed(running)
        for one in running.wardens:
            assert not os.path.exists(f"/proc/{one}/root/tmp/data/canary"), seed
    assert f"{number}:bystander" in listed(running)
    # The launcher may end that broker for its last messages still; the next one serves.
    made = serve.polled(lambda: told(running, "make", "next").split(), lambda words: words[:1] == ["made"],
                        "a broker makes a box", support.PATIENCE)
    told(running, "end", made[2])
    assert running.launcher == launcher
    assert running.end()[0] == 0
