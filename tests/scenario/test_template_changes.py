"""A template that is built again while the daemon runs: what is warm follows it, what lives keeps its
own. Templates of one tiny module each, so that they are told apart by importing it."""
import pytest

import serve
import support
import wheels


@pytest.fixture(scope="module")
def shelf(tmp_path_factory):
    path = tmp_path_factory.mktemp("shelf") / "wheels"
    wheels.folder(path, *(wheels.Wheel("flag", f"{number}.0", {"flag.py": f"number = {number}\n"})
                          for number in (1, 2)))
    return path


@pytest.fixture
def daemon(shelf):
    """Its default template is not built yet."""
    with serve.Daemon({"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": shelf, "SANDBOX_TEMPLATE": "flags",
                       "SANDBOX_POOL_SIZE": "2"}) as running:
        yield running


def build(daemon, number):
    """The layer of the default template with that version of the module."""
    return daemon.post("/v1/templates", {"name": "flags", "packages": [f"flag=={number}.0"],
                                         "tiers": [{"name": "flag", "modules": ["flag"]}]})["layer"]


def zygotes(daemon, layer):
    return [one for one in daemon.get("/v1/warm")["zygotes"] if one["layer"] == layer]


def pooled(daemon, layer):
    return sum(one["pooled"] for one in zygotes(daemon, layer) if one["ready"])


def wait_for_pool(daemon, layer):
    support.wait_until(lambda: pooled(daemon, layer) > 0, "a box of that layer stands ready")


def cell(daemon, session, code, **members):
    done = daemon.post(f"/v1/sessions/{session}/code", {"code": code, **members})
    assert done["exit_code"] == 0, done
    return done


def test_the_default_template_is_built_while_the_daemon_runs(daemon):
    layer = build(daemon, 1)
    wait_for_pool(daemon, layer)  # nobody has asked for one
    done = daemon.post("/v1/run", {"code": "print('warm')"})
    assert (done["stdout"], done["meta"]["warm"]) == ("warm\n", "pool"), done


def test_a_changed_template_has_a_new_zygote_and_new_boxes(daemon):
    """Nothing of the old one is left, and nobody had to ask for anything."""
    first = build(daemon, 1)
    wait_for_pool(daemon, first)
    second = build(daemon, 2)
    assert second != first
    wait_for_pool(daemon, second)
    support.wait_until(lambda: not zygotes(daemon, first), "the old zygote has gone")
    done = daemon.post("/v1/run", {"code": "import flag\nprint(flag.number)"})
    assert done["stdout"] == "2\n", done


def test_what_lives_keeps_its_own(daemon):
    """A session of before has its variables, its modules, and kernels from its own zygote."""
    first = build(daemon, 1)
    wait_for_pool(daemon, first)
    old = daemon.session()["id"]
    cell(daemon, old, "import flag\nx = flag.number")
    second = build(daemon, 2)
    wait_for_pool(daemon, second)
    assert pooled(daemon, first) == 0
    assert cell(daemon, old, "print(x)")["stdout"] == "1\n"
    another = daemon.post(f"/v1/sessions/{old}/contexts", {}, 201)["id"]
    done = cell(daemon, old, "import flag\nprint(flag.number)", context=another)
    assert (done["stdout"], done["meta"]["warm"]) == ("1\n", "zygote"), done
    new = daemon.session()["id"]
    assert cell(daemon, new, "import flag\nprint(flag.number)")["stdout"] == "2\n"
    daemon.end(old)
    support.wait_until(lambda: not zygotes(daemon, first), "nobody needs the old zygote any more")


def test_removed_and_built_again(daemon):
    layer = build(daemon, 1)
    wait_for_pool(daemon, layer)
    daemon.asked("DELETE", "/v1/templates/flags")
    support.wait_until(lambda: not zygotes(daemon, layer), "its zygote has gone")
    daemon.refused("POST", "/v1/run", 404, "template_not_found", {"code": "1"})
    wait_for_pool(daemon, build(daemon, 2))
