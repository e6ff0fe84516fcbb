"""wheels.py - tiny wheels made by hand, and a package index on the loopback that has them.

    folder = wheels.folder(path, wheels.Wheel("yard", "1.0", {"yard.py": "x = 1\n"}))
    with wheels.Index(folder) as index:
        index.url            # for PIP_INDEX_URL
"""
import base64
import hashlib
import http.server
import threading
import zipfile


class Wheel:
    def __init__(self, name, version, files, needs=()):
        self.name, self.version, self.files, self.needs = name, version, files, needs
        self.file_name = f"{name}-{version}-py3-none-any.whl"

    def write(self, folder):
        """The file; its SHA-256 in hexadecimal."""
        info = f"{self.name}-{self.version}.dist-info"
        files = dict(self.files)
        files[f"{info}/METADATA"] = (f"Metadata-Version: 2.1\nName: {self.name}\n"
                                     f"Version: {self.version}\n" +
                                     "".join(f"Requires-Dist: {need}\n" for need in self.needs))
        files[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        record = "".join(f"{name},{digest(text)},{len(as_bytes(text))}\n"
                         for name, text in files.items())
        files[f"{info}/RECORD"] = record + f"{info}/RECORD,,\n"
        path = folder / self.file_name
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in files.items():
                archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), text)
        return hashlib.sha256(path.read_bytes()).hexdigest()


def as_bytes(text):
    return text if isinstance(text, bytes) else text.encode()


def digest(text):
    raw = hashlib.sha256(as_bytes(text)).digest()
    return "sha256=" + base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def folder(path, *wheels):
    """A folder with these wheels in it; their hashes by name are in `hashes`."""
    path.mkdir(exist_ok=True)
    path.chmod(0o755)
    return {wheel.name: wheel.write(path) for wheel in wheels}


class Index:
    """A simple index (PEP 503) of a folder of wheels, on 127.0.0.1. It answers while its `gate` is
    open, which it is at first; `knocked` is set by the first request."""

    def __init__(self, path):
        asked = self.asked = []
        gate, knocked = self.gate, self.knocked = threading.Event(), threading.Event()
        gate.set()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # noqa: N802  (the name is the library's)
                asked.append(self.path)
                knocked.set()
                gate.wait()
                part = self.path.strip("/").split("/")
                if part[0] == "simple" and len(part) == 2:
                    return self.answer("".join(
                        f'<a href="/files/{one.name}">{one.name}</a>\n'
                        for one in sorted(path.glob("*.whl"))
                        if one.name.split("-")[0] == part[1]).encode(), "text/html")
                one = path / part[-1]
                if part[0] == "files" and one.exists():
                    return self.answer(one.read_bytes(), "application/octet-stream")
                self.send_error(404)

            def answer(self, data, kind):
                try:
                    self.send_response(200)
                    self.send_header("Content-Type", kind)
                    self.send_header("Content-Length", str(len(data)))
                    self.end_headers()
                    self.wfile.write(data)
                except OSError:
                    pass  # who asked has been given up meanwhile

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.host = "127.0.0.1:%d" % self.server.server_address[1]
        self.url = f"http://{self.host}/simple"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.gate.set()
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
