"""Templates: built in a box of their own, then what boxes are furnished with."""
import json
import os
import threading

import pytest

import serve
import support
import wheels

CASTLE = wheels.Wheel("castle", "1.2", {"castle/__init__.py": "import moat\nwalls = moat.depth + 1\n"},
                      ["moat>=1"])
MOAT = wheels.Wheel("moat", "1.0", {"moat.py": "depth = 41\n"})
NOISY = wheels.Wheel("noisy", "1.0", {
    "noisy.py": "import os, pathlib\n"
                "home = pathlib.Path(os.environ['HOME'])\n"
                "(home / '.cache' / 'noisy').mkdir(parents=True, exist_ok=True)\n"
                "kept = home / '.cache' / 'noisy' / 'list'\n"
                "if not kept.exists():\n    kept.write_text('made in ' + str(home))\n"})
BROKEN = wheels.Wheel("broken", "1.0", {"broken.py": "raise RuntimeError('no, not me')\n"})


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    """A folder of wheels, with their hashes."""
    path = tmp_path_factory.mktemp("shelf") / "wheels"
    return path, wheels.folder(path, CASTLE, MOAT, NOISY, BROKEN)


@pytest.fixture(scope="module")
def yard(shelf):
    """A daemon whose pip has no index but that folder."""
    # No warm interpreters: they come and go by themselves, and would look like something left.
    with serve.Daemon({"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": shelf[0],
                       "SANDBOX_WARM": "false"}) as running:
        build(running, name="first")  # the egress proxy is started by the first installer
        yield running


def build(daemon, **template):
    return daemon.post("/v1/templates", {"warm_up": [], **template})


def run(daemon, template, code):
    done = daemon.bailey("run", "--template", template, "-c", code)
    assert done.status == 0, done
    return done.stdout.strip()


def layers(daemon):
    folder = daemon.state / "layers"
    return sorted(name for name in os.listdir(folder) if not name.startswith("."))


def test_known_without_a_file(yard):
    known = {one["name"]: one for one in yard.get("/v1/templates")["templates"]}
    assert known["python"]["state"] == "built" and known["data"]["state"] == "not_built"
    said = yard.bailey("run", "--template", "data", "-c", "1")
    assert said.status == 125 and "bailey template build data" in said.stderr, said
    said = yard.bailey("run", "--template", "dat", "-c", "1")
    assert said.status == 125 and "there is no template 'dat'" in said.stderr, said
    assert yard.refused("GET", "/v1/templates/dat", 404, "template_not_found")


def test_packages_variables_files(yard):
    """Everything a template can have is in the box, and only what was asked for was installed."""
    built = build(yard, name="castle", packages=["castle"], env={"MOAT": "full", "TOWERS": "4"},
                  files={"plan/map.txt": "aGVyZQ=="}, tiers=[{"name": "core", "modules": ["moat"]}])
    assert built["state"] == "built" and built["was_there"] is False
    assert built["packages"] == [{"name": "castle", "version": "1.2"},
                                 {"name": "moat", "version": "1.0"}]
    code = ("import castle, os, sys; print(castle.walls, os.environ['MOAT'], os.environ['TOWERS'], "
            "open('/bailey/template/files/plan/map.txt').read(), sys.prefix)")
    assert run(yard, "castle", code) == "42 full 4 here /bailey/template"
    done = yard.bailey("run", "--template", "castle", "-e", "TOWERS=9", "-c",
                       "import os; print(os.environ['TOWERS'])")
    assert done.stdout == "9\n", done
    done = yard.bailey("exec", "--template", "castle", "--", "python", "-c", "import castle")
    assert done.status == 0, done
    tiers = (yard.state / "layers" / (built["layer"] + ".tiers")).read_text()
    assert tiers == "core moat\n"


def test_the_layer_cannot_be_written(yard):
    build(yard, name="castle", packages=["castle"])
    code = ("import os, castle\n"
            "for path in ('/bailey/template/x', castle.__file__):\n"
            "    try:\n        open(path, 'w')\n    except OSError as error:\n"
            "        print(error.errno)")
    assert run(yard, "castle", code).split() == ["30", "30"]


def test_same_again_is_there_already(yard, shelf):
    lock = "".join(f"{wheel.name}=={wheel.version} --hash=sha256:{shelf[1][wheel.name]}\n"
                   for wheel in (CASTLE, MOAT))
    first = build(yard, name="locked", lock=lock)
    again = build(yard, name="locked", lock=lock)
    assert first["was_there"] is False and again["was_there"] is True
    assert first["layer"] == again["layer"]


def test_same_inputs_same_layer(yard):
    """Without a lock it is built again, and the same bytes get the same name."""
    one = build(yard, name="same", packages=["castle"])
    two = build(yard, name="same", packages=["castle"])
    assert two["was_there"] is False and one["layer"] == two["layer"]


