"""One way to name a session: -s NAME in every command, NAME:PATH for files; ids and operands stay."""
import json

import pytest
import support
from daemon_fixture import DaemonFixture


@pytest.fixture
def daemon():
    daemon = DaemonFixture()
    daemon.ok("session", "new", "-s", "work")
    (daemon.room.work / "a.txt").write_text("from the host\n")
    daemon.room.give(daemon.room.work / "a.txt")
    daemon.ok("exec", "-s", "work", "--", "sh", "-c", "echo hello; echo 1,2 > /tmp/output/t.csv")
    yield daemon
    daemon.close()


# command line, part of what it prints
NAMED = [
    (["session", "show", "-s", "work"], "work"),
    (["session", "show", "work"], "work"),
    (["session", "extend", "-s", "work", "30m"], ""),
    (["exec", "-s", "work", "--", "echo", "yes"], "yes"),
    (["code", "-s", "work", "-c", "40 + 2"], "42"),
    (["context", "ls", "-s", "work"], "NAME"),
    (["install", "-s", "work"], ""),
    (["tool", "-s", "work", "run_code", '{"code": "print(40 + 2)"}'], "42"),
    (["ls", "-s", "work", "/tmp/output"], "t.csv"),
    (["ls", "-s", "work"], "NAME"),
    (["ls", "work:/tmp/output"], "t.csv"),
    (["ls", "work"], "NAME"),
    (["cat", "-s", "work", "/tmp/output/t.csv"], "1,2"),
    (["cat", "-s", "work", ":/tmp/output/t.csv"], "1,2"),
    (["cat", "work:/tmp/output/t.csv"], "1,2"),
    (["cp", "-s", "work", "a.txt", ":/tmp/a.txt"], ""),
    (["cp", "-s", "work", ":/tmp/a.txt", "-"], "from the host"),
    (["cp", "work:/tmp/a.txt", "-"], "from the host"),
    (["rm", "-s", "work", "/tmp/a.txt"], ""),
    (["outputs", "-s", "work"], "t.csv"),
    (["outputs", "work"], "t.csv"),
    (["logs", "-s", "work", "1"], "hello"),
    (["logs", "work", "1"], "hello"),
    (["events", "-s", "work"], "work"),
    (["ps", "-a", "-s", "work"], "SESSION"),
    (["audit", "tail", "-s", "work"], ""),
]


def test_the_session_is_found_by_its_name(daemon):
    calls = [(argv, printed, daemon.call(*argv)) for argv, printed in NAMED]
    assert [done for _, printed, done in calls if done.status != 0 or printed not in done.stdout] == []


def test_the_id_works_where_the_name_does(daemon):
    session = daemon.session()
    assert daemon.ok("session", "show", "-s", session).count(session)
    assert daemon.ok("ls", "-s", session).startswith("TYPE")
    daemon.ok("session", "rm", "-s", session)
    assert session not in daemon.ok("session", "ls", "-q")


REFUSED = [
    (["cat", "-s", "work", "other:/tmp/a"], "both name a session"),
    (["cp", "-s", "work", "a.txt", "other:/tmp/a"], "both name a session"),
    (["cp", "-s", "work", "a.txt", "b.txt"], ":PATH beside -s NAME"),
    (["outputs", "-s", "work", "work"], "which session?"),
    (["logs", "-s", "work"], "which execution?"),
    (["session", "new", "-s", "a", "--name", "b"], "both name the new session"),
    (["session", "ls", "-s", "work"], "--session is not for 'session ls'"),
]


def test_two_names_are_refused_and_nothing_is_done(daemon):
    calls = [(words, daemon.call(*argv)) for argv, words in REFUSED]
    assert [done for words, done in calls if done.status != 125 or words not in done.stderr] == []
    assert len(daemon.ok("session", "ls", "-q").split()) == 1


def test_list_create_and_delete_are_the_actions_of_every_command_that_has_them(daemon):
    for command, options in (("session", ()), ("template", ()), ("key", ()), ("context", ("-s", "work"))):
        listed = daemon.ok(command, "ls", "--json", *options)
        assert daemon.json(command, "list", "--json", *options).keys() == json.loads(listed).keys()
    for command, options in (("session", ()), ("key", ()), ("context", ("-s", "work"))):
        made = daemon.json(command, "create", "--json", *options)["id"]
        daemon.ok(command, "delete", made, *options)
        assert made not in daemon.ok(command, "ls", "--json", *options)


# what is typed, and what is meant
MISTYPED = [(("session", "nwe"), "new"), (("session", "shwo"), "show"), (("template", "biuld"), "build"),
            (("key", "rotat"), "rotate"), (("context", "restrat"), "restart"), (("image", "buil"), "build"),
            (("template", "lits"), "list"), (("session", "craete"), "create"), (("key", "delte"), "delete"),
            (("daemon", "statsu"), "status"), (("audit", "verfy"), "verify")]


def test_a_mistyped_action_is_told_the_nearest():
    for words, meant in MISTYPED:
        done = support.bailey(*words)
        assert done.status == 125, done
        assert done.stderr == f"bailey: unknown action '{words[1]}'; did you mean 'bailey {words[0]} {meant}'?\n"
