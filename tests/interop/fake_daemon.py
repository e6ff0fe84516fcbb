"""fake_daemon.py - a small stand-in for the daemon: enough of docs/rest.md for `bailey mcp`, without
isolation, with faults on demand. For tests of the client alone: its behaviour when a broker goes away.

    fake = FakeDaemon(folder, socket, state); fake.start(); fake.stop()

`fake.drop_next` is a list of (method, start of path, when): a connection to such an address is closed
without an answer, "before" or "after" the work was done.
"""
import fcntl
import json
import os
import shutil
import signal
import socketserver
import struct
import subprocess
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler
from pathlib import Path


F_OFD_SETLK = 37


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + ".%03dZ" % (time.time() % 1 * 1000)


class Execution:
    """A command, with its output in files so that it can be read at any time."""

    def __init__(self, session, number, argv, timeout):
        self.id, self.number, self.argv = f"{session.id}.{number}", number, argv
        self.session, self.started_at, self.timeout = session, now(), timeout
        self.timed_out, self.began = False, time.monotonic()
        logs = session.folder / "logs"
        logs.mkdir(exist_ok=True)
        self.paths = [logs / f"{number}.out", logs / f"{number}.err"]
        before = session.outputs()
        with open(self.paths[0], "wb") as out, open(self.paths[1], "wb") as err:
            self.process = subprocess.Popen(session.boxed(argv), stdout=out, stderr=err,
                                            stdin=subprocess.DEVNULL, start_new_session=True)
        self.before = before

    def running(self):
        if self.process.poll() is None and time.monotonic() - self.began > self.timeout:
            self.timed_out = True
            self.kill()
        return self.process.poll() is None

    def kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()

    def wait(self, seconds):
        end = time.monotonic() + seconds
        while self.running() and time.monotonic() < end and not self.session.daemon.is_down:
            time.sleep(0.01)

    def reply(self):
        texts = [p.read_bytes().decode("utf-8", "replace") for p in self.paths]
        reply = {"execution_id": self.id, "session_id": self.session.id, "stdout": texts[0][:10240],
                 "stderr": texts[1][:10240], "stdout_truncated": len(texts[0]) > 10240,
                 "stderr_truncated": len(texts[1]) > 10240}
        if self.running():
            return {**reply, "running": True, "hint": "Still running."}
        changed = [o for name, o in self.session.outputs().items() if self.before.get(name) != o]
        code = self.process.returncode
        return {**reply, "exit_code": -1 if self.timed_out else code if code >= 0 else 128 - code,
                "execution_time": time.monotonic() - self.began, "output_files": changed,
                "total_output_files": len(self.session.outputs()), "hint": "Done.",
                **({"timed_out": True} if self.timed_out else {})}


class Session:
    def __init__(self, daemon, id_, name):
        self.daemon, self.id, self.name, self.executions = daemon, id_, name, []
        self.folder = daemon.folder / id_
        for name_ in ("workspace", "tmp/output"):
            (self.folder / name_).mkdir(parents=True)

    def boxed(self, argv):
        """The session's own /tmp, and nothing else of a box."""
        return ["bwrap", "--dev-bind", "/", "/", "--bind", str(self.folder / "tmp"), "/tmp",
                "--chdir", "/tmp", "--", *argv]

    def host(self, path):
        """Where /tmp/... and /workspace/... are here."""
        return self.folder / path.lstrip("/")

    def outputs(self):
        top = self.folder / "tmp/output"
        found = {}
        for path in sorted(top.rglob("*")):
            if path.is_file():
                mime = {".png": "image/png", ".csv": "text/csv", ".svg": "image/svg+xml"}
                found[str(path.relative_to(top))] = {
                    "name": str(path.relative_to(top)), "path": str(path), "skipped": None,
                    "bytes": path.stat().st_size, "modified_at": str(path.stat().st_mtime_ns),
                    "mime": mime.get(path.suffix, "text/plain")}
        return found

    def json(self):
        return {"id": self.id, "name": self.name, "state": "ready"}


class Problem(Exception):
    def __init__(self, status, code, message):
        super().__init__(message)
        self.status, self.code = status, code


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def address_string(self):
        return "socket"

    def answer(self):
        daemon = self.server.daemon
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        drop = daemon.should_drop(self.command, self.path)
        daemon.seen.append((self.command, self.path, body))
        if drop == "before":
            self.close_connection = True
            return
        try:
            status, reply = 200, daemon.handle(self.command, self.path, body)
        except Problem as problem:
            status = problem.status
            reply = {"error": {"code": problem.code, "message": str(problem)}}
        if drop == "after" or daemon.is_down:
            self.close_connection = True
            return
        data = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_DELETE = do_PUT = answer


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # a client that left


