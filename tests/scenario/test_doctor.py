"""bailey doctor: every layer proved by trying it, what is missing, how to get it, and the level."""
import json

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


def test_doctor_takes_no_stray_arguments():
    assert support.bailey("doctor", "stray").status == 125
