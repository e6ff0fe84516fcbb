"""Packages for sessions and runs: asked for by hand, and fetched when a module is missing."""
import os
import threading

import pytest

import serve
import support
import wheels
from install import ALL, cell, install, left_packages, names, packages, run, session, settings, started


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    path = tmp_path_factory.mktemp("shelf") / "wheels"
    wheels.folder(path, *ALL)
    return path


@pytest.fixture(scope="module")
def yard(shelf):
    """A daemon whose pip has no index but that folder, and that installs what is missing."""
    with serve.Daemon(settings(shelf)) as running:
        yield started(running)


@pytest.fixture(scope="module")
def manual(shelf):
    """The same, where nothing is installed unless somebody says so."""
    with serve.Daemon(settings(shelf, SANDBOX_AUTO_INSTALL="false",
                               SANDBOX_INSTALL_DENY="Tower")) as running:
        with session(running) as here:
            install(running, here, "moat")
            cell(running, here, "pass")
        yield running


# --- by hand


def test_by_hand(manual):
    with session(manual) as here:
        assert cell(manual, here, "import castle")["error"]["name"] == "ModuleNotFoundError"
        done = install(manual, here, "castle")
        assert names(done["installed"]) == {"castle": "1.2", "moat": "1.0"}
        assert len(done["layer"]) == 64 and done["ms"] >= 0
        # The interpreter that had not found it finds it now, and so does everybody after it.
        assert cell(manual, here, "import castle; castle.walls")["results"][0]["data"][
            "text/plain"] == "42"
        assert manual.python(here, "import castle; print(castle.walls)")["stdout"] == "42\n"
        assert names(packages(manual, here)) == {"castle": "1.2", "moat": "1.0"}
        assert install(manual, here, "castle")["installed"] == []


def test_by_hand_before_the_box_is_there(manual):
    with session(manual) as here:
        install(manual, here, "moat==1.0")
        assert manual.python(here, "import moat; print(moat.depth)")["stdout"] == "41\n"


