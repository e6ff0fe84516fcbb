"""JavaScript: a module with top-level await, by name, by extension, with the true exit status."""
import pytest

import support


def test_code_with_top_level_await():
    done = support.bailey("run", "--language", "javascript", "-c",
                          "const x = await Promise.resolve(41); console.log(x + 1)")
    assert (done.status, done.out) == (0, b"42\n")


@pytest.mark.parametrize("name, code", [
    ("a.mjs", "import os from 'node:os'; console.log(os.hostname())"),
    ("a.cjs", "console.log(require('node:os').hostname())"),
])
@pytest.mark.needs_namespaces
def test_a_file_by_its_extension(room, name, code):
    room.write(name, code)
    done = support.bailey("run", name, room=room)
    assert (done.status, done.out) == (0, b"bailey\n")


def test_its_own_exit_status_and_an_uncaught_error():
    assert support.bailey("run", "--language", "js", "-c", "process.exit(7)").status == 7
    done = support.bailey("run", "--language", "js", "-c", "null.x")
    assert done.status == 1
    assert "TypeError" in done.stderr


@pytest.mark.needs_namespaces
def test_it_is_walled_in_like_everything_else(room):
    code = ("import fs from 'node:fs'; import cp from 'node:child_process';"
            "try { fs.writeFileSync('/usr/x', '1'); console.log('written') }"
            " catch (e) { console.log(e.code) }"
            "console.log(cp.execSync('id -u').toString().trim());"
            "console.log(fs.readdirSync('/proc').filter(n => /^[0-9]+$/.test(n)).length < 5)")
    done = support.bailey("run", "--language", "js", "-c", code)
    assert done.out.decode().split() == ["EROFS", "1000", "true"]


def test_a_node_that_is_not_there_is_said():
    done = support.bailey("run", "--language", "js", "-c", "1", env={"SANDBOX_NODE": "node999"})
    assert done.status == 125
    assert "SANDBOX_NODE" in done.stderr and "nodejs" in done.stderr
