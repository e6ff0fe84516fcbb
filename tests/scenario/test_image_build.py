"""
`bailey image build`: an image without a registry. What is in it, that nothing of this machine's own
is, that the same machine makes the same layer, and what an interrupted build leaves: nothing.
"""
import json
import os
import signal
import socket
import threading

import pytest

import docker
import support

MADE = "image-build-test:1"

PROBE = """
import json, os, pwd, sqlite3, ssl, subprocess, sys, time, zoneinfo
def shell(line):
    return subprocess.run(["sh", "-c", line], capture_output=True, text=True).stdout.strip()
print(json.dumps({
    "uid": os.getuid(), "user": pwd.getpwuid(os.getuid()).pw_name, "cwd": os.getcwd(),
    "authorities": len(ssl.create_default_context().get_ca_certs()) > 50,
    "awk": shell("echo 1 2 | awk '{print $2}'"), "bash": shell("bash -c 'echo $((6*7))'"),
    "python": shell("python -c 'print(7)'"), "locale": shell("printf %s $LANG"),
    "tools": shell("which ls find grep sed tar gzip xz bzip2 ps diff file less env | wc -l"),
    "merged": [os.readlink(name) for name in ("/bin", "/sbin", "/lib")],
    "compiled": os.path.exists(json.__cached__), "zone": str(zoneinfo.ZoneInfo("Europe/Paris")),
    "passwd": open("/etc/passwd").read().count("\\n"),
    "setuid": shell("find / -xdev -perm /6000 -not -type d"),
    "dangling": [name for name in os.listdir("/usr/bin")
                 if not os.path.exists(os.path.join("/usr/bin", name))],
    "etc": sorted(os.listdir("/etc")), "root": os.listdir("/root"), "home": os.listdir("/home"),
}))
"""


def run_in(dockerd, image, *argv, **host):
    """A program to its end in a container with a read-only root; what it printed."""
    container = dockerd.make_container(image, argv, ReadonlyRootfs=True, **host)
    try:
        status = dockerd.ask("POST", f"/containers/{container}/wait")["StatusCode"]
        words = dockerd.ask("GET", f"/containers/{container}/logs?stdout=1&stderr=1", raw=True)
    finally:
        dockerd.ask("DELETE", f"/containers/{container}?force=1")
    text = b""
    while words:  # Docker's packets: kind, three zeros, length
        length = int.from_bytes(words[4:8], "big")
        text, words = text + words[8:8 + length], words[8 + length:]
    assert status == 0, text
    return text.decode()


def test_what_is_in_it(clean_docker):
    seen = json.loads(run_in(clean_docker, docker.IMAGE, "python3", "-c", PROBE))
    assert (seen["uid"], seen["user"], seen["cwd"]) == (1000, "user", "/workspace")
    assert seen["authorities"] and seen["compiled"] and seen["zone"] == "Europe/Paris"
    assert (seen["awk"], seen["bash"], seen["python"], seen["tools"]) == ("2", "42", "7", "13"), seen
    assert seen["locale"] == "C.UTF-8" and seen["merged"] == ["usr/bin", "usr/sbin", "usr/lib"]
    assert seen["setuid"] == "" and seen["dangling"] == [], seen
    # nothing of this machine's own: what is in /etc was written for it, homes are empty
    assert seen["passwd"] == 3 and seen["root"] == [] and seen["home"] == ["user"]
    assert set(seen["etc"]) - {"hostname", "resolv.conf"} == {
        "group", "hosts", "localtime", "mtab", "nsswitch.conf", "os-release", "passwd", "shells", "ssl",
        "timezone"}
    image = clean_docker.ask("GET", f"/images/{docker.IMAGE}/json")
    assert image["Size"] < 250 << 20, "a base image is small"
    assert image["Config"]["Labels"]["bailey.image"]


def test_built_listed_and_removed(dockerd, room):
    """The same files make the same layer, byte for byte."""
    before = dockerd.kept()
    done = support.bailey("image", "build", "--json", "--tag", MADE, env=dockerd.env(), room=room)
    assert done.status == 0, done
    built = json.loads(done.stdout)
    assert (built["name"], built["tag"]) == ("image-build-test", "1"), built
    images = [dockerd.ask("GET", f"/images/{name}/json") for name in (MADE, docker.IMAGE)]
    assert images[0]["Id"] == built["id"]
    assert images[0]["RootFS"] == images[1]["RootFS"]
    listed = support.bailey("image", "ls", "-q", env=dockerd.env(), room=room)
    assert {MADE, docker.IMAGE} <= set(listed.stdout.split()), listed
    assert support.bailey("image", "rm", MADE, env=dockerd.env(), room=room).status == 0
    assert not dockerd.left_since(before)


def test_images_of_others_are_left_alone(dockerd, room):
    other = dockerd.use("bare")
    done = support.bailey("image", "rm", other, env=dockerd.env(), room=room)
    assert done.status == 125 and "docker rmi" in done.stderr, done
    assert other in dockerd.images()
    listed = support.bailey("image", "ls", env=dockerd.env(), room=room)
    assert other not in listed.stdout


@pytest.mark.parametrize("args, words", [
    (["build", "--tag", "Not A Name"], "is not the name of an image"),
    (["build", "--template", "nobody-has-it"], "there is no template 'nobody-has-it'"),
    (["build", "--package", "no-such-package-anywhere"], "'no-such-package-anywhere'"),
    (["rm", "../../containers"], "is neither a name nor an id"),
    (["rm"], "usage: bailey image rm NAME..."),
    (["biuld"], "did you mean 'bailey image build'?"),
])
def test_errors(dockerd, room, args, words):
    done = support.bailey("image", *args, env=dockerd.env(), room=room)
    assert done.status == 125 and words in done.stderr, done


class DeafDocker:
    """Says its version, and reads nothing of what is sent after the head."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "deaf.sock")
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(self.path)
        self.socket.listen(8)
        self.posted = []
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        try:
            while True:
                threading.Thread(target=self.answer, args=self.socket.accept()[:1],
                                 daemon=True).start()
        except OSError:  # closed
            pass

    def answer(self, connection):
        body = b'{"ApiVersion":"1.41","Version":"20.10","Arch":""}'
        while True:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                more = connection.recv(1)
                if not more:
                    return connection.close()
                head += more
            if head.startswith(b"POST"):
                return self.posted.append((head, connection))
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))

    def close(self):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(support.PATIENCE)
        for _, connection in self.posted:
            connection.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(room, tmp_path, number):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    deaf = DeafDocker(str(tmp_path))
    process = support.start("image", "build", room=room, env={
        "DOCKER_HOST": f"unix://{deaf.path}", "TMPDIR": str(scratch)})
    try:
        support.wait_until(lambda: deaf.posted, "the image is being sent")
        assert b"/images/create?fromSrc=-&repo=bailey-sandbox&tag=latest&" in deaf.posted[0][0]
        assert os.listdir(scratch), "where fetched packages would be"
        process.send_signal(number)
        out, err = process.communicate(timeout=support.PATIENCE)
        assert process.returncode == 128 + number, err
        assert b"no image was made" in err and out == b""
        assert os.listdir(scratch) == []
    finally:
        process.kill()
        process.wait()
        deaf.close()
