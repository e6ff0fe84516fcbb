# peers.py - the servers that are measured, each started for it and gone without a trace: our daemon,
# and dockerd beside it.
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from harness import Failed

STARTED_WITHIN_S = 30
IMAGE = "bailey-bench:1"
# One process without threads, as our broker is; nothing is logged, which ours does not do either.
NGINX = """daemon off; master_process off; pid %(folder)s/pid; error_log %(folder)s/error.log;
events { worker_connections 4096; }
http {
    access_log off; sendfile on; keepalive_requests 1000000000;
    client_body_temp_path %(folder)s/a; proxy_temp_path %(folder)s/b; fastcgi_temp_path %(folder)s/c;
    uwsgi_temp_path %(folder)s/d; scgi_temp_path %(folder)s/e;
    server { listen 127.0.0.1:%(port)d backlog=4096; root %(folder)s; default_type application/json; }
}
"""
CONTAINER = "live"


class Connection:
    """Plain HTTP/1.1 over a unix socket, or over TCP with a key, for what is not timed to the
    microsecond."""

    def __init__(self, path, port=None, key=None):
        self.host, self.key = "127.0.0.1:%d" % port if port else "bench", key
        if port:
            self.socket = socket.create_connection(("127.0.0.1", port))
        else:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def send_head(self, method, target, length):
        who = "Authorization: Bearer %s\r\n" % self.key if self.key else ""
        head = "%s %s HTTP/1.1\r\nHost: %s\r\n%sContent-Length: %d\r\n\r\n" % (
            method, target, self.host, who, length)
        self.socket.sendall(head.encode())

    def read_head(self):
        """(status, length of the body)"""
        status = self.file.readline().split()
        if len(status) < 2:
            raise Failed("the server closed the connection")
        length = 0
        while True:
            line = self.file.readline().strip()
            if not line:
                return int(status[1]), length
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)

    def ask(self, method, target, body=None):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_head(method, target, len(data))
        self.socket.sendall(data)
        status, length = self.read_head()
        text = self.file.read(length)
        if status >= 400:
            raise Failed("%s %s: %d %s" % (method, target, status, text.decode()[:300]))
        return json.loads(text) if text else None


def wait_for(process, is_up, what, log):
    """Until it answers; Failed with the end of its log when it does not."""
    deadline = time.monotonic() + STARTED_WITHIN_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            is_up()
            return
        except (OSError, Failed):
            time.sleep(0.02)
    with open(log, errors="replace") as file:
        raise Failed("%s did not start: %s" % (what, file.read().strip()[-300:] or "no message"))


def stop(process):
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STARTED_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def copy_tree(source, target):
    """With hard links where that is one disk: several daemons then share the pages of a layer."""
    if subprocess.run(["cp", "-al", source, target], stderr=subprocess.DEVNULL).returncode == 0:
        return
    shutil.rmtree(target, ignore_errors=True)
    subprocess.run(["cp", "-a", source, target], check=True)


def copy_state(source, target):
    """Layers and templates of another daemon. Files that only their owner may read are copied: it
    has other ids, and does not give itself what has several names."""
    for name in ("layers", "templates"):
        copy_tree(os.path.join(source, name), os.path.join(target, name))
        for entry in os.scandir(os.path.join(target, name)):
            if entry.is_file(follow_symlinks=False):
                owner = entry.stat()
                shutil.copy2(entry.path, entry.path + "~")
                os.chown(entry.path + "~", owner.st_uid, owner.st_gid)
                os.replace(entry.path + "~", entry.path)


