"""test_bench_check.py - bench/check.py fails for a call that became slower, and only for that."""
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def check():
    spec = importlib.util.spec_from_file_location("bench_check", ROOT / "bench/check.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def figures(check, share):
    """Each call takes `share` of its limit."""
    found = {"/bin/true": 1.0, "bwrap /bin/true": 4.0, "bwrap python3": 12.0}
    return {**found, **{name: found[peer] * limit * share for name, peer, limit in check.ROWS}}


def test_within_the_limits(check):
    rows = check.judge(figures(check, 0.99))
    assert len(rows) == len(check.ROWS)
    assert check.status_of(rows) == 0


def test_one_call_above_its_limit(check):
    slow = figures(check, 0.5)
    slow["cell over HTTP"] *= 2.1
    assert check.status_of(check.judge(slow)) == 1


def test_without_bubblewrap_its_rows_are_left_out(check):
    found = {name: ms for name, ms in figures(check, 0.5).items() if not name.startswith("bwrap")}
    assert {row[2] for row in check.judge(found)} == {"/bin/true"}


def test_each_row_is_something_that_is_measured(check):
    assert {name for name, _, _ in check.ROWS} == set(check.builds.KINDS) - {"a 404"}
