"""Earlier SDKs against this server: what worked with them has to go on working. A row is a commit of this
repository, the last one with that version of the clients; a new version of them gets a new row.

The Python one always runs. The TypeScript one has to be compiled, so it runs where BAILEY_CLIENT_MATRIX is set
(`make test-clients`).
"""
import json
import os
import shutil
import subprocess
import tarfile

import pytest
import support

from sdk_server import SdkServer, interop_cache

# Nothing was released yet: this is the first complete one, of 0.1.0.
EARLIER = {"0.1.0-first": "157881acbcc24fa83f8795a56338cdb314e500a0"}

PYTHON = """
import asyncio, bailey, os
seen = []
with bailey.Sandbox(memory="256m", data={"sales": b"a,b\\n1,2\\n"}) as sandbox:
    sandbox.run_code("x = 6", on_stdout=seen.append)
    assert sandbox.run_code("print('out'); x * 7", on_stdout=seen.append).text == "42"
    assert "".join(seen) == "out\\n"
    assert sandbox.commands.run("exit 3").exit_code == 3
    with sandbox.commands.start(["cat"], stdin=True) as cat:
        cat.send_stdin("fed", end=True)
        assert "".join(chunk.text for chunk in cat.stream()) == "fed"
    sandbox.files.write("a.txt", "text")
    assert sandbox.files.read("a.txt") == "text"
    assert "a,b" in sandbox.files.read("/tmp/data/sales.csv")
    assert sandbox.commands.run("echo 1 >/tmp/output/o.txt").output_files[0].name == "o.txt"
    assert sandbox.outputs.read("o.txt") == b"1\\n"
    with sandbox.pty("read line; echo got:$line") as terminal:
        terminal.send("word\\r")
        terminal.read_until(b"got:word")
    try:
        sandbox.files.read("absent")
    except bailey.PathNotFoundError as error:
        assert error.code == "path_not_found"
with bailey.CodeBox() as box:
    assert box.run("6 * 7").content == "42" and box.run("1/0").type == "error"
assert bailey.run_python_code("print(6 * 7)") == "42\\n"

async def main():
    async with bailey.AsyncSandbox() as sandbox:
        return (await sandbox.run_code("1+1")).text

assert asyncio.run(main()) == "2"
print(bailey.__file__)
"""


@pytest.fixture(scope="module")
def server():
    with SdkServer() as running:
        yield running
        assert running.names() == []


@pytest.fixture(scope="module", params=EARLIER)
def clients(request, tmp_path_factory):
    """The folder clients/ of that commit."""
    folder = tmp_path_factory.mktemp("earlier")
    archive = folder / "clients.tar"
    done = subprocess.run(["git", "-C", support.REPO, "archive", "-o", archive, EARLIER[request.param], "clients"],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"the history of the repository is not here: {done.stderr.strip()}")
    with tarfile.open(archive) as whole:
        whole.extractall(folder)
    return folder / "clients"


def run(command, **kwargs):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **kwargs)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("way", ["unix", "tcp"])
def test_an_earlier_python_sdk(server, clients, way):
    env = server.client_env(way, PYTHONPATH=str(clients / "python/src"))
    assert run(["/usr/bin/python3", "-c", PYTHON], env=env).startswith(str(clients))


@pytest.mark.skipif(not os.environ.get("BAILEY_CLIENT_MATRIX"), reason="`make test-clients` compiles old versions")
def test_an_earlier_typescript_sdk(server, clients, tmp_path):
    package = tmp_path / "node_modules" / "bailey-sandbox"
    package.mkdir(parents=True)
    shutil.copy(clients / "typescript/package.json", package)
    tsc = interop_cache("sdk-typescript") / "sdk-typescript/node_modules/typescript/bin/tsc"
    run([shutil.which("node"), clients / "typescript/scripts/build.mjs", tsc, package / "dist"])
    shutil.copy(support.REPO / "tests/interop/clients/sdk_smoke.mjs", tmp_path / "smoke.mjs")
    out = run([shutil.which("node"), "smoke.mjs"], cwd=tmp_path, env=server.client_env("tcp"))
    assert json.loads(out) == ["2", "streamed\n", "fed", "text", 5, "path_not_found"]
