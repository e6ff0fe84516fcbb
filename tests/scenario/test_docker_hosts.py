"""
Docker daemons of other kinds than the one at the usual socket: over TCP with TLS, where each thing
that can be wrong is told with what to do, over plain TCP, and one that gives containers a user
namespace (--userns-remap).
"""
import hashlib
import json
import os
import shutil
import socket
import subprocess

import pytest

import docker
import serve
import support

BASE = 1_200_000_000  # the first id of this machine that the remapped containers have
FLOOD = 5 << 20  # bytes: more than every buffer between a guest and us
NOT_THERE = "Docker daemon not available"


# --- certificates --------------------------------------------------------------------------------


def openssl(*argv):
    done = subprocess.run(["openssl", *argv], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def make_authority(folder):
    folder.mkdir()
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
            "2", "-subj", f"/CN={folder.name}", "-keyout", folder / "ca.key", "-out", folder / "ca.pem")


def make_certificate(authority, folder, usage, *extensions):
    """cert.pem and key.pem, and who signed them, as Docker's client wants them in a folder."""
    folder.mkdir()
    wanted = folder / "wanted"
    wanted.write_text("\n".join((f"extendedKeyUsage={usage}", *extensions)))
    openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
            f"/CN={folder.name}", "-keyout", folder / "key.pem", "-out", folder / "request")
    openssl("x509", "-req", "-in", folder / "request", "-CA", authority / "ca.pem", "-CAkey",
            authority / "ca.key", "-CAcreateserial", "-days", "2", "-extfile", wanted, "-out",
            folder / "cert.pem")
    shutil.copy(authority / "ca.pem", folder)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Folders: `server`; clients `good` and `stranger` (of another authority), and those made of
    them: without a certificate, without an authority, with one that did not sign the server's."""
    top = tmp_path_factory.mktemp("certificates")
    for name in ("authority", "other"):
        make_authority(top / name)
    make_certificate(top / "authority", top / "server", "serverAuth", "subjectAltName=IP:127.0.0.1")
    make_certificate(top / "authority", top / "good", "clientAuth")
    make_certificate(top / "other", top / "stranger", "clientAuth")
    for name, files in {"bare": {"ca.pem": "good"},
                        "unknown": {"cert.pem": "good", "key.pem": "good"},
                        "misled": {"ca.pem": "stranger", "cert.pem": "good", "key.pem": "good"},
                        "refused": {"ca.pem": "good", "cert.pem": "stranger", "key.pem": "stranger"},
                        "mixed": {"ca.pem": "good", "cert.pem": "good", "key.pem": "stranger"}}.items():
        (top / name).mkdir()
        for file, source in files.items():
            shutil.copy(top / source / file, top / name)
    return top


# --- the daemons ---------------------------------------------------------------------------------


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def keep(running):
    """A fixture's: one for the tests of its kind, which leave nothing in it."""
    try:
        running.image = running.use("plain")
        before = running.kept()
        yield running
        left = running.left_since(before)
        assert not left, "left in Docker: " + "; ".join(left)
    finally:
        running.close()


@pytest.fixture(scope="module")
def secure(certificates):
    """Over TLS, for whom the same authority has signed."""
    own, port = certificates / "server", free_port()
    running = docker.Dockerd(options=(
        "-H", f"tcp://127.0.0.1:{port}", "--tlsverify", "--tlscacert", own / "ca.pem", "--tlscert",
        own / "cert.pem", "--tlskey", own / "key.pem"))
    running.tcp = f"tcp://127.0.0.1:{port}"
    running.clients = certificates
    yield from keep(running)


@pytest.fixture(scope="module")
def remapped():
    """With user namespaces, and over TCP for everybody on this machine."""
    port = free_port()
    running = docker.Dockerd(options=("-H", f"tcp://127.0.0.1:{port}"), remap=BASE)
    running.tcp = f"tcp://127.0.0.1:{port}"
    yield from keep(running)


def over_tls(secure, client="good", **more):
    return secure.env(DOCKER_IMAGE=secure.image, DOCKER_HOST=secure.tcp, DOCKER_TLS_VERIFY="1",
                      DOCKER_CERT_PATH=str(secure.clients / client), **more)


def over_tcp(remapped, **more):
    return remapped.env(DOCKER_IMAGE=remapped.image, DOCKER_HOST=remapped.tcp, **more)


# --- TLS, and it works ---------------------------------------------------------------------------


def assert_one_shot(env):
    result = support.run_json("print('Hello')", env=env)
    assert (result["stdout"], result["exit_code"], result.status) == ("Hello\n", 0, 0), result
    assert result.meta["runtime"] == "docker", result


