"""docs/responses.md and docs/containers.md, as a reader would run them: only the port, the key and the
model server's address are others, and a scripted model server answers."""
import json
import re
import subprocess

import pytest

import model_server
import support
import tcp

from sdk_server import NEWEST_NODE
from sdk_server import interop_cache

SALES = "month,sales\nMay,20\nJune,22\n"
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


def blocks(page):
    """(page, language, text) of each block that a reader runs."""
    text = (support.REPO / "docs" / page).read_text()
    found = re.findall(r"^```(sh|python|js|console)\n(.*?)^```$", text, re.M | re.S)
    return [(page, language, block) for language, block in found]


START, PYTHON, JS, CURL, ASK = blocks("responses.md")
FILES, CODEBOX, ASK_AGAIN = blocks("containers.md")


@pytest.fixture(scope="module")
def model():
    with model_server.Server() as running:
        yield running


@pytest.fixture(scope="module")
def server(model):
    """What the first block starts, on a free port."""
    said = dict(re.findall(r"^export (\w+)=(\S+)", START[2], re.M))
    assert set(said) == {"BAILEY_UPSTREAM_URL", "BAILEY_UPSTREAM_KEY", "BAILEY_UPSTREAM_MODEL"}
    assert re.search(r"^bailey serve\b", START[2], re.M)
    with tcp.Server({**said, "BAILEY_UPSTREAM_URL": model.url}) as running:
        running.room.write("sales.csv", SALES.encode())
        yield running


def run(server, argv, block, **env):
    """Its output. A session's id and a key are what a reader puts in."""
    text = block.replace("127.0.0.1:7070", f"127.0.0.1:{server.port}").replace("bly_...", server.key)
    path = f"{support.BAILEY.parent}:{support.PATH}"
    done = subprocess.run([*map(str, argv), text], capture_output=True, text=True, timeout=120, check=False,
                          cwd=server.room.work,
                          env={**support.environment(server.room, {**server.env, "PATH": path}),
                               "KEY": server.key, **env})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def script(model, source, *said):
    model.script("my-model", [model_server.code(source, size=200), model_server.text(*said)])


def test_python(server, model):
    script(model, "print(102334155)", "It is ", "102334155.")
    printed = run(server, [interop_cache("openai-py") / "openai-py" / "bin" / "python", "-W", "error", "-c"],
                  PYTHON[2])
    assert printed == "It is 102334155.\nprint(102334155)It is 102334155.\n"
    assert model.requests("my-model")[-1]["authorization"] == "Bearer sk-..."


def test_javascript(server, model):
    cache = interop_cache("openai-js", "mcp-inspector")
    script(model, f"import base64\nopen('/mnt/data/sine.png', 'wb').write(base64.b64decode('{PICTURE}'))",
           "Saved.")
    # `node -e` finds packages from the working folder
    server.room.work.joinpath("node_modules").symlink_to(cache / "openai-js" / "node_modules")
    printed = run(server, [cache / NEWEST_NODE, "--input-type=module", "-e"], JS[2])
    assert printed == "Saved.\nsine.png 70\n"


def test_curl(server, model):
    script(model, "print(2**100)", "Large.")
    printed = run(server, ["sh", "-ec"], CURL[2])
    assert "event: response.code_interpreter_call.completed\n" in printed
    assert printed.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize("block", [ASK, ASK_AGAIN], ids=lambda block: block[0])
def test_ask(server, model, block):
    script(model, "print(open('/mnt/data/sales.csv').read())\nopen('/mnt/data/plot.svg', 'w').write('<svg/>')",
           "June was ", "better.")
    results = server.room.work / "results"
    printed = run(server, ["sh", "-ec"], block[2].removeprefix("$ "))
    assert "June was better." in printed
    assert results.joinpath("plot.svg").read_text() == "<svg/>"
    results.joinpath("plot.svg").unlink()


def test_containers_and_files(server):
    printed = run(server, [interop_cache("openai-py") / "openai-py" / "bin" / "python", "-c"], FILES[2])
    identity, path, size, source = printed.split()
    assert identity.startswith("cfile_")
    assert (path, size, source) == ("/mnt/data/sales.csv", str(len(SALES)), "user")


def test_codebox(server):
    command, wanted = CODEBOX[2].split("\n", 1)
    session = server.tcp("POST", "/v1/sessions", {}).json()["id"]
    printed = run(server, ["sh", "-ec"], command.removeprefix("$ "), ID=session)
    assert json.loads(printed) == json.loads(wanted)
    server.tcp("DELETE", f"/v1/sessions/{session}")
