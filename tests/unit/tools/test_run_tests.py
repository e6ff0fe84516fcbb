"""test_run_tests.py - tools/run-tests counts a test that passes when it is tried again, and no other."""
import importlib.machinery
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
CONFTEST = f"""
import sys
sys.path.insert(0, {str(ROOT / "tests")!r})
import failures

def pytest_runtest_logreport(report):
    failures.note(report)
"""
ONCE = """
def test_good():
    pass

def test_unsteady(request):
    seen = request.path.with_name("seen")
    first = not seen.exists()
    seen.write_text("")
    assert not first
"""
ALWAYS = """
import pytest

@pytest.mark.parametrize("number", range({count}))
def test_bad(number):
    assert number < 0
"""
BREAKS_TWICE = """
import pytest

@pytest.fixture
def furniture():
    yield
    raise ValueError("left behind")

def test_bad(furniture):
    raise KeyError("once")
"""


@pytest.fixture
def program(monkeypatch):
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    loader = importlib.machinery.SourceFileLoader("run_tests", str(ROOT / "tools/run-tests"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("run_tests", loader))
    loader.exec_module(module)
    return module


def count(program, folder, text):
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_it.py").write_text(text)
    totals = program.Totals()
    program.run_pytest("it", str(folder), totals, "--rootdir", str(folder), str(folder / "test_it.py"))
    return totals


@pytest.fixture
def at_the_root(program, monkeypatch, tmp_path):
    """Names of tests are relative to pytest's root, which is the working folder of the real suites."""
    monkeypatch.chdir(tmp_path)
    return program


def test_one_that_passes_alone_is_counted_and_named(at_the_root, tmp_path):
    totals = count(at_the_root, tmp_path, ONCE)
    assert totals.line() == "2 passed, 0 failed, 0 skipped"
    assert totals.unsteady == ["test_it.py::test_unsteady"]


def test_one_that_fails_again_has_failed(at_the_root, tmp_path):
    totals = count(at_the_root, tmp_path, ALWAYS.format(count=2))
    assert totals.line() == "0 passed, 2 failed, 0 skipped"
    assert totals.unsteady == []


def test_many_failures_are_not_tried_again(at_the_root, tmp_path, monkeypatch):
    monkeypatch.setattr(at_the_root, "passes_alone", lambda name, folder: True)
    totals = count(at_the_root, tmp_path, ALWAYS.format(count=at_the_root.UNSTEADY_MAX + 1))
    assert totals.line() == "0 passed, 7 failed, 0 skipped"


def test_one_that_fails_and_cannot_be_torn_down_counts_once(at_the_root, tmp_path):
    totals = count(at_the_root, tmp_path, BREAKS_TWICE)
    assert totals.line() == "0 passed, 1 failed, 0 skipped"


def test_an_attack_has_to_fail_each_time(program, monkeypatch):
    asked = []

    def third_fails(report, failures, *options):
        asked.append(options[-1])
        return 1 if len(asked) == 3 else 0

    monkeypatch.setattr(program, "pytest", third_fails)
    assert not program.passes_alone("tests/escape/test_x.py::test_y", "folder")
    assert asked == ["tests/escape/test_x.py::test_y"] * 3
