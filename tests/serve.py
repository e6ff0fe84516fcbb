"""serve.py - the daemon under test: `bailey serve` with its own folders, called over its socket.

    with serve.Daemon({"SANDBOX_SESSION_IDLE": "2s"}) as daemon:
        made = daemon.post("/v1/sessions", {"name": "n"}, 201)
        daemon.exec(made["id"], "true")["exit_code"]
        daemon.bailey("session", "ls")

Leaving the context stops the daemon by `bailey daemon stop` and fails when a process, mount, cgroup or
folder is left. Calls assert the status that the test expects, so that a failure shows the reply.
"""
import base64
import hashlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.parse

import support


class Connection(http.client.HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path, timeout=support.PATIENCE):
        super().__init__("bailey", timeout=timeout)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


class Reply:
    """Status, headers (any case) and body of one answer."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        """The error of a status of 400 and more; nothing else is in such a body."""
        whole = self.json()
        assert list(whole) == ["error"], whole
        assert whole["error"]["code"] and whole["error"]["message"], whole
        return whole["error"]

    def __repr__(self):
        return f"<{self.status} {dict(self.headers)} {self.body[:2000]!r}>"


class Event:
    """One event of a stream: `type`, `id` and the parsed `data`."""

    def __init__(self, kind, number, data):
        self.type, self.id, self.data = kind, number, data

    def __repr__(self):
        return f"<{self.type} {self.id} {str(self.data)[:300]}>"


class Events:
    """Server-sent events as they come; iterate, or `until` one of a type has come."""

    def __init__(self, connection, reply):
        self.connection, self.reply, self.seen = connection, reply, []

    def __iter__(self):
        while True:
            event = self.next()
            if event is None:
                return
            yield event

    def next(self):
        """The next event, None at the end."""
        fields = {}
        while True:
            line = self.reply.readline()
            if not line:
                assert not fields, f"the stream ended inside of an event: {fields}"
                return None
            line = line.decode().rstrip("\r\n")
            if not line and "data" in fields:
                event = Event(fields.get("event", "message"), fields.get("id"),
                              json.loads(fields["data"]))
                self.seen.append(event)
                return event
            name, _, value = line.partition(":")
            if name:
                fields[name] = (fields[name] + "\n" if name in fields else "") + value[1:]

    def until(self, kind, fits=lambda data: True):
        """Reads up to the first event of this type whose data matches."""
        for event in self:
            if event.type == kind and fits(event.data):
                return event
        raise AssertionError(f"the stream ended without {kind}: {self.seen[-10:]}")

    def close(self):
        self.reply.close()
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def quoted(text):
    """One segment of an address, or a value in its query."""
    return urllib.parse.quote(text, safe="")


def decoded(data):
    """The bytes of a `stdout` or `stderr` event."""
    if data["encoding"] == "base64":
        return base64.b64decode(data["data"])
    return data["data"].encode()


class Daemon:
    """One that runs. `env` configures it; `room` keeps its folders for a second start."""

    def __init__(self, env=None, room=None, user=None):
        user = support.usual(user)
        support.need_sessions(user)
        self.before = support.snapshot()
        self.room = room or support.Room(user)
        self.user, self.owns = user, room is None
        self.state, self.runtime = self.room.path / "state", self.room.path / "run"
        for folder in (self.state, self.runtime):
            if not folder.exists():
                folder.mkdir(mode=0o700)
                self.room.give(folder)
        # Boxes that a daemon makes ahead come and go between two tests: where that is not the point,
        # whoever looks for what was left behind should not find them.
        self.env = {"BAILEY_STATE_DIR": self.state, "XDG_RUNTIME_DIR": self.runtime,
                    "SANDBOX_POOL_SIZE": "0",
                    # Of those that listen on the same port one would be there at a time.
                    "SANDBOX_LISTEN": "none", **(env or {})}
        self.socket = self.runtime / "bailey" / "engine.sock"
        self.log = self.room.path / "serve.log"
        with open(self.log, "ab") as log:
            self.process = support.start("serve", env=self.env, room=self.room, user=user,
                                         stdout=log, stderr=log)
        self._wait_until_it_answers()
        self._wait_until_it_is_warm()

    def _wait_until_it_is_warm(self):
        """Its first interpreter is part of a daemon that runs; without one it has none to wait for."""
        def is_warm():
            try:
                zygotes = self.call("GET", "/v1/warm").json()["zygotes"]
            except (OSError, ValueError, KeyError):
                return False
            return zygotes and all(one["ready"] for one in zygotes)
        has = {**support.surroundings, **self.env}
        if str(has.get("SANDBOX_WARM", "true")) == "true" and has.get("SANDBOX_TYPE", "local") == "local":
            try:
                support.wait_until(is_warm, "an interpreter is warm", 5.0)
            except AssertionError:
                pass  # a machine without Python, or one that does not let it live

    def _wait_until_it_answers(self):
        def answers():
            if self.process.poll() is not None:
                raise AssertionError(f"bailey serve ended: {self.said()}")
            try:
                return self.call("GET", "/healthz").status == 200
            except OSError:
                return False
        try:
            support.wait_until(answers, "the daemon answers", 30.0)
        except AssertionError:
            self.process.kill()
            self.process.wait()
            raise

    def said(self):
        return self.log.read_text(errors="replace")

    # --- calling

    def connect(self, timeout=support.PATIENCE):
        return Connection(self.socket, timeout)

    def call(self, method, path, body=None, headers=None, query=None, timeout=support.PATIENCE):
        """One request; a dict or list becomes JSON, bytes and iterables go as they are."""
        if query:
            path += "?" + urllib.parse.urlencode(query)
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        if isinstance(body, str):
            body, headers = body.encode(), {"Content-Type": "application/json", **(headers or {})}
        connection = self.connect(timeout)
        try:
            connection.request(method, path, body, headers or {})
            reply = connection.getresponse()
            return Reply(reply.status, reply.headers, reply.read())
        finally:
            connection.close()

    def asked(self, method, path, body=None, status=200, **rest):
        reply = self.call(method, path, body, **rest)
        assert reply.status == status, (method, path, reply)
        return reply

    def get(self, path, /, status=200, **query):
        return self.asked("GET", path, None, status, query=query).json()

    def post(self, path, /, body=None, status=200, **query):
        return self.asked("POST", path, {} if body is None else body, status, query=query).json()

    def refused(self, method, path, status, code, body=None, **rest):
        """A call that must fail so; the error."""
        reply = self.call(method, path, body, **rest)
        assert reply.status == status, (method, path, reply)
        assert reply.error["code"] == code, (method, path, reply)
        return reply.error

    def events(self, path, /, body=None, last=None, method="GET", timeout=support.PATIENCE, **query):
        """A stream of events; the caller closes it."""
        if query:
            path += "?" + urllib.parse.urlencode(query)
        headers = {"Accept": "text/event-stream"}
        if last is not None:
            headers["Last-Event-ID"] = str(last)
        if body is not None:
            body, headers["Content-Type"] = json.dumps(body), "application/json"
        connection = self.connect(timeout)
        connection.request(method, path, body, headers)
        reply = connection.getresponse()
        if reply.status != 200:
            got = Reply(reply.status, reply.headers, reply.read())
            connection.close()
            raise AssertionError((method, path, got))
        assert reply.headers["Content-Type"].startswith("text/event-stream"), reply.headers
        return Events(connection, reply)

    def bailey(self, *args, **rest):
        """The command line with this daemon's folders."""
        rest.setdefault("user", self.user)
        env = {**self.env, **rest.pop("env", {})}
        return support.bailey(*args, env=env, room=self.room, **rest)

    # --- sessions

    def session(self, status=201, **members):
        return self.post("/v1/sessions", members, status)

    def end(self, session):
        """Ends a session, if it has not ended already."""
        reply = self.call("DELETE", f"/v1/sessions/{session}")
        assert reply.status in (200, 410), reply

    def exec(self, session, *argv, status=200, **members):
        """A command that may take long (timeout) is waited for as long, and then as for every call."""
        return self.asked("POST", f"/v1/sessions/{session}/exec", {"argv": list(argv), **members}, status,
                          timeout=members.get("timeout", 0) + support.PATIENCE).json()

    def background(self, session, *argv, **members):
        return self.exec(session, *argv, status=202, background=True, **members)

    def python(self, session, code, **members):
        return self.exec(session, "python3", "-c", code, **members)

    def write(self, session, path, /, content=b"", **query):
        return self.asked("PUT", f"/v1/sessions/{session}/files", content,
                          query={"path": path, **query})

    def read(self, session, path, **query):
        return self.asked("GET", f"/v1/sessions/{session}/files", query={"path": path, **query}).body

    def wait(self, execution, seconds=30):
        """The process after its end."""
        session = execution.rpartition(".")[0]
        found = self.get(f"/v1/sessions/{session}/processes/{execution}", wait=seconds)
        assert found["state"] in ("exited", "failed"), found
        return found

    def output(self, execution, stream="stdout", **query):
        session = execution.rpartition(".")[0]
        return self.asked("GET", f"/v1/sessions/{session}/processes/{execution}/output",
                          query={"stream": stream, **query})

    # --- its end

    def pids(self):
        """Those of the daemon and all beneath it."""
        return {self.process.pid, *support.alive(self.process.pid)}

    def stop(self):
        """Stops it as a person does; fails when it does not go, or leaves something."""
        if self.process.poll() is None:
            done = self.bailey("daemon", "stop", "--force")
            try:
                self.process.wait(support.PATIENCE)
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError(f"it does not stop: {done!r} {self.said()}") from None
            assert done.status == 0, done
        support.reap_orphans()
        # A root start's own cgroup goes with the next local box.
        swept = self.bailey("exec", "--", "/bin/true", env={"SANDBOX_TYPE": "local"})
        assert swept.status == 0, swept
        left = [what for what in support.left_since(self.before) if not self._is_anothers(what)]
        assert not left, f"left behind: {left}; {self.said()}"

    def _is_anothers(self, what):
        """A cgroup or folder that carries the number of a daemon that is not this one."""
        made = re.search(r"bailey-n\d+-(\d+)-engine", what)
        return made is not None and int(made.group(1)) != self.process.pid

    def kill(self):
        """SIGKILL to all of its processes at once: they are stopped first, so that none of them sees
        another one's end and answers a client. The kernel ends the boxes with the launcher."""
        pids = self.pids()
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in pids:
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
        self.process.wait()

        def has_ended(pid):
            try:
                with open(f"/proc/{pid}/stat") as file:
                    return file.read().rpartition(")")[2].split()[0] in "ZX"
            except OSError:
                return True
        support.wait_until(lambda: all(map(has_ended, pids)), "all of its processes have ended")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            self.stop()
        finally:
            if self.process.poll() is None:
                self.kill()
            if self.owns:
                self.room.remove()


class Tools:
    """The tools of one session by one door: `bailey tool` or POST /v1/tools."""

    def __init__(self, daemon, session, door):
        self.daemon, self.session, self.door = daemon, session, door

    def call(self, tool, **parameters):
        """The reply; that there is one, also to a wrong call, is checked here."""
        if self.door == "rest":
            return self.daemon.post(f"/v1/tools/{tool}", parameters, session=self.session)
        done = self.daemon.bailey("tool", tool, "-", "-s", self.session,
                                  stdin=json.dumps(parameters).encode())
        assert done.status == 0, done
        return done.json()

    def run(self, *command, **parameters):
        return self.call("sandbox_exec", command=list(command), **parameters)

    def write(self, path, content):
        return self.call("sandbox_write_file", file_path=path, content=content)

    def edit(self, path, old, new):
        return self.call("sandbox_edit_file", file_path=path, old_string=old, new_string=new)


def polled(read, fits, what, timeout=30.0):
    """Asks until what comes back fits; returns that."""
    deadline = time.monotonic() + timeout
    while True:
        found = read()
        if fits(found):
            return found
        assert time.monotonic() < deadline, f"still not so after {timeout} s: {what}: {found}"
        time.sleep(0.02)
