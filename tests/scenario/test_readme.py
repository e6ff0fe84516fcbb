"""The blocks of README.md, all of them in their order: each has a verdict in VERDICTS, and a new block needs one.
What can be typed is typed from the top to the bottom and prints what it shows; `...` in the README stands for
anything. `make test-distros` does this on fresh machines, after `make run`."""
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import data_template
import support
from daemon_fixture import DaemonFixture

README = (support.REPO / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.M | re.S)

TYPED = "typed"  # in a shell, in the order of the page; console blocks show what is printed
PARSED = "parsed"  # by what reads such a file
INDEX = "typed where the package index can be reached"


def covered(place):
    """Another test does it: FILE::TEST, or FILE::TEXT of a file that is no Python."""
    return "covered", place


MAKE_RUN = covered("tools/test-distros::make --no-print-directory run")

# The kind of a block, how it begins, its verdict.
VERDICTS = [
    ("python", "from bailey import Sandbox",
     covered("tests/interop/test_sdk_docs.py::test_the_readme_begins_with_the_first_block")),
    ("sh", "make run ", MAKE_RUN),
    ("console", "$ make run\n", MAKE_RUN),
    ("sh", "export PATH=", TYPED),
    ("json", '{"mcpServers": {"bailey": {"command"', PARSED),
    ("json", '{"servers": {"bailey": {"type": "stdio"', PARSED),
    ("console", "$ bailey session new --name agent", TYPED),
    ("console", "$ make && build/bailey serve", covered("tests/scenario/test_examples.py::test_what_the_server_says_first")),
    ("console", "$ curl -H", covered("tests/scenario/test_examples.py::test_the_readmes_curl")),
    ("python", "import json, os, urllib.request", covered("tests/scenario/test_examples.py::test_the_readmes_python")),
    ("json", '{"mcpServers": {"bailey": {"url"', covered("tests/scenario/test_examples.py::test_the_readmes_mcp_client")),
    ("sh", "bailey image build", covered("tests/scenario/test_image_build.py::test_built_listed_and_removed")),
    ("yaml", "# bailey.yaml", PARSED),
    ("console", "$ bailey run -c", TYPED),
    ("console", "$ bailey session new --name demo", TYPED),
    ("sh", "bailey template build data", INDEX),
]


def section(heading):
    return README.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def steps(kind, text):
    """(command, what it shows) of a block; a command may go over several lines."""
    prompt = "$ " if kind == "console" else ""
    lines = text.rstrip("\n").split("\n")
    while lines:
        end = 1
        while sum(line.count("'") + line.count('"') - line.count('\\"') for line in lines[:end]) % 2:
            end += 1
        command, lines = "\n".join(lines[:end]).removeprefix(prompt), lines[end:]
        shown = []
        while prompt and lines and not lines[0].startswith(prompt):
            shown.append(lines.pop(0))
        yield command, "\n".join(shown)


def pattern(shown):
    text = re.escape(shown).replace(r"\.\.\.", r"(?s:.*)")
    return re.sub(r"(?:\\ )+", " +", text) + r"\s*"


class Shell:
    """Types commands one after the other, in a folder that has the examples and what was built."""

    def __init__(self, daemon):
        self.work = daemon.room.work
        self.env = support.environment(daemon.room, daemon.env)
        for name, place in (("examples", support.REPO / "examples"), ("build", support.BAILEY.parent)):
            os.symlink(place, self.work / name)

    def type(self, command, timeout=support.PATIENCE):
        """What it printed. An `export` holds for the commands after it."""
        keep = self.work / ".path"
        done = subprocess.run(["sh", "-c", command + f"\nstatus=$?; printf %s \"$PATH\" >{keep}; exit $status"],
                              cwd=self.work, env=self.env, text=True, timeout=timeout, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        self.env["PATH"] = keep.read_text()
        keep.unlink()
        return done


@pytest.fixture
def daemon_of_its_own():
    running = DaemonFixture()
    yield running
    running.close()


def test_every_block_has_a_verdict():
    """Where this fails a block was added, moved or changed: VERDICTS above says what is done with each."""
    for (kind, text), row in zip(BLOCKS, VERDICTS):
        assert kind == row[0] and text.startswith(row[1]), f"the verdict {row} is not about this block:\n{text}"
    assert len(BLOCKS) == len(VERDICTS), "blocks and verdicts differ in number; those that are left over: " + repr(
        BLOCKS[len(VERDICTS):] or VERDICTS[len(BLOCKS):])


@pytest.mark.parametrize("place", sorted({verdict[1] for *_, verdict in VERDICTS if isinstance(verdict, tuple)}))
def test_what_covers_a_block_is_there(place):
    file, name = place.split("::")
    text = (support.REPO / file).read_text()
    assert name in text and (not name.startswith("test_") or f"def {name}(" in text), place


def test_files_that_blocks_name_exist():
    names = {name for _, text in BLOCKS for name in re.findall(r"(?<![\w/.])(?:examples|clients|deploy|docs)/[\w./-]+", text)}
    assert "examples/sales.csv" in names
    for name in names:
        assert (support.REPO / name).exists(), name


def parse(shell, kind, text):
    """As its reader does: an MCP client gets a program to start, bailey its settings."""
    if kind == "json":
        (servers,) = json.loads(text).values()
        (entry,) = servers.values()
        assert shell.type(f"command -v {entry['command']}").returncode == 0, text
        done = shell.type(" ".join([entry["command"], *entry["args"], "--help"]))
        assert done.returncode == 0, done
        return
    (shell.work / "bailey.yaml").write_text(text)
    done = shell.type("bailey config --json --config bailey.yaml")
    (shell.work / "bailey.yaml").unlink()
    # The interpreter that it names is the reader's own.
    assert done.returncode == 0 and '"60"' in done.stdout.replace(" ", "") and "2g" in done.stdout, done.stdout


def test_blocks_in_their_order(daemon_of_its_own):
    shell = Shell(daemon_of_its_own)
    count = 0
    for (kind, text), (_, _, verdict) in zip(BLOCKS, VERDICTS):
        if verdict == PARSED:
            parse(shell, kind, text)
        for command, shown in steps(kind, text) if verdict == TYPED else ():
            done = shell.type(command)
            assert re.fullmatch(pattern(shown), done.stdout), (command, done.stdout, shown)
            count += 1
    assert count >= 15
    assert daemon_of_its_own.json("session", "ls", "--json")["sessions"] == []


def test_the_block_that_needs_the_index():
    data_template.state()
    daemon = DaemonFixture(env=data_template.env())
    try:
        shell = Shell(daemon)
        shell.env["PATH"] = f"{support.BAILEY.parent}:{shell.env['PATH']}"
        (block,) = [block for block, row in zip(BLOCKS, VERDICTS) if row[2] == INDEX]
        for command, _ in steps(*block):
            done = shell.type(command, timeout=support.PATIENCE * 4)
            assert done.returncode == 0, (command, done.stdout)
        assert [path.suffix for path in Path(shell.work / "pictures").iterdir()] == [".png"]
    finally:
        daemon.close()


def test_three_sentences_two_commands():
    """What it is, before the picture; then two commands."""
    before = README.partition("![")[0].partition("# Bailey\n")[2]
    assert len(re.findall(r"\.(?=\s|$)", before)) == 3, before
    assert re.search(r"^```sh\n(.*?)^```", section("Two commands"), re.M | re.S).group(1).count("\n") == 2


def test_five_limits():
    assert re.findall(r"^(\d)\. \*\*", section("Limits"), re.M) == ["1", "2", "3", "4", "5"]
