"""conftest.py - fixtures of the black-box suites; the helpers themselves are in support.py."""
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import docker  # noqa: E402  (the path has to be there first)
import failures  # noqa: E402
import own  # noqa: E402
import support  # noqa: E402
import verdicts  # noqa: E402

LEAK_CHECKED = {"scenario", "escape", "conformance"}


def pytest_configure(config):
    config.addinivalue_line("markers", "needs_namespaces: a plain run has to get a box with namespaces")
    config.addinivalue_line("markers", "attack(number, runtime=None): tries a known attack; see verdicts.py")
    # A shell starts what it puts in the background deaf to these, and tests ask what they do.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGQUIT, signal.SIGHUP):  # SIGHUP: nohup
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    own.settle()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    verdicts.record(item, (yield).get_result())


def pytest_runtest_logreport(report):
    failures.note(report)


def pytest_runtest_setup(item):
    if item.get_closest_marker("needs_namespaces"):
        support.need_namespaces()


def pytest_sessionfinish(session):
    own.leave()
    support.remove_base()


# Files that take longest come first, so that at the end no worker is alone with one of them.
SLOWEST = ("test_docker_attacks.py", "test_broker_killed.py", "test_openapi.py", "test_data_template.py",
           "test_fault_alloc.py", "test_mcp_clients.py", "test_install_limits.py", "test_install.py",
           "test_kernel_attacks.py", "test_warm_zygote.py", "test_escape_processes.py",
           "test_kernel_joining.py", "test_docker_kernels.py")


def group_of(item):
    """Tests that must not run beside each other are one group, which one worker gets. A file is one:
    its tests may share a daemon. So are all that use the data template: its state folder has a lock."""
    return "data_template" if hasattr(item.module, "data_template") else item.path.name


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(config, items):
    verdicts.number(items)
    if config.pluginmanager.hasplugin("xdist"):
        order = {name: number for number, name in enumerate(SLOWEST)}
        items.sort(key=lambda item: order.get(item.path.name, len(order)))  # stable
        for item in items:
            item.add_marker(pytest.mark.xdist_group(group_of(item)))
    # Without a binary nothing here can be true: say so once per test instead of failing oddly.
    if not os.access(support.BAILEY, os.X_OK):
        for item in items:
            item.fixturenames.insert(0, "binary")


@pytest.fixture
def binary():
    assert os.access(support.BAILEY, os.X_OK), f"no binary at {support.BAILEY}: run make first"
    return support.BAILEY


@pytest.fixture
def leaks():
    """Fails the test that leaves a process, mount, cgroup, folder or file in TMPDIR behind."""
    support.reap_orphans()
    support.rooms.clear()
    before = support.snapshot()
    yield before
    left = support.left_since(before)
    support.end_new(before)
    for room in support.rooms:
        room.remove()
    support.rooms.clear()
    support.reap_orphans()
    assert not left, "left behind: " + "; ".join(left)


@pytest.fixture(autouse=True)
def nothing_is_left(request):
    """The leak check, in every suite that promises it."""
    if LEAK_CHECKED & set(request.path.parts):
        request.getfixturevalue("leaks")


@pytest.fixture
def room():
    return support.Room()


@pytest.fixture
def user_room():
    return support.Room(support.ORDINARY_UID if support.is_root() else None)


@pytest.fixture(scope="session")
def dockerd():
    """A Docker daemon of this run's own, with the image that `bailey image build` makes. Without
    one what asks for it fails."""
    running = docker.Dockerd()
    try:
        running.build_image()
        yield running
    finally:
        running.close()


@pytest.fixture
def clean_docker(dockerd):
    """The same; fails the test that leaves a container, volume, network or layer in it."""
    before = dockerd.kept()
    yield dockerd
    left = dockerd.left_since(before)
    assert not left, "left in Docker: " + "; ".join(left)


def _way(name):
    if name.startswith("root") and not support.is_root():
        pytest.skip("has to be started as root")
    return support.ways()[name]


@pytest.fixture(params=["root", "ordinary", "refused", "root-refused"])
def way(request):
    """Every way to run: as root, as an ordinary user, and where namespaces are refused."""
    return _way(request.param)


@pytest.fixture(params=["root", "ordinary"])
def walled(request):
    """The ways that have namespaces of their own."""
    way = _way(request.param)
    support.need_sessions(way.user)
    return way


@pytest.fixture(params=["refused", "root-refused"])
def refused(request):
    """The ways that have none: Landlock and seccomp."""
    return _way(request.param)


@pytest.fixture(scope="session")
def science():
    """A Python with numpy and polars, made once beside the binary with pip."""
    return support.python_with("test-venv", ["numpy", "polars"])
