"""As root, as an ordinary user, where namespaces are refused: the level is in every result."""
import pytest
import support

NAMESPACES = {"userns", "mountns", "pidns", "netns", "ipcns", "utsns"}
LEVELS = ("process", "standard", "strict")


def test_the_level_is_in_every_result(way):
    for code in ("print(1)", "1/0", "for"):
        isolation = way.run_json(code).meta["isolation"]
        assert isolation["level"] in LEVELS[1:]
        assert not set(isolation["layers"]) & set(isolation["missing"])


def test_namespaces_hold_root_and_the_ordinary_user(walled):
    isolation = walled.run_json("pass").meta["isolation"]
    assert NAMESPACES | {"seccomp", "no_new_privs", "caps"} <= set(isolation["layers"])


def test_without_namespaces_landlock_and_seccomp_hold(refused):
    isolation = refused.run_json("pass").meta["isolation"]
    assert {"seccomp", "landlock", "no_new_privs"} <= set(isolation["layers"])
    assert NAMESPACES <= set(isolation["missing"])
    assert not NAMESPACES & set(isolation["layers"])
    assert isolation["level"] == "standard"


def test_layers_claimed_are_layers_that_hold(way):
    """The kernel's own word, from inside."""
    code = "print([l.split()[1] for l in open('/proc/self/status') if l.startswith('Seccomp:')])"
    result = way.run_json(code)
    if "Error" in result["stderr"]:
        pytest.skip("this box has no /proc to read it from")
    assert result["stdout"] == "['2']\n"
    assert "seccomp" in result.meta["isolation"]["layers"]


@pytest.mark.parametrize("by", ["flag", "environment", "file"])
def test_strict_is_refused_with_what_is_missing(refused, by):
    room = refused.room()
    options, env = [], {}
    if by == "flag":
        options = ["--isolation", "strict"]
    elif by == "environment":
        env = {"SANDBOX_ISOLATION": "strict"}
    else:
        room.write("bailey.yaml", "sandbox:\n  isolation: strict\n")
    result = refused.run_json("print('ran')", *options, env=env, room=room)
    assert (result["exit_code"], result.status, result["stdout"]) == (1, 126, "")
    assert result.error["code"] == "refused"
    assert "userns" in result.error["message"] and "strict" in result.error["message"]
    assert NAMESPACES <= set(result.meta["isolation"]["missing"])


def test_a_refusal_on_the_command_line_says_what_to_do(refused):
    done = refused.bailey("run", "--isolation", "strict", "-c", "print('ran')")
    assert (done.status, done.out) == (126, b"")
    assert "userns" in done.stderr
    assert "doctor" in done.stderr or "--isolation" in done.stderr


def test_strict_runs_where_everything_holds_and_only_there(walled):
    """Either all layers hold, or the refusal names each one that does not."""
    plain = walled.run_json("pass").meta["isolation"]
    strict = walled.run_json("print('ran')", "--isolation", "strict")
    if plain["level"] == "strict":
        assert (strict["stdout"], strict.meta["isolation"]["level"]) == ("ran\n", "strict")
    else:
        assert (strict.status, strict["stdout"]) == (126, "")
        assert plain["missing"]
        assert any(layer in strict.error["message"] for layer in plain["missing"])


def test_process_level_has_to_be_asked_for_by_name():
    """Neither namespaces nor Landlock: nothing runs, unless somebody says 'process'."""
    deny = support.NO_NAMESPACES + support.NO_LANDLOCK
    result = support.run_json("print('ran')", deny=deny)
    assert (result.status, result["exit_code"], result["stdout"]) == (126, 1, "")
    assert result.error["code"] == "refused"
    assert "landlock" in result.error["message"].lower()
    asked = support.run_json("print('ran')", "--isolation", "process", deny=deny)
    assert (asked.status, asked["stdout"]) == (0, "ran\n"), asked
    assert asked.meta["isolation"]["level"] == "process"
    assert "landlock" in asked.meta["isolation"]["missing"]


def test_asking_for_less_does_not_make_it_less(walled):
    isolation = walled.run_json("pass", "--isolation", "process").meta["isolation"]
    assert NAMESPACES <= set(isolation["layers"])


def test_every_limit_says_what_holds_it(way):
    limits = way.run_json("pass").meta["resource_limits"]
    for name in ("memory_by", "pids_by", "disk_by"):
        assert limits[name] and limits[name] != "none", name


@pytest.mark.needs_namespaces
def test_missing_landlock_alone_is_said():
    if not support.is_root():
        pytest.skip("has to be started as root")
    isolation = support.run_json("pass", deny=support.NO_LANDLOCK).meta["isolation"]
    assert "landlock" in isolation["missing"] and "landlock" not in isolation["layers"]
    assert isolation["level"] == "standard"


def test_uid_split_is_missing_where_only_one_id_can_be_mapped():
    """A made-up uid has no range in /etc/subuid: warden and guest share its one id."""
    isolation = support.ways()["ordinary"].run_json("pass").meta["isolation"]
    assert "uid_split" in isolation["missing"]


def test_nothing_is_missing_without_being_said(way):
    """Every layer of the table is either held or missing."""
    isolation = way.run_json("pass").meta["isolation"]
    assert NAMESPACES | {"seccomp", "landlock", "cgroup", "no_new_privs", "caps"} <= (
        set(isolation["layers"]) | set(isolation["missing"]))
