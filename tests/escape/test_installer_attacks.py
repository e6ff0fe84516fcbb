"""Code of packages while they are installed: it gets neither the passwords of the index nor the network, and what it leaves
in the layer is checked.

The index wants a password, which is in pip's settings of the host. Package code of every kind that runs by itself
(a .pth file, a module that is imported to warm it, a sitecustomize) writes down what it can find, and a later box reads that.
"""
import base64
import json
import sysconfig

import pytest

import serve
import support
import wheels

SECRET = "index-password-4711"
# What each kind does when it runs: looks for the password and for a way out, and says so where it may write.
LOOK = """import os, json, socket
def look(name):
    found = {"environ": dict(os.environ), "files": {}, "reached": []}
    for folder, folders, files in os.walk("/bailey"):
        if folder.startswith(("/bailey/template/lib/python", "/bailey/driver")):
            folders[:] = [f for f in folders if not f.startswith("python")]
        for file in files:
            try:
                text = open(os.path.join(folder, file), encoding="latin-1").read(100000)
            except OSError:
                continue
            if "".join(["%s", "%s"]) in text:
                found["files"][os.path.join(folder, file)] = "password"
    for name_of in os.listdir("/workspace"):
        found["files"]["/workspace/" + name_of] = "is there"
    for port in (3128,):
        with socket.socket() as out:
            out.settimeout(2)
            if out.connect_ex(("127.0.0.1", port)) == 0:
                found["reached"].append(port)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if b"".join([b"%s", b"%s"]) in open("/proc/" + pid + "/environ", "rb").read():
                found["files"]["environ of " + pid] = "password"
        except OSError:
            pass
    for place in ("/bailey/template/seen", "/bailey/packages/seen", "/tmp/seen"):
        try:
            os.makedirs(place, exist_ok=True)
            json.dump(found, open(os.path.join(place, name), "w"))
            return
        except OSError:
            pass
""" % (2 * (SECRET[:5], SECRET[5:]))
RUN = 'import os; exec(open(os.path.join(%r, "spy_look.py")).read() + "\\nlook(%r)", {})\n'


def spy(name, folder):
    """Files that make code run by itself wherever an interpreter begins in this folder."""
    return {"spy_look.py": LOOK, "spy.pth": RUN % (folder, name + "-pth"), "spy.py": "from spy_look import look\nlook('%s-import')\n" % name}


LEAVE = ("import os\n"
         "site = os.path.dirname(__file__)\n"
         "open(os.path.join(site, 'stray.pth'), 'w').write('import os\\n')\n"
         "open(os.path.join(site, 'setuid'), 'w').write('x'); os.chmod(os.path.join(site, 'setuid'), 0o6755)\n"
         "os.symlink('/etc/passwd', os.path.join(site, 'absolute'))\n"
         "os.symlink('../../../../../../etc', os.path.join(site, 'out'))\n"
         "os.mkfifo(os.path.join(site, 'fifo'))\n")


class PrivateIndex(wheels.Index):
    """One that answers only with the password."""

    def __init__(self, path):
        super().__init__(path)
        plain = self.server.RequestHandlerClass.do_GET
        wanted = "Basic " + base64.b64encode(b"user:" + SECRET.encode()).decode()

        def guarded(handler):
            if handler.headers.get("Authorization") == wanted:
                return plain(handler)
            handler.send_response(401)
            handler.send_header("WWW-Authenticate", 'Basic realm="index"')
            handler.send_header("Content-Length", "0")
            handler.end_headers()
            return None

        self.server.RequestHandlerClass.do_GET = guarded
        self.url = f"http://user:{SECRET}@{self.host}/simple"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    path = tmp_path_factory.mktemp("shelf") / "wheels"
    site = "/bailey/template/lib/python%s/site-packages" % sysconfig.get_python_version()
    wheels.folder(path, wheels.Wheel("spy", "1.0", spy("template", site)),
                  wheels.Wheel("second", "1.0", {"second.py": "x = 42\n"}, ["spy"]),
                  wheels.Wheel("leaver", "1.0", {"leaver.py": LEAVE}),
                  wheels.Wheel("keyring", "1.0", {"keyring.py": LOOK + "look('keyring-import')\n"}))
    with PrivateIndex(path) as index:
        with serve.Daemon({"PIP_INDEX_URL": index.url, "SANDBOX_INDEX_HOSTS": index.host,
                           "SANDBOX_AUTO_INSTALL": "true", "SANDBOX_WARM": "false"}) as running:
            running.index = index
            running.post("/v1/templates", {"name": "first", "warm_up": []})  # which starts the egress proxy
            yield running


def seen(daemon, template):
    """What was written down, by name."""
    done = daemon.post("/v1/run", {"template": template, "code": (
        "import json, os\n"
        "folder = '/bailey/template/seen'\n"
        "names = os.listdir(folder) if os.path.isdir(folder) else []\n"
        "print(json.dumps({name: json.load(open(os.path.join(folder, name))) for name in names}))")})
    assert done["exit_code"] == 0, done
    return json.loads(done["stdout"])


def harmless(found):
    assert SECRET not in json.dumps(found), found
    for name, what in found.items():
        assert "password" not in what["files"].values(), (name, what)
        assert what["reached"] == [], (name, what)
        assert not [path for path in what["files"] if "pip" in path], (name, what)
        assert not [word for word in what["environ"] if word.lower().endswith("_proxy")], (name, what)


def test_78_a_module_that_is_warmed_and_a_pth_file(daemon):
    daemon.post("/v1/templates", {"name": "spy", "packages": ["spy", "keyring"], "warm_up": ["spy", "keyring"]})
    assert any("/spy" in path for path in daemon.index.asked), "it came from the index, with the password"
    found = seen(daemon, "spy")
    assert {"template-import", "keyring-import"} <= set(found), "they ran"
    harmless(found)


def test_78_compiling_runs_nothing(daemon):
    """Without a module to warm no interpreter begins that would run the .pth file."""
    daemon.post("/v1/templates", {"name": "quiet", "packages": ["spy"], "warm_up": []})
    assert seen(daemon, "quiet") == {}


def test_78_code_of_a_template_while_a_session_installs(daemon):
    """pip looks at what the template has, and at nothing of it that is code (pip would use a `keyring`)."""
    daemon.post("/v1/templates", {"name": "both", "packages": ["spy", "keyring"], "warm_up": []})
    session = daemon.session(template="both")["id"]
    done = daemon.post(f"/v1/sessions/{session}/code", {"code": "import second; print(second.x)"})
    assert done["stdout"] == "42\n", done
    names = daemon.exec(session, "sh", "-c", "ls /bailey/packages; cat /bailey/packages/seen/* 2>/dev/null")["stdout"]
    assert "second.py" in names and "spy.py" not in names, "what the template has is not fetched again"
    assert "seen" not in names and SECRET not in names, names
    daemon.end(session)


def test_78_what_it_leaves_in_the_layer(daemon):
    daemon.post("/v1/templates", {"name": "leaver", "packages": ["leaver", "spy"], "warm_up": ["leaver"]})
    done = daemon.post("/v1/run", {"template": "leaver", "code": (
        "import os, stat, sysconfig\n"
        "site = sysconfig.get_path('purelib')\n"
        "print(sorted(n for n in os.listdir(site) if n.endswith('.pth') or n in ('absolute', 'out', 'fifo')))\n"
        "print(oct(os.stat(os.path.join(site, 'setuid')).st_mode & 0o7777))")})
    assert done["stdout"] == "['spy.pth']\n0o555\n", done