class Serve:
    """`bailey serve` with a socket and a state folder of its own."""

    def __init__(self, bench, settings, seed=None):
        """seed: a folder with layers/ and templates/ that its state folder begins with."""
        # Another user than ours may be the broker: the folders above have to let it pass.
        self.folder = tempfile.mkdtemp(prefix="bailey-serve-")
        os.chmod(self.folder, 0o755)
        self.socket = os.path.join(self.folder, "socket")
        self.state = os.path.join(self.folder, "state")
        if seed:
            os.mkdir(self.state, 0o700)
            copy_state(seed, self.state)
        self.log = log = os.path.join(self.folder, "log")
        with open(log, "w") as file:
            self.process = subprocess.Popen(
                [bench.bailey, "serve", "--socket", self.socket, "--state", self.state],
                env=dict(bench.env, **{"SANDBOX_LISTEN": "none", **settings}), stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        try:
            wait_for(self.process, self.info, "bailey serve", log)
        except Failed:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        stop(self.process)
        shutil.rmtree(self.folder, ignore_errors=True)

    def connect(self):
        return Connection(self.socket)

    def info(self):
        with self.connect() as connection:
            return connection.ask("GET", "/v1/info")

    def session(self, connection, name):
        """A session whose box stands."""
        connection.ask("POST", "/v1/sessions", {"name": name})
        connection.ask("POST", "/v1/sessions/%s/exec" % name, {"argv": ["true"]})


class Nginx:
    """One process that serves a folder on loopback. Failed says why there is none."""

    def __init__(self, bench, files):
        """files: {name: bytes of a file}"""
        program = shutil.which("nginx", path="/usr/sbin:/usr/bin:" + os.environ.get("PATH", ""))
        if not program:
            raise Failed("no nginx here; tools/setup bench installs it")
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self.folder = tempfile.mkdtemp(prefix="bailey-nginx-", dir=memory)
        with socket.socket() as asked:
            asked.bind(("127.0.0.1", 0))
            self.port = asked.getsockname()[1]
        for name, data in files.items():
            with open(os.path.join(self.folder, name), "wb") as file:
                file.write(data)
        config = os.path.join(self.folder, "nginx.conf")
        with open(config, "w") as file:
            file.write(NGINX % {"folder": self.folder, "port": self.port})
        log = os.path.join(self.folder, "error.log")
        self.process = subprocess.Popen(
            [program, "-p", self.folder, "-e", log, "-c", config], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(self.process, lambda: self.connect().__exit__(), "nginx", log)
        except Failed:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def connect(self):
        return Connection(None, self.port)

    def close(self):
        stop(self.process)
        shutil.rmtree(self.folder, ignore_errors=True)


class Docker:
    """dockerd with folders of its own, an image of the static busybox, and one container that
    waits. Failed says why there is none."""

    image = IMAGE

    def __init__(self, bench):
        for name in ("dockerd", "docker"):
            if not shutil.which(name):
                raise Failed("no %s here; tools/setup bench installs it" % name)
        busybox = shutil.which("busybox")
        if os.geteuid() != 0 or not busybox:
            raise Failed("dockerd needs root, and a static busybox for its image")
        self.folder = tempfile.mkdtemp(prefix="bailey-docker-")
        self.socket = os.path.join(self.folder, "socket")
        self.host = "unix://" + self.socket
        self.group = "/bailey-bench-%d" % os.getpid()
        # Debian's own, as its daemon: another one in PATH may be of another age.
        own = "/usr/bin/docker"
        self.command = [own if os.access(own, os.X_OK) else shutil.which("docker"),
                        "-H", self.host]
        self.env = bench.env
        self.containers = []
        log = os.path.join(self.folder, "log")
        with open(log, "w") as file:
            self.process = subprocess.Popen(
                [shutil.which("dockerd"), "--data-root", os.path.join(self.folder, "data"),
                 "--exec-root", os.path.join(self.folder, "exec"), "-H", self.host,
                 "--pidfile", os.path.join(self.folder, "pid"), "--cgroup-parent", self.group,
                 "--iptables=false", "--bridge=none"],
                env=bench.env, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
        try:
            wait_for(self.process, lambda: self.run("version"), "dockerd", log)
            self.make_image(busybox)
            self.start_container(CONTAINER)
        except Failed:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def run(self, *arguments, **options):
        out = subprocess.run(self.command + list(arguments), env=self.env, capture_output=True,
                             **options)
        if out.returncode != 0:
            raise Failed("docker %s: %s" % (arguments[0],
                                            out.stderr.decode(errors="replace").strip()[-300:]))
        return out.stdout.decode(errors="replace")

    def make_image(self, busybox):
        root = os.path.join(self.folder, "root")
        os.makedirs(os.path.join(root, "bin"))
        os.mkdir(os.path.join(root, "tmp"))
        shutil.copy(busybox, os.path.join(root, "bin", "busybox"))
        for name in ("true", "sleep", "sh"):
            os.symlink("busybox", os.path.join(root, "bin", name))
        for name in ("lib", "lib64"):  # for containers that have this machine's /usr
            os.symlink("usr/" + name, os.path.join(root, name))
        tar = subprocess.run(["tar", "-C", root, "-c", "."], capture_output=True, check=True).stdout
        self.run("import", "-", IMAGE, input=tar)

    def start_container(self, name, *options):
        self.run("run", "-d", "--network", "none", "--name", name, *options, self.image, "sleep",
                 "86400")
        self.containers.append(name)

    def close(self):
        if self.process.poll() is None:
            for name in self.containers:
                try:
                    self.run("rm", "-f", name)
                except Failed:
                    pass
        stop(self.process)
        shutil.rmtree(self.folder, ignore_errors=True)
        remove_groups(self.group)


def remove_groups(name):
    """The empty control groups that dockerd leaves, in whatever hierarchies there are."""
    with open("/proc/self/mountinfo") as file:
        mounts = [line.split() for line in file]
    for words in mounts:
        if words[words.index("-") + 1] in ("cgroup", "cgroup2"):
            try:
                os.rmdir(words[4] + name)
            except OSError:
                pass
