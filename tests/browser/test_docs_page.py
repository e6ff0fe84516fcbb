"""The page at /docs lets a person find, understand, copy and try a call: in a real browser, against a real server."""
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import support
import tcp

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="module")
def looked():
    """What docs_page.mjs saw, the OpenAPI document, and what the copied line for curl printed. `make
    test-browser` installs what this needs; without it this fails."""
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
        seen = json.loads(done.stdout)
        pasted = subprocess.run(["/bin/bash", "-c", seen["curl"]], text=True, capture_output=True,
                                env={"PATH": "/usr/bin:/bin", "BAILEY_API_KEY": server.key},
                                timeout=support.PATIENCE, check=False)
        document = server.get("/openapi.json")
    return seen, document, pasted


@pytest.fixture(scope="module")
def seen(looked):
    return looked[0]


@pytest.fixture(scope="module")
def operations(looked):
    return [each for methods in looked[1]["paths"].values() for each in methods.values()]


def test_every_operation_is_listed_in_its_group(looked, seen, operations):
    assert seen["operations"] == len(operations) > 60
    tags = [each["tags"][0] for each in operations]
    assert seen["groups"] == [[tag["name"], tags.count(tag["name"])] for tag in looked[1]["tags"]]
    assert seen["links"] == [tag["name"] for tag in looked[1]["tags"]]


def test_every_operation_shows_its_scope(seen, operations):
    assert seen["scopes"] == {each["operationId"]: each["security"][0]["bearer"][0] if each["security"]
                              else "no key" for each in operations}
    assert seen["scopes"]["createSession"] == "sessions"


def test_the_members_of_a_body_are_a_table(seen):
    assert seen["fields"][0] == ["name", "type", "required", "description"]
    rows = {row[0]: row[1:] for row in seen["fields"][1:]}
    assert rows["name"][:2] == ["string", "no"]
    assert rows["limits.memory"][:2] == ["string or integer from 1", "no"]
    assert rows["datasets[].name"][:2] == ["string", "yes"]
    assert all(row[2] for row in rows.values())


def test_parameters_are_a_table(seen):
    assert [row[:3] for row in seen["parameters"][1:]] == [
        ["id", "string", "yes"], ["path", "string", "yes"], ["offset", "integer from 0", "no"],
        ["length", "integer from 1", "no"]]


def test_the_body_begins_with_an_example(seen):
    assert json.loads(seen["example"])["datasets"][0]["name"] == "sales"


def test_the_copied_line_works_in_a_shell(looked):
    pasted = looked[2]
    made = json.loads(pasted.stdout or "{}")
    assert made.get("name") == "analysis", pasted
    assert [each["path"] for each in made["datasets"]] == ["/tmp/data/sales.csv"]


def test_the_line_for_curl_quotes_what_was_filled_in(seen):
    assert "/v1/sessions/an%20analysis/files?path=%2Fworkspace%2Fit'\\''s.txt'" in seen["file_curl"]
    assert '"Authorization: Bearer $BAILEY_API_KEY"' in seen["file_curl"]


def test_a_stranger_is_told_to_bring_a_key(seen):
    assert seen["stranger"]["status"] == 401
    assert json.loads(seen["stranger"]["body"])["error"]["code"] == "unauthorized"


def test_a_word_finds_an_operation(seen):
    assert 1 <= seen["visible"] < seen["operations"]
    assert seen["visible_groups"] == 1


def test_a_call_with_a_key_runs_code(seen):
    assert seen["run"]["status"] == 200
    assert json.loads(seen["run"]["body"])["stdout"] == "42\n"


def test_a_call_can_ask_for_events(seen):
    assert [row[0] for row in seen["events"][1:]] == ["stdout", "stderr", "exit", "closed"]
    assert "event: stdout\n" in seen["run_events"]["body"]
    assert "event: exit\n" in seen["run_events"]["body"]


def test_nothing_is_wider_than_the_window(seen):
    assert seen["overflow"] <= 0


def test_nothing_is_fetched_from_elsewhere_and_nothing_complains(seen):
    assert seen["elsewhere"] == []
    assert seen["said"] == []