def test_two_at_once_are_one(yard):
    found, body = [], {"name": "once", "packages": ["castle"], "warm_up": ["castle"]}
    threads = [threading.Thread(target=lambda: found.append(yard.post("/v1/templates", body)))
               for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({one["layer"] for one in found}) == 1 and len(found) == 3


def test_a_wrong_hash_is_refused(yard):
    refused = yard.refused("POST", "/v1/templates", 409, "install_failed",
                           {"name": "bad", "lock": "moat==1.0 --hash=sha256:" + "0" * 64 + "\n"})
    assert "HASH" in refused["message"].upper(), refused
    assert yard.refused("GET", "/v1/templates/bad", 404, "template_not_found")


def test_what_is_not_on_the_index(yard):
    before = layers(yard)
    refused = yard.refused("POST", "/v1/templates", 409, "install_failed",
                           {"name": "none", "packages": ["no-such-package-here"]})
    assert "no-such-package-here" in refused["message"], refused
    assert layers(yard) == before


def test_warm_up_keeps_what_modules_write_at_home(yard):
    """As Matplotlib's list of fonts: made once, there at every start."""
    build(yard, name="noisy", packages=["noisy"], warm_up=["noisy"])
    code = "import noisy; print(noisy.kept.read_text(), noisy.kept.is_symlink())"
    assert run(yard, "noisy", code) == "made in /bailey/template/home True"


def test_warm_up_that_fails(yard):
    refused = yard.refused("POST", "/v1/templates", 409, "install_failed",
                           {"name": "broken", "packages": ["broken"], "warm_up": ["broken"]})
    assert "importing broken: RuntimeError: no, not me" in refused["message"]


def test_progress_as_events(yard):
    with yard.events("/v1/templates", {"name": "told", "packages": ["moat"]},
                     method="POST") as events:
        built = events.until("built").data
    lines = [event.data["line"] for event in events.seen if event.type == "progress"]
    assert any("moat" in line for line in lines), lines
    assert built["name"] == "told"


def test_who_leaves_gives_it_up(yard, shelf):
    """The installer box goes, and nothing stays of what it had written."""
    slow = wheels.Wheel("slow", "1.0", {"slow.py": "import time\ntime.sleep(1000)\n"})
    slow.write(shelf[0])
    events = yard.events("/v1/templates", {"name": "slow", "packages": ["slow"],
                                           "warm_up": ["slow"]}, method="POST")
    events.until("progress", lambda data: data["line"] == "importing slow")
    events.close()
    folder = yard.state / "layers"
    support.wait_until(lambda: not [name for name in os.listdir(folder)
                                    if name.startswith(".build-")], "the folder is gone")
    assert yard.refused("GET", "/v1/templates/slow", 404, "template_not_found")


def test_a_template_folder(yard):
    yard.room.write("mine/template.yaml", "name: mine\npackages: [moat]\nenv: {A: '1'}\n"
                                          "files:\n  - {path: notes, from: notes.txt}\n")
    yard.room.write("mine/notes.txt", "word")
    done = yard.bailey("template", "build", "mine")
    assert done.status == 0 and "the template 'mine' is built" in done.stderr, done
    assert run(yard, "mine", "import moat; print(moat.depth, open('/bailey/template/files/notes')"
                             ".read())") == "41 word"
    shown = json.loads(yard.bailey("template", "show", "mine", "--json").stdout)
    assert shown["state"] == "built" and shown["env"] == {"A": "1"}
    listed = yard.bailey("template", "ls", "-q").stdout.split()
    assert "mine" in listed and "python" in listed
    yard.room.write("mine/template.yaml", "name: mine\npakages: [moat]\n")
    done = yard.bailey("template", "build", "mine")
    assert done.status == 125, done
    assert "mine/template.yaml:2: 'pakages' is unknown here (did you mean 'packages'?)" in done.stderr


def test_verify_finds_a_changed_byte(yard):
    built = build(yard, name="watched", packages=["moat"])
    assert yard.post("/v1/templates/watched/verify")["intact"] is True
    path = next((yard.state / "layers" / built["layer"]).rglob("moat.py"))
    mode = path.stat().st_mode
    path.chmod(0o644)
    path.write_text("depth = 40\n")
    path.chmod(mode)
    said = yard.post("/v1/templates/watched/verify")
    assert said["intact"] is False and "moat.py" in said["problem"], said
    done = yard.bailey("template", "verify", "watched")
    assert done.status == 1 and "damaged" in done.stderr, done
    yard.asked("DELETE", "/v1/templates/watched")


def test_removed_with_its_layer(yard):
    built = build(yard, name="gone", packages=["moat"], env={"ONLY": "here"})
    assert built["layer"] in layers(yard)
    done = yard.bailey("template", "rm", "gone")
    assert done.status == 0, done
    assert not [name for name in layers(yard) if name.startswith(built["layer"])]
    assert yard.refused("DELETE", "/v1/templates/gone", 404, "template_not_found")
    support.wait_until(lambda: not [name for name in os.listdir(yard.state / "layers")
                                    if name.startswith(".gone")], "it is emptied")


def test_rebuilt_drops_the_old_layer(yard):
    first = build(yard, name="changing", packages=["moat"])
    second = build(yard, name="changing", packages=["moat"], env={"NEW": "1"})
    assert first["layer"] != second["layer"]
    assert first["layer"] not in layers(yard) and second["layer"] in layers(yard)


def test_another_python_is_wanted(yard):
    refused = yard.refused("POST", "/v1/templates", 409, "install_failed",
                           {"name": "old", "python": "2.7"})
    assert "wants Python 2.7" in refused["message"]


@pytest.mark.parametrize("body, word", [
    ({}, "name"),
    ({"name": "python"}, "nothing to build"),
    ({"name": "UP"}, "small letters"),
    ({"name": "a", "packages": ["--index-url=http://x"]}, "not the name of a package"),
    ({"name": "a", "packages": ["x @ file:///etc/passwd"]}, "not the name of a package"),
    ({"name": "a", "files": {"../up": "aGk="}}, "not a relative path"),
    ({"name": "a", "warm_up": ["os; import sys"]}, "none of modules"),
])
def test_what_is_wrong_is_told(yard, body, word):
    assert word in yard.refused("POST", "/v1/templates", 400, "bad_input", body)["message"]


def test_other_boxes_see_nothing_of_pip(yard):
    """pip's settings of this machine, and its folder of wheels, are for installers only."""
    build(yard, name="castle", packages=["castle"])
    code = ("import os; print(os.path.exists('/bailey/pip'), os.path.exists('/bailey/wheels'), "
            "[name for name in os.environ if name.startswith('PIP')])")
    assert run(yard, "castle", code) == "False False []"


def test_a_new_daemon_has_them_still(shelf):
    room = support.Room()
    env = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": shelf[0]}
    with serve.Daemon(env, room) as daemon:
        layer = build(daemon, name="kept", packages=["moat"])["layer"]
    with serve.Daemon(env, room) as daemon:
        assert daemon.get("/v1/templates/kept")["layer"] == layer
        assert run(daemon, "kept", "import moat; print(moat.depth)") == "41"
    room.remove()


def test_from_an_index_on_the_loopback(shelf):
    """Over the egress proxy, to an index that the operator has named; nothing else is reached."""
    with wheels.Index(shelf[0]) as index:
        env = {"PIP_INDEX_URL": index.url, "SANDBOX_INDEX_HOSTS": index.host}
        with serve.Daemon(env) as daemon:
            built = build(daemon, name="castle", packages=["castle"])
            assert [one["name"] for one in built["packages"]] == ["castle", "moat"]
            assert "/simple/castle/" in index.asked


def test_no_network_is_said_quickly():
    """Nobody listens where the index should be."""
    env = {"PIP_INDEX_URL": "http://127.0.0.1:9/simple", "SANDBOX_INDEX_HOSTS": "127.0.0.1:9"}
    with serve.Daemon(env) as daemon:
        refused = daemon.refused("POST", "/v1/templates", 503, "no_network",
                                 {"name": "castle", "packages": ["castle"]})
        assert "the package index cannot be reached" in refused["message"]


def test_an_installation_has_a_size(shelf, tmp_path):
    large = tmp_path / "wheels"
    wheels.folder(large, wheels.Wheel("large", "1.0", {
        "large.py": "with open('/bailey/template/large', 'wb') as file:\n"
                    "    for _ in range(64):\n        file.write(bytes(1 << 20))\n"}))
    tmp_path.chmod(0o755)
    env = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": large, "SANDBOX_INSTALL_SIZE": "16m"}
    with serve.Daemon(env) as daemon:
        refused = daemon.refused("POST", "/v1/templates", 413, "too_large",
                                 {"name": "large", "packages": ["large"], "warm_up": ["large"]})
        assert "16 MB" in refused["message"]
        assert layers(daemon) == []


def test_an_ordinary_user_has_them_too(shelf):
    """With one id for everything: the installer, the layer's owner and the boxes are the same."""
    if not support.is_root():
        pytest.skip("the other tests are that already")
    env = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": shelf[0]}
    shelf[0].parent.chmod(0o755)
    for folder in shelf[0].parents:  # the first is pytest's own, closed to others
        if folder.name.startswith(("pytest-", "popen-")):  # and that of a worker
            folder.chmod(0o755)
    with serve.Daemon(env, user=support.ORDINARY_UID) as daemon:
        built = build(daemon, name="castle", packages=["castle"])
        assert [one["name"] for one in built["packages"]] == ["castle", "moat"]
        assert run(daemon, "castle", "import castle; print(castle.walls)") == "42"
        daemon.asked("DELETE", "/v1/templates/castle")
        assert layers(daemon) == []
