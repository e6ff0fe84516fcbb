"""docker_images.py - what is in the images that the tests assemble by themselves; see docker.py."""
import io
import os
import re
import shutil
import stat
import subprocess
import tarfile

import support


class Failed(AssertionError):
    """There is no daemon, or it refused something that has to work."""


FOLDERS = {"bin": 0o755, "dev": 0o755, "etc": 0o755, "home": 0o755, "home/user": 0o755, "lib": 0o755,
           "lib64": 0o755, "proc": 0o555, "root": 0o700, "run": 0o755, "sys": 0o555, "tmp": 0o1777,
           "usr": 0o755, "usr/bin": 0o755, "usr/lib": 0o755, "var": 0o755, "var/tmp": 0o1777,
           "workspace": 0o755}
PASSWD = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
PROGRAMS = """bash sh cat chmod chown cp cut date dd df echo env false find grep head id ln ls mkdir mkfifo mv
nproc od printf pwd readlink rm rmdir sed seq setsid sha256sum sleep sort stat stty tail tee test
timeout touch tr true tty uname wc whoami yes python3""".split()


def put(archive, name, content, mode=0o644):
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def put_folders(archive):
    for name, mode in FOLDERS.items():
        entry = tarfile.TarInfo(name)
        entry.type, entry.mode = tarfile.DIRTYPE, mode
        archive.addfile(entry)
    put(archive, "etc/passwd", PASSWD.encode())
    put(archive, "etc/group", b"root:x:0:\nnogroup:x:65534:\n")


def busybox():
    """A static one; Debian's package busybox-static has it."""
    for path in ("/bin/busybox", "/usr/bin/busybox"):
        if os.path.exists(path) and "not a dynamic" in subprocess.run(
                ["ldd", path], capture_output=True, text=True).stderr:
            return path
    raise Failed("no static busybox on this machine: tools/setup test installs it")


def assemble_bare(archive):
    """A userland without Python and without a C library: one static busybox."""
    put_folders(archive)
    path = busybox()
    archive.add(path, "bin/busybox")
    names = subprocess.run([path, "--list"], capture_output=True, text=True, check=True).stdout
    for name in sorted(set(names.split()) - {"busybox"}):
        entry = tarfile.TarInfo(f"bin/{name}")
        entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
        archive.addfile(entry)


def libraries(path):
    """The shared objects that a program or library is loaded with, as their paths."""
    said = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
    return set(re.findall(r"(/\S+) \(0x", said))


def assemble_plain(archive):
    """This machine's own Python and shell tools with the libraries that they need."""
    put_folders(archive)
    wanted = {}
    for name in PROGRAMS:
        path = shutil.which(name, path="/usr/bin:/bin")
        if path:
            wanted[f"usr/bin/{name}"] = os.path.realpath(path)
    library = subprocess.run(["/usr/bin/python3", "-c", "import os; print(os.path.dirname(os.__file__))"],
                             capture_output=True, text=True, check=True).stdout.strip()
    objects = set().union(*(libraries(path) for path in wanted.values()))
    for folder, names, files in os.walk(library):
        names[:] = [n for n in names if n not in ("__pycache__", "test", "tests", "idlelib", "ensurepip",
                                                  "dist-packages", "lib2to3", "pydoc_data")]
        for name in files:
            path = os.path.join(folder, name)
            if stat.S_ISREG(os.lstat(path).st_mode) and "sitecustomize" not in name:
                archive.add(path, path.lstrip("/"))
                if ".so" in name:
                    objects |= libraries(path)
    for name, path in wanted.items():
        archive.add(path, name)
    for path in objects:
        archive.add(os.path.realpath(path), path.lstrip("/"))
    for name, target in (("bin/sh", "/usr/bin/sh"), ("bin/bash", "/usr/bin/bash"),
                         ("bin/true", "/usr/bin/true"), ("bin/echo", "/usr/bin/echo")):
        entry = tarfile.TarInfo(name)
        entry.type, entry.linkname = tarfile.SYMTYPE, target
        archive.addfile(entry)


def assemble_inside(archive):
    """The same with bailey itself in it, as in a machine where it was installed."""
    assemble_plain(archive)
    engine = support.BAILEY.with_name("bailey-engine")
    archive.add(support.BAILEY, "usr/bin/bailey")
    archive.add(engine, "usr/bin/bailey-engine")
    have = set(archive.getnames())
    for path in sorted(libraries(engine)):
        if path.lstrip("/") not in have:
            archive.add(os.path.realpath(path), path.lstrip("/"))


# name: (its architecture when it is not this machine's, what is in it)
IMAGES = {
    "plain": (None, assemble_plain),
    "bare": (None, assemble_bare),
    "inside": (None, assemble_inside),
    "foreign": ("s390x", assemble_bare),
}
