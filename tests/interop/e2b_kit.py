"""e2b_kit.py - a server for E2B's clients, and their tests run with a real package.

The files of clients/e2b are tests that the client's own Python or Node runs, because the packages
need an environment of their own; one run of them is one test here.
"""
import subprocess
from pathlib import Path

import sdk_server
import support
import tenants

CLIENTS = Path(__file__).parent / "clients" / "e2b"


class E2bServer(tenants.Server):
    def __init__(self, settings=None, addresses=(), **rest):
        super().__init__({"SANDBOX_AUTO_INSTALL": "false", **(settings or {})}, addresses=addresses, **rest)
        self.url = f"http://127.0.0.1:{self.port}"
        done = self.bailey("key", "new", "--format", "e2b", "--quiet")
        self.e2b_key = done.stdout.strip()

    def environment(self, **more):
        given = {**support.environment(self.room, {}), "E2B_API_URL": self.url, "E2B_SANDBOX_URL": self.url,
                 "E2B_API_KEY": self.e2b_key, "PYTHONDONTWRITEBYTECODE": "1", **more}
        return {name: value for name, value in given.items() if value is not None}


class DomainServer(E2bServer):
    """With a domain of its own, a wildcard certificate of its own authority, and a hosts file that only its clients have."""

    domain = "sandbox.test"

    def __init__(self):
        room = support.Room()
        self.authority, certificate, key = certified(room.path, f"DNS:{self.domain}", f"DNS:*.{self.domain}")
        self.hosts = room.path / "hosts"
        self.hosts.write_text(f"127.0.0.1 localhost api.{self.domain}\n")
        super().__init__({"SANDBOX_TLS_CERTIFICATE": certificate, "SANDBOX_TLS_KEY": key,
                          "SANDBOX_HOSTS": f"*.{self.domain}"}, room=room)
        self.owns = True

    def environment(self, **more):
        trust = {name: str(self.authority) for name in ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "REQUESTS_CA_BUNDLE")}
        return super().environment(E2B_API_URL=None, E2B_SANDBOX_URL=None,
                                   E2B_DOMAIN=f"{self.domain}:{self.port}", **trust, **more)

    def with_hosts(self, command):
        """The command with this hosts file instead of the machine's."""
        script = 'mount --bind "$0" /etc/hosts && exec "$@"'
        return ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, str(self.hosts), *command]


def certified(folder, *subjects):
    """An authority, and a certificate of it for "DNS:..." and "IP:...": files of the authority, the certificate, its key."""
    def openssl(*argv):
        subprocess.run(["openssl", *map(str, argv)], check=True, capture_output=True)
    ca, ca_key, key, request, certificate, names = (
        folder / name for name in ("ca.pem", "ca.key", "own.key", "own.csr", "own.pem", "names"))
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *curve, "-days", "1", "-subj", "/CN=authority of the test", "-keyout", ca_key, "-out", ca)
    openssl("req", "-new", *curve, "-subj", "/CN=server of the test", "-keyout", key, "-out", request)
    names.write_text(f"subjectAltName={','.join(subjects)}\nextendedKeyUsage=serverAuth\n")
    openssl("x509", "-req", "-in", request, "-CA", ca, "-CAkey", ca_key, "-CAcreateserial", "-days", "1",
            "-extfile", names, "-out", certificate)
    return ca, certificate, key


def run(server, command, **more):
    if hasattr(server, "with_hosts"):
        command = server.with_hosts(command)
    done = subprocess.run(command, env=server.environment(**more), cwd=server.room.path, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    return done.stdout


def run_python(server, row, name, *options, **more):
    """The tests of a file, with the packages of a row of tools/interop-setup."""
    python = sdk_server.interop_cache(row) / row / "bin" / "python"
    told = run(server, [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", *options,
                        str(CLIENTS / f"{name}.py")], **more)
    for line in told.splitlines():
        if line.startswith("SKIPPED"):
            print(line)


def run_node(server, row, name, **more):
    cache = sdk_server.interop_cache(row) / row
    run(server, [sdk_server.newest_node(), "--test", str(CLIENTS / f"{name}.mjs")], E2B_PACKAGES=str(cache), **more)
