"""When the best way is refused the next best is taken, and nothing more is given up than has to be."""
import pytest
import support

NAMESPACES = {"userns", "mountns", "pidns", "netns", "ipcns", "utsns"}


@pytest.mark.needs_namespaces
def test_a_refused_setns_costs_no_namespace():
    result = support.run_json("print(open('/proc/net/dev').read().count(':'))", deny=("setns",))
    assert result["exit_code"] == 0, result
    assert NAMESPACES <= set(result["meta"]["isolation"]["layers"])
    assert result["stdout"] == "1\n"  # loopback and nothing else


def test_an_out_folder_that_is_none_is_said_before_the_run(room):
    room.write("points.csv", "1,2\n")
    done = support.bailey("run", "--out", "points.csv", "-c", "print('ran')", room=room)
    assert done.status == 125 and "ran" not in done.stdout
    assert "not a folder" in done.stderr
    assert (room.work / "points.csv").read_text() == "1,2\n"


def test_an_out_folder_that_cannot_be_made_is_said_before_the_run(room):
    done = support.bailey("run", "--out", "no/such/place", "-c", "print('ran')", room=room)
    assert done.status == 125 and "ran" not in done.stdout
    assert "no/such/place" in done.stderr


def test_a_wrong_request_is_no_execution_to_keep(room):
    for args, env in ((("--file", "none.csv"), {}), ((), {"SANDBOX_PYTHON": "/none/python3"}),
                      ((), {"SANDBOX_TYPE": "kubernetes"}), (("--out", "a/b/c"), {})):
        done = support.bailey("run", *args, "-c", "print(1)", env=env, room=room)
        assert done.status == 125, done
    assert list(room.work.iterdir()) == []


@pytest.mark.needs_namespaces
def test_limits_say_who_holds_them():
    limits = support.run_json("pass", "--disk", "64m")["meta"]["resource_limits"]
    assert limits["timeout_by"] == limits["output_by"] == "engine"
    assert limits["disk_inodes"] == 64 * 1024 * 1024 // 4096
