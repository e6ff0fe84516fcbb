"""Allocation N fails. A build of its own (-Dfault=true) counts; BAILEY_FAIL_ALLOC says which one."""
import os
import subprocess
from pathlib import Path

import fault
import pytest
import support

MOST = 20000  # allocations of one run; far above any real number
QUIET = 12    # so many runs in a row without an effect: the count is behind us


@pytest.fixture(scope="session")
def binary_that_fails():
    """$BAILEY_FAULT, or a build beside the tree's own."""
    given = os.environ.get("BAILEY_FAULT")
    if given:
        return Path(given).absolute()
    folder = support.REPO / "build-fault"
    steps = [["ninja", "-C", str(folder), "bailey"]]
    if not (folder / "build.ninja").exists():
        steps.insert(0, ["meson", "setup", str(folder), str(support.REPO), "-Dfault=true"])
    for step in steps:
        done = subprocess.run(step, cwd=support.REPO, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return folder / "bailey"


def failing(binary, nth, room, *args):
    return fault.call([binary, *args], f"allocation {nth}", room,
                      env={"BAILEY_FAIL_ALLOC": str(nth)})


def assert_every_allocation(binary, *args):
    """Each N in turn (every fourth in the short run, and all of the first hundred)."""
    quiet, nth, failures = 0, 0, 0
    while quiet < QUIET and nth < MOST:
        nth += 1 if fault.FULL or nth < 100 else 4
        room = support.Room()
        ended = failing(binary, nth, room, *args)
        fault.assert_right_or_clear(ended, guest_may_fail=True)
        assert room.left_in_tmp() == [], ended
        room.remove()
        failed = ended.status != 0
        failures += failed
        quiet = 0 if failed else quiet + 1
    assert nth < MOST, "no run without a failed allocation"
    assert failures > 0, "no allocation ever failed: is this a build with -Dfault=true?"


def test_allocation_fails_in_exec(binary_that_fails):
    assert_every_allocation(binary_that_fails, "exec", "--json", "--file",
                            f"{fault.honest()}:/workspace/honest", "--", "./honest")


def test_allocation_fails_in_run(binary_that_fails):
    if not fault.FULL:
        pytest.skip("FAULT_FULL=1 (make soak): every allocation of a Python run takes minutes")
    assert_every_allocation(binary_that_fails, "run", "--json", "-c", "print('{')")


def test_allocation_fails_before_any_box(binary_that_fails):
    """Options, configuration, help: an error and a status, never a crash."""
    for args in (("config", "--json"), ("help", "run"), ("version",), ("run", "--timeout", "x")):
        for nth in range(1, 60):
            ended = failing(binary_that_fails, nth, support.Room(), *args)
            assert ended.status in (0, 125), ended
            if ended.status == 125:
                assert ended.err.strip() or ended.out.strip(), ended