def assert_session(daemon):
    """A session from its first command to its end: all that goes over the one stream."""
    made = daemon.session()["id"]
    assert daemon.exec(made, "cat", stdin="in\n")["stdout"] == "in\n"
    cells = f"/v1/sessions/{made}/code"
    assert daemon.post(cells, {"code": "kept = 6 * 7"})["exit_code"] == 0
    assert daemon.post(cells, {"code": "print(kept)"})["stdout"] == "42\n"

    content = os.urandom(1 << 20) * 4
    daemon.write(made, "/workspace/big", content)
    told = daemon.exec(made, "sha256sum", "/workspace/big")["stdout"]
    assert told.split()[0] == hashlib.sha256(content).hexdigest(), "whole, there"
    assert daemon.read(made, "/workspace/big") == content, "and back"

    code = "open('/tmp/output/table.csv', 'w').write('a,b\\n1,2\\n')"
    assert daemon.python(made, code)["exit_code"] == 0
    assert daemon.asked("GET", f"/v1/sessions/{made}/outputs/table.csv").body == b"a,b\n1,2\n"

    begun = daemon.background(made, "python3", "-c", f"print('x' * {FLOOD}, end='')")["execution_id"]
    ended = daemon.wait(begun)
    assert (ended["exit_code"], ended["stdout_bytes"]) == (0, FLOOD), ended

    for _ in range(4):
        endless = daemon.background(made, "yes")["execution_id"]  # nobody reads it: all is full
        daemon.post(f"/v1/sessions/{made}/processes/{endless}/signal", {"signal": "KILL"})
        ended = daemon.wait(endless)
        assert (ended["signal"], ended["error"]) == (9, None), ended
    result = daemon.exec(made, "sleep", "600", timeout=0.2)
    assert result["meta"]["timed_out"] is True, result
    assert daemon.exec(made, "echo", "still")["stdout"] == "still\n"
    daemon.end(made)


def test_a_run_over_tls(secure):
    assert_one_shot(over_tls(secure))


def test_sessions_over_tls(secure):
    with serve.Daemon(over_tls(secure)) as daemon:
        assert_session(daemon)


def test_streams_over_tls_do_not_end_each_other(secure):
    """Each is a connection of libcurl's own, which closes what it takes for idle."""
    with serve.Daemon(over_tls(secure, DOCKER_POOL_SIZE="1")) as daemon:
        made = [daemon.session()["id"] for _ in range(3)]
        code = "echo ready; read line; echo got $line"
        held = [daemon.background(one, "sh", "-c", code, stdin=True)["execution_id"] for one in made]
        for one in range(3):
            assert daemon.exec(made[one], "echo", str(one))["stdout"] == f"{one}\n"
            daemon.end(daemon.session()["id"])
        assert_one_shot(daemon.env)
        for one, execution in zip(made, held):
            daemon.asked("POST", f"/v1/sessions/{one}/processes/{execution}/stdin", b"word\n")
            assert daemon.wait(execution)["exit_code"] == 0
            assert daemon.output(execution).body == b"ready\ngot word\n"
            daemon.end(one)


def test_commands_that_speak_to_docker_themselves(secure):
    env = over_tls(secure)
    done = support.bailey("doctor", env=env)
    assert secure.ask("GET", "/version")["Version"] in done.stdout and secure.tcp in done.stdout, done
    done = support.bailey("image", "ls", env=env)
    assert done.status == 0, done


def test_without_verification_as_dockers_own_client(secure):
    """DOCKER_CERT_PATH alone is TLS with whoever answers."""
    env = over_tls(secure, "misled")
    del env["DOCKER_TLS_VERIFY"]
    assert_one_shot(env)


# --- TLS, and it does not ------------------------------------------------------------------------


def assert_told(env, *words):
    """By a run, and by a command that speaks to Docker itself; never with a container."""
    result = support.run_json("print('ran')", env=env)
    assert result["exit_code"] == 1 and result["stdout"] == "" and result.status == 125, result
    assert result.error["code"] == "provider_unavailable", result
    for word in (NOT_THERE, env["DOCKER_HOST"], "SANDBOX_TYPE=local", *words):
        assert word in result.error["message"], (word, result.error)
    done = support.bailey("image", "ls", env=env)
    assert done.status == 125, done
    for word in (NOT_THERE, env["DOCKER_HOST"], *words):
        assert word in done.stderr, (word, done)


@pytest.mark.parametrize("client, words", [
    ("misled", ("cannot be verified with", "misled/ca.pem", "Put the ca.pem of the authority that signed")),
    ("unknown", ("unknown' cannot be used", "Put ca.pem")),
    ("bare", ("requires a certificate, and there is no cert.pem in", "cert.pem and key.pem of a client")),
    ("refused", ("does not accept the certificate", "refused/cert.pem", "DOCKER_CERT_PATH")),
    ("mixed", ("mixed' cannot be used", "DOCKER_CERT_PATH")),
    ("no-such-folder", ("no-such-folder' cannot be used", "DOCKER_CERT_PATH")),
])
def test_files_that_do_not_fit(secure, client, words):
    assert_told(over_tls(secure, client), *words)


def test_a_name_that_the_certificate_does_not_have(secure):
    env = {**over_tls(secure), "DOCKER_HOST": secure.tcp.replace("127.0.0.1", "localhost")}
    assert_told(env, "for another name", "'localhost'", "Set DOCKER_HOST to a name")


