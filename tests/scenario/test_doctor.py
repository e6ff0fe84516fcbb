"""bailey doctor: every layer proved by trying it, what is missing, how to get it, and the level."""
import json
import shutil

import pytest
import support

LAYERS = ("userns", "mountns", "pidns", "netns", "ipcns", "utsns", "seccomp", "landlock", "cgroup",
          "no_new_privs", "caps")


def doctor(way, **kwargs):
    done = way.bailey("doctor", "--json", **kwargs)
    assert done.status == 0, done
    return done.json()


def rows(report):
    """name -> row of the report's table of layers."""
    return {row["name"]: row for row in report["layers"]}


def test_every_layer_is_in_the_report(way):
    text = way.bailey("doctor").stdout
    table = rows(doctor(way))
    for layer in LAYERS:
        assert layer in table
        assert layer in text


def test_the_report_agrees_with_what_a_run_gets(way):
    report, run = doctor(way), way.run_json("pass").meta["isolation"]
    assert report["level"] == run["level"]
    for layer, row in rows(report).items():
        assert row["held"] is (layer in run["layers"]), layer


def test_refused_namespaces_are_found_by_trying(refused):
    """The same kernel, the same version: only trying can tell."""
    table = rows(doctor(refused))
    for layer in ("userns", "mountns", "pidns", "netns"):
        assert table[layer]["held"] is False
    assert table["seccomp"]["held"] is True


def test_what_is_missing_comes_with_what_would_give_it(refused):
    for layer, row in rows(doctor(refused)).items():
        if not row["held"]:
            assert row["remedy"], layer
            assert row["remedy"] in refused.bailey("doctor").stdout


def test_interpreters_cgroups_and_level_are_named(way):
    report = doctor(way)
    text = way.bailey("doctor").stdout
    assert "python" in json.dumps(report["interpreters"])
    assert "python" in text
    assert "cgroup" in text
    assert any(word in json.dumps(report["cgroup"]) for word in ("v1", "v2", "hybrid", "none"))
    assert report["level"] in text


def test_a_denied_landlock_is_seen():
    if not support.is_root():
        pytest.skip("has to be started as root")
    report = support.bailey("doctor", "--json", deny=support.NO_LANDLOCK).json()
    assert rows(report)["landlock"]["held"] is False


def test_the_profile_for_containers_is_in_the_program(room):
    """The file that the remedy names, also where there is no source; in a container that is outside of it."""
    done = support.bailey("doctor", "--seccomp-profile", room=room)
    assert done.status == 0, done
    assert done.stdout == (support.REPO / "deploy/docker/seccomp.json").read_text()


def test_doctor_takes_no_stray_arguments():
    assert support.bailey("doctor", "stray").status == 125


def interpreters(report):
    return {row["language"]: row for row in report["interpreters"]}


def test_interpreters_are_proved_by_running_them(way):
    for row in interpreters(doctor(way)).values():
        assert (row["works"], row["reason"]) == (True, None), row


def test_an_interpreter_that_does_not_work_is_told_with_the_reason(room):
    folder = room.path / "broken" / "bin"
    library = room.path / "broken" / "lib" / "python3.11"
    folder.mkdir(parents=True)
    library.mkdir(parents=True)
    (library / "os.py").touch()  # looks like a Python; only trying can tell
    shutil.copy("/bin/false", folder / "python3")
    env = {"SANDBOX_PYTHON": str(folder / "python3")}
    done = support.bailey("doctor", "--json", room=room, env=env)
    row = interpreters(done.json())["python"]
    assert done.status == 0  # the level is another question
    assert (row["path"], row["works"]) == (str(folder / "python3"), False)
    assert "exit status 1" in row["reason"]
    text = support.bailey("doctor", room=room, env=env).stdout
    assert f"{folder}/python3: exit status 1" in text


def test_a_cpu_limit_that_nobody_asked_for_is_not_called_missing():
    assert "cpu: no limit" in support.bailey("doctor").stdout
    assert "cpu: no limit" not in support.bailey(
        "doctor", env={"SANDBOX_CPU_LIMIT": "0.5"}).stdout


def test_that_imports_are_not_checked_is_said_once_and_only_here(room):
    notice = "imports are not checked"
    assert support.bailey("doctor", room=room).stdout.count(notice) == 1
    assert notice not in support.bailey("doctor", room=room, env={"SANDBOX_BLOCK_DANGEROUS_IMPORTS": "true"}).stdout
    for words in (("run", "-c", "import socket"), ("run", "--explain", "-c", "import socket"), ("config",),
                  ("prompt",)):
        done = support.bailey(*words, room=room)
        assert done.status == 0 and notice not in done.stdout + done.stderr, done
