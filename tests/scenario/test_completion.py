"""Completion in real shells: commands, actions, options, and the names of sessions and templates."""
import shutil
import subprocess

import pytest
import support
from daemon_fixture import DaemonFixture, on_terminal

# what is typed before a tab, and the arguments that bailey then gets
TYPED = [
    ("sess", "session"),
    ("session sho", "session show"),
    ("session show wor", "session show workshop"),
    ("run --time", "run --timeout"),
    ("code -s wor", "code -s workshop"),
    ("exec --session wor", "exec --session workshop"),
    ("ls wor", "ls workshop:"),
    ("run --template pyth", "run --template python"),
    ("template show pyth", "template show python"),
]


@pytest.fixture
def daemon():
    """One with a session; its room has a `bailey` that prints what it is called with."""
    daemon = DaemonFixture()
    daemon.ok("session", "new", "-s", "workshop")
    program = daemon.room.write("bailey", f"""#!/bin/sh
[ "$1" = complete ] && exec {support.BAILEY} "$@"
echo "GOT<$*>"
""")
    program.chmod(0o755)
    yield daemon
    daemon.close()


def path_with_room(daemon):
    return {"PATH": f"{daemon.room.work}:{support.environment(daemon.room, {})['PATH']}"}


def script(daemon, shell, name):
    return daemon.room.write(name, support.bailey("completion", shell).stdout)


def completed(daemon, argv, setup):
    """What bailey got for each line, after a tab and a return."""
    steps = [(b"ready> ", b"\n".join(line.encode() for line in setup) + b"\n"), (b"IS-SET", b"")]
    for typed, _ in TYPED:
        steps.append((b"ready> ", f"bailey {typed}\t\n".encode()))
        steps.append((b"GOT<", b""))
    steps.append((b"ready> ", b"exit\n"))
    status, seen = on_terminal(daemon, steps=steps, argv=argv,
                               env={**path_with_room(daemon), "PS1": "ready> ", "PROMPT": "ready> "})
    text = seen.decode(errors="replace")
    return [part.partition(">")[0].strip() for part in text.split("GOT<")[1:]]


def test_bash(daemon):
    path = script(daemon, "bash", "complete.bash")
    assert subprocess.run(["bash", "-n", str(path)]).returncode == 0
    got = completed(daemon, ["bash", "--norc", "--noprofile", "-i"],
                    ["bind 'set enable-bracketed-paste off'", f"source {path}", "echo IS''-SET"])
    assert got == [expected for _, expected in TYPED]


def test_zsh(daemon):
    if not shutil.which("zsh"):
        pytest.skip("zsh is not installed: tools/setup test installs it")
    path = script(daemon, "zsh", "_bailey")
    assert subprocess.run(["zsh", "-n", str(path)]).returncode == 0
    got = completed(daemon, ["zsh", "-f", "-i"],
                    ["unset zle_bracketed_paste; setopt no_prompt_sp no_prompt_cr", f"fpath=({path.parent} $fpath)",
                     "autoload -Uz compinit; compinit -u -D", "print IS''-SET"])
    assert got == [expected for _, expected in TYPED]


def test_fish(daemon):
    fish = shutil.which("fish")
    if not fish:
        pytest.skip("fish is not installed: tools/setup test installs it")
    path = script(daemon, "fish", "bailey.fish")
    assert subprocess.run([fish, "--no-execute", str(path)]).returncode == 0
    for typed, expected in TYPED:
        done = subprocess.run([fish, "--no-config", "-c", f"source {path}; complete -C 'bailey {typed}'"],
                              env=support.environment(daemon.room, {**daemon.env, **path_with_room(daemon)}),
                              cwd=daemon.room.work, text=True, capture_output=True)
        assert expected.split()[-1] in [line.partition("\t")[0] for line in done.stdout.splitlines()], done


def test_names_never_start_a_daemon(room):
    state = room.path / "state"
    for kind in ("sessions", "templates"):
        done = support.bailey("complete", kind, room=room, env={"BAILEY_STATE_DIR": str(state)})
        assert (done.status, done.out, done.err) == (0, b"", b"")
    assert not (state / "run").exists()