def test_two_at_once_both_stay(manual):
    """Each has all that the one before it brought."""
    with session(manual) as here:
        threads = [threading.Thread(target=install, args=(manual, here, name))
                   for name in ("moat", "PyWavelets", "hollow")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(names(packages(manual, here))) == {"moat", "PyWavelets", "hollow"}
        assert manual.python(here, "import moat, pywt, something_else; print('all')")[
            "stdout"] == "all\n"


def test_the_command_line(manual):
    with session(manual) as here:
        done = manual.bailey("install", "-s", here, "castle")
        assert done.status == 0 and "installed castle 1.2, moat 1.0" in done.stderr, done
        assert "installing castle==1.2" in done.stderr  # progress
        done = manual.bailey("install", "-s", here, "-q", "moat")
        assert (done.status, done.out, done.err) == (0, b"", b""), done
        done = manual.bailey("install", "-s", here, "--json", "PyWavelets")
        assert names(done.json()["installed"]) == {"PyWavelets": "6.0"}
        listed = manual.bailey("install", "-s", here)
        assert listed.stdout.split() == ["PACKAGE", "VERSION", "castle", "1.2", "moat", "1.0",
                                         "PyWavelets", "6.0"]
        done = manual.bailey("install", "-s", here, "tower")
        assert done.status == 125 and "may not be installed here" in done.stderr, done
        done = manual.bailey("install", "castle")
        assert done.status == 125 and "which session? -s NAME" in done.stderr, done


# --- one-shot commands beside a daemon

@pytest.mark.parametrize("words", [["run", "-c"], ["tool", "run_python_code"]], ids=["run", "tool"])
def test_a_run_of_the_command_line_uses_the_daemons_installer(manual, words):
    """The daemon's own value is false: the caller's counts."""
    def call(env):
        code = "import castle; print(castle.walls)"
        return manual.bailey(*words, code if words[0] == "run" else f'{{"code": "{code}"}}', env=env)
    assert call({}).stdout != "42\n"
    done = call({"SANDBOX_AUTO_INSTALL": "true"})
    assert (done.status, done.stdout.splitlines()[0]) == (0, "42"), done
    # The error of the first time was seen as it came: why there is a second is said.
    assert "installed castle 1.2 and ran the code again" in (done.stderr if words[0] == "run" else done.stdout), done


def test_the_result_of_the_command_line_names_what_was_installed(manual):
    env = {"SANDBOX_AUTO_INSTALL": "true"}
    meta = manual.bailey("run", "--json", "-c", "import castle", env=env).json()["meta"]
    assert names(meta["installed"]) == {"castle": "1.2", "moat": "1.0"}, meta
    assert meta["install_note"] == "installed castle 1.2 and ran the code again"
    done = manual.bailey("run", "--json", "-c", "import no_such_package_here", env=env)
    assert done.json()["meta"]["install_error"]["code"] == "install_failed" and done.status == 1, done


def test_a_run_that_is_not_for_the_daemon_says_why(manual):
    manual.room.write("x.txt", "x")
    done = manual.bailey("run", "--file", "x.txt", "-c", "import castle", env={"SANDBOX_AUTO_INSTALL": "true"})
    assert done.status == 125 and "SANDBOX_AUTO_INSTALL" in done.stderr and "files are copied in" in done.stderr, done
    done = manual.bailey("run", "--no-daemon", "-c", "import castle", env={"SANDBOX_AUTO_INSTALL": "true"})
    assert done.status == 125 and "it is not asked" in done.stderr, done


def test_each_line_of_an_error_is_printed_once(manual, tmp_path):
    (tmp_path / "template.yaml").write_text("name: nothing\npackages:\n  - no-such-thing\n")
    with session(manual) as here:
        for words, last in ((("install", "-s", here, "no-such-thing"), "nothing was installed"),
                            (("template", "build", str(tmp_path)), "the template was not built")):
            done = manual.bailey(*words)
            lines = [line.removeprefix("bailey: ") for line in done.stderr.splitlines()]
            assert done.status == 125 and last in lines[-1], done
            assert any("no-such-thing" in line for line in lines), done
            assert sorted(lines) == sorted(set(lines)), done
            error = manual.bailey(*words, "--json").json()["error"]
            assert "no-such-thing" in error["message"], "JSON has the whole error"


def test_on_a_terminal_packages_are_counted(manual):
    with session(manual) as here:
        # No other test asks for these two together: what was installed a moment ago is not fetched again.
        status, seen = support.on_terminal("install", "-s", here, "PyWavelets", "hollow", env=manual.env, room=manual.room)
        assert status == 0, seen
        for words in (b"[................]  0 of 2 packages  installing ",
                      b"[########........]  1 of 2 packages", b"[################]  2 of 2 packages"):
            assert words in seen, seen


def test_progress_as_events(manual):
    with session(manual) as here:
        with manual.events(f"/v1/sessions/{here}/packages", {"packages": ["moat"]},
                           method="POST") as events:
            assert names(events.until("installed").data["installed"]) == {"moat": "1.0"}
        assert any(event.type == "progress" and "moat" in event.data["line"]
                   for event in events.seen)
        with manual.events(f"/v1/sessions/{here}/packages", {"packages": ["no-such-thing"]},
                           method="POST") as events:
            assert events.until("error").data["error"]["code"] == "install_failed"


@pytest.mark.parametrize("packages_, status, code", [
    ([], 400, "bad_input"),
    (["--index-url=http://x"], 400, "bad_input"),
    (["x @ file:///etc/passwd"], 400, "bad_input"),
    (["moat; touch /tmp/x"], 400, "bad_input"),
    (["moat\ntower"], 400, "bad_input"),
    (["a" * 300], 400, "bad_input"),
    (["TOWER"], 403, "install_denied"),
    (["tower==2.0"], 403, "install_denied"),
    (["no-such-thing"], 409, "install_failed"),
    (["moat>=7"], 409, "install_failed"),
])
def test_what_is_refused(manual, packages_, status, code):
    with session(manual) as here:
        manual.refused("POST", f"/v1/sessions/{here}/packages", status, code,
                       {"packages": packages_})
        assert packages(manual, here) == []


def test_a_session_that_is_not_there(manual):
    manual.refused("POST", "/v1/sessions/nobody/packages", 404, "session_not_found",
                   {"packages": ["moat"]})
    manual.refused("GET", "/v1/sessions/nobody/packages", 404, "session_not_found")


def test_nothing_is_installed_by_itself(manual):
    with session(manual) as here:
        done = cell(manual, here, "import moat")
        assert done["error"]["name"] == "ModuleNotFoundError"
        assert "installed" not in done["meta"] and "install_error" not in done["meta"]
    done = run(manual, "import moat")
    assert done["exit_code"] == 1 and "install_error" not in done["meta"]


# --- when a module is missing: a session


def test_a_cell_runs_again(yard):
    with session(yard) as here, session(yard) as other:
        done = cell(yard, here, "print('begin')\nimport castle\nx = castle.walls\nx")
        assert done["exit_code"] == 0 and done["error"] is None, done
        assert done["stdout"] == "begin\n"  # of the second time, and only that
        assert [one["data"]["text/plain"] for one in done["results"]] == ["42"]
        assert names(done["meta"]["installed"]) == {"castle": "1.2", "moat": "1.0"}
        assert done["meta"]["install_note"] == "installed castle 1.2 and ran the code again"
        assert done["meta"]["kernel"] == "new"
        # It stays, for cells, contexts and commands; and nobody else has it.
        again = cell(yard, here, "import castle; x + castle.walls")
        assert again["results"][0]["data"]["text/plain"] == "84"
        assert "installed" not in again["meta"]
        assert yard.exec(here, "python3", "-c", "import castle; print(1)")["stdout"] == "1\n"
        assert names(packages(yard, here)) == {"castle": "1.2", "moat": "1.0"}
        assert packages(yard, other) == []
        assert yard.exec(other, "python3", "-c", "import castle")["exit_code"] == 1


def test_a_second_package_joins_the_first(yard):
    with session(yard) as here:
        assert cell(yard, here, "import castle")["exit_code"] == 0
        done = cell(yard, here, "import pywt; pywt.kind")
        assert names(done["meta"]["installed"]) == {"PyWavelets": "6.0"}, done
        assert done["meta"]["install_note"].startswith("installed pywavelets 6.0 ")
        assert done["results"][0]["data"]["text/plain"] == "'made by hand'"
        assert cell(yard, here, "import castle, pywt, moat")["exit_code"] == 0


def test_once_and_no_more(yard):
    """The second time lacks another one: that is its result."""
    with session(yard) as here:
        done = cell(yard, here, "import moat\nimport tower")
        assert names(done["meta"]["installed"]) == {"moat": "1.0"}
        assert done["error"]["value"] == "No module named 'tower'"
        assert cell(yard, here, "import moat\nimport tower")["exit_code"] == 0


def test_input_and_variables_are_given_again(yard):
    with session(yard) as here:
        done = cell(yard, here, "import os\na = input()\nimport moat\nprint(a, os.environ['WORD'])",
                    stdin="line\n", env={"WORD": "word"})
        assert done["stdout"] == "line word\n", done


def test_events_of_a_cell_that_runs_again(yard):
    """The exception of the first time is told to nobody."""
    with session(yard) as here:
        with yard.events(f"/v1/sessions/{here}/code", {"code": "print('x')\nimport castle\n1"},
                         method="POST") as events:
            end = events.until("exit").data
        kinds = [event.type for event in events.seen]
        assert "error" not in kinds and kinds.count("started") == 1, kinds
        told = [event.data for event in events.seen if event.type == "install"]
        assert [one["state"] for one in told] == ["installing", "installed"], told
        assert told[0]["package"] == "castle" and names(told[1]["installed"])["castle"] == "1.2"
        assert end["stdout"] == "x\n" and end["results"][0]["data"]["text/plain"] == "1"


def test_the_command_line_says_so(yard):
    with session(yard) as here:
        done = yard.bailey("code", "-s", here, "-c", "import castle; castle.walls")
        assert (done.status, done.stdout) == (0, "42\n"), done
        assert "installing castle" in done.stderr
        assert "installed castle 1.2 and ran the code again" in done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.parametrize("code, module, word", [
    ("import no_such_thing", "no_such_thing", "no-such-thing"),
    ("import hollow", "hollow", "hollow"),
    ("import msilib", "msilib", "standard library"),
    ("import google", "google", "shared by many"),
    ("import json.nothing", "json.nothing", "standard library"),
])
def test_the_first_result_stands(yard, code, module, word):
    with session(yard) as here:
        done = cell(yard, here, "print('once')\n" + code)
        assert done["stdout"] == "once\n" and done["exit_code"] == 1
        assert done["error"]["name"] == "ModuleNotFoundError"
        if module == "hollow":  # it is there, and was run with; only the module is not in it
            assert names(done["meta"]["installed"]) == {"hollow": "1.0"}
            done = cell(yard, here, code)
        assert done["meta"]["install_error"]["code"] == "install_failed", done["meta"]
        assert word in done["meta"]["install_error"]["message"]
        assert done["meta"]["install_note"].startswith(f"the module '{module}' is missing and was")
        assert cell(yard, here, "1")["exit_code"] == 0


def test_what_lies_in_the_workspace_is_not_looked_for(yard):
    """Names that many use for files of their own are names of packages too."""
    with session(yard) as here:
        yard.write(here, "/workspace/tower.py", b"height = 1\n")
        done = cell(yard, here, "import os, sys\nos.chdir('/tmp')\nsys.path.remove('')\nimport tower")
        assert "your own module in /workspace" in done["meta"]["install_error"]["message"], done
        assert packages(yard, here) == []


@pytest.mark.parametrize("value", [
    "No module named 'castle'; touch /tmp/x", "No module named '--index-url=http://x'",
    "No module named 'castle moat'", "No module named '../castle'", "No module named ''",
    "No module named 'castle'\\nNo module named 'moat'", "castle", "No module named 'cästle'"])
def test_a_name_that_is_none(yard, value):
    """What code makes up: nothing is fetched, and nothing goes wrong."""
    with session(yard) as here:
        done = cell(yard, here, f'raise ModuleNotFoundError("{value}")')
        assert done["error"]["name"] == "ModuleNotFoundError"
        assert "installed" not in done["meta"] and "install_error" not in done["meta"]
        assert packages(yard, here) == []


def test_a_made_up_error_installs_a_package_and_nothing_else(yard):
    with session(yard) as here:
        done = cell(yard, here, "raise ModuleNotFoundError(\"No module named 'castle'\")")
        assert names(done["meta"]["installed"])["castle"] == "1.2"
        assert done["exit_code"] == 1 and done["error"]["value"] == "No module named 'castle'"


def test_what_is_caught_is_not_fetched(yard):
    with session(yard) as here:
        done = cell(yard, here, "try:\n import castle\nexcept ImportError: print('without')")
        assert done["stdout"] == "without\n" and "installed" not in done["meta"]


def test_other_languages_have_no_modules_of_python(yard):
    with session(yard) as here:
        done = cell(yard, here, "echo \"No module named 'castle'\" >&2; false", language="bash")
        assert done["exit_code"] == 1 and "install_error" not in done["meta"]


def test_nothing_is_left_of_a_session(yard):
    with session(yard) as here:
        assert cell(yard, here, "import castle")["exit_code"] == 0
        assert here in left_packages(yard) and here + ".json" in left_packages(yard)
    support.wait_until(lambda: not left_packages(yard), "its packages are gone")


# --- when a module is missing: a run


def test_a_run_has_it_in_its_second_box(yard):
    done = run(yard, "import sys\nprint(sys.stdin.read().strip())\nimport castle\n"
                     "print(castle.walls)", stdin="given\n")
    assert (done["exit_code"], done["stdout"], done["stderr"]) == (0, "given\n42\n", ""), done
    assert names(done["meta"]["installed"]) == {"castle": "1.2", "moat": "1.0"}
    assert done["meta"]["install_note"] == "installed castle 1.2 and ran the code again"
    support.wait_until(lambda: not left_packages(yard), "its packages are gone")


def test_a_run_again_does_not_fetch_again(yard):
    """The layer is kept for a while."""
    first = run(yard, "import castle")
    layers = {name for name in os.listdir(yard.state / "layers") if len(name) == 64}
    second = run(yard, "import castle; print(1)")
    assert first["exit_code"] == second["exit_code"] == 0 and second["stdout"] == "1\n"
    assert layers == {name for name in os.listdir(yard.state / "layers") if len(name) == 64}


@pytest.mark.parametrize("code, word", [("import no_such_thing", "no-such-thing"),
                                        ("import msilib", "standard library")])
def test_a_run_whose_first_result_stands(yard, code, word):
    done = run(yard, "print('once')\n" + code)
    assert done["exit_code"] == 1 and done["stdout"] == "once\n"
    assert "ModuleNotFoundError" in done["stderr"]
    assert word in done["meta"]["install_error"]["message"], done["meta"]
    assert not left_packages(yard)


def test_a_run_with_a_module_of_its_own(yard):
    """As far as anybody can look: a box with no output goes with its program."""
    done = run(yard, "open('tower.py', 'w').close()\nopen('/tmp/output/x', 'w').close()\n"
                     "import sys\nsys.path.remove('/workspace')\nimport tower")
    assert "your own module in /workspace" in done["meta"]["install_error"]["message"], done


def test_a_run_that_only_prints_it(yard):
    """The last line and the status both say so, or nothing is looked for."""
    line = "ModuleNotFoundError: No module named 'castle'"
    done = run(yard, f"import sys; print(\"{line}\", file=sys.stderr)")
    assert done["exit_code"] == 0 and "installed" not in done["meta"]
    done = run(yard, f"import sys; print(\"{line}\", file=sys.stderr); print(1, file=sys.stderr); "
                     "sys.exit(1)")
    assert done["exit_code"] == 1 and "installed" not in done["meta"]


# --- tools


def test_tools_tell_the_agent(yard):
    done = yard.post("/v1/tools/run_python_code", {"code": "import castle; print(castle.walls)"})
    note = "installed castle 1.2 and ran the code again"
    assert done["success"] and done["output"] == f"42\n[{note}]\n" and done["note"] == note, done
    done = yard.post("/v1/tools/run_python_code", {"code": "import no_such_thing"})
    assert "was not installed" in done["output"] and "was not installed" in done["note"]
    assert done["hint"] == "Check the module's name, or write it without that module."
    done = yard.post("/v1/tools/run_code", {"code": "import castle; print(castle.walls)"})
    assert done["stdout"] == "42\n" and done["note"] == note
    with session(yard) as here:
        done = yard.post("/v1/tools/run_code", {"code": "import castle; castle.walls",
                                                "session": here})
        assert done["note"] == note and names(done["meta"]["installed"])["castle"] == "1.2"
