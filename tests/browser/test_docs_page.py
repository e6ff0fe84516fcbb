"""The page at /docs lets a person try a call: in a real browser, against a real server."""
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import support
import tcp

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def seen():
    """What docs_page.mjs saw. `make test-browser` installs both; without them this fails."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    assert browser, "no chromium: `make test-browser` installs it"
    made = subprocess.run([support.REPO / "tools" / "interop-setup", "playwright"], text=True,
                          capture_output=True, timeout=600, check=False)
    assert made.returncode == 0, made.stderr
    folder = Path(made.stdout.strip().split("\n")[-1]) / "playwright"
    with tcp.Server() as server:
        done = subprocess.run(["node", HERE / "docs_page.mjs", folder, browser,
                               f"http://127.0.0.1:{server.port}", server.key], text=True,
                              capture_output=True, timeout=support.PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_operation_is_listed(seen):
    assert seen["operations"] > 50


def test_a_stranger_is_told_to_bring_a_key(seen):
    assert seen["stranger"]["status"] == 401
    assert seen["stranger"]["body"]["error"]["code"] == "unauthorized"


def test_a_word_finds_an_operation(seen):
    assert 1 <= seen["visible"] < seen["operations"]


def test_a_call_with_a_key_runs_code(seen):
    assert seen["run"]["status"] == 200
    assert seen["run"]["body"]["stdout"] == "42\n"


def test_nothing_is_fetched_from_elsewhere_and_nothing_complains(seen):
    assert seen["elsewhere"] == []
    assert seen["said"] == []