def test_plain_http_where_tls_is_spoken(secure):
    env = {k: v for k, v in over_tls(secure).items() if k not in ("DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")}
    assert_told(env, "it speaks TLS only", "Set DOCKER_TLS_VERIFY=1 and DOCKER_CERT_PATH")


def test_tls_where_it_is_not_spoken(remapped, certificates):
    env = over_tcp(remapped, DOCKER_TLS_VERIFY="1", DOCKER_CERT_PATH=str(certificates / "good"))
    assert_told(env, "it does not use TLS", "and neither if it does not")


def test_who_asks_for_tls_does_not_get_less(remapped):
    """DOCKER_TLS_VERIFY without certificates, at a daemon that would take plain HTTP."""
    for env in (over_tcp(remapped, DOCKER_TLS_VERIFY="1"),
                {**over_tcp(remapped, DOCKER_TLS_VERIFY="1"),
                 "DOCKER_HOST": remapped.tcp.replace("tcp", "http")}):
        result = support.run_json("print('ran')", env=env)
        assert result.error["code"] == "bad_config" and result["stdout"] == "", result
        assert "DOCKER_TLS_VERIFY" in result.error["message"], result


def test_a_daemon_says_it_for_each_box(secure):
    with serve.Daemon(over_tls(secure, "bare")) as daemon:
        error = daemon.exec(daemon.session()["id"], "true")["meta"]["error"]
        assert error["code"] == "provider_unavailable" and "requires a certificate" in error["message"], error


# --- plain TCP, and user namespaces --------------------------------------------------------------


def test_a_run_over_tcp(remapped):
    assert_one_shot(over_tcp(remapped))


def test_sessions_over_tcp(remapped):
    with serve.Daemon(over_tcp(remapped)) as daemon:
        assert_session(daemon)


INSIDE = r"""
import json, os
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
def owner(path):
    return os.stat(path).st_uid, os.stat(path).st_gid
open("/workspace/mine", "w").close()
print(json.dumps({"map": open("/proc/self/uid_map").read().split(), "gmap": open("/proc/self/gid_map").read().split(),
    "ids": [os.getuid(), os.geteuid(), os.getgid()], "seccomp": status["Seccomp"].strip(),
    "caps": status["CapBnd"].strip(), "warden": os.access("/bailey/bin/bailey", os.X_OK),
    "places": {p: owner(p) for p in ("/tmp", "/workspace", "/home/user", "/workspace/mine")},
    "root": owner("/usr/bin")}))
"""


def test_root_of_a_container_is_nobody_here(remapped):
    """The box as it always is, in a user namespace: read back from inside, from Docker, and from
    the kernel of this machine."""
    assert "name=userns" in remapped.ask("GET", "/info")["SecurityOptions"]
    with serve.Daemon(over_tcp(remapped)) as daemon:
        made = daemon.session()["id"]
        result = daemon.python(made, INSIDE)
        assert result["exit_code"] == 0, result
        inside, isolation = json.loads(result["stdout"]), result["meta"]["isolation"]
        (one,) = remapped.containers(bailey_engine=True)
        about = remapped.inspect(one["Id"])

        assert inside["map"] == inside["gmap"] == ["0", str(BASE), "65536"], inside
        assert about["HostConfig"]["UsernsMode"] == "", "not the host's"
        assert str(BASE) in about["GraphDriver"]["Data"]["MergedDir"], "its layers are the range's"
        assert {"userns", "seccomp", "caps", "mountns"} <= set(isolation["layers"]), isolation
        assert "userns" not in isolation["missing"], isolation

        assert inside["ids"] == [1000, 1000, 1000] and inside["caps"] == "0" * 16, inside
        assert inside["seccomp"] == "2" and inside["warden"] is True, inside
        assert inside["root"] == [0, 0], "its root's, there"
        assert set(map(tuple, inside["places"].values())) == {(1000, 1000)}, inside

        with open(remapped.seen_from_outside(one["Id"], "status")) as file:
            status = dict(line.rstrip("\n").split(":\t", 1) for line in file)
        assert status["Uid"].split() == status["Gid"].split() == [str(BASE + 1000)] * 4, status
        root = remapped.seen_from_outside(one["Id"], "root")
        assert os.stat(f"{root}/usr/bin").st_uid == BASE, "root's there is nobody's here"
        assert os.stat(f"{root}/workspace/mine").st_uid == BASE + 1000
        assert os.stat(f"{root}/bailey/bin/bailey").st_uid == BASE, "nor is the warden root's"
        own = os.stat("/proc/self/ns/user")
        assert os.stat(remapped.seen_from_outside(one["Id"], "ns/user")).st_ino != own.st_ino
        daemon.end(made)


def test_strict_still_lacks_two_ids(remapped):
    result = support.run_json("print(1)", "--isolation", "strict", env=over_tcp(remapped))
    assert result.error["code"] == "refused" and "uid_split" in result.error["message"], result
    assert "userns" not in result.error["message"], result


def test_where_docker_has_none_none_is_named(secure):
    isolation = support.run_json("pass", env=over_tls(secure)).meta["isolation"]
    assert "userns" in isolation["missing"] and "userns" not in isolation["layers"], isolation