class FakeDaemon:
    def __init__(self, folder, socket, state):
        self.folder, self.socket = Path(folder), Path(socket)
        # The lock says that a daemon is alive, also while its broker is away.
        self.state_lock = os.open(Path(state) / "daemon.lock", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.fcntl(self.state_lock, F_OFD_SETLK, struct.pack("hhqqi", fcntl.F_WRLCK, 0, 0, 0, 0))
        self.sessions, self.ended, self.seen, self.drop_next = {}, {}, [], []
        self.server, self.is_down, self.lock = None, False, threading.RLock()

    def start(self):
        self.socket.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.socket.unlink(missing_ok=True)
        self.is_down = False
        self.server = Server(str(self.socket), Handler)
        self.server.daemon = self
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02},
                         daemon=True).start()

    def stop(self):
        """As a broker that is killed: requests under way get no answer, executions go on."""
        self.is_down = True
        self.server.shutdown()
        self.server.server_close()
        self.socket.unlink(missing_ok=True)

    def close(self):
        self.stop()
        for session in list(self.sessions.values()):
            self.end(session)
        os.close(self.state_lock)

    def should_drop(self, method, path):
        with self.lock:
            for row in self.drop_next:
                if row[0] == method and path.startswith(row[1]):
                    self.drop_next.remove(row)
                    return row[2]
        return None

    # --- what it can do ---

    def make(self, name=None):
        with self.lock:
            session = Session(self, f"s_{os.urandom(8).hex()}", name)
            self.sessions[session.id] = session
            return session

    def find(self, word):
        if word in self.ended:
            raise Problem(410, "session_ended", f"the session {word} has ended (deleted)")
        for session in self.sessions.values():
            if word in (session.id, session.name):
                return session
        raise Problem(404, "session_not_found", f"there is no session '{word}'")

    def find_or_make(self, word):
        try:
            return self.find(word)
        except Problem:
            if word.startswith("s_"):
                raise
            return self.make(word)

    def end(self, session):
        for execution in session.executions:
            execution.kill()
        self.sessions.pop(session.id, None)
        self.ended[session.id] = True
        shutil.rmtree(session.folder, ignore_errors=True)

    def handle(self, method, path, body):
        address = urllib.parse.urlsplit(path)
        query = dict(urllib.parse.parse_qsl(address.query))
        parts = [urllib.parse.unquote(p) for p in address.path.split("/")[1:]]
        if parts[:2] == ["v1", "sessions"]:
            return self.sessions_call(method, parts[2:], query, body)
        if parts[:2] == ["v1", "tools"] and method == "POST":
            try:
                return self.tool(parts[2], json.loads(body), query.get("session"))
            except Problem as problem:
                return {"success": False, "error": str(problem), "code": problem.code,
                        "hint": "Leave 'session' out for a new one."}
        raise Problem(404, "not_found", "no such address")

    def sessions_call(self, method, parts, query, body):
        if not parts:
            return self.make(json.loads(body).get("name")).json()
        session = self.find(parts[0])
        what = parts[1] if len(parts) > 1 else ""
        if not what and method == "DELETE":
            self.end(session)
            return session.json()
        if not what:
            return session.json()
        if what == "outputs" and len(parts) == 2:
            return {"outputs": list(session.outputs().values())}
        if what == "processes" and len(parts) == 2:
            return {"processes": [{"execution_id": e.id, "argv": e.argv, "number": e.number,
                                   "started_at": e.started_at} for e in session.executions]}
        if what == "processes" and parts[3] == "signal":
            self.execution(parts[2]).kill()
            return {}
        if what == "files" and len(parts) == 2:
            path = session.host(query["path"])
            if path.is_dir():
                raise Problem(409, "path_is_folder", "it is a folder")
            if not path.is_file():
                raise Problem(404, "path_not_found", f"there is no {query['path']}")
            return path.read_bytes()
        if what == "files" and parts[2] == "list":
            entries = sorted(session.host(query["path"]).iterdir())
            return {"truncated": False, "entries": [
                {"name": e.name, "type": "folder" if e.is_dir() else "file",
                 "bytes": e.stat().st_size} for e in entries]}
        raise Problem(404, "path_not_found", "no such output")

    def execution(self, id_):
        for session in self.sessions.values():
            for execution in session.executions:
                if execution.id == id_:
                    return execution
        raise Problem(404, "execution_not_found", f"there is no execution {id_}")

    def tool(self, name, parameters, word):
        if name == "sandbox_wait":
            execution = self.execution(parameters["execution_id"])
            execution.wait(parameters.get("timeout", 45))
            return execution.reply()
        if name == "run_python_code":
            done = subprocess.run(["/usr/bin/python3", "-c", parameters["code"]], text=True,
                                  capture_output=True, check=False)
            return {"success": done.returncode == 0, "output": done.stdout + done.stderr,
                    "exit_code": done.returncode, "timed_out": False, "execution_time": 0.01}
        session = self.find_or_make(word)
        if name == "sandbox_write_file":
            if not parameters["file_path"].startswith(("/tmp/", "/workspace/")):
                raise Problem(400, "path_invalid", "Invalid path: must be /tmp/* or /workspace/*")
            path = session.host(parameters["file_path"])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(parameters["content"])
            return {"success": True, "file_path": parameters["file_path"],
                    "bytes_written": len(parameters["content"]), "session_id": session.id,
                    "hint": "File written successfully. Use sandbox_exec to run it."}
        if name == "sandbox_exec":
            with self.lock:
                execution = Execution(session, len(session.executions) + 1, parameters["command"],
                                      parameters.get("timeout", 60))
                session.executions.append(execution)
            if parameters.get("background"):
                return {"success": True, "execution_id": execution.id, "running": True,
                        "session_id": session.id}
            execution.wait(1000)
            return execution.reply()
        raise Problem(404, "unknown_tool", "not here")
