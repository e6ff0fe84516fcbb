"""warm.py - warm kernels under attack: a daemon with zygotes, kernels of a chosen origin, their processes.

Where a kernel comes from is decided by what is ready at that moment (docs/design/2026-11-15-warm-python.md),
so a test that needs one asks until the result says that it got it.
"""
import json
import os
import pathlib
import signal

import pytest

import serve
import support

PROBE = (pathlib.Path(__file__).resolve().parent / "sameness_probe.py").read_text()
LANGUAGES = ("python", "javascript", "bash")
SETTINGS = {"SANDBOX_MAX_OUTPUT_KB": "4096", "SANDBOX_SUPPORTED_LANGUAGES": ",".join(LANGUAGES)}
TRIES = 40
ECHO = {"python": "print({!r})", "javascript": "console.log({!r})", "bash": "echo {!r}"}


class Daemon(serve.Daemon):
    """With zygotes; `pool` boxes are made ahead."""

    def __init__(self, user=None, pool=0, env=None, **rest):
        super().__init__({**SETTINGS, "SANDBOX_POOL_SIZE": pool, **(env or {})}, user=user, **rest)

    # --- processes, as the host sees them

    def zygotes(self):
        """Pids: those children of the launcher that run zygote.py and are in no box."""
        launcher = self.get("/v1/info")["launcher_pid"]
        return [pid for pid in children(launcher)
                if b"/bailey/driver/zygote.py" in read(f"/proc/{pid}/cmdline")
                and namespace(pid, "pid") == namespace(launcher, "pid")]

    def zygote(self):
        """One that serves."""
        found = serve.polled(self.zygotes, lambda pids: len(pids) > 0, "there is a zygote")
        return found[0]

    def warm_up(self):
        """Every zygote has imported its modules."""
        serve.polled(lambda: self.get("/v1/warm")["zygotes"],
                     lambda rows: rows and all(row["ready"] for row in rows), "they are ready",
                     support.PATIENCE)

    def kill_zygotes(self):
        for pid in self.zygotes():
            os.kill(pid, signal.SIGKILL)
            support.wait_until(lambda: not read(f"/proc/{pid}/cmdline"), "the zygote is gone")

    # --- cells

    def cell(self, session, code, **members):
        return self.post(f"/v1/sessions/{session}/code", {"code": code, **members})

    def context(self, session, **members):
        return self.post(f"/v1/sessions/{session}/contexts", members, 201)["id"]

    def context_of(self, session, origin):
        """A new context whose kernel is "cold" or from a "zygote"."""
        for _ in range(TRIES):
            context = self.context(session)
            if origin == "cold":
                self.kill_zygotes()
            got = self.cell(session, "'warmth'", context=context)["meta"]["warm"]
            if got == origin:
                self.warm_up()
                return context
            self.asked("DELETE", f"/v1/sessions/{session}/contexts/{context}")
            self.warm_up()
        raise AssertionError(f"no kernel is {origin}, the last one was {got}")

    def run_of(self, code, origin):
        """A one-shot run that was "cold", from a "zygote" or of the "pool"."""
        for _ in range(TRIES):
            if origin == "cold":
                self.kill_zygotes()
            result = self.post("/v1/run", {"code": code})
            if result["meta"]["warm"] == origin:
                return result
        raise AssertionError(f"no run is {origin}, the last one was {result['meta']['warm']}")

    def session_of(self, origin):
        """A new session whose first cell says that its kernel is of this origin."""
        for _ in range(TRIES):
            session = self.session()["id"]
            got = self.cell(session, "'warmth'")["meta"]["warm"]
            if got == origin:
                return session
            self.end(session)
        raise AssertionError(f"no session's kernel is {origin}, the last one was {got}")


class Cells:
    """One language's default context in a session of its own."""

    def __init__(self, daemon, session, language, neighbour):
        self.daemon, self.session, self.language, self.neighbour = daemon, session, language, neighbour

    def run(self, code, **members):
        return self.daemon.cell(self.session, code, language=self.language, **members)

    def command(self, *argv, **members):
        return self.daemon.exec(self.session, *argv, **members)

    def pid(self):
        """The kernel's, in its box."""
        code = {"python": "import os; print(os.getpid())", "javascript": "console.log(process.pid)",
                "bash": "echo $$"}[self.language]
        return int(self.run(code)["stdout"])

    def works(self, last):
        """The next cell, after the result of an attack."""
        token = os.urandom(8).hex()
        after = self.run(ECHO[self.language].format(token), timeout=20)
        assert after["stdout"] == token + "\n" and after["exit_code"] == 0, (last, after)
        if last["meta"].get("kernel_lost"):
            assert after["meta"]["kernel"] == "replaced" and after["meta"]["kernel_note"], after
        else:
            assert after["meta"]["kernel"] == "kept", (last, after)
        asked = self.daemon.cell(self.neighbour, "print(kept + 1)")
        assert asked["stdout"] == "42\n" and asked["meta"]["kernel"] == "kept", asked
        return after


def in_languages(*names):
    return pytest.mark.parametrize("cells", names, indirect=True)


everywhere = in_languages(*LANGUAGES)
in_python = in_languages("python")


def read(path):
    try:
        return pathlib.Path(path).read_bytes()
    except OSError:
        return b""


def namespace(pid, kind):
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    except OSError:
        return None


def children(pid):
    return [int(word) for word in read(f"/proc/{pid}/task/{pid}/children").split()]


def facts(result):
    """What the probe printed."""
    text = result["stdout"]
    assert "PROBE " in text, result
    return json.loads(text[text.index("PROBE ") + 6:].splitlines()[0])
