"""docker.py - a private dockerd for tests: its folders and socket, its images, what is left in it.

    running = docker.Dockerd()
    running.use("plain")            # an image's name; made the first time
    support.run_json("print(1)", env=running.env(DOCKER_IMAGE="plain:1"))
    running.containers()
    running.close()

It runs in its own mount and pid namespace, below a small init (this file as a program): none of its
mounts is visible outside, and the kernel ends everything beneath it, containers too, when that init or
its parent has ended. A crash can leave a folder and empty control groups; the next dockerd removes
those of dead owners.

dockerd itself can be killed and started again inside, with its containers still running, as on any
machine.
"""
import ctypes
import errno
import grp
import hashlib
import http.client
import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import urllib.parse

if __name__ == "__main__":  # as the init it needs nothing of the suites
    own = support = serve = None
else:
    import own
    import serve
    import support
    from docker_images import IMAGES, Failed, put

PREFIX = "yard-docker-"
STARTED_WITHIN_S = 60
OVERLAYFS = 0x794C7630
PR_SET_PDEATHSIG = 1
IMAGE = "bailey-sandbox:latest"  # what `bailey image build` makes
MISSING = "no-such-image:1"


# --- the init of its namespaces ------------------------------------------------------------------


def hide_controllers():
    """crun refuses machines whose first hierarchies are v1 while a controller of no use here
    (hugetlb) is v2's. This is not visible outside."""
    try:
        with open("/sys/fs/cgroup/unified/cgroup.controllers") as file:
            found = file.read().strip()
    except OSError:
        return
    if found:
        subprocess.run(["mount", "--bind", "/dev/null", "/sys/fs/cgroup/unified/cgroup.controllers"],
                       check=True)


def be_init(folder, disk, *argv):
    """Starts dockerd, reaps whatever comes, starts it again at SIGHUP; at SIGTERM it ends in peace."""
    known = {"pid": 0, "ending": False, "again": False}
    marks = {signal.SIGHUP, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, marks | {signal.SIGCHLD})

    def begin():
        with open(os.path.join(folder, "log"), "ab") as log:
            child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                     start_new_session=True, preexec_fn=unblock)
        known["pid"] = child.pid
        child.returncode = 0  # reaped below, with all others

    def unblock():
        signal.pthread_sigmask(signal.SIG_SETMASK, ())

    os.makedirs("/run/containerd", exist_ok=True)  # its shims' sockets are there, wherever its state is
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=711", "tmpfs", "/run/containerd"], check=True)
    names = os.path.join(folder, "etc")  # files that it finds in /etc in place of this machine's
    for name in os.listdir(names):
        subprocess.run(["mount", "--bind", os.path.join(names, name), f"/etc/{name}"], check=True)
    hide_controllers()
    if disk != "-":
        os.mkdir(os.path.join(folder, "data"))
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={disk}", "tmpfs",
                        os.path.join(folder, "data")], check=True)
    begin()
    while True:
        got = signal.sigwait(marks | {signal.SIGCHLD})
        if got == signal.SIGHUP:  # may come before its child's end has been heard of
            known["again"] = True
        elif got == signal.SIGTERM:
            known["ending"] = True
            if known["pid"]:
                os.kill(known["pid"], signal.SIGTERM)
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            if pid == known["pid"]:
                known["pid"] = 0
        if known["ending"] and not known["pid"]:
            os._exit(0)
        if known["again"] and not known["pid"]:
            known["again"] = False
            begin()


# --- folders -------------------------------------------------------------------------------------


def file_system(path):
    """The type of the file system that a folder is on, as statfs(2) has it."""
    room = ctypes.create_string_buffer(256)
    if ctypes.CDLL(None, use_errno=True).statfs(os.fsencode(path), room) != 0:
        return 0
    return ctypes.c_long.from_buffer(room).value


def places():
    """Where its folder may be: overlay2 does not work on an overlay."""
    found = [p for p in (tempfile.gettempdir(), "/var/tmp", str(support.BAILEY.parent))
             if os.access(p, os.W_OK)]
    return sorted(found, key=lambda path: file_system(path) == OVERLAYFS)


def sweep():
    """Removes what dead owners have left, by the marker in each folder, and nothing else."""
    for place in places():
        for name in os.listdir(place):
            if not name.startswith(PREFIX):
                continue
            try:
                with open(os.path.join(place, name, "owner")) as file:
                    owner = file.read().split()
            except OSError:
                continue
            if own.has_ended(owner):
                remove(os.path.join(place, name))


def remove(folder):
    """A folder and the control groups that carry its name."""
    for top, *_ in own.cgroup_mounts():
        group = os.path.join(top, os.path.basename(folder))
        for path, _, _ in os.walk(group, topdown=False):
            try:
                os.rmdir(path)
            except OSError:
                pass
    shutil.rmtree(folder, ignore_errors=True)


