"""The examples that keep a session do what examples/README.md says, against a daemon of their own."""
import pathlib
import shutil
import subprocess
import sys

import pytest
import support
from yard import Yard

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture
def yard():
    yard = Yard()
    yield yard
    yard.close()


def run(yard, *argv):
    env = support.environment(yard.room, {**yard.env, "BAILEY": str(support.BAILEY)})
    done = subprocess.run([str(word) for word in argv], env=env, cwd=yard.room.work,
                          capture_output=True, text=True, timeout=support.PATIENCE)
    assert done.returncode == 0, done
    return done.stdout


def documented(name):
    """What the transcript in examples/README.md shows for it."""
    text = (EXAMPLES / "README.md").read_text()
    begin = text.index(f"$ BAILEY=build/bailey examples/{name}\n")
    return text[begin:].split("\n", 1)[1].split("```")[0].split("\n\n")[0].strip()


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_a_session_with_curl(yard):
    assert run(yard, "sh", EXAMPLES / "session.sh").strip() == documented("session.sh")
    assert yard.json("session", "ls", "--json")["sessions"] == []


def test_a_session_with_http_client(yard):
    assert run(yard, sys.executable, EXAMPLES / "session.py").strip() == documented("session.py")
    assert yard.json("session", "ls", "--json")["sessions"] == []
