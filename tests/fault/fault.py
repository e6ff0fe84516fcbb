"""fault.py - what the fault suites share: a run under a fault, and what must hold after it.

After any fault: the run was right and reports its isolation truthfully, or there is a clear error with
a message, an exit status of docs/cli.md, no crash, no hang; and nothing is left (the
`leaks` fixture of every test here).
"""
import json
import os
import pathlib
import socket
import subprocess

import support

HERE = pathlib.Path(__file__).resolve().parent
FULL = os.environ.get("FAULT_FULL") == "1"
DEADLINE = 90  # seconds; only a hang reaches it
CODES = {"bad_input", "bad_config", "not_found", "command_not_found", "not_executable",
         "no_interpreter", "refused", "blocked_import", "box_failed", "box_lost", "too_large",
         "cancelled", "engine"}


def compiled(name, *flags):
    """A helper of this folder, compiled once for this test run."""
    program = support.base() / "fault" / name
    if not program.exists():
        program.parent.mkdir(mode=0o755, exist_ok=True)
        subprocess.run(["cc", "-O1", "-Wall", "-Wextra", "-Werror", *flags, "-o", program,
                        HERE / f"{name}.c"], check=True)
    return program


def honest():
    return compiled("honest", "-static")


class Ended:
    """A call of bailey under a fault, with the result when it printed one."""

    def __init__(self, done, what):
        self.status, self.what = done.returncode, what
        self.out = done.stdout.decode(errors="replace")
        self.err = done.stderr.decode(errors="replace")
        try:
            self.result = json.loads(self.out)
        except ValueError:
            self.result = None

    def __repr__(self):
        return (f"{self.what}: status {self.status}\nstdout {self.out[-2000:]}\n"
                f"stderr {self.err[-2000:]}")

    @property
    def error(self):
        return self.result["meta"].get("error") if self.result else None


def call(argv, what, room, env=None, **named):
    named.setdefault("stdin", subprocess.DEVNULL)
    environment = support.environment(room, {"SANDBOX_STORE_CODE": "never", **(env or {})})
    process = subprocess.Popen([str(a) for a in argv], env=environment, cwd=room.work,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, **named)
    try:
        out, err = process.communicate(timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"{what}: hung; stdout {out[-500:]!r}, "
                             f"stderr {err[-500:]!r}") from None
    return Ended(subprocess.CompletedProcess(argv, process.returncode, out, err), what)


def assert_truthful(ended):
    """The isolation layers that the result names are those that the guest observed."""
    if not ended.result["stdout"].startswith("{"):
        return ended.result["meta"]["stdout_truncated"]  # no memory to keep it, and it says so
    felt = json.loads(ended.result["stdout"])
    layers = set(ended.result["meta"]["isolation"]["layers"])
    missing = set(ended.result["meta"]["isolation"]["missing"])
    assert not layers & missing, ended
    assert felt["uid"] != 0, ended
    assert (felt["seccomp"] == 2) == ("seccomp" in layers), ended
    assert (felt["nnp"] == 1) == ("no_new_privs" in layers), ended
    assert (felt["caps"] == 0) or "caps" not in layers, ended
    assert (felt["pid"] < 64) or "pidns" not in layers, ended
    assert (felt["node"] != socket.gethostname()) or "utsns" not in layers, ended
    assert ended.result["meta"]["isolation"]["level"] in ("standard", "strict"), ended
    return True


def assert_clear(ended):
    """An error that a reader can act on: a message, a known code, a documented status."""
    assert ended.status in (125, 126, 127), f"not an error's status: {ended}"
    if ended.result is None:
        assert len(ended.err.strip()) > 5, f"no message: {ended}"
        return
    error = ended.error
    assert error and error["code"] in CODES, ended
    assert len(error["message"].strip()) > 5, ended
    if error["code"] == "box_failed":
        assert error.get("stage") or ":" in error["message"], f"no stage: {ended}"
    # The program's own 0 stays where it ended well and only what came behind it failed.
    assert ended.result["exit_code"] in (0, 1), ended
    ran = ended.result["stdout"] or ended.result["duration"]
    assert ended.result["exit_code"] == 1 or ran, ended


def assert_right_or_clear(ended, guest_may_fail=False):
    """The one assertion after every fault. A fault may also hit the guest's own calls."""
    assert ended.status >= 0, f"crashed by signal {-ended.status}: {ended}"
    assert "Sanitizer" not in ended.err, ended
    if ended.result is not None and not ended.error:
        assert ended.status == ended.result["exit_code"] & 0xFF, ended
        if ended.status == 0:
            assert assert_truthful(ended) or guest_may_fail, f"no output: {ended}"
        else:
            assert guest_may_fail or ended.result["meta"]["signal"], ended
        return
    assert_clear(ended)