# --- the daemon ----------------------------------------------------------------------------------


class Dockerd:
    """One that runs. With `network` it has a bridge, in a network namespace of its own; with `disk`
    its data is on one of that size, which can be filled; with `remap` the ids of its containers are
    those of this machine from there on (--userns-remap)."""

    def __init__(self, network=False, disk="-", options=(), remap=None):
        for program in ("dockerd", "containerd", "runc", "unshare"):
            if not shutil.which(program, path=support.PATH):
                raise Failed(f"no {program} on this machine: tools/setup test installs it")
        if not support.is_root():
            raise Failed("dockerd has to be started by root")
        sweep()
        self.folder = tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=places()[0])
        os.chmod(self.folder, 0o755)
        with open(os.path.join(self.folder, "owner"), "w") as file:
            file.write(" ".join(own.mark()))
        with open(os.path.join(self.folder, "daemon.json"), "w") as file:
            file.write("{}")
        self.socket = os.path.join(self.folder, "docker.sock")
        self.host = f"unix://{self.socket}"
        self.made = set()
        os.mkdir(os.path.join(self.folder, "etc"))
        if remap is not None:
            options = (*options, *self._remap(remap))
        self.process = self._launch(network, disk, options)
        support.apart.add(self.process.pid)
        try:
            self.wait_until_it_answers()
        except BaseException:
            self.close()
            raise

    def _remap(self, base):
        """Its options. The owner of the id range is in files that only this dockerd sees."""
        user = pwd.getpwnam("nobody")
        group = grp.getgrgid(user.pw_gid).gr_name
        for name in ("subuid", "subgid"):
            if not os.path.exists(f"/etc/{name}"):
                raise Failed(f"no /etc/{name} on this machine, which the package passwd brings")
            with open(os.path.join(self.folder, "etc", name), "w") as file:
                file.write(f"{user.pw_name}:{base}:65536\n")
        return "--userns-remap", f"{user.pw_name}:{group}"

    def _launch(self, network, disk, options):
        argv = ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc",
                "--propagation", "private", *(["--net"] if network else []), "--",
                "/usr/bin/python3", os.path.abspath(__file__), self.folder, disk,
                shutil.which("dockerd", path=support.PATH),
                "--config-file", f"{self.folder}/daemon.json", "--data-root", f"{self.folder}/data",
                "--exec-root", f"{self.folder}/exec", "--pidfile", f"{self.folder}/pid",
                "-H", self.host, "--cgroup-parent", f"/{os.path.basename(self.folder)}",
                "--iptables=false", "--ip6tables=false", *([] if network else ["--bridge=none"]),
                *options]
        end_with_us = ctypes.CDLL(None).prctl
        with open(os.path.join(self.folder, "log"), "ab") as log:
            return subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                env={"PATH": support.PATH, "LANG": "C.UTF-8"}, start_new_session=True,
                preexec_fn=lambda: end_with_us(PR_SET_PDEATHSIG, signal.SIGKILL))

    def wait_until_it_answers(self):
        def answers():
            if self.process.poll() is not None:
                raise Failed(f"dockerd ended: {self.said()}")
            try:
                return self.ask("GET", "/_ping", raw=True) == b"OK"
            except (OSError, http.client.HTTPException, Failed):
                return False
        try:
            support.wait_until(answers, "dockerd answers", STARTED_WITHIN_S)
        except Failed:
            raise
        except AssertionError as problem:
            raise Failed(f"{problem}: {self.said()}") from None

    def said(self):
        """The end of its log."""
        with open(os.path.join(self.folder, "log"), errors="replace") as file:
            return file.read()[-3000:] or "it said nothing"

    def env(self, **more):
        """The environment of a bailey that uses it. No pool: prewarmed boxes would look like leaks; tests of
        the pool set their own size."""
        return {"SANDBOX_TYPE": "docker", "DOCKER_HOST": self.host, "DOCKER_POOL_SIZE": "0", **more}

    # --- its life

    @property
    def pid(self):
        """dockerd's, as we see it; None when it does not run."""
        for pid in support.alive(self.process.pid):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if os.path.basename(file.read().split(b"\0")[0]) == b"dockerd":
                        return pid
            except OSError:
                pass
        return None

    def processes(self):
        """Itself and what is beneath it, as the leak check names it."""
        return {f"process {pid} ({what[2:]})" for pid, what in support.descendants(self.process.pid).items()}

    def init_pid(self):
        children = [pid for pid, (parent, _, _) in support._processes().items()
                    if parent == self.process.pid]
        return children[0] if children else None

    def kill(self, number=signal.SIGKILL):
        """Ends dockerd alone, as a crash does: containers go on."""
        pid = self.pid
        os.kill(pid, number)
        support.wait_until(lambda: self.pid != pid, "dockerd is gone", 30.0)

    def start_again(self):
        for name in ("docker.sock", "pid"):
            try:
                os.unlink(os.path.join(self.folder, name))
            except FileNotFoundError:
                pass
        os.kill(self.init_pid(), signal.SIGHUP)
        self.wait_until_it_answers()

    def fill_disk(self):
        """Leaves no byte on the disk that it was started with; what takes the room."""
        ballast = f"/proc/{self.init_pid()}/root{self.folder}/data/ballast"
        with open(ballast, "wb", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                try:
                    while file.write(b"x" * size):
                        pass
                except OSError as problem:
                    assert problem.errno == errno.ENOSPC, problem
        return ballast

    def close(self):
        """Stops it by its pid with everything beneath it, then removes its folder."""
        init = self.init_pid()
        if init is not None:
            try:
                for one in self.containers():  # it would wait 10 s for each that ignores SIGTERM
                    self.ask("DELETE", f"/containers/{one['Id']}?force=1", raw=True)
            except (OSError, http.client.HTTPException, AssertionError):
                pass
            try:
                os.kill(init, signal.SIGTERM)
                self.process.wait(30)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        support.apart.discard(self.process.pid)
        support.reap_orphans()
        remove(self.folder)

    # --- asking it

    def ask(self, method, path, body=None, status=None, raw=False, headers=None,
            timeout=support.PATIENCE if support else 60):
        """The parsed answer; without `status` any below 400 will do."""
        connection = serve.Connection(self.socket, timeout)
        if isinstance(body, (dict, list)):
            body, headers = json.dumps(body), {"Content-Type": "application/json", **(headers or {})}
        try:
            connection.request(method, path, body, headers or {})
            reply = connection.getresponse()
            text = reply.read()
        finally:
            connection.close()
        if reply.status != status if status else reply.status >= 400:
            raise Failed(f"{method} {path}: {reply.status} {text[:500]!r}")
        return text if raw else json.loads(text) if text.strip() else None

    def containers(self, **labels):
        """All, or those that carry these labels (`_` for `.` in a label's name). A dockerd that was killed
        while it removed a container may list it as dead forever, although it reports that the container does
        not exist: it cannot be removed, so it is left out."""
        wanted = [f"{name.replace('_', '.')}={value}" if value is not True else name.replace("_", ".")
                  for name, value in labels.items()]
        query = {"all": "1", "filters": json.dumps({"label": wanted} if wanted else {})}
        found = self.ask("GET", "/containers/json?" + urllib.parse.urlencode(query))
        return [one for one in found if one["State"] != "dead" or self.has_container(one["Id"])]

    def has_container(self, container):
        try:
            self.inspect(container)
        except Failed as failed:
            if " 404 " not in str(failed):
                raise
            return False
        return True

    def seen_from_outside(self, container, name):
        """A file below /proc of a container's first process, as this machine has it."""
        pid = self.inspect(container)["State"]["Pid"]
        return f"/proc/{self.init_pid()}/root/proc/{pid}/{name}"

    def inspect(self, container):
        return self.ask("GET", f"/containers/{container}/json")

    def volumes(self):
        return {one["Name"] for one in self.ask("GET", "/volumes")["Volumes"] or []}

    def networks(self):
        return {one["Name"] for one in self.ask("GET", "/networks")}

    def images(self):
        return {tag for one in self.ask("GET", "/images/json") for tag in one["RepoTags"] or []}

    def kept(self):
        """What there is and could be left: containers, networks, images that no test has made, and
        volumes but the one that holds the warden."""
        made = {f"{name}:1" for name in IMAGES}
        return ({f"container {one['Id'][:12]} {one['Names']} {one['State']}" for one in self.containers()}
                | {f"volume {name}" for name in self.volumes() if not name.startswith("bailey-warden-")}
                | {f"network {name}" for name in self.networks()}
                | {f"image {one['Id']}" for one in self.ask("GET", "/images/json?all=1")
                   if not made & set(one["RepoTags"] or ())})

    def left_since(self, before, patience=10.0):
        """The same, less what was there before; what is just going is given time."""
        try:
            support.wait_until(lambda: not self.kept() - before, "nothing is left", patience)
        except AssertionError:
            pass
        return sorted(self.kept() - before)

    def make_container(self, image, argv, labels=None, start=True, name=None, **host):
        """A container that Bailey did not make; returns its id."""
        made = self.ask("POST", "/containers/create" + (f"?name={name}" if name else ""), {
            "Image": image, "Cmd": list(argv), "Labels": labels or {},
            "HostConfig": {"NetworkMode": "none", **host}})
        if start:
            self.ask("POST", f"/containers/{made['Id']}/start")
        return made["Id"]

    def run_container(self, image, argv, user="", env=(), **host):
        """`docker run --rm IMAGE ARGV`, to its end; what it left, as a support.Done."""
        made = self.ask("POST", "/containers/create", {
            "Image": image, "Cmd": list(argv), "User": user, "Env": list(env),
            "HostConfig": {"NetworkMode": "none", **host}})["Id"]
        try:
            self.ask("POST", f"/containers/{made}/start")
            status = self.ask("POST", f"/containers/{made}/wait")["StatusCode"]
            written = {1: b"", 2: b""}
            frames = self.ask("GET", f"/containers/{made}/logs?stdout=1&stderr=1", raw=True)
            while frames:  # a byte that says which stream, three empty ones, a length, the bytes
                end = 8 + int.from_bytes(frames[4:8], "big")
                written[frames[0]] += frames[8:end]
                frames = frames[end:]
            return support.Done(argv, status, written[1], written[2], None)
        finally:
            self.ask("DELETE", f"/containers/{made}?force=1&v=1")

    # --- images

    def use(self, name):
        """The full name of an image of a test's, made the first time: see IMAGES."""
        tag = f"{name}:1"
        if tag not in self.made:
            architecture, assemble = IMAGES[name]
            with tempfile.TemporaryFile() as file:
                with tarfile.open(fileobj=file, mode="w") as archive:
                    assemble(archive)
                if architecture:
                    self.load_tar(file, tag, architecture)
                else:
                    self.send_tar(f"/images/create?fromSrc=-&repo={name}&tag=1", file)
            if tag not in self.images():
                raise Failed(f"import of {tag} did nothing: {self.said()}")
            self.made.add(tag)
        return tag

    def load_tar(self, file, tag, architecture):
        """As an image that was pulled: only so it can be of another architecture than its daemon."""
        file.seek(0)
        layer = file.read()
        config = json.dumps({"architecture": architecture, "os": "linux", "config": {}, "rootfs": {
            "type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}}).encode()
        with tempfile.TemporaryFile() as whole:
            with tarfile.open(fileobj=whole, mode="w") as archive:
                put(archive, "config.json", config)
                put(archive, "layer.tar", layer)
                put(archive, "manifest.json", json.dumps([
                    {"Config": "config.json", "RepoTags": [tag], "Layers": ["layer.tar"]}]).encode())
            self.send_tar("/images/load?quiet=1", whole)

    def send_tar(self, path, file):
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        return self.ask("POST", path, file, raw=True, timeout=300, headers={
            "Content-Type": "application/x-tar", "Content-Length": str(size)})

    def build_image(self):
        """The image that `bailey image build` makes; a few seconds. $BAILEY_TEST_IMAGE is one of
        IMAGES instead, to save time while working on something else."""
        if IMAGE in self.made:
            return IMAGE
        other = os.environ.get("BAILEY_TEST_IMAGE")
        if other:
            self.ask("POST", f"/images/{self.use(other)}/tag?repo=bailey-sandbox&tag=latest")
        else:
            done = support.bailey("image", "build", env=self.env(), timeout=600)
            if done.status != 0:
                raise Failed(f"bailey image build: {done!r}; {self.said()}")
        if IMAGE not in self.images():
            raise Failed(f"there is no {IMAGE}: {self.images()}")
        self.made.add(IMAGE)
        return IMAGE


# --- servers that only claim to be Docker --------------------------------------------------------


class FakeDockerd:
    """Answers /version and /_ping with given replies, over a unix socket; everything else is a 404."""

    def __init__(self, folder, version):
        import socketserver
        self.path = os.path.join(folder, "fake.sock")
        self.asked = []
        fake = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self):
                while True:
                    line = self.rfile.readline().decode("latin-1").strip()
                    if not line:
                        return
                    fake.asked.append(line)
                    length = 0
                    while True:
                        header = self.rfile.readline().decode("latin-1").strip()
                        if not header:
                            break
                        if header.lower().startswith("content-length:"):
                            length = int(header.partition(":")[2])
                    self.rfile.read(length)
                    self.wfile.write(fake.answer(line.split()[1], version))

        class Server(socketserver.ThreadingUnixStreamServer):
            daemon_threads = True

        self.server = Server(self.path, Handler)
        self.host = f"unix://{self.path}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    @staticmethod
    def answer(path, version):
        if path.endswith("/version"):
            status, body = "200 OK", json.dumps(version)
        elif path.endswith("/_ping"):
            status, body = "200 OK", "OK"
        else:
            status, body = "404 Not Found", json.dumps({"message": "page not found"})
        return (f"HTTP/1.1 {status}\r\nApi-Version: {version['ApiVersion']}\r\nOsType: linux\r\n"
                f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        os.unlink(self.path)


if __name__ == "__main__":
    be_init(*sys.argv[1:])
