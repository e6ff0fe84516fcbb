"""install.py - shared by tests of packages: wheels made by hand, daemons that install them, and short
names for calls.
"""
import http.client
import os

import support
import wheels

CASTLE = wheels.Wheel("castle", "1.2", {"castle/__init__.py": "import moat\nwalls = moat.depth + 1\n"},
                      ["moat>=1"])
MOAT = wheels.Wheel("moat", "1.0", {"moat.py": "depth = 41\n"})
TOWER = wheels.Wheel("tower", "2.0", {"tower.py": "height = 7\n"})
WAVES = wheels.Wheel("PyWavelets", "6.0", {"pywt.py": "kind = 'made by hand'\n"})
HOLLOW = wheels.Wheel("hollow", "1.0", {"something_else.py": ""})
LARGE = wheels.Wheel("large", "1.0", {"large.py": "x = '" + "brick " * 700000 + "'\n"})
ALL = (CASTLE, MOAT, TOWER, WAVES, HOLLOW, LARGE)


def settings(shelf, **more):
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": shelf, "SANDBOX_AUTO_INSTALL": "true", **more}


def gated(index, **more):
    return {"PIP_INDEX_URL": index.url, "SANDBOX_INDEX_HOSTS": index.host,
            "SANDBOX_AUTO_INSTALL": "true", **more}


def started(daemon):
    """What a daemon starts with its first work is there: the egress proxy, warm interpreters."""
    with session(daemon) as here:
        assert cell(daemon, here, "import tower")["exit_code"] == 0
    run(daemon, "pass")
    support.wait_until(lambda: not left_packages(daemon), "nothing is left of it")
    return daemon


class session:
    """One that is there for the block."""

    def __init__(self, daemon, **members):
        self.daemon, self.members = daemon, members

    def __enter__(self):
        self.id = self.daemon.session(**self.members)["id"]
        return self.id

    def __exit__(self, *_):
        self.daemon.end(self.id)


def cell(daemon, here, code, **members):
    return daemon.post(f"/v1/sessions/{here}/code", {"code": code, **members})


def run(daemon, code, **members):
    return daemon.post("/v1/run", {"code": code, **members})


def install(daemon, here, *packages):
    return daemon.post(f"/v1/sessions/{here}/packages", {"packages": list(packages)})


def packages(daemon, here):
    return daemon.get(f"/v1/sessions/{here}/packages")["packages"]


def names(listed):
    return {one["name"]: one["version"] for one in listed}


def left_packages(daemon):
    """Of sessions and runs; folders of prewarmed boxes are the launcher's."""
    return [name for name in os.listdir(daemon.state / "packages") if not name.startswith("p_")]


def builds(daemon):
    return [name for name in os.listdir(daemon.state / "layers") if name.startswith(".build-")]


def kill_broker(daemon):
    """And waits for the next one."""
    before = daemon.get("/v1/info")
    os.kill(before["broker_pid"], 9)

    def is_back():
        try:
            return daemon.get("/v1/info")["generation"] > before["generation"]
        except (OSError, http.client.HTTPException, AssertionError):
            return False
    support.wait_until(is_back, "the next broker")
