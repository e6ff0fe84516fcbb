"""registry.py - a private registry of images for tests, and a gate in front of it.

    running = registry.Registry()                # Debian's docker-registry, on loopback
    gate = registry.Gate(running)                # a pull through it can be paused
    registry.push(dockerd, "bare:1", f"{running.address}/bare:1")
    running.close()

Docker uses plain HTTP for 127.0.0.0/8 by default. The registry's data is in its own folder; it is stopped
by its pid, and ends with its parent.
"""
import base64
import ctypes
import http.client
import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading

import docker
import support

PR_SET_PDEATHSIG = 1
# Of one whose password nobody knows: who asks is refused, which is all that is wanted of it.
HTPASSWD = "nobody:$2y$05$abcdefghijklmnopqrstuuAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n"
CONFIG = """version: 0.1
log: {{level: info}}
storage:
  filesystem: {{rootdirectory: {folder}/data}}
  delete: {{enabled: true}}
http: {{addr: "127.0.0.1:0"}}
"""
AUTH = "auth:\n  htpasswd: {{realm: tests, path: {folder}/htpasswd}}\n"


class Registry:
    """One that runs; with `is_closed` it wants credentials."""

    def __init__(self, is_closed=False):
        program = shutil.which("docker-registry", path=support.PATH)
        if not program:
            raise docker.Failed("no docker-registry on this machine: tools/setup test installs it")
        self.folder = tempfile.mkdtemp(prefix="yard-registry-")
        with open(f"{self.folder}/htpasswd", "w") as file:
            file.write(HTPASSWD)
        with open(f"{self.folder}/config.yml", "w") as file:
            file.write((CONFIG + (AUTH if is_closed else "")).format(folder=self.folder))
        prctl = ctypes.CDLL(None).prctl
        with open(f"{self.folder}/log", "wb") as log:
            self.process = subprocess.Popen(
                [program, "serve", f"{self.folder}/config.yml"], stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, env={"PATH": support.PATH, "OTEL_TRACES_EXPORTER": "none"}, cwd="/",
                preexec_fn=lambda: prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        try:
            support.wait_until(self.port, "the registry listens", 30.0)
            self.address = f"127.0.0.1:{self.port()}"
        except BaseException:
            self.close()
            raise

    def port(self):
        with open(f"{self.folder}/log", errors="replace") as file:
            said = file.read()
        if self.process.poll() is not None:
            raise docker.Failed(f"docker-registry ended: {said[-2000:]}")
        found = re.search(r"listening on 127\.0\.0\.1:(\d+)", said)
        return int(found.group(1)) if found else None

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Gate:
    """In front of a registry: closed, it lets half of each layer pass and holds the rest."""

    def __init__(self, registry):
        gate = self
        self.asked, self.held, self.opened = [], threading.Event(), threading.Event()
        self.opened.set()

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                gate.asked.append((self.command, self.path))
                inner = http.client.HTTPConnection(registry.address, timeout=support.PATIENCE)
                headers = {k: v for k, v in self.headers.items() if k.lower() != "host"}
                inner.request(self.command, self.path, headers=headers)
                reply = inner.getresponse()
                body = reply.read()
                inner.close()
                self.send_response(reply.status)
                for name, value in reply.getheaders():
                    if name.lower() not in ("server", "date", "content-length"):
                        self.send_header(name, value)
                self.send_header("Content-Length", reply.getheader("Content-Length") or str(len(body)))
                self.end_headers()
                try:
                    gate.pass_on(self, body)
                except OSError:  # it does not want it any more
                    self.close_connection = True

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

        self.server = Server(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def pass_on(self, handler, body):
        half = len(body) // 2 if len(body) > 100000 else 0  # a layer, and not what describes it
        if half:
            handler.wfile.write(body[:half])
            if not self.opened.is_set():
                self.held.set()
            self.opened.wait()
        handler.wfile.write(body[half:])

    def hold(self):
        self.asked.clear()
        self.held.clear()
        self.opened.clear()

    def open(self):
        self.opened.set()

    def pulls(self):
        """How often a layer was asked for."""
        return [path for method, path in self.asked if method == "GET" and "/blobs/" in path]

    def close(self):
        self.opened.set()
        self.server.shutdown()
        self.server.server_close()


def push(dockerd, image, name):
    """As `docker push` does; the digest."""
    repository, _, tag = name.rpartition(":")
    dockerd.ask("POST", f"/images/{image}/tag?repo={repository}&tag={tag}")
    said = dockerd.ask("POST", f"/images/{repository}/push?tag={tag}", raw=True, headers={
        "X-Registry-Auth": base64.urlsafe_b64encode(b"{}").decode()})
    lines = [json.loads(line) for line in said.splitlines() if line.strip()]
    failed = [line["error"] for line in lines if "error" in line]
    if failed:
        raise docker.Failed(f"pushing {name}: {failed}")
    (digest,) = [line["aux"]["Digest"] for line in lines if "Digest" in line.get("aux", ())]
    return digest
