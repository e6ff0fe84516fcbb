"""docs/security.md, attacks 75: a host that lacks a layer. Refused, or weaker only when asked for, and said."""
import json

import pytest

NAMESPACES = {"userns", "mountns", "pidns", "netns", "ipcns", "utsns"}


def doctor(box):
    """Layers that hold, layers that are missing, and the level, as doctor tells them."""
    outcome = box.bailey("doctor", "--json")
    assert outcome.result is not None, outcome
    return outcome.result


def says(report, layer):
    """Whether doctor says that a layer holds."""
    row = next(row for row in report["layers"] if row["name"] == layer)
    return row["held"]


def assert_consistent(box, outcome, lacking):
    assert lacking <= outcome.missing, outcome
    assert not lacking & outcome.layers, outcome
    report = doctor(box)
    for layer in lacking:
        assert says(report, layer) is False, (layer, report)
    for layer in outcome.layers:
        assert says(report, layer) is True, (layer, report)
    assert report["level"] == outcome.meta["isolation"]["level"], report


def assert_refused(outcome, *words):
    assert outcome.status == 126, outcome
    text = outcome.error["message"] if outcome.result else outcome.err
    assert outcome.error["code"] == "refused" if outcome.result else True, outcome
    for word in words:
        assert word in text, (word, text)
    assert outcome.result is None or outcome.result["stdout"] == "", "nothing ran"


def run(box, *options, **named):
    return box.bailey("run", "--json", *options, "-c", "print('ran')", **named)


@pytest.mark.ways("root", "ordinary")
def test_75_landlock_off(box):
    box.refuse = ("landlock",)
    outcome = run(box)
    assert outcome.result["stdout"] == "ran\n", outcome
    assert outcome.meta["isolation"]["level"] == "standard"
    assert_consistent(box, outcome, {"landlock"})
    assert_refused(run(box, "--isolation", "strict"), "landlock")
    assert_refused(run(box, env={"SANDBOX_ISOLATION": "strict"}), "landlock")


@pytest.mark.ways("root", "ordinary", "refused")
def test_75_seccomp_off(box):
    box.refuse = ("seccomp",)
    assert_refused(run(box), "seccomp")
    assert_refused(run(box, "--isolation", "standard"), "seccomp")
    outcome = run(box, "--isolation", "process")
    assert outcome.result["stdout"] == "ran\n", outcome
    assert outcome.meta["isolation"]["level"] == "process"
    assert_consistent(box, outcome, {"seccomp"})
    box.refuse = ()


def test_75_namespaces_off(box):
    outcome = run(box)
    assert outcome.result["stdout"] == "ran\n", outcome
    if box.way.has_namespaces:
        assert NAMESPACES <= outcome.layers
        assert_consistent(box, outcome, outcome.missing)
        return
    assert {"landlock", "seccomp", "no_new_privs"} <= outcome.layers, outcome
    assert outcome.meta["isolation"]["level"] == "standard"
    assert_consistent(box, outcome, NAMESPACES)
    assert_refused(run(box, "--isolation", "strict"), "userns")


@pytest.mark.ways("refused", "root-refused")
def test_75_namespaces_and_landlock_off(box):
    box.refuse = ("landlock",)
    assert_refused(run(box), "landlock")
    outcome = run(box, "--isolation", "process")
    assert outcome.result["stdout"] == "ran\n", outcome
    assert outcome.meta["isolation"]["level"] == "process"
    assert_consistent(box, outcome, NAMESPACES | {"landlock"})
    box.refuse = ()


@pytest.mark.ways("ordinary")
def test_75_no_cgroup_for_an_ordinary_user(box):
    outcome = run(box)
    assert_consistent(box, outcome, {"cgroup"})
    limits = outcome.meta["resource_limits"]
    for name in ("memory_by", "pids_by", "cpu_by"):
        assert not limits[name].startswith("cgroup"), limits
    assert_refused(run(box, "--isolation", "strict"), "cgroup")


NO_CGROUPS = ["unshare", "-m", "sh", "-c",
              'for t in $(awk \'/ - cgroup2? /{print $5}\' /proc/self/mountinfo); do '
              'umount -l "$t"; done; mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "sh"]


@pytest.mark.ways("root")
def test_75_root_without_cgroups(box):
    outcome = run(box, prefix=NO_CGROUPS)
    assert outcome.result["stdout"] == "ran\n", outcome
    assert "cgroup" in outcome.missing and "cgroup" not in outcome.layers, outcome
    assert not outcome.meta["resource_limits"]["memory_by"].startswith("cgroup"), outcome
    assert_refused(run(box, "--isolation", "strict", prefix=NO_CGROUPS), "cgroup")


@pytest.mark.ways("root")
def test_75_flavour_of_cgroups_is_named(box):
    flavours = {line.split()[line.split().index("-") + 1]
                for line in open("/proc/self/mountinfo")} & {"cgroup", "cgroup2"}
    outcome = run(box)
    if not flavours:
        assert "cgroup" in outcome.missing, outcome
        return
    by = outcome.meta["resource_limits"]["memory_by"]
    assert by in ("cgroup-v1", "cgroup-v2") if "cgroup" in outcome.layers else by, outcome
    if by == "cgroup-v1":
        assert "cgroup" in flavours
    report = doctor(box)
    assert any(word in json.dumps(report) for word in ("v1", "v2", "hybrid")), report


@pytest.mark.ways("root", "ordinary", "refused")
def test_75_doctor_and_results_agree(box):
    report, outcome = doctor(box), run(box)
    for layer in outcome.layers:
        assert says(report, layer) is True, layer
    for layer in outcome.missing:
        assert says(report, layer) is False, layer
    assert not outcome.layers & outcome.missing
