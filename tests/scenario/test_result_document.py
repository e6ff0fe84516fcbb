"""docs/result.md lists the members that results really have: no more, no fewer, each with its type, and its
examples print what it shows."""
import json
import re
import subprocess

import pytest
import support
from daemon_fixture import DaemonFixture

PAGE = (support.REPO / "docs" / "result.md").read_text()
TYPES = {
    "string": lambda v: isinstance(v, str),
    "integer": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "number": lambda v: isinstance(v, (int, float)) and not isinstance(v, bool),
    "boolean": lambda v: isinstance(v, bool),
    "null": lambda v: v is None,
    "object": lambda v: isinstance(v, dict),
    "array": lambda v: isinstance(v, list),
    "array of strings": lambda v: isinstance(v, list) and all(isinstance(x, str) for x in v),
    "array of objects": lambda v: isinstance(v, list) and all(isinstance(x, dict) for x in v),
}


def section(heading):
    return PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def members(heading):
    """{name: (types, when)} of the table below a heading."""
    rows = re.findall(r"^\| `(\w+)` \| ([\w ]+) \| (\w+) \|", section(heading), re.M)
    assert rows, heading
    return {name: (types.split(" or "), when) for name, types, when in rows}


def assert_as_documented(value, heading, *cases):
    """Members that are always there, those of these cases, and none besides."""
    documented = members(heading)
    expected = {name for name, (_, when) in documented.items() if when in ("always", *cases)}
    assert set(value) == expected, heading
    for name, given in value.items():
        assert any(TYPES[one](given) for one in documented[name][0]), (heading, name, given)


def assert_result(result, *cases):
    assert_as_documented(result, "Members", *cases)
    assert_as_documented(result["meta"], "`meta`", *cases)
    assert_as_documented(result["meta"]["usage"], "`meta.usage`")
    assert_as_documented(result["meta"]["resource_limits"], "`meta.resource_limits`")
    assert_as_documented(result["meta"]["isolation"], "`meta.isolation`")
    if "error" in result["meta"]:
        assert_as_documented(result["meta"]["error"], "Errors", *(
            name for name in ("stage", "errno") if name in result["meta"]["error"]))


def test_a_run(room):
    assert_result(support.run_json("print('x')", room=room))


def test_endings(room):
    assert_result(support.run_json("while True: pass", "--timeout", "1", room=room))
    assert_result(support.run_json("import os; os.kill(os.getpid(), 11)", room=room))
    assert_result(support.run_json("print('x' * 3000)", "--max-output", "1", room=room))


def test_files(room):
    code = "import os; os.chdir(os.environ['OUTPUT_DIR']); open('a', 'w').write('a'); os.symlink('a', 'b')"
    result = support.run_json(code, "--out", "out", room=room)
    assert_result(result)
    shown = re.findall(r'^\| `(files|skipped_files)` .*?: `(\{.*?\})`', PAGE, re.M)
    for name, shape in shown:
        assert [set(one) for one in result["meta"][name]] == [set(re.findall(r'"(\w+)"', shape))]
    assert len(shown) == 2


def test_a_run_that_did_not_start(room):
    assert_result(support.exec_json("nosuch", room=room), "failed")
    assert_result(support.run_json("pass", "--nosuch", room=room), "failed")


@pytest.fixture
def own_daemon():
    running = DaemonFixture()
    yield running
    running.close()


def test_cells_and_the_daemon(own_daemon):
    session = own_daemon.session()
    assert_result(own_daemon.json("code", "-s", session, "--json", "-c", "1 + 1"), "cells", "daemon")
    assert_result(own_daemon.json("exec", "-s", session, "--json", "--", "true"))
    assert_result(own_daemon.json("run", "--json", "-c", "print(1)"), "daemon")


def test_the_example():
    """Its members, in its order."""
    example = json.loads(re.search(r"^```json\n(.*?)^```$", PAGE, re.M | re.S).group(1))
    assert_result(example)
    real = support.run_json("print('Hello')")

    def names(value):
        return [(name, names(one)) for name, one in value.items()] if isinstance(value, dict) else None
    assert names(example) == names(real)
    assert (example["stdout"], example["exit_code"]) == (real["stdout"], real["exit_code"])


def filtered(result, wanted):
    """What jq prints with -c for the filters of the page: `.a.b`, or `[.a, .b.c]`."""
    def value(path):
        found = result
        for name in path.strip(" .").split("."):
            found = found[name]
        return found
    wanted = wanted.strip("' ")
    found = [value(path) for path in wanted.strip("[]").split(",")] if wanted.startswith("[") else value(wanted)
    return json.dumps(found, separators=(",", ":"))


def test_what_is_typed(room):
    blocks = re.findall(r"^```console\n(.*?)^```$", section("Errors"), re.M | re.S)
    steps = re.findall(r"^\$ (.*?) \| jq -c (.*?)\n(.*?)$", "".join(blocks), re.M | re.S)
    assert len(steps) == 3
    for command, wanted, shown in steps:
        done = subprocess.run(["sh", "-c", command.replace("bailey", str(support.BAILEY), 1)], text=True,
                              env=support.environment(room), cwd=room.work, capture_output=True,
                              timeout=support.PATIENCE)
        assert filtered(json.loads(done.stdout), wanted) == shown, command
