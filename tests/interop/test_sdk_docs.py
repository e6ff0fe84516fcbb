"""docs/sdk.md and examples/quickstart.ipynb, as a reader would run them: no server is configured, and
`bailey` is on PATH. The first block starts the daemon, the others use it."""
import json
import re
import subprocess

import pytest
import support

from daemon_fixture import DaemonFixture
from sdk_server import CLIENTS, interop_cache

TEXT = (support.REPO / "docs" / "sdk.md").read_text()

# What the Python blocks print, in their order.
PRINTED = {
    "A first sandbox": "2\n",
    "Code": "[1, 2, 3]\nZeroDivisionError 1\n0\n1\n2\n42\n",
    "Commands": "GREEN\n3\none\ntwo\n0\n",
    "Files, datasets, outputs": "['total.txt']\n7\n['report.py']\n",
    "Terminals and packages": "True\n0\n",
    "asyncio": "['0\\n', '1\\n', '2\\n']\nstarted\n",
    "Errors": "PathNotFoundError path_not_found\ncommand_not_found\n",
    "CodeBox and CodeInterpreterSession": "text 6\nerror\n",
    "CodeBox and CodeInterpreterSession 2": "The sum is 5050.\n1 []\n",
    "One call": "42\n",
}


def blocks(language):
    """(heading, code) of each block of a language."""
    found, heading = {}, ""
    for part in re.finditer(r"^## ([^\n]*)$|^```(\w+)\n(.*?)^```$", TEXT, re.M | re.S):
        if part.group(1):
            heading = part.group(1)
        elif part.group(2) == language:
            name, number = heading, 1
            while name in found:
                number += 1
                name = f"{heading} {number}"
            found[name] = part.group(3)
    return found


@pytest.fixture(scope="module")
def reader():
    """Variables of a shell in which `bailey` is on PATH and no daemon runs."""
    daemon = DaemonFixture(env={"SANDBOX_POOL_SIZE": "0"})
    path = f"{support.BAILEY.parent}:{support.PATH}"
    env = support.environment(daemon.room, {**daemon.env, "PATH": path,
                                            "PYTHONPATH": CLIENTS / "python" / "src"})
    yield daemon, env
    daemon.close()
    daemon.room.remove()


def test_every_block_is_known():
    assert list(blocks("python")) == list(PRINTED)


def test_the_readme_begins_with_the_first_block():
    readme = (support.REPO / "README.md").read_text()
    assert re.search(r"^```(\w+)\n(.*?)^```$", readme, re.M | re.S).groups() == (
        "python", blocks("python")["A first sandbox"])


@pytest.mark.parametrize("name", PRINTED)
def test_block(reader, name):
    daemon, env = reader
    if name == next(iter(PRINTED)):
        assert not daemon.is_running()  # the block has to start it
    done = subprocess.run(["/usr/bin/python3", "-W", "error", "-c", blocks("python")[name]], env=env,
                          cwd=daemon.room.work, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert done.stdout == PRINTED[name]
    assert daemon.is_running()


AGAIN = """
import asyncio, subprocess, bailey
plain = bailey.Client()
plain.sessions()
stop = lambda: subprocess.run(["bailey", "daemon", "stop", "--force"], check=True, capture_output=True)
async def main():
    async with bailey.AsyncClient() as waiting:
        await waiting.sessions()
        stop()
        print(await waiting.sessions())
stop()
print(plain.sessions())
asyncio.run(main())
plain.close()
"""


def test_a_daemon_that_is_gone_is_started_again(reader):
    daemon, env = reader
    done = subprocess.run(["/usr/bin/python3", "-W", "error", "-c", AGAIN], env=env, cwd=daemon.room.work,
                          capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "[]\n[]\n"), done.stderr


def test_the_notebook_runs(reader):
    daemon, env = reader
    python = interop_cache("sdk-notebook") / "sdk-notebook" / "bin" / "python"
    notebook = support.REPO / "examples" / "quickstart.ipynb"
    done = subprocess.run([python, support.REPO / "tests/interop/clients/run_notebook.py", notebook],
                          env={**env, "PATH": f"{python.parent}:{env['PATH']}"}, cwd=daemon.room.work,
                          capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown[0][0]["text/plain"] == "2"
    assert "10 squares" in shown[1][0]["text/html"] and "285" in shown[1][0]["text/html"]
    assert shown[2][0]["image/svg+xml"].startswith("<svg")
    assert shown[3][0]["text/plain"] == "'IndexError'"
    assert re.search(r"3 red", shown[4][0]["text/plain"])
    assert shown[5][0]["text/plain"] == "(['squares.csv'], b'0\\n1\\n4\\n9\\n1')"
    assert shown[6][0]["text/plain"] == "True"
    assert all(not cell.get("outputs") for cell in json.loads(notebook.read_text())["cells"])
