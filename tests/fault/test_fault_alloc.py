"""Allocation N fails, in a build of its own (-Dfault=true); BAILEY_FAIL_ALLOC says which."""
import struct

import fault
import pytest
import support


@pytest.fixture(scope="session")
def binary_that_fails():
    return support.fault_build()


def failing(binary, nth, room, *args):
    """A run whose Nth allocation fails (0: none); how many failed, the most one process made."""
    report = room.path / "allocations"
    report.write_bytes(bytes(8))
    report.chmod(0o666)
    ended = fault.call([binary, *args], f"allocation {nth}", room,
                       env={"BAILEY_FAIL_ALLOC": str(nth), "BAILEY_FAIL_ALLOC_REPORT": str(report)})
    return ended, *struct.unpack("II", report.read_bytes()[:8])


def assert_every_allocation(binary, *args, guest_prints=True):
    """Each N in turn; the short run takes the first hundred and then every seventh."""
    ended, failed, most = failing(binary, 0, support.Room(), *args)
    assert ended.status == 0 and failed == 0 and most > 20, (ended, failed, most)
    for nth in range(1, most + 1):
        if nth > 100 and nth % 7 and not fault.FULL:
            continue
        room = support.Room()
        ended, failed, _ = failing(binary, nth, room, *args)
        if guest_prints or ended.status != 0:
            fault.assert_right_or_clear(ended)
        assert failed or nth > 1, "no allocation failed: is this a build with -Dfault=true?"
        assert room.left_in_tmp() == [], ended
        room.remove()


def test_allocation_fails_in_exec(binary_that_fails):
    assert_every_allocation(binary_that_fails, "exec", "--json", "--file",
                            f"{fault.honest()}:/workspace/honest", "--", "./honest")


def test_allocation_fails_in_run(binary_that_fails):
    if not fault.FULL:
        pytest.skip("FAULT_FULL=1 (make soak): every allocation of a Python run takes minutes")
    assert_every_allocation(binary_that_fails, "run", "--json", "-c", "print(1)",
                            guest_prints=False)


@pytest.mark.parametrize("args", [("config", "--json"), ("help", "run"), ("version",),
                                  ("run", "--timeout", "x", "-c", "1"), ("doctor", "--json")],
                         ids=lambda args: args[0])
def test_allocation_fails_before_any_box(binary_that_fails, args):
    """Options, configuration, help: an answer or an error with a message, never a crash."""
    most = failing(binary_that_fails, 0, support.Room(), *args)[2]
    for nth in range(1, most + 1):
        if nth > 60 and nth % 11 and not fault.FULL:
            continue
        ended, _, _ = failing(binary_that_fails, nth, support.Room(), *args)
        # doctor answers 1 when a run would be refused, and a probe that failed counts as missing.
        assert ended.status in (0, 125, 126, *([1] if args[0] == "doctor" else [])), ended
        assert ended.err.strip() or ended.out.strip(), f"no word: {ended}"
