"""The blocks of README.md work, one after the other, and print what it shows. `...` in the README stands for
anything. The server's section has its own tests (test_examples.py), `make run` is run by `make test-distros`."""
import os
import re
import subprocess

import pytest
import support
from daemon_fixture import DaemonFixture

README = (support.REPO / "README.md").read_text()


def section(heading):
    return README.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def steps(heading):
    """(command, what it shows) of the console blocks in a section; a command may go over several lines."""
    blocks = "".join(re.findall(r"^```console\n(.*?)^```$", section(heading), re.M | re.S))
    for text in re.split(r"^\$ ", blocks, flags=re.M)[1:]:
        lines = text.rstrip("\n").split("\n")
        end = 1
        while sum(line.count("'") + line.count('"') - line.count('\\"') for line in lines[:end]) % 2:
            end += 1
        yield "\n".join(lines[:end]), "\n".join(lines[end:])


def pattern(shown):
    text = re.escape(shown).replace(r"\.\.\.", r"(?s:.*)")
    return re.sub(r"(?:\\ )+", " +", text) + r"\s*"


@pytest.fixture
def daemon_of_its_own():
    running = DaemonFixture()
    os.symlink(support.REPO / "examples", running.room.work / "examples")
    yield running
    running.close()


@pytest.mark.parametrize("heading", ["For agent builders", "For data analysts"])
def test_blocks_in_their_order(daemon_of_its_own, heading):
    room = daemon_of_its_own.room
    env = support.environment(room, daemon_of_its_own.env)
    env["PATH"] = f"{support.BAILEY.parent}:{env['PATH']}"
    count = 0
    for command, shown in steps(heading):
        done = subprocess.run(["sh", "-c", command], cwd=room.work, env=env, text=True, timeout=support.PATIENCE,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        assert re.fullmatch(pattern(shown), done.stdout), (command, done.stdout, shown)
        count += 1
    assert count >= 5
    assert daemon_of_its_own.json("session", "ls", "--json")["sessions"] == []


def test_three_sentences_two_commands():
    """What it is, before the picture; then two commands."""
    before = README.partition("![")[0].partition("# Bailey\n")[2]
    assert len(re.findall(r"\.(?=\s|$)", before)) == 3, before
    assert re.search(r"^```sh\n(.*?)^```", section("Two commands"), re.M | re.S).group(1).count("\n") == 2


def test_five_limits():
    assert re.findall(r"^(\d)\. \*\*", section("Limits"), re.M) == ["1", "2", "3", "4", "5"]
