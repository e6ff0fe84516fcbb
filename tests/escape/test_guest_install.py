"""Requests that a hostile guest forges for the installer: the folder of `pip install` in a session's box."""
import json

import pytest

import serve
import support
import wheels
from install import ALL, cell, install, names, packages, session, settings

pytestmark = pytest.mark.attack(78)
PLACE = "/tmp/.bailey-install"

# Writes a request as pip does, waits for its answer, prints it. The marker is the last answer of all: requests
# are taken one at a time, so nothing that was asked for before it is under way any more.
ASK = """
import os, time
PLACE = "%s"
def put(name, data):
    with open(f"{PLACE}/new", "wb") as file: file.write(data)
    os.rename(f"{PLACE}/new", f"{PLACE}/{name}")
def answer(stem):
    while not os.path.exists(f"{PLACE}/{stem}.done"): time.sleep(0.02)
    return open(f"{PLACE}/{stem}.done").read()
""" % PLACE


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    path = tmp_path_factory.mktemp("shelf") / "wheels"
    wheels.folder(path, *ALL)
    return path


@pytest.fixture(scope="module")
def yard(shelf):
    with serve.Daemon(settings(shelf, SANDBOX_INSTALL_DENY="tower")) as running:
        with session(running) as here:  # the first installation starts the proxy, the first cell an interpreter
            install(running, here, "hollow")
            cell(running, here, "pass")
        yield running


@pytest.mark.parametrize("data", [
    b"", b"moat", b"\n", b"moat\x00\n", b"tower\n", b"--index-url=http://127.0.0.1/\n", b"-r /etc/passwd\n",
    b"../../x\n", b"moat @ file:///tmp/x.whl\n", b"x" * (16 << 10) + b"\n", b"moat\n" * 5000, b"\xff\xfe\n",
    b"moat\ntower\n",
], ids=range(13))
def test_a_hostile_request_installs_nothing_and_is_answered(yard, data):
    with session(yard) as here:
        done = yard.python(here, ASK + f"put('ab.ask', {data!r})\nprint(answer('ab'))")
        assert done["stdout"].startswith("1\nERROR: "), done
        assert packages(yard, here) == []


def test_names_links_and_folders_that_are_no_requests(yard):
    code = ASK + """
for name in ("x.ask", ".ask", "AB.ask", "ab" * 17 + ".ask", "ab.ask.new", "ab c.ask", "a\\n.ask"): put(name, b"moat\\n")
os.mkdir(PLACE + "/ac.ask"); os.mkfifo(PLACE + "/ad.ask")
open("/tmp/elsewhere", "w").write("moat\\n"); os.symlink("/tmp/elsewhere", PLACE + "/ae.ask")
os.symlink("/etc/passwd", PLACE + "/af.done"); os.symlink("/tmp/elsewhere", PLACE + "/aa.done")
put("af.ask", b"tower\\n")
while os.path.exists(PLACE + "/af.ask"): time.sleep(0.02)
while os.path.islink(PLACE + "/af.done"): time.sleep(0.02)
print(answer("af"), open("/tmp/elsewhere").read())
"""
    with session(yard) as here:
        done = yard.python(here, code)
        assert done["exit_code"] == 0 and "tower" in done["stdout"] and done["stdout"].endswith(" moat\n\n"), done
        assert packages(yard, here) == []


def test_a_flood_of_requests_costs_the_others_nothing(yard):
    flood = ASK + """
for n in range(3000):
    try: put("%x.ask" % n, b"tower\\n")
    except OSError: break
print("flooded")
"""
    with session(yard) as hostile, session(yard) as other:
        assert "flooded" in yard.python(hostile, flood)["stdout"]
        done = yard.exec(other, "pip", "install", "moat")
        assert done["exit_code"] == 0 and names(packages(yard, other)) == {"moat": "1.0"}, done
        assert packages(yard, hostile) == []
        asked = [json.loads(line) for line in (yard.state / "logs" / "audit.jsonl").read_text().splitlines()]
        refused = [one for one in asked if one.get("action") == "install" and one.get("session_id") == hostile]
        assert len(refused) < 300, "requests are taken at a pace"


def test_a_guest_without_auto_install_is_not_heard(shelf):
    with serve.Daemon(settings(shelf, SANDBOX_AUTO_INSTALL="false")) as daemon, session(daemon) as here:
        done = daemon.python(here, f"import os\nos.mkdir('{PLACE}')\n" + ASK + "put('ab.ask', b'moat\\n')")
        assert done["exit_code"] == 0, done
        # A later installation that was asked for outside has ended: the request was not taken before it.
        daemon.post(f"/v1/sessions/{here}/packages", {"packages": ["hollow"]})
        assert daemon.exec(here, "ls", PLACE)["stdout"] == "ab.ask\n"
        assert names(packages(daemon, here)) == {"hollow": "1.0"}


def test_a_folder_that_is_taken_away_is_made_again_for_a_later_call(yard):
    """Until the broker has heard that it is gone, pip says what else is possible; nothing else of the session suffers."""
    with session(yard) as here:
        assert yard.exec(here, "rm", "-rf", PLACE)["exit_code"] == 0

        def installed():
            done = yard.exec(here, "pip", "install", "moat")
            assert done["exit_code"] == 0 or "sandbox_install" in done["stderr"], done
            return done["exit_code"] == 0
        support.wait_until(installed, "the folder is made again")
        assert names(packages(yard, here)) == {"moat": "1.0"}
        assert yard.python(here, "print(6 * 7)")["stdout"] == "42\n"
